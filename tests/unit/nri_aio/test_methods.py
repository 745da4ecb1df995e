from __future__ import annotations

from nri_aio import Plugin, methods
from nri_aio.pb import nri_pb2 as pb
from nri_aio.registration import wanted_events


class TestMethods:
    """The table of requests."""

    def test_every_event_has_one_row(self) -> None:
        """All events of NRI are there, each once, under its own name."""
        expected = {number: name for name, number in pb.Event.items() if number}

        assert expected == {row.event: row.handler.upper() for row in methods.METHODS}

    def test_names_follow_the_handlers(self) -> None:
        """A handler is named like its request."""
        assert [row.name for row in methods.METHODS] == [
            "".join(word.capitalize() for word in row.handler.split("_")) for row in methods.METHODS
        ]

    def test_every_handler_is_in_the_base_class(self) -> None:
        """What can be subscribed to can be overridden."""
        assert all(callable(getattr(Plugin, row.handler)) for row in methods.METHODS)

    def test_every_request_is_in_the_service(self) -> None:
        """The names are those of the protocol's service."""
        service = pb.DESCRIPTOR.services_by_name["Plugin"]

        assert {row.name for row in methods.METHODS} < {method.name for method in service.methods}


class TestWantedEvents:
    """The subscription of a plugin."""

    def test_base_class_wants_nothing(self) -> None:
        """What is not overridden is not subscribed to."""
        assert 0 == wanted_events(Plugin())

    def test_inherited_override_counts(self) -> None:
        """A handler may come from any class between."""

        class Parent(Plugin):
            def create_container(self, request: object, call: object) -> None:
                """Do nothing."""

        class Child(Parent):
            def remove_pod_sandbox(self, request: object, call: object) -> None:
                """Do nothing."""

        assert 0x000C == wanted_events(Child())
