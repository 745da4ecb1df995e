from __future__ import annotations

from collections.abc import Iterable

import pytest
from images import closure
from images.closure import Closure
from images.failure import BuildFailed

GRAPH = {
    "service": ["core[http]", "yaml"],
    "core": ["attrs", 'aiohttp; extra == "http"', 'pynvml; extra == "nvml"'],
    "aiohttp": ["multidict", 'backport; python_version < "3.12"', "attrs>=17"],
}
LOCK = """\
# Compiled.
attrs==26.1.0 \\
    --hash=sha256:aa \\
    --hash=sha256:bb
kubernetes-asyncio==36.1.0 \\
    --hash=sha256:cc
typing_extensions==4.0 ; python_version < '3.13' \\
    --hash=sha256:dd
"""


def requirements_of(name: str) -> Iterable[str]:
    return GRAPH.get(name, ())


class TestOf:
    def test_follows_extras_and_markers(self) -> None:
        """What is needed directly, by an extra, or by another one is in; what another Python needs is not."""
        found = closure.of(
            "service", own=frozenset({"service", "core"}), python="3.13", requirements_of=requirements_of
        )

        assert Closure(own=("core", "service"), third_party=("aiohttp", "attrs", "multidict", "yaml")) == found

    def test_python_of_the_image(self) -> None:
        """Markers are for the image's Python, not for the one that builds."""
        found = closure.of("aiohttp", own=frozenset({"aiohttp"}), python="3.11", requirements_of=requirements_of)

        assert ("attrs", "backport", "multidict") == found.third_party

    def test_parts_of_a_package(self) -> None:
        """What only the unused parts of a package need is left out, unless something else needs it."""
        graph = {"kubernetes-asyncio": ["certifi", "pyyaml", "urllib3"], "other": ["PyYAML", "kubernetes_asyncio"]}
        found = closure.of(
            "other", own=frozenset({"other"}), python="3.13", requirements_of=lambda name: graph.get(name, [])
        )

        assert ("kubernetes-asyncio", "pyyaml", "urllib3") == found.third_party


class TestLocked:
    @pytest.mark.parametrize(
        ("names", "lines"),
        [
            pytest.param(["attrs"], [1, 2, 3], id="every hash of it"),
            pytest.param(["kubernetes-asyncio", "attrs"], [1, 2, 3, 4, 5], id="in the order of names"),
            pytest.param(["typing-extensions"], [6, 7], id="a marker, and a name in another spelling"),
        ],
    )
    def test_cuts_out(self, names: list[str], lines: list[int]) -> None:
        """The lines of the named ones are taken as they are, hashes included."""
        expected = "".join(LOCK.splitlines(keepends=True)[number] for number in lines)

        assert expected == closure.locked(LOCK, names)

    def test_missing(self) -> None:
        """One that the lock lacks stops the build, with the command that mends it."""
        with pytest.raises(BuildFailed, match=r"lacks nothing-like-it; run scripts/generate requirements"):
            closure.locked(LOCK, ["attrs", "nothing-like-it"])
