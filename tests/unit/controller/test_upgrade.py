"""Driver upgrades of the GPU Operator."""

from __future__ import annotations

import pytest
from controller import upgrade
from controller.conditions import FALSE, TRUE, Verdict
from controller.placement import has_upgrade
from controller.testing.builders import SELECTOR, a_node
from controller.world import NodeView

LABEL = "nvidia.com/gpu-driver-upgrade-state"


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        pytest.param({}, False, id="absent"),
        pytest.param({LABEL: "upgrade-done"}, False, id="done"),
        pytest.param({LABEL: "upgrade-required"}, True, id="required"),
        pytest.param({LABEL: "cordon-required"}, True, id="cordon"),
        pytest.param({LABEL: "pod-deletion-required"}, True, id="pod deletion"),
        pytest.param({LABEL: "upgrade-failed"}, True, id="failed"),
        pytest.param({LABEL: ""}, True, id="empty, which the affinity does not match either"),
    ],
)
def test_has_upgrade(*, labels: dict[str, str], expected: bool) -> None:
    """Every state but the last is an upgrade."""
    assert expected is has_upgrade(NodeView("node-a", labels=labels))


class TestJudge:
    @pytest.mark.parametrize(
        ("nodes", "status"),
        [
            pytest.param(
                (
                    a_node("a", labels={LABEL: "pod-deletion-required"}),
                    a_node("b", labels={LABEL: "upgrade-done"}),
                    a_node("c"),
                ),
                TRUE,
                id="one under way",
            ),
            pytest.param((a_node("b", labels={LABEL: "upgrade-done"}), a_node("c")), FALSE, id="none under way"),
            pytest.param(
                (a_node("a", labels={LABEL: "pod-deletion-required"}, without=list(SELECTOR)),), FALSE, id="elsewhere"
            ),
        ],
    )
    def test_table(self, nodes: tuple[NodeView, ...], status: str) -> None:
        """An upgrade of a selected node counts, also while the client label is off."""
        assert status == upgrade.judge(nodes, SELECTOR).status

    def test_words(self) -> None:
        """The nodes are named; nothing is said where there are none."""
        nodes = (a_node("b", labels={LABEL: "x"}), a_node("a", labels={LABEL: "x"}))
        told = "a targeted GPU node is undergoing a driver upgrade and its managed daemons are drained: a, b"

        assert Verdict(TRUE, "DriverUpgrading", told) == upgrade.judge(nodes, SELECTOR)
        assert Verdict(FALSE, "NoDriverUpgrade", "") == upgrade.judge((), SELECTOR)
