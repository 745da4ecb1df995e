"""
What a user asks for: the types of `spec`, which are the source of its schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from fractioning_core import names
from fractioning_core.resource import fields, forms, sections
from fractioning_core.resource.sections import Rule

_MILLISECOND = 10**6

DEFAULT_METRIC_NAMES = (
    "gpu_fractioning_gpu_memory_used_bytes",
    "gpu_fractioning_gpu_sm_utilization_percent",
    "gpu_fractioning_gpu_sm_utilization_percent_normalized",
)
"""
metricsd's own, in the order of the fields of MetricNames.
"""


@attrs.frozen
class Toleration:
    """
    One toleration of the daemons' pods, as core/v1 has it.
    """

    key: str | None = fields.optional_text("key", "Key of the taint; empty or absent, with Exists, matches every key.")
    # The words of Kubernetes 1.35; an API server that lacks one of them refuses the pods, and says so.
    operator: str | None = fields.optional_choice(
        "operator", "How key and value are compared; absent is Equal.", ("", "Exists", "Equal", "Lt", "Gt")
    )
    value: str | None = fields.optional_text("value", "Value of the taint.")
    effect: str | None = fields.optional_choice(
        "effect",
        "Effect of the taint; empty or absent matches all of them.",
        ("", "NoSchedule", "PreferNoSchedule", "NoExecute"),
    )
    toleration_seconds: int | None = fields.optional_integer(
        "tolerationSeconds", "Seconds that a NoExecute taint is tolerated; absent is for ever.", bits=64
    )


@attrs.frozen
class FractioningAgent:
    """
    Options of fractiond.
    """

    annotation_prefix: str = fields.text(
        "annotationPrefix",
        f"What a pod annotation starts with, before the container's name; absent or empty is {names.ANNOTATION_PREFIX}",
        forms.ANNOTATION_PREFIX,
    )
    fail_open: bool | None = fields.optional_boolean(
        "failOpen",
        "Let a container with unusable annotations run without a limit instead of refusing it; absent is false.",
    )
    nri_socket_path: str = fields.text(
        "nriSocketPath",
        f"NRI socket of the container runtime on the node; absent or empty is {names.NRI_SOCKET}",
        forms.SOCKET,
    )
    retroactive_enforcement: bool = fields.boolean_on(
        "retroactiveEnforcement",
        "Compare running containers with what creation would inject, and stop those that differ.",
    )
    cri_socket_path: str = fields.text(
        "criSocketPath",
        "CRI socket of the container runtime on the node, for retroactiveEnforcement; "
        f"absent or empty is {names.CRI_SOCKET}",
        forms.SOCKET,
    )
    log_level: str = fields.log_level("fractiond")
    retry_interval_seconds: float | None = fields.optional_seconds(
        "retryInterval",
        "First wait after the runtime dropped a connection; doubles up to a minute; absent is 5s.",
        least_nanoseconds=_MILLISECOND,
    )
    stable_threshold_seconds: float | None = fields.optional_seconds(
        "stableThreshold", "A connection that lasted this long resets the retry budget; absent is 5m."
    )
    max_retries: int | None = fields.optional_integer(
        "maxRetries", "Exit after so many failed connections in a row; 0 or absent is never.", 0
    )
    readiness_port: int | None = fields.optional_integer(
        "readinessPort",
        f"Port of fractiond's /readyz, /healthz and /metrics; absent is {names.READINESS_PORT}.",
        1,
        65535,
    )


@attrs.frozen
class MetricNames:
    """
    Other names for the metrics of pods.
    """

    gpu_memory_used_bytes: str = fields.text(
        "gpuMemoryUsedBytes",
        f"For the memory that a pod uses; absent or empty is {DEFAULT_METRIC_NAMES[0]}.",
        forms.METRIC,
    )
    gpu_sm_utilization_percent: str = fields.text(
        "gpuSmUtilizationPercent",
        f"For the SMs that a pod uses; absent or empty is {DEFAULT_METRIC_NAMES[1]}.",
        forms.METRIC,
    )
    gpu_sm_utilization_percent_normalized: str = fields.text(
        "gpuSmUtilizationPercentNormalized",
        f"For the same as a part of the pod's fraction; absent or empty is {DEFAULT_METRIC_NAMES[2]}.",
        forms.METRIC,
    )


def _are_distinct(chosen: MetricNames) -> bool:
    given = attrs.astuple(chosen)
    meant = {name or default for name, default in zip(given, DEFAULT_METRIC_NAMES, strict=True)}
    return len(meant) == len(given)


def _distinct_rule() -> str:
    """
    Write the rule in CEL, where an absent or empty name is the default one.
    """
    names_in_json = [field.name for field in sections.declared(MetricNames).values()]
    first, second, third = (
        f"(has(self.{name}) && self.{name} != '' ? self.{name} : '{default}')"
        for name, default in zip(names_in_json, DEFAULT_METRIC_NAMES, strict=True)
    )
    return f"{first} != {second} && {second} != {third} && {third} != {first}"


_DISTINCT = Rule(_distinct_rule(), "has one name for two metrics", "three different names", _are_distinct)


@attrs.frozen
class MetricsAgent:
    """
    Options of metricsd, which runs beside fractiond.
    """

    enabled: bool = fields.boolean("enabled", "Run metricsd; absent is false.")
    log_level: str = fields.log_level("metricsd")
    address: str = fields.text(
        "address", "Where metricsd listens; absent or empty is :2112, all addresses of the pod.", forms.ADDRESS
    )
    path: str = fields.text(
        "path", "Path of the metrics; absent or empty is /metrics, and a missing / in front is added.", forms.PAGE
    )
    volumes: tuple[Mapping[str, Any], ...] = fields.core_list(
        "volumes", "More volumes for the pod, as core/v1 has them.", "Volume"
    )
    volume_mounts: tuple[Mapping[str, Any], ...] = fields.core_list(
        "volumeMounts", "More mounts for metricsd, as core/v1 has them.", "VolumeMount"
    )
    metric_names: MetricNames | None = fields.optional_section(  # noqa: RUF009 - declares the field
        "metricNames", "Other names for the metrics of pods; all three must differ.", MetricNames, _DISTINCT
    )


@attrs.frozen
class MpsDaemon:
    """
    Options of mpsd.
    """

    log_level: str = fields.log_level("mpsd")
    backoff_seconds: float | None = fields.optional_seconds(
        "backoff",
        "First wait before a control daemon that ended is started again; doubles up to a minute; absent is 5s.",
        least_nanoseconds=_MILLISECOND,
    )
    max_retries: int | None = fields.optional_integer(
        "maxRetries", "Exit after so many crashes in a row; 0 is never; absent is 5.", 0
    )
    stable_threshold_seconds: float | None = fields.optional_seconds(
        "stableThreshold", "A run that lasted this long resets the retry budget; absent is 5m."
    )
    graceful_stop_delay_seconds: float | None = fields.optional_seconds(
        "gracefulStopDelay",
        "How long a control daemon told to quit may wait for its clients; the pod's grace is 15s more; absent is 60s.",
    )


@attrs.frozen
class Spec:
    """
    The whole of what a user asks for.
    """

    node_selector: Mapping[str, str] = fields.fixed_labels(
        "nodeSelector", "Labels of the nodes to serve; empty is every node. Immutable."
    )
    tolerations: tuple[Toleration, ...] = fields.section_list(
        "tolerations", "Tolerations of the daemons' pods; without one for each taint a node is not served.", Toleration
    )
    runtime_class_name: str | None = fields.optional_text(
        "runtimeClassName",
        "RuntimeClass of pods that use the driver; absent is nvidia, empty is the node's default. "
        "Not used where the GPU Operator runs its NRI plugin.",
        forms.OBJECT,
    )
    fractioning_agent: FractioningAgent | None = fields.optional_section(  # noqa: RUF009 - declares the field
        "fractioningAgent", "Options of fractiond; without them running containers are not enforced.", FractioningAgent
    )
    metrics_agent: MetricsAgent | None = fields.optional_section(  # noqa: RUF009 - declares the field
        "metricsAgent", "Options of metricsd; without them it does not run.", MetricsAgent
    )
    mps_daemon: MpsDaemon | None = fields.optional_section(  # noqa: RUF009 - declares the field
        "mpsDaemon", "Options of mpsd.", MpsDaemon
    )
