"""
Builders of the values that a plan is made from: each makes one that is in order, but for what is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fractioning_core import names, resource
from fractioning_core.resource import Condition, Config, Spec
from fractioning_core.versions import ClusterPolicyVersions

from controller import identifiers
from controller.conditions import TRUE
from controller.options import Image, Options
from controller.policy import ClusterPolicy
from controller.world import DaemonSetView, NodeView, Owner, PodView

NOW = "2026-11-29T12:00:00Z"
LATER = "2026-11-29T12:05:00Z"
NAMESPACE = "gpu-fractioning"
CONFIG_UID = "config-uid"
SELECTOR = {"nvidia.com/gpu.present": "true"}
OPTIONS = Options(
    namespace=NAMESPACE,
    fractiond=Image("example.org/fractiond", "1.2.3"),
    metricsd=Image("example.org/metricsd", "1.2.3"),
    mpsd=Image("example.org/mpsd", "1.2.3"),
    daemon_service_account="gpu-fractioning-daemon",
    fractiond_service_account="gpu-fractioning-fractiond",
)
SUPPORTED = ClusterPolicyVersions("v26.7.1", "v1.20.1", "v0.20.1")
TARGET_LABELS = {**SELECTOR, identifiers.CLIENT_LABEL: identifiers.CLIENT_VALUE, names.DRIVER_LABEL: "615"}


def a_config(
    *,
    uid: str = CONFIG_UID,
    generation: int = 1,
    is_deleting: bool = False,
    finalizers: tuple[str, ...] = (identifiers.FINALIZER,),
    conditions: tuple[Condition, ...] = (),
    node_selector: Mapping[str, str] | None = None,
    served_from: str = NAMESPACE,
    **spec: Any,  # noqa: ANN401 - fields of the spec
) -> Config:
    """
    Make a config that selects GPU nodes.
    """
    return Config(
        name=resource.NAME,
        uid=uid,
        generation=generation,
        resource_version="7",
        is_deleting=is_deleting,
        finalizers=finalizers,
        spec=Spec(node_selector=SELECTOR if node_selector is None else node_selector, **spec),
        conditions=conditions,
        observed_generation=generation if conditions else 0,
        served_from=served_from,
    )


def a_node(name: str = "node-a", *, without: Sequence[str] = (), **fields: Any) -> NodeView:  # noqa: ANN401 - of NodeView
    """
    Make a node that both daemons belong on, without some of its labels and with others.
    """
    labels = {**TARGET_LABELS, **fields.pop("labels", {})}
    kept = {key: value for key, value in labels.items() if key not in without}
    return NodeView(name=name, labels=kept, **fields)


def a_pod(component: str, node: str = "node-a", *, reason: str = "", **fields: Any) -> PodView:  # noqa: ANN401 - of PodView
    """
    Make a pod of a daemon, ready unless there is a reason for it not to be.
    """
    return PodView(
        **{
            "node": node,
            "component": component,
            "is_ready": not reason,
            "reason": reason,
            "owner_uid": daemonset_uid(component),
            **fields,
        }
    )


def a_daemonset(component: str, **fields: Any) -> DaemonSetView:  # noqa: ANN401 - of DaemonSetView
    """
    Make a DaemonSet of ours on one node, ready and observed.
    """
    return DaemonSetView(
        **{
            "name": identifiers.daemonset_name(component),
            "uid": daemonset_uid(component),
            "labels": identifiers.component_labels(component),
            "owner": an_owner(),
            "generation": 1,
            "observed_generation": 1,
            "desired": 1,
            "ready": 1,
            **fields,
        }
    )


def an_owner(uid: str = CONFIG_UID) -> Owner:
    """
    Make the reference to a config.
    """
    return Owner(resource.API_VERSION, resource.KIND, resource.NAME, uid)


def a_policy(versions: ClusterPolicyVersions = SUPPORTED, **fields: Any) -> ClusterPolicy:  # noqa: ANN401 - of ClusterPolicy
    """
    Make a ClusterPolicy of a GPU stack that is supported and ready.
    """
    return ClusterPolicy(**{"name": "cluster-policy", "versions": versions, "state": "ready", **fields})


def a_condition(kind: str, status: str = TRUE, reason: str = "Reason", message: str = "message") -> Condition:
    """
    Make a condition of the config.
    """
    return Condition(kind, status, reason, message, 1, NOW)


def daemonset_uid(component: str) -> str:
    """
    Give the UID of the DaemonSets made here.
    """
    return f"uid-of-{component}"
