"""
The commands that end: `controller apply-crds` and `controller delete-config`, which the chart's hooks run.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import TypeVar

import attrs
from fractioning_core.kube.incluster import Account
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Transport
from fractioning_core.resource import crd
from fractioning_core.service import runner, settings
from fractioning_core.service.problems import BadSettings
from fractioning_core.service.settings import Answered

from controller import crds, removal

S = TypeVar("S", bound="Verbosity")

PROGRAM = "controller"
FIELD_MANAGER = "gpu-fractioning-delete-config"
EXIT_OK = 0
EXIT_USAGE = 1


@attrs.frozen
class Verbosity:
    """
    The settings of `apply-crds`.
    """

    development: bool = settings.boolean("development", default=False, help="log at debug level")
    """As for the controller itself."""

    @property
    def log_level(self) -> str:
        """
        The least level to log.
        """
        return "debug" if self.development else "info"


@attrs.frozen
class RemovalSettings(Verbosity):
    """
    The settings of `delete-config`.
    """

    timeout_seconds: float = settings.duration(
        "timeout",
        default=120.0,
        minimum=0.001,
        help="how long to wait for the resource to be gone; after that it is left, and the command still succeeds",
    )
    """As long as the daemons' pods may take to end."""


def apply_crds(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """
    Run `apply-crds`; give the exit status.
    """
    return _run("apply-crds", Verbosity, _apply_crds, argv, environ)


def delete_config(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """
    Run `delete-config`; give the exit status.
    """
    return _run("delete-config", RemovalSettings, _delete_config, argv, environ)


COMMANDS: Mapping[str, Callable[[Sequence[str]], int]] = {"apply-crds": apply_crds, "delete-config": delete_config}


async def _apply_crds(_: Verbosity, environ: Mapping[str, str]) -> None:
    async with _objects(environ, crds.FIELD_MANAGER) as objects:
        await crds.bring(objects, crd.manifest())


async def _delete_config(chosen: RemovalSettings, environ: Mapping[str, str]) -> None:
    async with _objects(environ, FIELD_MANAGER) as objects:
        await removal.remove(objects, timeout_seconds=chosen.timeout_seconds)


@asynccontextmanager
async def _objects(environ: Mapping[str, str], field_manager: str) -> AsyncIterator[Objects]:
    async with Transport.of_account(Account.from_environ(environ), user_agent=field_manager) as transport:
        yield Objects(transport, field_manager=field_manager)


def _run(
    name: str,
    cls: type[S],
    work: Callable[[S, Mapping[str, str]], Awaitable[None]],
    argv: Sequence[str],
    environ: Mapping[str, str],
) -> int:
    program = f"{PROGRAM} {name}"
    try:
        chosen = settings.load(cls, program=program, version=version(PROGRAM), argv=argv, environ=environ)
    except Answered as answer:
        sys.stdout.write(answer.text)
        return EXIT_OK
    except BadSettings as bad:
        sys.stderr.write(f"{bad}\n{program} --help lists every setting\n")
        return EXIT_USAGE
    return runner.run(
        partial(_unless_stopped, partial(work, chosen, environ)), service=PROGRAM, log_level=chosen.log_level
    )


async def _unless_stopped(work: Callable[[], Awaitable[None]], stop: asyncio.Event) -> None:
    async def run() -> None:
        await work()
        stop.set()

    async with asyncio.TaskGroup() as group:
        working = group.create_task(run(), name="command")
        await stop.wait()
        working.cancel()
