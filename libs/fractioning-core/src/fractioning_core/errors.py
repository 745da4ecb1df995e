"""
The one tree of errors; its branches say what the caller does.

    FractioningError
    ├── InvalidInput          somebody else's mistake in a value: say so, do not retry
    │   ├── InvalidQuantity       a memory amount
    │   ├── InvalidDuration       a length of time
    │   ├── InvalidPrefix         the annotation prefix setting
    │   ├── InvalidAnnotation     one annotation of one container
    │   ├── InvalidAnnotations    several of them, told in one line
    │   ├── InvalidDriverVersion  a driver version or its label
    │   ├── InvalidRecord         a container record
    │   └── InvalidCgroupsPath    where a container's cgroup is said to be
    ├── Unavailable           the outside world is not there now: retry
    │   └── FileUnavailable       a file or directory operation failed
    ├── ProtocolViolation     a peer broke its protocol: drop it
    └── Misuse                our own bug: crash

Leaves keep facts as fields and build their text in `__str__`, always one line. Text from outside is cut and escaped
where it enters that line, so that no annotation can forge a log line or fill one.
"""

from __future__ import annotations

import attrs

# Enough to recognise a value by; a UUID has 40 characters.
SHOWN_LIMIT = 80
# An annotation key has at most 253 + 1 + 63 characters.
KEY_LIMIT = 317
# A scope of systemd, with a pod's UID and a container's id in it, has about 150.
_PATH_LIMIT = 255
# The text of a refusal travels to the kubelet and into a pod's status.
_PROBLEMS_LIMIT = 8


class FractioningError(Exception):
    """
    Anything this project raises on purpose.
    """


class InvalidInput(FractioningError):  # noqa: N818  branches are named for what the caller does
    """
    A value that somebody else wrote is not usable; trying again does not help.
    """


class Unavailable(FractioningError):  # noqa: N818  same
    """
    Something outside is not there at the moment; trying again may help.
    """


class ProtocolViolation(FractioningError):  # noqa: N818  same
    """
    A peer broke the protocol; its connection is of no more use.
    """


class Misuse(FractioningError):  # noqa: N818  same
    """
    Our own code called something in a way that cannot be right.
    """


def shown(text: str, limit: int = SHOWN_LIMIT) -> str:
    """
    Quote foreign text for a message: cut to `limit` characters, everything but plain ASCII escaped.

    Escaping all of non-ASCII is on purpose: a full-width digit or a no-break space is then seen for what it is.
    """
    quoted = f'"{escaped(text[:limit], limit)}"'
    return quoted if len(text) <= limit else f"{quoted}... ({len(text)} characters)"


def escaped(text: str, limit: int = SHOWN_LIMIT) -> str:
    """
    Make foreign text fit for a message without quoting it; `...` tells that it was cut.
    """
    plain = text[:limit].encode("unicode_escape").decode("ascii").replace('"', '\\"')
    return plain if len(text) <= limit else f"{plain}..."


# The leaves compare by value (auto_exc=False), so that results which carry them do.
@attrs.frozen(auto_exc=False)
class InvalidQuantity(InvalidInput):
    """
    A memory amount that is not usable.
    """

    text: str
    reason: str
    accepted: str

    def __str__(self) -> str:
        return f"{shown(self.text)} {self.reason}; accepted: {self.accepted}"


@attrs.frozen(auto_exc=False)
class InvalidDuration(InvalidInput):
    """
    A text that is no length of time.
    """

    text: str
    reason: str
    accepted: str

    def __str__(self) -> str:
        return f"{shown(self.text)} {self.reason}; accepted: {self.accepted}"


@attrs.frozen(auto_exc=False)
class InvalidPrefix(InvalidInput):
    """
    An annotation prefix with which no annotation can exist.
    """

    text: str
    reason: str
    accepted: str

    def __str__(self) -> str:
        return f"{shown(self.text)} is not an annotation prefix: {self.reason}; accepted: {self.accepted}"


@attrs.frozen(auto_exc=False)
class InvalidAnnotation(InvalidInput):
    """
    One annotation that is not usable.
    """

    key: str
    value: str
    reason: str
    accepted: str

    def __str__(self) -> str:
        return f"{escaped(self.key, KEY_LIMIT)}: {shown(self.value)} {self.reason}; accepted: {self.accepted}"


@attrs.frozen(auto_exc=False)
class InvalidAnnotations(InvalidInput):
    """
    All that is wrong with the annotations of one container.
    """

    problems: tuple[InvalidAnnotation, ...]

    def __str__(self) -> str:
        told = "; ".join(str(problem) for problem in self.problems[:_PROBLEMS_LIMIT])
        untold = len(self.problems) - _PROBLEMS_LIMIT
        return told if untold <= 0 else f"{told}; and {untold} more"


@attrs.frozen(auto_exc=False)
class InvalidDriverVersion(InvalidInput):
    """
    A driver version or driver label that names no major version.
    """

    text: str
    what: str
    accepted: str

    def __str__(self) -> str:
        return f"{shown(self.text)} is not {self.what}; accepted: {self.accepted}"


@attrs.frozen(auto_exc=False)
class InvalidRecord(InvalidInput):
    """
    Bytes that are not a container record of the schema we read.
    """

    reason: str

    def __str__(self) -> str:
        return f"not a container record: {self.reason}"


@attrs.frozen(auto_exc=False)
class InvalidCgroupsPath(InvalidInput):
    """
    A text that says of no cgroup where it is.
    """

    text: str
    reason: str
    accepted: str

    def __str__(self) -> str:
        return f"{shown(self.text, _PATH_LIMIT)} {self.reason}; accepted: {self.accepted}"


@attrs.frozen(auto_exc=False)
class FileUnavailable(Unavailable):
    """
    The file system refused an operation.
    """

    action: str
    path: str
    cause: str

    def __str__(self) -> str:
        return f"cannot {self.action} {escaped(self.path, 4096)}: {self.cause}"
