"""
What we ask of nodes: one label, and nothing else of the object.
"""

from __future__ import annotations

import re
from urllib.parse import quote

import attrs

from fractioning_core.kube.errors import InvalidNodeName
from fractioning_core.kube.transport import MERGE_PATCH, Request, Transport

# The names of objects: a DNS subdomain (Kubernetes, "Object Names and IDs").
_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
# A node lists its images; of all that only the metadata is sent back.
_METADATA_ONLY = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"


@attrs.frozen
class Nodes:
    """
    The cluster's nodes.

    Args:
        api: The API server.
        field_manager: Under which name the server records what we wrote.
    """

    _api: Transport
    _field_manager: str = attrs.field(kw_only=True)

    async def patch_label(self, node: str, key: str, value: str | None) -> None:
        """
        Set one label, or remove it with None. A merge patch needs the right to patch alone, and no reading first.

        Raises:
            InvalidNodeName: No node can be called that.
            NotFound: No node is called that.
            Unavailable: It did not work now.
        """
        if not _NAME.fullmatch(node):
            raise InvalidNodeName(node)
        request = Request(
            "PATCH",
            f"/api/v1/nodes/{quote(node, safe='')}",
            query={"fieldManager": self._field_manager},
            body={"metadata": {"labels": {key: value}}},
            content_type=MERGE_PATCH,
            accept=_METADATA_ONLY,
        )
        await self._api.ask(request)
