"""
The two ways in which Kubernetes writes a moment.
"""

from __future__ import annotations

from datetime import UTC, datetime


def utcnow() -> datetime:
    """
    Read the wall clock.
    """
    return datetime.now(UTC)


def seconds(moment: datetime) -> str:
    """
    Write a moment as a `Time`.
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def microseconds(moment: datetime) -> str:
    """
    Write a moment as a `MicroTime`, of which the server insists on six digits.
    """
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
