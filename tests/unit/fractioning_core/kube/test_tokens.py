from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from fractioning_core.kube.errors import NoToken
from fractioning_core.kube.tokens import REREAD_SECONDS, FileTokens, FixedTokens


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("one\n")
    return path


class TestCurrent:
    """
    The token to show.
    """

    async def test_line_end(self, path: Path) -> None:
        """
        The end of the line does not belong to the token.
        """
        assert "one" == await FileTokens(path).current()

    @pytest.mark.looptime
    async def test_swap(self, path: Path) -> None:
        """
        A swapped token is seen within a minute, without a refusal, and the file is not read for every request.
        """
        tokens = FileTokens(path)
        seen = [await tokens.current()]
        path.write_text("two")
        seen.append(await tokens.current())
        await asyncio.sleep(REREAD_SECONDS)
        seen.append(await tokens.current())

        assert ["one", "one", "two"] == seen

    @pytest.mark.parametrize(
        ("content", "reason"),
        [
            pytest.param(b"", "is empty", id="nothing"),
            pytest.param(b" \n", "is empty", id="blanks"),
            pytest.param(b"a b", "holds more than one word", id="two words"),
            pytest.param(b"a\r\nX-Remote-User: root", "holds more than one word", id="a header smuggled in"),
            pytest.param(b"\xff", "is not text", id="no text"),
        ],
    )
    async def test_unusable(self, path: Path, content: bytes, reason: str) -> None:
        """
        What cannot be shown to a server is refused, naming the file and never its content.
        """
        path.write_bytes(content)

        with pytest.raises(NoToken) as raised:
            await FileTokens(path).current()

        assert f"no token for the API server: {path} {reason}" == str(raised.value)

    async def test_missing(self, tmp_path: Path) -> None:
        """
        A file that is not there is named.
        """
        with pytest.raises(NoToken) as raised:
            await FileTokens(tmp_path / "token").current()

        assert NoToken(str(tmp_path / "token"), "cannot be read: No such file or directory") == raised.value

    def test_repr(self, path: Path) -> None:
        """
        No token comes into a log by way of a representation.
        """
        tokens = FileTokens(path)
        asyncio.run(tokens.current())

        assert "one" not in repr(tokens).replace(str(path), "") + repr(FixedTokens("one"))


class TestAfterRefusal:
    """
    The token to show when one was refused.
    """

    async def test_swapped(self, path: Path) -> None:
        """
        The file is read at once.
        """
        tokens = FileTokens(path)
        refused = await tokens.current()
        path.write_text("two")

        assert ("two", "two") == (await tokens.after_refusal(refused), await tokens.current())

    async def test_same(self, path: Path) -> None:
        """
        There is no other while the file holds the refused one.
        """
        tokens = FileTokens(path)

        assert await tokens.after_refusal(await tokens.current()) is None

    async def test_found_meanwhile(self, path: Path) -> None:
        """
        What another request found meanwhile is used, without reading once more.
        """
        tokens = FileTokens(path)
        refused = await tokens.current()
        path.write_text("two")
        await tokens.after_refusal(refused)
        path.unlink()

        assert "two" == await tokens.after_refusal(refused)


class TestFixedTokens:
    """
    A token that was given.
    """

    async def test_refused(self) -> None:
        """
        It stays, and there is no other.
        """
        tokens = FixedTokens("one")

        assert ("one", None) == (await tokens.current(), await tokens.after_refusal("one"))
