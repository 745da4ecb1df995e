"""
What the API server says, on the branches of our error tree.

    Unavailable
    ├── ApiUnreachable     no answer: nobody there, no trust, or not in time
    ├── NoToken            we have no token to show
    ├── LeaseLost          we led and may not any more
    └── ApiRefusal         an answer that says no; somebody may change that, so asking again later may help
        ├── Unauthorized       401: who are you
        ├── Forbidden          403: you may not
        ├── NotFound           404
        ├── Conflict           409
        ├── Expired            410: the version asked for is gone, ask for all
        └── ApiOverloaded      429 and 5xx, perhaps with a time to wait
    InvalidInput
    ├── ApiRejection       any other 4xx: what we ask for cannot be right
    ├── NotInCluster       nothing tells where the API server is
    └── InvalidNodeName    a name that no node can have
    ProtocolViolation
    └── BadAnswer          a 2xx answer that is not the JSON it has to be
"""

from __future__ import annotations

import json
from collections.abc import Mapping

import aiohttp
import attrs

from fractioning_core.errors import FractioningError, InvalidInput, ProtocolViolation, Unavailable, escaped, shown

# The server's sentence names user, verb, resource and group: more than a value, less than a page.
MESSAGE_LIMIT = 300
# A server that asks for more patience than this is not obeyed: its advice may come from a balancer's default.
_MAX_RETRY_AFTER_SECONDS = 60.0
# A Status object is small; a page that a balancer answers with may not be.
_BODY_LIMIT = 65536


@attrs.frozen(auto_exc=False)
class ApiUnreachable(Unavailable):
    """
    No answer came from the API server.
    """

    server: str
    cause: str

    def __str__(self) -> str:
        return f"no answer from the API server {escaped(self.server)}: {escaped(self.cause, MESSAGE_LIMIT)}"


@attrs.frozen(auto_exc=False)
class NoToken(Unavailable):
    """
    The token file holds nothing that could be shown to the API server.
    """

    path: str
    reason: str

    def __str__(self) -> str:
        return f"no token for the API server: {escaped(self.path, 4096)} {escaped(self.reason, MESSAGE_LIMIT)}"


@attrs.frozen(auto_exc=False)
class ApiRefusal(Unavailable):
    """
    The API server answered, and refuses.
    """

    request: str
    status: int
    message: str

    def __str__(self) -> str:
        return _refusal_text(self.request, self.status, self.message)


class Unauthorized(ApiRefusal):
    """
    The token is not, or no longer, accepted.
    """


class Forbidden(ApiRefusal):
    """
    The token is accepted and lacks the right.
    """


class NotFound(ApiRefusal):
    """
    The object does not exist.
    """


class Conflict(ApiRefusal):
    """
    The object has changed or exists already.
    """


class Expired(ApiRefusal):
    """
    The version that was asked for is no longer remembered.
    """


@attrs.frozen(auto_exc=False)
class ApiOverloaded(ApiRefusal):
    """
    The server, or something before it, cannot answer now.
    """

    retry_after_seconds: float = 0.0
    """
    How long it asks to be left alone; 0 when it does not say.
    """


@attrs.frozen(auto_exc=False)
class LeaseLost(Unavailable):
    """
    We led, and another leads or may lead soon.
    """

    lease: str
    cause: str

    def __str__(self) -> str:
        return f"lost the lease {escaped(self.lease, MESSAGE_LIMIT)}: {escaped(self.cause, MESSAGE_LIMIT)}"


@attrs.frozen(auto_exc=False)
class ApiRejection(InvalidInput):
    """
    The API server finds the request itself wrong.
    """

    request: str
    status: int
    message: str

    def __str__(self) -> str:
        return _refusal_text(self.request, self.status, self.message)


@attrs.frozen(auto_exc=False)
class NotInCluster(InvalidInput):
    """
    The environment does not say where the API server is.
    """

    variable: str
    text: str
    accepted: str

    def __str__(self) -> str:
        found = f"is {shown(self.text)}" if self.text else "is not set, as it is in every pod of a cluster"
        return f"{self.variable} {found}; accepted: {self.accepted}"


@attrs.frozen(auto_exc=False)
class InvalidNodeName(InvalidInput):
    """
    A name that no node can have.
    """

    text: str

    def __str__(self) -> str:
        return (
            f"{shown(self.text)} is not the name of a node; accepted: small letters, digits, - and ., as spec.nodeName"
        )


@attrs.frozen(auto_exc=False)
class BadAnswer(ProtocolViolation):
    """
    The API server agreed in words that are not its protocol's.
    """

    request: str
    reason: str

    def __str__(self) -> str:
        return f"{escaped(self.request, MESSAGE_LIMIT)}: the API server's answer {self.reason}"


_KINDS: Mapping[int, type[ApiRefusal | ApiRejection]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Expired,
    **dict.fromkeys((400, 405, 406, 413, 415, 422), ApiRejection),
}


def from_status(
    request: str, status: int, body: bytes | str | None, *, retry_after: str | None = None
) -> FractioningError:
    """
    Make the error for an answer that is not 2xx.

    Args:
        request: What was asked.
        status: The answer's status.
        body: The answer's body.
        retry_after: The header of that name.
    """
    return of_code(request, status, _message(body), retry_after=retry_after)


def of_code(request: str, status: int, message: str, *, retry_after: str | None = None) -> FractioningError:
    """
    Make the error for a status and a sentence.
    """
    if kind := _KINDS.get(status):
        return kind(request, status, message)
    return ApiOverloaded(request, status, message, _seconds(retry_after))


def cause_of(error: aiohttp.ClientError | OSError) -> str:
    """
    Say in few words why there was no answer.
    """
    match error:
        case aiohttp.ClientConnectorCertificateError():
            return f"its certificate is not trusted: {error.certificate_error}"
        case aiohttp.ClientConnectorError():
            return str(error.os_error)
        case _:
            return str(error) or type(error).__name__


def _refusal_text(request: str, status: int, message: str) -> str:
    told = f": {escaped(message, MESSAGE_LIMIT)}" if message else ""
    return f"{escaped(request, MESSAGE_LIMIT)}: {status} from the API server{told}"


def _seconds(retry_after: str | None) -> float:
    # The other form that HTTP allows, a date, would trust the server's clock, and no API server sends it.
    if retry_after is None or not (retry_after.isascii() and retry_after.isdigit()):
        return 0.0
    return min(float(retry_after[:9]), _MAX_RETRY_AFTER_SECONDS)


def _message(body: bytes | str | None) -> str:
    """
    Take the sentence out of a `Status` object; whatever else came is shown as it is.
    """
    text = body.decode(errors="replace") if isinstance(body, bytes) else body or ""
    try:
        status = json.loads(text[:_BODY_LIMIT])
    except (ValueError, RecursionError):
        return text[:MESSAGE_LIMIT].strip()
    message = status.get("message") if isinstance(status, dict) else None
    return message if isinstance(message, str) else text[:MESSAGE_LIMIT].strip()
