"""
The texts that the programs of a cluster read. Pure: values in, text out.

JSON is YAML as well, and a JSON text is a TOML basic string.
"""

from __future__ import annotations

import json
from pathlib import Path

from clusterlab.workers import Worker

CRI_SOCKET = "/run/containerd/containerd.sock"
_CONTAINERD = """\
version = 3
root = "/var/lib/containerd"
state = "/run/containerd"

[plugins.'io.containerd.internal.v1.opt']
  path = "/var/lib/containerd-opt"

[plugins.'io.containerd.nri.v1.nri']
  disable = false
  plugin_path = "/var/lib/nri/plugins"
  plugin_config_path = "/var/lib/nri/conf.d"

[plugins.'io.containerd.cri.v1.runtime']
  # Neither lowering a score nor AppArmor is possible in every place where tests run.
  restrict_oom_score_adj = true
  disable_apparmor = true
  cdi_spec_dirs = ["/etc/cdi", "/run/cdi"]
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/usr/lib/cni"]
    conf_dir = %(network)s
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]
      BinaryName = %(runtime)s

[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = %(pause)s
"""


def containerd(*, network: Path, runtime: Path, pause: str) -> str:
    """
    Write containerd's configuration, with NRI and two runtimes, `runc` and `nvidia`.

    Args:
        network: The directory of the network's configuration.
        runtime: The program that stands for NVIDIA's.
        pause: The image of sandboxes.
    """
    values = {"network": str(network), "runtime": str(runtime), "pause": pause}
    return _CONTAINERD % {name: json.dumps(value) for name, value in values.items()}


def network(worker: Worker) -> str:
    """
    Write the network of a worker's pods: a bridge, of which the routes of the others know.
    """
    ranges = [[{"subnet": worker.pod_subnet}]]
    bridge = {
        "type": "bridge",
        "bridge": "pods",
        "isGateway": True,
        "ipMasq": False,
        "ipam": {"type": "host-local", "dataDir": "/run/ipam", "ranges": ranges, "routes": [{"dst": "0.0.0.0/0"}]},
    }
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [bridge, {"type": "loopback"}]}, indent=2)


def kubelet(*, cgroup: str, ca: Path) -> str:
    """
    Write the kubelet's configuration.

    Args:
        cgroup: The cgroup of all its pods.
        ca: Of whoever may ask it.
    """
    return json.dumps(
        {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "containerRuntimeEndpoint": f"unix://{CRI_SOCKET}",
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": cgroup,
            # Nothing of the machine itself is reserved or limited: it has other work.
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "oomScoreAdj": 0,
            # Containers of tests have no CAP_SYS_RESOURCE, without which some settings of the kernel are out of reach.
            "featureGates": {"KubeletInUserNamespace": True, "KubeletCrashLoopBackOffMax": True},
            "authentication": {
                "anonymous": {"enabled": False},
                "webhook": {"enabled": True},
                "x509": {"clientCAFile": str(ca)},
            },
            "authorization": {"mode": "Webhook"},
            "readOnlyPort": 0,
            # A machine whose disk is nearly full for other reasons is still good for tests.
            "imageGCHighThresholdPercent": 100,
            "evictionHard": {"memory.available": "50Mi"},
            # Nobody answers there; without one, every pod gets a warning.
            "clusterDNS": ["10.96.0.10"],
            "clusterDomain": "cluster.local",
            "volumePluginDir": "/var/lib/kubelet/volume-plugins",
            # A test waits for what the kubelet notices.
            "syncFrequency": "10s",
            "nodeStatusUpdateFrequency": "4s",
            # A restart loop is slowed down by ten seconds at first; tests of restarts would wait in vain for minutes.
            "crashLoopBackOff": {"maxContainerRestartPeriod": "10s"},
        },
        indent=2,
    )


def kubeconfig(*, url: str, ca: Path, token: str) -> str:
    """
    Write a way to the API server.
    """
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "cluster", "cluster": {"server": url, "certificate-authority": str(ca)}}],
            "users": [{"name": "user", "user": {"token": token}}],
            "contexts": [{"name": "context", "context": {"cluster": "cluster", "user": "user"}}],
            "current-context": "context",
        },
        indent=2,
    )
