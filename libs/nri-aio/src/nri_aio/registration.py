"""
Configure and Synchronize: the steps between a connection and an active plugin.

Both are ordinary requests to be answered, but each answer also moves the connection on, and a failed one ends it: the
runtime drops a plugin whose Configure or Synchronize failed, and versions before NRI 0.7 leave the socket open.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from nri_aio import lifecycle, methods, runtimes
from nri_aio.errors import OutOfOrder, Rejected
from nri_aio.lifecycle import Event, State
from nri_aio.pb import nri_pb2 as pb
from nri_aio.plugin import Call, Configuration, Plugin, is_overridden
from nri_aio.snapshot import Part, Snapshot

DEFAULT_REQUEST_TIMEOUT = 2.0
"""Seconds; what runtimes use that do not say (NRI before 0.7)."""

DEFAULT_REGISTRATION_TIMEOUT = 5.0
"""Seconds; as above."""

T = TypeVar("T")
R = TypeVar("R")


class Registration:
    """
    The state of one connection and what the runtime told us so far.

    Args:
        plugin: Whose handlers to call.
        reject: Ends the connection.
        activated: Called when the final answer to Synchronize was handed over.
    """

    def __init__(self, plugin: Plugin, *, reject: Callable[[Rejected], None], activated: Callable[[], None]) -> None:
        self.state = State.CONNECTING
        self.configuration: Configuration | None = None
        self._plugin = plugin
        self._reject = reject
        self._activated = activated
        self._snapshot: Snapshot | None = Snapshot()
        self._is_complete = False

    def advance(self, event: Event) -> None:
        """
        Move on.

        Raises:
            OutOfOrder: The event has no place now; nothing changed.
        """
        self.state = lifecycle.advance(self.state, event)

    def configure(self, request: pb.ConfigureRequest, _call: Call) -> object:
        """Answer Configure with the subscription."""
        self.advance(Event.CONFIGURED)
        self.configuration = _configuration(request, self._plugin)
        # 0 would subscribe to everything; this one is rare and in every version.
        events = self.configuration.events or 1 << (pb.POST_UPDATE_CONTAINER - 1)
        return _then(self._plugin.configure(self.configuration), lambda _: pb.ConfigureResponse(events=events))

    def synchronize(self, part: Part, _call: Call) -> object:
        """Collect a part; answer the last one with the plugin's updates."""
        self.advance(Event.CHUNK)
        if self._snapshot is None:
            raise OutOfOrder(Event.CHUNK.value, "answering the last one")
        self._snapshot.add(part)
        if part.request.more:
            return pb.SynchronizeResponse(more=True)
        snapshot, self._snapshot = self._snapshot, None
        return _then(self._plugin.synchronize(snapshot.pods, snapshot.containers), self._complete)

    def settle_configure(self, error: Exception | None) -> None:
        """Act on the fate of Configure."""
        self._give_up("Configure", error)

    def settle_synchronize(self, error: Exception | None) -> None:
        """Act on the fate of a part of Synchronize."""
        if error is None and self._is_complete:
            self._is_complete = False
            self.advance(Event.SYNCHRONIZED)
            self._activated()
        self._give_up("Synchronize", error)

    def _complete(self, updates: Sequence[pb.ContainerUpdate] | None) -> pb.SynchronizeResponse:
        self._is_complete = True
        return pb.SynchronizeResponse(update=updates)

    def _give_up(self, step: str, error: Exception | None) -> None:
        if error is not None and not isinstance(error, OutOfOrder):
            self._reject(Rejected(f"we refused {step}: {str(error) or type(error).__name__}"))


def _configuration(request: pb.ConfigureRequest, plugin: Plugin) -> Configuration:
    offered = runtimes.valid_events(
        runtime_name=request.runtime_name,
        runtime_version=request.runtime_version,
        nri_version=request.NRI_version,
    )
    return Configuration(
        runtime_name=request.runtime_name,
        runtime_version=request.runtime_version,
        nri_version=request.NRI_version,
        request_timeout=_seconds(request.request_timeout) or DEFAULT_REQUEST_TIMEOUT,
        registration_timeout=_seconds(request.registration_timeout) or DEFAULT_REGISTRATION_TIMEOUT,
        config=request.config,
        events=wanted_events(plugin) & offered,
    )


def wanted_events(plugin: Plugin) -> int:
    """Give the mask of the events whose handlers a plugin overrides."""
    return sum(method.bit for method in methods.METHODS if is_overridden(plugin, method.handler))


def _seconds(milliseconds: int) -> float:
    return max(milliseconds, 0) / 1000


def _then(result: T | Awaitable[T], build: Callable[[T], R]) -> R | Awaitable[R]:
    """Apply `build` to a handler's result, now or when it is there."""
    if inspect.isawaitable(result):
        return _build_later(result, build)
    return build(result)


async def _build_later(pending: Awaitable[T], build: Callable[[T], R]) -> R:
    return build(await pending)
