"""
What we ask of nodes: a few labels and annotations, and nothing else of the object.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote

import attrs

from fractioning_core.kube.errors import InvalidNodeName
from fractioning_core.kube.transport import MERGE_PATCH, METADATA_ONLY, Api, Request

# The names of objects: a DNS subdomain (Kubernetes, "Object Names and IDs").
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
_NONE: Mapping[str, str | None] = {}


@attrs.frozen
class Nodes:
    """
    The cluster's nodes.

    Args:
        api: The API server.
        field_manager: Under which name the server records what we wrote.
    """

    _api: Api
    _field_manager: str = attrs.field(kw_only=True)

    async def patch(
        self, node: str, *, labels: Mapping[str, str | None] = _NONE, annotations: Mapping[str, str | None] = _NONE
    ) -> None:
        """
        Set labels and annotations, or remove them with None, in one request. A merge patch needs the right to patch
        alone, and no reading first.

        Raises:
            InvalidNodeName: No node can be called that.
            NotFound: No node is called that.
            Unavailable: It did not work now.
        """
        if not _NAME.fullmatch(node):
            raise InvalidNodeName(node)
        parts = {"labels": labels, "annotations": annotations}
        request = Request(
            "PATCH",
            f"/api/v1/nodes/{quote(node, safe='')}",
            query={"fieldManager": self._field_manager},
            body={"metadata": {part: dict(values) for part, values in parts.items() if values}},
            content_type=MERGE_PATCH,
            # A node lists its images; of all that only the metadata is sent back.
            accept=METADATA_ONLY,
        )
        await self._api.ask(request)
