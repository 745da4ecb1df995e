"""
The API server's audit log: who asked for what, and when.

Only ServiceAccounts are recorded. A token has an id, which tells apart two programs of one account.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import attrs
from lab.errors import LabError

_TOKEN_ID = "authentication.kubernetes.io/credential-id"  # noqa: S105 - the name of a field
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@attrs.frozen(order=True)
class Right:
    """
    What RBAC grants: a verb on a resource.
    """

    group: str
    resource: str
    """With its subresource, `nodes/status`."""
    verb: str

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group}"


@attrs.frozen
class Call:
    """
    One request.
    """

    at: datetime
    """When it was received."""
    user: str
    token_id: str
    right: Right
    namespace: str
    name: str
    code: int
    uri: str

    @property
    def is_write(self) -> bool:
        """
        Whether it was to change something.
        """
        return self.right.verb in WRITES


def read(path: Path, *, since: int = 0) -> Sequence[Call]:
    """
    Read the calls of the log that have been answered, from a place on.

    Args:
        path: The log.
        since: How many bytes to pass over: `size(path)` of before.

    Raises:
        LabError: It is shorter than that: a new one was begun, and what was in the old one is not told.
    """
    if size(path) < since:
        raise LabError(f"{path} has {size(path)} bytes, and had {since}: the API server began a new one")
    if not path.exists():
        return ()
    lines = path.read_bytes()[since:].split(b"\n")[:-1]
    events = (json.loads(line) for line in lines)
    return tuple(_call(event) for event in events if "objectRef" in event and _is_answer(event))


def size(path: Path) -> int:
    """
    Tell how long the log is.
    """
    return path.stat().st_size if path.exists() else 0


def token_id(token: str) -> str:
    """
    Read the id in a ServiceAccount's token, as the log tells it.
    """
    claims = token.split(".")[1]
    decoded = json.loads(base64.urlsafe_b64decode(claims + "=" * (-len(claims) % 4)))
    return f"JTI={decoded['jti']}"


def _is_answer(event: Mapping[str, Any]) -> bool:
    """
    Pass over the end of a watch, of which the beginning is there already.
    """
    is_watch = event["verb"] == "watch"
    return bool(event["stage"] == "ResponseStarted" or not is_watch)


def _call(event: Mapping[str, Any]) -> Call:
    about = event["objectRef"]
    parts = [about["resource"], *filter(None, [about.get("subresource")])]
    return Call(
        at=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        user=event["user"]["username"],
        token_id=next(iter(event["user"].get("extra", {}).get(_TOKEN_ID, ())), ""),
        right=Right(about.get("apiGroup", ""), "/".join(parts), event["verb"]),
        namespace=about.get("namespace", ""),
        name=about.get("name", ""),
        code=event.get("responseStatus", {}).get("code", 0),
        uri=event["requestURI"],
    )
