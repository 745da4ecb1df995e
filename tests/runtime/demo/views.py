"""
How the demo shows containers: what they ask for, what they got, and whether that is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from demo.cast import CONTAINER, KEY, Role
from demo.screen import Screen
from demo.stage import Outcome, Refused, Running, greeting

# An empty cell would show as a dash, which stands for "looked for and not there".
BLANK = " "


def show_demands(screen: Screen, roles: Sequence[Role]) -> None:
    """
    Show what the authors of the pods wrote.
    """
    rows = [("pod", "what it is", "annotation suffix: value, or environment")]
    for role in roles:
        first, *others = role.demands
        rows += [(role.pod, role.what, first), *((BLANK, BLANK, other) for other in others)]
    screen.say(f"Each pod has one container, {CONTAINER}. Annotation keys are {KEY}<suffix>.")
    screen.say()
    screen.table(rows)


def show_outcomes(screen: Screen, outcomes: Mapping[str, Outcome]) -> None:
    """
    Show what the containers of these pods got, or the whole message by which they were refused.
    """
    rows = [
        (BLANK, BLANK, "request", "limit", "MPS pipe", "mounted from", "visible", "device nodes"),
        ("pod", "outcome", "MiB", "MiB", "directory", "the host's", "devices", "(simulated)"),
        *(_row(pod, outcome) for pod, outcome in outcomes.items()),
    ]
    screen.say()
    screen.table(rows)
    for pod, outcome in outcomes.items():
        if isinstance(outcome, Refused):
            screen.say()
            screen.say(f"{pod} was refused with: {outcome.message}", hanging="  ")


def show_clients(screen: Screen, outcomes: Mapping[str, Outcome]) -> None:
    """
    Show what a client inside each container that has a pipe sent, where to, and which control daemon logged it.
    """
    rows = [("pod", "sent inside", "to the socket", "logged by the control daemon")]
    for pod, outcome in outcomes.items():
        if isinstance(outcome, Running) and outcome.fence.pipe_dir:
            fence = outcome.fence
            rows.append((pod, greeting(pod), f"{fence.pipe_dir}/control", f"process {fence.daemon}"))
    screen.say()
    screen.table(rows)


def judge(screen: Screen, role: Role, outcome: Outcome) -> None:
    """
    Check an outcome against the role.
    """
    expected = "refused" if role.refusal else "running"
    seen = "refused" if isinstance(outcome, Refused) else "running"
    screen.expect(f"{role.pod} ({role.what})", expected=expected, seen=seen)
    if isinstance(outcome, Running):
        screen.expect(f"the fence of {role.pod}", expected=role.fence, seen=outcome.fence)
    else:
        missing = [part for part in role.refusal if part not in outcome.message]
        screen.expect(f"what the refusal of {role.pod} leaves out", expected=[], seen=missing)


def _row(pod: str, outcome: Outcome) -> tuple[str, str, str, str, str, str, str, str]:
    if isinstance(outcome, Refused):
        return (pod, "REFUSED", BLANK, BLANK, BLANK, BLANK, BLANK, BLANK)
    fence = outcome.fence
    pipe = (fence.pipe_dir, fence.host_dir)
    return (pod, "runs", fence.request_mib, fence.limit_mib, *pipe, fence.visible_devices, " ".join(fence.nodes))
