"""
What an image has to hold: the distributions that its service needs, directly or by way of others.

The graph is read from the installed distributions; the versions and hashes come from requirements.txt, so an image
holds what the tests ran with, built for its own Python.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib.metadata import distribution

import attrs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from images.failure import BuildFailed

# Of kubernetes_asyncio an image has three modules (see `sites.KEPT`), and those import none of these.
UNNEEDED: Mapping[str, frozenset[str]] = {"kubernetes-asyncio": frozenset({"certifi", "python-dateutil", "pyyaml"})}

RequirementsOf = Callable[[str], Iterable[str]]


@attrs.frozen
class Closure:
    """
    The distributions of an image.

    Attributes:
        own: those of this repository.
        third_party: the others.
    """

    own: tuple[str, ...]
    third_party: tuple[str, ...]


def of(service: str, *, own: frozenset[str], python: str, requirements_of: RequirementsOf) -> Closure:
    """
    Follow the requirements of a service.

    Args:
        service: its distribution.
        own: every distribution of this repository.
        python: the version that the image has, `3.13`.
        requirements_of: the requirement texts of a distribution, as its metadata has them.
    """
    environment = {"python_version": python, "python_full_version": f"{python}.0"}
    seen: set[tuple[str, str]] = set()
    waiting = [(service, "")]
    while waiting:
        step = waiting.pop()
        if step not in seen:
            seen.add(step)
            waiting += _next(*step, environment, requirements_of)
    names = {name for name, _ in seen}
    return Closure(own=tuple(sorted(names & own)), third_party=tuple(sorted(names - own)))


def installed(name: str) -> Iterable[str]:
    """
    Give the requirement texts of an installed distribution.
    """
    return distribution(name).requires or ()


def locked(requirements: str, names: Iterable[str]) -> str:
    """
    Cut the lines of some distributions out of a compiled requirements file.

    Raises:
        BuildFailed: it lacks one of them.
    """
    blocks: dict[str, str] = {canonicalize_name(found[1]): found[0] for found in _blocks(requirements)}
    missing = sorted(set(names) - blocks.keys())
    if missing:
        raise BuildFailed(f"requirements.txt lacks {', '.join(missing)}; run scripts/generate requirements")
    return "".join(blocks[name] for name in sorted(names))


def _next(
    name: str, extra: str, environment: Mapping[str, str], requirements_of: RequirementsOf
) -> Iterator[tuple[str, str]]:
    for text in requirements_of(name):
        requirement = Requirement(text)
        needed = canonicalize_name(requirement.name)
        if needed in UNNEEDED.get(name, ()):
            continue
        if requirement.marker is None or requirement.marker.evaluate({**environment, "extra": extra}):
            yield needed, ""
            yield from ((needed, wanted) for wanted in requirement.extras)


def _blocks(requirements: str) -> Iterator[re.Match[str]]:
    return re.finditer(r"^([A-Za-z0-9][\w.-]*)==.*\n(?:[ \t]+.*\n?)*", requirements, re.MULTILINE)
