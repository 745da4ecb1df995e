from __future__ import annotations

from pathlib import Path

import attrs
import pytest
from aiohttp import web
from fractioning_core.errors import FileUnavailable
from fractioning_core.kube.errors import ApiUnreachable, BadAnswer, Forbidden, NoToken, Unauthorized
from fractioning_core.kube.incluster import Account
from fractioning_core.kube.tokens import FileTokens
from fractioning_core.kube.transport import Request, Transport
from fractioning_core.testing.apiserver import FakeApiServer, agree, cut, refuse

GET = Request("GET", "/api/v1/nodes/node-a")


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
