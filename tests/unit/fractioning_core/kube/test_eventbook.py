from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from fractioning_core.kube import eventbook
from fractioning_core.kube.eventbook import (
    AGGREGATION,
    QUEUE_LIMIT,
    EventBook,
    Heard,
    ObjectReference,
    Telling,
    Told,
)

NOW = datetime(2026, 1, 1, tzinfo=UTC)
LATER = NOW + timedelta(seconds=5)
CONFIG = ObjectReference("example.test/v1", "Config", "default", uid="u")
POD = ObjectReference("v1", "Pod", "p", namespace="a")


def telling(message: str = "m", *, about: ObjectReference = CONFIG) -> Telling:
    return Telling(about, "Warning", "Broken", message)


class TestWaiting:
    """
    What waits to be told.
    """

    def test_order(self) -> None:
        """
        What has waited longest is told first.
        """
        book = EventBook()
        for message in ("a", "b"):
            book.hear(telling(message), NOW)

        assert [(telling("a"), Heard(1, NOW, NOW)), (telling("b"), Heard(1, NOW, NOW)), None] == [
            book.next(),
            book.next(),
            book.next(),
        ]

    def test_same(self) -> None:
        """
        The same news waits once, and is counted.
        """
        book = EventBook()
        book.hear(telling(), NOW)
        book.hear(telling(), LATER)

        assert [(telling(), Heard(2, NOW, LATER)), None] == [book.next(), book.next()]

    def test_full(self) -> None:
        """
        When too much waits the oldest is dropped, and that is counted.
        """
        book = EventBook()
        for number in range(QUEUE_LIMIT + 2):
            book.hear(telling(str(number)), NOW)

        assert (2, (telling("2"), Heard(1, NOW, NOW))) == (book.dropped, book.next())

    def test_put_back(self) -> None:
        """
        What could not be told is first again, with what was heard meanwhile.
        """
        book = EventBook()
        book.hear(telling("a"), NOW)
        book.hear(telling("b"), NOW)
        first = book.next()
        assert first is not None
        book.hear(telling("a"), LATER)
        book.put_back(*first)

        assert [(telling("a"), Heard(2, NOW, LATER)), (telling("b"), Heard(1, NOW, NOW)), None] == [
            book.next(),
            book.next(),
            book.next(),
        ]

    def test_put_back_when_full(self) -> None:
        """
        What could not be told is the oldest, so it is dropped when others took its place.
        """
        book = EventBook()
        book.hear(telling("first"), NOW)
        first = book.next()
        assert first is not None
        for number in range(QUEUE_LIMIT):
            book.hear(telling(str(number)), NOW)
        book.put_back(*first)

        assert (1, (telling("0"), Heard(1, NOW, NOW))) == (book.dropped, book.next())


class TestTold:
    """
    What was told before.
    """

    @pytest.mark.parametrize(
        ("age", "is_found"),
        [
            pytest.param(timedelta(0), True, id="just now"),
            pytest.param(AGGREGATION - timedelta(seconds=1), True, id="in the last ten minutes"),
            pytest.param(AGGREGATION, False, id="longer ago"),
        ],
    )
    def test_age(self, age: timedelta, *, is_found: bool) -> None:
        """
        For ten minutes the same is counted at the event that is there.
        """
        book = EventBook()
        told = Told("name", Heard(1, NOW, NOW))
        book.tell(telling(), told)

        assert (told if is_found else None) == book.told_before(telling(), NOW + age)

    def test_forgotten(self) -> None:
        """
        An event that the server has no longer is not found.
        """
        book = EventBook()
        book.tell(telling(), Told("name", Heard(1, NOW, NOW)))
        book.forget(telling())

        assert book.told_before(telling(), NOW) is None

    def test_bound(self) -> None:
        """
        Of what was told, the oldest is forgotten when it is too much.
        """
        book = EventBook()
        for number in range(600):
            book.tell(telling(str(number)), Told("name", Heard(1, NOW, NOW)))

        assert [True, False] == [book.told_before(telling(each), NOW) is None for each in ("0", "599")]


class TestManifest:
    """
    An event as the server wants it.
    """

    def test_cluster_scoped(self) -> None:
        """
        News of an object of the cluster is told in the default namespace.
        """
        manifest = eventbook.manifest_of(telling(), Heard(2, NOW, LATER), component="controller")
        name = manifest["metadata"].pop("name")

        assert {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": "default"},
            "involvedObject": {"apiVersion": "example.test/v1", "kind": "Config", "name": "default", "uid": "u"},
            "type": "Warning",
            "reason": "Broken",
            "message": "m",
            "source": {"component": "controller"},
            "reportingComponent": "controller",
            "firstTimestamp": "2026-01-01T00:00:00Z",
            "lastTimestamp": "2026-01-01T00:00:05Z",
            "count": 2,
        } == manifest
        assert name.startswith("default.")

    def test_namespaced(self) -> None:
        """
        News of any other object is told in its namespace.
        """
        manifest = eventbook.manifest_of(telling(about=POD), Heard(1, NOW, NOW), component="controller")

        assert ("a", "a") == (manifest["metadata"]["namespace"], manifest["involvedObject"]["namespace"])

    def test_long(self) -> None:
        """
        A long message and a long name are cut to what the server takes.
        """
        long = telling("x" * 5000, about=ObjectReference("v1", "Node", "n" * 253))
        manifest = eventbook.manifest_of(long, Heard(1, NOW, NOW), component="controller")

        assert (1024, 253) == (len(manifest["message"]), len(manifest["metadata"]["name"]))

    def test_names_differ(self) -> None:
        """
        Other news, or the same at another time, is another event.
        """
        tellings = [telling(), telling("n"), telling(about=POD)]
        names = {eventbook.name_of(each, Heard(1, at, at)) for each in tellings for at in (NOW, LATER)}

        assert 6 == len(names)
