"""
Short programs that prepare or look: run to their end, with their error as an exception.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from lab.errors import CommandFailed


async def run(*argv: str | Path) -> str:
    """
    Run a program; gives its standard output.

    Raises:
        CommandFailed: It ended with an error.
    """
    words = tuple(map(str, argv))
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    output, errors = await process.communicate()
    if process.returncode:
        raise CommandFailed(words, process.returncode, (errors or output).decode(errors="replace"))
    return output.decode(errors="replace")
