"""
The control daemon's configuration: which sections a driver branch has, and their text.

Memory accounting is on whatever else is chosen. `default_socket = "off"` keeps the node's own socket free of shared
contexts: only containers that are routed to the server `shared` share them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import attrs
from fractioning_core.driver import MIN_DRIVER_MAJOR

Value: TypeAlias = bool | int | str


@attrs.frozen
class Choices:
    """
    What an operator may choose.
    """

    audit_log: bool
    sm_sharing: bool


@attrs.frozen
class Section:
    """
    One table of the file: its dotted name, and its keys in the order written.
    """

    name: str
    values: tuple[tuple[str, Value], ...] = ()


Schema: TypeAlias = Callable[[Choices], tuple[Section, ...]]


def _r615(choices: Choices) -> tuple[Section, ...]:
    sharing: tuple[tuple[str, Value], ...] = (("enabled", choices.sm_sharing),)
    if choices.sm_sharing:
        sharing += (("default_socket", "off"),)
    sections = (
        Section("features.memacct", (("enabled", True), ("audit_log", choices.audit_log))),
        Section("features.context-share", sharing),
    )
    return (*sections, Section("servers.shared")) if choices.sm_sharing else sections


SCHEMAS: Mapping[int, Schema] = {MIN_DRIVER_MAJOR: _r615}
"""
By the first driver major that reads them. A branch with further sections is one entry more.
"""


MIN_PROTOCOL = 3
"""
Of the control protocol: the first that knows memory accounting.
"""


def accounting_gap(*, config_path: str, protocol: str) -> str:
    """
    Say why memory accounting cannot be on, by settings that leave out what it needs; empty when none does.
    """
    if not config_path:
        return "memory accounting is off: --mps-config-path (MPS_CONFIG_PATH) is empty"
    if not protocol or int(protocol) < MIN_PROTOCOL:
        value = protocol or "empty"
        return f"memory accounting is off: --mps-control-port (MPS_CONTROL_PORT) is {value}, {MIN_PROTOCOL} is needed"
    return ""


def sections(major: int | None, choices: Choices) -> tuple[Section, ...]:
    """
    Choose the sections for a driver.

    Args:
        major: The driver's major; None where it is not known, which gets the oldest schema, as every branch reads it.
        choices: What the operator chose.
    """
    fitting = [first for first in SCHEMAS if major is not None and first <= major]
    return SCHEMAS[max(fitting, default=min(SCHEMAS))](choices)


def render(tables: tuple[Section, ...]) -> str:
    """
    Write sections as TOML.
    """
    return "\n".join(map(_table, tables))


def _table(section: Section) -> str:
    lines = [f"[{section.name}]", *(f"{key}={_literal(value)}" for key, value in section.values)]
    return "".join(f"{line}\n" for line in lines)


def _literal(value: Value) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case str():
            return f'"{"".join(map(_character, value))}"'


def _character(character: str) -> str:
    # TOML's basic strings take anything but quotes, backslashes and control characters as it stands.
    if character in '"\\' or ord(character) < 0x20 or ord(character) == 0x7F:
        return f"\\u{ord(character):04x}"
    return character
