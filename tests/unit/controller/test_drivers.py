"""What is said of a node's driver."""

from __future__ import annotations

import pytest
from controller import drivers
from controller.conditions import FALSE, TRUE, Verdict
from controller.testing.builders import a_node
from controller.world import NodeView
from fractioning_core import names

LABEL = names.DRIVER_LABEL
CRASHING = Verdict(FALSE, "CrashLoopBackOff", "mpsd pod is not ready: CrashLoopBackOff")
HEALTHY = Verdict(TRUE, "AllDaemonsReady", "all gpu-fractioning daemons are running")


def labelled(value: str | None, **fields: str) -> NodeView:
    return a_node(without=(LABEL,), **fields) if value is None else a_node(labels={LABEL: value}, **fields)


class TestRefine:
    @pytest.mark.parametrize(
        ("verdict", "label", "expected"),
        [
            pytest.param(HEALTHY, None, HEALTHY, id="True, no label"),
            pytest.param(
                CRASHING,
                None,
                Verdict(
                    FALSE,
                    "GPUDriverVersionMissing",
                    f"node label {LABEL} is missing; minimum supported NVIDIA driver major version is 615",
                ),
                id="False, no label",
            ),
            pytest.param(
                CRASHING,
                "614",
                Verdict(
                    FALSE,
                    "GPUDriverVersionUnsupported",
                    "NVIDIA driver major version 614 is below minimum supported major version 615",
                ),
                id="False, 614",
            ),
            pytest.param(CRASHING, "615", CRASHING, id="False, 615"),
        ],
    )
    def test_table(self, verdict: Verdict, label: str | None, expected: Verdict) -> None:
        """Only what is False already is told to be the driver's fault."""
        assert expected == drivers.refine(verdict, labelled(label))

    @pytest.mark.parametrize("reason", ["PodMissing", "Pending", "ContainerCreating", "PodInitializing"])
    def test_a_pod_that_has_not_begun(self, reason: str) -> None:
        """A missing label is no news while the pod that would write it does not run."""
        starting = Verdict(FALSE, reason, "m")

        assert starting == drivers.refine(starting, labelled(None))

    @pytest.mark.parametrize(
        ("label", "expected"),
        [
            pytest.param("615", "GPUDriverProblem", id="a good label"),
            pytest.param(None, "GPUDriverProblem", id="no label"),
            pytest.param("x", "GPUDriverProblem", id="no number"),
            pytest.param("614", "GPUDriverVersionUnsupported", id="an old driver"),
        ],
    )
    def test_what_mpsd_says(self, label: str | None, expected: str) -> None:
        """What mpsd says of the driver is told on, unless the label names an old one."""
        node = labelled(label, driver_problem="library 620.10.01, module 615.43.02: mismatch,\nreboot")
        found = drivers.refine(CRASHING, node)

        assert expected == found.reason
        if expected == "GPUDriverProblem":
            assert found.message == "library 620.10.01, module 615.43.02: mismatch, reboot"


class TestFindFault:
    @pytest.mark.parametrize(
        ("labels", "expected"),
        [
            pytest.param({}, "GPUDriverVersionMissing", id="none"),
            pytest.param({LABEL: " "}, "GPUDriverVersionMissing", id="blank"),
            pytest.param({LABEL: "615.34"}, "GPUDriverVersionInvalid", id="a whole version"),
            pytest.param({LABEL: "0"}, "GPUDriverVersionInvalid", id="zero"),
            pytest.param({LABEL: "614"}, "GPUDriverVersionUnsupported", id="below"),
            pytest.param({LABEL: "615"}, None, id="the first"),
            pytest.param({LABEL: "620"}, None, id="above"),
            pytest.param(
                {"nvidia.com/cuda.driver-version.major": "615"}, "GPUDriverVersionMissing", id="the GPU Operator's own"
            ),
        ],
    )
    def test_table(self, labels: dict[str, str], expected: str | None) -> None:
        """The label that mpsd writes names the major version, and no other label counts."""
        found = drivers.find_fault(NodeView("node-a", labels=labels))

        assert expected == (found.reason if found else None)

    def test_value(self) -> None:
        """What is no version is quoted."""
        found = drivers.find_fault(labelled("615.34"))

        assert found is not None
        assert '"615.34"' in found.message
        assert LABEL in found.message
        assert "615" in found.message


class TestSummarize:
    def test_names_nodes(self) -> None:
        """The nodes are named with their versions, and only five of them."""
        nodes = {f"n{place}": labelled(str(570 + place)) for place in range(7)}
        told = "n0 (570), n1 (571), n2 (572), n3 (573), n4 (574) and 2 more"
        message = f"NVIDIA driver major version is below minimum supported major version 615 on nodes: {told}"

        assert Verdict(FALSE, "GPUDriverVersionUnsupported", message) == drivers.summarize(nodes)

    @pytest.mark.parametrize(
        ("nodes", "expected"),
        [
            pytest.param({"a": labelled("x"), "b": labelled("614")}, "GPUDriverVersionUnsupported", id="old first"),
            pytest.param(
                {"a": labelled("x"), "b": labelled("615", driver_problem="p")}, "GPUDriverProblem", id="then a problem"
            ),
            pytest.param({"a": labelled(None), "b": labelled("x")}, "GPUDriverVersionInvalid", id="then no number"),
            pytest.param({"a": labelled(None)}, "GPUDriverVersionMissing", id="then no label"),
        ],
    )
    def test_order(self, nodes: dict[str, NodeView], expected: str) -> None:
        """The most certain of several faults is the reason."""
        found = drivers.summarize(nodes)

        assert found is not None
        assert expected == found.reason

    def test_nothing(self) -> None:
        """Good drivers have nothing to sum up."""
        assert drivers.summarize({"a": labelled("615")}) is None
