"""
The Go peer of the controller (tests/bench/controller), with an account of its own in the API server's audit log.
"""

from __future__ import annotations

from pathlib import Path

from apilab import objects
from apilab.controlplane import ControlPlane
from apilab.helm import NAMESPACE
from apilab.pod import Pod
from fractioning_core.kube.transport import Request, Transport
from lab import mounts, toolchain
from lab.process import Service

CONDITION = "peer.example.com/Ready"
"""
The node condition that it writes, beside that of the controller.
"""
_NAME = "peer"
_BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"


async def prepare(plane: ControlPlane, admin: Transport, directory: Path) -> Service:
    """
    Give it to enter; it may do everything.
    """
    account = await objects.create_account(admin, _NAME, _NAME)
    binding = {
        "metadata": {"name": _NAME},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "namespace": account.namespace, "name": account.name}],
    }
    await admin.ask(Request("POST", _BINDINGS, body=binding))
    token = await objects.issue_token(admin, account)
    pod = Pod(directory / _NAME, url=plane.account.url, ca=plane.certificates.ca, token=token)
    program = toolchain.bench_program("peer", "bench-controller")
    argv = [*mounts.words(pod.seen), program, f"--namespace={NAMESPACE}", f"--condition={CONDITION}"]
    return Service(_NAME, argv, directory=directory, environ=pod.environ)
