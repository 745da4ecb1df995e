"""Work that waits until the runtime has its answer."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from fractiond.afterwards import GATHER_SECONDS, Afterwards

pytestmark = pytest.mark.looptime


@pytest.fixture
async def afterwards() -> Afterwards:
    return Afterwards(asyncio.get_running_loop().call_later)


def fail() -> None:
    raise ZeroDivisionError


class TestAfterwards:
    async def test_work_is_done_together_and_in_order(self, afterwards: Afterwards) -> None:
        """What comes within the pause is done at its end."""
        done: list[tuple[str, float]] = []
        now = asyncio.get_running_loop().time

        def note(name: str) -> None:
            done.append((name, now()))

        for name in "ab":
            afterwards.add(partial(note, name))
            await asyncio.sleep(GATHER_SECONDS / 4)
        await asyncio.sleep(GATHER_SECONDS)

        assert [("a", GATHER_SECONDS), ("b", GATHER_SECONDS)] == done

    async def test_later_work_is_put_off_anew(self, afterwards: Afterwards) -> None:
        """After a pause the next one begins with the next piece of work."""
        done: list[str] = []
        afterwards.add(partial(done.append, "a"))
        await asyncio.sleep(2 * GATHER_SECONDS)
        afterwards.add(partial(done.append, "b"))
        before = list(done)
        await asyncio.sleep(2 * GATHER_SECONDS)

        assert (["a"], ["a", "b"]) == (before, done)

    async def test_it_can_be_done_at_once(self, afterwards: Afterwards) -> None:
        """At the end nothing waits, and nothing is done twice."""
        done: list[str] = []
        afterwards.add(partial(done.append, "a"))
        afterwards.run()
        before = list(done)
        await asyncio.sleep(2 * GATHER_SECONDS)

        assert (["a"], ["a"]) == (before, done)

    async def test_a_fault_keeps_nothing_else_from_being_done(self, afterwards: Afterwards) -> None:
        """The fault goes to whoever runs the work, which is the event loop."""
        done: list[str] = []
        afterwards.add(fail)
        afterwards.add(partial(done.append, "a"))
        with pytest.raises(ZeroDivisionError):
            afterwards.run()
        await asyncio.sleep(2 * GATHER_SECONDS)

        assert ["a"] == done
