"""
Whether the node's driver allows the control daemon to start.

A driver below r615 accounts for no memory: clients would run without limits in silence, so MPS is not started there,
and one that was started before the driver was known is stopped. A half-upgraded driver (library and module of
different versions) holds back a start, but ends nothing that runs. A driver of which NVML tells nothing holds back
nothing for longer than a moment: enforcement must not depend on a library that is only needed to describe it.
"""

from __future__ import annotations

from typing import Protocol

import attrs
from fractioning_core.driver import MIN_DRIVER_MAJOR

from mpsd.driverstate import DriverFacts, DriverProblem

# Long enough for NVML on a warm node, so that an old driver is known before a start; short against a pod's start.
PATIENCE_SECONDS = 5.0


class DriverVersions(Protocol):
    """What is known of the driver; `driverstate` holds it."""

    @property
    def driver(self) -> DriverFacts:
        """The facts."""

    def current(self) -> int | None:
        """Give the driver's major; None while it is not known."""

    @property
    def is_half_upgraded(self) -> bool:
        """Whether library and kernel module differ."""

    def driver_reason(self) -> str:
        """Say what is wrong with the driver; empty when nothing is."""

    async def changed(self) -> None:
        """Wait for the next change."""


@attrs.frozen
class Verdict:
    """
    What the driver allows.

    Args:
        reason: Why there is no start, one line; empty when there may be.
        is_final: The running daemon is of no use either.
    """

    reason: str = ""
    is_final: bool = False


OPEN = Verdict()


def is_unknown_yet(driver: DriverVersions) -> bool:
    """
    Tell whether NVML was not heard yet, neither of a version nor of a reason for having none.
    """
    return driver.driver.problem is DriverProblem.STARTING


def judge(driver: DriverVersions) -> Verdict:
    """
    Decide by what is known now.
    """
    if driver.is_half_upgraded:
        return Verdict(
            driver.driver_reason() or "driver library and kernel module mismatch: reboot or reload the driver"
        )
    major = driver.current()
    if major is not None and major < MIN_DRIVER_MAJOR:
        return Verdict(
            f"driver r{major} cannot account for memory, r{MIN_DRIVER_MAJOR} or newer is needed; MPS is not started",
            is_final=True,
        )
    return OPEN
