"""
Whose the config is: two controllers in two namespaces would undo each other's DaemonSets and node conditions for ever.

The election is between the replicas of one installation, as its Lease lies in their namespace. So the first
controller notes its namespace on the config, together with the finalizer, and those of others stand by. It stays so
when that namespace is gone: who can tell for good is a person, who is told what to remove.
"""

from __future__ import annotations

import attrs
from fractioning_core import resource
from fractioning_core.kube.events import WARNING
from fractioning_core.resource import Config

from controller import identifiers
from controller.actions import AddFinalizer, EmitEvent, Plan
from controller.memory import Memory

STANDS_BY = "ServedFromElsewhere"


def is_ours(config: Config, namespace: str) -> bool:
    """
    Say whether a controller of a namespace may serve a config; one without a note is anybody's.
    """
    return config.served_from in {"", namespace}


def is_complete(config: Config) -> bool:
    """
    Say whether the config carries all that has to be on it before anything is made.
    """
    return identifiers.FINALIZER in config.finalizers and config.served_from != ""


def complete(config: Config, namespace: str, memory: Memory) -> Plan:
    """
    Plan the note and the finalizer.
    """
    has_ours = identifiers.FINALIZER in config.finalizers
    finalizers = config.finalizers if has_ours else (*config.finalizers, identifiers.FINALIZER)
    return Plan((AddFinalizer(finalizers, namespace, config.resource_version),), memory)


def stand_by(config: Config, namespace: str, memory: Memory) -> Plan:
    """
    Plan nothing, and say so once.
    """
    told = (
        f"{resource.KIND} {config.name} is served by the controller in namespace {config.served_from!r}; the one in "
        f"{namespace!r} stands by. Where the other is gone for good, remove the resource's annotation "
        f"{resource.NAMESPACE_ANNOTATION}"
    )
    is_told = memory.stands_by == told
    return Plan(() if is_told else (EmitEvent(WARNING, STANDS_BY, told),), Memory(stands_by=told))


def resumed(memory: Memory) -> Memory:
    """
    Forget having stood by.
    """
    return attrs.evolve(memory, stands_by="")
