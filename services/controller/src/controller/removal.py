"""
Removes the resource while a controller is still there to clean up after it.

The resource has a finalizer, so without a controller its deletion would never end. A hook before an uninstallation
runs this. An uninstallation must not hang or fail on it either: after a while, or where the API server refuses, it is
said what to do by hand, and that is all.
"""

from __future__ import annotations

import asyncio

import structlog
from fractioning_core import resource
from fractioning_core.errors import InvalidInput, ProtocolViolation, Unavailable
from fractioning_core.kube.objects import Objects

from controller import manifests
from controller.configreading import CONFIGS

POLL_SECONDS = 1.0

BY_HAND = (
    f"kubectl patch {resource.PLURAL} {resource.NAME} --type=merge -p "
    """'{"metadata":{"finalizers":null}}' ends the deletion; node conditions and labels of ours then stay"""
)

_PATH = CONFIGS.item_path(resource.NAME)


async def remove(objects: Objects, *, timeout_seconds: float) -> bool:
    """
    Delete the resource and wait until it is gone.

    Args:
        objects: The API server.
        timeout_seconds: How long all of it may take.

    Returns:
        Whether it is gone; it is logged why not.
    """
    log = structlog.get_logger()
    attempt = _Attempt(objects)
    try:
        async with asyncio.timeout(timeout_seconds):
            await attempt.run()
    except TimeoutError:
        log.warning("config_not_removed", after_seconds=timeout_seconds, cause=attempt.waits_for, by_hand=BY_HAND)
        return False
    log.info("config_removed", config=resource.NAME)
    return True


class _Attempt:
    """
    Asks until it is done, and remembers what it waits for.
    """

    def __init__(self, objects: Objects) -> None:
        self.waits_for = "no answer from the API server"
        self._objects = objects
        self._uid: str | None = None

    async def run(self) -> None:
        while True:
            try:
                if await self._is_gone():
                    return
            except (Unavailable, InvalidInput, ProtocolViolation) as error:
                self.waits_for = str(error)
            await asyncio.sleep(POLL_SECONDS)

    async def _is_gone(self) -> bool:
        found = await self._objects.get(_PATH)
        uid = manifests.text(found, "metadata", "uid")
        if found is None or self._uid not in {None, uid}:
            # Whoever has made another one meanwhile wants to have it.
            return True
        self._uid = uid
        if not manifests.text(found, "metadata", "deletionTimestamp"):
            await self._objects.delete(_PATH, uid=uid)
        self.waits_for = f"its finalizers: {', '.join(found['metadata'].get('finalizers') or ('none',))}"
        return False
