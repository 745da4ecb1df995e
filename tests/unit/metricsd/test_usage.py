from __future__ import annotations

import pytest
from fractioning_core.nvml.samples import Device
from fractioning_core.record import Record
from metricsd import usage
from metricsd.attribution import Use
from metricsd.snapshot import PodOnGpu
from metricsd.usage import Parts
from metricsd.world import ContainerOnGpu

GIB = 2**30
GPUS = {index: Device(index, f"GPU-{index}", minor=index, memory_total_bytes=16 * GIB) for index in range(2)}
KEY = PodOnGpu("team-ml", "trainer", "3f2a-uid", "GPU-0", 0)


def a_record(container: str = "main", *, requested_mib: int = 4096) -> Record:
    return Record("trainer", "team-ml", "3f2a-uid", (), requested_mib, container=container)


class TestNormalized:
    @pytest.mark.parametrize(
        ("fraction", "sm_percent", "expected"),
        [
            pytest.param(0.5, 30.0, 60.0, id="in proportion"),
            pytest.param(0.5, 50.0, 100.0, id="all of its fraction"),
            pytest.param(0.5, 80.0, 100.0, id="more than its fraction"),
            pytest.param(0.25, 10.0, 40.0, id="a quarter"),
            pytest.param(0.0, 40.0, 40.0, id="fraction not known"),
            pytest.param(0.0, 150.0, 100.0, id="fraction not known, too much"),
        ],
    )
    def test_share_of_the_own_fraction(self, fraction: float, sm_percent: float, expected: float) -> None:
        """SM use is given in per cent of what the pod asked for, at most 100; raw where that is not known."""
        assert expected == usage.normalized(sm_percent, fraction)


class TestFraction:
    @pytest.mark.parametrize(
        ("added", "total_bytes", "expected"),
        [
            pytest.param([("a", 2500), ("a", 2500), ("b", 1000)], 3500 * 2**20, 1.0, id="each container once"),
            pytest.param([("a", 1024), ("b", 0)], 2 * GIB, 0.5, id="one that does not tell"),
            pytest.param([("a", 0)], 2 * GIB, 0.0, id="nobody tells"),
            pytest.param([("a", 1024)], None, 0.0, id="size of the GPU not known"),
            pytest.param([("a", 1024), ("a", 2048), ("a", 1024)], 4 * GIB, 0.5, id="two records of one, unlike"),
        ],
    )
    def test_requested_memory_of_the_whole(
        self, added: list[tuple[str, int]], total_bytes: int | None, expected: float
    ) -> None:
        """The fraction is what the pod's containers requested together, each of them once; 0 is not known."""
        records = {f"{number}": a_record(name, requested_mib=mib) for number, (name, mib) in enumerate(added)}
        gpus = {0: Device(0, "GPU-0", minor=0, memory_total_bytes=total_bytes)}

        pods = usage.by_pod([ContainerOnGpu(number, 0) for number in records], records=records, gpus=gpus)

        assert expected == pods[KEY].fraction


class TestByPod:
    def test_two_containers_are_one_pod(self) -> None:
        """A pod is on a GPU with all of its containers there."""
        records = {"one": a_record("a"), "two": a_record("b")}
        places = (ContainerOnGpu("one", 0), ContainerOnGpu("two", 0))

        assert {KEY: Parts(places, 0.5)} == usage.by_pod(places, records=records, gpus=GPUS)

    def test_a_container_on_two_gpus_counts_in_full_on_each(self) -> None:
        """What is requested is requested of every GPU."""
        places = [ContainerOnGpu("one", 0), ContainerOnGpu("one", 1)]

        pods = usage.by_pod(places, records={"one": a_record()}, gpus=GPUS)

        assert [("GPU-0", 0.25), ("GPU-1", 0.25)] == [(key.gpu_uuid, parts.fraction) for key, parts in pods.items()]


class TestUsed:
    @pytest.mark.parametrize(
        ("containers", "expected"),
        [
            pytest.param(["one"], Use(1024, 10), id="one"),
            pytest.param(["idle"], Use(0, 0), id="one without a process"),
            pytest.param(["one", "two", "idle"], Use(3072, 30), id="several"),
            pytest.param(["one", "unknown"], Use(None, 15), id="one of which NVML does not tell the memory"),
        ],
    )
    def test_sum(self, containers: list[str], expected: Use) -> None:
        """Containers use what they use together, and nothing where no process of them is told of."""
        uses = {ContainerOnGpu("one", 0): Use(1024, 10), ContainerOnGpu("two", 0): Use(2048, 20)}
        uses[ContainerOnGpu("unknown", 0)] = Use(None, 5)

        assert expected == usage.used([ContainerOnGpu(each, 0) for each in containers], uses)


class TestContainerName:
    @pytest.mark.parametrize(
        ("container", "expected"),
        [
            pytest.param("main", "main", id="named"),
            pytest.param("", "0123456789ab", id="old record"),
        ],
    )
    def test_name(self, container: str, expected: str) -> None:
        """A container whose record has no name goes by the beginning of its id."""
        assert expected == usage.container_name("0123456789abcdef", a_record(container))
