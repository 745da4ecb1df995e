"""What a service can be told, declared once as a class and read from flags, environment and defaults.

A service declares a frozen attrs class whose fields are made by the functions below; `parse_or_exit` fills it. A flag
beats the environment, which beats the default, and an environment variable that is empty counts as unset. Whatever is
malformed stops the start, with one line for each mistake: falling back to a default would let a typo switch an
enforcement off unseen. The environment behind a flag that was given is not looked at, since nothing comes of it.

A class may also say which values do not go together, in a class method `conflicts`; see `Conflicting`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar, runtime_checkable

import attrs

from fractioning_core.errors import InvalidInput
from fractioning_core.service import commandline, declarations, kinds, usage
from fractioning_core.service.addresses import Address
from fractioning_core.service.commandline import CommandLine
from fractioning_core.service.declarations import Setting
from fractioning_core.service.problems import BadSettings, Problem

T = TypeVar("T")
S = TypeVar("S", bound=attrs.AttrsInstance)

EXIT_BAD_SETTINGS = 2
"""What Go's `flag` package exits with, too."""


@attrs.frozen(auto_exc=False)
class Answered(Exception):  # noqa: N818 - nothing failed: the caller asked a question and this is the answer
    """
    The arguments ask for help or the version instead of a start.
    """

    text: str


@runtime_checkable
class Conflicting(Protocol):
    """
    A settings class that looks at its values together.
    """

    def conflicts(self, values: Mapping[str, object]) -> Iterable[tuple[str, str]]:
        """
        Say which attributes are wrong beside the others, and why, with the accepted form.

        Args:
            values: By attribute; those that are malformed by themselves are left out.
        """


def string(  # noqa: PLR0913 - all but the first are named where it is called
    flag: str,
    *,
    default: str,
    help: str,  # noqa: A002 - reads as what it is; the builtin is of no use here
    group: str = "Settings",
    env: str | None = None,
    pattern: str | None = None,
    accepted: str | None = None,
    check: Callable[[str], object] | None = None,
    normalize: Callable[[str], str] | None = None,
) -> str:
    """
    Declare a text, which must match a pattern whole where one is given.
    """
    kind = kinds.string(pattern, accepted)
    return _field(
        Setting(flag, kind=kind, default=default, help=help, group=group, env=env, check=check, normalize=normalize)
    )


def path(
    flag: str,
    *,
    default: str,
    help: str,  # noqa: A002 - as above
    group: str = "Settings",
    env: str | None = None,
    check: Callable[[str], object] | None = None,
) -> str:
    """
    Declare an absolute path.
    """
    return _field(Setting(flag, kind=kinds.path(), default=default, help=help, group=group, env=env, check=check))


def boolean(
    flag: str,
    *,
    default: bool,
    help: str,  # noqa: A002 - as above
    group: str = "Settings",
    env: str | None = None,
) -> bool:
    """
    Declare a switch: `--flag`, `--flag=true` or `--flag=false`.
    """
    return _field(Setting(flag, kind=kinds.boolean(), default=default, help=help, group=group, env=env, check=None))


def integer(
    flag: str,
    *,
    default: int,
    help: str,  # noqa: A002 - as above
    group: str = "Settings",
    env: str | None = None,
    minimum: int | None = None,
    maximum: int | None = None,
    check: Callable[[int], object] | None = None,
) -> int:
    """
    Declare a whole number; both bounds are allowed values.
    """
    kind = kinds.integer(minimum, maximum)
    return _field(Setting(flag, kind=kind, default=default, help=help, group=group, env=env, check=check))


def duration(  # noqa: PLR0913 - as above
    flag: str,
    *,
    default: float,
    help: str,  # noqa: A002 - as above
    group: str = "Settings",
    env: str | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    check: Callable[[float], object] | None = None,
    normalize: Callable[[float], float] | None = None,
) -> float:
    """
    Declare a duration; value and bounds are seconds, the text has a unit.
    """
    kind = kinds.duration(minimum, maximum)
    return _field(
        Setting(flag, kind=kind, default=default, help=help, group=group, env=env, check=check, normalize=normalize)
    )


def address(
    flag: str,
    *,
    default: Address,
    help: str,  # noqa: A002 - as above
    group: str = "Settings",
    env: str | None = None,
    off: str | None = None,
) -> Address:
    """
    Declare an address to listen on; the text `off`, where one is given, means nowhere.
    """
    kind = kinds.address(off)
    return _field(Setting(flag, kind=kind, default=default, help=help, group=group, env=env, check=None))


def choice(
    flag: str,
    *,
    choices: Sequence[str],
    default: str,
    help: str,  # noqa: A002 - as above
    group: str = "Settings",
    env: str | None = None,
) -> str:
    """
    Declare one of a few words.
    """
    kind = kinds.choice(choices)
    return _field(Setting(flag, kind=kind, default=default, help=help, group=group, env=env, check=None))


def strings(
    flag: str,
    *,
    default: tuple[str, ...],
    help: str,  # noqa: A002 - as above
    group: str = "Settings",
    env: str | None = None,
    check: Callable[[tuple[str, ...]], object] | None = None,
) -> tuple[str, ...]:
    """
    Declare a list of texts, separated by commas.
    """
    return _field(Setting(flag, kind=kinds.strings(), default=default, help=help, group=group, env=env, check=check))


def load(cls: type[S], *, program: str, version: str, argv: Sequence[str], environ: Mapping[str, str]) -> S:
    """
    Fill a settings class.

    Args:
        cls: A frozen attrs class whose fields are declared by this module.
        program: Name for the help.
        version: Version to answer with.
        argv: The arguments behind the program's name.
        environ: The environment.

    Raises:
        BadSettings: With every mistake at once.
        Answered: The arguments ask for help or the version.
    """
    declared = declarations.declared(cls)
    line = commandline.read(argv, {setting.flag: setting.kind.is_switch for setting in declared.values()})
    if line.asks_help:
        raise Answered(usage.render(program, declared.values()))
    if line.asks_version:
        raise Answered(f"{program} {version}\n")
    values = {name: setting.default for name, setting in declared.items()}
    sources = {name: f"--{setting.flag}" for name, setting in declared.items()}
    problems = list(line.problems)
    for name, setting in declared.items():
        for source, text in _iter_texts(setting, line, environ):
            sources[name] = source
            try:
                values[name] = setting.read(text)
            except InvalidInput as refusal:
                values.pop(name, None)
                problems.append(Problem(source, str(refusal)))
    if isinstance(cls, Conflicting):
        problems += [Problem(sources[name], text) for name, text in cls.conflicts(values)]
    if problems:
        raise BadSettings(tuple(problems))
    return cls(**values)


def parse_or_exit(cls: type[S], *, program: str, version: str) -> S:
    """
    Fill a settings class from this process, or end it: 0 after an answer, 2 with the mistakes on stderr.
    """
    try:
        return load(cls, program=program, version=version, argv=sys.argv[1:], environ=os.environ)
    except Answered as answer:
        sys.stdout.write(answer.text)
        sys.exit(0)
    except BadSettings as bad:
        sys.stderr.write(f"{bad}\n{program} --help lists every setting\n")
        sys.exit(EXIT_BAD_SETTINGS)


def _field(setting: Setting[T]) -> T:
    return attrs.field(default=setting.default, metadata={declarations.METADATA_KEY: setting})


def _iter_texts(setting: Setting[object], line: CommandLine, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """
    Yield what decides a setting, with its source: each text of its flag in order, so that the last wins and every one
    of them must be right, as in Go; else the variable.
    """
    if setting.flag in line.given:
        for text in line.given[setting.flag]:
            yield f"--{setting.flag}", text
    elif setting.env is not None and environ.get(setting.env):
        yield setting.env, environ[setting.env]
