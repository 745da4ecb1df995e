"""
What becomes of fences and records when something breaks: runs the tests of faults, and shows what they measured.

    scripts/bench faults            the table on standard output
    scripts/bench faults --write    the table into the README as well

On a cluster of its own, unless one is up. Ends with 1 where a test fails or a bar is not met.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import commandline
import machine
import readme
from clusterlab import outcomes
from clusterlab.cluster import Cluster
from clusterlab.outcomes import Outcome
from faultstable import render
from lab import toolchain

MARKERS = "faults"
_TESTS = toolchain.REPOSITORY / "tests" / "cluster"


async def measure() -> tuple[bool, list[Outcome]]:
    """
    Run the tests; tell whether all passed, and what they have measured.
    """
    async with _cluster() as cluster:
        path = outcomes.ledger(cluster.layout)
        path.unlink(missing_ok=True)
        files = sorted(_TESTS.glob("test_faults_*.py"), key=_order)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pytest", "-q"),
            *files,
            cwd=toolchain.REPOSITORY,
            # As this program uses it, and not the one that the tests would make and remove.
            env={**os.environ, "CLUSTER_DIR": str(cluster.layout.base)},
            # The table alone is for standard output.
            stdout=sys.stderr.fileno(),
        )
        return await process.wait() == 0, list(outcomes.read(path))


@asynccontextmanager
async def _cluster() -> AsyncIterator[Cluster]:
    cluster = Cluster.at()
    if cluster.is_up:
        yield cluster
        return
    await cluster.up(lambda step: print(step, file=sys.stderr, flush=True))
    try:
        yield cluster
    finally:
        await cluster.down()


def _order(path: Path) -> tuple[bool, str]:
    """
    Sort the faults of fractiond and its runtime before the others.
    """
    return not path.stem.endswith("_node"), path.name


def main() -> int:
    """
    Measure and tell.
    """
    asked = commandline.parse("faults", "what faults do to fences and records")
    load = machine.load()
    passed, found = asyncio.run(measure())
    section = render(found, load=load)
    print(section)
    if asked.write:
        readme.write(MARKERS, section)
    return 0 if passed and all(each.holds for each in found) else 1


if __name__ == "__main__":
    sys.exit(main())
