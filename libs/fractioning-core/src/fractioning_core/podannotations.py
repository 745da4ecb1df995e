"""
Pod annotations to what one container asked for.

Reading never fails: it gives everything that is wrong, all at once, beside what is left to apply when bad input is to
be tolerated. Which of the two counts is the caller's policy. The match is by container name alone, so init
containers, sidecars and ephemeral containers get what is written for their own name and nothing else.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping

import attrs

from fractioning_core import names, quantity
from fractioning_core.errors import KEY_LIMIT, InvalidAnnotation, InvalidPrefix, InvalidQuantity, escaped, shown
from fractioning_core.fraction import ComputeMode, Fraction

# What Go's strings.TrimSpace removes. Python's strip() would also take the separators U+001C to U+001F.
_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
# A line break in an environment value could pass for another variable; none of these belongs to a device name.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
# Room for over a hundred CDI names by UUID.
MAX_DEVICES_LENGTH = 16_384
# No node has as many GPUs. Each entry costs time while the runtime waits, and a Synchronize asks for all containers.
MAX_DEVICES = 128

_MODES = {mode.value: mode for mode in ComputeMode}
_ACCEPTED_LIMIT = "a limit at or above the request"
_ACCEPTED_DEVICES = "all, or a comma-separated list of GPU UUIDs, indices or CDI names"

_ACCEPTED_PREFIX = (
    "nothing, or a DNS name in lower case with a slash, and then letters, digits, '.', '_' and '-', "
    f"such as {names.ANNOTATION_PREFIX}"
)
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?"
_DNS_NAME = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_MAX_DNS_NAME = 253
# The API server wants an annotation's name to begin with a letter or digit.
_NAME_START = re.compile(r"(?:[A-Za-z0-9][A-Za-z0-9._-]*)?")
# It allows 63 characters behind the slash; one for the container and the shorter memory suffix must fit.
_MAX_NAME_START = 63 - 1 - len(names.GPU_MEMORY_LIMIT_SUFFIX)


def validate_prefix(text: str) -> None:
    """
    Refuse an annotation prefix under which the API server accepts no annotation.

    Raises:
        InvalidPrefix: with what is wrong and the accepted form.
    """
    reason = _prefix_fault(text)
    if reason:
        raise InvalidPrefix(text, reason, _ACCEPTED_PREFIX)


def _prefix_fault(text: str) -> str:
    domain, slash, start = text.rpartition("/")
    if "/" in domain:
        return "it has more than one slash"
    if slash and (len(domain) > _MAX_DNS_NAME or not _DNS_NAME.fullmatch(domain)):
        return "what is before the slash is not a DNS name in lower case"
    if not _NAME_START.fullmatch(start):
        return "what begins the name has other characters or does not begin with a letter or digit"
    if len(start) > _MAX_NAME_START:
        return f"it leaves no room for a container name (at most {_MAX_NAME_START} characters behind the slash)"
    return ""


def _checked_prefix(_instance: object, _attribute: object, value: str) -> None:
    validate_prefix(value)


@attrs.frozen
class Grammar:
    """
    How annotations are to be read on this node.

    Attributes:
        prefix: what stands before the container name in every key.
        sm_sharing: whether `sm-sharing` is a mode here; where it is not, it is as wrong as a typing mistake.
    """

    prefix: str = attrs.field(default=names.ANNOTATION_PREFIX, validator=_checked_prefix)
    sm_sharing: bool = True


@attrs.frozen
class Keys:
    """
    The four annotation keys of one container.
    """

    request: str
    limit: str
    mode: str
    devices: str


@attrs.frozen
class Reading:
    """
    What a pod's annotations say about one container.

    Attributes:
        fraction: what to apply when problems are tolerated; None when the container is not fractional or its memory
            bounds are unusable. A bad mode falls back to time-slicing, bad devices to none.
        problems: everything that is wrong; a strict caller refuses the container when there is any.
    """

    fraction: Fraction | None
    problems: tuple[InvalidAnnotation, ...] = ()


_NOT_FRACTIONAL = Reading(fraction=None)


def keys(container: str, grammar: Grammar) -> Keys:
    """
    Give the annotation keys of a container.
    """
    return _keys(grammar.prefix, container)


# Building four strings costs more than the look-ups of a container without annotations; names repeat on a node.
@functools.lru_cache(maxsize=1024)
def _keys(prefix: str, container: str) -> Keys:
    start = prefix + container
    return Keys(
        request=start + names.GPU_MEMORY_REQUEST_SUFFIX,
        limit=start + names.GPU_MEMORY_LIMIT_SUFFIX,
        mode=start + names.GPU_COMPUTE_MODE_SUFFIX,
        devices=start + names.GPU_DEVICES_SUFFIX,
    )


def own(annotations: Mapping[str, str], container: str, grammar: Grammar) -> tuple[tuple[str, str], ...]:
    """
    Pick what `read` would look at, key and value, as something to remember an answer by.

    Returns: nothing for a container that is not fractional.
    """
    keys_of = _keys(grammar.prefix, container)
    if keys_of.request not in annotations and keys_of.limit not in annotations:
        return ()
    every = (keys_of.request, keys_of.limit, keys_of.mode, keys_of.devices)
    return tuple([(key, annotations[key]) for key in every if key in annotations])


def read(annotations: Mapping[str, str], container: str, grammar: Grammar) -> Reading:
    """
    Read what a pod's annotations say about one of its containers.

    A container is fractional if it has at least one memory annotation; mode and devices alone do nothing.

    Args:
        annotations: the pod's; only `in` and `[]` are used, in this order, since a protobuf map's `[]` inserts.
        container: the container's name.
        grammar: how to read.
    """
    own = _keys(grammar.prefix, container)
    if own.request not in annotations and own.limit not in annotations:
        return _NOT_FRACTIONAL
    problems: list[InvalidAnnotation] = []
    bounds = _bounds(annotations, own, problems)
    mode = _mode(annotations, own.mode, grammar, problems)
    devices = _devices(annotations, own.devices, problems)
    fraction = Fraction(*bounds, mode, devices) if bounds else None
    return Reading(fraction, tuple(problems))


def _bounds(annotations: Mapping[str, str], own: Keys, problems: list[InvalidAnnotation]) -> tuple[int, int] | None:
    before = len(problems)
    request = _memory(annotations, own.request, problems)
    limit = _memory(annotations, own.limit, problems)
    if len(problems) > before:
        return None
    request, limit = request or limit, limit or request
    # Compared as whole MiB, which is what the driver is told.
    if limit < request:
        problems.append(_limit_below_request(annotations, own))
        return None
    return request, limit


def _memory(annotations: Mapping[str, str], key: str, problems: list[InvalidAnnotation]) -> int:
    """
    Read a memory annotation; 0, which is no legal amount, stands for absent or unusable.
    """
    if key not in annotations:
        return 0
    try:
        return quantity.to_mib(annotations[key])
    except InvalidQuantity as error:
        problems.append(InvalidAnnotation(key, error.text, error.reason, error.accepted))
        return 0


def _limit_below_request(annotations: Mapping[str, str], own: Keys) -> InvalidAnnotation:
    reason = f"is below {escaped(own.request, KEY_LIMIT)}: {shown(annotations[own.request])}"
    return InvalidAnnotation(own.limit, annotations[own.limit], reason, _ACCEPTED_LIMIT)


def _mode(annotations: Mapping[str, str], key: str, grammar: Grammar, problems: list[InvalidAnnotation]) -> ComputeMode:
    if key not in annotations:
        return ComputeMode.TIME_SLICING
    text = annotations[key]
    mode = _MODES.get(text.strip(_SPACE))
    if mode is None:
        accepted = "time-slicing or sm-sharing" if grammar.sm_sharing else "time-slicing"
        problems.append(InvalidAnnotation(key, text, "is not a compute mode", accepted))
    elif mode is ComputeMode.SM_SHARING and not grammar.sm_sharing:
        problems.append(InvalidAnnotation(key, text, "is switched off on this node", "time-slicing"))
    else:
        return mode
    return ComputeMode.TIME_SLICING


def _devices(annotations: Mapping[str, str], key: str, problems: list[InvalidAnnotation]) -> str:
    if key not in annotations:
        return ""
    text = annotations[key].strip(_SPACE)
    if len(text) > MAX_DEVICES_LENGTH:
        reason = f"is longer than {MAX_DEVICES_LENGTH} characters"
    elif text.count(",") >= MAX_DEVICES:
        reason = f"has more than {MAX_DEVICES} entries"
    elif _CONTROL.search(text):
        reason = "has a line break or another control character"
    else:
        return text
    problems.append(InvalidAnnotation(key, text, reason, _ACCEPTED_DEVICES))
    return ""
