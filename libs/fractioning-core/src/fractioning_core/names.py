"""
Every string and number that two programs must agree on.

A spelling that differs between the scheduler, the node daemons, the controller and the NVIDIA stack fails without a
word: an early plural spelling of the memory variables enforced nothing at all. So each stands here once, and code
imports this module as `names`.
"""

from __future__ import annotations

# Pod annotations: prefix + container name + suffix. The prefix is a setting, the suffixes are not.
ANNOTATION_PREFIX = "nvidia.com/container."
GPU_MEMORY_REQUEST_SUFFIX = ".gpu-memory.request"
GPU_MEMORY_LIMIT_SUFFIX = ".gpu-memory.limit"
GPU_DEVICES_SUFFIX = ".gpus.devices"
GPU_COMPUTE_MODE_SUFFIX = ".gpu-compute.mode"

# Environment of a fractional container. The memory pair is read by the container toolkit's CDI hook
# `apply-cuda-memory-limits`: whole MiB, no unit, singular names.
ENV_MEMORY_REQUEST = "NVIDIA_GPU_MEMORY_REQUEST"
ENV_MEMORY_LIMIT = "NVIDIA_GPU_MEMORY_LIMIT"
ENV_MPS_PIPE_DIRECTORY = "CUDA_MPS_PIPE_DIRECTORY"
ENV_VISIBLE_DEVICES = "NVIDIA_VISIBLE_DEVICES"
# What NVIDIA's CDI specs set it to, so that the NVIDIA runtime keeps its hands off.
VISIBLE_DEVICES_VOID = "void"

# MPS sockets: where mpsd makes them on the host, and where containers find them.
MPS_PIPE_DIR = "/run/nvidia-mps"
SHARED_PIPE_SUBPATH = "shared/default"
SM_SHARING_PIPE_DIR = "/tmp/nvidia-mps"  # noqa: S108  the CUDA library's own default, inside the container

# The records that fractiond writes and metricsd reads.
MAP_DIR = "/var/run/gpu-fractioning/map"

# Sockets of the container runtime, as containerd places them.
NRI_SOCKET = "/var/run/nri/nri.sock"
CRI_SOCKET = "/run/containerd/containerd.sock"

# fractiond's HTTP port; the probe in its DaemonSet names the same number.
READINESS_PORT = 8093

# Node label with the driver's major version: written by mpsd, read by the controller. Not the GPU Operator's own
# label, which is missing or stale where something else installed the driver.
DRIVER_LABEL = "gpu-fractioning.kai.scheduler/nvidia-driver-version.major"

# Node annotation with what is wrong with the driver, for a person: written by mpsd, told on by the controller. There is
# none while the driver is fine.
DRIVER_PROBLEM_ANNOTATION = "gpu-fractioning.kai.scheduler/driver-problem"

# The CDI kind that the NVIDIA device plugin publishes, with one device per GPU UUID.
CDI_GPU_KIND = "k8s.device-plugin.nvidia.com/gpu"

# /dev/nvidiaN: the character devices of one GPU each. 255 is /dev/nvidiactl, and nothing between is a GPU.
NVIDIA_DEVICE_MAJOR = 195
NVIDIA_MAX_MINOR = 32

# Where the GPU stack records its versions.
CLUSTER_POLICY_VERSION_LABEL = "app.kubernetes.io/version"
