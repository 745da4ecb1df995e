"""
The demo's command line. Its help is the head of scripts/demo, which shows it without installing anything.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import attrs

from demo.leftovers import ACCEPTED_DIRECTORY


@attrs.frozen
class Options:
    """
    What the demo was asked to do.
    """

    keep: bool
    clean: Path | None
    fractiond_flags: tuple[str, ...]
    mpsd_flags: tuple[str, ...]
    metricsd_flags: tuple[str, ...]


def parse(arguments: Sequence[str]) -> Options:
    """
    Parse the arguments; a mistake ends the program with status 2 and a line that says what is accepted.
    """
    parser = argparse.ArgumentParser(prog="demo", add_help=False, allow_abbrev=False, usage="scripts/demo --help")
    alternatives = parser.add_mutually_exclusive_group()
    alternatives.add_argument("--keep", action="store_true")
    alternatives.add_argument("--clean", type=_directory, metavar="DIR")
    parser.add_argument("--fractiond-flag", action="append", default=[], metavar="FLAG")
    parser.add_argument("--mpsd-flag", action="append", default=[], metavar="FLAG")
    parser.add_argument("--metricsd-flag", action="append", default=[], metavar="FLAG")
    chosen = parser.parse_args(arguments)
    return Options(
        keep=chosen.keep,
        clean=chosen.clean,
        fractiond_flags=tuple(chosen.fractiond_flag),
        mpsd_flags=tuple(chosen.mpsd_flag),
        metricsd_flags=tuple(chosen.metricsd_flag),
    )


def _directory(text: str) -> Path:
    if not ACCEPTED_DIRECTORY.fullmatch(text):
        raise argparse.ArgumentTypeError(
            f"{text[:80]!r} is no directory of a demo; accepted: /tmp/lab- and 8 hex digits"
        )
    return Path(text)
