"""
Where the documents point to: every file and every heading is there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).parents[3]
FOLDERS = ("deploy", "libs", "services", "tests")
DOCUMENTS = sorted(
    [REPOSITORY / "README.md", *(found for folder in FOLDERS for found in (REPOSITORY / folder).rglob("*.md"))]
)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_CODE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)


def name_of(path: Path) -> str:
    return str(path.relative_to(REPOSITORY))


def anchors(path: Path) -> set[str]:
    """
    List the anchors of a document's headings, as GitHub makes them.
    """
    seen: Counter[str] = Counter()
    found = set()
    for heading in _HEADING.findall(_CODE.sub("", path.read_text())):
        plain = re.sub(r"[`*]|\]\([^)]*\)|\[", "", heading)
        anchor = re.sub(r"[^\w\- ]", "", plain.lower()).strip().replace(" ", "-")
        found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
        seen[anchor] += 1
    return found


def iter_broken(path: Path) -> Iterator[str]:
    """
    Yield the links of a document that lead nowhere; those to other sites are not followed.
    """
    for link in _LINK.findall(_CODE.sub("", path.read_text())):
        if "://" in link:
            continue
        place, _, anchor = link.partition("#")
        target = (path.parent / place).resolve() if place else path
        if not target.exists() or (anchor and (target.is_dir() or anchor not in anchors(target))):
            yield link


@pytest.mark.parametrize("path", DOCUMENTS, ids=name_of)
def test_every_link_leads_somewhere(path: Path) -> None:
    """
    Files and headings that a document links are there.
    """
    assert [] == list(iter_broken(path))


def test_contents() -> None:
    """
    The README's table of contents, which is its first table with links, names every chapter.
    """
    readme = REPOSITORY / "README.md"
    contents = readme.read_text().partition("## Contents\n")[2].partition("\n## ")[0]
    chapters = re.findall(r"^## (.+)$", _CODE.sub("", readme.read_text()), re.MULTILINE)

    assert [] == [each for each in chapters if f"[{each}](#" not in contents and each not in {"Contents", "Licence"}]


def test_a_broken_link_is_seen(tmp_path: Path) -> None:
    """
    A heading that is not there, and a file that is not there, are both told.
    """
    page = tmp_path / "page.md"
    page.write_text("# Is it `so`?\n[here](#is-it-so) [there](#elsewhere) [file](gone.md)\n")

    assert ["#elsewhere", "gone.md"] == list(iter_broken(page))
