from __future__ import annotations

from typing import Any

import attrs
import pytest
from fractioning_core import resource
from fractioning_core.resource import Condition, FractioningAgent, MpsDaemon, Spec, Toleration, fields, kinds, sections
from fractioning_core.resource.kinds import Problems
from fractioning_core.resource.problems import Problem
from fractioning_core.resource.sections import Rule
from hypothesis import given
from hypothesis import strategies as st

SECONDS = st.integers(1, 10**9).map(lambda milliseconds: milliseconds / 1000)
LEVELS = st.sampled_from(fields.LOG_LEVELS)
COUNTS = st.integers(0, 2**31 - 1)

SPECS = st.builds(
    Spec,
    node_selector=st.dictionaries(st.from_regex(r"[a-z]{1,9}", fullmatch=True), st.sampled_from(["", "a", "b.C"])),
    tolerations=st.lists(
        st.builds(Toleration, key=st.none() | st.just("") | st.just("gpu"), toleration_seconds=st.none() | COUNTS)
    ).map(tuple),
    runtime_class_name=st.none() | st.sampled_from(["", "nvidia"]),
    fractioning_agent=st.none()
    | st.builds(
        FractioningAgent,
        annotation_prefix=st.sampled_from(["", "a.example/b."]),
        fail_open=st.none() | st.booleans(),
        nri_socket_path=st.sampled_from(["", "/run/nri/nri.sock"]),
        retroactive_enforcement=st.booleans(),
        log_level=LEVELS,
        retry_interval_seconds=st.none() | SECONDS,
        max_retries=st.none() | COUNTS,
        readiness_port=st.none() | st.integers(1, 65535),
    ),
    mps_daemon=st.none()
    | st.builds(
        MpsDaemon,
        log_level=LEVELS,
        backoff_seconds=st.none() | SECONDS,
        max_retries=st.none() | COUNTS,
        graceful_stop_delay_seconds=st.none() | st.just(0.0) | SECONDS,
    ),
)


@attrs.frozen
class Pair:
    """A section with a rule of its own."""

    low: int | None = fields.optional_integer("low", "One end.")
    high: int | None = fields.optional_integer("high", "The other end.")


ORDERED = Rule[Pair](
    "self.low <= self.high", "is upside down", "low below high", lambda pair: (pair.low or 0) <= (pair.high or 0)
)
PAIR = sections.section(Pair, ORDERED)


class TestRule:
    @pytest.mark.parametrize(
        ("value", "problems"),
        [
            pytest.param({"low": 1, "high": 2}, [], id="it holds"),
            pytest.param({"low": 2, "high": 1}, [Problem("at", None, "is upside down", "low below high")], id="broken"),
            pytest.param(
                {"low": 2, "high": "1"},
                [Problem("at.high", "1", "is not a whole number", kinds.integer().accepted)],
                id="a field is unusable, so the rule is not asked",
            ),
        ],
    )
    def test_read(self, value: object, problems: Problems) -> None:
        """A rule is asked about a section whose fields are right."""
        found: Problems = []
        PAIR.read(value, "at", found)

        assert problems == found

    def test_schema(self) -> None:
        """The API server gets the rule with what is wrong and what is right."""
        rules = PAIR.schema["x-kubernetes-validations"]

        assert [{"rule": "self.low <= self.high", "message": "is upside down; accepted: low below high"}] == rules


class TestWrite:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            pytest.param(Toleration(), {}, id="nothing"),
            pytest.param(
                Toleration(key="", operator="Exists", toleration_seconds=0),
                {"key": "", "operator": "Exists", "tolerationSeconds": 0},
                id="empty and zero are not absent",
            ),
            pytest.param(FractioningAgent(), {}, id="what the API server puts itself"),
            pytest.param(
                FractioningAgent(retroactive_enforcement=False, retry_interval_seconds=90.0),
                {"retroactiveEnforcement": False, "retryInterval": "1m30s"},
                id="switched off",
            ),
            pytest.param(
                Condition("Ready", "True", "X", "", 0, "t"),
                {"type": "Ready", "status": "True", "reason": "X", "message": "", "lastTransitionTime": "t"},
                id="a required field is written though empty",
            ),
        ],
    )
    def test_form(self, value: attrs.AttrsInstance, expected: dict[str, Any]) -> None:
        """A field is written where it says something else than its absence."""
        assert expected == resource.write(value)

    @given(SPECS)
    def test_round_trip(self, spec: Spec) -> None:
        """What is written reads as the same."""
        problems: Problems = []
        read = sections.section(Spec).read(resource.write(spec), "spec", problems)

        assert (spec, []) == (read, problems)
