"""
Parts of a pod as core/v1 has them. Fields that are left to the API server's defaults are left out.
"""

from __future__ import annotations

from typing import Any

from controller.options import Image

Part = dict[str, Any]


def privileged() -> Part:
    """
    Let a container do everything: metricsd and mpsd.

    Both open every GPU, and what the driver, its control daemon and its servers ask of the kernel is not ours to know.
    metricsd also finds limits by the host's tree of cgroups, which runtimes show on cgroup v2 to privileged containers
    alone.
    """
    return {"privileged": True}


def root_alone() -> Part:
    """
    Let a container be root and nothing more: fractiond, which root alone lets into sockets and records.
    """
    return {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        # As a privileged one has it, since SELinux keeps others from a runtime's sockets; nothing without SELinux.
        "seLinuxOptions": {"level": "s0", "type": "spc_t"},
        "seccompProfile": {"type": "RuntimeDefault"},
    }


def container(name: str, image: Image, security: Part, **fields: Any) -> Part:  # noqa: ANN401 - fields of core/v1, passed on
    """
    Make a container; fields that are empty are left out.
    """
    whole = {
        "name": name,
        "image": image.name,
        "imagePullPolicy": image.policy,
        **fields,
        "securityContext": security,
    }
    return {field: value for field, value in whole.items() if value not in ([], None)}


def resources(memory: str, memory_limit: str) -> Part:
    """
    Ask for little, and limit memory alone: a throttled daemon would hold up every container of the node.
    """
    return {
        "requests": {"cpu": "50m", "memory": memory, "ephemeral-storage": "100Mi"},
        "limits": {"memory": memory_limit},
    }


def variable(name: str, value: str) -> Part:
    """
    Make one variable of an environment.
    """
    return {"name": name, "value": value}


def host_volume(name: str, path: str, kind: str = "") -> Part:
    """
    Make a volume of a directory of the node.
    """
    return {"name": name, "hostPath": {"path": path, **({"type": kind} if kind else {})}}


def mount(name: str, path: str, *, read_only: bool = False) -> Part:
    """
    Mount a volume.
    """
    return {"name": name, "mountPath": path, **({"readOnly": True} if read_only else {})}


def http_probe(path: str, port: int, *, delay: int, period: int, failures: int | None = None) -> Part:
    """
    Make a probe that asks a page.
    """
    return _probe({"httpGet": {"path": path, "port": port}}, delay, period, failures)


def tcp_probe(port: int, *, delay: int, period: int, failures: int | None = None) -> Part:
    """
    Make a probe that only connects.
    """
    return _probe({"tcpSocket": {"port": port}}, delay, period, failures)


def _probe(handler: Part, delay: int, period: int, failures: int | None) -> Part:
    threshold = {} if failures is None else {"failureThreshold": failures}
    return {**handler, "initialDelaySeconds": delay, "periodSeconds": period, **threshold}
