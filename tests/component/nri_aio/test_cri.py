from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from grpclib.server import Server, Stream
from nri_aio import cri
from nri_aio.cri import Client, ContainerEvent, ContainerState, EventType, Version
from nri_aio.errors import CriDeadlineExceeded, CriFailed, CriUnavailable
from nri_aio.pb import cri_pb2


class FakeCri:
    """The runtime's side: a few containers, and a server that speaks gRPC."""

    def __init__(self) -> None:
        self.containers: dict[str, cri_pb2.ContainerState] = {"c1": cri_pb2.CONTAINER_RUNNING}
        self.stops: list[tuple[str, int]] = []
        self.events: asyncio.Queue[cri_pb2.ContainerEventResponse | None] = asyncio.Queue()
        self.hangs = False
        self.last: Stream[Any, Any] | None = None

    def __mapping__(self) -> Mapping[str, Handler]:
        rows = {
            "Version": (self.version, cri_pb2.VersionRequest, cri_pb2.VersionResponse),
            "ListContainers": (self.list, cri_pb2.ListContainersRequest, cri_pb2.ListContainersResponse),
            "ListPodSandbox": (self.list_pods, cri_pb2.ListPodSandboxRequest, cri_pb2.ListPodSandboxResponse),
            "ContainerStatus": (self.status, cri_pb2.ContainerStatusRequest, cri_pb2.ContainerStatusResponse),
            "StopContainer": (self.stop, cri_pb2.StopContainerRequest, cri_pb2.StopContainerResponse),
        }
        service = "/runtime.v1.RuntimeService/"
        unary = {f"{service}{name}": Handler(row[0], Cardinality.UNARY_UNARY, *row[1:]) for name, row in rows.items()}
        events = Handler(
            self.follow, Cardinality.UNARY_STREAM, cri_pb2.GetEventsRequest, cri_pb2.ContainerEventResponse
        )
        return {**unary, f"{service}GetContainerEvents": events}

    def cut(self) -> None:
        """Close the connection of the last call."""
        assert self.last is not None
        self.last._stream.connection.close()

    async def version(self, stream: Stream[Any, Any]) -> None:
        """Say who we are, or nothing at all."""
        self.last = stream
        await stream.recv_message()
        if self.hangs:
            await asyncio.Event().wait()
        await stream.send_message(
            cri_pb2.VersionResponse(runtime_name="containerd", runtime_version="2.3.7", runtime_api_version="v1")
        )

    async def list(self, stream: Stream[Any, Any]) -> None:
        """List the containers."""
        await stream.recv_message()
        containers = [cri_pb2.Container(id=id_, state=state) for id_, state in self.containers.items()]
        await stream.send_message(cri_pb2.ListContainersResponse(containers=containers))

    async def list_pods(self, stream: Stream[Any, Any]) -> None:
        """List the pods."""
        await stream.recv_message()
        await stream.send_message(cri_pb2.ListPodSandboxResponse(items=[cri_pb2.PodSandbox(id="p1")]))

    async def status(self, stream: Stream[Any, Any]) -> None:
        """Describe a container."""
        request = await received(stream)
        if not request.container_id:
            raise GRPCError(Status.UNKNOWN, "prefix can't be empty")
        if request.container_id not in self.containers:
            raise GRPCError(Status.NOT_FOUND, f"container {request.container_id!r} not found")
        info = {"info": '{"pid": 42}'} if request.verbose else {}
        status = cri_pb2.ContainerStatus(id=request.container_id, state=self.containers[request.container_id])
        await stream.send_message(cri_pb2.ContainerStatusResponse(status=status, info=info))

    async def stop(self, stream: Stream[Any, Any]) -> None:
        """Stop a container, if it is there."""
        request = await received(stream)
        self.stops.append((request.container_id, request.timeout))
        if request.container_id in self.containers:
            self.containers[request.container_id] = cri_pb2.CONTAINER_EXITED
        await stream.send_message(cri_pb2.StopContainerResponse())

    async def follow(self, stream: Stream[Any, Any]) -> None:
        """Send events until there are no more."""
        self.last = stream
        await stream.recv_message()
        while (event := await self.events.get()) is not None:
            await stream.send_message(event)


async def received(stream: Stream[Any, Any]) -> Any:  # noqa: ANN401 - grpclib does not know the type either
    """Wait for the request."""
    request = await stream.recv_message()
    assert request is not None
    return request


@pytest.fixture
async def runtime(socket_path: str) -> AsyncIterator[FakeCri]:
    """Serve a FakeCri on the socket."""
    fake = FakeCri()
    server = Server([fake])
    await server.start(path=socket_path)
    yield fake
    server.close()
    await server.wait_closed()


@pytest.fixture
async def client(socket_path: str) -> AsyncIterator[Client]:
    """Give a client for the socket."""
    async with Client(socket_path) as client:
        yield client


@pytest.mark.usefixtures("runtime")
class TestReading:
    """Looking at pods and containers."""

    async def test_version(self, client: Client) -> None:
        """The runtime says who it is."""
        assert Version("containerd", "2.3.7", "v1") == await client.version()

    async def test_list_containers(self, client: Client) -> None:
        """All containers are listed."""
        listed = await client.list_containers()

        assert [("c1", ContainerState.RUNNING)] == [(each.id, each.state) for each in listed]

    async def test_list_pod_sandboxes(self, client: Client) -> None:
        """All pods are listed."""
        assert ["p1"] == [each.id for each in await client.list_pod_sandboxes()]

    async def test_container_status(self, client: Client) -> None:
        """A status is asked for with its verbose part."""
        status = await client.container_status("c1")

        assert status is not None
        assert ("c1", 42) == (status.id, status.pid)

    async def test_missing_container_is_none(self, client: Client) -> None:
        """A container that is not there is an answer, not an error."""
        assert await client.container_status("c2") is None

    async def test_failure(self, client: Client) -> None:
        """Any other status is an error with its name and text."""
        with pytest.raises(CriFailed) as caught:
            await client.container_status("")

        assert ("ContainerStatus", "UNKNOWN", "prefix can't be empty") == (
            caught.value.method,
            caught.value.status,
            caught.value.message,
        )


class TestStopContainer:
    """Stopping a container."""

    async def test_stop(self, runtime: FakeCri, client: Client) -> None:
        """The grace period is passed on."""
        await client.stop_container("c1", grace_seconds=30)

        assert ([("c1", 30)], {"c1": cri_pb2.CONTAINER_EXITED}) == (runtime.stops, runtime.containers)

    async def test_missing_container_counts_as_stopped(self, runtime: FakeCri, client: Client) -> None:
        """What is gone is stopped."""
        await client.stop_container("c2", grace_seconds=0)

        assert [("c2", 0)] == runtime.stops


class TestEvents:
    """Following containers."""

    async def test_events(self, runtime: FakeCri, client: Client) -> None:
        """Events come in order until the runtime ends the stream."""
        for number in (cri_pb2.CONTAINER_CREATED_EVENT, cri_pb2.CONTAINER_STOPPED_EVENT):
            await runtime.events.put(
                cri_pb2.ContainerEventResponse(container_id="c1", container_event_type=number, created_at=5)
            )
        await runtime.events.put(None)

        seen = [event async for event in client.container_events()]

        assert [ContainerEvent("c1", EventType.CREATED, 5), ContainerEvent("c1", EventType.STOPPED, 5)] == seen

    async def test_cut_connection(self, runtime: FakeCri, client: Client) -> None:
        """A runtime that goes away ends the stream with an error."""
        await runtime.events.put(cri_pb2.ContainerEventResponse(container_id="c1"))
        events = client.container_events()
        await anext(events)
        runtime.cut()

        with pytest.raises(CriUnavailable):
            await anext(events)

    async def test_leaving_early(self, runtime: FakeCri, client: Client) -> None:
        """Who has seen enough closes the stream, and the client goes on working."""
        await runtime.events.put(cri_pb2.ContainerEventResponse(container_id="c1"))
        events = client.container_events()
        await anext(events)
        await events.aclose()

        assert "containerd" == (await client.version()).runtime_name


class TestUnavailable:
    """A runtime that does not answer."""

    async def test_missing_socket(self, client: Client) -> None:
        """No socket, no runtime."""
        with pytest.raises(CriUnavailable, match="CRI Version: runtime unavailable: No such file or directory"):
            await client.version()

    async def test_refusing_socket(self, socket_path: str, client: Client) -> None:
        """A socket without a listener is the same."""
        with socket.socket(socket.AF_UNIX) as abandoned:
            abandoned.bind(socket_path)
        with pytest.raises(CriUnavailable, match="Connection refused"):
            await client.version()

    async def test_deadline(self, runtime: FakeCri, client: Client) -> None:
        """A runtime that hangs is waited for as long as asked, and can be asked again."""
        runtime.hangs = True
        with pytest.raises(CriDeadlineExceeded) as caught:
            await client.version(timeout=0.05)
        runtime.hangs = False

        assert "CRI Version: no answer within 0.05 s" == str(caught.value)
        assert "2.3.7" == (await client.version()).runtime_version

    async def test_restart(self, socket_path: str, client: Client) -> None:
        """After the runtime came back the client works again."""
        for _ in range(2):
            fake = FakeCri()
            server = Server([fake])
            await server.start(path=socket_path)
            assert "containerd" == (await client.version()).runtime_name
            server.close()
            fake.cut()
            await server.wait_closed()
            with pytest.raises(CriUnavailable):
                await client.version()

    async def test_peer_that_is_no_runtime(self, socket_path: str, client: Client) -> None:
        """Garbage and an end is a runtime that is not there."""

        async def serve(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            writer.close()

        async with await asyncio.start_unix_server(serve, socket_path):
            with pytest.raises(CriUnavailable):
                await client.version()


class TestDefaults:
    """What users rely on without naming it."""

    async def test_authority(self, client: Client) -> None:
        """The server is told a host name that every proxy accepts."""
        assert "localhost" == client._channel._authority

    def test_values(self) -> None:
        """The socket is containerd's, reading takes at most 5 s, a stop gets 15 s beyond its grace period."""
        assert ("/run/containerd/containerd.sock", 5.0, 15.0) == (
            cri.DEFAULT_SOCKET,
            cri.READ_TIMEOUT,
            cri.STOP_MARGIN,
        )
