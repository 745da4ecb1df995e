"""
Paths of cgroups: which container a process belongs to, and where a container's cgroup is.

A process is matched by what its own paths say, never by a path put together from a pod's name: runtimes and cgroup
drivers lay out at least five trees, some with cgroups below the container's. All of them spell the container's id
somewhere in the path. A reader with a cgroup namespace of its own sees every path begin with `/..`, and still the id.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Iterator, Mapping
from types import MappingProxyType

from fractioning_core.errors import InvalidCgroupsPath

ACCEPTED = '"<slice>:<prefix>:<name>" or an absolute path without ".."'
# What a runtime does that is told no slice.
DEFAULT_SLICE = "system.slice"

_SLICE = ".slice"
_ROOT_SLICE = "-.slice"
_SCOPE = ".scope"
# The kernel says it of a cgroup that is removed while a process ends.
_REMOVED = " (deleted)"
_SYSTEMD_PARTS = 3
# Hierarchy, controllers, path.
_LINE_PARTS = 3
# CRI-O and podman keep a container's monitor in a scope with the container's id in its name.
_MONITOR = "conmon-"
_CONTAINER_ID = re.compile("[0-9a-f]{64}")
# In the name that kubelet gives to the cgroup of all pods, whatever parent it has.
_PODS = "kubepods"
# Of a reader in a cgroup namespace, which is a pod's, and its neighbours'.
_ABOVE = ".."
# `a-b.scope` may be of `a-b` or of `b`; runc that is told of no systemd makes a directory `a.slice:b:c`.
_BEFORE_ID = re.compile("[-:]")
_NOWHERE: Mapping[str, str] = MappingProxyType({})


def parse(text: str) -> tuple[str, ...]:
    """
    Read the paths in a process's `/proc/<pid>/cgroup`, each once: several on v1, one on v2.
    """
    # Not splitlines, which also ends lines where a name may go on.
    lines = (line.split(":", 2) for line in text.split("\n"))
    paths = (line[2].removesuffix(_REMOVED) for line in lines if len(line) == _LINE_PARTS)
    return tuple(dict.fromkeys(path for path in paths if path))


def container_id(paths: Iterable[str]) -> str | None:
    """
    Tell which container these paths of one process are of, whether or not anybody knows it.

    Returns: the id, as runtimes make them; None for a process of the host.
    """
    for path in paths:
        for _, segment in _segments(path):
            for name in _names(segment):
                if _CONTAINER_ID.fullmatch(name):
                    return name
    return None


def match(paths: Iterable[str], known: Container[str], places: Mapping[str, str] = _NOWHERE) -> str | None:
    """
    Tell which of the known containers these paths of one process are of.

    Nearer to the root comes first: a process that may make cgroups names those below its container's as it likes. So
    among pods nothing below the first container counts, also where nobody knows that one. Elsewhere an unknown id is
    passed over: it may be of a container that this whole node runs in.

    Args:
        paths: of one process.
        known: bare ids of containers, of any shape.
        places: what `places` gives.
    """
    for path in paths:
        is_among_pods = False
        for ancestor, segment in _segments(path):
            if ancestor in places:
                return places[ancestor]
            is_among_pods = is_among_pods or segment == _ABOVE or _PODS in segment
            for name in _names(segment):
                if name in known:
                    return name
                if is_among_pods and _CONTAINER_ID.fullmatch(name):
                    return None
    return None


def places(cgroups_paths: Mapping[str, str]) -> dict[str, str]:
    """
    Find the containers whose cgroup does not spell their id, by the path of that cgroup.

    There are none, unless somebody chose a container's cgroup for the runtime. Unusable paths are passed over.

    Args:
        cgroups_paths: by container id, as `expand` takes them.
    """
    found = {}
    for known, cgroups_path in cgroups_paths.items():
        try:
            path = expand(cgroups_path)
        except InvalidCgroupsPath:
            continue
        if match((path,), {known}) is None:
            found[path] = known
    return found


def expand(cgroups_path: str) -> str:
    """
    Find the directory of a container's cgroup, below the root of the hierarchy.

    Args:
        cgroups_path: of the OCI runtime specification: for the systemd driver `slice:prefix:name`, else a path.

    Raises:
        InvalidCgroupsPath: neither of them, or one that leads elsewhere.
    """
    if "\0" in cgroups_path:
        raise InvalidCgroupsPath(cgroups_path, "has a NUL in it", ACCEPTED)
    if cgroups_path.startswith("/"):
        return _path(cgroups_path)
    parts = cgroups_path.split(":")
    if len(parts) != _SYSTEMD_PARTS:
        raise InvalidCgroupsPath(cgroups_path, "is neither an absolute path nor a scope of systemd", ACCEPTED)
    slice_name, prefix, name = parts
    if not name or "/" in cgroups_path:
        raise InvalidCgroupsPath(cgroups_path, "names no scope of systemd", ACCEPTED)
    nested = _nested(cgroups_path, slice_name or DEFAULT_SLICE)
    return "/".join(("", *nested, f"{prefix}-{name}{_SCOPE}"))


def _path(text: str) -> str:
    segments = [segment for segment in text.split("/") if segment not in ("", ".")]
    if ".." in segments:
        raise InvalidCgroupsPath(text, 'has ".." in it', ACCEPTED)
    if not segments:
        raise InvalidCgroupsPath(text, "is the root, which is no container's", ACCEPTED)
    return "/" + "/".join(segments)


def _nested(text: str, slice_name: str) -> list[str]:
    """
    Put a slice below the slices that its name spells: `a-b.slice` is in `a.slice`.
    """
    if slice_name == _ROOT_SLICE:
        return []
    words = slice_name.removesuffix(_SLICE).split("-")
    if not slice_name.endswith(_SLICE) or not all(words):
        raise InvalidCgroupsPath(text, "names no slice of systemd", ACCEPTED)
    return ["-".join(words[:count]) + _SLICE for count in range(1, len(words) + 1)]


def _segments(path: str) -> Iterator[tuple[str, str]]:
    """
    Give the cgroups from the root to that of a path, each by its own path and its name.
    """
    ancestor = ""
    for segment in path.removeprefix("/").split("/"):
        ancestor = f"{ancestor}/{segment}"
        yield ancestor, segment


def _names(segment: str) -> Iterator[str]:
    """
    Give every part of a cgroup's name that may be a container's id.
    """
    if segment.endswith(_SLICE) or _MONITOR in segment:
        return
    name = segment.removesuffix(_SCOPE)
    while name:
        yield name
        mark = _BEFORE_ID.search(name)
        name = name[mark.end() :] if mark else ""
