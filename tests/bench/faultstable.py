"""
What faults did to fences and records, as the table of the README.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import machine
from clusterlab.faults import TENANTS_PER_WORKER
from clusterlab.outcomes import Outcome
from clusterlab.spells import AUDIT_SECONDS, STOP_SECONDS
from clusterlab.witness import LOOK_SECONDS


def render(outcomes: Sequence[Outcome], *, load: float) -> str:
    """
    Write the table, and below it what its columns mean and where it was measured.
    """
    rows = [tuple(head for head, _ in _COLUMNS), ("---",) * len(_COLUMNS)]
    rows += [tuple(cell(each) for _, cell in _COLUMNS) for each in outcomes]
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return (
        f"{table}\n\n"
        f"Before, {TENANTS_PER_WORKER} tenants' pods run on each worker with GPUs; new ones are made all the time, "
        "past the scheduler, which would wait for a node that is ready. A test fails unless every pod comes to run "
        "fenced, without help. *Unfenced* are containers whose program ran without all of its fence: the limit in its "
        "environment, the limit in the (simulated) driver, the mount of the pipe. /proc and cgroups tell, looked at "
        f"each {LOOK_SECONDS:g} s; nothing of ours is asked. *The audit* begins with the next Synchronize of fractiond "
        "with its runtime, and has taken so long until the last of them was stopped. *The window* leaves it "
        f"{AUDIT_SECONDS:g} s, and {STOP_SECONDS:g} s for each container that it finds, since it stops them one after "
        "another; the tenants here end when they are told to, where others may take the grace of 30 s. *Recovered* is "
        "when Ready and all conditions are True, all daemons are rolled out, and a pod that was placed since runs "
        "fenced on every worker; it is counted from the fault's end where nothing else is said.\n\n"
        f"{machine.here()}; load at the start {load:.1f}. Everything on one machine; "
        "GPUs, driver and NVIDIA's runtime simulated. "
        "The runtime has no validator, as is its default: see [the detection window](#the-detection-window). "
        "`scripts/bench faults` measures again."
    )


_COLUMNS: Sequence[tuple[str, Callable[[Outcome], str]]] = (
    ("fault", lambda each: each.name),
    ("what happens", lambda each: each.what),
    ("pods made meanwhile", lambda each: str(each.pods_made)),
    ("containers of before that ended", lambda each: str(each.tenants_ended)),
    ("unfenced for a time: containers", lambda each: str(each.unfenced_containers)),
    ("container-seconds in all", lambda each: f"{each.unfenced_seconds:.1f}"),
    ("the audit took, s", lambda each: f"{each.audit_seconds:.1f}" if each.unfenced_containers else ""),
    ("container-seconds after the window (bar 0)", lambda each: f"{each.unfenced_seconds_after:.1f}"),
    ("records lost (bar 0)", lambda each: str(each.records_lost)),
    ("recovered, s", lambda each: f"{each.recovery_seconds:.0f}"),
)
