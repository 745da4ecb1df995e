"""Where the cgroups of containers are, in trees that look like /sys/fs/cgroup."""

from __future__ import annotations

from pathlib import Path

import pytest
from fractioning_core.testing.builders import a_record
from metricsd import cgroupfs
from metricsd.world import NoCgroup

SCOPE = "kubepods.slice/kubepods-podx.slice/cri-containerd-abc.scope"


@pytest.fixture
def v2(tmp_path: Path) -> Path:
    """Make the root of a v2 hierarchy, with one container's cgroup."""
    (tmp_path / "cgroup.controllers").touch()
    (tmp_path / SCOPE / "leaf").mkdir(parents=True)
    return tmp_path


def directory(cgroup_root: Path, cgroups_path: str) -> str | NoCgroup:
    return cgroupfs.directories(cgroup_root, {"abc": a_record(cgroups_path=cgroups_path)})["abc"]


class TestDirectories:
    @pytest.mark.parametrize("cgroups_path", ["kubepods-podx.slice:cri-containerd:abc", f"/{SCOPE}"])
    def test_a_container_has_its_own(self, v2: Path, cgroups_path: str) -> None:
        """It is the directory of the container, not one below it."""
        assert str(v2 / SCOPE) == directory(v2, cgroups_path)

    @pytest.mark.parametrize(
        ("cgroups_path", "reason"),
        [
            pytest.param("", "the record names no cgroup", id="an older record"),
            pytest.param("/kubepods/abc", "no cgroup at {root}/kubepods/abc", id="no such directory"),
            pytest.param("/cgroup.controllers", "no cgroup at {root}/cgroup.controllers", id="a file"),
            pytest.param(
                "/../etc",
                '"/../etc" has ".." in it; accepted: "<slice>:<prefix>:<name>" or an absolute path without ".."',
                id="a way out",
            ),
        ],
    )
    def test_none(self, v2: Path, cgroups_path: str, reason: str) -> None:
        """Where a container has none the reason names the path."""
        assert NoCgroup(reason.format(root=v2)) == directory(v2, cgroups_path)

    @pytest.mark.parametrize(
        "cgroups_path", ["kubepods-podx.slice:cri-containerd:gone", "/kubepods.slice/kubepods-pody.slice/gone"]
    )
    def test_gone(self, v2: Path, cgroups_path: str) -> None:
        """In a hierarchy that begins as the path does, a directory that is missing is one that is gone."""
        found = directory(v2, cgroups_path)

        assert isinstance(found, NoCgroup)
        assert found.is_gone

    def test_cgroup_v1(self, tmp_path: Path) -> None:
        """On v1 no container has one, even where a directory of that name is."""
        (tmp_path / SCOPE).mkdir(parents=True)

        assert NoCgroup("cgroup v2 needed") == directory(tmp_path, f"/{SCOPE}")

    def test_every_container_is_told_of(self, v2: Path) -> None:
        """Each record has its answer, by container id."""
        records = {"abc": a_record(cgroups_path=f"/{SCOPE}"), "def": a_record()}

        assert {"abc": str(v2 / SCOPE), "def": NoCgroup("the record names no cgroup")} == cgroupfs.directories(
            v2, records
        )
