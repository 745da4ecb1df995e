"""
The acts of mpsd: it keeps the MPS control daemon running, which is the real one, and says how that is.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from fractioning_core import names
from lab import program
from lab.errors import Overdue
from lab.mpsd import PREFIX

from demo.recovery import show_undisturbed
from demo.screen import INDENT, Screen
from demo.stage import Running, Stage

LABEL_ROW = "label          not in a cluster: no label"


async def introduce(screen: Screen, stage: Stage) -> None:
    """
    Say what mpsd started, and show what it tells a person.
    """
    mpsd = stage.mpsd
    daemon = mpsd.daemon()
    screen.say()
    screen.say(
        f"mpsd runs, process {mpsd.service.pid}, and has started the MPS control daemon, process {daemon}: the real"
        " control daemon (Debian), simulated r615 driver."
    )
    real = str(mpsd.driver.real_control.resolve())
    screen.expect("the control daemon's program", expected=real, seen=str(Path(f"/proc/{daemon}/exe").readlink()))
    screen.expect("GET /readyz of mpsd", expected=200, seen=(await mpsd.get("/readyz")).status)
    page = await _show_status(screen, stage)
    screen.expect("the first line of mpsd status", expected=f"mpsd {version('mpsd')}: ready", seen=page[0])
    screen.expect("the label in mpsd status", expected=LABEL_ROW, seen=page[-1])
    screen.say(f"In a cluster mpsd also keeps the driver's major version in the node's label {names.DRIVER_LABEL}.")


async def crash(screen: Screen, stage: Stage, fenced: Mapping[str, Running]) -> None:
    """
    Kill the control daemon: mpsd says so, starts another and counts it, and running containers reach that one.
    """
    mpsd = stage.mpsd
    own, former = mpsd.service.pid, mpsd.daemon()
    killed = time.monotonic()
    os.kill(former, signal.SIGKILL)
    reason = await mpsd.not_ready("backing-off")
    screen.say(f"kill -9 {former}: the control daemon is dead, and GET /readyz of mpsd says 503 and why:")
    screen.say(reason.strip(), hanging="  ")
    try:
        daemon = await mpsd.another_daemon(former)
        await mpsd.serving()
    except Overdue as overdue:
        screen.expect("the control daemon after its crash", expected="back", seen=str(overdue).partition("\n")[0])
        return
    took = time.monotonic() - killed
    screen.say(f"{took:.1f} s after the crash mpsd is ready again, with another control daemon, process {daemon}.")
    await _show_count(screen, stage, own)
    await show_undisturbed(screen, stage, fenced, who="The containers")
    await _show_reached(screen, stage, fenced, daemon)


async def _show_count(screen: Screen, stage: Stage, own: int) -> None:
    """
    Show that mpsd itself was not restarted, and has counted.
    """
    service = stage.mpsd.service
    if screen.expect("mpsd after the crash", expected=(own, None), seen=(service.pid, service.exit_code)):
        screen.say(f"mpsd itself is still process {own}, and has counted:")
    counted = await stage.mpsd.metric("restarts_total", reason="crashed")
    screen.lines([f'{INDENT * 2}{PREFIX}restarts_total{{reason="crashed"}} {counted}'])
    screen.expect("the crashes mpsd counted", expected=1.0, seen=counted)


async def _show_reached(screen: Screen, stage: Stage, fenced: Mapping[str, Running], daemon: int) -> None:
    reaching = []
    for pod, running in fenced.items():
        if not running.fence.pipe_dir:
            continue
        seen = await stage.reached(running.container, f"hello-again-from-{pod}")
        if screen.expect(f"whom a client in {pod} reaches", expected=str(daemon), seen=seen):
            reaching.append(pod)
    screen.say(
        f"Clients inside of {', '.join(reaching) or 'none'} reach process {daemon} now, since it is the directory that"
        " is mounted, not the socket."
    )


async def _show_status(screen: Screen, stage: Stage) -> list[str]:
    argv = status_command(stage)
    done = await asyncio.to_thread(subprocess.run, argv, capture_output=True, text=True, check=False)
    screen.expect("the exit status of mpsd status", expected=0, seen=done.returncode)
    page = done.stdout.splitlines() or [done.stderr]
    screen.say(f"The command mpsd status {argv[-1]} says:")
    screen.say()
    screen.lines([(INDENT * 2 + line).rstrip() for line in page])
    screen.say()
    return page


def status_command(stage: Stage) -> list[str | Path]:
    """
    Give the command that asks this mpsd.
    """
    return [program.script("mpsd"), "status", f"--rpc-socket={stage.mpsd.rpc_socket}"]
