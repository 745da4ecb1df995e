"""Which nodes the daemons belong on."""

from __future__ import annotations

from typing import Any

import pytest
from controller import placement
from controller.testing.builders import SELECTOR, a_config, a_node
from controller.world import NodeView, Taint
from fractioning_core import names
from fractioning_core.resource import Spec, Toleration

CLIENT = "nvidia.com/gpu.deploy.client"
UPGRADE = "nvidia.com/gpu-driver-upgrade-state"
DRIVER = names.DRIVER_LABEL
SPEC = a_config().spec
GPU_TAINT = Taint("nvidia.com/gpu", "present", "NoSchedule")


def a_toleration(**fields: Any) -> Toleration:  # noqa: ANN401 - fields of what is built
    return Toleration(
        **{"key": None, "operator": None, "value": None, "effect": None, "toleration_seconds": None, **fields}
    )


class TestNodeSelector:
    @pytest.mark.parametrize(
        ("selector", "expected"),
        [
            pytest.param(SELECTOR, {**SELECTOR, CLIENT: "true"}, id="added"),
            pytest.param({CLIENT: "false"}, {CLIENT: "true"}, id="overridden"),
            pytest.param({}, {CLIENT: "true"}, id="an empty selector"),
        ],
    )
    def test_table(self, selector: dict[str, str], expected: dict[str, str]) -> None:
        """The daemons also select what makes the GPU Operator wait for them; the config's selector stays as it is."""
        before = dict(selector)

        assert expected == placement.node_selector(Spec(node_selector=selector))
        assert before == selector


class TestAffinity:
    def test_mpsd(self) -> None:
        """Neither daemon goes to nodes in an upgrade."""
        assert placement.affinity("mpsd") == {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": UPGRADE, "operator": "DoesNotExist"}]},
                        {"matchExpressions": [{"key": UPGRADE, "operator": "In", "values": ["upgrade-done"]}]},
                    ]
                }
            }
        }

    def test_fractiond(self) -> None:
        """The daemon that promises limits also stays off old drivers: each state of an upgrade with each driver."""
        terms = placement.affinity("fractiond")["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
            "nodeSelectorTerms"
        ]

        assert [
            [(one["key"], one["operator"], one.get("values")) for one in term["matchExpressions"]] for term in terms
        ] == [
            [(UPGRADE, "DoesNotExist", None), (DRIVER, "DoesNotExist", None)],
            [(UPGRADE, "DoesNotExist", None), (DRIVER, "Gt", ["614"])],
            [(UPGRADE, "In", ["upgrade-done"]), (DRIVER, "DoesNotExist", None)],
            [(UPGRADE, "In", ["upgrade-done"]), (DRIVER, "Gt", ["614"])],
        ]


class TestBelongs:
    @pytest.mark.parametrize(
        ("node", "expected"),
        [
            pytest.param(a_node(), {"fractiond", "mpsd"}, id="a GPU node"),
            pytest.param(a_node(without=[DRIVER]), {"fractiond", "mpsd"}, id="driver not known yet"),
            pytest.param(a_node(labels={DRIVER: "614"}), {"mpsd"}, id="an old driver"),
            pytest.param(a_node(labels={DRIVER: "615.34"}), {"mpsd"}, id="no number"),
            pytest.param(a_node(without=[CLIENT]), set(), id="no client label"),
            pytest.param(a_node(labels={CLIENT: "paused-for-driver-upgrade"}), set(), id="paused"),
            pytest.param(a_node(without=list(SELECTOR)), set(), id="not selected"),
            pytest.param(a_node(labels={UPGRADE: "drain-required"}), set(), id="in an upgrade"),
            pytest.param(a_node(labels={UPGRADE: "upgrade-done"}), {"fractiond", "mpsd"}, id="after an upgrade"),
            pytest.param(a_node(taints=(GPU_TAINT,)), set(), id="a taint"),
            pytest.param(
                a_node(taints=(Taint("x", "", "PreferNoSchedule"),)), {"fractiond", "mpsd"}, id="a mild taint"
            ),
            pytest.param(
                a_node(taints=(Taint("node.kubernetes.io/unschedulable", "", "NoSchedule"),)),
                {"fractiond", "mpsd"},
                id="cordoned",
            ),
            pytest.param(
                a_node(taints=(Taint("node.kubernetes.io/unreachable", "", "NoExecute"),)),
                {"fractiond", "mpsd"},
                id="out of reach, for pods that are there",
            ),
            pytest.param(
                a_node(taints=(Taint("node.kubernetes.io/unreachable", "", "NoSchedule"),)),
                set(),
                id="out of reach, for new pods",
            ),
            pytest.param(
                a_node(taints=(Taint("node.kubernetes.io/not-ready", "", "NoSchedule"),)),
                set(),
                id="not ready, for new pods",
            ),
            *(
                pytest.param(
                    a_node(taints=(Taint(f"node.kubernetes.io/{lack}-pressure", "", "NoSchedule"),)),
                    {"fractiond", "mpsd"},
                    id=f"short of {lack}",
                )
                for lack in ("disk", "memory", "pid")
            ),
            pytest.param(
                a_node(taints=(Taint("node.kubernetes.io/unschedulable", "", "NoExecute"),)),
                set(),
                id="evicted under a name that keeps new pods off",
            ),
        ],
    )
    def test_table(self, node: NodeView, expected: set[str]) -> None:
        """A daemon belongs where the scheduler would put it."""
        assert expected == {name for name in ("fractiond", "mpsd") if placement.belongs(name, node, SPEC)}

    @pytest.mark.parametrize(
        ("toleration", "expected"),
        [
            pytest.param(a_toleration(key="nvidia.com/gpu", operator="Exists"), True, id="key"),
            pytest.param(a_toleration(key="nvidia.com/gpu", value="present"), True, id="value"),
            pytest.param(a_toleration(key="nvidia.com/gpu", operator="Equal", value="x"), False, id="another value"),
            pytest.param(a_toleration(operator="Exists"), True, id="everything"),
            pytest.param(a_toleration(), False, id="nothing"),
            pytest.param(a_toleration(key="other", operator="Exists"), False, id="another key"),
            pytest.param(a_toleration(operator="Exists", effect="NoExecute"), False, id="another effect"),
            pytest.param(
                a_toleration(key="nvidia.com/gpu", operator="Exists", effect="NoSchedule"), True, id="this effect"
            ),
        ],
    )
    def test_tolerations(self, *, toleration: Toleration, expected: bool) -> None:
        """A taint is no hindrance once it is tolerated."""
        spec = Spec(node_selector=SELECTOR, tolerations=(toleration,))

        assert expected is placement.belongs("mpsd", a_node(taints=(GPU_TAINT,)), spec)

    @pytest.mark.parametrize(
        ("operator", "taint", "expected"),
        [
            ("Gt", "5", True),
            ("Gt", "3", False),
            ("Lt", "3", True),
            ("Lt", "5", False),
            ("Gt", "4", False),
            ("Lt", "4", False),
            ("Gt", "x", False),
        ],
    )
    def test_numbers(self, *, operator: str, taint: str, expected: bool) -> None:
        """Values of taints compare as numbers where that is asked for."""
        toleration = a_toleration(key="k", operator=operator, value="4")
        spec = Spec(node_selector=SELECTOR, tolerations=(toleration,))

        assert expected is placement.belongs("mpsd", a_node(taints=(Taint("k", taint, "NoSchedule"),)), spec)


class TestLostLabels:
    @pytest.mark.parametrize(
        ("node", "expected"),
        [
            pytest.param(a_node(), (), id="none"),
            pytest.param(a_node(without=list(SELECTOR)), ("nvidia.com/gpu.present=true",), id="one of the selector"),
            pytest.param(a_node(without=[CLIENT]), (f"{CLIENT}=true",), id="the client label"),
            pytest.param(
                a_node(without=[*SELECTOR, CLIENT]), ("nvidia.com/gpu.present=true", f"{CLIENT}=true"), id="both"
            ),
            pytest.param(a_node(labels={CLIENT: "false"}, without=list(SELECTOR)), (), id="another value, on purpose"),
        ],
    )
    def test_table(self, node: NodeView, expected: tuple[str, ...]) -> None:
        """What is absent may be lost; what has another value was set."""
        assert expected == placement.lost_labels(node, placement.node_selector(SPEC))
