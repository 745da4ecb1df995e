"""What the tests of fractiond share: metrics, log, running parts, and containerd's merge of an adjustment."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator, MutableMapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import Any, Protocol, TypeAlias

import pytest
import structlog
from fractiond.metrics import PREFIX, Metrics
from fractiond.wire import REMOVAL, Subject
from nri_aio.pb import nri_pb2 as pb
from prometheus_client import CollectorRegistry

LogLines: TypeAlias = list[MutableMapping[str, Any]]


class Part(Protocol):
    """What runs for ever."""

    def run(self) -> Coroutine[Any, Any, None]:
        """Run."""


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> Metrics:
    return Metrics(registry)


@pytest.fixture
def sample(registry: CollectorRegistry) -> Callable[..., float | None]:
    """Read one sample by its name without the prefix, and its labels."""

    def read(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(f"{PREFIX}_{name}", labels)

    return read


@pytest.fixture
def log() -> Iterator[LogLines]:
    """Collect what is logged, whatever the level."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest.fixture
def subject() -> Subject:
    return Subject(namespace="team-a", pod="job-1", pod_uid="uid-1", container="main", container_id="c1")


@pytest.fixture(scope="session")
def running() -> Callable[[Part], AbstractAsyncContextManager[asyncio.Task[None]]]:
    """Run a part of fractiond beside a test; what it raises fails the test."""
    return _running


@asynccontextmanager
async def _running(part: Part) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(part.run())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


@pytest.fixture(scope="session")
def merge_env() -> Callable[[Iterable[str], Iterable[tuple[str, str]]], list[str]]:
    return merged_env


@pytest.fixture(scope="session")
def merge() -> Callable[[pb.Container, pb.ContainerAdjustment], pb.Container]:
    return merged


def merged_env(env: Iterable[str], changes: Iterable[tuple[str, str]]) -> list[str]:
    """
    Merge variables as NRI's generator does (AdjustEnv in v0.12, containerd 2.3.7).

    The first occurrence of a changed variable takes the change and uses it up; every further one sets its own value
    again. Bare keys are dropped.
    """
    left = {key.removeprefix(REMOVAL): (key, value) for key, value in changes}
    result: dict[str, str] = {}
    for entry in env:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            continue
        key, changed = left.pop(name, (name, value))
        if not key.startswith(REMOVAL):
            result[key] = changed
    result |= {key: value for key, value in left.values() if not key.startswith(REMOVAL)}
    return [f"{key}={value}" for key, value in result.items()]


def merged(container: pb.Container, adjust: pb.ContainerAdjustment) -> pb.Container:
    """Apply an adjustment to a container, which comes out created; CDI devices do not show (containerd 2.3.7)."""
    result = pb.Container()
    result.CopyFrom(container)
    result.state = pb.CONTAINER_CREATED
    result.env[:] = merged_env(container.env, ((pair.key, pair.value) for pair in adjust.env))
    for mount in adjust.mounts:
        destination = mount.destination.removeprefix(REMOVAL)
        kept = [each for each in result.mounts if each.destination != destination]
        if destination == mount.destination:
            kept.append(mount)
        del result.mounts[:]
        result.mounts.extend(kept)
    return result
