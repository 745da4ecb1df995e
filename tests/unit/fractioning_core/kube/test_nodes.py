from __future__ import annotations

from collections.abc import Mapping

import pytest
from fractioning_core.kube.errors import InvalidNodeName, NotFound
from fractioning_core.kube.nodes import Nodes
from fractioning_core.kube.transport import Transport
from fractioning_core.testing.apiserver import FakeApiServer, refuse


@pytest.fixture
def nodes(api: Transport) -> Nodes:
    return Nodes(api, field_manager="tests")


class TestPatch:
    """
    Labels and annotations of one node.
    """

    @pytest.mark.parametrize(
        ("labels", "annotations", "metadata"),
        [
            pytest.param({"a.test/b": "615"}, {}, {"labels": {"a.test/b": "615"}}, id="a label"),
            pytest.param({"a.test/b": None}, {}, {"labels": {"a.test/b": None}}, id="a label to remove"),
            pytest.param({}, {"a.test/c": "text"}, {"annotations": {"a.test/c": "text"}}, id="an annotation"),
            pytest.param(
                {"a.test/b": "615"},
                {"a.test/c": None},
                {"labels": {"a.test/b": "615"}, "annotations": {"a.test/c": None}},
                id="both",
            ),
        ],
    )
    async def test_patch(
        self,
        nodes: Nodes,
        server: FakeApiServer,
        labels: Mapping[str, str | None],
        annotations: Mapping[str, str | None],
        metadata: Mapping[str, object],
    ) -> None:
        """
        The server sees one merge patch of those alone, and who manages them.
        """
        await nodes.patch("node-a.example.test", labels=labels, annotations=annotations)
        (seen,) = server.seen

        assert (
            "PATCH",
            "/api/v1/nodes/node-a.example.test",
            {"fieldManager": "tests"},
            "application/merge-patch+json",
            {"metadata": metadata},
        ) == (seen.verb, seen.path, seen.query, seen.headers["Content-Type"], seen.body)

    async def test_no_such_node(self, nodes: Nodes, server: FakeApiServer) -> None:
        """
        A node that does not exist is an error.
        """
        server.answers = [refuse(404, 'nodes "node-b" not found')]

        with pytest.raises(NotFound) as raised:
            await nodes.patch("node-b", labels={"k": "v"})

        assert NotFound("PATCH /api/v1/nodes/node-b", 404, 'nodes "node-b" not found') == raised.value

    @pytest.mark.parametrize(
        "name",
        [
            pytest.param("", id="empty"),
            pytest.param("Node", id="a capital letter"),
            pytest.param("a/../../secrets", id="a way out of the path"),
            pytest.param("a?x=y", id="a query"),
            pytest.param("-a", id="a dash in front"),
            pytest.param("a\n", id="a line end"),
            pytest.param("a" * 254, id="too long"),
        ],
    )
    async def test_impossible_name(self, nodes: Nodes, server: FakeApiServer, name: str) -> None:
        """
        A name that no node can have is refused without asking the server.
        """
        with pytest.raises(InvalidNodeName) as raised:
            await nodes.patch(name, labels={"k": "v"})

        assert (InvalidNodeName(name), []) == (raised.value, server.seen)
