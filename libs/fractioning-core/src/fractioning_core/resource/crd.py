"""
The CustomResourceDefinition, built from the types.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fractioning_core.resource import identity, kinds, sections
from fractioning_core.resource.spec import Spec
from fractioning_core.resource.status import Status

NAME = f"{identity.PLURAL}.{identity.GROUP}"


def manifest() -> Mapping[str, Any]:
    """
    Give the whole definition, without a status.
    """
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME},
        "spec": {
            "group": identity.GROUP,
            "names": {
                "kind": identity.KIND,
                "listKind": identity.LIST_KIND,
                "plural": identity.PLURAL,
                "singular": identity.SINGULAR,
                "shortNames": [identity.SHORT_NAME],
            },
            "scope": "Cluster",
            "versions": [_version()],
        },
    }


def _version() -> Mapping[str, Any]:
    return {
        "name": identity.VERSION,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": [
            _condition_column("Ready", "Ready", "status"),
            _condition_column("Reason", "Ready", "reason"),
            _condition_column("Fractiond", "FractiondReady", "status"),
            _condition_column("Mpsd", "MpsdReady", "status"),
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "schema": {"openAPIV3Schema": _schema()},
    }


def _schema() -> Mapping[str, Any]:
    spec, status = sections.section(Spec).schema, sections.section(Status).schema
    return {
        "description": "Configures the fractioning of the cluster's GPUs.",
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": "Version of this schema.", "type": "string"},
            "kind": {"description": f"Always {identity.KIND}.", "type": "string"},
            "metadata": {"type": "object"},
            "spec": {"description": "What is asked for.", **spec},
            "status": {"description": "What the controller found.", **status},
        },
        kinds.RULES: [
            {
                "rule": f"self.metadata.name == '{identity.NAME}'",
                "message": f"{identity.KIND} must be named '{identity.NAME}'",
            }
        ],
    }


def _condition_column(name: str, condition: str, field: str) -> Mapping[str, Any]:
    return {"name": name, "type": "string", "jsonPath": f'.status.conditions[?(@.type=="{condition}")].{field}'}
