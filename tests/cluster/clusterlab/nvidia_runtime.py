"""
Give a container what it asks of the simulated driver, as nvidia-container-runtime does before it hands over to runc.

    nvidia_runtime.py CONFIGURATION runc's arguments...

NVIDIA_VISIBLE_DEVICES names GPUs by UUID or index, or is `all`; `void`, `none` and nothing are none of ours. Limits are
applied to GPUs that are named, by the hook of each; `all` is for those who only manage. Standard library alone.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

VISIBLE = "NVIDIA_VISIBLE_DEVICES"
CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"
MAJOR = 195
Part = dict[str, Any]


class Refused(Exception):  # noqa: N818 - what happens to the container
    """
    The container must not start.
    """


def edit(spec: Part, configuration: Part) -> bool:
    """
    Add to an OCI spec what its variables ask for; False where they ask for nothing.
    """
    environment = dict(text.partition("=")[::2] for text in spec["process"].get("env", []))
    visible = environment.get(VISIBLE, "")
    if visible in {"", "void", "none"}:
        return False
    wanted = choose(visible, list(configuration["gpus"]))
    capabilities = environment.get(CAPABILITIES, "utility").split(",")
    kinds = list(configuration["mounts"]) if "all" in capabilities else capabilities
    for kind in ("utility", *kinds):
        add_mounts(spec, configuration["mounts"].get(kind, []))
    add_mounts(spec, [configuration["state"]["manage" if visible == "all" else "use"]])
    spec["process"].setdefault("env", []).extend(configuration["env"])
    add_device(spec, configuration["control"])
    for uuid in wanted:
        edits = configuration["gpus"][uuid]
        for node in edits["deviceNodes"]:
            add_device(spec, node)
        if visible != "all":
            add_hooks(spec, edits["hooks"])
    show_cgroups(spec, configuration["cgroups"])
    return True


def choose(visible: str, uuids: list[str]) -> list[str]:
    """
    Give the UUIDs that a list names.
    """
    if visible == "all":
        return uuids
    known = {**{uuid: uuid for uuid in uuids}, **{str(index): uuid for index, uuid in enumerate(uuids)}}
    unknown = [name for name in visible.split(",") if name not in known]
    if unknown:
        raise Refused(f"unknown device id: {', '.join(unknown)}")
    return [known[name] for name in visible.split(",")]


def add_mounts(spec: Part, mounts: list[Part]) -> None:
    there = {mount["destination"] for mount in spec["mounts"]}
    for mount in mounts:
        if mount["containerPath"] not in there:
            spec["mounts"].append(
                {
                    "source": mount["hostPath"],
                    "destination": mount["containerPath"],
                    "type": "bind",
                    "options": mount["options"],
                }
            )


def add_device(spec: Part, node: Part) -> None:
    device = {"path": node["path"], "type": "c", "major": MAJOR, "minor": node["minor"], "fileMode": 0o666}
    rule = {"allow": True, "type": "c", "major": MAJOR, "minor": node["minor"], "access": "rwm"}
    linux = spec["linux"]
    devices = linux.setdefault("devices", [])
    if node["path"] not in {each["path"] for each in devices}:
        devices.append({**device, "uid": 0, "gid": 0})
    linux.setdefault("resources", {}).setdefault("devices", []).append(rule)


def add_hooks(spec: Part, hooks: list[Part]) -> None:
    for hook in hooks:
        entry = {key: hook[key] for key in ("path", "args", "env")}
        spec.setdefault("hooks", {}).setdefault(hook["hookName"], []).append(entry)


def show_cgroups(spec: Part, tree: Part) -> None:
    """
    Show the simulated tree of cgroup v2 in place of the kernel's, which may be v1.
    """
    spec["mounts"] = [mount for mount in spec["mounts"] if mount["destination"] != tree["containerPath"]]
    add_mounts(spec, [{**tree, "options": ["rbind", "ro", "rprivate"]}])


def main() -> int:
    """
    Edit the bundle that runc is called for.
    """
    configuration = json.loads(Path(sys.argv[1]).read_text())
    arguments = sys.argv[2:]
    file = Path(arguments[arguments.index("--bundle") + 1]) / "config.json"
    spec = json.loads(file.read_text())
    try:
        if edit(spec, configuration):
            file.write_text(json.dumps(spec))
    except Refused as error:
        # runc's callers read the reason from here, and from its log.
        sys.stderr.write(f"simulated nvidia-container-runtime: {error}\n")
        if "--log" in arguments:
            log = Path(arguments[arguments.index("--log") + 1])
            log.write_text(json.dumps({"level": "error", "msg": f"simulated nvidia-container-runtime: {error}"}))
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
