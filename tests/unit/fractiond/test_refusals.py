"""Which refusals were logged before."""

from __future__ import annotations

from fractiond import refusals
from fractiond.refusals import Refusals


class TestRefusals:
    def test_the_first_time_is_new_and_a_retry_is_not(self) -> None:
        """The kubelet's retries of one container are one line of the log."""
        seen = Refusals()

        assert [True, False, False] == [seen.is_new("uid-1", "no limit") for _ in range(3)]

    def test_another_text_about_the_same_pod_is_new(self) -> None:
        """A second container of the pod, or another mistake, is said too."""
        seen = Refusals()
        seen.is_new("uid-1", "no limit")

        assert seen.is_new("uid-1", "no mode")

    def test_the_same_text_about_another_pod_is_new(self) -> None:
        """A pod that was made anew with the same mistake is said again."""
        seen = Refusals()
        seen.is_new("uid-1", "no limit")

        assert seen.is_new("uid-2", "no limit")

    def test_memory_is_bounded_and_the_oldest_goes_first(self) -> None:
        """A crowd of refused pods costs a fixed amount, and at worst a line said twice."""
        seen = Refusals()
        for number in range(refusals.MAX_REMEMBERED + 1):
            seen.is_new(f"uid-{number}", "x")

        assert refusals.MAX_REMEMBERED == len(seen._seen)
        assert [False, True] == [seen.is_new("uid-1", "x"), seen.is_new("uid-0", "x")]
