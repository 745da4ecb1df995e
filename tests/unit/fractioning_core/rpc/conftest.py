"""
A service that behaves as a test wants, and a status with everything in it.
"""

from __future__ import annotations

import attrs
import pytest
from fractioning_core.rpc.mpsvalues import (
    ConfigurationStatus,
    DaemonStatus,
    DriverStatus,
    LabelStatus,
    MpsStatus,
    ProbeStatus,
    RestartKind,
)

FULL = MpsStatus(
    version="0.1.0",
    ready=False,
    reason="the control socket is gone",
    daemon=DaemonStatus("running", "why", 4242, 12.5, {"crashed": 3, "requested": 0}),
    configuration=ConfigurationStatus("/etc/nvidia-mps/mps-control.toml", "[features.memacct]\nenabled=true\n"),
    probe=ProbeStatus(1.5, "socket_missing", "the control socket is gone", 0.25, (7, 4_194_304)),
    driver=DriverStatus("615.43.02", 615, "nvml_silent", "NVML does not answer, 3 s"),
    label=LabelStatus("615", 0.0, "forbidden", "403 from the API server"),
)


@attrs.define
class FakeMps:
    """
    Answers with what it was given, and keeps what it was asked.
    """

    answer: MpsStatus = FULL
    clients: tuple[int, ...] = (7, 12)
    error: Exception | None = None
    asked: list[tuple[object, ...]] = attrs.field(factory=list)

    def status(self) -> MpsStatus:
        """
        Give the status.
        """
        self._fail()
        return self.answer

    async def list_clients(self) -> tuple[int, ...]:
        """
        Give the clients.
        """
        self._fail()
        return self.clients

    async def terminate_client(self, pid: int, deadline_seconds: float) -> None:
        """
        Note the call.
        """
        self._fail()
        self.asked.append(("terminate", pid, deadline_seconds))

    async def restart(self, kind: RestartKind, reason: str) -> None:
        """
        Note the call.
        """
        self._fail()
        self.asked.append(("restart", kind, reason))

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def mps() -> FakeMps:
    """
    A service.
    """
    return FakeMps()


@pytest.fixture
def full() -> MpsStatus:
    """
    A status in which nothing is left out.
    """
    return FULL
