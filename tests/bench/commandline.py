"""
What a bench can be told.
"""

from __future__ import annotations

import argparse


def parse(name: str, description: str, *, quick: str = "") -> argparse.Namespace:
    """
    Read the command line of `scripts/bench NAME`; ends the process where it makes no sense.

    Args:
        name: Of the bench.
        description: What it measures.
        quick: What `--quick` is, for a bench that has it.

    Returns:
        `write` and `quick`, both bool.
    """
    parser = argparse.ArgumentParser(prog=f"scripts/bench {name}", description=description)
    parser.set_defaults(quick=False)
    parser.add_argument("--write", action="store_true", help="also put what was measured into README.md")
    if quick:
        parser.add_argument("--quick", action="store_true", help=quick)
    asked = parser.parse_args()
    if asked.quick and asked.write:
        parser.error("--write with --quick: numbers of a smoke run are not for the README")
    return asked
