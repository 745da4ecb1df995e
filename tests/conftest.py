"""What holds for every test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import hypothesis
import pytest
import structlog


def pytest_configure() -> None:
    # Tests without a loop of their own would otherwise get one that nobody closes, which is an error here.
    asyncio.set_event_loop(None)
    # How long an example takes says something about the machine, nothing about the code.
    hypothesis.settings.register_profile("unhurried", deadline=None)
    hypothesis.settings.load_profile("unhurried")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--golden", action="store_true", help="write golden files anew instead of comparing with them")


@pytest.fixture(autouse=True)
def _log_of_its_own() -> Iterator[None]:
    """
    Let no test log as one before it was told to: running a whole program sets the level for the process.
    """
    yield
    structlog.reset_defaults()


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], str]:
    """
    Gives what a golden file beside the test has, once it was written anew where that is asked for.
    """

    def expected(name: str, text: str) -> str:
        file = request.path.parent / "golden" / name
        if request.config.getoption("--golden"):
            file.write_text(text)
        return file.read_text()

    return expected
