"""
Keeps asking NVML for the driver's version, which changes under a running mpsd when somebody upgrades the driver.

An error is never the end: what was known stays known, the reason is kept for whoever asks, and NVML is asked again.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Protocol

import structlog
from fractioning_core.driver import parse_major
from fractioning_core.errors import InvalidDriverVersion
from fractioning_core.nvml import driverversions
from fractioning_core.nvml.errors import DriverMismatch, LibraryMissing, NvmlError, NvmlSilent
from fractioning_core.service.backoff import Schedule

from mpsd.driverstate import DriverProblem, DriverState

# An upgrade takes minutes; one reading takes a call into a library that is loaded already.
READ_SECONDS = 10.0
# No slower than the healthy rhythm, so that a healed driver shows as soon as any other change.
RETRIES = Schedule(first=1.0, cap=READ_SECONDS)


class Driver(Protocol):
    """
    Who knows the driver's version.
    """

    async def driver_version(self) -> str:
        """
        Read its text, within a deadline; raises NvmlError.
        """


class DriverWatch:
    """
    The loop that reads.

    Args:
        driver: Whom to ask.
        proc_root: Where the host's /proc is, which names the halves of a half-upgraded driver.
        state: Learns each answer.
    """

    def __init__(self, driver: Driver, *, proc_root: Path, state: DriverState) -> None:
        self._driver = driver
        self._proc_root = proc_root
        self._state = state
        self._log = structlog.get_logger()

    async def run(self) -> None:
        """
        Read, for ever.
        """
        failures = 0
        while True:
            before = self._state.driver
            await self._read()
            now = self._state.driver
            if (before.version, before.problem) != (now.version, now.problem):
                self._tell()
            failures = 0 if now.problem is None else failures + 1
            await asyncio.sleep(RETRIES.delay(failures - 1) if failures else READ_SECONDS)

    async def _read(self) -> None:
        try:
            version = (await self._driver.driver_version()).strip()
            self._state.learn(version, parse_major(version))
        except NvmlSilent as error:
            starting = self._state.driver.version is None
            problem = DriverProblem.STARTING if starting else DriverProblem.SILENT
            self._state.doubt(problem, str(error), lasting_seconds=error.seconds)
        except DriverMismatch as error:
            halves = await asyncio.to_thread(driverversions.mismatch, self._proc_root)
            self._state.doubt(DriverProblem.MISMATCH, f"{error}: {halves}")
        except LibraryMissing as error:
            self._state.doubt(DriverProblem.LIBRARY_MISSING, str(error))
        except NvmlError as error:
            self._state.doubt(DriverProblem.FAILED, str(error))
        except InvalidDriverVersion as error:
            self._state.doubt(DriverProblem.MALFORMED, f"NVML SystemGetDriverVersion: {error}")

    def _tell(self) -> None:
        driver = self._state.driver
        if driver.problem is None:
            self._log.info("driver_read", version=driver.version, major=driver.major)
        else:
            self._log.warning("driver_not_read", kind=driver.problem.value, error=self._state.driver_reason())
