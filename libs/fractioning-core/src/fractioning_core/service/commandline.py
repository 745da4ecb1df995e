"""Arguments to flags, in the grammar of Go's `flag` package.

`--x v`, `--x=v`, `-x v` and `-x=v` mean the same; a switch takes a value only behind `=`; `--` ends the flags. So
manifests and habits made for Go programs keep working. Unlike there, reading goes on after a mistake, so that all of
them are known at once, and an argument that is no flag is a mistake, because none of our programs takes one.
"""

from __future__ import annotations

import difflib
from collections import deque
from collections.abc import Mapping, Sequence

import attrs

from fractioning_core.errors import shown
from fractioning_core.service.problems import Problem

HELP = frozenset({"help", "h"})
VERSION = "version"

_COMPARED_LENGTH = 64
"""Finding the closest flag takes quadratic time, so a longer name is compared by its beginning."""


@attrs.frozen
class CommandLine:
    """
    What the arguments say.

    Args:
        given: Flag to its texts in the order given.
        problems: Mistakes of grammar; values are not looked at here.
        asks_help: Help is wanted, whatever else stands there.
        asks_version: The version is wanted.
    """

    given: Mapping[str, Sequence[str]]
    problems: tuple[Problem, ...]
    asks_help: bool
    asks_version: bool


def read(argv: Sequence[str], switches: Mapping[str, bool]) -> CommandLine:
    """
    Read arguments.

    Args:
        argv: The arguments behind the program's name.
        switches: Every flag there is, and whether it is a switch.
    """
    reader = _Reader(deque(argv), switches)
    while reader.rest:
        reader.read_next()
    return CommandLine(
        given=reader.given,
        problems=tuple(reader.problems),
        asks_help=not HELP.isdisjoint(reader.asked),
        asks_version=VERSION in reader.asked,
    )


@attrs.define
class _Reader:
    rest: deque[str]
    switches: Mapping[str, bool]
    given: dict[str, list[str]] = attrs.field(factory=dict, init=False)
    problems: list[Problem] = attrs.field(factory=list, init=False)
    asked: set[str] = attrs.field(factory=set, init=False)
    bare_switch: str | None = attrs.field(default=None, init=False)

    def read_next(self) -> None:
        argument = self.rest.popleft()
        bare_switch, self.bare_switch = self.bare_switch, None
        if argument == "--":
            while self.rest:
                self._refuse_positional(self.rest.popleft(), None)
        elif len(argument) < 2 or not argument.startswith("-"):
            self._refuse_positional(argument, bare_switch)
        else:
            self._read_flag(argument)

    def _read_flag(self, argument: str) -> None:
        name, equals, value = argument.removeprefix("-").removeprefix("-").partition("=")
        if not name or name.startswith("-"):
            self._refuse(shown(argument), "not a flag; accepted: --name or --name=value")
        elif name in self.switches:
            self._give(name, value if equals else None)
        elif name in HELP or name == VERSION:
            self.asked.add(name)
        else:
            self._refuse_unknown(name, takes_next=not equals)

    def _give(self, name: str, value: str | None) -> None:
        if value is None and self.switches[name]:
            value, self.bare_switch = "true", name
        elif value is None and self.rest:
            # Even when it looks like a flag, as in Go: a negative number does too.
            value = self.rest.popleft()
        if value is None:
            self._refuse(f"--{name}", f"needs a value; accepted: --{name}=value or --{name} value")
        else:
            self.given.setdefault(name, []).append(value)

    def _refuse_unknown(self, name: str, *, takes_next: bool) -> None:
        close = difflib.get_close_matches(name[:_COMPARED_LENGTH], self.switches, n=1)
        hint = f"did you mean --{close[0]}?" if close else "--help lists those there are"
        self._refuse(shown(f"--{name}"), f"unknown flag; {hint}")
        # What follows a mistyped flag is most likely its value, not a second mistake.
        if takes_next and self.rest and not self.rest[0].startswith("-"):
            self.rest.popleft()

    def _refuse_positional(self, argument: str, bare_switch: str | None) -> None:
        switch = f"--{bare_switch}"
        hint = f"; accepted: {switch}=true or {switch}=false, in one argument" if bare_switch else ""
        self._refuse(shown(argument), f"unexpected argument{hint}")

    def _refuse(self, source: str, text: str) -> None:
        self.problems.append(Problem(source, text))
