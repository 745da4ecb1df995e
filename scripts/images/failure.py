"""
The one error of this package: something outside did not do its part, and the text says what to do.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_SHOWN_LINES = 15


class BuildFailed(Exception):  # noqa: N818 - the build failed; that is all there is to it
    """
    An image cannot be made.
    """


def run(
    command: Sequence[str | Path], *, env: Mapping[str, str] | None = None, cwd: Path | None = None, stdin: bytes = b""
) -> bytes:
    """
    Run a program and give what it printed.

    Raises:
        BuildFailed: it is not there, or failed; with the end of what it said.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, env=env, cwd=cwd, input=stdin, capture_output=True, check=False)  # noqa: S603
    except FileNotFoundError as missing:
        raise BuildFailed(f"{words[0]} is not installed") from missing
    if done.returncode:
        said = (done.stderr or done.stdout).decode(errors="replace").strip().splitlines()[-_SHOWN_LINES:]
        raise BuildFailed("\n  ".join([f"{' '.join(words[:3])} … ended with status {done.returncode}:", *said]))
    return done.stdout
