"""
What tenants may try in order to get more GPU memory than they were given, on a real containerd.

A row passes if the container is refused, or if the spec it would run by holds exactly what its annotations say.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import attrs
import pytest
import pytest_asyncio
from lab import toolchain
from lab.containerd import Containerd
from lab.cri import Status
from lab.errors import CriError
from lab.fractiond import Fractiond
from lab.image import Image

KEY = "nvidia.com/container.main"
LIMIT, REQUEST = "NVIDIA_GPU_MEMORY_LIMIT", "NVIDIA_GPU_MEMORY_REQUEST"
PIPE, VISIBLE = "CUDA_MPS_PIPE_DIRECTORY", "NVIDIA_VISIBLE_DEVICES"
ORDINARY = {f"{KEY}.gpu-memory.limit": "1Gi", f"{KEY}.gpus.devices": "GPU-1"}

GREEDY = Image("localhost/greedy:1", env=(f"{LIMIT}=99999", f"{VISIBLE}=all"))
BARE = Image("localhost/bare:1", env=(LIMIT,))
TWICE = Image("localhost/twice:1", env=(f"{LIMIT}=77777", f"{LIMIT}=99999"))
IMAGES = (GREEDY, BARE, TWICE)
PLAIN = "localhost/busybox:1"
# Of a refusal; it ends up in the pod's status.
MAX_MESSAGE = 2000


@attrs.frozen
class Attack:
    """What a tenant writes into pod and image, and what must come of it."""

    refused: str = ""
    """Part of the refusal; empty where the container runs, fenced."""
    env: tuple[tuple[str, str], ...] = ()
    image: str = PLAIN
    annotations: dict[str, str] = attrs.field(factory=lambda: dict(ORDINARY))
    mounts: tuple[str, ...] = ()
    name: str = "main"


def asking(**changes: str) -> dict[str, str]:
    """Change the ordinary annotations, by suffix."""
    suffixes = {"limit": ".gpu-memory.limit", "request": ".gpu-memory.request", "devices": ".gpus.devices"}
    return ORDINARY | {f"{KEY}{suffixes[name]}": value for name, value in changes.items()}


ATTACKS = [
    pytest.param(Attack(image=GREEDY.name), id="a limit in the image"),
    pytest.param(Attack(env=((LIMIT, "99999"),)), id="a limit in the pod"),
    pytest.param(Attack(LIMIT, image=GREEDY.name, env=((LIMIT, "88888"),)), id="a limit in image and pod"),
    pytest.param(Attack(LIMIT, env=((LIMIT, "77777"), (LIMIT, "88888"))), id="a limit twice in the pod"),
    pytest.param(Attack(LIMIT, image=TWICE.name), id="a limit twice in the image"),
    pytest.param(Attack(LIMIT, env=((LIMIT, "1024"), (LIMIT, "1024"))), id="the right limit twice"),
    pytest.param(Attack(image=BARE.name), id="the bare name in the image"),
    pytest.param(Attack(image=BARE.name, env=((LIMIT, "99999"),)), id="the bare name in the image, a value in the pod"),
    pytest.param(Attack(env=((LIMIT, ""),)), id="an empty limit"),
    pytest.param(Attack(env=((LIMIT.lower(), "99999"),)), id="the name in lower case"),
    pytest.param(Attack(env=((f"{LIMIT} ", "99999"),)), id="the name with a space behind it"),
    pytest.param(Attack(env=((f"{LIMIT}S", "99999"),)), id="a longer name"),
    pytest.param(Attack(env=((f"-{LIMIT}", "x"),)), id="the name with the removal mark"),
    pytest.param(Attack(env=((REQUEST, "1"), (LIMIT, "99999"), (PIPE, "/tmp/own"))), id="all of them once"),
    pytest.param(Attack(PIPE, env=((PIPE, "/tmp/a"), (PIPE, "/tmp/b"))), id="a pipe directory twice"),
    pytest.param(Attack(VISIBLE, image=GREEDY.name, env=((VISIBLE, "GPU-2"),)), id="devices in image and pod"),
    pytest.param(Attack(env=((VISIBLE, "all"),)), id="all devices"),
    pytest.param(
        Attack(env=(("LD_PRELOAD", "/tmp/hook.so"), ("A", f"\n{LIMIT}=99999"))), id="a limit behind a line break"
    ),
    pytest.param(
        Attack("line break", annotations=asking(devices=f"GPU-1\n{LIMIT}=99999")), id="a line break in the devices"
    ),
    pytest.param(
        Attack("control character", annotations=asking(devices="GPU-1\x1b[2J")), id="an escape code in the devices"
    ),
    pytest.param(Attack("more than 128 entries", annotations=asking(devices="0," * 8000)), id="8000 devices"),
    pytest.param(Attack("below", annotations=asking(request="2Gi")), id="a limit below the request"),
    pytest.param(Attack("quantity", annotations=asking(limit="\u0661Gi")), id="unicode digits"),
    pytest.param(Attack("quantity", annotations=asking(limit=" 1Gi")), id="a space before the quantity"),
    pytest.param(Attack("accepted", annotations=asking(limit="9" * 1_000_000)), id="a quantity of a megabyte"),
    pytest.param(
        Attack("maximum message size", annotations=asking(limit="9" * 10_000_000)),
        id="ten megabytes, which no runtime passes on",
    ),
    pytest.param(Attack("accepted", annotations=asking(limit="1e999999999")), id="an enormous exponent"),
    pytest.param(Attack("accepted", annotations=asking(limit="9223372036854775808")), id="more than 2^63-1 bytes"),
    pytest.param(Attack("accepted", annotations=asking(limit="-1Gi")), id="a negative quantity"),
    pytest.param(Attack("accepted", annotations=asking(limit="")), id="an empty quantity"),
    pytest.param(
        Attack(annotations=ORDINARY | {"nvidia.com/container.main2.gpu-memory.limit": "900Gi"}),
        id="a sibling's annotation",
    ),
    pytest.param(
        Attack(name="m" * 253, annotations={f"nvidia.com/container.{'m' * 253}.gpu-memory.limit": "1Gi"}),
        id="a name of 253 characters",
    ),
    pytest.param(Attack("hide", mounts=("{pipe}/",)), id="a volume at the pipe directory with a slash behind it"),
    pytest.param(Attack("hide", mounts=("/x/..{pipe}",)), id="a volume at the pipe directory by a detour"),
    pytest.param(Attack("hide", mounts=("{pipe}/control",)), id="a volume over the control socket"),
    pytest.param(Attack(mounts=("{pipe}",)), id="a volume at the pipe directory itself"),
]


def fence_of(attack: Attack, fractiond: Fractiond) -> dict[str, tuple[str, ...]]:
    """Tell what an attacked container must have all the same."""
    devices = attack.annotations.get(f"{KEY}.gpus.devices")
    expected = {REQUEST: ("1024",), LIMIT: ("1024",), PIPE: (str(fractiond.pipe_dir),)}
    return expected | {VISIBLE: (devices,) if devices else ()}


def fence_in(status: Status) -> dict[str, tuple[str, ...]]:
    """Read what a container's spec really holds."""
    return {name: status.values_of(name) for name in (REQUEST, LIMIT, PIPE, VISIBLE)}


@attrs.frozen
class Scene:
    """A containerd that has the tenants' images, with fractiond beside it."""

    containerd: Containerd
    fractiond: Fractiond


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=toolchain.VERSIONS)
async def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Scene]:
    directory = tmp_path_factory.mktemp("attacks")
    async with Containerd(request.param, images=IMAGES) as containerd:
        async with Fractiond(containerd, directory=directory) as fractiond:
            await fractiond.ready()
            yield Scene(containerd, fractiond)


async def outcome_of(attack: Attack, scene: Scene, directory: Path) -> Status | CriError:
    """Make the attack; give the running container, or the refusal."""
    mounts = [(str(directory), path.format(pipe=scene.fractiond.pipe_dir)) for path in attack.mounts]
    async with scene.containerd.cri() as cri:
        try:
            pod = await cri.run_pod("attack", annotations=attack.annotations)
            container = await cri.create_container(pod, attack.name, image=attack.image, env=attack.env, mounts=mounts)
            await cri.start(container)
            return await cri.status(container)
        except CriError as refusal:
            return refusal
        finally:
            await cri.remove_all_pods()


@pytest.mark.parametrize("attack", ATTACKS)
async def test_no_attack_passes(scene: Scene, tmp_path: Path, attack: Attack) -> None:
    """A container either runs with exactly its annotated limit, or is refused by a message that says why."""
    outcome = await outcome_of(attack, scene, tmp_path)

    if attack.refused:
        assert isinstance(outcome, CriError)
        assert attack.refused in outcome.message
        assert len(outcome.message) < MAX_MESSAGE
    else:
        assert isinstance(outcome, Status), outcome
        pipe = str(scene.fractiond.pipe_dir)
        assert fence_in(outcome) == fence_of(attack, scene.fractiond)
        assert [source for source, destination in outcome.mounts if destination == pipe] == [pipe]
