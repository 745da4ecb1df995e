from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping

import attrs
import pytest
from fractioning_core.errors import InvalidInput, Misuse
from fractioning_core.service import settings
from fractioning_core.service.addresses import Address
from fractioning_core.service.problems import BadSettings


def refuse_spaces(text: str) -> None:
    if " " in text:
        raise ValueError("it has a space; accepted: text without spaces")


def refuse_root(text: str) -> None:
    if text == "/":
        raise InvalidInput("the root directory; accepted: a directory below it")


@attrs.frozen
class Settings:
    """One field of every kind."""

    name: str = settings.string(
        "name", env="NAME", default="demo", check=refuse_spaces, group="Names", help="what it is called"
    )
    index: str = settings.string(
        "index", default="10", pattern="[0-9]{2}", accepted="two digits", group="Names", help="its place"
    )
    map_dir: str = settings.path(
        "map-dir", env="MAP_DIR", default="/map", check=refuse_root, group="Operation", help="where records lie"
    )
    fail_open: bool = settings.boolean(
        "fail-open", env="FAIL_OPEN", default=False, group="Operation", help="let it pass"
    )
    port: int = settings.integer(
        "port", env="PORT", default=8093, minimum=0, maximum=65535, group="Operation", help="0 = off"
    )
    stop_timeout_seconds: float = settings.duration(
        "stop-timeout", env="STOP_TIMEOUT", default=300.0, group="Operation", help="grace"
    )
    level: str = settings.choice(
        "log-level", choices=("debug", "info"), default="info", group="Operation", help="least level"
    )
    dirs: tuple[str, ...] = settings.strings("dirs", env="DIRS", default=(), group="Operation", help="where to look")


USAGE = """\
usage: demo [flags]

A flag beats its environment variable, which beats the default. An empty variable counts as unset.

Names:
  --name string
        what it is called
        default demo, environment NAME
  --index string
        its place
        default 10

Operation:
  --map-dir path
        where records lie
        default /map, environment MAP_DIR
  --fail-open
        let it pass
        default false, environment FAIL_OPEN
  --port int
        0 = off
        default 8093, environment PORT
  --stop-timeout duration
        grace
        default 5m, environment STOP_TIMEOUT
  --log-level debug|info
        least level
        default info
  --dirs list
        where to look
        default "", environment DIRS

Other:
  --help, -h
        print this text
  --version
        print the version
"""


def load(*argv: str, **environ: str) -> Settings:
    return settings.load(Settings, program="demo", version="1.2.3", argv=argv, environ=environ)


def problems_of(*argv: str, **environ: str) -> list[str]:
    with pytest.raises(BadSettings) as caught:
        load(*argv, **environ)
    return str(caught.value).splitlines()


class TestLoad:
    def test_defaults(self) -> None:
        """With nothing said, a service starts with the defaults of its class."""
        loaded = load()

        assert (
            Settings(
                name="demo",
                index="10",
                map_dir="/map",
                fail_open=False,
                port=8093,
                stop_timeout_seconds=300.0,
                level="info",
                dirs=(),
            )
            == Settings()
            == loaded
        )

    def test_flags(self) -> None:
        """Every kind can be set by its flag."""
        loaded = load(
            *("--name=n", "-index", "11", "--map-dir", "/m", "--fail-open", "-port=1"),
            *("--stop-timeout", "1m30s", "--log-level=debug", "--dirs=/a,/b"),
        )

        assert Settings("n", "11", "/m", True, 1, 90.0, "debug", ("/a", "/b")) == loaded

    def test_environment(self) -> None:
        """A variable sets what it belongs to, in the same grammar."""
        loaded = load(NAME="n", MAP_DIR="/m", FAIL_OPEN="T", PORT="1", STOP_TIMEOUT="250ms", DIRS="/a")

        assert Settings("n", map_dir="/m", fail_open=True, port=1, stop_timeout_seconds=0.25, dirs=("/a",)) == loaded

    def test_empty_variable(self) -> None:
        """An empty variable counts as unset."""
        loaded = load(NAME="", PORT="", FAIL_OPEN="")

        assert Settings() == loaded

    def test_empty_flag(self) -> None:
        """An empty flag is a value, even over a variable."""
        loaded = load("--name=", NAME="n")

        assert Settings(name="") == loaded

    def test_flag_above_variable(self) -> None:
        """A flag beats its variable, which is then not looked at."""
        loaded = load("--port=1", PORT="nonsense")

        assert Settings(port=1) == loaded

    def test_last_flag(self) -> None:
        """Of a flag given twice the last one wins."""
        loaded = load("--fail-open", "--port=1", "--port=2", "--fail-open=false")

        assert Settings(port=2) == loaded

    def test_all_problems(self) -> None:
        """All mistakes of flags and environment are told at once, one line each."""
        problems = problems_of(
            *("--stop-timeout=30", "--prot=1", "--fail-open", "false", "--index=x", "--name"),
            PORT="80x",
            MAP_DIR="m",
        )

        assert [
            '"--prot": unknown flag; did you mean --port?',
            '"false": unexpected argument; accepted: --fail-open=true or --fail-open=false, in one argument',
            "--name: needs a value; accepted: --name=value or --name value",
            '--index: "x" does not fit; accepted: two digits',
            'MAP_DIR: "m" is not an absolute path; accepted: a path that starts with /',
            'PORT: "80x" is not a whole number; accepted: a whole number from 0 to 65535',
            '--stop-timeout: "30" is not a duration; accepted: a number with a unit, such as 30s, 1m30s or 250ms',
        ] == problems

    def test_malformed_flag_before_a_good_one(self) -> None:
        """A malformed flag is a mistake even where a later one would win, as in Go."""
        problems = problems_of("--port=x", "--port=1")

        assert ['--port: "x" is not a whole number; accepted: a whole number from 0 to 65535'] == problems

    @pytest.mark.parametrize(
        ("argv", "expected"),
        [
            pytest.param(
                ["--name=a b"],
                '--name: "a b" is refused: it has a space; accepted: text without spaces',
                id="a check without the value gets it added",
            ),
            pytest.param(
                ["--map-dir=/"],
                "--map-dir: the root directory; accepted: a directory below it",
                id="a check with a full message is taken as it is",
            ),
        ],
    )
    def test_check(self, argv: list[str], expected: str) -> None:
        """What a check refuses is a mistake like any other."""
        problems = problems_of(*argv)

        assert [expected] == problems

    def test_forged_lines(self) -> None:
        """A value with line breaks stays on its one line, cut."""
        problems = problems_of("--port", "1\nPORT: all is well" + "x" * 1000)

        assert 1 == len(problems)
        assert len(problems[0]) < 250

    @pytest.mark.parametrize(
        ("argv", "expected"),
        [
            pytest.param(["--help"], USAGE, id="help"),
            pytest.param(["--nonsense", "-h"], USAGE, id="help next to a mistake"),
            pytest.param(["--version"], "demo 1.2.3\n", id="version"),
        ],
    )
    def test_questions(self, argv: list[str], expected: str) -> None:
        """Help and version are answered instead of a start, whatever else is wrong."""
        with pytest.raises(settings.Answered) as caught:
            load(*argv, PORT="nonsense")

        assert expected == caught.value.text


@attrs.frozen
class Pair:
    """Two settings that may not be equal, one of them with a value that an empty text stands for."""

    left: str = settings.string(
        "left", env="LEFT", default="a", pattern="[a-z]?", help="", normalize=lambda text: text or "a"
    )
    right: str = settings.string("right", env="RIGHT", default="b", pattern="[a-z]", help="")
    seconds: float = settings.duration("seconds", default=5.0, help="", normalize=lambda seconds: max(2.0, seconds))
    listen: Address = settings.address(  # noqa: RUF009 - declares the field
        "listen", default=Address("::", 8080), help="", off="0"
    )

    @classmethod
    def conflicts(cls, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        """Refuse equal letters."""
        if values.get("left") == values.get("right"):
            yield "right", "is the same as left; accepted: another letter"


def pair(*argv: str, **environ: str) -> Pair:
    return settings.load(Pair, program="demo", version="1", argv=argv, environ=environ)


class TestNormalize:
    def test_value_meant(self) -> None:
        """A value that is accepted may stand for another."""
        loaded = pair("--left=", "--seconds=0s", "--listen=0")

        assert Pair(left="a", right="b", seconds=2.0, listen=Address("::", 0)) == loaded


class TestConflicts:
    @pytest.mark.parametrize(
        ("argv", "environ", "source"),
        [
            pytest.param(["--right=a"], {}, "--right", id="by flag"),
            pytest.param([], {"RIGHT": "a"}, "RIGHT", id="by variable"),
            pytest.param(["--left=b"], {}, "--right", id="with a default"),
            pytest.param(["--left=", "--right=a"], {}, "--right", id="with the value meant"),
        ],
    )
    def test_values_that_do_not_go_together(self, argv: list[str], environ: dict[str, str], source: str) -> None:
        """What a class says about its values together is a mistake of whatever set the value."""
        with pytest.raises(BadSettings) as caught:
            pair(*argv, **environ)

        assert f"{source}: is the same as left; accepted: another letter" == str(caught.value)

    def test_beside_other_mistakes(self) -> None:
        """Conflicts are told together with malformed values, which take no part in them."""
        with pytest.raises(BadSettings) as caught:
            pair("--right=a", "--seconds=x")
        with pytest.raises(BadSettings) as alone:
            pair("--right=a", "--left=1")

        assert ["--seconds", "--right"] == [problem.source for problem in caught.value.problems]
        assert ["--left"] == [problem.source for problem in alone.value.problems]


class TestDeclarations:
    def test_shared_names(self) -> None:
        """A class that declares a flag or a variable twice, or takes a flag of ours, is a bug."""

        @attrs.frozen
        class Clashing:
            a: bool = settings.boolean("same", env="SAME", default=False, help="")
            b: bool = settings.boolean("same", env="SAME", default=False, help="")
            c: bool = settings.boolean("help", default=False, help="")

        with pytest.raises(Misuse, match="declares more than once: help, same, SAME"):
            settings.load(Clashing, program="demo", version="1", argv=[], environ={})

    def test_other_fields(self) -> None:
        """A field that is no setting keeps its own default."""

        @attrs.frozen
        class Mixed:
            a: bool = settings.boolean("a", default=False, help="")
            b: int = 7

        loaded = settings.load(Mixed, program="demo", version="1", argv=["--a"], environ={})

        assert Mixed(a=True, b=7) == loaded


PROGRAM = """
import attrs
from fractioning_core.service import settings

@attrs.frozen
class Settings:
    port: int = settings.integer("port", env="PORT", default=1, help="")

print(settings.parse_or_exit(Settings, program="demo", version="1.2.3"))
"""


MISTAKES = """\
"x": unexpected argument
PORT: "y" is not a whole number; accepted: a whole number
demo --help lists every setting
"""


class TestParseOrExit:
    @pytest.mark.parametrize(
        ("argv", "environ", "expected"),
        [
            pytest.param(["--port=2"], {}, (0, "Settings(port=2)\n", ""), id="flag"),
            pytest.param([], {"PORT": "3"}, (0, "Settings(port=3)\n", ""), id="environment"),
            pytest.param(["--version"], {}, (0, "demo 1.2.3\n", ""), id="version"),
            pytest.param(
                ["x"],
                {"PORT": "y"},
                (2, "", MISTAKES),
                id="mistakes",
            ),
        ],
    )
    def test_process(self, argv: list[str], environ: dict[str, str], expected: tuple[int, str, str]) -> None:
        """A process goes on with its settings, or ends: 0 with an answer on stdout, 2 with the mistakes on stderr."""
        done = subprocess.run(  # noqa: S603 - our own interpreter and our own text
            [sys.executable, "-c", PROGRAM, *argv],
            env=os.environ | environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )

        assert expected == (done.returncode, done.stdout, done.stderr)
