"""
What mpsd tells of itself, in values. Times are ages, since the two sides may not share a clock.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

import attrs


class RestartKind(Enum):
    """
    How a restart treats the clients.
    """

    GRACEFUL = "graceful"
    """They may finish, up to the graceful stop delay."""
    HARD = "hard"
    """They fail at once."""


@attrs.frozen
class DaemonStatus:
    """
    The control daemon.

    Args:
        state: One word.
        reason: Why it is in that state; may be empty.
        pid: Its process; None while there is none.
        uptime_seconds: 0 while there is none.
        restarts: Daemons that ran and were replaced, by cause.
    """

    state: str
    reason: str = ""
    pid: int | None = None
    uptime_seconds: float = 0.0
    restarts: Mapping[str, int] = attrs.field(factory=dict)


@attrs.frozen
class ConfigurationStatus:
    """
    What the daemon was started with.

    Args:
        path: Where it lies; empty where the daemon is given none.
        text: What it said at the start; empty before.
    """

    path: str = ""
    text: str = ""


@attrs.frozen
class ProbeStatus:
    """
    The last check of the daemon.

    Args:
        age_seconds: Since its end.
        problem: One word for what it found; empty when all is well.
        reason: The same for a person.
        latency_seconds: Time to the answer; None where nothing was asked.
        clients: Processes attached then; None where the daemon did not tell.
    """

    age_seconds: float
    problem: str = ""
    reason: str = ""
    latency_seconds: float | None = None
    clients: tuple[int, ...] | None = None


@attrs.frozen
class DriverStatus:
    """
    The driver.

    Args:
        version: What NVML told last; empty before.
        major: Its major; None where unknown.
        problem: One word; empty while NVML answers.
        reason: The same for a person.
    """

    version: str = ""
    major: int | None = None
    problem: str = ""
    reason: str = ""


@attrs.frozen
class LabelStatus:
    """
    The node's driver label.

    Args:
        value: What was written last; empty before.
        age_seconds: Since that write; None before.
        problem: One word; empty after an attempt that worked, and where there is no node to label.
        reason: Why there is no label, for a person.
    """

    value: str = ""
    age_seconds: float | None = None
    problem: str = ""
    reason: str = ""


@attrs.frozen
class MpsStatus:
    """
    All that mpsd knows at one moment.

    Args:
        version: Of mpsd.
        ready: Whether it calls itself ready.
        reason: Why not; empty when it does.
        daemon: The control daemon.
        configuration: What that was started with.
        probe: Its last check; None before the first.
        driver: The driver.
        label: The node's label.
    """

    version: str
    ready: bool
    reason: str
    daemon: DaemonStatus
    configuration: ConfigurationStatus = ConfigurationStatus()
    probe: ProbeStatus | None = None
    driver: DriverStatus = DriverStatus()
    label: LabelStatus = LabelStatus()
