"""
Preload a library into the containers of these names, before the bundle goes on to the runtime.

    clockruntime.py LIBRARY NAME,NAME… runc's arguments...

Standard library alone, as it runs in the runtime's place.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

_NAME = "io.kubernetes.cri.container-name"


def main() -> None:
    """
    Edit the bundle that the runtime is called for.
    """
    library, names, *arguments = sys.argv[1:]
    file = Path(arguments[arguments.index("--bundle") + 1]) / "config.json"
    spec = json.loads(file.read_text())
    if spec.get("annotations", {}).get(_NAME) not in names.split(","):
        return
    directory = str(Path(library).parent)
    spec["process"].setdefault("env", []).append(f"LD_PRELOAD={library}")
    mount = {"source": directory, "destination": directory, "type": "bind", "options": ["ro", "rbind", "rprivate"]}
    spec["mounts"].append(mount)
    file.write_text(json.dumps(spec))


if __name__ == "__main__":
    main()
