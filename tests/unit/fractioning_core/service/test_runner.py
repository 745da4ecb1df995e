from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fractioning_core.service import runner

PRELUDE = """
import asyncio, sys, threading, time
import structlog, uvloop
from fractioning_core.errors import InvalidInput, Unavailable
from fractioning_core.service import runner

log = structlog.get_logger()

async def in_group(*errors):
    async def fail(error):
        raise error
    async with asyncio.TaskGroup() as group:
        for error in errors:
            group.create_task(fail(error))
"""

CALL = """
raise SystemExit(runner.run(main, service="demo", log_level="info"))
"""


@contextmanager
def a_process(main: str) -> Iterator[subprocess.Popen[str]]:
    """Start a service with this main."""
    with subprocess.Popen(  # noqa: S603 - our own interpreter and our own text
        [sys.executable, "-W", "error", "-c", PRELUDE + main + CALL],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def read_event(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    event: str = json.loads(process.stdout.readline())["event"]
    return event


def rest_of(process: subprocess.Popen[str]) -> tuple[int, list[dict[str, Any]], str]:
    """Wait for the end; return the status, the log lines not read yet, and stderr."""
    out, err = process.communicate(timeout=30)
    return process.returncode, [json.loads(line) for line in out.splitlines()], err


def run(main: str) -> tuple[int, list[dict[str, Any]], str]:
    with a_process(main) as process:
        return rest_of(process)


class TestSignals:
    @pytest.mark.parametrize(
        "number", [pytest.param(signal.SIGTERM, id="SIGTERM"), pytest.param(signal.SIGINT, id="SIGINT")]
    )
    def test_first(self, number: int) -> None:
        """The first signal sets the stop event, main drains, and the process ends with 0."""
        main = """
async def main(stop):
    log.info("started", loop=type(asyncio.get_running_loop()).__module__)
    await stop.wait()
    await asyncio.sleep(0)
    log.info("drained")
"""
        with a_process(main) as process:
            assert "started" == read_event(process)
            process.send_signal(number)
            status, lines, err = rest_of(process)

        assert (0, ["drained"], "") == (status, [line["event"] for line in lines], err)

    def test_second_while_draining(self) -> None:
        """The second signal ends a process whose drain hangs, with 1."""
        main = """
async def main(stop):
    log.info("started")
    await stop.wait()
    log.info("draining")
    await asyncio.Event().wait()
"""
        with a_process(main) as process:
            assert "started" == read_event(process)
            process.send_signal(signal.SIGTERM)
            assert "draining" == read_event(process)
            process.send_signal(signal.SIGINT)
            status, _, err = rest_of(process)

        assert (1, "") == (status, err)

    def test_second_while_the_loop_is_stuck(self) -> None:
        """The second signal ends a process even when its event loop does not turn."""
        main = """
async def main(stop):
    log.info("started")
    await stop.wait()
    log.info("stuck")
    while True:
        pass
"""
        with a_process(main) as process:
            assert "started" == read_event(process)
            process.send_signal(signal.SIGTERM)
            assert "stuck" == read_event(process)
            process.send_signal(signal.SIGTERM)
            status, _, err = rest_of(process)

        assert (1, "") == (status, err)

    def test_second_while_a_thread_is_stuck(self) -> None:
        """The second signal ends a process that waits for a thread after main has returned."""
        main = """
async def main(stop):
    log.info("started")
    await stop.wait()
    asyncio.get_running_loop().run_in_executor(None, threading.Event().wait)
    asyncio.get_running_loop().call_soon(log.info, "leaving")
    await asyncio.sleep(0)
"""
        with a_process(main) as process:
            assert "started" == read_event(process)
            process.send_signal(signal.SIGTERM)
            assert "leaving" == read_event(process)
            process.send_signal(signal.SIGTERM)
            status, _, err = rest_of(process)

        assert (1, "") == (status, err)

    @pytest.mark.parametrize(
        "number", [pytest.param(signal.SIGTERM, id="SIGTERM"), pytest.param(signal.SIGINT, id="SIGINT")]
    )
    def test_before_the_loop(self, number: int) -> None:
        """A signal that comes before there is an event loop is delivered once there is, and handlers are put back."""
        before = signal.getsignal(number)
        delivered: list[str] = []

        with runner._Signals() as signals:
            signal.raise_signal(number)
            signals.deliver_to(lambda: delivered.append("stop"))

        assert (["stop"], before) == (delivered, signal.getsignal(number))

    def test_after_the_loop(self) -> None:
        """A first signal while the process already ends changes nothing."""
        delivered: list[str] = []

        with runner._Signals() as signals:
            signals.deliver_to(lambda: delivered.append("stop"))
            signals.deliver_to(None)
            signal.raise_signal(signal.SIGTERM)

        assert [] == delivered


class TestOutcome:
    def test_return(self) -> None:
        """A main that returns by itself ends with 0."""
        outcome = run("async def main(stop): pass")

        assert (0, [], "") == outcome

    def test_loop(self) -> None:
        """The event loop is uvloop's."""
        _, (line,), _ = run(
            "async def main(stop): log.info('loop', uvloop=isinstance(asyncio.get_running_loop(), uvloop.Loop))"
        )

        assert line["uvloop"]

    def test_expected_error(self) -> None:
        """An error of ours is one line with its text, without a traceback, and status 1."""
        status, (line,), err = run("async def main(stop): raise Unavailable('cannot listen on port 80')")
        del line["time"]

        assert (
            1,
            {
                "level": "error",
                "event": "service_failed",
                "service": "demo",
                "kind": "Unavailable",
                "error": "cannot listen on port 80",
            },
            "",
        ) == (status, line, err)

    def test_unknown_error(self) -> None:
        """Any other error is one line with its traceback, and status 1."""
        status, (line,), err = run("async def main(stop): raise LookupError('gone')")

        assert (1, "service_crashed", "") == (status, line["event"], err)
        assert line["exception"].endswith("LookupError: gone")

    def test_group(self) -> None:
        """Errors of a task group, nested or not, are told one by one."""
        status, lines, err = run("""
async def main(stop):
    async with asyncio.TaskGroup() as group:
        group.create_task(in_group(Unavailable("a"), LookupError("b")))
        group.create_task(in_group(InvalidInput("c")))
""")

        told = [(line["event"], line.get("error", "")) for line in lines]
        assert (1, [("service_failed", "a"), ("service_failed", "c"), ("service_crashed", "")], "") == (
            status,
            told,
            err,
        )

    def test_error_while_draining(self) -> None:
        """A drain that fails is a failure."""
        main = """
async def main(stop):
    log.info("started")
    await stop.wait()
    raise Unavailable("disk")
"""
        with a_process(main) as process:
            assert "started" == read_event(process)
            process.send_signal(signal.SIGTERM)
            status, (line,), err = rest_of(process)

        assert (1, "service_failed", "") == (status, line["event"], err)

    def test_stdout_that_nobody_reads(self) -> None:
        """A full pipe holds up neither the event loop nor the end of the process."""
        main = """
async def main(stop):
    for number in range(20_000):
        log.info("event", number=number)
"""
        with a_process(main) as process:
            status = process.wait(30)
            assert process.stderr is not None
            err = process.stderr.read()

        assert (0, "") == (status, err)


class TestThreads:
    def test_one_that_never_returns_is_left_behind(self) -> None:
        """A call that hangs in the kernel does not keep the process from ending."""
        main = """
async def main(stop):
    asyncio.get_running_loop().run_in_executor(None, time.sleep, 1000)
    await asyncio.sleep(0.1)
"""
        status, events, _ = run(main)

        assert (0, ["threads_left_behind"]) == (status, [event["event"] for event in events])

    def test_one_that_returns_is_waited_for(self) -> None:
        """A write that is under way is finished."""
        main = """
def write():
    time.sleep(0.3)
    log.info("written")

async def main(stop):
    asyncio.get_running_loop().run_in_executor(None, write)
    await asyncio.sleep(0.1)
"""
        status, events, _ = run(main)

        assert (0, ["written"]) == (status, [event["event"] for event in events])
