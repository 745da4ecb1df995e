"""
Which of NVML's utilization samples count, and since when to ask for them.

NVML is asked for what is newer than the newest sample seen, so that none counts twice; from the moment of the last
reading on, it would leave out what the driver hands over late. It also gives entries that nobody filled: without a
process, or with values beyond 100. Its clock is the host's, in microseconds (`timeStamp` in nvml.h).
"""

from __future__ import annotations

from collections.abc import Iterable

from fractioning_core.nvml.functions import Utilization
from fractioning_core.nvml.samples import SmUse

FULL_PERCENT = 100


def since_us(seen_us: int, *, now_us: int, interval_us: int) -> int:
    """
    Say since when to ask.

    Args:
        seen_us: Of the newest sample seen of this GPU; 0 where there was none.
        now_us: By the same clock.
        interval_us: Between two readings.
    """
    start = now_us - interval_us
    # After an outage old use would pass for present, and a clock that was set back would silence the GPU until it has
    # caught up.
    return seen_us if start - interval_us <= seen_us <= now_us else start


def latest(entries: Iterable[Utilization], *, after_us: int) -> tuple[SmUse, ...]:
    """
    Give the newest sample of each process, in the order in which they first come.

    Args:
        entries: As NVML gave them.
        after_us: What is not newer was seen before.
    """
    newest: dict[int, Utilization] = {}
    for entry in entries:
        if not _counts(entry, after_us):
            continue
        known = newest.get(entry.pid)
        if known is None or entry.timestamp_us >= known.timestamp_us:
            newest[entry.pid] = entry
    return tuple(SmUse(entry.pid, entry.sm, entry.timestamp_us) for entry in newest.values())


def _counts(entry: Utilization, after_us: int) -> bool:
    fields = (entry.sm, entry.memory, entry.encoder, entry.decoder)
    return entry.pid != 0 and entry.timestamp_us > after_us and max(fields) <= FULL_PERCENT
