"""What the config's conditions say."""

from __future__ import annotations

import pytest
from controller import conditions
from controller.conditions import FALSE, TRUE, UNKNOWN, Health, Verdict
from controller.testing.builders import LATER, NOW, a_condition
from fractioning_core.resource import Condition

F, M = "FractiondReady", "MpsdReady"


class TestJudge:
    @pytest.mark.parametrize(
        ("health", "expected"),
        [
            pytest.param(Health(3, 3), Verdict(TRUE, "AllPodsReady", "3 of 3 pods ready"), id="all"),
            pytest.param(Health(0, 0), Verdict(TRUE, "NoTargetNodes", "no target nodes found"), id="no nodes"),
            pytest.param(Health(5, 3), Verdict(FALSE, "PartiallyAvailable", "3 of 5 pods ready"), id="some"),
            pytest.param(Health(5, 0), Verdict(FALSE, "RolloutInProgress", "0 of 5 pods ready"), id="none"),
            pytest.param(Health(2, 2), Verdict(TRUE, "AllPodsReady", "2 of 2 pods ready"), id="all of two"),
            pytest.param(
                Health(error="create-or-update failed"),
                Verdict(FALSE, "ReconcileError", "create-or-update failed"),
                id="an error",
            ),
        ],
    )
    def test_table(self, health: Health, expected: Verdict) -> None:
        """The first that holds: an error, no nodes, all ready, none, some."""
        assert expected == conditions.judge(health)

    @pytest.mark.parametrize(
        ("health", "expected"),
        [
            pytest.param(
                Health(held="too old"),
                Verdict(FALSE, "RolloutHeldBack", "rollout held back: too old"),
                id="held back",
            ),
            pytest.param(
                Health(0, 0, targets=2, obstacle="pods are\nforbidden"),
                Verdict(FALSE, "RolloutInProgress", "0 of 2 pods ready: pods are forbidden"),
                id="no pod may be made",
            ),
            pytest.param(
                Health(2, 1, targets=2, obstacle="quota"),
                Verdict(FALSE, "PartiallyAvailable", "1 of 2 pods ready: quota"),
                id="one pod may not be made",
            ),
            pytest.param(
                Health(2, 2, targets=2, obstacle="long ago"),
                Verdict(TRUE, "AllPodsReady", "2 of 2 pods ready"),
                id="an obstacle that was overcome",
            ),
            pytest.param(
                Health(3, 3, targets=3, is_observed=False),
                Verdict(FALSE, "RolloutInProgress", "3 of 3 pods ready"),
                id="not observed",
            ),
            pytest.param(
                Health(0, 0, targets=1, is_observed=False),
                Verdict(FALSE, "RolloutInProgress", "0 of 1 pods ready"),
                id="fresh",
            ),
            pytest.param(
                Health(0, 0, hint="a label is missing"),
                Verdict(TRUE, "NoTargetNodes", "no target nodes found: a label is missing"),
                id="no nodes, with a hint",
            ),
        ],
    )
    def test_beyond_the_numbers(self, health: Health, expected: Verdict) -> None:
        """A DaemonSet's zero is no success where nodes wait for pods."""
        assert expected == conditions.judge(health)


class TestAggregate:
    @pytest.mark.parametrize(
        ("statuses", "expected"),
        [
            pytest.param({}, Verdict(UNKNOWN, "NoComponents", "no components have been evaluated"), id="none"),
            pytest.param({F: TRUE}, Verdict(TRUE, "AllComponentsReady", "all components are healthy"), id="F+"),
            pytest.param({F: TRUE, M: FALSE}, Verdict(FALSE, "ComponentNotReady", "not ready: MpsdReady"), id="F+ M-"),
            pytest.param(
                {F: FALSE, M: FALSE},
                Verdict(FALSE, "ComponentNotReady", "not ready: FractiondReady, MpsdReady"),
                id="F- M-",
            ),
            pytest.param({F: TRUE, M: UNKNOWN}, Verdict(UNKNOWN, "ComponentUnknown", "unknown: MpsdReady"), id="F+ M?"),
            pytest.param(
                {F: UNKNOWN, M: FALSE}, Verdict(FALSE, "ComponentNotReady", "not ready: MpsdReady"), id="F? M-"
            ),
            pytest.param(
                {F: UNKNOWN, M: UNKNOWN},
                Verdict(UNKNOWN, "ComponentUnknown", "unknown: FractiondReady, MpsdReady"),
                id="F? M?",
            ),
            pytest.param(
                {F: FALSE, M: UNKNOWN, "ThirdReady": FALSE},
                Verdict(FALSE, "ComponentNotReady", "not ready: FractiondReady, ThirdReady"),
                id="F- M? third-",
            ),
            pytest.param(
                {F: TRUE, "DriverUpgradeInProgress": FALSE, "Ready": FALSE},
                Verdict(TRUE, "AllComponentsReady", "all components are healthy"),
                id="what is no component",
            ),
        ],
    )
    def test_table(self, statuses: dict[str, str], expected: Verdict) -> None:
        """False outweighs unknown, and unknown outweighs true."""
        assert expected == conditions.aggregate([a_condition(kind, status) for kind, status in statuses.items()])


class TestUpsert:
    @pytest.mark.parametrize(
        ("kind", "verdict", "expected"),
        [
            pytest.param(F, Verdict(TRUE, "Other", "m"), (Condition(F, TRUE, "Other", "m", 2, NOW),), id="same status"),
            pytest.param(
                F, Verdict(FALSE, "Other", "m"), (Condition(F, FALSE, "Other", "m", 2, LATER),), id="another status"
            ),
            pytest.param(
                M,
                Verdict(TRUE, "Other", "m"),
                (a_condition(F), Condition(M, TRUE, "Other", "m", 2, LATER)),
                id="another type",
            ),
        ],
    )
    def test_table(self, kind: str, verdict: Verdict, expected: tuple[Condition, ...]) -> None:
        """There is one condition of each type, and its time is that of its status."""
        assert expected == conditions.upsert((a_condition(F),), kind, verdict, generation=2, now=LATER)


@pytest.mark.parametrize(
    ("component", "expected"),
    [("fractiond", "FractiondReady"), ("mpsd", "MpsdReady"), ("Already", "AlreadyReady"), ("", "Ready")],
)
def test_component_type(component: str, expected: str) -> None:
    """A component's condition begins with a capital."""
    assert expected == conditions.component_type(component)


class TestForeignText:
    def test_one_line(self) -> None:
        """Foreign text becomes one line of printable characters."""
        assert conditions.line("a\n\tb\x1b[31m  c ") == "a b [31m c"

    def test_not_cut(self) -> None:
        """What just fits stays whole."""
        assert conditions.line("x" * 1024) == "x" * 1024

    def test_cut(self) -> None:
        """Foreign text is cut to what a person reads."""
        found = conditions.line("x" * 5000)

        assert (1024, "xxx...") == (len(found), found[-6:])

    @pytest.mark.parametrize(
        ("count", "expected"),
        [(1, "n0"), (5, "n0, n1, n2, n3, n4"), (6, "n0, n1, n2, n3, n4 and 1 more")],
    )
    def test_some(self, count: int, expected: str) -> None:
        """Of many names five are told."""
        assert expected == conditions.some([f"n{place}" for place in range(count)])

    def test_some_of_long_ones(self) -> None:
        """Of long names fewer are told."""
        assert conditions.some(["a", "b", "c"], most=2) == "a, b and 1 more"
