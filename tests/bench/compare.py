"""
Compares fractiond with a plain Go plugin that injects the same, side by side in one run.

    scripts/bench nri            the table on standard output
    scripts/bench nri --write    the table into the README as well
    scripts/bench nri --quick    a smoke run; its numbers mean nothing

Ends with 1 where a bar is not met, but for a smoke run.
"""

from __future__ import annotations

import asyncio
import sys

import commandline
import machine
import readme
import table
from lab.containerd import Containerd
from node import run_node
from results import Results, typical
from timed import Effort, run_course, run_starts, say

# The last containerd whose NRI cannot validate, and the newest one.
PLAIN, VALIDATING = "2.1.9", "2.3.7"
FULL_NODE = 500
THOROUGH = Effort(rounds=12, calls=200, starts=7, idle_seconds=30.0, creations=120)
QUICK = Effort(rounds=2, calls=50, starts=1, idle_seconds=3.0, creations=10)
BUSY_LOAD = 0.5
MARKERS = "bench"


def main() -> int:
    """
    Measure and print; give the exit status.
    """
    asked = commandline.parse(
        "nri", "fractiond and a Go plugin, side by side", quick="a smoke run of under a minute; its numbers mean little"
    )
    effort, load = QUICK if asked.quick else THOROUGH, machine.load()
    results = asyncio.run(_measure(effort, load))
    section = f"{table.render(results)}\n\n{_caption(results, effort, load)}"
    print(section)
    if asked.write:
        readme.write(MARKERS, section)
    return 0 if asked.quick or table.holds(results) else 1


async def _measure(effort: Effort, load: float) -> Results:
    if load > BUSY_LOAD:
        say(f"the machine is busy (load {load:.2f}): only the ratios will mean something")
    async with Containerd("2.3") as containerd:
        socket = containerd.cri_socket
        return Results(
            plain=await run_course(PLAIN, effort, validates=False, cri_socket=socket),
            validating=await run_course(VALIDATING, effort, validates=True, cri_socket=socket),
            empty_starts=await run_starts(VALIDATING, effort, containers=0, cri_socket=socket),
            full_starts=await run_starts(VALIDATING, effort, containers=FULL_NODE, cri_socket=socket),
            node=await run_node(containerd, effort),
        )


def _caption(results: Results, effort: Effort, load: float) -> str:
    bare = typical(results.validating.round_trips[0].bare, lambda each: each.p50)
    return (
        f"{machine.describe()}; load at the start {load:.1f}. Times per container are taken at the runtime's own NRI "
        f"layer and are what a plugin adds to the {bare:.0f} µs it takes without one: {effort.rounds} rounds of "
        f"{effort.calls} calls for each plugin, in "
        "turn, the median over rounds; a ratio is the median of the ratios of the pairs. Both plugins inject the same, "
        f"and check it again where the runtime validates. Starts: {effort.starts} of each; CreateContainer over CRI: "
        f"{effort.creations} of each; the pods over CRI are started, and timed by fractiond. `scripts/bench nri` "
        "measures again."
    )


if __name__ == "__main__":
    sys.exit(main())
