"""
A runtime that talks nonsense, through a wire between a real containerd and fractiond.

Whatever comes, fractiond says why it dropped the connection, makes a new one, and fences the next container; and it
does not grow.
"""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from lab import fractional
from lab.containerd import Containerd
from lab.cri import Cri
from lab.fractiond import Fractiond
from lab.wires import Wire
from nri_aio.pb import nri_pb2, ttrpc_pb2

MIB = 1024 * 1024
MAX_GROWTH_KIB = 24 * 1024


def frame(payload: bytes, *, connection: int = 1, claimed: int | None = None) -> bytes:
    """Wrap bytes as a frame of the multiplexer, which may claim another length."""
    return struct.pack(">II", connection, len(payload) if claimed is None else claimed) + payload


def message(body: bytes, *, stream: int, kind: int = 1, claimed: int | None = None) -> bytes:
    """Wrap a body as a ttrpc message."""
    return struct.pack(">IIBB", len(body) if claimed is None else claimed, stream, kind, 0) + body


def request(method: str, payload: bytes, *, stream: int) -> bytes:
    """Write a runtime's request."""
    envelope = ttrpc_pb2.Request(service="nri.pkg.api.v1alpha1.Plugin", method=method, payload=payload)
    return frame(message(envelope.SerializeToString(), stream=stream))


ENDS = [
    pytest.param(bytes(range(256)) * 256, "protocol violation", id="64 KiB of garbage"),
    pytest.param(frame(b"", claimed=3 * 1024 * MIB), "protocol violation", id="a frame of 3 GiB"),
    pytest.param(frame(b"\xff" * (5 * MIB)), "protocol violation", id="a frame of 5 MiB that holds no message"),
    pytest.param(frame(message(b"", stream=9001, claimed=200 * MIB)), "protocol violation", id="a message of 200 MiB"),
]
UNKNOWN_EVENT = nri_pb2.StateChangeEvent(event=99)  # type: ignore[arg-type] # a number that is no event's
PASSES = [
    pytest.param(
        request("StateChange", UNKNOWN_EVENT.SerializeToString(), stream=9001),
        id="an unknown event",
    ),
    pytest.param(request("Levitate", b"", stream=9001), id="an unknown method"),
    pytest.param(request("CreateContainer", b"\xff\xff\xff", stream=9001), id="a request that does not decode"),
    pytest.param(frame(message(b"\xff\xff", stream=9001)), id="an envelope that does not decode"),
    pytest.param(frame(message(b"", stream=9001, kind=77)), id="an unknown type of message"),
    pytest.param(frame(message(b"late", stream=4001, kind=2), connection=2), id="an answer nobody asked for"),
    pytest.param(frame(b"x" * (5 * MIB), connection=7), id="5 MiB for a connection nobody opened"),
    pytest.param(
        frame(message(b"\0" * (5 * MIB - 10), stream=9001, kind=3)), id="a message of 5 MiB that means nothing"
    ),
]


async def grown_kib(fractiond: Fractiond, before: int) -> int:
    """Tell by how much the process grew."""
    return fractiond.service.usage().rss_kib - before


@pytest.mark.parametrize(("nonsense", "said"), ENDS)
async def test_nonsense_ends_the_connection(
    containerd: Containerd, cri: Cri, tmp_path: Path, nonsense: bytes, said: str
) -> None:
    """The reason is logged, the connection made anew, and the next container fenced."""
    async with Wire(tmp_path / "nri.sock", containerd.nri_socket) as wire:
        async with Fractiond(containerd, directory=tmp_path, nri_socket=tmp_path / "nri.sock") as fractiond:
            await fractiond.ready()
            before = fractiond.service.usage().rss_kib
            wire.inject(nonsense)
            ended = await fractiond.service.wait_for_log("runtime_connection_ended")
            await fractiond.ready()
            container = await fractional.run(cri, "next")

            assert said in ended["reason"]
            assert await fractional.unfenced(cri, [container]) == set()
            assert await grown_kib(fractiond, before) < MAX_GROWTH_KIB


@pytest.mark.parametrize("nonsense", PASSES)
async def test_nonsense_that_is_answered_or_passed_over(
    containerd: Containerd, cri: Cri, tmp_path: Path, nonsense: bytes
) -> None:
    """What a newer runtime might send does not end the connection."""
    async with Wire(tmp_path / "nri.sock", containerd.nri_socket) as wire:
        async with Fractiond(containerd, directory=tmp_path, nri_socket=tmp_path / "nri.sock") as fractiond:
            await fractiond.ready()
            before = fractiond.service.usage().rss_kib
            wire.inject(nonsense)
            # The runtime drops an answer whose request it never made; ids of its own go on from where they were.
            page = await fractiond.get("/readyz")

            assert page.status == 200
            assert await fractiond.metric("connections_total") == 1
            assert await grown_kib(fractiond, before) < MAX_GROWTH_KIB


async def test_half_a_frame_and_the_end(containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
    """A connection that is cut in the middle of a message is made anew."""
    async with Wire(tmp_path / "nri.sock", containerd.nri_socket) as wire:
        async with Fractiond(containerd, directory=tmp_path, nri_socket=tmp_path / "nri.sock") as fractiond:
            await fractiond.ready()
            wire.inject(request("StateChange", b"x" * 5000, stream=9001)[:2000])
            wire.cut()
            ended = await fractiond.service.wait_for_log("runtime_connection_ended")
            await fractiond.ready()
            container = await fractional.run(cri, "next")

            assert "connection lost while active" in ended["reason"]
            assert await fractional.unfenced(cri, [container]) == set()


async def test_cut_again_and_again(containerd: Containerd, cri: Cri, tmp_path: Path) -> None:
    """Twenty lost connections later nothing has grown, and the next container is fenced."""
    flags = ["--retry-interval=5ms", "--stable-threshold=0s"]
    async with Wire(tmp_path / "nri.sock", containerd.nri_socket) as wire:
        async with Fractiond(
            containerd, directory=tmp_path, nri_socket=tmp_path / "nri.sock", flags=flags
        ) as fractiond:
            await fractiond.ready()
            before = fractiond.service.usage().rss_kib
            for _ in range(20):
                since = len(fractiond.service.records())
                wire.cut()
                await fractiond.service.wait_for_log("synchronized", since=since)
                await fractiond.ready()
            container = await fractional.run(cri, "next")

            assert await fractional.unfenced(cri, [container]) == set()
            assert await fractiond.metric("connections_total") == 21
            assert await grown_kib(fractiond, before) < MAX_GROWTH_KIB


async def test_the_retry_budget(containerd: Containerd, tmp_path: Path) -> None:
    """With a bound on retries fractiond gives up with status 1 and says what it last heard."""
    flags = ["--retry-interval=10ms", "--max-retries=3"]
    async with Fractiond(containerd, directory=tmp_path, nri_socket=tmp_path / "nobody.sock", flags=flags) as fractiond:
        status = await fractiond.service.wait(timeout_seconds=10)
        failed = fractiond.service.records()[-1]

        assert status == 1
        assert failed["event"] == "service_failed"
        assert "gave up on the runtime after 3 retries" in failed["error"]
        assert "No such file or directory" in failed["error"]
