"""Every setting of fractiond: its default, its flag, its variable, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from fractiond.settings import Settings
from fractioning_core.service import settings
from fractioning_core.service.problems import BadSettings


def load(*argv: str, **environ: str) -> Settings:
    return settings.load(Settings, program="fractiond", version="0", argv=argv, environ=environ)


def refused(*argv: str, **environ: str) -> list[str]:
    with pytest.raises(BadSettings) as caught:
        load(*argv, **environ)
    return [str(problem) for problem in caught.value.problems]


def help_text() -> str:
    with pytest.raises(settings.Answered) as caught:
        load("--help")
    return caught.value.text


DEFAULTS = {
    "annotation_prefix": "nvidia.com/container.",
    "pipe_dir": "/run/nvidia-mps",
    "support_sm_sharing": True,
    "inject_cdi_device": False,
    "fail_open": False,
    "socket_path": "/var/run/nri/nri.sock",
    "plugin_name": "gpu-fractioning",
    "plugin_idx": "10",
    "cri_socket": "/run/containerd/containerd.sock",
    "retry_interval_seconds": 5.0,
    "stable_threshold_seconds": 300.0,
    "max_retries": 0,
    "retroactive_enforcement": True,
    "retroactive_dry_run": False,
    "stop_timeout_seconds": 30.0,
    "stop_interval_seconds": 1.0,
    "map_dir": "/var/run/gpu-fractioning/map",
    "cdi_spec_dirs": ("/etc/cdi", "/var/run/cdi"),
    "proc_root": "/proc",
    "readiness_port": 8093,
    "log_level": "info",
    "log_pod_events": False,
}

# Flag, its text, the attribute and the value that comes of it.
FLAGS = [
    ("annotation-prefix", "gpu.example/", "annotation_prefix", "gpu.example/"),
    ("annotation-prefix", "", "annotation_prefix", ""),
    ("pipe-dir", "/x", "pipe_dir", "/x"),
    ("support-sm-sharing", "false", "support_sm_sharing", False),
    ("inject-cdi-device", "true", "inject_cdi_device", True),
    ("fail-open", "true", "fail_open", True),
    ("socket-path", "/x", "socket_path", "/x"),
    ("plugin-name", "x", "plugin_name", "x"),
    ("plugin-idx", "07", "plugin_idx", "07"),
    ("cri-socket", "/x", "cri_socket", "/x"),
    ("retry-interval", "250ms", "retry_interval_seconds", 0.25),
    ("stable-threshold", "0", "stable_threshold_seconds", 0.0),
    ("max-retries", "3", "max_retries", 3),
    ("retroactive-enforcement", "false", "retroactive_enforcement", False),
    ("retroactive-dry-run", "true", "retroactive_dry_run", True),
    ("stop-timeout", "1h", "stop_timeout_seconds", 3600.0),
    ("stop-interval", "0s", "stop_interval_seconds", 0.0),
    ("map-dir", "/x", "map_dir", "/x"),
    ("cdi-spec-dirs", "/a, /b", "cdi_spec_dirs", ("/a", "/b")),
    ("proc-root", "/host/proc", "proc_root", "/host/proc"),
    ("readiness-port", "0", "readiness_port", 0),
    ("log-level", "debug", "log_level", "debug"),
    ("log-pod-events", "true", "log_pod_events", True),
]

# The variables that charts and manifests set today.
VARIABLES = [
    ("NRI_SOCKET_PATH", "/x", "socket_path", "/x"),
    ("SUPPORT_SM_SHARING", "0", "support_sm_sharing", False),
    ("MAP_DIR", "/x", "map_dir", "/x"),
    ("LOG_POD_EVENTS", "T", "log_pod_events", True),
    ("READINESS_PORT", "9000", "readiness_port", 9000),
    ("RETROACTIVE_ENFORCEMENT", "false", "retroactive_enforcement", False),
    ("CRI_SOCKET", "/run/crio/crio.sock", "cri_socket", "/run/crio/crio.sock"),
]


def named(rows: Sequence[tuple[str, str, str, object]]) -> list[object]:
    return [pytest.param(*row, id=f"{row[0]}={row[1]}") for row in rows]


class TestDefaults:
    def test_every_default_is_pinned(self) -> None:
        """Nobody who says nothing gets another fractiond after an upgrade."""
        assert DEFAULTS == attrs.asdict(load())


class TestFlags:
    @pytest.mark.parametrize(("flag", "text", "attribute", "value"), named(FLAGS))
    def test_a_flag_sets_one_attribute(self, flag: str, text: str, attribute: str, value: object) -> None:
        """Each flag changes what it names and nothing else."""
        assert attrs.asdict(load(f"--{flag}={text}")) == DEFAULTS | {attribute: value}

    def test_every_setting_has_a_row_here(self) -> None:
        """A new setting does not come without a test of its flag."""
        assert set(DEFAULTS) == {attribute for _, _, attribute, _ in FLAGS}

    def test_gos_single_dash_and_separate_value_work(self) -> None:
        """Manifests written for a Go program are understood as they stand."""
        assert "/x" == load("-pipe-dir", "/x").pipe_dir


class TestVariables:
    @pytest.mark.parametrize(("variable", "text", "attribute", "value"), named(VARIABLES))
    def test_a_variable_sets_one_attribute(self, variable: str, text: str, attribute: str, value: object) -> None:
        """Each variable changes what it names and nothing else."""
        assert attrs.asdict(load(**{variable: text})) == DEFAULTS | {attribute: value}

    @pytest.mark.parametrize("variable", [row[0] for row in VARIABLES])
    def test_an_empty_variable_counts_as_unset(self, variable: str) -> None:
        """A chart that leaves a value empty changes nothing."""
        assert attrs.asdict(load(**{variable: ""})) == DEFAULTS

    def test_a_flag_beats_its_variable(self) -> None:
        """What stands in the command line was said last."""
        assert load("--map-dir=/flag", MAP_DIR="/variable").map_dir == "/flag"

    def test_no_other_variable_is_read(self) -> None:
        """Names that merely look like settings change nothing."""
        assert attrs.asdict(load(PIPE_DIR="/x", FAIL_OPEN="true", LOG_LEVEL="debug")) == DEFAULTS


BAD = [
    pytest.param("annotation-prefix", "a/b/", id="prefix with two slashes"),
    pytest.param("annotation-prefix", "UP PER/", id="prefix with capitals and a space"),
    pytest.param("pipe-dir", "run/x", id="relative pipe directory"),
    pytest.param("pipe-dir", "", id="empty pipe directory"),
    pytest.param("pipe-dir", "/", id="the host's root as pipe directory"),
    pytest.param("pipe-dir", "//run", id="pipe directory with two slashes in front"),
    pytest.param("pipe-dir", "/run/nvidia-mps/", id="pipe directory with a slash at the end"),
    pytest.param("pipe-dir", "/run//nvidia-mps", id="pipe directory with a double slash"),
    pytest.param("pipe-dir", "/run/../nvidia-mps", id="pipe directory with two dots"),
    pytest.param("pipe-dir", "/run/./nvidia-mps", id="pipe directory with one dot"),
    pytest.param("support-sm-sharing", "yes", id="boolean in other words"),
    pytest.param("fail-open", "no", id="switch in other words"),
    pytest.param("socket-path", "nri.sock", id="relative socket"),
    pytest.param("plugin-idx", "5", id="index of one digit"),
    pytest.param("plugin-idx", "100", id="index of three digits"),
    pytest.param("plugin-idx", "1x", id="index with a letter"),
    pytest.param("plugin-idx", "\uff11\uff10", id="index in full-width digits"),
    pytest.param("retry-interval", "5", id="duration without a unit"),
    pytest.param("retry-interval", "0s", id="no wait between dials"),
    pytest.param("stable-threshold", "-1s", id="negative duration"),
    pytest.param("max-retries", "-1", id="negative number"),
    pytest.param("max-retries", "3.5", id="broken number"),
    pytest.param("stop-timeout", "2h", id="grace above an hour"),
    pytest.param("stop-interval", "1 s", id="duration with a space"),
    pytest.param("cdi-spec-dirs", "/a,,/b", id="empty directory in a list"),
    pytest.param("readiness-port", "65536", id="port above 65535"),
    pytest.param("readiness-port", "-1", id="negative port"),
    pytest.param("log-level", "INFO", id="level in capitals"),
    pytest.param("log-level", "trace", id="level there is not"),
]


class TestRefusals:
    @pytest.mark.parametrize(("flag", "text"), BAD)
    def test_a_malformed_value_stops_the_start_naming_the_flag(self, flag: str, text: str) -> None:
        """One line names the flag and the accepted form."""
        (problem,) = refused(f"--{flag}={text}")

        assert problem.startswith(f"--{flag}: ")
        assert "accepted: " in problem
        assert "\n" not in problem

    @pytest.mark.parametrize(
        ("variable", "text"),
        [
            pytest.param("SUPPORT_SM_SHARING", "notabool", id="boolean"),
            pytest.param("READINESS_PORT", "http", id="port"),
            pytest.param("MAP_DIR", "map", id="path"),
        ],
    )
    def test_a_malformed_variable_stops_the_start_too(self, variable: str, text: str) -> None:
        """No default takes the place of a typo in the environment."""
        (problem,) = refused(**{variable: text})

        assert problem.startswith(f"{variable}: ")

    def test_all_mistakes_are_told_at_once(self) -> None:
        """A flag, a variable and a flag there is not give a line each."""
        assert 3 == len(refused("--max-retries=x", "--fail-opne", MAP_DIR="x"))

    def test_a_removed_flag_is_a_mistake_and_not_passed_over(self) -> None:
        """A name that is only nearly right is answered with the right one."""
        (problem,) = refused("--fail-opne")

        assert "--fail-open" in problem


class TestHelp:
    def test_flags_stand_under_four_headings(self) -> None:
        """Help tells apart what is matched, which runtime, the enforcement and operation."""
        headings = [line for line in help_text().splitlines() if line.endswith(":") and not line.startswith(" ")]

        assert [
            "Which containers, and what they get:",
            "Container runtime:",
            "Retroactive enforcement:",
            "Operation:",
            "Other:",
        ] == headings

    def test_every_flag_and_variable_is_listed_once(self) -> None:
        """Whoever reads the help misses nothing that can be told."""
        lines = help_text().splitlines()
        flags = [line.split()[0] for line in lines if line.startswith("  --")]
        variables = [line.rpartition("environment ")[2] for line in lines if ", environment " in line]

        assert sorted({f"--{row[0]}" for row in FLAGS} | {"--help,", "--version"}) == sorted(flags)
        assert sorted(row[0] for row in VARIABLES) == sorted(variables)

    def test_defaults_are_written_as_they_would_be_given(self) -> None:
        """A default can be copied behind its flag."""
        text = help_text()

        assert "default 5m\n" in text
        assert "default /etc/cdi,/var/run/cdi\n" in text
        assert "default true, environment RETROACTIVE_ENFORCEMENT\n" in text
