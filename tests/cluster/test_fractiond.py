"""
What fractiond gives to containers of annotated pods, and what it refuses.

Kubelet, containerd, runc and the product are real; the scheduler is a stand-in for KAI, and driver, GPUs and NVIDIA's
runtime are simulated.
"""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from clusterlab import fractioningconfig
from clusterlab import pods as pods_of
from clusterlab.pods import Container, Pods
from clusterlab.release import FRACTIOND, Release
from fractioning_core import names

BOTH = pods_of.memory(request="2048Mi", limit="4096Mi")
MODE = "nvidia.com/container.main.gpu-compute.mode"
DEVICES = "nvidia.com/container.main.gpus.devices"
NAMES = (names.ENV_MEMORY_REQUEST, names.ENV_MEMORY_LIMIT, names.ENV_MPS_PIPE_DIRECTORY)


def injected(environment: Mapping[str, str]) -> dict[str, str]:
    """
    Give of an environment what fractiond may have put there, but for the devices.
    """
    return {name: environment[name] for name in NAMES if name in environment}


def expected(request: int, limit: int, directory: str = names.MPS_PIPE_DIR) -> dict[str, str]:
    return dict(zip(NAMES, (str(request), str(limit), directory), strict=True))


class TestAdmission:
    async def test_memory_env(self, pods: Pods) -> None:
        """
        Request and limit are in the container's environment as whole MiB.
        """
        await pods.run(pods_of.manifest("memory-env", annotations=BOTH))

        assert expected(2048, 4096) == injected(await pods.environment("memory-env"))

    async def test_pipe_mount(self, pods: Pods) -> None:
        """
        A container that takes turns finds the node's own pipe directory, with the control socket in it.
        """
        script = 'stat -c "%F" /run/nvidia-mps/control; exec sleep 100000'
        await pods.run(pods_of.manifest("pipe-mount", Container(script=script), annotations=BOTH))

        assert "socket" in (await pods.wait_for_output("pipe-mount", "socket")).splitlines()

    async def test_sm_sharing(self, release: Release, pods: Pods) -> None:
        """
        A container that shares SMs finds the shared server's directory of its own node at the library's default.
        """
        script = f"{pods_of.SHOW}; cat /tmp/nvidia-mps/sentinel; exec sleep 100000"
        for worker in release.gpu_nodes():
            shared = release.cluster.worker(worker).files.run / "nvidia-mps/shared/default"
            (shared / "sentinel").write_text(f"sentinel of {worker}\n")
        pod = pods_of.manifest("sm-sharing", Container(script=script), annotations={**BOTH, MODE: "sm-sharing"})
        node = (await pods.run(pod))["spec"]["nodeName"]

        assert f"sentinel of {node}" in await pods.wait_for_output("sm-sharing", "sentinel")
        assert expected(2048, 4096, "/tmp/nvidia-mps") == injected(await pods.environment("sm-sharing"))

    async def test_time_slicing_explicit(self, pods: Pods) -> None:
        """
        Asking for the default mode gives the default directory.
        """
        await pods.run(pods_of.manifest("time-slicing", annotations={**BOTH, MODE: "time-slicing"}))

        assert expected(2048, 4096) == injected(await pods.environment("time-slicing"))

    async def test_bad_mode(self, pods: Pods) -> None:
        """
        A mode that nobody knows blocks the container, and the pod says which annotation it is.
        """
        await pods.create(pods_of.manifest("bad-mode", annotations={**BOTH, MODE: "turbo"}))

        assert f'{MODE}: "turbo"' in await pods.refused("bad-mode")

    async def test_visible_devices(self, release: Release, pods: Pods) -> None:
        """
        The devices that the scheduler's binder named in its Binding are the container's.
        """
        gpu = release.cluster.worker("gpu-2").worker.gpus[1]
        await pods.run(pods_of.manifest("visible", annotations={**BOTH, DEVICES: gpu}))

        assert gpu == (await pods.environment("visible"))[names.ENV_VISIBLE_DEVICES]

    async def test_two_containers(self, pods: Pods) -> None:
        """
        Nothing of one container's leaks into another's.
        """
        asked = {
            **pods_of.memory(request="1024Mi", limit="1024Mi", container="one"),
            **pods_of.memory(request="3072Mi", limit="3072Mi", container="two"),
        }
        await pods.run(pods_of.manifest("two", Container("one"), Container("two"), annotations=asked))

        assert expected(1024, 1024) == injected(await pods.environment("two", "one"))
        assert expected(3072, 3072) == injected(await pods.environment("two", "two"))

    async def test_unannotated(self, pods: Pods) -> None:
        """
        A pod without annotations is left alone.
        """
        await pods.run(pods_of.manifest("plain"))

        assert {} == injected(await pods.environment("plain"))

    @pytest.mark.parametrize(
        "annotations",
        [
            pytest.param(pods_of.memory(request="2Gi"), id="request only"),
            pytest.param(pods_of.memory(limit="2Gi"), id="limit only"),
        ],
    )
    async def test_one_of_both(self, pods: Pods, annotations: Mapping[str, str]) -> None:
        """
        Of request and limit, the one that is missing is the other.
        """
        await pods.run(pods_of.manifest("one-of-both", annotations=annotations))

        assert expected(2048, 2048) == injected(await pods.environment("one-of-both"))

    async def test_malformed_memory(self, pods: Pods) -> None:
        """
        A quantity that is none blocks the container; the pod names annotation, value and the accepted form.
        """
        await pods.create(pods_of.manifest("malformed", annotations=pods_of.memory(request="lots")))

        refusal = await pods.refused("malformed")

        assert 'nvidia.com/container.main.gpu-memory.request: "lots" is not a Kubernetes quantity' in refusal
        assert "accepted: a Kubernetes quantity of at least 1Mi" in refusal


class TestConfiguration:
    async def test_fail_open(self, release: Release, pods: Pods) -> None:
        """
        With failOpen the same pod runs, without anything injected.
        """
        async with fractioningconfig.changed(release, fractioningAgent={"failOpen": True}):
            await release.has_argument(FRACTIOND, "--fail-open")
            await release.steady()
            await pods.run(pods_of.manifest("fail-open", annotations=pods_of.memory(request="lots")))

            assert {} == injected(await pods.environment("fail-open"))
            await pods.delete("fail-open")

    async def test_custom_annotation_prefix(self, release: Release, pods: Pods) -> None:
        """
        Annotations count under the configured prefix, and no longer under the default one.
        """
        prefix = "custom.example.com/c."
        async with fractioningconfig.changed(release, fractioningAgent={"annotationPrefix": prefix}):
            await release.has_argument(FRACTIOND, prefix)
            await release.steady()
            await pods.run(pods_of.manifest("custom", annotations=pods_of.memory(request="2Gi", prefix=prefix)))
            await pods.run(pods_of.manifest("default", annotations=pods_of.memory(request="2Gi")))

            assert expected(2048, 2048) == injected(await pods.environment("custom"))
            assert {} == injected(await pods.environment("default"))
            await pods.delete_all()
