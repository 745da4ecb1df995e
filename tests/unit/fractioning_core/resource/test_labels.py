from __future__ import annotations

import pytest
from fractioning_core.resource import labels
from fractioning_core.resource.kinds import Problems


class TestLabels:
    @pytest.mark.parametrize(
        "value",
        [
            pytest.param({}, id="none"),
            pytest.param({"nvidia.com/gpu.present": "true"}, id="with a domain"),
            pytest.param({"a": ""}, id="empty value"),
            pytest.param({"A" * 63: "b" * 63}, id="longest"),
            pytest.param({f"{'a' * 253}/b": "c"}, id="longest domain"),
            pytest.param({f"k{number}": "" for number in range(64)}, id="most"),
        ],
    )
    def test_taken(self, value: dict[str, str]) -> None:
        """What an object can have as labels is taken as it is."""
        problems: Problems = []

        assert (value, []) == (labels.kind().read(value, "here", problems), problems)

    @pytest.mark.parametrize(
        ("value", "path", "reason"),
        [
            pytest.param({"a": 1}, "here.a", "is not a text", id="number for a value"),
            pytest.param({"a": "b", "c d": ""}, "here.c d", "is not a label", id="space in a key"),
            pytest.param({"": ""}, "here.", "is not a label", id="empty key"),
            pytest.param({"/a": ""}, "here./a", "is not a label", id="empty domain"),
            pytest.param({"A/b": ""}, "here.A/b", "is not a label", id="upper-case domain"),
            pytest.param({"a": "true "}, "here.a", "is not a label", id="space in a value"),
            pytest.param({"a": "-b"}, "here.a", "is not a label", id="dash first"),
            pytest.param({"a": "b" * 64}, "here.a", "is not a label", id="long value"),
            pytest.param({"a" * 64: ""}, f"here.{'a' * 64}", "is not a label", id="long key"),
            pytest.param({f"{'a' * 254}/b": ""}, f"here.{'a' * 254}/b", "is not a label", id="long domain"),
            pytest.param({f"k{number}": "" for number in range(65)}, "here", "labels are too many", id="too many"),
        ],
    )
    def test_refused(self, value: dict[str, object], path: str, reason: str) -> None:
        """One label that no object can have makes all of them unusable."""
        problems: Problems = []
        read = labels.kind().read(value, "here", problems)

        assert (None, [(path, reason)]) == (read, [(problem.path, problem.reason) for problem in problems])
