"""
The alerting rules of the examples, as promtool runs them: silent over what is well, and each heard over its own fault.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from lab import toolchain
from lab.prometheus import promtool

RULES = toolchain.REPOSITORY / "deploy" / "examples" / "alerts.yaml"
PREFIX = "gpu_fractioning_"
TARGET = 'instance="node-a:1",job="j"'
TENANT = f'{TARGET},namespace="team-a",pod="trainer",container="main"'
# One sample a minute; each rule is asked at the last of them.
MINUTES = 40
# As promtool's tests write series: a value, or a first one and what is added, and how often it comes again.
FLAT, ZERO, ONE = f"3x{MINUTES}", f"0x{MINUTES}", f"1x{MINUTES}"
GONE = f"_x{MINUTES}"
GROWING = f"0+1x{MINUTES}"


@attrs.frozen
class Case:
    """
    A series by the values of which an alert is silent, and by others of which it is heard.
    """

    series: str
    well: str
    ill: str
    beside: Mapping[str, str] = attrs.field(factory=dict)


def counter(name: str, **labels: str) -> Case:
    told = "".join(f',{key}="{value}"' for key, value in labels.items())
    return Case(f"{PREFIX}{name}{{{TARGET}{told}}}", FLAT, GROWING)


def switch(name: str, labels: str = TARGET, *, well: str = ONE, ill: str = ZERO) -> Case:
    return Case(f"{PREFIX}{name}{{{labels}}}", well, ill)


CASES: Mapping[str, Case] = {
    "GpuLimitNotInForce": switch(
        "container_gpu_memory_limit_enforcement_info", f'{TENANT},reason="no_limit_set"', well=GONE, ill=ONE
    ),
    "GpuContainerSlippedThrough": counter("fractiond_violations_total", kind="unfenced"),
    "GpuContainerNotStopped": switch("fractiond_pending_stops", well=ZERO, ill=ONE),
    "GpuContainerFailedOpen": counter("fractiond_containers_total", outcome="failed_open"),
    "GpuContainersRefused": counter("fractiond_containers_total", outcome="rejected_at_start"),
    "GpuMemoryNearLimit": switch(
        "container_gpu_memory_pressure_ratio", TENANT, well=f"0.9x{MINUTES}", ill=f"0.96x{MINUTES}"
    ),
    "GpuProcessWithoutRecord": switch(
        "metricsd_processes_unattributed", f'{TARGET},reason="no_record"', well=ZERO, ill=ONE
    ),
    "GpuFractioningNotScraped": switch("fractiond_runtime_connected", ill=GONE),
    "GpuFractioningNodeNotReady": switch("nodes_degraded", well=ZERO, ill=ONE),
    "GpuFractioningDaemonMissing": attrs.evolve(
        switch("daemon_ready_nodes", f'{TARGET},daemon="mpsd"', well=FLAT),
        beside={f'{PREFIX}daemon_desired_nodes{{{TARGET},daemon="mpsd"}}': FLAT},
    ),
    "FractiondNotConnected": switch("fractiond_runtime_connected"),
    "FractiondFault": counter("fractiond_handler_failures_total", method="create"),
    "FractiondRecordsNotWritten": switch("fractiond_record_queue_depth", well=ZERO, ill=ONE),
    "MpsdNotReady": switch("mpsd_ready"),
    "MpsControlDaemonRestarts": counter("mpsd_restarts_total", reason="crashed"),
    "GpuDriverNotReadable": switch("nvml_up"),
    "GpuSilent": switch("gpu_up", f'{TARGET},gpu_uuid="GPU-1",gpu="0"'),
    "GpuFiguresStale": switch("metricsd_snapshot_stale", well=ZERO, ill=ONE),
    "GpuFractioningNoController": switch("controller_leader"),
    "GpuFractioningControllerCannotRead": switch(
        "controller_mirror_stale", f'{TARGET},resource="nodes"', well=ZERO, ill=ONE
    ),
    "GpuFractioningControllerCannotWrite": counter("controller_api_writes_total", kind="status", result="error"),
    "GpuFractioningControllerFault": counter("controller_reconciles_total", result="crashed"),
}


def rules() -> Mapping[str, Mapping[str, Any]]:
    """
    Read the rules by their alerts.
    """
    groups = yaml.safe_load(RULES.read_text())["groups"]
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def asked(alert: str, case: Case, values: str, *, expected: int) -> Mapping[str, Any]:
    """
    Write one of promtool's tests: over these values so many of the alert fire.
    """
    series = [{"series": case.series, "values": values}]
    series += [{"series": name, "values": beside} for name, beside in case.beside.items()]
    question = f'count(ALERTS{{alertname="{alert}",alertstate="firing"}}) or vector(0)'
    samples = [{"labels": "{}", "value": expected}]
    return {
        "interval": "1m",
        "input_series": series,
        "promql_expr_test": [{"expr": question, "eval_time": f"{MINUTES}m", "exp_samples": samples}],
    }


def test_every_rule_has_a_case() -> None:
    """
    The cases are about all rules, and no others.
    """
    assert set(rules()) == set(CASES)


@pytest.mark.parametrize("alert", CASES)
class TestRule:
    async def test_hears_its_fault(self, alert: str, tmp_path: Path) -> None:
        """
        It fires over its fault, and over nothing that is well.
        """
        case = CASES[alert]
        tests = [asked(alert, case, case.well, expected=0), asked(alert, case, case.ill, expected=1)]
        # A JSON text is YAML too.
        path = tmp_path / "test.yaml"
        path.write_text(json.dumps({"rule_files": [str(RULES)], "evaluation_interval": "1m", "tests": tests}))
        done = await promtool("test", "rules", path)

        assert (0, "") == (done.returncode, done.stderr)

    def test_names_what_it_knows(self, alert: str) -> None:
        """
        Its sentence has no label that its series have not.
        """
        case = CASES[alert]
        labels = set(re.findall(r'(\w+)="', case.series))

        assert set() == set(re.findall(r"\$labels\.(\w+)", rules()[alert]["annotations"]["summary"])) - labels
