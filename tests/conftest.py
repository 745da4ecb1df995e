"""What holds for every test."""

from __future__ import annotations

import asyncio

import hypothesis


def pytest_configure() -> None:
    # Tests without a loop of their own would otherwise get one that nobody closes, which is an error here.
    asyncio.set_event_loop(None)
    # How long an example takes says something about the machine, nothing about the code.
    hypothesis.settings.register_profile("unhurried", deadline=None)
    hypothesis.settings.load_profile("unhurried")
