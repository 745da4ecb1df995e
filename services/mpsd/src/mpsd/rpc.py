"""
What mpsd answers on mps.v1: its parts' facts put together, and their errors in the service's words.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Callable, Mapping
from typing import Protocol

import attrs
from fractioning_core.errors import Unavailable
from fractioning_core.rpc.errors import ClientStuck, DaemonUnavailable, NoSuchClient, NothingToRestart
from fractioning_core.rpc.mpsvalues import (
    ConfigurationStatus,
    DaemonStatus,
    DriverStatus,
    LabelStatus,
    MpsStatus,
    ProbeStatus,
    RestartKind,
)
from fractioning_core.service.http import Readiness

from mpsd.causes import NotRunning
from mpsd.control import TIMEOUT_SECONDS, NoAnswer
from mpsd.driverstate import DriverFacts, LabelFacts
from mpsd.lifecycle import State
from mpsd.truth import Probe

DEFAULT_REASON = "asked for over mps.v1"


class Supervised(Protocol):
    """What is needed of the supervisor."""

    @property
    def state(self) -> State:
        """Where the daemon stands."""

    @property
    def reason(self) -> str:
        """Why it stands there."""

    @property
    def pid(self) -> int | None:
        """Its process."""

    @property
    def uptime_seconds(self) -> float:
        """How long it has run."""

    @property
    def restarts(self) -> Mapping[str, int]:
        """How many were replaced, by cause."""

    async def restart(self, reason: str, graceful: bool) -> None:  # noqa: FBT001  as declared there
        """Have it replaced."""


class Commands(Protocol):
    """What is asked of the control daemon."""

    async def list_clients(self, deadline_seconds: float) -> tuple[int, ...]:
        """List the attached clients."""

    async def terminate(self, pid: int, deadline_seconds: float) -> None:
        """Take one off its GPU."""


class Told(Protocol):
    """What mpsd says of itself."""

    @property
    def last_probe(self) -> Probe | None:
        """The last check."""

    def readiness(self) -> Readiness:
        """Whether it is ready."""


class Driver(Protocol):
    """What is known of driver and label."""

    @property
    def driver(self) -> DriverFacts:
        """The driver."""

    @property
    def label(self) -> LabelFacts:
        """The label."""

    def driver_reason(self) -> str:
        """What is wrong with the driver."""

    def label_age_seconds(self) -> float | None:
        """Time since the label was written."""


@attrs.frozen
class Sources:
    """
    Where the facts come from.

    Args:
        version: Of mpsd.
        supervised: The supervisor.
        told: Readiness and the last check.
        driver: Driver and label.
        configuration: Gives path and text of the configuration in force.
        clock: The clock of the checks' times.
    """

    version: str
    supervised: Supervised
    told: Told
    driver: Driver
    configuration: Callable[[], ConfigurationStatus]
    clock: Callable[[], float]


class MpsService:
    """
    The answers.

    Args:
        sources: The facts.
        commands: The control daemon's client.
    """

    def __init__(self, sources: Sources, *, commands: Commands) -> None:
        self._sources = sources
        self._commands = commands
        # A client is terminated by one caller at a time: the daemon refuses a second one, which would look like a
        # wedge. The locks go when nobody holds them.
        self._locks: weakref.WeakValueDictionary[int, asyncio.Lock] = weakref.WeakValueDictionary()

    def status(self) -> MpsStatus:
        """
        Put together what is known.
        """
        sources = self._sources
        readiness, probe = sources.told.readiness(), sources.told.last_probe
        return MpsStatus(
            version=sources.version,
            ready=readiness.ready,
            reason=readiness.reason,
            daemon=_daemon(sources.supervised),
            configuration=sources.configuration(),
            probe=None if probe is None else _probe(probe, sources.clock()),
            driver=_driver(sources.driver),
            label=_label(sources.driver),
        )

    async def list_clients(self) -> tuple[int, ...]:
        """
        Ask the control daemon who is attached.

        Raises:
            DaemonUnavailable: it does not run or does not tell.
        """
        supervised = self._sources.supervised
        if supervised.state is not State.RUNNING:
            raise DaemonUnavailable(str(NotRunning(supervised.state, supervised.reason)))
        try:
            return await self._commands.list_clients(TIMEOUT_SECONDS)
        except Unavailable as error:
            raise DaemonUnavailable(str(error)) from error

    async def terminate_client(self, pid: int, deadline_seconds: float) -> None:
        """
        Take a client off its GPU, and wait until its work has ended.

        Raises:
            NoSuchClient: it is not attached.
            ClientStuck: its work did not end in time.
            DaemonUnavailable: the control daemon does not run or does not obey.
        """
        async with self._locks.setdefault(pid, asyncio.Lock()):
            if pid not in await self.list_clients():
                raise NoSuchClient(f"no client with pid {pid} is attached")
            try:
                await self._commands.terminate(pid, deadline_seconds)
            except NoAnswer as error:
                raise ClientStuck(
                    f"client {pid} did not end its work within {deadline_seconds:g} s; a hard restart ends it"
                ) from error
            except Unavailable as error:
                # It may have left by itself while it was being told to.
                if pid in await self.list_clients():
                    raise DaemonUnavailable(str(error)) from error

    async def restart(self, kind: RestartKind, reason: str) -> None:
        """
        Ask the supervisor for a restart.

        Raises:
            NothingToRestart: no daemon runs.
        """
        try:
            await self._sources.supervised.restart(reason or DEFAULT_REASON, kind is RestartKind.GRACEFUL)
        except NotRunning as error:
            raise NothingToRestart(str(error)) from error


def _daemon(supervised: Supervised) -> DaemonStatus:
    return DaemonStatus(
        state=supervised.state.value,
        reason=supervised.reason,
        pid=supervised.pid,
        uptime_seconds=supervised.uptime_seconds,
        restarts=supervised.restarts,
    )


def _probe(probe: Probe, now: float) -> ProbeStatus:
    return ProbeStatus(
        age_seconds=max(0.0, now - probe.at),
        problem=probe.problem.value if probe.problem else "",
        reason=probe.reason,
        latency_seconds=probe.latency_seconds,
        clients=probe.clients,
    )


def _driver(state: Driver) -> DriverStatus:
    facts = state.driver
    problem = facts.problem.value if facts.problem else ""
    return DriverStatus(
        version=facts.version or "",
        major=facts.major,
        problem=problem,
        reason=state.driver_reason() if problem else "",
    )


def _label(state: Driver) -> LabelStatus:
    facts = state.label
    return LabelStatus(
        value=facts.value or "",
        age_seconds=state.label_age_seconds(),
        problem=facts.problem.value if facts.problem else "",
        reason=facts.reason,
    )
