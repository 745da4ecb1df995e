"""Every setting of metricsd: its default, its flag, its variable, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import attrs
import pytest
from fractioning_core.service import settings
from fractioning_core.service.addresses import Address
from fractioning_core.service.problems import BadSettings
from metricsd import families
from metricsd.settings import Settings


def load(*argv: str, **environ: str) -> Settings:
    return settings.load(Settings, program="metricsd", version="0", argv=argv, environ=environ)


def fields(loaded: Settings) -> dict[str, object]:
    return attrs.asdict(loaded, recurse=False)


DEFAULTS: dict[str, object] = {
    "metrics_enabled": True,
    "metrics_address": Address("::", 2112),
    "metrics_path": "/metrics",
    "memory_used_name": "gpu_fractioning_gpu_memory_used_bytes",
    "sm_name": "gpu_fractioning_gpu_sm_utilization_percent",
    "sm_normalized_name": "gpu_fractioning_gpu_sm_utilization_percent_normalized",
    "container_metrics": True,
    "metrics_interval_seconds": 5.0,
    "sm_util_window_seconds": 0.0,
    "map_dir": "/var/run/gpu-fractioning/map",
    "proc_root": "/proc",
    "cgroup_root": "/sys/fs/cgroup",
    "dev_root": "/dev",
    "log_level": "info",
}

MEMORY, SM, NORMALIZED = (
    "metric-name-gpu-memory-used-bytes",
    "metric-name-gpu-sm-utilization-percent",
    "metric-name-gpu-sm-utilization-percent-normalized",
)

# Flag, variable, text, the attribute and the value that comes of it.
ROWS: list[tuple[str, str | None, str, str, object]] = [
    ("metrics-enabled", "METRICS_ENABLED", "false", "metrics_enabled", False),
    ("metrics-address", "METRICS_ADDRESS", "127.0.0.1:9", "metrics_address", Address("127.0.0.1", 9)),
    ("metrics-path", "METRICS_PATH", "/x", "metrics_path", "/x"),
    (MEMORY, "METRIC_NAME_GPU_MEMORY_USED_BYTES", "x", "memory_used_name", "x"),
    (SM, "METRIC_NAME_GPU_SM_UTILIZATION_PERCENT", "_x:9", "sm_name", "_x:9"),
    (NORMALIZED, "METRIC_NAME_GPU_SM_UTILIZATION_PERCENT_NORMALIZED", "X", "sm_normalized_name", "X"),
    ("container-metrics", "CONTAINER_METRICS", "0", "container_metrics", False),
    ("metrics-interval", "METRICS_INTERVAL", "15s", "metrics_interval_seconds", 15.0),
    ("sm-util-window", "SM_UTIL_WINDOW", "1m", "sm_util_window_seconds", 60.0),
    ("map-dir", "MAP_DIR", "/x", "map_dir", "/x"),
    ("proc-root", "PROC_ROOT", "/host/proc", "proc_root", "/host/proc"),
    ("cgroup-root", None, "/host/cgroup", "cgroup_root", "/host/cgroup"),
    ("dev-root", None, "/host/dev", "dev_root", "/host/dev"),
    ("log-level", "LOG_LEVEL", "debug", "log_level", "debug"),
]


def named(rows: Sequence[tuple[str, str | None, str, str, object]], column: int) -> list[object]:
    return [pytest.param(row[column], *row[2:], id=f"{row[column]}={row[2]}") for row in rows if row[column]]


class TestDefaults:
    def test_every_default_is_pinned(self) -> None:
        """Nobody who says nothing gets another metricsd after an upgrade."""
        assert DEFAULTS == fields(load())


class TestFlags:
    @pytest.mark.parametrize(("flag", "text", "attribute", "value"), named(ROWS, 0))
    def test_a_flag_sets_one_attribute(self, flag: str, text: str, attribute: str, value: object) -> None:
        """Each flag changes what it names and nothing else."""
        assert fields(load(f"--{flag}={text}")) == DEFAULTS | {attribute: value}

    def test_every_setting_has_a_row_here(self) -> None:
        """A new setting does not come without a test of its flag."""
        assert list(DEFAULTS) == [attribute for _, _, _, attribute, _ in ROWS]


class TestVariables:
    @pytest.mark.parametrize(("variable", "text", "attribute", "value"), named(ROWS, 1))
    def test_a_variable_sets_one_attribute(self, variable: str, text: str, attribute: str, value: object) -> None:
        """Each variable changes what it names and nothing else."""
        assert fields(load(**{variable: text})) == DEFAULTS | {attribute: value}

    @pytest.mark.parametrize("variable", [row[1] for row in ROWS if row[1]])
    def test_an_empty_variable_counts_as_unset(self, variable: str) -> None:
        """A chart that leaves a value empty changes nothing."""
        assert fields(load(**{variable: ""})) == DEFAULTS


class TestMeanings:
    @pytest.mark.parametrize(
        ("flag", "text", "attribute", "value"),
        [
            pytest.param("metrics-interval", "0", "metrics_interval_seconds", 5.0, id="no interval"),
            pytest.param("metrics-interval", "-1s", "metrics_interval_seconds", 5.0, id="negative interval"),
            pytest.param("metrics-interval", "1ns", "metrics_interval_seconds", 2.0, id="shortest interval"),
            pytest.param(
                "metrics-interval", "1999ms", "metrics_interval_seconds", 2.0, id="interval below two seconds"
            ),
            pytest.param("metrics-interval", "2s", "metrics_interval_seconds", 2.0, id="interval of two seconds"),
            pytest.param("metrics-path", "", "metrics_path", "/metrics", id="empty path"),
            pytest.param("metrics-path", "  ", "metrics_path", "/metrics", id="blank path"),
            pytest.param("metrics-path", "a/b", "metrics_path", "/a/b", id="path without a slash in front"),
            pytest.param(MEMORY, "", "memory_used_name", DEFAULTS["memory_used_name"], id="empty memory name"),
            pytest.param(SM, " ", "sm_name", DEFAULTS["sm_name"], id="blank SM name"),
            pytest.param(NORMALIZED, "", "sm_normalized_name", DEFAULTS["sm_normalized_name"], id="empty third name"),
        ],
    )
    def test_a_value_that_stands_for_another(self, flag: str, text: str, attribute: str, value: object) -> None:
        """What the program before this one took for something else is taken so here."""
        assert fields(load(f"--{flag}={text}")) == DEFAULTS | {attribute: value}


def problems_of(*argv: str, **environ: str) -> list[str]:
    with pytest.raises(BadSettings) as caught:
        load(*argv, **environ)
    return [str(problem) for problem in caught.value.problems]


class TestNames:
    def test_two_equal_names(self) -> None:
        """Both are refused, by whatever set them."""
        problems = problems_of(f"--{MEMORY}=x", METRIC_NAME_GPU_SM_UTILIZATION_PERCENT="x")

        assert [
            f"--{MEMORY}: x is given to 2 families; accepted: three different names",
            "METRIC_NAME_GPU_SM_UTILIZATION_PERCENT: x is given to 2 families; accepted: three different names",
        ] == problems

    def test_the_default_of_another(self) -> None:
        """A name that another family has by default is refused where the other keeps it."""
        problems = problems_of(f"--{MEMORY}={DEFAULTS['sm_name']}")

        assert [f"--{MEMORY}", f"--{SM}"] == [problem.partition(":")[0] for problem in problems]

    def test_swapped_defaults(self) -> None:
        """Names may trade places."""
        loaded = load(f"--{MEMORY}={DEFAULTS['sm_name']}", f"--{SM}={DEFAULTS['memory_used_name']}")

        assert (DEFAULTS["sm_name"], DEFAULTS["memory_used_name"]) == (loaded.memory_used_name, loaded.sm_name)

    @pytest.mark.parametrize("name", sorted(name for family in families.FIXED for name in family.sample_names))
    def test_the_name_of_a_fixed_family(self, name: str) -> None:
        """No sample of the page has two meanings."""
        (problem,) = problems_of(f"--{SM}={name}")

        assert problem.startswith(f"--{SM}: {name} belongs to the family gpu_fractioning_")
        assert problem.endswith("; accepted: a name that no other family has")

    def test_all_at_once(self) -> None:
        """Malformed, equal and taken names are told together."""
        problems = problems_of(
            f"--{MEMORY}=gpu_fractioning_nvml_up", f"--{SM}=gpu_fractioning_nvml_up", f"--{NORMALIZED}=9x"
        )

        assert [NORMALIZED, MEMORY, MEMORY, SM, SM] == [
            problem.partition(":")[0].removeprefix("--") for problem in problems
        ]


class TestRefusals:
    @pytest.mark.parametrize(
        ("flag", "text"),
        [
            pytest.param("metrics-address", "2112", id="port without a colon"),
            pytest.param("metrics-address", "localhost:2112", id="host by name"),
            pytest.param("metrics-address", ":0", id="port 0"),
            pytest.param("metrics-address", "", id="no address"),
            pytest.param("metrics-path", "/{x}", id="pattern as a path"),
            pytest.param("metrics-path", "/a b", id="space in the path"),
            pytest.param(MEMORY, "a-b", id="dash in a name"),
            pytest.param(SM, "1x", id="digit in front of a name"),
            pytest.param(NORMALIZED, "é", id="name in other letters"),
            pytest.param("metrics-interval", "5", id="interval without a unit"),
            pytest.param("sm-util-window", "-1s", id="negative window"),
            pytest.param("sm-util-window", "2h", id="window of hours"),
            pytest.param("container-metrics", "yes", id="boolean in other words"),
            pytest.param("map-dir", "map", id="relative record directory"),
            pytest.param("proc-root", "", id="no /proc"),
            pytest.param("cgroup-root", "cgroup", id="relative cgroup root"),
            pytest.param("log-level", "INFO", id="level in capitals"),
        ],
    )
    def test_a_malformed_value_stops_the_start_naming_the_flag(self, flag: str, text: str) -> None:
        """One line names the flag and the accepted form."""
        (problem,) = problems_of(f"--{flag}={text}")

        assert problem.startswith(f"--{flag}: ")
        assert "accepted: " in problem
