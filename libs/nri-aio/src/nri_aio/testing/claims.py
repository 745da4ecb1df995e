"""
The conflicts between plugins, decided as runtimes do: whoever sets what another one set fails the creation.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from nri_aio.pb import nri_pb2 as pb


@attrs.frozen
class Conflict:
    """Two plugins, or one twice, set the same thing."""

    first: str
    second: str
    key: str

    def __str__(self) -> str:
        return f'plugins "{self.first}" and "{self.second}" both tried to set {self.key}'


class Claims:
    """Who set what in the creation of one container."""

    def __init__(self) -> None:
        self._owners: dict[str, str] = {}

    def add(self, plugin: str, adjust: pb.ContainerAdjustment) -> Conflict | None:
        """Note one plugin's adjustment; "-key" withdraws earlier claims. Gives the first conflict."""
        keys = list(_keys(adjust))
        for noun, key in keys:
            if key.startswith("-"):
                self._owners.pop(f"{noun} {key[1:]}", None)
        for noun, key in keys:
            if key.startswith("-"):
                continue
            claim = f"{noun} {key}"
            if claim in self._owners:
                return Conflict(self._owners[claim], plugin, claim)
            self._owners[claim] = plugin
        return None


def _keys(adjust: pb.ContainerAdjustment) -> Iterator[tuple[str, str]]:
    yield from (("env", variable.key) for variable in adjust.env)
    yield from (("mount", mount.destination) for mount in adjust.mounts)
    yield from (("annotation", key) for key in adjust.annotations)
    yield from (("device", device.path) for device in adjust.linux.devices)
    yield from (("rlimit", limit.type) for limit in adjust.rlimits)
