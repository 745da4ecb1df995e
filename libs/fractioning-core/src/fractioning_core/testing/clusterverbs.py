"""
What an API server makes of each request but a watch.

Simplified: an apply and a strategic patch merge as a merge patch does, without knowing owners or keys of lists.
"""

from __future__ import annotations

from typing import Any, cast

import attrs

from fractioning_core.kube import errors
from fractioning_core.kube.transport import APPLY_PATCH, Request
from fractioning_core.testing.clusterpaths import Place
from fractioning_core.testing.clusterstore import Manifest, Store, merged


def answer(store: Store, request: Request, place: Place) -> Manifest:
    """
    Do what is asked; raises one of `kube.errors`.
    """
    match request.verb:
        case "GET" if place.name:
            return _found(store, request, place)
        case "GET":
            return _page(store, request, place)
        case "POST":
            return _create(store, request, place)
        case "PUT":
            return _replace(store, request, place)
        case "PATCH":
            return _patch(store, request, place)
        case _:
            return _delete(store, request, place)


def _found(store: Store, request: Request, place: Place) -> Manifest:
    found = store.find(place)
    if found is None:
        raise errors.of_code(str(request), 404, f'{place.kind} "{place.name}" not found')
    return found


def _page(store: Store, request: Request, place: Place) -> Manifest:
    version, _, start = request.query.get("continue", f"{store.version}/0").partition("/")
    if int(version) < store.oldest:
        raise errors.of_code(str(request), 410, "The provided continue parameter is too old")
    found = store.selected(place)
    end = int(start) + int(request.query.get("limit", len(found)))
    token = {"continue": f"{version}/{end}"} if end < len(found) else {}
    return {"items": found[int(start) : end], "metadata": {"resourceVersion": version, **token}}


def _create(store: Store, request: Request, place: Place) -> Manifest:
    manifest = _body(request)
    place = attrs.evolve(place, name=manifest["metadata"]["name"])
    if store.find(place):
        raise errors.of_code(str(request), 409, f'{place.kind} "{place.name}" already exists')
    return store.write(place, manifest)


def _replace(store: Store, request: Request, place: Place) -> Manifest:
    found, manifest = _found(store, request, place), _body(request)
    _check_version(request, manifest, found)
    kept = {**manifest, "metadata": {**manifest["metadata"], "uid": found["metadata"]["uid"]}}
    return _written(store, place, found, kept)


def _patch(store: Store, request: Request, place: Place) -> Manifest:
    patch = _body(request)
    found = store.find(place)
    if found is None and request.content_type == APPLY_PATCH:
        return store.write(place, patch)
    found = _found(store, request, place)
    _check_version(request, patch, found)
    return _written(store, place, found, merged(found, patch))


def _written(store: Store, place: Place, found: Manifest, manifest: Manifest) -> Manifest:
    """
    Write the part that the path names, or all but the status where it names none.
    """
    if place.subresource:
        return store.write(place, {**found, place.subresource: manifest.get(place.subresource)})
    return store.write(place, {**manifest, **({"status": found["status"]} if "status" in found else {})})


def _delete(store: Store, request: Request, place: Place) -> Manifest:
    found = _found(store, request, place)
    wanted = (_body(request).get("preconditions") or {}).get("uid")
    if wanted not in {None, found["metadata"]["uid"]}:
        raise errors.of_code(str(request), 409, "the UID in the precondition is not the object's")
    store.delete(place)
    return {"kind": "Status", "status": "Success"}


def _check_version(request: Request, sent: Manifest, found: Manifest) -> None:
    version = (sent.get("metadata") or {}).get("resourceVersion")
    if version not in {None, "", found["metadata"]["resourceVersion"]}:
        raise errors.of_code(str(request), 409, "the object has been modified")


def _body(request: Request) -> dict[str, Any]:
    return cast("dict[str, Any]", request.body or {})
