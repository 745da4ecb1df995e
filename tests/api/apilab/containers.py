"""
A container of a manifest as a program on this machine: the arguments, the variables and the account that it would have.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
from fractioning_core.kube.transport import Transport
from lab import mounts
from lab.errors import LabError
from lab.process import Service
from lab.program import script

from apilab import objects
from apilab.controlplane import ControlPlane
from apilab.objects import ServiceAccount
from apilab.pod import Pod

# What the image starts when a manifest gives arguments alone.
ENTRYPOINT = "controller"
_numbers = itertools.count(1)


@attrs.frozen
class Started:
    """
    A container to run.

    Args:
        service: Its process; enter it.
        pod: Its account, and the token in it.
    """

    service: Service
    pod: Pod


async def prepare(
    template: Mapping[str, Any],
    *,
    namespace: str,
    plane: ControlPlane,
    admin: Transport,
    directory: Path,
    url: str = "",
    flags: Sequence[str] = (),
) -> Started:
    """
    Make ready what the kubelet would, for the one container of a pod template.

    Args:
        template: With `spec`.
        namespace: Where the pod would be.
        plane: The cluster.
        admin: The way in, to issue a token.
        directory: Where its files and its output go.
        url: Where it finds the API server; by default where it is.
        flags: Arguments behind its own, which win over them.
    """
    spec = template["spec"]
    (container,) = spec["containers"]
    name = f"{container['name']}-{next(_numbers)}"
    account = ServiceAccount(namespace, spec.get("serviceAccountName", "default"))
    token = await objects.issue_token(admin, account)
    pod = Pod(directory / f"{name}-account", url=url or plane.account.url, ca=plane.certificates.ca, token=token)
    if container.get("command"):
        raise LabError(f"container {container['name']} names a command; only the image's own is known here")
    argv = [*mounts.words(pod.seen), script(ENTRYPOINT), *container.get("args", ()), *flags]
    # No pod is posted. A Lease that went with one would be taken for left over.
    fields = {"metadata.namespace": namespace, "metadata.name": name, "metadata.uid": ""}
    environ = {**_variables(container, fields), **pod.environ}
    return Started(Service(name, argv, directory=directory, environ=environ), pod)


def _variables(container: Mapping[str, Any], fields: Mapping[str, str]) -> Mapping[str, str]:
    return {each["name"]: _value(each, fields) for each in container.get("env", ())}


def _value(variable: Mapping[str, Any], fields: Mapping[str, str]) -> str:
    if "valueFrom" in variable:
        return fields[variable["valueFrom"]["fieldRef"]["fieldPath"]]
    return str(variable.get("value", ""))
