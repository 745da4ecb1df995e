"""
Who appears in the demo: what each container asks for, and what it must get or be told.

Pure: the expectations are written out by hand, not computed by the code they judge.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
from lab.devices import Gpu

NAMESPACE = "team-a"
CONTAINER = "main"
KEY = f"nvidia.com/container.{CONTAINER}."
LIMIT = "NVIDIA_GPU_MEMORY_LIMIT"
DEVICES = "gpus.devices"


@attrs.frozen
class Fence:
    """
    What is seen from inside a container; empty where there is nothing.
    """

    request_mib: str = ""
    limit_mib: str = ""
    pipe_dir: str = ""
    host_dir: str = ""
    """
    The directory of the host that is mounted there.
    """
    daemon: str = ""
    """
    The process of the MPS control daemon that a client reached through it.
    """
    visible_devices: str = ""
    nodes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self == Fence():
            return "no limit, no pipe, no GPU"
        cells = (
            self.request_mib,
            self.limit_mib,
            self.pipe_dir,
            self.host_dir,
            self.daemon,
            self.visible_devices,
            *self.nodes,
        )
        return "/".join(cell or "-" for cell in cells)


NO_FENCE = Fence()


@attrs.frozen
class Role:
    """
    A pod with one container, and what must come of it: a fence, or a refusal with these words in it.
    """

    pod: str
    what: str
    asks: Mapping[str, str] = attrs.field(factory=dict)
    """
    Annotation suffixes and values.
    """
    env: tuple[tuple[str, str], ...] = ()
    holds_mib: int = 0
    """
    How much simulated GPU memory its process holds; 0 where it has no GPU.
    """
    fence: Fence = NO_FENCE
    refusal: tuple[str, ...] = ()

    @property
    def annotations(self) -> Mapping[str, str]:
        """
        The pod's annotations, with full keys.
        """
        return {KEY + suffix: value for suffix, value in self.asks.items()}

    @property
    def gpu(self) -> str:
        """
        The UUID of the GPU that it is assigned; empty where it has none.
        """
        return self.asks.get(DEVICES, "")

    @property
    def demands(self) -> list[str]:
        """
        What the pod's author wrote, a line each.
        """
        lines = [f"{suffix}: {value}" for suffix, value in self.asks.items()]
        return lines + [f"env {name}={value}" for name, value in self.env] or ["(nothing)"]


def cast(pipe_dir: Path, daemon: int, gpus: Sequence[Gpu]) -> tuple[Role, ...]:
    """
    Write the six roles of the first act for a node with this pipe directory, this control daemon and two GPUs.
    """
    pipe, who = str(pipe_dir), str(daemon)
    first, second = gpus
    return (
        Role(
            "trainer",
            "request and limit",
            {"gpu-memory.request": "8Gi", "gpu-memory.limit": "16Gi", DEVICES: first.uuid},
            holds_mib=12288,
            fence=Fence("8192", "16384", pipe, pipe, who, *_seen(first)),
        ),
        Role(
            "notebook",
            "limit alone, sm-sharing",
            {"gpu-memory.limit": "4000M", "gpu-compute.mode": "sm-sharing", DEVICES: first.uuid},
            holds_mib=3000,
            fence=Fence("3815", "3815", "/tmp/nvidia-mps", f"{pipe}/shared/default", who, *_seen(first)),
        ),
        Role(
            "inference",
            "another GPU (simulated)",
            {"gpu-memory.limit": "2Gi", DEVICES: second.uuid},
            holds_mib=1024,
            fence=Fence("2048", "2048", pipe, pipe, who, *_seen(second)),
        ),
        Role("plain", "no annotation"),
        Role(
            "typo",
            "a malformed limit",
            {"gpu-memory.limit": "16GB"},
            refusal=(
                f'container "{CONTAINER}" in pod "{NAMESPACE}/typo"',
                f"{KEY}gpu-memory.limit",
                '"16GB"',
                "accepted",
            ),
        ),
        Role(
            "greedy",
            "limit set again, and twice",
            {"gpu-memory.limit": "1Gi"},
            env=((LIMIT, "65536"), (LIMIT, "65536")),
            refusal=(f'container "{CONTAINER}" in pod "{NAMESPACE}/greedy"', LIMIT, "more than once", "accepted"),
        ),
    )


def latecomer(pipe_dir: Path, daemon: int, gpu: Gpu) -> Role:
    """
    Write the role of the second act: created while fractiond is dead, and again when it is back, then with this fence.
    """
    pipe = str(pipe_dir)
    return Role(
        "latecomer",
        "a limit",
        {"gpu-memory.limit": "4Gi", DEVICES: gpu.uuid},
        holds_mib=512,
        fence=Fence("4096", "4096", pipe, pipe, str(daemon), *_seen(gpu)),
    )


def _seen(gpu: Gpu) -> tuple[str, tuple[str, ...]]:
    """
    Give what a container sees of a GPU that came as a CDI device: that nothing else hands out any, and its node.
    """
    return "void", (f"/dev/nvidia{gpu.minor}",)
