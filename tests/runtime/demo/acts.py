"""
The acts of the demo that show fractiond at its daily work; each checks what it shows.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from lab.fractiond import PREFIX

from demo.cast import cast
from demo.screen import INDENT, Screen, cut
from demo.stage import Running, Stage
from demo.views import judge, show_clients, show_demands, show_outcomes

SHOWN_FAMILIES = ("containers_total", "violations_total", "stops_total", "runtime_connected", "connections_total")


async def introduce(screen: Screen, stage: Stage) -> None:
    """
    Say what runs: versions as the programs themselves tell them, and fractiond's command line.
    """
    service = stage.fractiond.service
    registered = await service.wait_for_log("runtime_registered")
    version = str(registered["runtime_version"])
    screen.say(f"containerd {version} runs, process {stage.containerd.pid}; its log is {stage.base}/containerd.log.")
    screen.say(f"fractiond runs, process {service.pid}, and is registered over NRI {registered['nri_version']}:")
    screen.say(" ".join(command_line(service.pid)[1:]), hanging="    ")
    wanted = f"{stage.containerd.version}."
    screen.expect("the runtime's version", expected=wanted, seen=version[: len(wanted)])
    screen.expect("GET /readyz of fractiond", expected=200, seen=(await stage.fractiond.get("/readyz")).status)


async def create(screen: Screen, stage: Stage) -> Mapping[str, Running]:
    """
    Create six containers and show what each got, or why it was refused.

    Returns:
        Those that run, by pod.
    """
    roles = cast(stage.mpsd.pipe_dir, stage.mpsd.daemon(), stage.gpus)
    show_demands(screen, roles)
    outcomes = {role.pod: await stage.container(role, await stage.pod(role)) for role in roles}
    show_outcomes(screen, outcomes)
    _explain(screen, stage)
    screen.say()
    screen.say("And a client run inside, as CUDA would, finds a live control socket in its pipe directory:")
    show_clients(screen, outcomes)
    for role in roles:
        judge(screen, role, outcomes[role.pod])
    running = {pod: outcome for pod, outcome in outcomes.items() if isinstance(outcome, Running)}
    listed = {each.id for each in await stage.cri.list_containers()}
    screen.expect("the runtime's containers", expected={each.container for each in running.values()}, seen=listed)
    return running


async def report(screen: Screen, stage: Stage, assigned: Running | None) -> None:
    """
    Show what fractiond tells the world: metrics, and the record of the container that was assigned a GPU.
    """
    screen.say(f"GET http://localhost:{stage.fractiond.port}/metrics: some of what is not 0 since the restart")
    screen.say()
    page = (await stage.fractiond.get("/metrics")).body
    screen.lines([INDENT + line for line in interesting(page)])
    for name, labels in (
        ("containers_total", {"outcome": "fenced"}),
        ("violations_total", {"kind": "unfenced"}),
        ("stops_total", {"result": "stopped"}),
    ):
        value = await stage.fractiond.metric(name, **labels)
        screen.expect(f"the metric {name} {labels}", expected=1.0, seen=value)
    if assigned is not None:
        await _show_record(screen, stage, assigned.container)


def command_line(pid: int) -> list[str]:
    """
    Read the arguments of a process, its program first.
    """
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode().rstrip("\0").split("\0")


def interesting(page: str) -> list[str]:
    """
    Pick a few samples of a metrics page that are not zero.
    """
    names = tuple(PREFIX + name for name in SHOWN_FAMILIES)
    return [line for line in page.splitlines() if line.startswith(names) and not line.endswith(" 0.0")]


def _explain(screen: Screen, stage: Stage) -> None:
    name = stage.gpus[1].cdi_name
    screen.say()
    screen.say(
        "All of this was read by programs run inside the containers: NVIDIA_GPU_MEMORY_REQUEST and _LIMIT,"
        " CUDA_MPS_PIPE_DIRECTORY and what is mounted there, NVIDIA_VISIBLE_DEVICES, and /dev. A dash means: not there."
    )
    screen.say("- notebook: 4000M are 3814.7 MiB and round up; a request that is not given is the limit.", hanging="  ")
    screen.say(
        f"- inference: its simulated GPU came as the CDI device {name}. The spec of these devices sets"
        " NVIDIA_VISIBLE_DEVICES to void, as NVIDIA's own do, so that nothing hands out GPUs a second time.",
        hanging="  ",
    )


async def _show_record(screen: Screen, stage: Stage, container: str) -> None:
    path = stage.fractiond.map_dir / f"{container}.json"
    record = json.loads(await asyncio.to_thread(path.read_text))
    screen.say()
    screen.say("The record of inference (its GPU is simulated), by which metricsd knows whose GPU memory is whose:")
    screen.say(str(path))
    screen.say()
    screen.lines([cut(INDENT + line) for line in json.dumps(record, indent=2).splitlines()])
    # Not the first one, which might be got by accident.
    gpu = stage.gpus[1]
    devices = [(device["uuid"], device["minorNumber"]) for device in record["gpuDevices"]]
    screen.expect("the pod in the record", expected="inference", seen=record["pod"])
    screen.expect("the GPUs (simulated) in the record", expected=[(gpu.uuid, gpu.minor)], seen=devices)
    screen.expect("the memory in the record", expected=2048, seen=record["requestedMemoryMiB"])
