# ruff: noqa: D102 - what a handler means stands at the base class
from __future__ import annotations

import asyncio
import os
import socket

import nri_aio
import pytest
from nri_aio import Plugin
from nri_aio.errors import Disconnected, Misuse, NriError, ProtocolViolation, Rejected, Unreachable
from nri_aio.testing import FakeRuntime, Script, scripted


class Patient(Plugin):
    """Remembers why it has no connection."""

    def __init__(self) -> None:
        self.losses: list[tuple[type[NriError], float | None]] = []
        self.lost = asyncio.Condition()

    def disconnected(self, error: NriError, retry_seconds: float | None) -> None:
        self.losses.append((type(error), retry_seconds))


async def run(plugin: Plugin, socket_path: str, environment: dict[str, str] | None = None) -> None:
    await nri_aio.run(plugin, name="example", index="10", socket_path=socket_path, environment=environment or {})


@pytest.mark.looptime
class TestReconnecting:
    """A plugin that dials by itself."""

    async def test_waits_for_a_runtime(self, socket_path: str) -> None:
        """While nobody listens it tries again, at longer and longer intervals."""
        plugin = Patient()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(run(plugin, socket_path))
            await asyncio.sleep(60)
            async with FakeRuntime(socket_path) as runtime:
                await runtime.wait_plugins()
                running.cancel()

        waits = [seconds for _, seconds in plugin.losses if seconds is not None]
        assert {Unreachable} == {kind for kind, _ in plugin.losses}
        assert (True, True, True) == (waits[0] <= 0.1, 3.75 <= waits[-1] <= 5, len(waits) < 25)

    async def test_comes_back_after_a_restart(self, socket_path: str) -> None:
        """A runtime that restarts finds the plugin again, and soon."""
        plugin, loop = Patient(), asyncio.get_running_loop()
        async with asyncio.TaskGroup() as group:
            running = group.create_task(run(plugin, socket_path))
            runtime = FakeRuntime(socket_path)
            for _ in range(3):
                await runtime.start()
                await runtime.wait_plugins()
                await runtime.stop()
            await runtime.start()
            stopped = loop.time()
            await runtime.wait_plugins()
            waited = loop.time() - stopped
            running.cancel()
            await runtime.stop()

        assert (Disconnected, True) == (plugin.losses[-1][0], waited <= 0.2)

    async def test_rejection_is_retried_slowly(self, socket_path: str) -> None:
        """A runtime that refuses us is asked again at intervals that grow to half a minute."""

        class Greedy(Patient):
            def validate_container_adjustment(self, request: object, call: object) -> None:
                pass

        plugin = Greedy()
        async with FakeRuntime(socket_path, version="2.3.7", nri=(0, 8)), asyncio.TaskGroup() as group:
            running = group.create_task(run(plugin, socket_path))
            await asyncio.sleep(300)
            running.cancel()

        waits = [seconds for _, seconds in plugin.losses if seconds is not None]
        assert ({Rejected}, True) == ({kind for kind, _ in plugin.losses}, 22.5 <= waits[-1] <= 30)

    async def test_no_runtime_at_the_other_end_is_retried_slowly(self, socket_path: str) -> None:
        """Garbage from the socket is a reason to wait, not to give up."""

        async def script(script: Script) -> None:
            script.writer.write(b"\xff" * 64)
            await script.reader.read()

        plugin = Patient()
        async with scripted(socket_path, script), asyncio.TaskGroup() as group:
            running = group.create_task(run(plugin, socket_path))
            await asyncio.sleep(0.05)
            running.cancel()

        assert [ProtocolViolation] == [kind for kind, _ in plugin.losses]

    async def test_bad_name_is_an_error_at_once(self, socket_path: str) -> None:
        """What can never work is not tried again."""
        with pytest.raises(Misuse):
            await nri_aio.run(Patient(), name="", index="10", socket_path=socket_path, environment={})


class TestLaunched:
    """A plugin that the runtime started."""

    async def test_uses_the_inherited_socket_and_ends_with_it(self, socket_path: str) -> None:
        """The descriptor in NRI_PLUGIN_SOCKET is the connection; when it closes, `run` returns."""
        plugin = Patient()
        async with FakeRuntime(socket_path) as runtime, asyncio.TaskGroup() as group:
            inherited = socket.socket(socket.AF_UNIX)
            inherited.connect(socket_path)
            environment = {"NRI_PLUGIN_SOCKET": str(inherited.detach())}
            group.create_task(run(plugin, "/nowhere", environment))
            await runtime.wait_plugins()
            await runtime.stop()

        assert ({}, [(Disconnected, None)]) == (environment, plugin.losses)

    async def test_descriptor_is_not_inherited_further(self, socket_path: str) -> None:
        """Children of the plugin do not get the connection."""
        async with FakeRuntime(socket_path) as runtime, asyncio.TaskGroup() as group:
            inherited = socket.socket(socket.AF_UNIX)
            inherited.connect(socket_path)
            inherited.set_inheritable(True)
            descriptor = inherited.detach()
            group.create_task(run(Patient(), "/nowhere", {"NRI_PLUGIN_SOCKET": str(descriptor)}))
            await runtime.wait_plugins()
            inheritable = os.get_inheritable(descriptor)
            await runtime.stop()

        assert not inheritable

    @pytest.mark.parametrize(
        "value",
        [
            pytest.param("", id="empty"),
            pytest.param("three", id="a word"),
            pytest.param("-1", id="negative"),
            pytest.param("99999", id="not open"),
            pytest.param("9" * 30, id="out of range"),
        ],
    )
    async def test_bad_descriptor_is_named(self, value: str) -> None:
        """A variable that names no socket is an error with the variable and its value."""
        with pytest.raises(Misuse, match="NRI_PLUGIN_SOCKET="):
            await run(Patient(), "/nowhere", {"NRI_PLUGIN_SOCKET": value})
