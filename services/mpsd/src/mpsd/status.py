"""
The command `mpsd status`: asks the mpsd of this node and prints what it says.

Ends with 0 when that mpsd is ready, 1 when it is not, 2 when none answers.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.metadata import version

import attrs
from fractioning_core.errors import FractioningError
from fractioning_core.rpc.mpsclient import MpsClient
from fractioning_core.rpc.mpsvalues import MpsStatus
from fractioning_core.service import settings
from fractioning_core.service.problems import BadSettings
from fractioning_core.service.settings import Answered

from mpsd import statuspage
from mpsd.settings import Settings

PROGRAM = "mpsd status"
EXIT_READY = 0
EXIT_NOT_READY = 1
EXIT_NO_ANSWER = 2


@attrs.frozen
class StatusSettings:
    """
    The settings of the command.
    """

    rpc_socket: str = settings.path(
        "rpc-socket",
        env="MPS_RPC_SOCKET",
        default=Settings().rpc_socket,
        help="unix socket of the mpsd to ask",
    )
    """Only root may use it."""

    as_json: bool = settings.boolean("json", default=False, help="print everything as one JSON object")
    """For programs; its keys are those of mps.v1."""


def main(argv: Sequence[str], environ: Mapping[str, str] = os.environ) -> int:
    """
    Run the command.

    Args:
        argv: The arguments behind `mpsd status`.
        environ: The environment.

    Returns:
        The exit status.
    """
    try:
        chosen = settings.load(StatusSettings, program=PROGRAM, version=version("mpsd"), argv=argv, environ=environ)
    except Answered as answer:
        sys.stdout.write(answer.text)
        return EXIT_READY
    except BadSettings as bad:
        sys.stderr.write(f"{bad}\n{PROGRAM} --help lists every setting\n")
        return EXIT_NO_ANSWER
    try:
        status = asyncio.run(_ask(chosen.rpc_socket))
    except FractioningError as error:
        sys.stderr.write(f"{PROGRAM}: {error}\n")
        return EXIT_NO_ANSWER
    sys.stdout.write(_as_json(status) if chosen.as_json else statuspage.render(status))
    return EXIT_READY if status.ready else EXIT_NOT_READY


async def _ask(path: str) -> MpsStatus:
    async with MpsClient.at(path) as client:
        return await client.status()


def _as_json(status: MpsStatus) -> str:
    return json.dumps(attrs.asdict(status), indent=2) + "\n"
