"""
One request to the API server and its answer, within a deadline, or as it comes for a watch.

A refused token is read again and the request sent once more, so that a rotation costs one 401 and no failure. The
connection is made anew when its certificate is not trusted, because a new certificate authority is read only then.

A stream's deadlines are two: one until the server has agreed, and one between any two reads. A connection of which a
balancer has dropped one half looks alive for ever; only the reader's own deadline ends it.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, contextmanager
from typing import Any, Protocol, Self, TypeVar

import aiohttp
import attrs

from fractioning_core.errors import FileUnavailable, FractioningError
from fractioning_core.kube import errors, vendor
from fractioning_core.kube.errors import ApiUnreachable, BadAnswer, Unauthorized
from fractioning_core.kube.incluster import Account
from fractioning_core.kube.tokens import FileTokens, Tokens

T = TypeVar("T")

DEADLINE_SECONDS = 10.0
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"
METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
METADATA_ONLY_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# Objects of a few KiB each: some at a time, so that a burst keeps neither memory nor the event loop for long.
_CHUNK_BYTES = 65536
# What is read of an answer that says no.
_REFUSAL_BYTES = 65536
_RETRY_AFTER = "Retry-After"
_OK = 200


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


class Api(Protocol):
    """
    Who answers requests: the transport, or a cluster in memory.
    """

    async def ask(self, request: Request) -> Mapping[str, Any]:
        """
        Give the object that the server answers with; raises FractioningError.
        """


class StreamingApi(Api, Protocol):
    """
    Who answers watches, too.
    """

    def stream(self, request: Request, *, silence_seconds: float) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """
        Give the answer's bytes as they come; raises FractioningError.
        """


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
        async with self._reachable(), self._in_time():
            return await self._ask(request)

    @asynccontextmanager
    async def stream(self, request: Request, *, silence_seconds: float) -> AsyncIterator[AsyncIterator[bytes]]:
        """
        Send a request whose answer goes on and on, and read it while entered.

        Args:
            request: What is asked, a GET.
            silence_seconds: After how long without a byte the connection is taken for dead.

        Yields:
            The bytes as they come, until the server ends the answer; ApiUnreachable when it breaks off.

        Raises:
            FractioningError: As for `ask`, while it opens.
        """
        async with self._reachable(), self._in_time():
            response = await self._opening(request)
        try:
            async with aclosing(self._chunks(response, silence_seconds)) as chunks:
                yield chunks
        finally:
            response.close()

    async def _chunks(self, response: aiohttp.ClientResponse, silence_seconds: float) -> AsyncGenerator[bytes, None]:
        while True:
            async with self._reachable(), self._within(silence_seconds):
                chunk = await response.content.read(_CHUNK_BYTES)
            if not chunk:
                return
            yield chunk

    def _in_time(self) -> AbstractAsyncContextManager[None]:
        return self._within(self._deadline_seconds)

    @asynccontextmanager
    async def _within(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            raise ApiUnreachable(self._account.url, f"nothing within {seconds:g} s") from error

    @asynccontextmanager
    async def _reachable(self) -> AsyncIterator[None]:
        try:
            yield
        except aiohttp.ClientSSLError as error:
            await self.aclose()
            raise ApiUnreachable(self._account.url, errors.cause_of(error)) from error
        except (aiohttp.ClientError, OSError) as error:
            raise ApiUnreachable(self._account.url, errors.cause_of(error)) from error

    async def _ask(self, request: Request) -> Mapping[str, Any]:
        return await self._with_token(self._send, request)

    async def _opening(self, request: Request) -> aiohttp.ClientResponse:
        return await self._with_token(self._open_stream, request)

    async def _with_token(self, send: Callable[[Request, str], Awaitable[T]], request: Request) -> T:
        token = await self._tokens.current()
        try:
            return await send(request, token)
        except Unauthorized:
            other = await self._tokens.after_refusal(token)
            if other is None:
                raise
            return await send(request, other)

    async def _send(self, request: Request, token: str) -> Mapping[str, Any]:
        with _refusals(request):
            answer = await self._opened().request(
                request.verb,
                f"{self._account.url}{request.path}",
                query_params=request.query,
                headers=self._headers(request, token),
                body=request.body,
            )
        return _decoded(request, answer.data)

    async def _open_stream(self, request: Request, token: str) -> aiohttp.ClientResponse:
        response = await vendor.open_stream(
            self._opened(),
            f"{self._account.url}{request.path}",
            query=request.query,
            headers=self._headers(request, token),
            buffer_bytes=_CHUNK_BYTES,
        )
        if response.status == _OK:
            return response
        try:
            body = await response.content.read(_REFUSAL_BYTES)
        finally:
            response.close()
        raise errors.from_status(str(request), response.status, body, retry_after=response.headers.get(_RETRY_AFTER))

    def _headers(self, request: Request, token: str) -> dict[str, str]:
        return {
            "Accept": request.accept,
            "Authorization": f"Bearer {token}",
            "Content-Type": request.content_type,
            "User-Agent": self._user_agent,
        }

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
    retry_after = error.headers.get(_RETRY_AFTER) if error.headers else None
    return errors.from_status(str(request), error.status or 0, error.body, retry_after=retry_after)


def _decoded(request: Request, data: bytes) -> Mapping[str, Any]:
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadAnswer(str(request), "is not JSON") from error
    if not isinstance(answer, dict):
        raise BadAnswer(str(request), "is not an object")
    return answer
