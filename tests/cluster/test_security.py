"""
What a tenant can do from inside a fractional pod, and what not.

Containers are of the two kinds that matter: one under the Pod Security Standard `restricted`, and one that is root as
its author said nothing. The control daemon is Debian's real one of branch 550 behind r615's command line (simulated),
and so are its answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from apilab.helm import NAMESPACE
from clusterlab import accounts, processes, tenantpods
from clusterlab import pods as pods_of
from clusterlab.pods import Pods
from clusterlab.release import CONFIG, DAEMONSETS, Release
from clusterlab.tenantpods import RESTRICTED, ROOT, Shell
from fractioning_core import names
from fractioning_core.kube.errors import Forbidden
from fractioning_core.kube.transport import MERGE_PATCH, Request

DIRECTORY = names.MPS_PIPE_DIR
CHANGES = {
    "make a file": f"touch {DIRECTORY}/own",
    "remove the socket": f"mv {DIRECTORY}/control {DIRECTORY}/gone && mv {DIRECTORY}/gone {DIRECTORY}/control",
    "add a socket": f"ln {DIRECTORY}/control {DIRECTORY}/other && rm {DIRECTORY}/other",
    "write the lock": f": >> {DIRECTORY}/control_lock",
    "read the lock": f"cat {DIRECTORY}/control_lock",
    "write the process id": f": >> {DIRECTORY}/nvidia-cuda-mps-control.pid",
    "change modes": f"chmod 777 {DIRECTORY}",
    "mount over it": f"mount -t tmpfs none {DIRECTORY}",
}
SETTING = "set_default_active_thread_percentage 50"
USERS = [pytest.param(RESTRICTED, id="restricted"), pytest.param(ROOT, id="root")]


async def enter(release: Release, pods: Pods, name: str, security: Mapping[str, Any], **fields: Any) -> Shell:  # noqa: ANN401 - fields of the manifest
    await pods.run(tenantpods.manifest(name, security, **fields))
    return Shell(release.cluster, name)


class TestPipeDirectory:
    async def test_restricted(self, release: Release, pods: Pods) -> None:
        """
        A user that is not root changes nothing in the pipe directory, and opens neither lock nor process id.
        """
        shell = await enter(release, pods, "restricted", RESTRICTED)

        assert [] == await shell.succeeding(CHANGES)

    async def test_restricted_commands(self, release: Release, pods: Pods) -> None:
        """
        The control daemon answers a user's questions, and takes no order: not by the socket for all, nor by root's.
        """
        shell = await enter(release, pods, "commands", RESTRICTED)
        node = (await pods.running("commands"))["spec"]["nodeName"]
        daemons = processes.control_daemons(release.cluster.worker(node))

        assert "100.0" == await shell.control("get_default_active_thread_percentage")
        assert "Insufficient privileges for UID 1000" in await shell.control(SETTING)
        assert "Not enough privilege to execute quit command" in await shell.control("quit")
        assert "Permission denied" in await shell.control(SETTING, privileged=True)
        assert "100.0" == await shell.control("get_default_active_thread_percentage")
        assert daemons == processes.control_daemons(release.cluster.worker(node))

    async def test_next_daemon(self, release: Release, pods: Pods) -> None:
        """
        A control daemon that follows one that ended is closed to a user in the same way.
        """
        shell = await enter(release, pods, "next", RESTRICTED)
        worker = release.cluster.worker((await pods.running("next"))["spec"]["nodeName"])
        former = await processes.kill_control_daemon(worker)
        await processes.another_control_daemon(worker, former)

        assert [] == await shell.succeeding(CHANGES)
        await release.steady()

    async def test_sharing(self, release: Release, pods: Pods) -> None:
        """
        A container that shares SMs has the shared server's socket and nothing else of the directory.
        """
        mode = {"nvidia.com/container.main.gpu-compute.mode": "sm-sharing"}
        shell = await enter(release, pods, "sharing", ROOT, annotations=mode)

        assert [f"{names.SM_SHARING_PIPE_DIR}/control"] == (await shell.says("find /tmp /run -type s")).split()


class TestNotDefended:
    """
    What the page on security says that nothing here defends against.
    """

    async def test_root(self, release: Release, pods: Pods) -> None:
        """
        Root in a container is root to the pipe directory and to the control daemon, which it can set and end; mpsd
        starts another.
        """
        shell = await enter(release, pods, "root", ROOT)
        worker = release.cluster.worker((await pods.running("root"))["spec"]["nodeName"])
        (former,) = processes.control_daemons(worker)
        changed = await shell.succeeding(CHANGES)
        await shell.says(f"rm -f {DIRECTORY}/own; chmod 755 {DIRECTORY}")
        ordered = await shell.control(SETTING, privileged=True)
        await shell.control("quit", privileged=True)
        await processes.another_control_daemon(worker, former)

        assert sorted(set(CHANGES) - {"mount over it"}) == sorted(changed)
        assert "50.0" == ordered
        await release.steady()

    async def test_devices_of_an_author(self, release: Release, pods: Pods) -> None:
        """
        A pod whose author names a GPU in the scheduler's place gets it, within the limit that the author names.
        """
        worker = release.cluster.worker("gpu-1").worker
        devices = {"nvidia.com/container.main.gpus.devices": worker.gpus[1]}
        pod = tenantpods.manifest("author", annotations=devices, scheduler="default-scheduler", nodeName=worker.name)
        await pods.run(pod)

        assert worker.gpus[1] == (await pods.environment("author"))[names.ENV_VISIBLE_DEVICES]

    async def test_variable_of_another_container(self, release: Release, pods: Pods) -> None:
        """
        A container without annotations that asks the container toolkit for all GPUs has them, without a limit, also
        beside a fractional one.
        """
        containers = [pods_of.Container(), pods_of.Container("side", f"ls /dev; {pods_of.SHOW_AND_STAY}")]
        pod = tenantpods.manifest("two", containers=containers, env={names.ENV_VISIBLE_DEVICES: "all"})
        await pods.run(pod)
        environment = await pods.environment("two", "side")

        assert {"nvidia0", "nvidia1"} <= set((await pods.output("two", "side")).split())
        assert names.ENV_MEMORY_LIMIT not in environment


class TestSurroundings:
    @pytest.mark.parametrize("security", USERS)
    async def test_sockets(self, release: Release, pods: Pods, security: Mapping[str, Any]) -> None:
        """
        The only sockets in a container are those of MPS: none of NRI, CRI, containerd, the kubelet or mpsd.
        """
        shell = await enter(release, pods, "sockets", security)
        found = await shell.says("find / -xdev -type s; find /run /var /tmp /etc /dev -type s")

        sockets = ("control", "control_privileged", "shared/control", "shared/default/control")
        assert {f"{DIRECTORY}/{name}" for name in sockets} == set(found.split())

    async def test_directories_of_the_node(self, release: Release, pods: Pods) -> None:
        """
        Of the node's own directories a container has that of MPS; the simulated driver's are not to be written.
        """
        shell = await enter(release, pods, "directories", ROOT)
        node = (await pods.running("directories"))["spec"]["nodeName"]
        run = f"{release.cluster.worker(node).files.run}/"
        mounts = [line.split() for line in (await shell.says("cat /proc/self/mountinfo")).splitlines()]

        ours = {each[3].partition(run)[2]: each[5].split(",")[0] for each in mounts if run in each[3]}
        seen = {name: access for name, access in ours.items() if not name.startswith("containerd/")}
        assert {"nvidia-mps": "rw", "simgpu": "ro", "simgpu/cgroup": "ro"} == seen

    async def test_neighbours(self, release: Release, pods: Pods) -> None:
        """
        Neither name nor uid of a pod on the same GPU shows in what can be read: processes, mounts, cgroups, files.
        """
        gpu = {"nvidia.com/container.main.gpus.devices": release.cluster.worker("gpu-1").worker.gpus[0]}
        neighbour = await pods.run(tenantpods.manifest("confidential", annotations=gpu))
        shell = await enter(release, pods, "curious", ROOT, annotations=gpu)
        everything = await shell.says(
            "cat /proc/[0-9]*/cmdline /proc/[0-9]*/environ /proc/[0-9]*/mountinfo /proc/[0-9]*/cgroup /proc/net/unix;"
            # The simulated driver's directory holds the cgroups of all; a real driver has none.
            "ls -laR /var /tmp /dev /run/nvidia-mps; ls -la /run"
        )

        metadata = neighbour["metadata"]
        assert "curious" in everything
        assert [] == [word for word in (metadata["name"], metadata["uid"]) if word in everything]

    async def test_processes(self, release: Release, pods: Pods) -> None:
        """
        A container sees its own processes alone.
        """
        shell = await enter(release, pods, "processes", ROOT)
        found = await shell.says("for each in /proc/[0-9]*; do tr '\\0' ' ' < $each/cmdline; echo; done")

        programs = {line.split()[0] for line in found.splitlines() if line}
        assert programs <= {"sleep", "sh", "tr"}


class TestApi:
    async def test_token(self, release: Release, pods: Pods) -> None:
        """
        The token in a tenant's pod opens nothing of ours, and does not let the pod change its own annotations.
        """
        shell = await enter(release, pods, "token", ROOT)
        token = await shell.says("cat /var/run/secrets/kubernetes.io/serviceaccount/token")
        own = f"{pods_of.PODS}/token"
        raised = {"metadata": {"annotations": pods_of.memory(limit="32Gi")}}
        requests = [
            *(Request("GET", path) for path in (CONFIG, DAEMONSETS, "/api/v1/nodes", "/api/v1/pods", own)),
            Request("GET", f"/api/v1/namespaces/{NAMESPACE}/pods"),
            Request("PATCH", own, body=raised, content_type=MERGE_PATCH),
            Request("PATCH", f"{own}/ephemeralcontainers", body={"spec": {}}, content_type=MERGE_PATCH),
            Request("POST", pods_of.PODS, body=tenantpods.manifest("second")),
        ]

        allowed = []
        async with accounts.bearer(release.cluster, token) as api:
            for request in requests:
                try:
                    await api.ask(request)
                except Forbidden:
                    continue
                allowed.append(str(request))
        assert [] == allowed
