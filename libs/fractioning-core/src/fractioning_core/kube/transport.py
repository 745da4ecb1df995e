"""
One request to the API server and its answer, within a deadline.

A refused token is read again and the request sent once more, so that a rotation costs one 401 and no failure. The
connection is made anew when its certificate is not trusted, because a new certificate authority is read only then.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import aiohttp
import attrs

from fractioning_core.errors import FileUnavailable, FractioningError
from fractioning_core.kube import errors, vendor
from fractioning_core.kube.errors import ApiUnreachable, BadAnswer, Unauthorized
from fractioning_core.kube.incluster import Account
from fractioning_core.kube.tokens import FileTokens, Tokens

DEADLINE_SECONDS = 10.0
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


@attrs.frozen
class Request:
    """
    What is asked.

    Args:
        verb: The HTTP method.
        path: Path below the server's address, its parts escaped already.
        query: Parameters of the query.
        body: A value for JSON; None sends nothing.
        content_type: What the body is.
        accept: What the answer may be.
    """

    verb: str
    path: str
    query: Mapping[str, str] = attrs.field(factory=dict, kw_only=True)
    body: object = attrs.field(default=None, kw_only=True)
    content_type: str = attrs.field(default=JSON, kw_only=True)
    accept: str = attrs.field(default=JSON, kw_only=True)

    def __str__(self) -> str:
        return f"{self.verb} {self.path}"


@attrs.define(eq=False)
class Transport:
    """
    Sends requests while entered.

    Args:
        account: Where the server is, and its certificate authority.
        tokens: Who we are; by default the account's token file.
        user_agent: What the server's audit log calls us.
        deadline_seconds: How long one request may take, a second attempt with a new token included.
    """

    _account: Account
    _tokens: Tokens = attrs.field(kw_only=True)
    _user_agent: str = attrs.field(kw_only=True)
    _deadline_seconds: float = attrs.field(default=DEADLINE_SECONDS, kw_only=True)
    _client: vendor.RestClient | None = attrs.field(default=None, init=False)

    @classmethod
    def of_account(cls, account: Account, *, user_agent: str) -> Self:
        """
        Make one that shows the token of the account's file.
        """
        return cls(account, tokens=FileTokens(account.token_file), user_agent=user_agent)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """
        Close the connections; a request after this opens new ones.
        """
        client, self._client = self._client, None
        if client is not None:
            await client.close()

    async def ask(self, request: Request) -> Mapping[str, Any]:
        """
        Send a request.

        Returns:
            The object that the server answers with.

        Raises:
            FractioningError: One of `kube.errors`, or FileUnavailable for the certificate authority.
        """
        try:
            async with asyncio.timeout(self._deadline_seconds):
                return await self._ask(request)
        except TimeoutError as error:
            raise ApiUnreachable(self._account.url, f"nothing within {self._deadline_seconds:g} s") from error
        except aiohttp.ClientSSLError as error:
            await self.aclose()
            raise ApiUnreachable(self._account.url, errors.cause_of(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ApiUnreachable(self._account.url, errors.cause_of(error)) from error

    async def _ask(self, request: Request) -> Mapping[str, Any]:
        token = await self._tokens.current()
        try:
            return await self._send(request, token)
        except Unauthorized:
            other = await self._tokens.after_refusal(token)
            if other is None:
                raise
            return await self._send(request, other)

    async def _send(self, request: Request, token: str) -> Mapping[str, Any]:
        headers = {
            "Accept": request.accept,
            "Authorization": f"Bearer {token}",
            "Content-Type": request.content_type,
            "User-Agent": self._user_agent,
        }
        with _refusals(request):
            answer = await self._opened().request(
                request.verb,
                f"{self._account.url}{request.path}",
                query_params=request.query,
                headers=headers,
                body=request.body,
            )
        return _decoded(request, answer.data)

    def _opened(self) -> vendor.RestClient:
        if self._client is None:
            try:
                self._client = vendor.open_client(ca_file=self._account.ca_file)
            except OSError as error:
                cause = error.strerror or str(error)
                raise FileUnavailable("read", str(self._account.ca_file), cause) from error
        return self._client


@contextmanager
def _refusals(request: Request) -> Iterator[None]:
    try:
        yield
    except vendor.ApiException as error:
        raise _mapped(request, error) from error


def _mapped(request: Request, error: Any) -> FractioningError:  # noqa: ANN401 - the library's class has no types here
    return errors.from_status(str(request), error.status or 0, error.body)


def _decoded(request: Request, data: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(str(request), "is not JSON") from error
    if not isinstance(answer, dict):
        raise BadAnswer(str(request), "is not an object")
    return answer
