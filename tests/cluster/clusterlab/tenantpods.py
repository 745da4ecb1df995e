"""
Fractional pods of a tenant who looks around in them, and what the shell inside says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from clusterlab import command, pods
from clusterlab.client import Object
from clusterlab.cluster import Cluster
from clusterlab.pods import NAMESPACE, Container
from clusterlab.programs import program

LIMIT_MIB = 2048
RESTRICTED: Mapping[str, Any] = {
    "runAsNonRoot": True,
    "runAsUser": 1000,
    "runAsGroup": 1000,
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""
What the Pod Security Standard `restricted` asks of a container, and a user that is not root.
"""
ROOT: Mapping[str, Any] = {}
"""
What a container is whose author says nothing: root of the node, with the runtime's default capabilities.
"""
_STAY = Container()
# The simulated client of the control daemon is brought by what a CUDA container asks for.
_COMPUTE = {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "compute,utility"}


def manifest(
    name: str,
    security: Mapping[str, Any] = ROOT,
    *,
    annotations: Mapping[str, str] | None = None,
    env: Mapping[str, str] | None = None,
    containers: Sequence[Container] = (_STAY,),
    scheduler: str | None = None,
    **spec: Any,  # noqa: ANN401 - fields of core/v1
) -> Object:
    """
    Give a fractional pod's manifest.

    Args:
        name: Of the pod.
        security: The containers' security context.
        annotations: Beside the limit of the container `main`.
        env: Of the containers.
        containers: In the pod.
        scheduler: Other than the stand-in for KAI.
        spec: More fields of the pod's spec.
    """
    limit = pods.memory(limit=f"{LIMIT_MIB}Mi")
    made = pods.manifest(name, *containers, annotations={**limit, **(annotations or {})})
    variables = [_COMPUTE, *({"name": key, "value": value} for key, value in (env or {}).items())]
    changed = [{**each, "securityContext": dict(security), "env": variables} for each in made["spec"]["containers"]]
    chosen = {"schedulerName": scheduler} if scheduler else {}
    return {**made, "spec": {**made["spec"], **chosen, **spec, "containers": changed}}


@attrs.frozen
class Shell:
    """
    The shell of a container.

    Args:
        cluster: Where the pod is.
        pod: Its name.
        container: Of the pod.
    """

    cluster: Cluster
    pod: str
    container: str = "main"

    async def says(self, script: str) -> str:
        """
        Run a script; gives what it printed.

        Raises:
            CommandFailed: It ended with an error.
        """
        kubeconfig = f"--kubeconfig={self.cluster.layout.kubeconfig}"
        place = (f"--namespace={NAMESPACE}", self.pod, f"--container={self.container}")
        return await command.run(program("kubectl"), kubeconfig, "exec", *place, "--", "sh", "-c", script)

    async def succeeding(self, attempts: Mapping[str, str]) -> list[str]:
        """
        Try something in several ways; gives the names of those that succeed.
        """
        lines = [f"({script}) > /dev/null 2>&1 && echo '{name}'" for name, script in attempts.items()]
        return (await self.says("\n".join([*lines, "true"]))).splitlines()

    async def control(self, words: str, *, privileged: bool = False) -> str:
        """
        Send a command to the MPS control daemon that the container can reach; gives its answer, or the error.

        Args:
            words: The command.
            privileged: By the socket that is root's, instead of the one for everybody.
        """
        if not privileged:
            return (await self.says(f"/usr/bin/mpsclient '{words}' 2>&1 || true")).strip()
        link = "ln -sf $CUDA_MPS_PIPE_DIRECTORY/control_privileged /tmp/own/control"
        ask = f"CUDA_MPS_PIPE_DIRECTORY=/tmp/own /usr/bin/mpsclient '{words}' 2>&1 || true"
        return (await self.says(f"mkdir -p /tmp/own; {link}; {ask}")).strip()
