from __future__ import annotations

import pytest
from fractioning_core import names


class TestContract:
    """Spellings that other programs read."""

    @pytest.mark.parametrize(
        ("expected", "actual"),
        [
            pytest.param("nvidia.com/container.", names.ANNOTATION_PREFIX, id="annotation prefix"),
            pytest.param(".gpu-memory.request", names.GPU_MEMORY_REQUEST_SUFFIX, id="memory request"),
            pytest.param(".gpu-memory.limit", names.GPU_MEMORY_LIMIT_SUFFIX, id="memory limit"),
            pytest.param(".gpus.devices", names.GPU_DEVICES_SUFFIX, id="devices"),
            pytest.param(".gpu-compute.mode", names.GPU_COMPUTE_MODE_SUFFIX, id="compute mode"),
            pytest.param("NVIDIA_GPU_MEMORY_REQUEST", names.ENV_MEMORY_REQUEST, id="request variable"),
            pytest.param("NVIDIA_GPU_MEMORY_LIMIT", names.ENV_MEMORY_LIMIT, id="limit variable"),
            pytest.param("CUDA_MPS_PIPE_DIRECTORY", names.ENV_MPS_PIPE_DIRECTORY, id="pipe variable"),
            pytest.param("NVIDIA_VISIBLE_DEVICES", names.ENV_VISIBLE_DEVICES, id="devices variable"),
            pytest.param("void", names.VISIBLE_DEVICES_VOID, id="no devices"),
            pytest.param("/run/nvidia-mps", names.MPS_PIPE_DIR, id="pipe directory"),
            pytest.param("shared/default", names.SHARED_PIPE_SUBPATH, id="shared server"),
            pytest.param("/tmp/nvidia-mps", names.SM_SHARING_PIPE_DIR, id="sm-sharing directory"),
            pytest.param("/var/run/gpu-fractioning/map", names.MAP_DIR, id="record directory"),
            pytest.param("/var/run/nri/nri.sock", names.NRI_SOCKET, id="NRI socket"),
            pytest.param("/run/containerd/containerd.sock", names.CRI_SOCKET, id="CRI socket"),
            pytest.param(8093, names.READINESS_PORT, id="readiness port"),
            pytest.param(
                "gpu-fractioning.kai.scheduler/nvidia-driver-version.major", names.DRIVER_LABEL, id="driver label"
            ),
            pytest.param("k8s.device-plugin.nvidia.com/gpu", names.CDI_GPU_KIND, id="CDI kind"),
            pytest.param("app.kubernetes.io/version", names.CLUSTER_POLICY_VERSION_LABEL, id="version label"),
        ],
    )
    def test_spelling(self, expected: object, actual: object) -> None:
        """A name that others read keeps its spelling."""
        assert expected == actual
