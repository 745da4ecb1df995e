"""
The show itself: its steps in order, and what becomes of an interruption or a claim that does not hold.

Whatever happens (an error, Ctrl-C, a claim that does not hold), nothing is left of it, unless it is told to --keep.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
import time
from contextlib import AsyncExitStack
from importlib.metadata import version
from pathlib import Path

from lab import sweep, toolchain
from lab.errors import LabError

from demo import acts, commandline, hints, leftovers, mps, page, recovery
from demo.cast import Role, cast, latecomer
from demo.commandline import Options
from demo.interruption import Interruption
from demo.screen import Screen
from demo.stage import VERSION, Stage

STEPS = 6
STEPS_WITH_CLEANUP = 7


def main() -> None:
    """
    Run the demo as a program.
    """
    options = commandline.parse(sys.argv[1:])
    try:
        status = asyncio.run(clean(options.clean) if options.clean else run(options))
    except BrokenPipeError:
        # Whoever read the output is gone. Everything is removed by now; the interpreter's last flush must not fail.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 1
    raise SystemExit(status)


async def run(options: Options) -> int:
    """
    Show everything.

    Returns:
        The exit status: 0, 1 where something was not as claimed or went wrong, 128 and the signal that ended it.
    """
    screen = Screen(sys.stdout, steps=STEPS if options.keep else STEPS_WITH_CLEANUP)
    started = time.monotonic()
    interruption = Interruption.watch()
    try:
        stage = Stage(
            fractiond_flags=options.fractiond_flags,
            mpsd_flags=options.mpsd_flags,
            metricsd_flags=options.metricsd_flags,
        )
        _introduce(screen, stage)
    except LabError as error:
        return _failed(str(error))
    try:
        await _perform(stage, options, screen, interruption)
    except BrokenPipeError:
        raise
    except (asyncio.CancelledError, Exception) as error:
        interruption.defer()
        # A terminal's Ctrl-C reaches containerd and the daemons too, so that anything may have failed because of it.
        if interruption.signum is not None:
            print(f"\ndemo: interrupted by {interruption.signum.name}; {await _aftermath(stage.base)}", flush=True)
            return 128 + interruption.signum
        if isinstance(error, LabError | OSError):
            return _failed(f"{error}\n\n{await _aftermath(stage.base)}")
        raise
    return _conclude(screen, time.monotonic() - started)


async def clean(base: Path) -> int:
    """
    Remove what a demo left, by the name of its directory.

    Returns:
        The exit status.
    """
    if not leftovers.remains(base):
        print(f"demo: there is nothing of {base}")
        return 0
    try:
        await leftovers.clean(base)
    except LabError as error:
        return _failed(str(error))
    print(f"demo: removed everything of {base}")
    return 0


async def _perform(stage: Stage, options: Options, screen: Screen, interruption: Interruption) -> None:
    async with AsyncExitStack() as stack:
        with screen.step("Start a private containerd, and mpsd, fractiond and metricsd beside it"):
            await stack.enter_async_context(stage)
            await acts.introduce(screen, stage)
            await mps.introduce(screen, stage)
            await page.introduce(screen, stage)
        await _acts(stage, screen)
        if options.keep:
            screen.lines(hints.commands(stage))
            await stage.leave_running()
            return
        interruption.defer()
        with screen.step("Clean up"):
            sockets = sweep.shim_sockets(stage.containerd.layout.state)
            await stack.aclose()
            if screen.expect("what is left", expected=[], seen=leftovers.remains(stage.base, sockets)):
                screen.say("No process, mount, cgroup, socket or file of the demo is left.")


async def _acts(stage: Stage, screen: Screen) -> None:
    with screen.step("Create six containers, as a kubelet would"):
        fenced = await acts.create(screen, stage)
    with screen.step("Kill fractiond, and create a container while it is dead"):
        slipped = await recovery.slip_through(screen, stage)
    with screen.step("Start fractiond again"):
        await recovery.catch(screen, stage, slipped=slipped, fenced=fenced)
    with screen.step("Kill the MPS control daemon"):
        await mps.crash(screen, stage, fenced)
    with screen.step("What fractiond and metricsd tell the world"):
        await acts.report(screen, stage, fenced.get("inference"))
        await page.show(screen, stage, _fractional(stage))


def _fractional(stage: Stage) -> list[Role]:
    """
    List the roles that run behind a limit by now.
    """
    pipe_dir, gpus = stage.mpsd.pipe_dir, stage.gpus
    # There may be no control daemon by now, and none matters to metricsd.
    roles = (*cast(pipe_dir, 0, gpus), latecomer(pipe_dir, 0, gpus[0]))
    return [role for role in roles if role.holds_mib]


def _introduce(screen: Screen, stage: Stage) -> None:
    screen.lines(
        [
            "gpu-fractioning demo: containers that share a GPU, each behind a memory limit",
            "",
            f"  real       containerd {VERSION}, {_runc()}, NRI and CRI between them,",
            f"             {_daemons()},",
            "             and Debian's MPS control daemon, of driver branch 550",
            "  simulated  an r615 driver: NVML, and what r615's control daemon does and 550's does not; the GPUs:",
            "             device nodes, a CDI spec and the driver's listing, but no hardware. So no MPS server",
            "             starts, and the memory that processes hold, and the limits on it, are simulated too.",
            "  played     the kubelet: this program sends the requests that a kubelet sends",
            "",
            f"  DIR below is {stage.base}. Everything the demo makes is in there.",
            "",
        ]
    )
    screen.abbreviate(stage.base)


def _daemons() -> str:
    return ", ".join(f"{name} {version(name)}" for name in ("fractiond", "mpsd", "metricsd"))


def _runc() -> str:
    program = shutil.which("runc", path=toolchain.locate(VERSION).search_path) or "runc"
    first_line = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[
        0
    ]
    return first_line.replace(" version", "")


async def _aftermath(base: Path) -> str:
    """
    Say that nothing is left after an untimely end, having seen to it.
    """
    if leftovers.remains(base):
        # Leaving the stage was cut short half-way, or met the same fault.
        await leftovers.clean(base)
    return "nothing is left of the demo"


def _failed(reason: str) -> int:
    print(f"\ndemo: FAILED: {reason}", flush=True)
    return 1


def _conclude(screen: Screen, seconds: float) -> int:
    held, failures = screen.checks.held, screen.checks.failures
    if not failures:
        screen.lines([f"demo: ok, {held} checks held, {seconds:.1f} s"])
        return 0
    screen.lines([f"demo: FAILED, {len(failures)} of {held + len(failures)} checks did not hold:"])
    for failure in failures:
        screen.say(f"- {failure}", hanging="  ")
    return 1
