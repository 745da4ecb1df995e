"""
What the controller says of a resource: the types of `status`.
"""

from __future__ import annotations

import attrs

from fractioning_core.resource import fields

STATUSES = ("True", "False", "Unknown")

# The bounds that Kubernetes itself has for conditions.
_TYPE = {
    "maxLength": 316,
    "pattern": r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
    r"(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
}
_REASON = {"minLength": 1, "maxLength": 1024, "pattern": "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"}
_MESSAGE = {"maxLength": 32768}


@attrs.frozen
class Condition:
    """
    One aspect of the state.
    """

    type: str = fields.required_text("type", "What it is about.", schema=_TYPE)
    status: str = fields.required_choice("status", "Whether it holds.", STATUSES)
    reason: str = fields.required_text("reason", "Why, in one word for programs.", schema=_REASON)
    message: str = fields.required_text("message", "Why, for people; may be empty.", schema=_MESSAGE)
    observed_generation: int = fields.integer(
        "observedGeneration", "Generation of the resource that this was found for.", 0, bits=64
    )
    last_transition_time: str = fields.required_text(
        "lastTransitionTime", "When the status last became another one.", schema={"format": "date-time"}
    )


@attrs.frozen
class Status:
    """
    What the controller found.
    """

    observed_generation: int = fields.integer(
        "observedGeneration", "Generation of the resource that the conditions are about.", bits=64
    )
    conditions: tuple[Condition, ...] = fields.plain_list("conditions", "The state, one aspect each.", Condition)
