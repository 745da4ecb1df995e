from __future__ import annotations

import gzip
from pathlib import Path

import attrs
import pytest
from aiohttp import web
from fractioning_core.errors import FileUnavailable
from fractioning_core.kube.errors import ApiOverloaded, ApiUnreachable, BadAnswer, Forbidden, NoToken, Unauthorized
from fractioning_core.kube.incluster import Account
from fractioning_core.kube.tokens import FileTokens
from fractioning_core.kube.transport import Request, Transport
from fractioning_core.testing.apiserver import Ending, FakeApiServer, Streamed, agree, cut, refuse

GET = Request("GET", "/api/v1/nodes/node-a")
WATCH = Request("GET", "/api/v1/nodes", query={"watch": "true", "labelSelector": "a=b,c in (d, e)"})
SILENCE_SECONDS = 5.0


async def streamed(api: Transport, *, silence_seconds: float = SILENCE_SECONDS) -> bytes:
    """
    Read a whole stream.
    """
    async with api.stream(WATCH, silence_seconds=silence_seconds) as chunks:
        return b"".join([chunk async for chunk in chunks])


class TestAsk:
    """
    A request and its answer.
    """

    async def test_answer(self, api: Transport, server: FakeApiServer) -> None:
        """
        The answer's object comes back, and the server sees who asks and for what.
        """
        answer = await api.ask(attrs.evolve(GET, query={"pretty": "false"}, body={"a": [1, None]}, verb="PATCH"))
        seen = server.seen[0]

        assert {"kind": "Node"} == answer
        assert ("PATCH", GET.path, {"pretty": "false"}, {"a": [1, None]}) == (
            seen.verb,
            seen.path,
            seen.query,
            seen.body,
        )
        assert ("first", "tests") == (seen.token, seen.headers["User-Agent"])

    async def test_refusal(self, api: Transport, server: FakeApiServer) -> None:
        """
        An answer that says no is an error with the server's sentence.
        """
        server.answers = [refuse(403, "no right")]

        with pytest.raises(Forbidden) as raised:
            await api.ask(GET)

        assert Forbidden("GET /api/v1/nodes/node-a", 403, "no right") == raised.value

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            pytest.param("ok", "is not JSON", id="text"),
            pytest.param("[" * 100_000, "is not JSON", id="no end of lists"),
            pytest.param("[]", "is not an object", id="a list"),
        ],
    )
    async def test_bad_answer(self, api: Transport, server: FakeApiServer, text: str, reason: str) -> None:
        """
        Agreement in other words than the protocol's is an error.
        """
        server.answers = [lambda: web.Response(text=text)]

        with pytest.raises(BadAnswer) as raised:
            await api.ask(GET)

        assert BadAnswer("GET /api/v1/nodes/node-a", reason) == raised.value


class TestStream:
    """
    An answer that goes on and on.
    """

    async def test_chunks(self, api: Transport, server: FakeApiServer) -> None:
        """
        The bytes come as they are sent, and the server sees who asks and for what.
        """
        server.answers = [Streamed((b"a\n", b"b" * 300_000, b"c"))]
        data = await streamed(api)
        seen = server.seen[0]

        assert b"a\n" + b"b" * 300_000 + b"c" == data
        assert ("GET", WATCH.path, WATCH.query, "first") == (seen.verb, seen.path, seen.query, seen.token)

    async def test_before_the_end(self, api: Transport, server: FakeApiServer) -> None:
        """
        What has come is there before the rest is.
        """
        server.answers = [Streamed((b"a",), Ending.SILENCE)]
        async with api.stream(WATCH, silence_seconds=SILENCE_SECONDS) as chunks:
            assert b"a" == await anext(aiter(chunks))

    async def test_compressed(self, api: Transport, server: FakeApiServer) -> None:
        """
        An answer may be compressed.
        """
        server.answers = [Streamed((gzip.compress(b"a" * 1000),), headers={"Content-Encoding": "gzip"})]

        assert b"a" * 1000 == await streamed(api)
        assert "gzip" in server.seen[0].headers["Accept-Encoding"]

    @pytest.mark.parametrize(
        ("ending", "cause"),
        [
            pytest.param(Ending.CUT, "Response payload is not completed", id="cut"),
            pytest.param(Ending.SILENCE, "nothing within 0.05 s", id="silent"),
        ],
    )
    async def test_breaks_off(self, api: Transport, server: FakeApiServer, ending: Ending, cause: str) -> None:
        """
        A connection that breaks off, or from which nothing comes any more, is an error.
        """
        server.answers = [Streamed((b"a",), ending)]

        with pytest.raises(ApiUnreachable, match=cause):
            await streamed(api, silence_seconds=0.05)

    async def test_refusal(self, api: Transport, server: FakeApiServer) -> None:
        """
        A refusal is the same error as for a single answer.
        """
        server.answers = [refuse(429, "slow", retry_after="7")]
        errors = []
        for asked in (streamed(api), api.ask(GET)):
            with pytest.raises(ApiOverloaded) as raised:
                await asked
            errors.append(raised.value)

        assert [
            ApiOverloaded("GET /api/v1/nodes", 429, "slow", 7.0),
            ApiOverloaded("GET /api/v1/nodes/node-a", 429, "slow", 7.0),
        ] == errors

    async def test_no_answer(self, account: Account, server: FakeApiServer) -> None:
        """
        A server that does not even begin to answer is given up at the deadline of a request.
        """
        server.hangs = True
        tokens = FileTokens(account.token_file)

        async with Transport(account, tokens=tokens, user_agent="tests", deadline_seconds=0.05) as api:
            with pytest.raises(ApiUnreachable, match=r"nothing within 0\.05 s"):
                await streamed(api)

    async def test_rotation(self, api: Transport, server: FakeApiServer, account: Account) -> None:
        """
        Each stream is opened with the newest token, and a swap costs one refusal.
        """
        server.answers = [Streamed((b"a",))]
        for token in ("first", "second"):
            account.token_file.write_text(token)
            server.accepted_token = token
            await streamed(api)
            await streamed(api)

        assert ["first", "first", "first", "second", "second"] == [seen.token for seen in server.seen]

    async def test_left_early(self, api: Transport, server: FakeApiServer) -> None:
        """
        A stream that is left is closed, and its connection is not used again.
        """
        server.answers = [Streamed((b"a",), Ending.SILENCE), agree]
        async with api.stream(WATCH, silence_seconds=SILENCE_SECONDS) as chunks:
            await anext(aiter(chunks))

        assert {"kind": "Node"} == await api.ask(GET)


class TestTokens:
    """
    Which token is shown.
    """

    async def test_rotation(self, api: Transport, server: FakeApiServer, account: Account) -> None:
        """
        Each swap of the token costs one refused request, which nobody but the server notices.
        """
        for token in ("first", "second", "third", "fourth"):
            account.token_file.write_text(token)
            server.accepted_token = token
            await api.ask(GET)
            await api.ask(GET)

        assert [
            *["first"] * 2,
            *["first", "second", "second"],
            *["second", "third", "third"],
            *["third", "fourth", "fourth"],
        ] == [seen.token for seen in server.seen]

    async def test_invalid(self, api: Transport, server: FakeApiServer) -> None:
        """
        A refused token that is still the newest is shown once, not again and again.
        """
        server.accepted_token = "another"  # noqa: S105 - of a fake

        with pytest.raises(Unauthorized) as raised:
            await api.ask(GET)

        assert "GET /api/v1/nodes/node-a: 401 from the API server: Unauthorized" == str(raised.value)
        assert ["first"] == [seen.token for seen in server.seen]

    async def test_swapped_for_another_invalid_one(
        self, api: Transport, server: FakeApiServer, account: Account
    ) -> None:
        """
        A second refusal is final for this request.
        """
        await api.ask(GET)
        server.accepted_token = "another"  # noqa: S105 - of a fake
        account.token_file.write_text("second")

        with pytest.raises(Unauthorized):
            await api.ask(GET)

        assert ["first", "first", "second"] == [seen.token for seen in server.seen]

    async def test_none(self, api: Transport, server: FakeApiServer, account: Account) -> None:
        """
        Without a token nothing is sent.
        """
        account.token_file.unlink()

        with pytest.raises(NoToken):
            await api.ask(GET)

        assert [] == server.seen


class TestNoAnswer:
    """
    What happens when nobody answers.
    """

    async def test_nobody_there(self, api: Transport, server: FakeApiServer, account: Account) -> None:
        """
        A refused connection is an error that names the server.
        """
        nobody = attrs.evolve(account, url="http://127.0.0.1:1")

        async with Transport.of_account(nobody, user_agent="tests") as transport:
            with pytest.raises(ApiUnreachable) as raised:
                await transport.ask(GET)

        assert "no answer from the API server http://127.0.0.1:1: " in str(raised.value)
        assert "Connect call failed ('127.0.0.1', 1)" in str(raised.value)

    async def test_silence(self, account: Account, server: FakeApiServer) -> None:
        """
        A server that does not answer is given up at the deadline.
        """
        server.hangs = True
        tokens = FileTokens(account.token_file)

        async with Transport(account, tokens=tokens, user_agent="tests", deadline_seconds=0.05) as transport:
            with pytest.raises(ApiUnreachable) as raised:
                await transport.ask(GET)

        assert ApiUnreachable(account.url, "nothing within 0.05 s") == raised.value

    async def test_cut_connection(self, api: Transport, server: FakeApiServer) -> None:
        """
        A connection that the server drops is an error, and the next request makes another one.

        A patch, since the library itself asks once more where asking twice does no harm.
        """
        patch = attrs.evolve(GET, verb="PATCH")
        server.answers = [cut, agree]
        with pytest.raises(ApiUnreachable):
            await api.ask(patch)

        assert {"kind": "Node"} == await api.ask(patch)

    @pytest.mark.parametrize(
        ("content", "cause"),
        [pytest.param(None, "No such file or directory", id="missing"), pytest.param("", "NO_CERTIFICATE", id="empty")],
    )
    async def test_no_authority(self, account: Account, tmp_path: Path, content: str | None, cause: str) -> None:
        """
        A certificate authority that cannot be read is named; it is read again at the next request.
        """
        path = tmp_path / "ca.crt"
        if content is not None:
            path.write_text(content)
        async with Transport.of_account(attrs.evolve(account, ca_file=path), user_agent="tests") as transport:
            with pytest.raises(FileUnavailable) as raised:
                await transport.ask(GET)
            path.write_bytes(account.ca_file.read_bytes())
            answer = await transport.ask(GET)

        assert (str(path), True) == (raised.value.path, cause in raised.value.cause)
        assert {"kind": "Node"} == answer
