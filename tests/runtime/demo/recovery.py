"""
The acts in which fractiond dies, a container slips through, and the next fractiond catches it.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping

import attrs
from lab.errors import Overdue

from demo.cast import LIMIT, NO_FENCE, Role, latecomer
from demo.screen import Screen
from demo.stage import Outcome, Running, Stage
from demo.views import judge, show_outcomes

# A runtime that still asks the dead plugin refuses; once it has taken it off its list, containers slip through.
SLIP_ATTEMPTS = 5
STOPPED_WITHIN_SECONDS = 10.0


@attrs.frozen
class Slipped:
    """
    The pod of the container that slips through, and the container if it came to run.
    """

    role: Role
    pod: str
    running: Running | None


async def slip_through(screen: Screen, stage: Stage) -> Slipped:
    """
    Kill fractiond, and create a container that nobody can fence.
    """
    service = stage.fractiond.service
    service.signal(signal.SIGKILL)
    status = await service.wait()
    screen.say(f"kill -9 {service.pid}: fractiond is dead.")
    screen.expect("how fractiond ended", expected=-signal.SIGKILL, seen=status)
    role = latecomer(stage.mpsd.pipe_dir, stage.mpsd.daemon(), stage.gpus[0])
    screen.say(f"A pod {role.pod} asks for gpu-memory.limit: {role.asks['gpu-memory.limit']}, and nobody sees to it.")
    pod = await stage.pod(role)
    outcome = await _create_unseen(screen, stage, role, pod)
    show_outcomes(screen, {role.pod: outcome})
    if not isinstance(outcome, Running):
        screen.expect(f"{role.pod} slips through", expected="running", seen="refused")
        return Slipped(role, pod, None)
    if screen.expect(f"{role.pod} has no fence", expected=NO_FENCE, seen=outcome.fence):
        screen.say()
        screen.say(f"It runs WITHOUT a limit: {LIMIT} is not set inside.")
    return Slipped(role, pod, outcome)


async def catch(screen: Screen, stage: Stage, *, slipped: Slipped, fenced: Mapping[str, Running]) -> None:
    """
    Start fractiond again: it stops the container that slipped through and no other, and a kubelet creates it anew.
    """
    started = time.monotonic()
    await stage.fractiond.start()
    screen.say(f"fractiond runs again, process {stage.fractiond.service.pid}.")
    if slipped.running is not None:
        await _show_stop(screen, stage, slipped.running, started)
    await stage.fractiond.ready()
    await show_undisturbed(screen, stage, fenced, who="The others")
    screen.say("The stopped one is created anew, as a kubelet does, and this time it is fenced:")
    outcome = await stage.container(slipped.role, slipped.pod)
    show_outcomes(screen, {slipped.role.pod: outcome})
    judge(screen, slipped.role, outcome)


async def show_undisturbed(screen: Screen, stage: Stage, running: Mapping[str, Running], *, who: str) -> None:
    """
    Show that containers still run in the processes they had.

    Args:
        screen: Where to show it.
        stage: Where they run.
        running: What they were, by pod.
        who: What to call them.
    """
    undisturbed = []
    for pod, before in running.items():
        now = await stage.cri.status(before.container)
        expected = f"running, process {before.pid}"
        if screen.expect(f"{pod} goes on", expected=expected, seen=f"{now.state}, process {now.pid}"):
            undisturbed.append(f"{pod} ({before.pid})")
    screen.say(f"{who} run on undisturbed, in the same processes: {', '.join(undisturbed) or 'none'}.")


async def _create_unseen(screen: Screen, stage: Stage, role: Role, pod: str) -> Outcome:
    outcome = await stage.container(role, pod)
    for _ in range(SLIP_ATTEMPTS - 1):
        if isinstance(outcome, Running):
            break
        screen.say(f"Refused, since containerd has not noticed yet and still asks: {outcome.message}", hanging="  ")
        outcome = await stage.container(role, pod)
    return outcome


async def _show_stop(screen: Screen, stage: Stage, slipped: Running, started: float) -> None:
    try:
        await stage.cri.wait_for_state(slipped.container, "exited", timeout_seconds=STOPPED_WITHIN_SECONDS)
    except Overdue as overdue:
        screen.expect("the container that slipped through", expected="stopped", seen=str(overdue))
        return
    took = time.monotonic() - started
    log = stage.fractiond.service
    found = await log.wait_for_log("violation_found", container_id=slipped.container)
    # The counters tell of the stop only after this line.
    await log.wait_for_log("container_stopped", container_id=slipped.container)
    screen.say(
        f"It found {found['pod']} {found['kind']} and had it stopped {took:.1f} s after being started. Its reasons:"
    )
    for reason in found["reasons"]:
        screen.say(f"- {reason}")
    screen.expect("what it found", expected=("latecomer", "unfenced"), seen=(found["pod"], found["kind"]))
    screen.expect("a missing limit is a reason", expected=True, seen=f"env:{LIMIT} missing" in found["reasons"])
