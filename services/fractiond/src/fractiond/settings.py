"""What fractiond can be told, by flag or environment."""

from __future__ import annotations

import posixpath

import attrs
from fractioning_core import names, podannotations
from fractioning_core.service import settings

MATCHING = "Which containers, and what they get"
RUNTIME = "Container runtime"
ENFORCEMENT = "Retroactive enforcement"
OPERATION = "Operation"


def validate_pipe_dir(path: str) -> None:
    """
    Refuse a directory that containers must not get, or another spelling of one, by which mounts could not be compared.

    Raises:
        ValueError: with the accepted form.
    """
    if path != posixpath.normpath(path) or path.startswith("//") or path == "/":
        raise ValueError("accepted: an absolute path other than / and without //, . or .. or a slash at the end")


@attrs.frozen
class Settings:
    """The settings of one fractiond, valid as they stand."""

    annotation_prefix: str = settings.string(
        "annotation-prefix",
        default=names.ANNOTATION_PREFIX,
        check=podannotations.validate_prefix,
        group=MATCHING,
        help="what a pod annotation starts with, before the container's name",
    )
    """Empty is legal: the key is then the container's name and the suffix."""

    pipe_dir: str = settings.path(
        "pipe-dir",
        default=names.MPS_PIPE_DIR,
        check=validate_pipe_dir,
        group=MATCHING,
        help="MPS pipe directory on the host, mounted into every fractional container",
    )
    """The chart mounts the same path into mpsd, which owns what is inside."""

    support_sm_sharing: bool = settings.boolean(
        "support-sm-sharing",
        env="SUPPORT_SM_SHARING",
        default=True,
        group=MATCHING,
        help="accept gpu-compute.mode: sm-sharing; off makes that value invalid",
    )
    """Off must match an mpsd that runs no shared server, or containers would find no socket."""

    inject_cdi_device: bool = settings.boolean(
        "inject-cdi-device",
        default=False,
        group=MATCHING,
        help=f"also request {names.CDI_GPU_KIND}=<uuid> for each assigned GPU",
    )
    """Needed where the GPU Operator runs its NRI plugin: nothing reads NVIDIA_VISIBLE_DEVICES there."""

    fail_open: bool = settings.boolean(
        "fail-open",
        default=False,
        group=MATCHING,
        help="let a container with unusable annotations run without a limit instead of refusing it",
    )
    """Off, because a typo must not unfence the neighbours' GPU."""

    socket_path: str = settings.path(
        "socket-path",
        env="NRI_SOCKET_PATH",
        default=names.NRI_SOCKET,
        group=RUNTIME,
        help="NRI socket of the container runtime",
    )
    """Mount its directory, never the file: the runtime makes the file anew at every start."""

    plugin_name: str = settings.string(
        "plugin-name",
        default="gpu-fractioning",
        pattern=r"[A-Za-z0-9_.+-]+",
        accepted="letters, digits and _ . + -",
        group=RUNTIME,
        help="name to register with the runtime",
    )
    """Together with the index it is what the runtime's log and conflicts call us."""

    plugin_idx: str = settings.string(
        "plugin-idx",
        default="10",
        pattern=r"[0-9]{2}",
        accepted="two digits, 00 to 99",
        group=RUNTIME,
        help="place among the runtime's plugins; lower indices go first",
    )
    """Text, since the runtime compares it as text."""

    cri_socket: str = settings.path(
        "cri-socket",
        env="CRI_SOCKET",
        default=names.CRI_SOCKET,
        group=RUNTIME,
        help="CRI socket of the runtime, to stop containers that slipped through",
    )
    """Only dialled for the audit; injection works without it."""

    retry_interval_seconds: float = settings.duration(
        "retry-interval",
        default=5.0,
        minimum=0.001,
        group=RUNTIME,
        help="first wait after the runtime dropped a connection; doubles up to a minute",
    )
    """A runtime that is not there, or was and restarts, is dialled every second whatever this says."""

    stable_threshold_seconds: float = settings.duration(
        "stable-threshold",
        default=300.0,
        minimum=0.0,
        group=RUNTIME,
        help="a connection that lasted this long resets the retry budget",
    )
    """Zero resets it every time."""

    max_retries: int = settings.integer(
        "max-retries",
        default=0,
        minimum=0,
        group=RUNTIME,
        help="give up (exit 1) after so many failed connections in a row; 0 = never",
    )
    """Zero, because giving up gains nothing where the kubelet restarts us anyway."""

    retroactive_enforcement: bool = settings.boolean(
        "retroactive-enforcement",
        env="RETROACTIVE_ENFORCEMENT",
        default=True,
        group=ENFORCEMENT,
        help="compare running containers with what creation would inject, and stop those that differ",
    )
    """Off leaves a container that slipped through running without a limit."""

    retroactive_dry_run: bool = settings.boolean(
        "retroactive-dry-run",
        default=False,
        group=ENFORCEMENT,
        help="log and count what would be stopped, stop nothing",
    )
    """For the first rollout onto a node with running workloads."""

    stop_timeout_seconds: float = settings.duration(
        "stop-timeout",
        default=30.0,
        minimum=0.0,
        maximum=3600.0,
        group=ENFORCEMENT,
        help="grace between TERM and KILL for a container that is stopped",
    )
    """Rounded up to whole seconds, as CRI counts them."""

    stop_interval_seconds: float = settings.duration(
        "stop-interval",
        default=1.0,
        minimum=0.0,
        group=ENFORCEMENT,
        help="least time between two stops",
    )
    """A rollout that changes what is injected must not restart a whole node at once."""

    map_dir: str = settings.path(
        "map-dir",
        env="MAP_DIR",
        default=names.MAP_DIR,
        group=OPERATION,
        help="directory of the container records that metricsd reads",
    )
    """On the host, so that records outlive our pod."""

    cdi_spec_dirs: tuple[str, ...] = settings.strings(
        "cdi-spec-dirs",
        default=("/etc/cdi", "/var/run/cdi"),
        group=OPERATION,
        help="where CDI specs lie; read only with --inject-cdi-device",
    )
    """A directory that does not exist holds no specs."""

    proc_root: str = settings.path(
        "proc-root",
        default="/proc",
        group=OPERATION,
        help="where the host's /proc is, to know the node's GPUs (driver/nvidia/gpus)",
    )
    """Unreadable means unknown, and unknown refuses nothing."""

    readiness_port: int = settings.integer(
        "readiness-port",
        env="READINESS_PORT",
        default=names.READINESS_PORT,
        minimum=0,
        maximum=65535,
        group=OPERATION,
        help="port of /readyz, /healthz and /metrics; 0 = off",
    )
    """The controller's probes name the same number."""

    log_level: str = settings.choice(
        "log-level",
        choices=("debug", "info", "warn", "error"),
        default="info",
        group=OPERATION,
        help="least level to log",
    )
    """Environment and annotations of tenants are never logged whole, at any level."""

    log_pod_events: bool = settings.boolean(
        "log-pod-events",
        env="LOG_POD_EVENTS",
        default=False,
        group=OPERATION,
        help="one log line for each record written or removed",
    )
    """Off: on a busy node it doubles the log."""
