"""
Flags of the daemons' command lines: an absent value gives no flag, so that the daemon's own default holds.
"""

from __future__ import annotations

from fractioning_core import durations


def flag(name: str, value: object) -> list[str]:
    """
    Give a flag with its value, or nothing where the value is absent.
    """
    return [] if value in (None, "") else [f"--{name}", str(value)]


def duration_flag(name: str, seconds: float | None) -> list[str]:
    """
    Give a flag with a length of time, or nothing where it is absent.
    """
    return flag(name, None if seconds is None else duration(seconds))


def boolean(value: bool) -> str:  # noqa: FBT001 - the value that is written
    """
    Write a truth value as flags and variables have it.
    """
    return "true" if value else "false"


def duration(seconds: float) -> str:
    """
    Write a length of time with all units below its largest, as Kubernetes' own programs print it: `10m0s`.
    """
    nanoseconds = round(seconds * durations.NANOSECONDS_PER_SECOND)
    minute = 60 * durations.NANOSECONDS_PER_SECOND
    if nanoseconds < minute:
        return durations.to_text(nanoseconds)
    minutes, rest = divmod(nanoseconds, minute)
    hours, minutes = divmod(minutes, 60)
    # Below a second `to_text` would change the unit, and the parts go from large to small in seconds.
    fraction = f"{rest / durations.NANOSECONDS_PER_SECOND:.9f}".rstrip("0").rstrip(".")
    return f"{f'{hours}h' if hours else ''}{minutes}m{fraction}s"
