"""
Wait for facts about real programs, which announce nothing: ask often, and give up with a reason.

What takes long is asked for less often, since asking takes time from the programs that are waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from lab.errors import Overdue

T = TypeVar("T")
POLL_SECONDS = 0.01
LONGEST_POLL_SECONDS = 0.1
_SHARE_OF_WAIT = 0.1


async def until(
    ask: Callable[[], T | None],
    *,
    what: str,
    timeout_seconds: float,
    details: Callable[[], str] = str,
    longest_poll_seconds: float = LONGEST_POLL_SECONDS,
) -> T:
    """
    Ask until there is an answer that is neither None nor False.

    Args:
        ask: Called every 10 ms at first, and less often as time goes by; an exception of its own ends the wait.
        what: The thing waited for, for the error.
        timeout_seconds: How long to keep asking.
        details: Text for the error, made only when it is needed.
        longest_poll_seconds: How rarely it may be called in the end, for who measures.

    Returns:
        The answer.

    Raises:
        Overdue: There was none in time.
    """

    async def ask_now() -> T | None:
        return ask()

    return await until_awaited(
        ask_now,
        what=what,
        timeout_seconds=timeout_seconds,
        details=details,
        longest_poll_seconds=longest_poll_seconds,
    )


async def until_awaited(
    ask: Callable[[], Awaitable[T | None]],
    *,
    what: str,
    timeout_seconds: float,
    details: Callable[[], str] = str,
    longest_poll_seconds: float = LONGEST_POLL_SECONDS,
) -> T:
    """
    Do the same where asking takes a wait of its own.
    """
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while True:
        answer = await ask()
        if answer is not None and answer is not False:
            return answer
        waited = loop.time() - begun
        if waited >= timeout_seconds:
            raise Overdue(what, timeout_seconds, details())
        await asyncio.sleep(min(max(POLL_SECONDS, _SHARE_OF_WAIT * waited), longest_poll_seconds))
