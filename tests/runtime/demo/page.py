"""
The act of metricsd: what its page says of every fractional container, against what each declared and holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from lab.errors import Overdue
from lab.metricsd import INTERVAL_SECONDS, PREFIX, Samples

from demo.cast import CONTAINER, NAMESPACE, Fence, Role
from demo.screen import NOTHING, Screen
from demo.stage import Stage
from demo.views import BLANK

FAMILY = f"{PREFIX}container_gpu_memory_"
ENFORCED, NOT_ENFORCED = "yes", "NO"
# Two cycles would do where nobody else uses the processor.
SHOWN_WITHIN_SECONDS = 5 * INTERVAL_SECONDS
_MIB = 1 << 20


class Row(NamedTuple):
    """
    What the page says of one container: MiB as texts, empty where there is no sample.
    """

    used: str
    request: str
    limit: str
    soft_limit: str
    hard_limit: str
    enforced: str

    def __str__(self) -> str:
        return "/".join(cell or NOTHING for cell in self)


def expected_row(role: Role) -> Row:
    """
    Give what the page is to say of a role: its limits are in force as it declared them.
    """
    fence: Fence = role.fence
    request, limit = fence.request_mib, fence.limit_mib
    return Row(str(role.holds_mib), request, limit, soft_limit=request, hard_limit=limit, enforced=ENFORCED)


def row_of(page: Samples, pod: str) -> Row:
    """
    Read what a page says of a pod's container.
    """
    enforced = _value(page, "limit_enforced", pod)
    return Row(
        used=_mib(page, "used", pod),
        request=_mib(page, "request", pod),
        limit=_mib(page, "limit", pod),
        soft_limit=_mib(page, "effective_soft_limit", pod),
        hard_limit=_mib(page, "effective_hard_limit", pod),
        enforced={None: "", 1.0: ENFORCED}.get(enforced, NOT_ENFORCED),
    )


async def introduce(screen: Screen, stage: Stage) -> None:
    """
    Say that it runs and has found the GPUs.
    """
    metricsd = stage.metricsd
    screen.say()
    pid = metricsd.service.pid
    screen.say(f"metricsd runs, process {pid}, and reads the simulated NVML every {INTERVAL_SECONDS} s.")
    screen.expect("GET /readyz of metricsd", expected=200, seen=(await metricsd.get("/readyz")).status)
    found = {sample.labels["gpu_uuid"] for sample in await metricsd.samples("gpu_memory_total_bytes")}
    screen.expect("the GPUs (simulated) on its page", expected={gpu.uuid for gpu in stage.gpus}, seen=found)


async def show(screen: Screen, stage: Stage, roles: Sequence[Role]) -> None:
    """
    Show what the page says of these roles, and check it.
    """
    expected = {role.pod: expected_row(role) for role in roles}

    def rows(page: Samples) -> dict[str, Row]:
        return {pod: row_of(page, pod) for pod in expected}

    try:
        page = await stage.metricsd.shows(
            "every container's limits", lambda page: rows(page) == expected, timeout_seconds=SHOWN_WITHIN_SECONDS
        )
        seen = rows(page)
    except Overdue:
        seen = rows(await stage.metricsd.page())
    screen.say()
    screen.say(
        f"GET http://localhost:{stage.metricsd.port}/metrics: {FAMILY}*, in MiB. The GPUs, what is used of them, and"
        " the limits in force are simulated; metricsd reads them as it reads real ones:"
    )
    screen.say()
    screen.table(
        [
            (BLANK, BLANK, BLANK, BLANK, "soft limit", "hard limit", "as"),
            ("pod", "used", "request", "limit", "in force", "in force", "declared"),
            *((pod, *row) for pod, row in seen.items()),
        ]
    )
    for pod, row in seen.items():
        screen.expect(f"what the page says of {pod}", expected=expected[pod], seen=row)


def _value(page: Samples, name: str, pod: str) -> float | None:
    labels = {"namespace": NAMESPACE, "pod": pod, "container": CONTAINER}
    found = [sample.value for sample in page.get(FAMILY + name, ()) if labels.items() <= sample.labels.items()]
    return found[0] if len(found) == 1 else None


def _mib(page: Samples, name: str, pod: str) -> str:
    size = _value(page, f"{name}_bytes", pod)
    return "" if size is None else f"{size / _MIB:g}"
