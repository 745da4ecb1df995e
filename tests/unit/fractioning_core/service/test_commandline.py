from __future__ import annotations

import pytest
from fractioning_core.service import commandline
from fractioning_core.service.problems import Problem
from hypothesis import given
from hypothesis import strategies as st

SWITCHES = {"map-dir": False, "max-retries": False, "fail-open": True}


def problems_of(*argv: str) -> list[str]:
    return [str(problem) for problem in commandline.read(argv, SWITCHES).problems]


class TestRead:
    @pytest.mark.parametrize(
        ("argv", "expected"),
        [
            pytest.param([], {}, id="nothing"),
            pytest.param(["--map-dir", "/m"], {"map-dir": ["/m"]}, id="two dashes and next argument"),
            pytest.param(["--map-dir=/m"], {"map-dir": ["/m"]}, id="two dashes and equals"),
            pytest.param(["-map-dir", "/m"], {"map-dir": ["/m"]}, id="one dash and next argument"),
            pytest.param(["-map-dir=/m"], {"map-dir": ["/m"]}, id="one dash and equals"),
            pytest.param(["--map-dir="], {"map-dir": [""]}, id="empty behind equals"),
            pytest.param(["--map-dir", ""], {"map-dir": [""]}, id="empty argument"),
            pytest.param(["--map-dir=a=b"], {"map-dir": ["a=b"]}, id="only the first equals counts"),
            pytest.param(["--max-retries", "-1"], {"max-retries": ["-1"]}, id="a value may begin with a dash"),
            pytest.param(["--map-dir", "--"], {"map-dir": ["--"]}, id="a value may be two dashes"),
            pytest.param(["--map-dir=a", "--map-dir=b"], {"map-dir": ["a", "b"]}, id="repeated flags keep their order"),
            pytest.param(["--fail-open"], {"fail-open": ["true"]}, id="bare switch"),
            pytest.param(["--fail-open=false"], {"fail-open": ["false"]}, id="switch with a value"),
            pytest.param(
                ["--fail-open", "--map-dir", "/m"],
                {"fail-open": ["true"], "map-dir": ["/m"]},
                id="a switch does not take the next argument",
            ),
            pytest.param(["--fail-open", "--"], {"fail-open": ["true"]}, id="two dashes with nothing behind"),
        ],
    )
    def test_given(self, argv: list[str], expected: dict[str, list[str]]) -> None:
        """Flags are read in every form that Go's flag package knows."""
        line = commandline.read(argv, SWITCHES)

        assert (expected, ()) == (line.given, line.problems)

    @pytest.mark.parametrize(
        ("argv", "expected"),
        [
            pytest.param(
                ["--map-dr=/m"], ['"--map-dr": unknown flag; did you mean --map-dir?'], id="close to a known flag"
            ),
            pytest.param(["--xyz"], ['"--xyz": unknown flag; --help lists those there are'], id="close to none"),
            pytest.param(
                ["--map-dr", "/m", "--xyz"],
                [
                    '"--map-dr": unknown flag; did you mean --map-dir?',
                    '"--xyz": unknown flag; --help lists those there are',
                ],
                id="the value of an unknown flag is no second mistake",
            ),
            pytest.param(
                ["--map-dir"],
                ["--map-dir: needs a value; accepted: --map-dir=value or --map-dir value"],
                id="value missing",
            ),
            pytest.param(
                ["---map-dir"], ['"---map-dir": not a flag; accepted: --name or --name=value'], id="three dashes"
            ),
            pytest.param(["--=x"], ['"--=x": not a flag; accepted: --name or --name=value'], id="no name"),
            pytest.param(["run"], ['"run": unexpected argument'], id="positional"),
            pytest.param(["-"], ['"-": unexpected argument'], id="a dash alone"),
            pytest.param([""], ['"": unexpected argument'], id="an empty argument"),
            pytest.param(
                ["--fail-open", "false"],
                ['"false": unexpected argument; accepted: --fail-open=true or --fail-open=false, in one argument'],
                id="value of a switch as an argument of its own",
            ),
            pytest.param(
                ["--", "--map-dir=/m", "x"],
                ['"--map-dir=/m": unexpected argument', '"x": unexpected argument'],
                id="arguments behind two dashes",
            ),
            pytest.param(["a\nb"], ['"a\\nb": unexpected argument'], id="a line break is escaped"),
        ],
    )
    def test_problems(self, argv: list[str], expected: list[str]) -> None:
        """Every mistake is one line that names the argument and what would be right."""
        problems = problems_of(*argv)

        assert expected == problems

    def test_flags_behind_a_mistake(self) -> None:
        """Reading goes on after a mistake."""
        line = commandline.read(["oops", "--map-dir=/m"], SWITCHES)

        assert ({"map-dir": ["/m"]}, (Problem('"oops"', "unexpected argument"),)) == (line.given, line.problems)

    @pytest.mark.parametrize(
        ("argv", "expected"),
        [
            pytest.param(["--help"], (True, False), id="help"),
            pytest.param(["-h"], (True, False), id="h"),
            pytest.param(["--fail-open", "-help"], (True, False), id="help behind a flag"),
            pytest.param(["--version"], (False, True), id="version"),
            pytest.param(["--map-dir", "--help"], (False, False), id="help as a value"),
            pytest.param(["--", "--help"], (False, False), id="help behind two dashes"),
        ],
    )
    def test_questions(self, argv: list[str], expected: tuple[bool, bool]) -> None:
        """Help and version are asked for where a flag can stand."""
        line = commandline.read(argv, SWITCHES)

        assert expected == (line.asks_help, line.asks_version)

    def test_long_unknown_flag(self) -> None:
        """A very long name is cut in the message and costs no time to compare."""
        (problem,) = problems_of("--map-dir" + "x" * 1_000_000)

        assert len(problem) < 200

    @given(
        st.lists(st.sampled_from(["--map-dir", "--fail-open", "-h", "--", "-", "x", "=", "--map-dir=1", "--nope", ""]))
    )
    def test_any_arguments(self, argv: list[str]) -> None:
        """Any arguments are read to the end without an exception."""
        line = commandline.read(argv, SWITCHES)

        assert set(line.given) <= set(SWITCHES)
