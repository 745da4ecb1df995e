"""
The GPU Operator's NRI plugin is on: there is no RuntimeClass, daemons get the driver by annotation, and workloads by
the CDI names that the device plugin publishes. The plugin and the scheduler are stand-ins; the CDI specs are simulated.
"""

from __future__ import annotations

from clusterlab import nrimode
from clusterlab import pods as pods_of
from clusterlab.metricspage import Page
from clusterlab.pods import Container, Pods
from clusterlab.release import Release
from fractioning_core import names

ENFORCED = "gpu_fractioning_container_gpu_memory_limit_enforced"


class TestNriMode:
    async def test_devices_by_cdi(self, release: Release, pods: Pods) -> None:
        """
        A fractional container has its GPU by the CDI name that the binder wrote, and its limit is in force.
        """
        gpu = release.cluster.worker("gpu-1").worker.gpus[0]
        script = f"{pods_of.SHOW}; ls /dev/nvidia*; exec sleep 100000"
        annotations = {**pods_of.memory(limit="2Gi"), "nvidia.com/container.main.gpus.devices": gpu}
        pod = pods_of.manifest("by-cdi", Container(script=script), annotations=annotations, runtime_class=None)
        async with nrimode.enabled(release):
            bound = await pods.run(pod)
            output = await pods.wait_for_output("by-cdi", "/dev/nvidia0")
            environment = await pods.environment("by-cdi")
            await Page(release, "gpu-1").until(ENFORCED, [1], pod="by-cdi")
            await pods.delete("by-cdi")

        devices = bound["metadata"]["annotations"]["nvidia.com/container.main.gpus.devices"]
        assert f"{names.CDI_GPU_KIND}={gpu}" == devices
        assert "/dev/nvidia1" not in output
        assert "2048" == environment[names.ENV_MEMORY_LIMIT]
