"""
What mpsd can be told, by flag or environment.
"""

from __future__ import annotations

import posixpath

import attrs
from fractioning_core import names
from fractioning_core.service import settings

DAEMON = "MPS control daemon"
CONFIGURATION = "Its configuration"
SUPERVISION = "Supervision"
OPERATION = "Operation"


def validate_directory(path: str) -> None:
    """
    Refuse the root and other spellings of a directory: paths are compared as text with those of other programs.

    Raises:
        ValueError: with the accepted form.
    """
    if path != posixpath.normpath(path) or path.startswith("//") or path == "/":
        raise ValueError("accepted: an absolute path other than / and without //, . or .. or a slash at the end")


def validate_optional_path(path: str) -> None:
    """
    Refuse a path that is neither absolute nor empty.

    Raises:
        ValueError: with the accepted form.
    """
    if path and not path.startswith("/"):
        raise ValueError("accepted: an absolute path, or nothing at all")


@attrs.frozen
class Settings:
    """
    The settings of one mpsd, valid as they stand.
    """

    mps_binary: str = settings.path(
        "mps-binary",
        env="MPS_CONTROL_BINARY",
        default="/usr/bin/nvidia-cuda-mps-control",
        group=DAEMON,
        help="the control daemon's program, which also is its command line client",
    )
    """Put into the container by the NVIDIA runtime from the host's driver; it may come later than we."""

    mps_control_port: str = settings.string(
        "mps-control-port",
        env="MPS_CONTROL_PORT",
        default="3",
        pattern=r"[0-9]{0,5}",
        accepted="a number, or nothing to pass no -p",
        group=DAEMON,
        help="value of -p, which is the control protocol's version; empty passes no -p",
    )
    """Protocol 3 is the one that knows memory accounting."""

    pipe_dir: str = settings.path(
        "pipe-dir",
        env="CUDA_MPS_PIPE_DIRECTORY",
        default=names.MPS_PIPE_DIR,
        check=validate_directory,
        group=DAEMON,
        help="directory of the control socket, at most 83 characters",
    )
    """fractiond mounts the same path into containers."""

    log_dir: str = settings.path(
        "log-dir",
        env="CUDA_MPS_LOG_DIRECTORY",
        default="/var/log/nvidia-mps",
        check=validate_directory,
        group=DAEMON,
        help="directory of the control daemon's and the servers' logs",
    )
    """On the host, so that logs outlive our pod."""

    mps_config_path: str = settings.string(
        "mps-config-path",
        env="MPS_CONFIG_PATH",
        default="/etc/nvidia-mps/mps-control.toml",
        check=validate_optional_path,
        group=CONFIGURATION,
        help="where the generated configuration is written; empty writes none and passes no -a",
    )
    """Without it nothing switches memory accounting on."""

    memacct_audit_log: bool = settings.boolean(
        "memacct-audit-log",
        env="MPS_MEMACCT_AUDIT_LOG",
        default=True,
        group=CONFIGURATION,
        help="let memory accounting log what it refuses",
    )
    """Accounting itself is always on; only its log is a choice."""

    support_sm_sharing: bool = settings.boolean(
        "support-sm-sharing",
        env="MPS_SUPPORT_SM_SHARING",
        default=True,
        group=CONFIGURATION,
        help="run the server for containers that share SMs, and serve clients of every user (-m)",
    )
    """Off must match a fractiond that refuses sm-sharing."""

    backoff_seconds: float = settings.duration(
        "backoff",
        env="MPS_RESTART_BACKOFF",
        default=5.0,
        minimum=0.001,
        group=SUPERVISION,
        help="first wait before starting a daemon again that crashed or failed its checks; doubles up to a minute",
    )
    """Also how often a program that is not there yet is looked for."""

    max_retries: int = settings.integer(
        "max-retries",
        env="MPS_MAX_RETRIES",
        default=5,
        minimum=0,
        group=SUPERVISION,
        help="give up (exit 1) at so many crashes in a row; 0 = never",
    )
    """A pod that restarts is seen where a log line is not."""

    stable_threshold_seconds: float = settings.duration(
        "stable-threshold",
        env="MPS_STABLE_THRESHOLD",
        default=300.0,
        minimum=0.0,
        group=SUPERVISION,
        help="a run that lasted this long resets the retry budget",
    )
    """Zero resets it every time."""

    graceful_stop_delay_seconds: float = settings.duration(
        "graceful-stop-delay",
        env="MPS_GRACEFUL_STOP_DELAY",
        default=60.0,
        minimum=0.0,
        group=SUPERVISION,
        help="how long a daemon told to quit may wait for its clients before it is killed",
    )
    """The pod's termination grace has to be longer."""

    probe_interval_seconds: float = settings.duration(
        "probe-interval",
        env="MPS_PROBE_INTERVAL",
        default=5.0,
        minimum=0.1,
        maximum=60.0,
        group=SUPERVISION,
        help="how often the control daemon is asked a command",
    )
    """Interval and timeout together bound how old a wrong `ready` can be."""

    probe_timeout_seconds: float = settings.duration(
        "probe-timeout",
        env="MPS_PROBE_TIMEOUT",
        default=3.0,
        minimum=0.1,
        maximum=60.0,
        group=SUPERVISION,
        help="an answer that takes longer counts as none",
    )
    """A healthy daemon answers in milliseconds."""

    probe_failures: int = settings.integer(
        "probe-failures",
        env="MPS_PROBE_FAILURES",
        default=3,
        minimum=1,
        group=SUPERVISION,
        help="restart a daemon that failed so many checks in a row; not ready from the first",
    )
    """A restart costs every client of the node its context, so one slow answer must not cause it."""

    node_name: str = settings.string(
        "node-name",
        env="NODE_NAME",
        default="",
        group=OPERATION,
        help="name of the node to label with the driver's major version",
    )
    """From the downward API; without it MPS runs and the label's state says what is missing."""

    rpc_socket: str = settings.string(
        "rpc-socket",
        env="MPS_RPC_SOCKET",
        default="/var/run/gpu-fractioning/mps/mpsd.sock",
        check=validate_optional_path,
        group=OPERATION,
        help="unix socket of the mps.v1 service, for root only; empty = off",
    )
    """Alone in its directory, so that mounting the directory exposes nothing else."""

    health_port: int = settings.integer(
        "health-port",
        env="MPS_HEALTH_PORT",
        default=0,
        minimum=0,
        maximum=65535,
        group=OPERATION,
        help="port of /readyz, /healthz and /metrics; 0 = off",
    )
    """Off unless the chart sets it, together with the probes that ask it."""

    proc_root: str = settings.path(
        "proc-root",
        default="/proc",
        group=OPERATION,
        help="where the host's /proc is: stray daemons, servers, the loaded driver",
    )
    """The pod shares the host's PIDs; without that the daemon could not account for memory either."""

    dev_root: str = settings.path(
        "dev-root",
        default="/dev",
        group=OPERATION,
        help="where the NVIDIA device nodes are",
    )
    """Looked at only while NVML fails, to tell a lost device permission from a broken driver."""

    log_level: str = settings.choice(
        "log-level",
        env="LOG_LEVEL",
        choices=("debug", "info", "warn", "error"),
        default="info",
        group=OPERATION,
        help="least level to log",
    )
    """The control daemon's own output passes through unfiltered."""
