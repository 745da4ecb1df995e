"""Every setting of mpsd: its default, its flag, its variable, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from fractioning_core.service import settings
from fractioning_core.service.problems import BadSettings
from mpsd.settings import Settings


def load(*argv: str, **environ: str) -> Settings:
    return settings.load(Settings, program="mpsd", version="0", argv=argv, environ=environ)


DEFAULTS = {
    "mps_binary": "/usr/bin/nvidia-cuda-mps-control",
    "mps_control_port": "3",
    "pipe_dir": "/run/nvidia-mps",
    "log_dir": "/var/log/nvidia-mps",
    "mps_config_path": "/etc/nvidia-mps/mps-control.toml",
    "memacct_audit_log": True,
    "support_sm_sharing": True,
    "backoff_seconds": 5.0,
    "max_retries": 5,
    "stable_threshold_seconds": 300.0,
    "graceful_stop_delay_seconds": 60.0,
    "probe_interval_seconds": 5.0,
    "probe_timeout_seconds": 3.0,
    "probe_failures": 3,
    "node_name": "",
    "rpc_socket": "/var/run/gpu-fractioning/mps/mpsd.sock",
    "health_port": 0,
    "proc_root": "/proc",
    "dev_root": "/dev",
    "log_level": "info",
}

# Flag, variable, text, the attribute and the value that comes of it.
ROWS = [
    ("mps-binary", "MPS_CONTROL_BINARY", "/x", "mps_binary", "/x"),
    ("mps-control-port", "MPS_CONTROL_PORT", "2", "mps_control_port", "2"),
    ("pipe-dir", "CUDA_MPS_PIPE_DIRECTORY", "/x", "pipe_dir", "/x"),
    ("log-dir", "CUDA_MPS_LOG_DIRECTORY", "/x", "log_dir", "/x"),
    ("mps-config-path", "MPS_CONFIG_PATH", "/x", "mps_config_path", "/x"),
    ("memacct-audit-log", "MPS_MEMACCT_AUDIT_LOG", "false", "memacct_audit_log", False),
    ("support-sm-sharing", "MPS_SUPPORT_SM_SHARING", "0", "support_sm_sharing", False),
    ("backoff", "MPS_RESTART_BACKOFF", "250ms", "backoff_seconds", 0.25),
    ("max-retries", "MPS_MAX_RETRIES", "0", "max_retries", 0),
    ("stable-threshold", "MPS_STABLE_THRESHOLD", "0", "stable_threshold_seconds", 0.0),
    ("graceful-stop-delay", "MPS_GRACEFUL_STOP_DELAY", "1m30s", "graceful_stop_delay_seconds", 90.0),
    ("probe-interval", "MPS_PROBE_INTERVAL", "1s", "probe_interval_seconds", 1.0),
    ("probe-timeout", "MPS_PROBE_TIMEOUT", "500ms", "probe_timeout_seconds", 0.5),
    ("probe-failures", "MPS_PROBE_FAILURES", "1", "probe_failures", 1),
    ("node-name", "NODE_NAME", "node-a", "node_name", "node-a"),
    ("rpc-socket", "MPS_RPC_SOCKET", "/x", "rpc_socket", "/x"),
    ("health-port", "MPS_HEALTH_PORT", "8095", "health_port", 8095),
    ("proc-root", None, "/host/proc", "proc_root", "/host/proc"),
    ("dev-root", None, "/host/dev", "dev_root", "/host/dev"),
    ("log-level", "LOG_LEVEL", "debug", "log_level", "debug"),
]


def named(rows: Sequence[tuple[str, str | None, str, str, object]], column: int) -> list[object]:
    return [pytest.param(row[column], *row[2:], id=f"{row[column]}={row[2]}") for row in rows if row[column]]


class TestDefaults:
    def test_every_default_is_pinned(self) -> None:
        """Nobody who says nothing gets another mpsd after an upgrade."""
        assert DEFAULTS == attrs.asdict(load())


class TestFlags:
    @pytest.mark.parametrize(("flag", "text", "attribute", "value"), named(ROWS, 0))
    def test_a_flag_sets_one_attribute(self, flag: str, text: str, attribute: str, value: object) -> None:
        """Each flag changes what it names and nothing else."""
        assert attrs.asdict(load(f"--{flag}={text}")) == DEFAULTS | {attribute: value}

    def test_every_setting_has_a_row_here(self) -> None:
        """A new setting does not come without a test of its flag."""
        assert list(DEFAULTS) == [attribute for _, _, _, attribute, _ in ROWS]

    @pytest.mark.parametrize("flag", ["mps-control-port", "mps-config-path", "rpc-socket", "node-name"])
    def test_what_can_be_dropped_may_be_empty(self, flag: str) -> None:
        """An empty flag says `without`, which an empty variable does not."""
        assert "" == getattr(load(f"--{flag}="), flag.replace("-", "_"))


class TestVariables:
    @pytest.mark.parametrize(("variable", "text", "attribute", "value"), named(ROWS, 1))
    def test_a_variable_sets_one_attribute(self, variable: str, text: str, attribute: str, value: object) -> None:
        """Each variable changes what it names and nothing else."""
        assert attrs.asdict(load(**{variable: text})) == DEFAULTS | {attribute: value}

    @pytest.mark.parametrize("variable", [row[1] for row in ROWS if row[1]])
    def test_an_empty_variable_counts_as_unset(self, variable: str) -> None:
        """A chart that leaves a value empty changes nothing."""
        assert attrs.asdict(load(**{variable: ""})) == DEFAULTS


class TestRefusals:
    @pytest.mark.parametrize(
        ("flag", "text"),
        [
            pytest.param("mps-binary", "mps", id="relative program"),
            pytest.param("mps-control-port", "three", id="port in words"),
            pytest.param("pipe-dir", "/", id="the root as pipe directory"),
            pytest.param("pipe-dir", "/run/x/", id="slash at the end"),
            pytest.param("pipe-dir", "", id="empty pipe directory"),
            pytest.param("log-dir", "/var/../x", id="two dots"),
            pytest.param("mps-config-path", "c.toml", id="relative configuration"),
            pytest.param("rpc-socket", "s", id="relative socket"),
            pytest.param("support-sm-sharing", "yes", id="boolean in other words"),
            pytest.param("backoff", "0s", id="no back-off"),
            pytest.param("backoff", "5", id="duration without a unit"),
            pytest.param("max-retries", "-1", id="negative number"),
            pytest.param("graceful-stop-delay", "-1s", id="negative duration"),
            pytest.param("probe-interval", "1h", id="checks an hour apart"),
            pytest.param("probe-timeout", "0s", id="no time to answer"),
            pytest.param("probe-failures", "0", id="restart without a failure"),
            pytest.param("health-port", "65536", id="port above 65535"),
            pytest.param("log-level", "INFO", id="level in capitals"),
        ],
    )
    def test_a_malformed_value_stops_the_start_naming_the_flag(self, flag: str, text: str) -> None:
        """One line names the flag and the accepted form."""
        with pytest.raises(BadSettings) as caught:
            load(f"--{flag}={text}")
        (problem,) = map(str, caught.value.problems)

        assert problem.startswith(f"--{flag}: ")
        assert "accepted: " in problem
