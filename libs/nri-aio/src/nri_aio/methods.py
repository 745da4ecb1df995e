"""
The requests a runtime makes, one row each: its name on the wire, the plugin's handler, its event number, its messages.
"""

from __future__ import annotations

import attrs
from google.protobuf.message import Message

from nri_aio.pb import nri_pb2 as pb

PLUGIN_SERVICE = "nri.pkg.api.v1alpha1.Plugin"
RUNTIME_SERVICE = "nri.pkg.api.v1alpha1.Runtime"


@attrs.frozen
class Method:
    """One request: `handler` is the name of the plugin's method, `event` the number to subscribe with."""

    name: str
    handler: str
    event: int
    request: type[Message]
    response: type[Message]

    @property
    def bit(self) -> int:
        """The event's place in a subscription."""
        return 1 << (self.event - 1)


def _change(name: str, handler: str, event: int) -> Method:
    return Method(name, handler, event, pb.LifecycleRequest, pb.Empty)


CHANGES = (
    _change("RunPodSandbox", "run_pod_sandbox", pb.RUN_POD_SANDBOX),
    _change("StopPodSandbox", "stop_pod_sandbox", pb.STOP_POD_SANDBOX),
    _change("RemovePodSandbox", "remove_pod_sandbox", pb.REMOVE_POD_SANDBOX),
    _change("PostUpdatePodSandbox", "post_update_pod_sandbox", pb.POST_UPDATE_POD_SANDBOX),
    _change("PostCreateContainer", "post_create_container", pb.POST_CREATE_CONTAINER),
    _change("StartContainer", "start_container", pb.START_CONTAINER),
    _change("PostStartContainer", "post_start_container", pb.POST_START_CONTAINER),
    _change("PostUpdateContainer", "post_update_container", pb.POST_UPDATE_CONTAINER),
    _change("RemoveContainer", "remove_container", pb.REMOVE_CONTAINER),
)
"""What NRI 0.12 asks by these names and older versions as StateChange."""

QUESTIONS = (
    Method(
        "CreateContainer",
        "create_container",
        pb.CREATE_CONTAINER,
        pb.CreateContainerRequest,
        pb.CreateContainerResponse,
    ),
    Method(
        "UpdateContainer",
        "update_container",
        pb.UPDATE_CONTAINER,
        pb.UpdateContainerRequest,
        pb.UpdateContainerResponse,
    ),
    Method("StopContainer", "stop_container", pb.STOP_CONTAINER, pb.StopContainerRequest, pb.StopContainerResponse),
    Method("UpdatePodSandbox", "update_pod_sandbox", pb.UPDATE_POD_SANDBOX, pb.UpdatePodSandboxRequest, pb.Empty),
    Method(
        "ValidateContainerAdjustment",
        "validate_container_adjustment",
        pb.VALIDATE_CONTAINER_ADJUSTMENT,
        pb.ValidateContainerAdjustmentRequest,
        pb.ValidateContainerAdjustmentResponse,
    ),
)
"""What has a name of its own in every version that has it."""

METHODS = CHANGES + QUESTIONS
