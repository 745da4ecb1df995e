"""
The DaemonSet of fractiond, with metricsd beside it.

fractiond's own container never touches a GPU; only metricsd needs the driver and the host's PIDs, so the pod has them
only where metrics are on. The directories of sockets are mounted rather than the sockets, since a runtime makes its
socket anew at every start.
"""

from __future__ import annotations

import posixpath

from fractioning_core import names
from fractioning_core.resource import FractioningAgent, MetricsAgent

from controller import daemonset, flags, identifiers, metricsd, podparts
from controller.daemonset import Input, Manifest, Pod

_CREATE = "DirectoryOrCreate"
# Where fractiond looks for CDI specs, to refuse a GPU that no spec names.
_CDI_DIRECTORIES = (("cdi-static", "/etc/cdi"), ("cdi-dynamic", "/var/run/cdi"))


def build(given: Input) -> Manifest:
    """
    Make the manifest.
    """
    agent = given.config.spec.fractioning_agent
    metrics = given.config.spec.metrics_agent
    measured = metrics if metrics and metrics.enabled else None
    account = given.options.fractiond_service_account
    pod = Pod(
        component=identifiers.FRACTIOND,
        service_account=account,
        containers=[_container(given, agent, measured), *([metricsd.container(given, measured)] if measured else [])],
        volumes=[*_volumes(given, agent, measured), *(measured.volumes if measured else ())],
        annotations=metricsd.pod_annotations(measured, is_nri=given.is_nri) if measured else {},
        fields={
            "automountServiceAccountToken": False,
            # NVML names processes by the PIDs of the host, and metricsd looks them up in its /proc.
            **({"hostPID": True} if measured else {}),
            **({"runtimeClassName": given.runtime_class} if measured and given.runtime_class else {}),
        },
    )
    return daemonset.build(given, pod)


def _container(given: Input, agent: FractioningAgent | None, metrics: MetricsAgent | None) -> Manifest:
    port = (agent and agent.readiness_port) or names.READINESS_PORT
    return podparts.container(
        identifiers.FRACTIOND,
        given.options.fractiond,
        podparts.root_alone(),
        args=_arguments(given, agent),
        env=daemonset.fips_env(given.options),
        ports=[{"name": "readiness", "containerPort": port, "protocol": "TCP"}],
        readinessProbe=podparts.http_probe("/readyz", port, delay=5, period=10),
        # Not /readyz: a pod that waits for the runtime is not ready, and must not be restarted for it.
        livenessProbe=podparts.tcp_probe(port, delay=10, period=20, failures=3),
        resources=podparts.resources("64Mi", "256Mi"),
        volumeMounts=[
            # A socket can be connected to through a mount that nothing can be written on.
            podparts.mount(volume["name"], volume["hostPath"]["path"], read_only=volume["name"] != metricsd.MAP_VOLUME)
            for volume in _volumes(given, agent, metrics)
        ],
    )


def _arguments(given: Input, agent: FractioningAgent | None) -> list[str]:
    # Both say false as well, so that leaving a mode is a change of the pod.
    always = [
        f"--support-sm-sharing={flags.boolean(given.options.support_sm_sharing)}",
        f"--inject-cdi-device={flags.boolean(given.is_nri)}",
    ]
    return always if agent is None else [*always, *_agent_arguments(agent)]


def _agent_arguments(agent: FractioningAgent) -> list[str]:
    return [
        *flags.flag("annotation-prefix", agent.annotation_prefix),
        *(["--fail-open"] if agent.fail_open else []),
        *flags.flag("socket-path", agent.nri_socket_path),
        *flags.flag("log-level", agent.log_level),
        *flags.duration_flag("retry-interval", agent.retry_interval_seconds),
        *flags.duration_flag("stable-threshold", agent.stable_threshold_seconds),
        *flags.flag("max-retries", agent.max_retries),
        *flags.flag("readiness-port", agent.readiness_port),
        f"--retroactive-enforcement={flags.boolean(agent.retroactive_enforcement)}",
        *flags.flag("cri-socket", agent.cri_socket_path),
    ]


def _volumes(given: Input, agent: FractioningAgent | None, metrics: MetricsAgent | None) -> list[Manifest]:
    """
    List the directories of the node that fractiond's container has, each at its own path.
    """
    nri = posixpath.dirname((agent and agent.nri_socket_path) or names.NRI_SOCKET)
    volumes = [podparts.host_volume("nri-socket", nri), podparts.host_volume("mps-pipe", names.MPS_PIPE_DIR)]
    if agent and agent.retroactive_enforcement:
        cri = posixpath.dirname(agent.cri_socket_path or names.CRI_SOCKET)
        # Two mounts at one path would be refused; both sockets may lie side by side.
        volumes += [podparts.host_volume("cri-socket", cri, _CREATE)] if cri != nri else []
    if metrics:
        # On the host, so that it outlives the pod: some runtimes do not tell a new plugin of running containers.
        volumes.append(podparts.host_volume(metricsd.MAP_VOLUME, names.MAP_DIR, _CREATE))
    if given.is_nri:
        volumes += [podparts.host_volume(name, path, _CREATE) for name, path in _CDI_DIRECTORIES]
    return volumes
