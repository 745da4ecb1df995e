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
HALF_UPGRADED = "the driver's library and kernel module did not match, and NVML has told no version since"


def is_unknown_yet(driver: DriverVersions) -> bool:
    """
    Tell whether NVML was not heard yet, neither of a version nor of a reason for having none.
    """
    return driver.driver.problem is DriverProblem.STARTING


def refusal(driver: DriverVersions) -> str:
    """
    Say why even a running daemon is of no use; empty when it is of some.
    """
    verdict = judge(driver)
    return verdict.reason if verdict.is_final else ""


def judge(driver: DriverVersions) -> Verdict:
    """
    Decide by what is known now.
    """
    if driver.is_half_upgraded:
        told = driver.driver_reason()
        return Verdict(told if driver.driver.problem is DriverProblem.MISMATCH else f"{HALF_UPGRADED}: {told}")
    major = driver.current()
    if major is not None and major < MIN_DRIVER_MAJOR:
        return Verdict(
            f"driver r{major} cannot account for memory, r{MIN_DRIVER_MAJOR} or newer is needed; MPS is not started",
            is_final=True,
        )
    return OPEN
