"""What holds for every test."""

from __future__ import annotations

import asyncio


def pytest_configure() -> None:
    # Tests without a loop of their own would otherwise get one that nobody closes, which is an error here.
    asyncio.set_event_loop(None)
