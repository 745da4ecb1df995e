"""
A client for the runtime's CRI socket: look at pods and containers, follow their events, stop one.

The channel dials on its first call and again after the runtime restarted. Every call has a deadline. None of them may
be waited for inside an NRI handler except the reading ones: a runtime holds its NRI lock while it stops a container.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator
from types import TracebackType
from typing import Self, TypeVar

from google.protobuf.message import DecodeError, Message
from grpclib.client import Channel, UnaryStreamMethod, UnaryUnaryMethod
from grpclib.const import Status
from grpclib.exceptions import GRPCError, ProtocolError, StreamTerminatedError

from nri_aio import crivalues
from nri_aio.crivalues import (
    Container,
    ContainerEvent,
    ContainerState,
    ContainerStatus,
    EventType,
    PodSandbox,
    PodSandboxState,
    Version,
)
from nri_aio.errors import CriDeadlineExceeded, CriFailed, CriUnavailable
from nri_aio.pb import cri_pb2

__all__ = [
    "Client",
    "Container",
    "ContainerEvent",
    "ContainerState",
    "ContainerStatus",
    "EventType",
    "PodSandbox",
    "PodSandboxState",
    "Version",
]

DEFAULT_SOCKET = "/run/containerd/containerd.sock"

READ_TIMEOUT = 5.0
"""Seconds; listing 500 containers takes about 10 ms, so more than this is a runtime in trouble."""

STOP_MARGIN = 15.0
"""Seconds a stop gets beyond the grace period: a call cut off before leaves the container running for good."""

T = TypeVar("T", bound=Message)


class Client:
    """The calls; use it inside `async with`, or `aclose` it."""

    def __init__(self, socket_path: str = DEFAULT_SOCKET) -> None:
        self._channel = Channel(path=socket_path)
        # grpclib says 127.0.0.1:50051 for a path; that is accepted by containerd, not by every proxy before one.
        self._channel._authority = "localhost"  # noqa: SLF001 - grpclib has no other way

    async def version(self, *, timeout: float = READ_TIMEOUT) -> Version:  # noqa: ASYNC109 - each call has its own default
        """Ask which runtime this is."""
        reply = await self._call("Version", cri_pb2.VersionRequest(), cri_pb2.VersionResponse, timeout)
        return crivalues.version(reply)

    async def list_containers(self, *, timeout: float = READ_TIMEOUT) -> tuple[Container, ...]:  # noqa: ASYNC109
        """List all containers, exited ones included."""
        reply = await self._call(
            "ListContainers", cri_pb2.ListContainersRequest(), cri_pb2.ListContainersResponse, timeout
        )
        return tuple(crivalues.container(item) for item in reply.containers)

    async def list_pod_sandboxes(self, *, timeout: float = READ_TIMEOUT) -> tuple[PodSandbox, ...]:  # noqa: ASYNC109
        """List all pods, stopped ones included."""
        reply = await self._call(
            "ListPodSandbox", cri_pb2.ListPodSandboxRequest(), cri_pb2.ListPodSandboxResponse, timeout
        )
        return tuple(crivalues.pod_sandbox(item) for item in reply.items)

    async def container_status(self, container_id: str, *, timeout: float = READ_TIMEOUT) -> ContainerStatus | None:  # noqa: ASYNC109
        """Describe a container; None if the runtime does not have it."""
        request = cri_pb2.ContainerStatusRequest(container_id=container_id, verbose=True)
        try:
            reply = await self._call("ContainerStatus", request, cri_pb2.ContainerStatusResponse, timeout)
        except CriFailed as error:
            if error.status == Status.NOT_FOUND.name:
                return None
            raise
        return crivalues.container_status(reply)

    async def stop_container(self, container_id: str, *, grace_seconds: int) -> None:
        """
        Stop a container: SIGTERM, and SIGKILL when the grace period is over; 0 kills at once.

        One that is gone already counts as stopped.
        """
        request = cri_pb2.StopContainerRequest(container_id=container_id, timeout=grace_seconds)
        await self._call("StopContainer", request, cri_pb2.StopContainerResponse, grace_seconds + STOP_MARGIN)

    async def container_events(self) -> AsyncGenerator[ContainerEvent, None]:
        """Follow what happens to containers from now on; CriUnavailable ends it when the runtime goes away."""
        method = UnaryStreamMethod(
            self._channel, _path("GetContainerEvents"), cri_pb2.GetEventsRequest, cri_pb2.ContainerEventResponse
        )
        async with _mapped("GetContainerEvents", None), method.open() as stream:
            await stream.send_message(cri_pb2.GetEventsRequest(), end=True)
            async for message in stream:
                yield crivalues.container_event(message)

    async def aclose(self) -> None:
        """Close the channel; calls that still wait fail."""
        self._channel.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _call(self, name: str, request: Message, reply_type: type[T], seconds: float) -> T:
        method = UnaryUnaryMethod(self._channel, _path(name), type(request), reply_type)
        # Not grpclib's own timeout: it cancels the calling task without taking that back (0.4.9), which some releases
        # of Python 3.11 then take for the task's end. The server learns of ours by the reset of the stream.
        async with _mapped(name, seconds), asyncio.timeout(seconds):
            return await method(request)


def _path(method: str) -> str:
    return f"/runtime.v1.RuntimeService/{method}"


@contextlib.asynccontextmanager
async def _mapped(method: str, seconds: float | None) -> AsyncIterator[None]:
    """Turn grpclib's errors and the system's into ours."""
    try:
        yield
    except TimeoutError as error:
        raise CriDeadlineExceeded(method, seconds or 0.0) from error
    except OSError as error:
        raise CriUnavailable(method, error.strerror or str(error)) from error
    except (StreamTerminatedError, ProtocolError) as error:
        raise CriUnavailable(method, str(error) or "connection lost") from error
    except AttributeError as error:
        # grpclib 0.4.9 deletes its transport when a connection is cut, and then looks for it to open a stream.
        raise CriUnavailable(method, "connection lost while it was made") from error
    except DecodeError as error:
        raise CriFailed(method, Status.INTERNAL.name, "undecodable response") from error
    except GRPCError as error:
        raise _status_error(method, error, seconds) from error


def _status_error(
    method: str, error: GRPCError, seconds: float | None
) -> CriFailed | CriUnavailable | CriDeadlineExceeded:
    text = error.message or ""
    if error.status is Status.UNAVAILABLE:
        return CriUnavailable(method, text)
    if error.status is Status.DEADLINE_EXCEEDED:
        return CriDeadlineExceeded(method, seconds or 0.0)
    return CriFailed(method, error.status.name, text)
