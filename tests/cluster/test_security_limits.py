"""
A fraction stays what it was when its pod began, whatever is edited, added or shared afterwards.
"""

from __future__ import annotations

from clusterlab import pods as pods_of
from clusterlab import tenantpods
from clusterlab.client import Object
from clusterlab.metricspage import Page
from clusterlab.pods import Container, Pods
from clusterlab.release import Release
from clusterlab.tenantpods import LIMIT_MIB, Shell
from fractioning_core import names
from fractioning_core.injection import ENFORCED_VARIABLES
from lab.image import BUSYBOX_IMAGE

IN_FORCE = "gpu_fractioning_container_gpu_memory_limit_bytes"
ENFORCED = "gpu_fractioning_container_gpu_memory_limit_enforced"
# Ends when it is told to; the kubelet then starts it again in the same sandbox.
UNTIL_TOLD = f"{pods_of.SHOW}; while [ ! -e /tmp/stop ]; do sleep 0.1; done"
# Opens the GPUs' devices of every process that it sees; a device without a driver behind it says "No such device".
OPEN = "for each in /proc/[0-9]*/root/dev/nvidia[0-9]; do cat < $each; done 2>&1 | sort -u"
NOT_OURS = "not permitted"
NO_DRIVER = "No such device"


class TestEdited:
    async def test_running(self, release: Release, pods: Pods) -> None:
        """
        A higher limit that is written on a running pod changes nothing, neither at once nor when the container
        restarts: annotations count as they were when the sandbox was made.
        """
        pod = await pods.run(tenantpods.manifest("edited", containers=[Container(script=UNTIL_TOLD)]))
        page = Page(release, pod["spec"]["nodeName"])
        await page.until(ENFORCED, [1], pod="edited")
        await release.api.patch(
            f"{pods_of.PODS}/edited", {"metadata": {"annotations": pods_of.memory(request="8Gi", limit="32Gi")}}
        )
        await Shell(release.cluster, "edited").says("touch /tmp/stop")
        await release.api.until(
            f"{pods_of.PODS}/edited", _is_started_again, what="a second container", timeout_seconds=60.0
        )

        assert str(LIMIT_MIB) == (await pods.environment("edited"))[names.ENV_MEMORY_LIMIT]
        await page.until(ENFORCED, [1], pod="edited")
        await page.until(IN_FORCE, [LIMIT_MIB << 20], pod="edited")

    async def test_variables(self, pods: Pods) -> None:
        """
        What a pod sets for itself is replaced by what its annotations say.
        """
        own = {names.ENV_MEMORY_LIMIT: "99999", names.ENV_MEMORY_REQUEST: "99999", names.ENV_VISIBLE_DEVICES: "all"}
        await pods.run(tenantpods.manifest("variables", env=own))
        found = await pods.environment("variables")

        assert (str(LIMIT_MIB), str(LIMIT_MIB)) == (found[names.ENV_MEMORY_LIMIT], found[names.ENV_MEMORY_REQUEST])
        assert "all" != found[names.ENV_VISIBLE_DEVICES]


class TestOtherContainers:
    async def test_ephemeral(self, release: Release, pods: Pods) -> None:
        """
        A container that is added to look into a fractional one gets no GPU, nor does it open that of its target.
        """
        await pods.run(tenantpods.manifest("target"))
        debugger = {
            "name": "debugger",
            "image": BUSYBOX_IMAGE.name,
            "command": ["sleep", "100000"],
            "targetContainerName": "main",
        }
        path = f"{pods_of.PODS}/target"
        await release.api.patch(f"{path}/ephemeralcontainers", {"spec": {"ephemeralContainers": [debugger]}})
        await release.api.until(path, _debugs, what="the ephemeral container", timeout_seconds=60.0)

        assert NO_DRIVER in await Shell(release.cluster, "target").says(OPEN)
        await _has_no_gpu(Shell(release.cluster, "target", "debugger"))

    async def test_shared_processes(self, release: Release, pods: Pods) -> None:
        """
        A container that sees the processes of a fractional one beside it has no part in its GPU.
        """
        containers = [Container(), Container("side")]
        await pods.run(tenantpods.manifest("shared", containers=containers, shareProcessNamespace=True))

        assert NO_DRIVER in await Shell(release.cluster, "shared").says(OPEN)
        await _has_no_gpu(Shell(release.cluster, "shared", "side"))


async def _has_no_gpu(shell: Shell) -> None:
    seen = (await shell.says("env; ls /dev")).splitlines()
    assert [] == [line for line in seen if line.startswith((*ENFORCED_VARIABLES, "nvidia"))]
    refusals = (await shell.says(OPEN)).splitlines()
    assert any(NOT_OURS in line for line in refusals)
    assert not any(NO_DRIVER in line for line in refusals)


def _is_started_again(pod: Object) -> bool:
    statuses = pod["status"].get("containerStatuses", [])
    return pods_of.all_run(pod) and all(each["restartCount"] == 1 for each in statuses)


def _debugs(pod: Object) -> bool:
    statuses = pod["status"].get("ephemeralContainerStatuses", [])
    return any("running" in each["state"] for each in statuses)
