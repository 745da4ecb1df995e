"""
The mps.v1 service over its socket: bounds checked, values in and out, errors as statuses.
"""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from fractioning_core.rpc import mpswire
from fractioning_core.rpc.errors import CallRejected
from fractioning_core.rpc.mpsvalues import MpsStatus, RestartKind
from fractioning_core.rpc.pb.fractioning.mps import v1
from fractioning_core.rpc.statuses import answered
from fractioning_core.rpc.unixserver import UnixServer

# The kernel's own limit on 64-bit machines.
HIGHEST_PID = 4_194_304
DEFAULT_TERMINATE_SECONDS = 30.0
LONGEST_TERMINATE_SECONDS = 300.0
LONGEST_REASON = 200


class Mps(Protocol):
    """
    Who answers; what it raises on our error tree is answered with the fitting status.
    """

    def status(self) -> MpsStatus:
        """
        Tell all that is known.
        """

    async def list_clients(self) -> tuple[int, ...]:
        """
        Ask who is attached.
        """

    async def terminate_client(self, pid: int, deadline_seconds: float) -> None:
        """
        Take a client off its GPU.
        """

    async def restart(self, kind: RestartKind, reason: str) -> None:
        """
        Ask for a restart.
        """


class MpsHandlers(v1.MpsBase):
    """
    The generated service, answered by an `Mps`.
    """

    def __init__(self, mps: Mps) -> None:
        self._mps = mps

    async def status(self, status_request: v1.StatusRequest) -> v1.StatusResponse:  # noqa: ARG002  as generated
        """
        Answer Status.
        """
        with answered():
            return mpswire.encode_status(self._mps.status())

    async def list_clients(self, list_clients_request: v1.ListClientsRequest) -> v1.ListClientsResponse:  # noqa: ARG002  as generated
        """
        Answer ListClients.
        """
        with answered():
            return v1.ListClientsResponse(pids=list(await self._mps.list_clients()))

    async def terminate_client(self, terminate_client_request: v1.TerminateClientRequest) -> v1.TerminateClientResponse:
        """
        Answer TerminateClient.
        """
        with answered():
            pid = terminate_client_request.pid
            seconds = terminate_client_request.deadline_seconds or DEFAULT_TERMINATE_SECONDS
            if not 1 <= pid <= HIGHEST_PID:
                raise CallRejected(f"pid {pid}; accepted: 1 to {HIGHEST_PID}")
            if not 0 < seconds <= LONGEST_TERMINATE_SECONDS:
                raise CallRejected(
                    f"deadline_seconds {seconds:g}; accepted: above 0, at most {LONGEST_TERMINATE_SECONDS:g}"
                )
            await self._mps.terminate_client(pid, seconds)
        return v1.TerminateClientResponse()

    async def restart(self, restart_request: v1.RestartRequest) -> v1.RestartResponse:
        """
        Answer Restart.
        """
        with answered():
            kind = mpswire.decode_kind(restart_request.kind)
            if kind is None:
                raise CallRejected("kind is missing; accepted: KIND_GRACEFUL, KIND_HARD")
            if len(restart_request.reason) > LONGEST_REASON:
                raise CallRejected(
                    f"reason has {len(restart_request.reason)} characters; accepted: at most {LONGEST_REASON}"
                )
            await self._mps.restart(kind, restart_request.reason)
        return v1.RestartResponse()


def mps_server(path: Path, mps: Mps) -> UnixServer:
    """
    Give the server of mps.v1; enter it to serve.
    """
    return UnixServer(path, [MpsHandlers(mps)])
