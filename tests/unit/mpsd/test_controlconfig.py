"""The text of the configuration: as the reference has it, valid TOML, and what was meant."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpsd import controlconfig
from mpsd.controlconfig import Choices, Section

FULL = """\
[features.memacct]
enabled=true
audit_log=true

[features.context-share]
enabled=true
default_socket="off"

[servers.shared]
"""
PLAIN = """\
[features.memacct]
enabled=true
audit_log=false

[features.context-share]
enabled=false
"""

VALUES = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(st.characters(exclude_categories=["Cs"]))
NAMES = st.from_regex(r"[a-z][a-z0-9_-]{0,8}", fullmatch=True)


def text(major: int | None, *, audit_log: bool = True, sm_sharing: bool = True) -> str:
    return controlconfig.render(controlconfig.sections(major, Choices(audit_log=audit_log, sm_sharing=sm_sharing)))


class TestAccountingGap:
    @pytest.mark.parametrize(
        ("path", "protocol", "gap"),
        [
            pytest.param("/c.toml", "3", "", id="none"),
            pytest.param("/c.toml", "4", "", id="a newer protocol"),
            pytest.param("", "3", "--mps-config-path (MPS_CONFIG_PATH) is empty", id="no configuration"),
            pytest.param(
                "/c.toml", "", "--mps-control-port (MPS_CONTROL_PORT) is empty, 3 is needed", id="no protocol"
            ),
            pytest.param("/c.toml", "2", "--mps-control-port (MPS_CONTROL_PORT) is 2, 3 is needed", id="an older one"),
        ],
    )
    def test_a_setting_that_leaves_it_off(self, path: str, protocol: str, gap: str) -> None:
        """What memory accounting cannot do without is named, by flag and variable."""
        told = controlconfig.accounting_gap(config_path=path, protocol=protocol)

        assert (f"memory accounting is off: {gap}" if gap else "") == told


class TestR615:
    def test_everything_on(self) -> None:
        """The text is exactly what r615 is known to take."""
        assert FULL == text(615)

    def test_everything_off(self) -> None:
        """Without sm-sharing there is no shared server, and accounting stays on without its log."""
        assert PLAIN == text(615, audit_log=False, sm_sharing=False)

    @pytest.mark.parametrize("audit_log", [True, False])
    @pytest.mark.parametrize("sm_sharing", [True, False])
    def test_accounting_is_on_whatever_is_chosen(self, audit_log: bool, sm_sharing: bool) -> None:  # noqa: FBT001
        """No combination of choices switches memory accounting off."""
        read = tomllib.loads(text(615, audit_log=audit_log, sm_sharing=sm_sharing))

        assert {"enabled": True, "audit_log": audit_log} == read["features"]["memacct"]
        assert sm_sharing is ("shared" in read.get("servers", {}))


class TestBranches:
    @pytest.mark.parametrize(
        "major",
        [
            pytest.param(None, id="unknown"),
            pytest.param(580, id="older than any schema"),
            pytest.param(619, id="between two branches"),
            pytest.param(999, id="newer than any schema"),
        ],
    )
    def test_the_newest_schema_not_newer_than_the_driver_counts(self, major: int | None) -> None:
        """A driver without a schema of its own gets the one before it, an unknown one the oldest."""
        assert FULL == text(major)

    def test_a_further_branch_is_an_entry_more(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """With an entry for r620 its sections are written from r620 on, and not before."""
        more = {**controlconfig.SCHEMAS, 620: lambda _: (Section("features.new", (("enabled", True),)),)}
        monkeypatch.setattr(controlconfig, "SCHEMAS", more)

        assert (FULL, "[features.new]\nenabled=true\n") == (text(619), text(620))


class TestRender:
    @given(st.dictionaries(NAMES, st.dictionaries(NAMES, VALUES)))
    def test_what_was_written_is_what_is_read(self, tables: dict[str, dict[str, Any]]) -> None:
        """Any sections, keys and values survive the way through a TOML parser."""
        sections = tuple(Section(name, tuple(values.items())) for name, values in tables.items())

        assert tables == tomllib.loads(controlconfig.render(sections))
