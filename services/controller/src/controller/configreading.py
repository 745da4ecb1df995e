"""
The resource as it was last read, with what is wrong with it.

A resource that cannot be used as a whole is still one: it is told so on its conditions, and it can be deleted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
from fractioning_core import resource
from fractioning_core.kube.collections import Collection
from fractioning_core.resource import Config, InvalidResource

CONFIGS = Collection(resource.GROUP, resource.VERSION, resource.PLURAL)


@attrs.frozen
class ConfigReading:
    """
    One GpuFractioningConfig.

    Args:
        config: As much of it as can be used.
        problem: What cannot be used, and why; empty for nothing.
    """

    config: Config
    problem: str = ""

    @classmethod
    def from_manifest(cls, manifest: Mapping[str, Any]) -> ConfigReading:
        """
        Read it as the API server has it.
        """
        try:
            return cls(resource.read(manifest))
        except InvalidResource as error:
            return cls(error.config, str(error))
