"""
The values of `mpsvalues` as messages of fractioning.mps.v1, both ways.
"""

from __future__ import annotations

from fractioning_core.rpc.mpsvalues import (
    ConfigurationStatus,
    DaemonStatus,
    DriverStatus,
    LabelStatus,
    MpsStatus,
    ProbeStatus,
    RestartKind,
)
from fractioning_core.rpc.pb.fractioning.mps import v1

_KINDS = {
    RestartKind.GRACEFUL: v1.RestartRequestKind.KIND_GRACEFUL,
    RestartKind.HARD: v1.RestartRequestKind.KIND_HARD,
}


def encode_kind(kind: RestartKind) -> v1.RestartRequestKind:
    """
    Give the wire's word for a kind.
    """
    return v1.RestartRequestKind(_KINDS[kind])


def decode_kind(kind: v1.RestartRequestKind) -> RestartKind | None:
    """
    Give the kind that the wire names; None where it names none that we know.
    """
    return next((known for known, word in _KINDS.items() if word == kind), None)


def encode_status(status: MpsStatus) -> v1.StatusResponse:
    """
    Write a status as a message.
    """
    return v1.StatusResponse(
        version=status.version,
        ready=status.ready,
        reason=status.reason,
        daemon=v1.Daemon(
            state=status.daemon.state,
            reason=status.daemon.reason,
            pid=status.daemon.pid or 0,
            uptime_seconds=status.daemon.uptime_seconds,
            restarts=dict(status.daemon.restarts),
        ),
        configuration=v1.Configuration(path=status.configuration.path, text=status.configuration.text),
        probe=None if status.probe is None else _encode_probe(status.probe),
        driver=v1.Driver(
            version=status.driver.version,
            major=status.driver.major or 0,
            problem=status.driver.problem,
            reason=status.driver.reason,
        ),
        label=v1.Label(
            value=status.label.value,
            age_seconds=status.label.age_seconds,
            problem=status.label.problem,
            reason=status.label.reason,
        ),
    )


def decode_status(message: v1.StatusResponse) -> MpsStatus:
    """
    Read a status from a message; what a newer mpsd adds is passed over.
    """
    daemon, driver, label = message.daemon, message.driver, message.label
    return MpsStatus(
        version=message.version,
        ready=message.ready,
        reason=message.reason,
        daemon=DaemonStatus(
            state=daemon.state,
            reason=daemon.reason,
            pid=daemon.pid or None,
            uptime_seconds=daemon.uptime_seconds,
            restarts=dict(daemon.restarts),
        ),
        configuration=ConfigurationStatus(path=message.configuration.path, text=message.configuration.text),
        probe=None if message.probe is None else _decode_probe(message.probe),
        driver=DriverStatus(
            version=driver.version, major=driver.major or None, problem=driver.problem, reason=driver.reason
        ),
        label=LabelStatus(value=label.value, age_seconds=label.age_seconds, problem=label.problem, reason=label.reason),
    )


def _encode_probe(probe: ProbeStatus) -> v1.Probe:
    return v1.Probe(
        age_seconds=probe.age_seconds,
        problem=probe.problem,
        reason=probe.reason,
        latency_seconds=probe.latency_seconds,
        clients=None if probe.clients is None else v1.Clients(pids=list(probe.clients)),
    )


def _decode_probe(message: v1.Probe) -> ProbeStatus:
    return ProbeStatus(
        age_seconds=message.age_seconds,
        problem=message.problem,
        reason=message.reason,
        latency_seconds=message.latency_seconds,
        clients=None if message.clients is None else tuple(message.clients.pids),
    )
