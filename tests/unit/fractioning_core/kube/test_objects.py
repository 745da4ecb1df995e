from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fractioning_core.kube.errors import Conflict, Forbidden
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Transport
from fractioning_core.testing.apiserver import FakeApiServer, refuse

PATH = "/apis/apps/v1/namespaces/a/daemonsets/d"
COLLECTION = "/apis/apps/v1/namespaces/a/daemonsets"
MANIFEST = {"metadata": {"name": "d"}}
BY_US = {"fieldManager": "tests"}


@pytest.fixture
def objects(api: Transport) -> Objects:
    return Objects(api, field_manager="tests")


class TestRequests:
    """
    What the server sees.
    """

    @pytest.mark.parametrize(
        ("ask", "seen"),
        [
            pytest.param(lambda objects: objects.get(PATH), ("GET", PATH, {}, "application/json", None), id="get"),
            pytest.param(
                lambda objects: objects.create(COLLECTION, MANIFEST),
                ("POST", COLLECTION, BY_US, "application/json", MANIFEST),
                id="create",
            ),
            pytest.param(
                lambda objects: objects.apply(PATH, MANIFEST),
                ("PATCH", PATH, {**BY_US, "force": "true"}, "application/apply-patch+yaml", MANIFEST),
                id="apply",
            ),
            pytest.param(
                lambda objects: objects.apply(PATH, MANIFEST, force=False),
                ("PATCH", PATH, {**BY_US, "force": "false"}, "application/apply-patch+yaml", MANIFEST),
                id="apply what nobody else owns",
            ),
            pytest.param(
                lambda objects: objects.replace(PATH, MANIFEST),
                ("PUT", PATH, BY_US, "application/json", MANIFEST),
                id="replace",
            ),
            pytest.param(
                lambda objects: objects.merge_patch(PATH, {"a": None}),
                ("PATCH", PATH, BY_US, "application/merge-patch+json", {"a": None}),
                id="merge patch",
            ),
            pytest.param(
                lambda objects: objects.strategic_patch(PATH, {"a": [1]}),
                ("PATCH", PATH, BY_US, "application/strategic-merge-patch+json", {"a": [1]}),
                id="strategic patch",
            ),
            pytest.param(
                lambda objects: objects.delete(PATH),
                ("DELETE", PATH, {}, "application/json", {"propagationPolicy": "Background"}),
                id="delete",
            ),
            pytest.param(
                lambda objects: objects.delete(PATH, uid="u", propagation="Foreground"),
                (
                    *("DELETE", PATH, {}, "application/json"),
                    {"propagationPolicy": "Foreground", "preconditions": {"uid": "u"}},
                ),
                id="delete that very object",
            ),
        ],
    )
    async def test_request(
        self,
        objects: Objects,
        server: FakeApiServer,
        ask: Callable[[Objects], Awaitable[object]],
        seen: tuple[Any, ...],
    ) -> None:
        """
        Each is one request, and whatever writes says who.
        """
        await ask(objects)
        (asked,) = server.seen

        assert seen == (asked.verb, asked.path, asked.query, asked.headers["Content-Type"], asked.body)


class TestAnswers:
    """
    What comes back.
    """

    async def test_found(self, objects: Objects) -> None:
        """
        What is read or written comes back as the server has it.
        """
        assert [{"kind": "Node"}] * 2 == [await objects.get(PATH), await objects.apply(PATH, MANIFEST)]

    async def test_missing(self, objects: Objects, server: FakeApiServer) -> None:
        """
        An object that does not exist is none, and deleting it does nothing.
        """
        server.answers = [refuse(404, "not found")]

        assert (None, False) == (await objects.get(PATH), await objects.delete(PATH))

    async def test_deleted(self, objects: Objects) -> None:
        """
        Deleting says that there was one.
        """
        assert await objects.delete(PATH)

    @pytest.mark.parametrize(
        ("status", "kind"), [pytest.param(409, Conflict, id="conflict"), pytest.param(403, Forbidden, id="forbidden")]
    )
    async def test_refused(self, objects: Objects, server: FakeApiServer, status: int, kind: type[Exception]) -> None:
        """
        Any other refusal is an error.
        """
        server.answers = [refuse(status, "no")]

        with pytest.raises(kind):
            await objects.replace(PATH, MANIFEST)
