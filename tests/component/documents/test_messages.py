"""
The messages that the README quotes, as the code says them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from controller import claim
from controller.memory import Memory
from controller.testing import builders
from fractiond import fencing
from fractiond.fencing import Inventory, Policy, Unusable
from fractiond.wire import Subject
from fractioning_core import injection, names
from fractioning_core.injection import CdiInventory, Observed, Options
from fractioning_core.kube.errors import ApiUnreachable, Forbidden, LeaseLost
from fractioning_core.podannotations import Grammar
from fractioning_core.testing.builders import a_fraction
from nri_aio.errors import DeadlineOverrun, Unreachable

README = (Path(__file__).parents[3] / "README.md").read_text()
KEY = "nvidia.com/container.main"
LIMIT, REQUEST = f"{KEY}.gpu-memory.limit", f"{KEY}.gpu-memory.request"
MODE, DEVICES = f"{KEY}.gpu-compute.mode", f"{KEY}.gpus.devices"
PLAN = injection.plan(a_fraction(), Options(), None)


def problems(
    annotations: Mapping[str, str], *, inventory: Inventory | None = None, options: Options | None = None
) -> str:
    """
    Say what is wrong with annotations, as the runtime is told.
    """
    policy = Policy(Grammar(sm_sharing=False), options or Options())
    found = fencing.assess(annotations, "main", policy=policy, inventory=inventory or Inventory())
    assert isinstance(found, Unusable)
    return "; ".join(found.problems)


def unfolded(text: str) -> str:
    """
    Undo the wrapping of a message that the page wraps.
    """
    return " ".join(text.split())


def blocks() -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
    return [unfolded(text) for language, text in found if not language]


class TestWhole:
    def test_refusal(self) -> None:
        """
        The refusal that is shown is what fractiond answers.
        """
        subject = Subject("team-a", "typo", "uid", "main", "id")

        assert f"{subject}: {problems({LIMIT: '16GB'})}" in blocks()

    def test_two_installations(self) -> None:
        """
        What is shown of two installations is what the second one says.
        """
        config = builders.a_config(served_from="gpu-fractioning")

        assert claim.stand_by(config, "other", Memory()).memory.stands_by in blocks()


# What the table has, and who says it.
QUOTED: Mapping[str, Callable[[], str]] = {
    "is not a Kubernetes quantity": lambda: problems({LIMIT: "lots"}),
    "is below 1 MiB": lambda: problems({LIMIT: "1Ki"}),
    "counts bytes and is below 1 MiB": lambda: problems({LIMIT: "8192"}),
    "is zero": lambda: problems({LIMIT: "0"}),
    f'gpu-memory.limit: "4Gi" is below {REQUEST}: "8Gi"': lambda: problems({LIMIT: "4Gi", REQUEST: "8Gi"}),
    "is not a compute mode": lambda: problems({LIMIT: "1Gi", MODE: "turbo"}),
    "is switched off on this node": lambda: problems({LIMIT: "1Gi", MODE: "sm-sharing"}),
    "is not on this node; accepted: a GPU of this node": lambda: problems(
        {LIMIT: "1Gi", DEVICES: "GPU-b"}, inventory=Inventory(gpu_uuids=frozenset({"GPU-a"}))
    ),
    "is in no CDI spec; known:": lambda: problems(
        {LIMIT: "1Gi", DEVICES: "GPU-b"},
        inventory=Inventory(cdi=CdiInventory(frozenset())),
        options=Options(inject_cdi=True),
    ),
    "listed more than once": lambda: "".join(
        fencing.obstacles(PLAN, env=[f"{names.ENV_MEMORY_LIMIT}=1"] * 2, destinations=[])
    ),
    "would hide the MPS pipe directory": lambda: "".join(
        fencing.obstacles(PLAN, env=[], destinations=[f"{names.MPS_PIPE_DIR}/x"])
    ),
    "env:NVIDIA_GPU_MEMORY_LIMIT missing": lambda: "".join(injection.differences(PLAN, Observed((), ()))),
    "was not handled within": lambda: str(DeadlineOverrun("CreateContainer", 1.5)),
    "NRI socket /var/run/nri/nri.sock: No such file or directory": lambda: str(
        Unreachable(names.NRI_SOCKET, "No such file or directory")
    ),
    "403 from the API server:": lambda: str(Forbidden("GET /", 403, "no")),
    "no answer from the API server": lambda: str(ApiUnreachable("s", "c")),
    "lost the lease": lambda: str(LeaseLost("l", "c")),
}


@pytest.mark.parametrize("fragment", QUOTED)
def test_quoted(fragment: str) -> None:
    """
    A message that the README tells how to read holds those words.
    """
    assert fragment in README
    assert fragment in QUOTED[fragment]()
