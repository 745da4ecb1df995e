"""
What a container gets, decided from its pod's annotations alone.

Creation, validation, start and audit all ask the same question here, so that they cannot disagree. What stands in
the way of an injection in the container's own spec is a second question, and only creation asks it: the runtime
merges a variable that is listed twice in such a way that its last value wins over any plugin's (seen on
containerd 2.1.9 and 2.3.7), and a mount below ours would hide the MPS socket. Neither can be mended by an adjustment.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import attrs
from fractioning_core import injection, names, podannotations
from fractioning_core.errors import KEY_LIMIT, InvalidAnnotations, escaped
from fractioning_core.fraction import Fraction
from fractioning_core.injection import CdiInventory, Injection

# The text of a refusal travels to the kubelet and into a pod's status.
TOLD_LIMIT = 8


@attrs.frozen(cache_hash=True)
class Policy:
    """How this node reads annotations and what it injects."""

    grammar: podannotations.Grammar
    options: injection.Options
    fail_open: bool = False


@attrs.frozen(cache_hash=True)
class Inventory:
    """What the node is known to hold; None is "not known", which refuses nothing."""

    gpu_uuids: frozenset[str] | None = None
    cdi: CdiInventory | None = None


@attrs.frozen
class Untouched:
    """The container asks for no fraction, or fail-open lets it pass; then `ignored` says what was wrong."""

    ignored: tuple[str, ...] = ()


@attrs.frozen(cache_hash=True)
class Fenced:
    """The container gets `injection`; `ignored` lists what fail-open passed over on the way."""

    fraction: Fraction
    injection: Injection
    ignored: tuple[str, ...] = ()


@attrs.frozen
class Unusable:
    """The container asks for a fraction in a way that cannot be served: creation refuses it."""

    problems: tuple[str, ...]
    fraction: Fraction | None = None
    """What it asks for, where that much is clear; a container that was fenced before keeps its record by it."""


Assessment = Untouched | Fenced | Unusable
UNTOUCHED = Untouched()


def assess(annotations: Mapping[str, str], container: str, *, policy: Policy, inventory: Inventory) -> Assessment:
    """Decide what the container named `container` gets by its pod's `annotations`."""
    own = podannotations.own(annotations, container, policy.grammar)
    return _assess(own, container, policy, inventory) if own else UNTOUCHED


# The same is asked at creation, at validation and at start, and a node has few GPUs and few sizes of fractions. What
# is not asked is not executed: between two creations the processor's caches forget all of this.
@functools.lru_cache(maxsize=256)
def _assess(own: tuple[tuple[str, str], ...], container: str, policy: Policy, inventory: Inventory) -> Assessment:
    reading = podannotations.read(dict(own), container, policy.grammar)
    fraction, problems = reading.fraction, tuple(str(problem) for problem in reading.problems)
    if problems and not policy.fail_open:
        return Unusable(problems, fraction)
    if fraction is None:
        return Untouched(problems)
    devices_key = podannotations.keys(container, policy.grammar).devices
    try:
        planned = injection.plan(fraction, policy.options, inventory.cdi, devices_key=devices_key)
    except InvalidAnnotations as error:
        # A GPU that is not here is nobody's typo, so fail-open does not cover it.
        return Unusable((*problems, str(error)), fraction)
    if missing := injection.unknown_gpus(fraction, inventory.gpu_uuids):
        return Unusable((*problems, _not_on_node(devices_key, missing, inventory)), fraction)
    return Fenced(fraction, planned, problems)


class Node(Protocol):
    """What is known of this node, always at hand."""

    current: Inventory

    def doubt(self) -> None:
        """Ask for a new reading soon: somebody is refused because of this one."""


@attrs.frozen
class Assessor:
    """This node's policy and its inventory as last read."""

    policy: Policy
    node: Node

    @property
    def pipe_dir(self) -> str:
        """The MPS pipe directory on the host."""
        return self.policy.options.pipe_dir

    @property
    def injects_cdi(self) -> bool:
        """Whether GPUs are requested as CDI devices."""
        return self.policy.options.inject_cdi

    def assess(self, annotations: Mapping[str, str], container: str) -> Assessment:
        """Decide what a container of this node gets."""
        return assess(annotations, container, policy=self.policy, inventory=self.node.current)


def _not_on_node(key: str, missing: tuple[str, ...], inventory: Inventory) -> str:
    here = _listed(sorted(inventory.gpu_uuids or ())) or "none"
    return f"{escaped(key, KEY_LIMIT)}: {_listed(missing)} is not on this node; accepted: a GPU of this node ({here})"


def _listed(texts: Sequence[str]) -> str:
    """Join foreign texts for a message; a long list is cut."""
    told = ", ".join(escaped(text) for text in texts[:TOLD_LIMIT])
    return f"{told} and {len(texts) - TOLD_LIMIT} more" if len(texts) > TOLD_LIMIT else told


def obstacles(planned: Injection, *, env: Iterable[str], destinations: Iterable[str]) -> tuple[str, ...]:
    """
    Tell what in the container's own spec would defeat `planned`.

    Args:
        planned: what is about to be injected.
        env: the container's variables, `KEY=VALUE` or a bare `KEY`.
        destinations: where the container's mounts lie inside it.
    """
    repeated = injection.duplicated(env)
    twice = tuple(_told_twice(key) for key in repeated if key in _set_by(planned)) if repeated else ()
    hiding = injection.shadowing_mounts(destinations, planned.mount.destination)
    if not hiding:
        return twice
    pipe = planned.mount.destination
    return (*twice, f"mount at {_listed(hiding)} would hide the MPS pipe directory {pipe}; accepted: any other place")


def _set_by(planned: Injection) -> set[str]:
    keys = {key for key, _ in planned.env}
    # Whatever the container says there, the CDI spec has the last word.
    return keys - {names.ENV_VISIBLE_DEVICES} if planned.cdi_devices else keys


def _told_twice(key: str) -> str:
    return (
        f"environment variable {key} is listed more than once (in image and pod, or twice in the pod), and the"
        " runtime would let the container's own value win; accepted: at most once"
    )
