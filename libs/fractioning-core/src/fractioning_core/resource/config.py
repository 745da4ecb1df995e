"""
The resource as the controller sees it, and how it is read and written.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from fractioning_core.errors import InvalidInput, shown
from fractioning_core.resource import identity, kinds, sections
from fractioning_core.resource.kinds import Problems
from fractioning_core.resource.problems import Problem
from fractioning_core.resource.spec import Spec
from fractioning_core.resource.status import Condition, Status

_NAME_ACCEPTED = f"'{identity.NAME}', since one configures the whole cluster"
_SPEC = sections.section(Spec)
_CONDITION = sections.section(Condition)
_GENERATION = kinds.integer(bits=64)
# The text goes into a condition, where a page helps nobody.
_PROBLEMS_LIMIT = 8


@attrs.frozen
class Config:
    """
    One GpuFractioningConfig.

    Attributes:
        finalizers: who wants to clean up before it goes.
        observed_generation: the generation that the conditions are about; 0 before there are any.
        served_from: the namespace whose controller serves it; empty before one does.
    """

    name: str
    uid: str
    generation: int
    resource_version: str
    is_deleting: bool
    finalizers: tuple[str, ...]
    spec: Spec
    conditions: tuple[Condition, ...] = ()
    observed_generation: int = 0
    served_from: str = ""


@attrs.frozen(auto_exc=False)
class InvalidResource(InvalidInput):
    """
    A GpuFractioningConfig with values that are not usable.

    The API server refuses those; one that was stored under another schema can have them all the same, and has to be
    reported and deleted like any other.

    Attributes:
        problems: all that is wrong, in the order of the schema.
        config: the rest of it, with unusable values left out. Its node selector may be one of them and then is empty,
            so it selects nodes only to clean up, never to start something on.
    """

    problems: tuple[Problem, ...]
    config: Config

    def __str__(self) -> str:
        told = "; ".join(str(problem) for problem in self.problems[:_PROBLEMS_LIMIT])
        untold = len(self.problems) - _PROBLEMS_LIMIT
        more = f"; and {untold} more" if untold > 0 else ""
        return f"{identity.KIND} {shown(self.config.name)}: {told}{more}"


def read(manifest: Mapping[str, Any]) -> Config:
    """
    Read a resource as the API server gives it. Fields that we do not know are passed over.

    Raises:
        InvalidResource: with every value that is not usable, and the rest of the resource.
    """
    problems: Problems = []
    metadata = _mapping(manifest.get("metadata"))
    status = _mapping(manifest.get("status"))
    name = str(metadata.get("name", ""))
    if name != identity.NAME:
        problems.append(Problem("metadata.name", name, "is not the name", _NAME_ACCEPTED))
    config = Config(
        name=name,
        uid=str(metadata.get("uid", "")),
        generation=_number(metadata.get("generation")),
        resource_version=str(metadata.get("resourceVersion", "")),
        is_deleting=metadata.get("deletionTimestamp") is not None,
        finalizers=tuple(map(str, metadata.get("finalizers") or ())),
        spec=_spec(manifest.get("spec"), problems),
        conditions=_conditions(status.get("conditions")),
        observed_generation=_number(status.get("observedGeneration")),
        served_from=str(_mapping(metadata.get("annotations")).get(identity.NAMESPACE_ANNOTATION, "")),
    )
    if problems:
        raise InvalidResource(tuple(problems), config)
    return config


def write_status(conditions: Sequence[Condition], observed_generation: int) -> Mapping[str, Any]:
    """
    Give the body that applies a status to the resource's status subresource.
    """
    return {
        "apiVersion": identity.API_VERSION,
        "kind": identity.KIND,
        "metadata": {"name": identity.NAME},
        "status": sections.write(Status(observed_generation, tuple(conditions))),
    }


def _spec(value: object, problems: Problems) -> Spec:
    if value is None:
        problems.append(Problem("spec", None, "is missing", _SPEC.accepted))
        return Spec(node_selector={})
    return _SPEC.read(value, "spec", problems) or Spec(node_selector={})


def _conditions(value: object) -> tuple[Condition, ...]:
    """
    Read the conditions that can be read; the others are replaced by the next status, as all of them are.
    """
    return tuple(filter(None, map(_condition, value))) if isinstance(value, list) else ()


def _condition(value: object) -> Condition | None:
    problems: Problems = []
    condition = _CONDITION.read(value, "", problems)
    return None if problems else condition


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _number(value: object) -> int:
    return _GENERATION.read(value, "", []) or 0
