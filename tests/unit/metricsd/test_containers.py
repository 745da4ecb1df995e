from __future__ import annotations

import itertools

import pytest
from fractioning_core.nvml.errors import returned
from fractioning_core.nvml.samples import Device, MemoryLimits
from fractioning_core.record import Record
from metricsd import containers
from metricsd.attribution import Use
from metricsd.containers import MAX_CONTAINER_SERIES, Facts
from metricsd.snapshot import ContainerInPodOnGpu, ContainerUse, Enforcement
from metricsd.world import ContainerOnGpu, Limits, NoCgroup

GIB = 2**30
GPUS = {0: Device(0, "GPU-0", minor=0, memory_total_bytes=16 * GIB)}
KEY = ContainerInPodOnGpu("team-ml", "trainer", "3f2a-uid", "main", "GPU-0", 0)
FIRST, SECOND = ContainerOnGpu("1111", 0), ContainerOnGpu("2222", 0)
IN_FORCE = MemoryLimits(GIB, 2 * GIB, used_bytes=7)
NO_CGROUP = NoCgroup("no cgroup at /kubepods/1111")
REFUSED = returned(999, name="UNKNOWN", function="DeviceGetMemoryLimits")


def a_record(*, container: str = "main", limit_mib: int = 2048) -> Record:
    return Record(
        "trainer", "team-ml", "3f2a-uid", (), limit_mib, container, memory_request_mib=1024, memory_limit_mib=limit_mib
    )


def described(
    records: dict[str, Record],
    *,
    uses: dict[ContainerOnGpu, Use] | None = None,
    limits: dict[ContainerOnGpu, Limits] | None = None,
) -> tuple[tuple[ContainerUse, ...], int]:
    places = [ContainerOnGpu(container_id, 0) for container_id in records]
    members, left_out = containers.gather(places, records, GPUS)
    return containers.describe(members, Facts(uses or {}, limits or {}, driver_major=615)), left_out


class TestOneContainer:
    def test_all_figures(self) -> None:
        """A container's use stands beside what it declared and what is in force."""
        found = described({"1111": a_record()}, uses={FIRST: Use(5, 1)}, limits={FIRST: IN_FORCE})

        expected = ContainerUse(KEY, 5, GIB, 2 * GIB, GIB, 2 * GIB, 7, Enforcement.ENFORCED)
        assert ((expected,), 0) == found

    def test_idle_and_not_readable(self) -> None:
        """Without a process it uses nothing; what the driver did not tell is not known."""
        found = described({"1111": a_record()}, limits={FIRST: REFUSED})

        expected = ContainerUse(KEY, 0, GIB, 2 * GIB, None, None, None, Enforcement.NOT_READABLE)
        assert ((expected,), 0) == found

    @pytest.mark.parametrize(
        ("uses", "expected"),
        [
            pytest.param({}, Enforcement.ENDED, id="no process"),
            pytest.param({FIRST: Use(5, 1)}, Enforcement.NO_CGROUP, id="a process"),
        ],
    )
    def test_cgroup_gone(self, uses: dict[ContainerOnGpu, Use], expected: Enforcement) -> None:
        """It has ended, unless a process of it is seen."""
        (found,), _ = described(
            {"1111": a_record()}, uses=uses, limits={FIRST: NoCgroup("no cgroup at /kubepods/1111", is_gone=True)}
        )

        assert expected is found.enforcement

    def test_old_record(self) -> None:
        """A record without a name is shown by the beginning of its id."""
        (found,), _ = described({"0123456789abcdef": a_record(container="")})

        assert "0123456789ab" == found.key.container


class TestRestartedContainer:
    @pytest.mark.parametrize(
        ("limits", "uses", "expected_limit_mib"),
        [
            pytest.param({FIRST: NO_CGROUP, SECOND: IN_FORCE}, {}, 200, id="the second's limits can be read"),
            pytest.param({FIRST: IN_FORCE, SECOND: NO_CGROUP}, {}, 100, id="the first's limits can be read"),
            pytest.param({FIRST: IN_FORCE, SECOND: REFUSED}, {SECOND: Use(1, 1)}, 100, id="limits before use"),
            pytest.param({FIRST: REFUSED, SECOND: NO_CGROUP}, {SECOND: Use(1, 1)}, 100, id="only one has a cgroup"),
            pytest.param({}, {FIRST: Use(1, 1)}, 100, id="only one has a process"),
            pytest.param({}, {}, 200, id="no sign of life: the larger id"),
        ],
    )
    def test_which_record_counts(
        self, limits: dict[ContainerOnGpu, Limits], uses: dict[ContainerOnGpu, Use], expected_limit_mib: int
    ) -> None:
        """Of two records with the same labels the running one's declaration is shown, whichever comes first."""
        records = {"1111": a_record(limit_mib=100), "2222": a_record(limit_mib=200)}

        orders = [described(dict(order), limits=limits, uses=uses) for order in itertools.permutations(records.items())]

        assert [expected_limit_mib * 2**20] * 2 == [found[0].limit_bytes for found, _ in orders]

    def test_use_that_is_not_known(self) -> None:
        """What one of the two uses is not told, so the sum is not known either."""
        (found,), _ = described(
            {"1111": a_record(), "2222": a_record()}, uses={FIRST: Use(None, 1), SECOND: Use(10, 1)}
        )

        assert None is found.memory_bytes

    def test_use_is_added_up(self) -> None:
        """What the old one still holds is not lost beside what the new one uses, and there is one series."""
        found, left_out = described(
            {"1111": a_record(), "2222": a_record()},
            uses={FIRST: Use(5, 1), SECOND: Use(10, 1)},
            limits={SECOND: IN_FORCE},
        )

        expected = ContainerUse(KEY, 15, GIB, 2 * GIB, GIB, 2 * GIB, 7, Enforcement.ENFORCED)
        assert ((expected,), 0) == (found, left_out)


class TestBound:
    def test_more_than_the_page_holds(self) -> None:
        """Beyond the bound the last ones in order are left out and counted."""
        records = {f"{number:04}": a_record(container=f"c{number:04}") for number in range(MAX_CONTAINER_SERIES + 2)}

        found, left_out = described(dict(reversed(records.items())))

        assert (MAX_CONTAINER_SERIES, 2) == (len(found), left_out)
        assert ("c0000", f"c{MAX_CONTAINER_SERIES - 1:04}") == (found[0].key.container, found[-1].key.container)
