from __future__ import annotations

import pytest
from fractioning_core.nvml import smuse
from fractioning_core.nvml.functions import Utilization
from fractioning_core.nvml.samples import SmUse

NOW = 1_000_000_000
INTERVAL = 5_000_000


def an_entry(pid: int, timestamp_us: int, sm: int, memory: int = 0, encoder: int = 0, decoder: int = 0) -> Utilization:
    """
    Make an entry as NVML gives it.
    """
    return Utilization(pid, timestamp_us, sm, memory, encoder, decoder)


class TestSinceUs:
    @pytest.mark.parametrize(
        ("seen_us", "since_us"),
        [
            pytest.param(0, NOW - INTERVAL, id="nothing seen yet"),
            pytest.param(
                NOW - INTERVAL - 300_000, NOW - INTERVAL - 300_000, id="the newest sample of the last reading"
            ),
            pytest.param(NOW - 2 * INTERVAL, NOW - 2 * INTERVAL, id="one reading without a sample"),
            pytest.param(NOW - 2 * INTERVAL - 1, NOW - INTERVAL, id="seen before an outage"),
            pytest.param(NOW, NOW, id="seen just now"),
            pytest.param(NOW + 1, NOW - INTERVAL, id="the clock was set back"),
        ],
    )
    def test_since_when(self, seen_us: int, since_us: int) -> None:
        """
        It asks for what is newer than the newest seen, and for one interval where that is no measure.
        """
        assert since_us == smuse.since_us(seen_us, now_us=NOW, interval_us=INTERVAL)


class TestLatest:
    @pytest.mark.parametrize(
        ("entries", "uses"),
        [
            pytest.param([], (), id="none"),
            pytest.param([an_entry(7, 101, 30)], (SmUse(7, 30, 101),), id="one"),
            pytest.param([an_entry(7, 101, 100)], (SmUse(7, 100, 101),), id="all of the GPU"),
            pytest.param([an_entry(7, 101, 0)], (SmUse(7, 0, 101),), id="nothing of it"),
            pytest.param([an_entry(0, 101, 30)], (), id="without a process"),
            pytest.param([an_entry(7, 100, 30)], (), id="seen before"),
            pytest.param([an_entry(7, 0, 30)], (), id="never filled"),
            pytest.param([an_entry(7, 101, 101)], (), id="sm beyond 100"),
            pytest.param([an_entry(7, 101, 30, 101)], (), id="memory beyond 100"),
            pytest.param([an_entry(7, 101, 30, 0, 101)], (), id="encoder beyond 100"),
            pytest.param([an_entry(7, 101, 30, 0, 0, 101)], (), id="decoder beyond 100"),
            pytest.param(
                [an_entry(7, 101, 30), an_entry(8, 101, 5), an_entry(7, 102, 40)],
                (SmUse(7, 40, 102), SmUse(8, 5, 101)),
                id="the newest of a process",
            ),
            pytest.param([an_entry(7, 102, 40), an_entry(7, 101, 30)], (SmUse(7, 40, 102),), id="in any order"),
            pytest.param([an_entry(7, 101, 40), an_entry(7, 101, 30)], (SmUse(7, 30, 101),), id="the last of equals"),
            pytest.param(
                [an_entry(7, 101, 40), an_entry(7, 102, 4294967295)], (SmUse(7, 40, 101),), id="the newest that counts"
            ),
        ],
    )
    def test_what_counts(self, entries: list[Utilization], uses: tuple[SmUse, ...]) -> None:
        """
        Each process has its newest entry that makes sense and was not seen before.
        """
        assert uses == smuse.latest(entries, after_us=100)
