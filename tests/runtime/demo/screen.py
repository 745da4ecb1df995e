"""
What the demo shows, laid out for a person: 100 columns of plain text, numbered steps with their times, tables.
"""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import attrs

WIDTH = 100
INDENT = "  "
GAP = "  "
NOTHING = "-"


def wrap(text: str, indent: str = INDENT, *, hanging: str = "") -> list[str]:
    """
    Break a text into lines that fit; no word is cut, no word is lost.

    Args:
        text: What is to be shown.
        indent: What every line begins with.
        hanging: What every line but the first has behind that.
    """
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )


def cut(line: str) -> str:
    """
    Shorten a line that does not fit and cannot be wrapped.
    """
    return line if len(line) <= WIDTH else f"{line[: WIDTH - 1]}…"


def columns(rows: Sequence[Sequence[str]], indent: str = INDENT) -> list[str]:
    """
    Align rows in columns, each as wide as its longest cell; an empty cell shows as a dash.
    """
    shown = [[cell or NOTHING for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*shown, strict=True)]
    return [indent + GAP.join(map(str.ljust, row, widths)).rstrip() for row in shown]


@attrs.define
class Checks:
    """
    What the demo claims, and whether it is so.
    """

    held: int = 0
    failures: list[str] = attrs.field(factory=list)

    def expect(self, what: str, *, expected: object, seen: object) -> str | None:
        """
        Compare a fact with the claim about it.

        Returns:
            What to tell where they differ.
        """
        if expected == seen:
            self.held += 1
            return None
        failure = f"{what}: expected {expected}, seen {seen}"
        self.failures.append(failure)
        return failure


class Screen:
    """
    Writes to a stream at once, and counts steps and checks.

    Args:
        out: Where to write.
        steps: How many steps there will be.
    """

    def __init__(self, out: TextIO, *, steps: int) -> None:
        self.checks = Checks()
        self._out = out
        self._steps = steps
        self._step = 0
        self._directory = ""

    def abbreviate(self, directory: object) -> None:
        """
        Show this directory as DIR from now on.
        """
        self._directory = str(directory)

    def say(self, text: str = "", *, hanging: str = "") -> None:
        """
        Show a paragraph.
        """
        self.lines(wrap(self._short(text), hanging=hanging) or [""])

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """
        Show rows in columns, the first being their heads.
        """
        self.lines(columns([[self._short(cell) for cell in row] for row in rows]))

    def lines(self, lines: Sequence[str]) -> None:
        """
        Show lines as they are.
        """
        for line in lines:
            print(line, file=self._out, flush=True)

    def expect(self, what: str, *, expected: object, seen: object) -> bool:
        """
        Check a claim, and say so where it does not hold.

        Returns:
            Whether it holds.
        """
        failure = self.checks.expect(what, expected=expected, seen=seen)
        if failure:
            self.say(f"NOT AS EXPECTED: {failure}", hanging="  ")
        return failure is None

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """
        Show a step's title, what is shown inside, and how long it took.
        """
        self._step += 1
        held, failed, started = self.checks.held, len(self.checks.failures), time.monotonic()
        self.lines([f"[{self._step}/{self._steps}] {title}", ""])
        yield
        took = time.monotonic() - started
        verdict = _verdict(self.checks.held - held, len(self.checks.failures) - failed)
        self.lines(["", f"{INDENT}{took:.1f} s, {verdict}", ""])

    def _short(self, text: str) -> str:
        return text.replace(self._directory, "DIR") if self._directory else text


def _verdict(held: int, failed: int) -> str:
    if failed:
        return f"{failed} of {held + failed} checks did NOT hold"
    return "1 check held" if held == 1 else f"{held} checks held"
