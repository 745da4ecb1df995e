"""What a cycle reads of the node's files, put together."""

from __future__ import annotations

import os
from pathlib import Path

import attrs
import pytest
from fractioning_core.errors import Unavailable
from fractioning_core.mapdir import MapDir
from fractioning_core.nvml.samples import Device, DeviceSample, LimitsQuery, ProcessMemory, Sample, SmUse
from fractioning_core.record import GpuDevice, Record
from metricsd import procfs
from metricsd.limits import Plan
from metricsd.node import Node
from metricsd.world import ContainerOnGpu, NoCgroup

ID = f"{1:064x}"
RECORD = Record("train", "team", "uid-1", (GpuDevice(uuid="GPU-1"),), 4096, "main", cgroups_path=f"/kubepods/podU/{ID}")


def a_sample(*pids: int) -> Sample:
    device = Device(0, "GPU-1", minor=0, memory_total_bytes=None)
    compute, graphics = [tuple(ProcessMemory(pid, 1) for pid in some) for some in (pids[::2], pids[1::2])]
    return Sample("615.43.02", (DeviceSample(device, compute=compute, graphics=graphics),))


def a_node(directory: Path, *, proc_root: Path = Path("/proc"), with_limits: bool = True) -> Node:
    return Node(
        map_dir=directory / "map", proc_root=proc_root, cgroup_root=directory / "cgroup", with_limits=with_limits
    )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """A node with one record, and a cgroup v2 hierarchy that has nothing in it."""
    MapDir(tmp_path / "map").write(ID, RECORD)
    (tmp_path / "cgroup").mkdir()
    (tmp_path / "cgroup" / "cgroup.controllers").touch()
    return a_node(tmp_path)


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
        node = a_node(tmp_path)

        with pytest.raises(Unavailable):
            node.look(a_sample(), sampled_at=procfs.boot_seconds(), met=())

    def test_no_proc(self, node: Node, tmp_path: Path) -> None:
        """A directory without processes is an error, too: all of NVML's would seem to have ended."""
        node = a_node(tmp_path, proc_root=tmp_path / "map")

        with pytest.raises(Unavailable) as caught:
            node.look(a_sample(), sampled_at=procfs.boot_seconds(), met=())

        assert f"no processes at {tmp_path}/map: not the host's /proc?" == str(caught.value)

    def test_limits_that_nobody_wants(self, node: Node, tmp_path: Path) -> None:
        """About none is asked, not even whether there is a cgroup; the rest is the same."""
        expected = node.look(a_sample(os.getpid()), sampled_at=procfs.boot_seconds(), met=())

        found = a_node(tmp_path, with_limits=False).look(
            a_sample(os.getpid()), sampled_at=procfs.boot_seconds(), met=[ContainerOnGpu(ID, 0)]
        )

        assert attrs.evolve(expected, plan=Plan({}, {})) == found

    def test_where_a_container_was_met(self, node: Node, tmp_path: Path) -> None:
        """Its limits are asked for there, too, though its record names another GPU."""
        cgroup = tmp_path / "cgroup" / "kubepods" / "podU" / ID
        cgroup.mkdir(parents=True)
        second = DeviceSample(Device(1, "GPU-2", minor=1, memory_total_bytes=None))
        sample = attrs.evolve(a_sample(), devices=(*a_sample().devices, second))

        sight = node.look(sample, sampled_at=procfs.boot_seconds(), met=[ContainerOnGpu(ID, 1)])

        assert (LimitsQuery(0, str(cgroup)), LimitsQuery(1, str(cgroup))) == sight.plan.queries

    def test_a_process_of_a_container_with_a_record(self, tmp_path: Path) -> None:
        """Its environment is not read: the record tells that it is fractional."""
        node, process = a_node(tmp_path, proc_root=tmp_path / "proc"), tmp_path / "proc" / "7"
        (tmp_path / "proc" / "1").mkdir(parents=True)
        MapDir(tmp_path / "map").write(ID, RECORD)
        process.mkdir()
        (process / "cgroup").write_text(f"0::/kubepods/podU/{ID}\n")
        (process / "stat").write_text("7 (x) S " + "0 " * 49)
        (process / "environ").write_text("NVIDIA_GPU_MEMORY_LIMIT=1\0")

        with_record = node.look(a_sample(7), sampled_at=1.0, met=()).origins
        (tmp_path / "map" / f"{ID}.json").unlink()
        without = node.look(a_sample(7), sampled_at=100.0, met=()).origins

        assert (False, True) == (with_record[7].declares_limit, without[7].declares_limit)
