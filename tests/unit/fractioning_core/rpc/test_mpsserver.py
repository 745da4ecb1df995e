"""
Service and client over grpclib's transport in memory, with the generated stubs.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

import pytest
import pytest_asyncio
from fractioning_core.errors import FileUnavailable, FractioningError, Misuse
from fractioning_core.rpc.errors import (
    CallBroken,
    CallRejected,
    ClientStuck,
    DaemonUnavailable,
    NoSuchClient,
    NothingToRestart,
)
from fractioning_core.rpc.mpsclient import MpsClient
from fractioning_core.rpc.mpsserver import MpsHandlers
from fractioning_core.rpc.mpsvalues import MpsStatus, RestartKind
from fractioning_core.rpc.pb.fractioning.mps import v1
from grpclib.client import Channel
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from grpclib.testing import ChannelFor

if TYPE_CHECKING:
    from .conftest import FakeMps


@pytest_asyncio.fixture
async def channel(mps: FakeMps) -> AsyncIterator[Channel]:
    """
    A channel to the service.
    """
    async with ChannelFor([MpsHandlers(mps)]) as made:
        yield made


@pytest.fixture
def client(channel: Channel) -> MpsClient:
    """
    Our client of it.
    """
    return MpsClient(channel, path="in memory")


class TestCalls:
    async def test_status(self, client: MpsClient, full: MpsStatus) -> None:
        """
        A status arrives whole.
        """
        assert await client.status() == full

    async def test_list_clients(self, client: MpsClient) -> None:
        """
        Clients arrive in their order.
        """
        assert await client.list_clients() == (7, 12)

    async def test_terminate_client(self, client: MpsClient, mps: FakeMps) -> None:
        """
        Pid and deadline arrive.
        """
        await client.terminate_client(7, deadline_seconds=2.5)

        assert mps.asked == [("terminate", 7, 2.5)]

    async def test_terminate_client_without_deadline(self, client: MpsClient, mps: FakeMps) -> None:
        """
        A deadline of 0 is the default of 30 s.
        """
        await client.terminate_client(7, deadline_seconds=0)

        assert mps.asked == [("terminate", 7, 30.0)]

    @pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.value) for kind in RestartKind])
    async def test_restart(self, client: MpsClient, mps: FakeMps, kind: RestartKind) -> None:
        """
        Kind and reason arrive.
        """
        await client.restart(kind, reason="a person")

        assert mps.asked == [("restart", kind, "a person")]


class TestBounds:
    @pytest.mark.parametrize(
        ("request_message", "told"),
        [
            pytest.param(v1.TerminateClientRequest(), "pid 0; accepted: 1 to 4194304", id="no pid"),
            pytest.param(v1.TerminateClientRequest(pid=4_194_305), "pid 4194305; accepted", id="pid too high"),
            pytest.param(v1.TerminateClientRequest(pid=1, deadline_seconds=-1), "deadline_seconds -1;", id="negative"),
            pytest.param(
                v1.TerminateClientRequest(pid=1, deadline_seconds=301), "deadline_seconds 301;", id="too long"
            ),
            pytest.param(
                v1.TerminateClientRequest(pid=1, deadline_seconds=float("nan")), "deadline_seconds nan;", id="no number"
            ),
        ],
    )
    async def test_terminate_client(
        self, channel: Channel, mps: FakeMps, request_message: v1.TerminateClientRequest, told: str
    ) -> None:
        """
        A pid or a deadline out of bounds is refused with the accepted form, and nothing is done.
        """
        with pytest.raises(GRPCError) as refused:
            await v1.MpsStub(channel).terminate_client(request_message)

        assert (refused.value.status, mps.asked) == (Status.INVALID_ARGUMENT, [])
        assert told in (refused.value.message or "")

    @pytest.mark.parametrize(
        ("request_message", "told"),
        [
            pytest.param(v1.RestartRequest(), "kind is missing; accepted: KIND_GRACEFUL, KIND_HARD", id="no kind"),
            pytest.param(
                v1.RestartRequest(kind=v1.RestartRequestKind(2), reason="x" * 201), "201 characters", id="long"
            ),
        ],
    )
    async def test_restart(self, channel: Channel, mps: FakeMps, request_message: v1.RestartRequest, told: str) -> None:
        """
        A restart without a kind or with a reason that fills a log is refused.
        """
        with pytest.raises(GRPCError) as refused:
            await v1.MpsStub(channel).restart(request_message)

        assert (refused.value.status, mps.asked) == (Status.INVALID_ARGUMENT, [])
        assert told in (refused.value.message or "")


class TestErrors:
    @pytest.mark.parametrize(
        "error",
        [
            pytest.param(CallRejected("out of bounds"), id="rejected"),
            pytest.param(NoSuchClient("no client 7"), id="no such client"),
            pytest.param(ClientStuck("7 hangs"), id="stuck"),
            pytest.param(NothingToRestart("held"), id="nothing to restart"),
            pytest.param(DaemonUnavailable("no answer"), id="unavailable"),
        ],
    )
    async def test_those_documented(self, client: MpsClient, mps: FakeMps, error: FractioningError) -> None:
        """
        An error of the service is raised by the client as the same error.
        """
        mps.error = error

        with pytest.raises(type(error)) as raised:
            await client.list_clients()
        assert raised.value == error

    async def test_any_other_unavailable(self, client: MpsClient, mps: FakeMps) -> None:
        """
        What is not there for another reason is told as unavailable, in its own words.
        """
        mps.error = FileUnavailable("read", "/x", "Input/output error")

        with pytest.raises(DaemonUnavailable, match="cannot read /x: Input/output error"):
            await client.list_clients()

    async def test_our_own_mistakes(self, client: MpsClient, mps: FakeMps) -> None:
        """
        A bug of the service is told as broken and does not travel in words.
        """
        mps.error = Misuse("secret detail")

        with pytest.raises(CallBroken) as raised:
            await client.list_clients()
        assert "secret" not in str(raised.value)
