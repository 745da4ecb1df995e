"""What is told in events."""

from __future__ import annotations

import pytest
from controller import events
from controller.actions import EmitEvent
from controller.conditions import FALSE, TRUE
from controller.dependencies import Finding
from controller.memory import Memory
from controller.status import Status
from controller.testing.builders import NOW, a_config
from fractioning_core.resource import Condition

READY = Condition("Ready", TRUE, "AllComponentsReady", "all components are healthy", 1, NOW)
NOT_READY = Condition("Ready", FALSE, "ComponentNotReady", "not ready: MpsdReady", 1, NOW)
UNREADABLE = Condition("Ready", FALSE, "GPUOperatorNotReady", "unable to read", 1, NOW)
FAILED = Condition("MpsdReady", FALSE, "ReconcileError", "denied", 1, NOW)
NONE_OF_TWO = Condition("MpsdReady", FALSE, "RolloutInProgress", "0 of 2 pods ready", 1, NOW)
ONE_OF_TWO = Condition("MpsdReady", FALSE, "PartiallyAvailable", "1 of 2 pods ready", 1, NOW)
TWO_OF_TWO = Condition("MpsdReady", TRUE, "AllPodsReady", "2 of 2 pods ready", 1, NOW)
ERROR = Finding("GPUOperatorNotReady", "unable to read", is_error=True)


class TestTransitions:
    @pytest.mark.parametrize(
        ("before", "after", "finding", "expected"),
        [
            pytest.param(
                (),
                (NOT_READY,),
                None,
                [EmitEvent("Normal", "NotReady", "Ready is False, ComponentNotReady: not ready: MpsdReady")],
                id="first",
            ),
            pytest.param(
                (NOT_READY,),
                (READY,),
                None,
                [EmitEvent("Normal", "Ready", "Ready is True, AllComponentsReady: all components are healthy")],
                id="healed",
            ),
            pytest.param((READY,), (READY,), None, [], id="nothing new"),
            pytest.param(
                (NOT_READY,), (Condition("Ready", FALSE, "ComponentNotReady", "other", 1, NOW),), None, [], id="words"
            ),
            pytest.param(
                (NOT_READY,),
                (FAILED, NOT_READY),
                None,
                [EmitEvent("Warning", "ReconcileError", "mpsd: denied")],
                id="an error",
            ),
            pytest.param((FAILED, NOT_READY), (FAILED, NOT_READY), None, [], id="the same error"),
            pytest.param((NOT_READY,), (ONE_OF_TWO, NOT_READY), None, [], id="a component's first"),
            pytest.param((NONE_OF_TWO, NOT_READY), (ONE_OF_TWO, NOT_READY), None, [], id="a component's pod"),
            pytest.param(
                (ONE_OF_TWO, NOT_READY),
                (TWO_OF_TWO, NOT_READY),
                None,
                [EmitEvent("Normal", "AllPodsReady", "MpsdReady is True: 2 of 2 pods ready")],
                id="a component",
            ),
            pytest.param(
                (READY,),
                (UNREADABLE,),
                ERROR,
                [
                    EmitEvent("Warning", "DependencyCheckError", "unable to read"),
                    EmitEvent("Normal", "NotReady", "Ready is False, GPUOperatorNotReady: unable to read"),
                ],
                id="unreadable",
            ),
            pytest.param((UNREADABLE,), (UNREADABLE,), ERROR, [], id="still unreadable"),
        ],
    )
    def test_table(
        self,
        before: tuple[Condition, ...],
        after: tuple[Condition, ...],
        finding: Finding | None,
        expected: list[EmitEvent],
    ) -> None:
        """A change is told once, when it happens."""
        found = events.iter_events(a_config(conditions=before), Status(after, finding))

        assert expected == list(found)


class TestMode:
    @pytest.mark.parametrize(
        ("name", "before", "after", "is_told"),
        [
            pytest.param("custom", False, True, True, id="entered"),
            pytest.param("custom", None, True, True, id="first seen"),
            pytest.param("custom", True, True, False, id="known"),
            pytest.param("custom", True, False, False, id="left"),
            pytest.param(None, False, True, False, id="no class asked for"),
            pytest.param("", False, True, False, id="no class wanted"),
        ],
    )
    def test_runtime_class(self, *, name: str | None, before: bool | None, after: bool, is_told: bool) -> None:
        """Whoever asked for a RuntimeClass hears that NRI mode has none."""
        config = a_config(runtime_class_name=name)
        found = list(events.iter_mode_events(config, Memory(is_nri=before), Memory(is_nri=after)))

        told = 'spec.runtimeClassName "custom" is not used: the GPU Operator runs its NRI plugin, which deletes it'
        assert ([EmitEvent("Normal", "RuntimeClassNameIgnored", told)] if is_told else []) == found
