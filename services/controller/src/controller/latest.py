"""
The resource as we know it: as it was read, or as we wrote it when the news of that is still on its way.

Without this a plan that follows at once would see the old conditions, and tell of the same transition again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.configreading import ConfigReading


class Latest:
    """
    Remembers what we wrote.
    """

    def __init__(self) -> None:
        self._written: ConfigReading | None = None
        self._older: set[str] = set()

    def of(self, read: ConfigReading | None) -> ConfigReading | None:
        """
        Give the newer of what was read and what was written.
        """
        written = self._written
        is_older = (
            read is not None
            and written is not None
            and read.config.uid == written.config.uid
            and read.config.resource_version in self._older
        )
        if not is_older:
            self._written, self._older = None, set()
        return written if is_older else read

    def wrote(self, before: ConfigReading, manifest: Mapping[str, Any]) -> ConfigReading:
        """
        Take the resource as a write of ours left it; give it.

        Args:
            before: What it was before the write.
            manifest: The server's answer.
        """
        after = ConfigReading.from_manifest(manifest)
        if after.config.resource_version != before.config.resource_version:
            self._older.add(before.config.resource_version)
            self._written = after
        return after
