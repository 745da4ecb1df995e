"""
The status of mpsd as a page for a person.
"""

from __future__ import annotations

from collections.abc import Iterator

from fractioning_core.rpc.mpsvalues import DaemonStatus, DriverStatus, LabelStatus, MpsStatus, ProbeStatus

_COLUMN = 15
# More would scroll the rest away; --json has them all.
_SHOWN_CLIENTS = 20
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))


def render(status: MpsStatus) -> str:
    """
    Give the page: a headline with the reason, then one line for each subject.
    """
    head = "ready" if status.ready else f"NOT READY: {status.reason}"
    lines = [f"mpsd {status.version}: {head}", *(f"{name:<{_COLUMN}}{text}" for name, text in _iter_rows(status))]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _iter_rows(status: MpsStatus) -> Iterator[tuple[str, str]]:
    yield "daemon", _daemon(status.daemon)
    yield "restarts", ", ".join(f"{cause} {n}" for cause, n in status.daemon.restarts.items() if n) or "none"
    yield "configuration", status.configuration.path or "none"
    for line in status.configuration.text.splitlines():
        yield "", f"  {line}"
    yield "last check", "none yet" if status.probe is None else _probe(status.probe)
    yield "clients", _clients(status.probe)
    yield "driver", _driver(status.driver)
    yield "label", _label(status.label)


def _daemon(daemon: DaemonStatus) -> str:
    text = daemon.state
    if daemon.pid is not None:
        text += f", pid {daemon.pid}, up {duration(daemon.uptime_seconds)}"
    return f"{text} ({daemon.reason})" if daemon.reason else text


def _probe(probe: ProbeStatus) -> str:
    ago = f"{duration(probe.age_seconds)} ago"
    if probe.problem:
        return f"{ago}: {probe.problem}: {probe.reason}"
    if probe.latency_seconds is None:
        return f"{ago}: all is well"
    return f"{ago}: answered in {probe.latency_seconds * 1000:.1f} ms"


def _clients(probe: ProbeStatus | None) -> str:
    if probe is None or probe.clients is None:
        return "unknown"
    if not probe.clients:
        return "none"
    shown = ", ".join(str(pid) for pid in probe.clients[:_SHOWN_CLIENTS])
    untold = len(probe.clients) - _SHOWN_CLIENTS
    return f"{len(probe.clients)}: {shown}" + (f" and {untold} more" if untold > 0 else "")


def _driver(driver: DriverStatus) -> str:
    text = driver.version or "unknown"
    return f"{text} ({driver.problem}: {driver.reason})" if driver.problem else text


def _label(label: LabelStatus) -> str:
    if label.reason and not label.problem:
        return label.reason
    text = label.value or "not written"
    if label.age_seconds is not None:
        text += f", written {duration(label.age_seconds)} ago"
    return f"{text} ({label.problem}: {label.reason})" if label.problem else text


def duration(seconds: float) -> str:
    """
    Give a duration by its two largest units, such as `3h 12m`; below a minute in seconds.
    """
    if seconds < 60:
        return f"{seconds:.1f}s"
    rest = int(seconds)
    parts: list[str] = []
    for size, unit in _UNITS:
        count, rest = divmod(rest, size)
        if count or parts:
            parts.append(f"{count}{unit}")
    return " ".join([*parts, f"{rest}s"][:2])
