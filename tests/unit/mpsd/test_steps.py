"""Steps that may hang."""

from __future__ import annotations

import asyncio

import pytest
from mpsd import steps
from mpsd.steps import Overdue

pytestmark = pytest.mark.looptime


async def test_one_in_time() -> None:
    """It gives its result."""
    assert 7 == await steps.within(2.0, asyncio.sleep(1.0, 7), doing="waiting")


async def test_one_that_hangs() -> None:
    """It is told after its time, by what it was to do."""
    with pytest.raises(Overdue) as caught:
        await steps.within(30.0, asyncio.Event().wait(), doing="starting the control daemon")

    told = "starting the control daemon takes longer than 30 s: a file system or a process hangs"
    assert (told, 30.0) == (str(caught.value), asyncio.get_running_loop().time())
