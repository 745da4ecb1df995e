"""
A stand-in for the job controller and the kubelet: runs each Job's container once, as its ServiceAccount, and says how
that went. Helm waits for it when a hook is a Job.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from fractioning_core.errors import FractioningError
from fractioning_core.kube.collections import Collection, Key
from fractioning_core.kube.mirror import Mirror
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Transport

from apilab import containers
from apilab.controlplane import ControlPlane
from apilab.kubelets import TIMES

JOBS = Collection("batch", "v1", "jobs")
_RUN_SECONDS = 150.0


class Jobs:
    """
    Runs Jobs while entered.

    Args:
        plane: The cluster.
        admin: The way in.
        directory: Where the containers' files and output go.
    """

    def __init__(self, plane: ControlPlane, admin: Transport, *, directory: Path) -> None:
        self.outputs: dict[str, str] = {}
        """
        What each Job that has ended had written, by name; of the last one where several were called so.
        """
        self._plane = plane
        self._admin = admin
        self._objects = Objects(admin, field_manager="jobs-of-the-lab")
        self._directory = directory
        self._news = asyncio.Event()
        self._jobs = Mirror(admin, JOBS, select=_select, changed=self._news.set, times=TIMES)
        self._taken: set[str] = set()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._jobs.run()), loop.create_task(self._run())]
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _run(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            for key, job in tuple(self._jobs.items.items()):
                uid = job["metadata"]["uid"]
                if uid not in self._taken:
                    self._taken.add(uid)
                    await self._run_one(key, job)

    async def _run_one(self, key: Key, job: Mapping[str, Any]) -> None:
        started = await containers.prepare(
            job["spec"]["template"],
            namespace=key.namespace,
            plane=self._plane,
            admin=self._admin,
            directory=self._directory,
        )
        async with started.service as service:
            code = await service.wait(timeout_seconds=_RUN_SECONDS)
            self.outputs[key.name] = service.output()
        path = JOBS.within(key.namespace).subresource(key.name, "status")
        # It may have been deleted meanwhile.
        with suppress(FractioningError):
            await self._objects.merge_patch(path, {"status": _status(code)})


def _select(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return None if manifest.get("status", {}).get("conditions") else manifest


def _status(code: int) -> Mapping[str, Any]:
    now = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    kinds = ("FailureTarget", "Failed") if code else ("SuccessCriteriaMet", "Complete")
    reason = {"reason": "BackoffLimitExceeded", "message": f"exit status {code}"} if code else {}
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now, **reason} for kind in kinds
    ]
    counts = {"failed": 1} if code else {"succeeded": 1, "completionTime": now}
    return {"startTime": now, "conditions": conditions, **counts}
