"""
What was measured, in the README: each table between two markers of its own.
"""

from __future__ import annotations

from lab import toolchain

README = toolchain.REPOSITORY / "README.md"


def write(name: str, section: str) -> None:
    """
    Put a section between the README's markers of a name.
    """
    README.write_text(splice(README.read_text(), section, name=name))


def splice(text: str, section: str, *, name: str) -> str:
    """
    Put a section between the markers of a document.

    Raises:
        ValueError: The markers are not there, once each and in order.
    """
    first, last = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    head, begin, rest = text.partition(first)
    old, end, tail = rest.partition(last)
    if not begin or not end or first in old + tail or last in tail:
        raise ValueError(f"accepted: one {first} and, behind it, one {last}")
    return f"{head}{first}\n{section}\n{last}{tail}"
