from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from fractioning_core.kube.collections import Key
from fractioning_core.kube.reflection import Reflection
from fractioning_core.kube.watchevents import Bookmark, Changed, Deleted, Event


def color(manifest: Mapping[str, Any]) -> str | None:
    value: str | None = manifest.get("color")
    return value


def changed(name: str, version: str, value: str | None) -> Changed:
    return Changed(Key("", name), version, {"color": value})


@pytest.fixture
def known() -> Reflection[str]:
    """
    A collection with one red object, listed at version 5.
    """
    reflection = Reflection(color)
    reflection.begin_list()
    reflection.collect(changed("a", "3", "red"))
    reflection.end_list("5")
    return reflection


class TestList:
    """
    All that is there.
    """

    def test_half(self, known: Reflection[str]) -> None:
        """
        While a list is collected the old items stay.
        """
        known.begin_list()
        known.collect(changed("b", "9", "blue"))

        assert ({Key("", "a"): "red"}, "", True) == (known.items, known.version, known.is_listing)

    def test_whole(self, known: Reflection[str]) -> None:
        """
        A complete list takes the place of the old items, so that what vanished is gone.
        """
        known.begin_list()
        known.collect(changed("b", "9", "blue"))
        is_other = known.end_list("9")

        assert (True, {Key("", "b"): "blue"}, "9") == (is_other, known.items, known.version)

    def test_deleted_meanwhile(self, known: Reflection[str]) -> None:
        """
        What is deleted while the list comes in is not in it.
        """
        known.begin_list()
        known.collect(changed("b", "9", "blue"))
        known.collect(Deleted(Key("", "b"), "10"))
        known.end_list("10")

        assert {} == known.items

    def test_same(self, known: Reflection[str]) -> None:
        """
        A list that says what is known already is no news.
        """
        known.begin_list()
        known.collect(changed("a", "8", "red"))

        assert not known.end_list("9")

    def test_first(self) -> None:
        """
        The first list is news even if it is empty.
        """
        reflection = Reflection(color)
        reflection.begin_list()

        assert (True, True) == (reflection.end_list("1"), reflection.is_synced)

    def test_broken_off(self, known: Reflection[str]) -> None:
        """
        Of a list that broke off nothing gets into the next one.
        """
        known.begin_list()
        known.collect(changed("b", "9", "blue"))
        known.begin_list()
        known.end_list("10")

        assert {} == known.items

    def test_ends_problem(self, known: Reflection[str]) -> None:
        """
        After a list nothing stands in the way any more.
        """
        known.tell("no right")
        known.begin_list()
        known.collect(changed("a", "8", "red"))

        assert (True, "") == (known.end_list("9"), known.problem)


class TestEvents:
    """
    What happens afterwards.
    """

    @pytest.mark.parametrize(
        ("event", "is_other", "items"),
        [
            pytest.param(changed("a", "6", "blue"), True, {"a": "blue"}, id="changed"),
            pytest.param(changed("a", "6", "red"), False, {"a": "red"}, id="changed in what is not kept"),
            pytest.param(changed("b", "6", "blue"), True, {"a": "red", "b": "blue"}, id="new"),
            pytest.param(changed("b", "6", None), False, {"a": "red"}, id="new and not kept"),
            pytest.param(changed("a", "6", None), True, {}, id="no longer kept"),
            pytest.param(Deleted(Key("", "a"), "6"), True, {}, id="deleted"),
            pytest.param(Deleted(Key("", "b"), "6"), False, {"a": "red"}, id="deleted and unknown"),
            pytest.param(Bookmark("6", ends_initial_events=False), False, {"a": "red"}, id="nothing"),
        ],
    )
    def test_take(self, known: Reflection[str], *, event: Event, is_other: bool, items: dict[str, str]) -> None:
        """
        Only what is kept counts as a change; the version moves on in any case.
        """
        was_other = known.take(event)

        assert (is_other, {Key("", name): value for name, value in items.items()}, "6") == (
            was_other,
            known.items,
            known.version,
        )


class TestTrust:
    """
    How far the items can be trusted.
    """

    def test_problem(self, known: Reflection[str]) -> None:
        """
        A problem is news once; the items stay.
        """
        assert [True, False, True] == [known.tell("no right"), known.tell("no right"), known.tell("")]
        assert {Key("", "a"): "red"} == known.items

    def test_absent(self, known: Reflection[str]) -> None:
        """
        A collection that does not exist has no items, is not synced, and that is news once.
        """
        assert [True, False] == [known.forget(), known.forget()]
        assert ({}, "", True, False) == (known.items, known.version, known.is_absent, known.is_synced)

    def test_expired(self, known: Reflection[str]) -> None:
        """
        A version that is too old is forgotten; the items stay until the next list.
        """
        known.expire()

        assert ("", {Key("", "a"): "red"}, True) == (known.version, known.items, known.is_synced)
