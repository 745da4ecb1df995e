"""
What the GPU stack demands: the version gates, and everything else that makes `Ready` False whatever the daemons say.

The gates hold back the first rollout. A rollout that exists is never undone by them, since fenced workloads run on it;
they are then only reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from operator import attrgetter

import attrs
from fractioning_core import versions
from fractioning_core.kube import timestamps

from controller import identifiers
from controller.conditions import FALSE, Verdict, line
from controller.memory import Memory, seconds_between
from controller.policy import ClusterPolicy
from controller.world import World

INVALID_SPEC = "InvalidSpec"
OPERATOR_NOT_READY = "GPUOperatorNotReady"
NAMESPACE_NOT_ALLOWED = "ManagementCDINamespaceNotAllowed"
STRATEGY_UNSUPPORTED = "DeviceListStrategyUnsupported"

# Whoever makes a ClusterPolicy or its CRD anew, say to upgrade the GPU Operator, takes minutes at most.
POLICY_LOST_SECONDS = 600.0

_POLICY = "NVIDIA GPU Operator ClusterPolicy"
# Only these make the device plugin write a CDI spec with one device for each GPU.
_CDI_STRATEGIES = frozenset({"cdi-annotations", "cdi-cri"})


@attrs.frozen
class Finding:
    """
    Why `Ready` is False.

    Attributes:
        reason, message: for the condition.
        is_error: whether it could not be found out, as against found wanting.
    """

    reason: str
    message: str
    is_error: bool = False


def policy(world: World) -> ClusterPolicy | None:
    """
    Return the ClusterPolicy that counts: of several the first by name.
    """
    return min(world.cluster_policies.items, key=attrgetter("name"), default=None)


def remember_mode(world: World, memory: Memory) -> Memory:
    """
    Note whether the GPU Operator runs its NRI plugin; None while nothing tells.

    A ClusterPolicy that cannot be read is no reason to render the daemons for the other mode: then what was known last
    holds, and after a restart what the running DaemonSet says. So it does for a while where one has vanished over
    daemons that run for the plugin; the other mode would take the GPUs from them if the policy came back.
    """
    found = policy(world)
    if found is not None:
        return attrs.evolve(memory, is_nri=found.is_nri, policy_lost_since="")
    last = memory.is_nri
    if last is None:
        last = next((one.injects_cdi for one in world.daemonsets if one.injects_cdi is not None), None)
    if world.cluster_policies.error:
        return attrs.evolve(memory, is_nri=last)
    since = memory.policy_lost_since or world.now
    if last and world.daemonsets and seconds_between(since, world.now) < POLICY_LOST_SECONDS:
        return attrs.evolve(memory, is_nri=last, policy_lost_since=since)
    return attrs.evolve(memory, is_nri=False, policy_lost_since="")


def lost_policy(memory: Memory) -> str:
    """
    Say that the mode of a ClusterPolicy that is gone still holds, and how long; empty where it does not.
    """
    if not memory.policy_lost_since:
        return ""
    end = datetime.fromisoformat(memory.policy_lost_since) + timedelta(seconds=POLICY_LOST_SECONDS)
    return f"the {_POLICY} is gone; until {timestamps.seconds(end)} the daemons stay as its NRI plugin needs them"


def gate(world: World) -> Finding | None:
    """
    Say what holds back the first rollout; None when nothing does.
    """
    return next(_iter_gates(world), None)


def check(world: World, ready: Verdict) -> Finding | None:
    """
    Say what makes `Ready` False beyond the daemons' health; None to leave it as it is.
    """
    return next(_iter_findings(world, ready), None)


def several_policies(world: World) -> str:
    """
    Say which of several ClusterPolicies counts; empty where there are not several.
    """
    count = len(world.cluster_policies.items)
    found = policy(world)
    return f'there are {count} ClusterPolicies, and "{found.name}" counts' if found and count > 1 else ""


def _iter_gates(world: World) -> Iterator[Finding]:
    if world.config_problem:
        yield Finding(INVALID_SPEC, line(world.config_problem))
    if world.cluster_policies.error:
        message = f"unable to read {_POLICY}: {line(world.cluster_policies.error)}"
        yield Finding(OPERATOR_NOT_READY, message, is_error=True)
    if not world.options.skip_version_checks:
        found = policy(world)
        yield from (
            _iter_version_faults(world) if found is None else _faults(versions.check_cluster_policy(found.versions))
        )


def _iter_findings(world: World, ready: Verdict) -> Iterator[Finding]:
    yield from _iter_gates(world)
    found = policy(world)
    if found is None:
        return
    if found.is_nri:
        yield from _iter_nri_faults(found, world.options.namespace)
    if ready.status == FALSE:
        message = _readiness_fault(found)
        if message:
            yield Finding(OPERATOR_NOT_READY, line(message))


def _iter_version_faults(world: World) -> Iterator[Finding]:
    reading = world.service_versions
    if reading.error:
        sources = "ClusterPolicy or ClusterServiceVersion"
        message = f"unable to discover NVIDIA GPU Operator version from {sources}: {line(reading.error)}"
        yield Finding(OPERATOR_NOT_READY, message, is_error=True)
    found = min(reading.items, key=attrgetter("namespace", "name"), default=None)
    if found is not None:
        yield from _faults(versions.check_cluster_service_version(found.version))


def _faults(unsupported: versions.Unsupported | None) -> Iterator[Finding]:
    if unsupported is not None:
        yield Finding(unsupported.reason, unsupported.message)


def _iter_nri_faults(found: ClusterPolicy, namespace: str) -> Iterator[Finding]:
    if namespace not in found.management_namespaces:
        message = (
            f'namespace "{namespace}" is not listed in {identifiers.CDI_NAMESPACES_VARIABLE} of ClusterPolicy'
            " spec.toolkit.env, so the NVIDIA container toolkit gives the daemons there no GPU; add it to that variable"
        )
        yield Finding(NAMESPACE_NOT_ALLOWED, message)
    strategies = {part.strip() for part in found.device_list_strategy.split(",") if part.strip()}
    if strategies and not strategies & _CDI_STRATEGIES:
        message = (
            f"ClusterPolicy spec.devicePlugin.env sets {identifiers.DEVICE_LIST_STRATEGY_VARIABLE}="
            f"{line(found.device_list_strategy)}, so the device plugin publishes no CDI device for each GPU, which"
            f" cdi.nriPluginEnabled needs; accepted: {' or '.join(sorted(_CDI_STRATEGIES))}, or no such variable"
        )
        yield Finding(STRATEGY_UNSUPPORTED, message)


def _readiness_fault(found: ClusterPolicy) -> str:
    if found.error and found.error.is_true:
        return found.error.message or f"{_POLICY} reports Error=True"
    if found.ready and not found.ready.is_true:
        return found.ready.message or f"{_POLICY} Ready condition is {found.ready.status.strip() or 'Unknown'}"
    if found.state is not None and found.state.lower() != "ready":
        return f'{_POLICY} state is "{found.state}", expected "ready"'
    if found.state is None and found.ready is None:
        return f"{_POLICY} status does not report readiness"
    return ""
