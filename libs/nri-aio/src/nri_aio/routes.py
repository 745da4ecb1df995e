"""
Connects a plugin's handlers to the methods by which runtimes ask for them, in both forms the versions use.
"""

from __future__ import annotations

from nri_aio import methods
from nri_aio.pb import nri_pb2 as pb
from nri_aio.plugin import Call, Plugin
from nri_aio.registration import Registration
from nri_aio.serving import Route
from nri_aio.snapshot import Part


def build(plugin: Plugin, registration: Registration) -> dict[str, Route]:
    """Give the route of every method that any runtime calls; events not subscribed to are answered with no change."""
    routes = {
        method.name: Route(method.request.FromString, getattr(plugin, method.handler), method.response)
        for method in methods.METHODS
    }
    routes["StateChange"] = _state_change(plugin)
    routes["Configure"] = Route(
        pb.ConfigureRequest.FromString,
        registration.configure,
        pb.ConfigureResponse,
        registration.settle_configure,
    )
    routes["Synchronize"] = Route(
        Part.decode,
        registration.synchronize,
        pb.SynchronizeResponse,
        registration.settle_synchronize,
    )
    routes["Shutdown"] = Route(pb.Empty.FromString, lambda _request, _call: plugin.shutdown(), pb.Empty)
    return routes


def _state_change(plugin: Plugin) -> Route:
    handlers = {method.event: getattr(plugin, method.handler) for method in methods.CHANGES}

    def handle(request: pb.StateChangeEvent, call: Call) -> object:
        handler = handlers.get(request.event)
        # An event of a later version: nobody subscribed to it, and an error could fail a pod.
        return handler(request, call) if handler else None

    return Route(pb.StateChangeEvent.FromString, handle, pb.Empty)
