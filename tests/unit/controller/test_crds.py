from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from controller import crds
from controller.crds import DEFINITIONS, NotApplied, NotEstablished
from fractioning_core.errors import FractioningError
from fractioning_core.kube.errors import Forbidden
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Request
from fractioning_core.resource import crd
from fractioning_core.testing.cluster import FakeCluster

pytestmark = pytest.mark.looptime

NAME = crd.NAME
PATH = DEFINITIONS.item_path(NAME)


def with_conditions(**statuses: str) -> Mapping[str, Any]:
    conditions = [{"type": kind, "status": status, "message": f"{kind}: told"} for kind, status in statuses.items()]
    return {**crd.manifest(), "status": {"conditions": conditions}}


@pytest.fixture
async def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def objects(cluster: FakeCluster) -> Objects:
    return Objects(cluster, field_manager=crds.FIELD_MANAGER)


def refuses(verb: str) -> Forbidden:
    return Forbidden(f"{verb} {PATH}", 403, "no right")


async def bring(objects: Objects) -> FractioningError | None:
    try:
        await crds.bring(objects, crd.manifest())
    except FractioningError as error:
        return error
    return None


class TestBring:
    """
    How the definition comes to the cluster.
    """

    async def test_first(self, cluster: FakeCluster, objects: Objects) -> None:
        """
        It is applied, taking fields from whoever has them, and waited for.
        """
        async with asyncio.TaskGroup() as group:
            bringing = group.create_task(bring(objects))
            await asyncio.sleep(30)
            was_done = bringing.done()
            cluster.put(DEFINITIONS, with_conditions(Established="True"))
        request = cluster.asked[0]

        assert (False, None, f"PATCH {PATH}", {"force": "true", "fieldManager": "gpu-fractioning-crd-upgrader"}) == (
            was_done,
            bringing.result(),
            str(request),
            request.query,
        )

    async def test_again(self, cluster: FakeCluster, objects: Objects) -> None:
        """
        One that is established already costs one look and no wait.
        """
        cluster.put(DEFINITIONS, with_conditions(Established="True"))

        assert (None, 2, 0) == (await bring(objects), len(cluster.asked), asyncio.get_running_loop().time())

    async def test_names_taken(self, cluster: FakeCluster, objects: Objects) -> None:
        """
        Names that are another's end the wait with the server's message.
        """
        cluster.put(DEFINITIONS, with_conditions(NamesAccepted="False", Established="False"))

        assert NotEstablished(NAME, "NamesAccepted: told") == await bring(objects)

    async def test_never(self, objects: Objects) -> None:
        """
        The wait ends after two minutes.
        """
        error = await bring(objects)

        assert (NotEstablished(NAME, "not within 120 s"), 120) == (error, asyncio.get_running_loop().time())

    async def test_not_allowed(self, cluster: FakeCluster, objects: Objects) -> None:
        """
        What the server says to the apply is told.
        """
        cluster.refuse = lambda request: refuses(request.verb)
        error = await bring(objects)

        assert (NotApplied(NAME, str(refuses("PATCH"))), f"apply CRD {NAME}: ") == (error, str(error)[: len(NAME) + 12])

    async def test_not_to_be_seen(self, cluster: FakeCluster, objects: Objects) -> None:
        """
        A definition that cannot be looked at fails at once.
        """

        def refuse(request: Request) -> FractioningError | None:
            return refuses("GET") if request.verb == "GET" else None

        cluster.refuse = refuse
        error = await bring(objects)

        assert (NotEstablished(NAME, str(refuses("GET"))), 0) == (error, asyncio.get_running_loop().time())


class TestIsEstablished:
    """
    What the conditions say.
    """

    @pytest.mark.parametrize(
        ("definition", "expected"),
        [
            pytest.param(with_conditions(Established="True"), True, id="true"),
            pytest.param(with_conditions(Established="False"), False, id="false"),
            pytest.param(with_conditions(NamesAccepted="True"), False, id="other types only"),
            pytest.param(with_conditions(), False, id="no conditions"),
            pytest.param(crd.manifest(), False, id="no status"),
        ],
    )
    def test_conditions(self, definition: Mapping[str, Any], expected: bool) -> None:  # noqa: FBT001 - a table
        """
        Only Established=True counts.
        """
        assert expected is crds.is_established(definition)


def test_definition_has_no_status() -> None:
    """
    The definition that is applied says nothing about its own state.
    """
    assert "status" not in crd.manifest()
