"""
Wait for facts about real programs, which announce nothing: ask often, and give up with a reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lab.errors import Overdue

T = TypeVar("T")
POLL_SECONDS = 0.01


async def until(
    ask: Callable[[], T | None],
    *,
    what: str,
    timeout_seconds: float,
    details: Callable[[], str] = str,
) -> T:
    """
    Ask until there is an answer that is neither None nor False.

    Args:
        ask: Called every 10 ms; an exception of its own ends the wait.
        what: The thing waited for, for the error.
        timeout_seconds: How long to keep asking.
        details: Text for the error, made only when it is needed.

    Returns:
        The answer.

    Raises:
        Overdue: There was none in time.
    """

    async def ask_now() -> T | None:
        return ask()

    return await until_awaited(ask_now, what=what, timeout_seconds=timeout_seconds, details=details)


async def until_awaited(
    ask: Callable[[], Awaitable[T | None]],
    *,
    what: str,
    timeout_seconds: float,
    details: Callable[[], str] = str,
) -> T:
    """
    Do the same where asking takes a wait of its own.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_seconds
    while True:
        answer = await ask()
        if answer is not None and answer is not False:
            return answer
        if loop.time() >= deadline:
            raise Overdue(what, timeout_seconds, details())
        await asyncio.sleep(POLL_SECONDS)
