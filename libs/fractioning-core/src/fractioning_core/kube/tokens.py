"""
The bearer token of a pod, which the kubelet replaces well before it ends.

It is read again every minute, as client-go does, and at once when the API server refuses it. kubernetes_asyncio's own
refresh is not used: for years it reached only the call that refreshed, since each client copies its configuration, and
every later call was refused until a restart.
"""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Protocol

import attrs

from fractioning_core.kube.errors import NoToken

REREAD_SECONDS = 60.0
# A header's value; anything else in the file could end the header and begin another.
_TOKEN = re.compile(r"[!-~]+")
# A token with many audiences and groups has a few KiB.
_MAX_BYTES = 65536


class Tokens(Protocol):
    """
    Where a token comes from.
    """

    async def current(self) -> str:
        """
        Give the token to show; raises NoToken.
        """

    async def after_refusal(self, refused: str) -> str | None:
        """
        Give another token than the one refused, or None while there is no other; raises NoToken.
        """


@attrs.define(eq=False)
class FileTokens:
    """
    The token in a file.

    Args:
        path: The file; the kubelet swaps a link above it.
    """

    _path: Path
    _token: str | None = attrs.field(default=None, init=False, repr=False)
    _read_at: float = attrs.field(default=0.0, init=False)

    async def current(self) -> str:
        """
        Give the token, no more than a minute old.

        Raises:
            NoToken: The file cannot be read or holds none.
        """
        if self._token is None or self._now() - self._read_at >= REREAD_SECONDS:
            return await self._read()
        return self._token

    async def after_refusal(self, refused: str) -> str | None:
        """
        Give another token than the one refused.

        Returns:
            The token that another request found meanwhile or that is in the file now; None if that is the refused one.

        Raises:
            NoToken: The file cannot be read or holds none.
        """
        if self._token is not None and self._token != refused:
            return self._token
        token = await self._read()
        return token if token != refused else None

    async def _read(self) -> str:
        token = await asyncio.to_thread(_token_in, self._path)
        self._token, self._read_at = token, self._now()
        return token

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


@attrs.frozen
class FixedTokens:
    """
    A token that does not change, for whoever was given one.
    """

    token: str = attrs.field(repr=False)

    async def current(self) -> str:
        """
        Give it.
        """
        return self.token

    async def after_refusal(self, _: str) -> str | None:
        """
        Have no other.
        """
        return None


def _token_in(path: Path) -> str:
    try:
        with path.open(encoding="ascii") as file:
            text = file.read(_MAX_BYTES).strip()
    except OSError as error:
        raise NoToken(str(path), f"cannot be read: {os.strerror(error.errno) if error.errno else error}") from error
    except UnicodeDecodeError as error:
        raise NoToken(str(path), "is not text") from error
    if not _TOKEN.fullmatch(text):
        raise NoToken(str(path), "holds more than one word" if text else "is empty")
    return text
