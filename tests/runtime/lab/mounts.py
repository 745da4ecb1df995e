"""
A program that finds some directories at other paths, as in a container, where nobody else finds them.

    argv = [*mounts.words({Path("/var/run/secrets/x"): tmp_path / "x"}), program, *arguments]
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

# /run gets a file system of its own, so that the directories made in it are not left on this machine.
_SCRIPT = """\
mount -t tmpfs none /run
while [ "$1" != -- ]; do
  mkdir -p "$2"
  mount --bind "$1" "$2"
  shift 2
done
shift
exec "$@"
"""


def words(seen: Mapping[Path, Path]) -> list[str | Path]:
    """
    Give the words to put before a program and its arguments; none where nothing is to be seen elsewhere.

    The program keeps the process id that was started, and the mounts go with it.

    Args:
        seen: Directories, by the path at which the program finds them.
    """
    if not seen:
        return []
    pairs = [path for place, source in seen.items() for path in (source, place)]
    return ["unshare", "--mount", "--propagation", "private", "sh", "-ec", _SCRIPT, "sh", *pairs, "--"]
