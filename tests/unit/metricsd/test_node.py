"""What a cycle reads of the node's files, put together."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from fractioning_core.errors import Unavailable
from fractioning_core.mapdir import MapDir
from fractioning_core.nvml.samples import Device, DeviceSample, LimitsQuery, ProcessMemory, Sample, SmUse
from fractioning_core.record import GpuDevice, Record
from metricsd import procfs
from metricsd.node import Node
from metricsd.world import ContainerOnGpu, NoCgroup

ID = f"{1:064x}"
RECORD = Record("train", "team", "uid-1", (GpuDevice(uuid="GPU-1"),), 4096, "main", cgroups_path=f"/kubepods/podU/{ID}")


def a_sample(*pids: int) -> Sample:
    device = Device(0, "GPU-1", minor=0, memory_total_bytes=None)
    compute, graphics = [tuple(ProcessMemory(pid, 1) for pid in some) for some in (pids[::2], pids[1::2])]
    return Sample("615.43.02", (DeviceSample(device, compute=compute, graphics=graphics),))


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with one record, and a cgroup v2 hierarchy that has nothing in it."""
    MapDir(tmp_path / "map").write(ID, RECORD)
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "cgroup.controllers").touch()
    return Node(map_dir=tmp_path / "map", proc_root=Path("/proc"), cgroup_root=tmp_path / "cgroup")


class TestLook:
    def test_whole(self, node: Node, tmp_path: Path) -> None:
        """Records, the processes of both lists, and the question about the limits are of one look."""
        cgroup = tmp_path / "cgroup" / "kubepods" / "podU" / ID
        cgroup.mkdir(parents=True)

        sight = node.look(a_sample(os.getpid(), os.getppid()), sampled_at=procfs.boot_seconds(), met=())

        assert ({ID: RECORD}, 0) == (sight.records, sight.unreadable)
        assert {os.getpid(), os.getppid()} == set(sight.origins)
        assert {ContainerOnGpu(ID, 0): LimitsQuery(0, str(cgroup))} == sight.plan.asked

    def test_a_process_that_only_its_sm_use_tells_of(self, node: Node) -> None:
        """It is looked up, too: it may have no memory of its own on the GPU."""
        used = SmUse(os.getpid(), 30, timestamp_us=1)
        device = DeviceSample(Device(0, "GPU-1", minor=0, memory_total_bytes=None), sm=(used,))

        sight = node.look(Sample("615.43.02", (device,)), sampled_at=procfs.boot_seconds(), met=())

        assert {os.getpid()} == set(sight.origins)

    def test_no_cgroup(self, node: Node) -> None:
        """A container whose cgroup is gone is not asked about."""
        sight = node.look(a_sample(), sampled_at=procfs.boot_seconds(), met=())

        (reason,) = sight.plan.unasked.values()
        assert isinstance(reason, NoCgroup)
        assert {} == sight.plan.asked

    def test_records_out_of_reach(self, tmp_path: Path) -> None:
        """A record directory that is none is an error to try again after."""
        (tmp_path / "map").touch()
        node = Node(map_dir=tmp_path / "map", proc_root=Path("/proc"), cgroup_root=tmp_path)

        with pytest.raises(Unavailable):
            node.look(a_sample(), sampled_at=procfs.boot_seconds(), met=())
