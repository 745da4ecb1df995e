"""The daemons understand the command lines and environments that the controller gives them."""

from __future__ import annotations

from typing import Any

import attrs
import fractiond.settings
import mpsd.settings
import pytest
from controller import fractiond as fractiond_manifest
from controller import mpsd as mpsd_manifest
from controller.daemonset import Input, Manifest
from controller.testing.builders import OPTIONS, a_config
from fractioning_core import names
from fractioning_core.resource import FractioningAgent, MpsDaemon
from fractioning_core.service import settings


def container(manifest: Manifest) -> tuple[list[str], dict[str, str]]:
    found: dict[str, Any] = manifest["spec"]["template"]["spec"]["containers"][0]
    environ = {one["name"]: one.get("value", "node-a") for one in found.get("env", [])}
    return found.get("args", []), environ


def fractiond_settings(agent: FractioningAgent | None, *, is_nri: bool = False) -> fractiond.settings.Settings:
    argv, environ = container(fractiond_manifest.build(Input(a_config(fractioning_agent=agent), OPTIONS, is_nri)))
    return settings.load(fractiond.settings.Settings, program="fractiond", version="0", argv=argv, environ=environ)


def mpsd_settings(agent: MpsDaemon | None) -> mpsd.settings.Settings:
    options = attrs.evolve(OPTIONS, audit_log=False)
    argv, environ = container(mpsd_manifest.build(Input(a_config(mps_daemon=agent), options, is_nri=False)))
    return settings.load(mpsd.settings.Settings, program="mpsd", version="0", argv=argv, environ=environ)


class TestFractiond:
    def test_default(self) -> None:
        """Without options fractiond runs with its own, on the port that is probed."""
        found = fractiond_settings(None)

        assert (False, names.READINESS_PORT) == (found.inject_cdi_device, found.readiness_port)

    def test_all(self) -> None:
        """Every option of the config arrives as it was meant."""
        agent = FractioningAgent(
            annotation_prefix="example.com/c.",
            fail_open=True,
            nri_socket_path="/custom/nri.sock",
            retroactive_enforcement=False,
            cri_socket_path="/custom/cri.sock",
            log_level="debug",
            retry_interval_seconds=0.25,
            stable_threshold_seconds=5025.0,
            max_retries=5,
            readiness_port=9999,
        )
        found = fractiond_settings(agent, is_nri=True)

        assert attrs.evolve(fractiond_settings(None), inject_cdi_device=True, **attrs.asdict(renamed(agent))) == found


class TestMpsd:
    def test_default(self) -> None:
        """Without options mpsd serves the pages that are probed, and knows its node."""
        found = mpsd_settings(None)

        assert (8094, "node-a", False) == (found.health_port, found.node_name, found.memacct_audit_log)

    @pytest.mark.parametrize("seconds", [0.5, 90.0, 3600.0])
    def test_all(self, seconds: float) -> None:
        """Every option of the config arrives as it was meant."""
        agent = MpsDaemon(
            log_level="warn",
            backoff_seconds=seconds,
            max_retries=0,
            stable_threshold_seconds=seconds,
            graceful_stop_delay_seconds=seconds,
        )

        assert attrs.evolve(mpsd_settings(None), **attrs.asdict(agent)) == mpsd_settings(agent)


@attrs.frozen
class Renamed:
    annotation_prefix: str
    fail_open: bool | None
    socket_path: str
    retroactive_enforcement: bool
    cri_socket: str
    log_level: str
    retry_interval_seconds: float | None
    stable_threshold_seconds: float | None
    max_retries: int | None
    readiness_port: int | None


def renamed(agent: FractioningAgent) -> Renamed:
    """Give the options under fractiond's names for them."""
    return Renamed(*attrs.astuple(agent))
