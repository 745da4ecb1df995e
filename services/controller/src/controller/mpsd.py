"""
The DaemonSet of mpsd.

Its image has no shell, so the probes ask mpsd's own pages: ready is a control daemon that answers commands, alive is
an mpsd that supervises. The supervisor heals a daemon long before the probe's patience ends.
"""

from __future__ import annotations

import math

from fractioning_core import names
from fractioning_core.resource import MpsDaemon

from controller import daemonset, flags, identifiers, podparts
from controller.daemonset import Input, Manifest, Pod

_CREATE = "DirectoryOrCreate"
_VOLUMES = (("mps-pipe", names.MPS_PIPE_DIR), ("mps-log", "/var/log/nvidia-mps"))
_DEFAULT_STOP_DELAY_SECONDS = 60.0
# For mpsd to end after the control daemon that it waited for.
_GRACE_SECONDS = 15


def build(given: Input) -> Manifest:
    """
    Make the manifest.
    """
    agent = given.config.spec.mps_daemon
    pod = Pod(
        component=identifiers.MPSD,
        service_account=given.options.daemon_service_account,
        containers=[_container(given, agent)],
        volumes=[podparts.host_volume(name, path, _CREATE) for name, path in _VOLUMES],
        annotations=daemonset.cdi_annotations(identifiers.MPSD, is_nri=given.is_nri),
        fields={
            # MPS knows its users by the PIDs of the host, and accounts for memory by them.
            "hostPID": True,
            "terminationGracePeriodSeconds": grace_seconds(agent),
            **({"runtimeClassName": given.runtime_class} if given.runtime_class else {}),
        },
    )
    return daemonset.build(given, pod)


def grace_seconds(agent: MpsDaemon | None) -> int:
    """
    Give how long a pod may take to end.
    """
    delay = agent.graceful_stop_delay_seconds if agent else None
    return math.ceil(_DEFAULT_STOP_DELAY_SECONDS if delay is None else delay) + _GRACE_SECONDS


def _container(given: Input, agent: MpsDaemon | None) -> Manifest:
    port = identifiers.MPSD_HEALTH_PORT
    return podparts.container(
        identifiers.MPSD,
        given.options.mpsd,
        podparts.privileged(),
        args=_arguments(agent) if agent else [],
        env=_environment(given),
        ports=[{"name": "health", "containerPort": port, "protocol": "TCP"}],
        readinessProbe=podparts.http_probe("/readyz", port, delay=5, period=10),
        livenessProbe=podparts.http_probe("/healthz", port, delay=60, period=30, failures=6),
        resources=podparts.resources("64Mi", "256Mi"),
        volumeMounts=[podparts.mount(name, path) for name, path in _VOLUMES],
    )


def _arguments(agent: MpsDaemon) -> list[str]:
    return [
        *flags.flag("log-level", agent.log_level),
        *flags.duration_flag("backoff", agent.backoff_seconds),
        *flags.flag("max-retries", agent.max_retries),
        *flags.duration_flag("stable-threshold", agent.stable_threshold_seconds),
        *flags.duration_flag("graceful-stop-delay", agent.graceful_stop_delay_seconds),
    ]


def _environment(given: Input) -> list[Manifest]:
    options = given.options
    return [
        {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
        podparts.variable("NVIDIA_VISIBLE_DEVICES", "all"),
        podparts.variable("NVIDIA_DRIVER_CAPABILITIES", "compute,utility"),
        podparts.variable("MPS_MEMACCT_AUDIT_LOG", flags.boolean(options.audit_log)),
        podparts.variable("MPS_SUPPORT_SM_SHARING", flags.boolean(options.support_sm_sharing)),
        podparts.variable("MPS_HEALTH_PORT", str(identifiers.MPSD_HEALTH_PORT)),
        *daemonset.fips_env(options),
    ]
