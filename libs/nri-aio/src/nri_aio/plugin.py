"""
What a plugin overrides.

A handler that is overridden is subscribed to, all others are not: each event is a round trip under the runtime's
node-wide lock. `def` handlers are answered at once, inside the callback that received the request, and must not block;
`async def` handlers run as a task (about 90 µs more) and are cancelled at their deadline. Past its deadline a request
is answered with an error, because a runtime that waits in vain creates the container unadjusted and drops the plugin.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import NamedTuple, Protocol, TypeAlias, TypeVar

import attrs

from nri_aio.errors import NriError
from nri_aio.pb import nri_pb2 as pb

T = TypeVar("T")

Reply: TypeAlias = T | Awaitable[T | None] | None
"""What a handler may return: the message, None for "no change", or either one later (`async def`)."""


class Call(NamedTuple):
    """When a request came and until when it must be answered, on the event loop's clock (`loop.time()`)."""

    method: str
    arrived: float
    deadline: float
    """Three quarters of the runtime's limit; the rest is for the answer's way and a busy loop."""
    timeout_seconds: float
    """The runtime's limit for this request."""


@attrs.frozen
class Configuration:
    """What runtime and plugin agreed on."""

    runtime_name: str
    """"containerd" or "cri-o"."""
    runtime_version: str
    nri_version: str
    """Empty before NRI 0.12."""
    request_timeout: float
    """Seconds the runtime waits for an answer, and for all parts of Synchronize together."""
    registration_timeout: float
    """Seconds the runtime waits for RegisterPlugin after it accepted the connection."""
    config: str
    """The plugin's configuration file; only plugins that the runtime launches have one."""
    events: int
    """The subscription: bit n-1 stands for event n."""


class ChangeRequest(Protocol):
    """What a change is about; events of a pod leave `container` unset (`HasField` tells)."""

    @property
    def pod(self) -> pb.PodSandbox:
        """The pod; for one the runtime has lost, with nothing but its id."""

    @property
    def container(self) -> pb.Container:
        """The container."""


Change: TypeAlias = Awaitable[None] | None
"""What a handler of a change may return: nothing, now or later."""


class Plugin:
    """
    The base of every plugin; see the module for the rules that all handlers share.

    To refuse a request raise `Refused` with a text for the user. Any other exception refuses it too, with a text that
    names no more than the exception's type, and goes to `handler_failed`.
    """

    def configure(self, configuration: Configuration) -> Change:
        """Learn which runtime this is; an exception gives the connection up."""

    def synchronize(
        self, pods: Sequence[pb.PodSandbox], containers: Sequence[pb.Container]
    ) -> Reply[Sequence[pb.ContainerUpdate]]:
        """
        Take over the node's state; called once per connection, with all of it.

        Returns:
            Updates for containers already there, or None.
        """

    def synchronized(self) -> None:
        """Learn that the runtime has our answer to `synchronize`: from now on it calls us for every event."""

    def create_container(self, request: pb.CreateContainerRequest, call: Call) -> Reply[pb.CreateContainerResponse]:
        """Adjust a container before it is created."""

    def update_container(self, request: pb.UpdateContainerRequest, call: Call) -> Reply[pb.UpdateContainerResponse]:
        """Change the resources a container is about to get."""

    def stop_container(self, request: pb.StopContainerRequest, call: Call) -> Reply[pb.StopContainerResponse]:
        """Learn that a container stopped, or that its creation failed; may come for ids never seen."""

    def validate_container_adjustment(
        self, request: pb.ValidateContainerAdjustmentRequest, call: Call
    ) -> Reply[pb.ValidateContainerAdjustmentResponse]:
        """
        Check the sum of all plugins' adjustments; subscribed to only where the runtime has it (NRI 0.10 and newer).

        Unlike every other request, one that is not answered fails the creation.
        """

    def run_pod_sandbox(self, request: ChangeRequest, call: Call) -> Change:
        """Learn of a new pod. Never refuse it: containerd before 2.2.6 and 2.3.3 then leaks the pod's process."""

    def update_pod_sandbox(self, request: pb.UpdatePodSandboxRequest, call: Call) -> Change:
        """Learn that a pod's resources are about to change (NRI 0.10 and newer)."""

    def post_update_pod_sandbox(self, request: ChangeRequest, call: Call) -> Change:
        """Learn that a pod's resources have changed (NRI 0.10 and newer)."""

    def stop_pod_sandbox(self, request: ChangeRequest, call: Call) -> Change:
        """Learn that a pod stops."""

    def remove_pod_sandbox(self, request: ChangeRequest, call: Call) -> Change:
        """Learn that a pod is gone."""

    def post_create_container(self, request: ChangeRequest, call: Call) -> Change:
        """Learn that a container was created."""

    def start_container(self, request: ChangeRequest, call: Call) -> Change:
        """Learn that a container is about to start: its process exists, the user's program does not run yet."""

    def post_start_container(self, request: ChangeRequest, call: Call) -> Change:
        """Learn that a container runs."""

    def post_update_container(self, request: ChangeRequest, call: Call) -> Change:
        """Learn that a container's resources have changed."""

    def remove_container(self, request: ChangeRequest, call: Call) -> Change:
        """Learn that a container is gone; its state and pid mean nothing here."""

    def shutdown(self) -> None:
        """Learn that the runtime shuts down; no runtime so far says so, the connection just ends."""

    def handler_failed(self, method: str, error: Exception) -> None:
        """Report a request that was answered with an error nobody meant; for logging."""

    def disconnected(self, error: NriError, retry_seconds: float | None) -> None:
        """Report that `run` has no connection and when it tries again, None for never; for logging."""


def is_overridden(plugin: Plugin, handler: str) -> bool:
    """Tell whether a plugin has its own version of a handler."""
    return getattr(type(plugin), handler) is not getattr(Plugin, handler)
