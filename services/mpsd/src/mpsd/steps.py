"""
Steps on the node's file systems, which may hang for ever: a dead mount answers nobody, a wedged process hides its
files. Whoever waits for one without a deadline hears no signal meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import attrs
from fractioning_core.errors import Unavailable

T = TypeVar("T")


@attrs.frozen(auto_exc=False)
class Overdue(Unavailable):
    """
    A step does not come to its end.
    """

    doing: str
    seconds: float

    def __str__(self) -> str:
        return f"{self.doing} takes longer than {self.seconds:g} s: a file system or a process hangs"


async def within(seconds: float, step: Awaitable[T], *, doing: str) -> T:
    """
    Take a step. A thread that hangs in it is left to itself.

    Raises:
        Overdue: it took too long.
    """
    try:
        async with asyncio.timeout(seconds):
            return await step
    except TimeoutError as error:
        raise Overdue(doing, seconds) from error
