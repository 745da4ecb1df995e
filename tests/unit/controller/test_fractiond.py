"""The DaemonSet of fractiond and metricsd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from controller import fractiond
from controller.daemonset import Input, Manifest
from controller.options import Options
from controller.testing.builders import OPTIONS, a_config
from fractioning_core.resource import FractioningAgent, MetricNames, MetricsAgent, Toleration

CDI = "nvidia.cdi.k8s.io/container.metricsd"
DEVICE = "management.nvidia.com/gpu=all"
PROMETHEUS = {
    "prometheus.io/scrape": "true",
    "prometheus.io/port": "2112",
    "prometheus.io/path": "/metrics",
}


def an_agent(**fields: Any) -> FractioningAgent:  # noqa: ANN401 - fields of what is built
    return FractioningAgent(**{"retroactive_enforcement": False, **fields})


def metrics_on(**fields: Any) -> MetricsAgent:  # noqa: ANN401 - fields of what is built
    return MetricsAgent(**{"enabled": True, **fields})


def built(*, is_nri: bool = False, options: Options = OPTIONS, **spec: Any) -> Manifest:  # noqa: ANN401 - fields of what is built
    return fractiond.build(Input(a_config(**spec), options, is_nri))


def pod(manifest: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return found


def template_annotations(manifest: Manifest) -> dict[str, str]:
    found: dict[str, str] = manifest["spec"]["template"]["metadata"].get("annotations", {})
    return found


def containers(manifest: Manifest) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in pod(manifest)["containers"]}


def volumes(manifest: Manifest) -> dict[str, Any]:
    return {one["name"]: one.get("hostPath") for one in pod(manifest)["volumes"]}


def mounts(container: dict[str, Any]) -> list[tuple[str, str, bool]]:
    return [(one["name"], one["mountPath"], one.get("readOnly", False)) for one in container["volumeMounts"]]


class TestShape:
    def test_without_an_agent(self, golden: Callable[[str, object], None]) -> None:
        """Without options of fractiond the pod holds what works everywhere."""
        manifest = built(metrics_agent=metrics_on())
        golden("fractiond-default", manifest)

        found = containers(manifest)
        assert found["fractiond"]["args"] == ["--support-sm-sharing=true", "--inject-cdi-device=false"]
        assert list(found) == ["fractiond", "metricsd"]
        assert mounts(found["fractiond"]) == [
            ("nri-socket", "/var/run/nri", True),
            ("mps-pipe", "/run/nvidia-mps", True),
            ("map-dir", "/var/run/gpu-fractioning/map", False),
        ]
        assert mounts(found["metricsd"]) == [("map-dir", "/var/run/gpu-fractioning/map", True)]
        assert found["metricsd"]["ports"] == [{"name": "metrics", "containerPort": 2112, "protocol": "TCP"}]

    def test_everything(self, golden: Callable[[str, object], None]) -> None:
        """Every option has its place."""
        options = attrs.evolve(
            OPTIONS,
            fips_mode="only",
            image_pull_secrets=("registry",),
            required_scc="gpu-fractioning",
            priority_class_name="system-node-critical",
        )
        agent = an_agent(
            annotation_prefix="example.com/",
            fail_open=True,
            nri_socket_path="/custom/nri/nri.sock",
            retroactive_enforcement=True,
            cri_socket_path="/run/crio/crio.sock",
            log_level="debug",
            readiness_port=9999,
        )
        metrics = metrics_on(
            log_level="warn",
            address="127.0.0.1:9400",
            path="gpu",
            metric_names=MetricNames("a", "b", "c"),
            volumes=({"name": "mock", "configMap": {"name": "nvml"}},),
            volume_mounts=({"name": "mock", "mountPath": "/etc/nvml-mock"},),
        )
        toleration = Toleration("nvidia.com/gpu", "Exists", None, "NoSchedule", None)

        golden(
            "fractiond-everything",
            built(
                is_nri=True,
                options=options,
                fractioning_agent=agent,
                metrics_agent=metrics,
                tolerations=(toleration,),
            ),
        )

    def test_security(self) -> None:
        """Fractiond is root and nothing more; only metricsd, where it is on, is privileged and sees the node's PIDs."""
        manifest = built(metrics_agent=metrics_on())
        found = containers(manifest)

        assert found["fractiond"]["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "seLinuxOptions": {"level": "s0", "type": "spc_t"},
            "seccompProfile": {"type": "RuntimeDefault"},
        }
        assert found["metricsd"]["securityContext"] == {"privileged": True}
        assert pod(manifest)["hostPID"]

    def test_account(self) -> None:
        """The pod has an account of its own without a token, and the namespace's default where none is named."""
        own = pod(built())
        default = pod(built(options=attrs.evolve(OPTIONS, fractiond_service_account="")))

        assert ("gpu-fractioning-fractiond", False) == (own["serviceAccountName"], own["automountServiceAccountToken"])
        assert "serviceAccountName" not in default

    def test_metrics_off(self) -> None:
        """Without metrics there is one container, and no way to a GPU."""
        manifest = built(metrics_agent=metrics_on(enabled=False, volumes=({"name": "mock"},)))

        assert list(containers(manifest)) == ["fractiond"]
        assert "runtimeClassName" not in pod(manifest)
        assert "hostPID" not in pod(manifest)
        assert "initContainers" not in pod(manifest)
        assert template_annotations(manifest) == {}
        assert list(volumes(manifest)) == ["nri-socket", "mps-pipe"]

    def test_tolerations(self) -> None:
        """Tolerations are the config's, and there are none by default."""
        toleration = Toleration("a", "Equal", "b", "NoExecute", 30)

        assert "tolerations" not in pod(built())
        assert pod(built(tolerations=(toleration,)))["tolerations"] == [
            {"key": "a", "operator": "Equal", "value": "b", "effect": "NoExecute", "tolerationSeconds": 30}
        ]


class TestGpuAccess:
    @pytest.mark.parametrize(
        ("is_nri", "name", "is_measured", "runtime_class", "annotations"),
        [
            pytest.param(False, None, True, "nvidia", PROMETHEUS, id="default"),
            pytest.param(False, "custom", True, "custom", PROMETHEUS, id="another class"),
            pytest.param(False, "", True, None, PROMETHEUS, id="no class"),
            pytest.param(True, None, True, None, {**PROMETHEUS, CDI: DEVICE}, id="NRI"),
            pytest.param(True, "custom", True, None, {**PROMETHEUS, CDI: DEVICE}, id="NRI over another class"),
            pytest.param(True, None, False, None, {}, id="NRI, metrics off"),
            pytest.param(False, None, False, None, {}, id="metrics off"),
        ],
    )
    def test_table(
        self,
        *,
        is_nri: bool,
        name: str | None,
        is_measured: bool,
        runtime_class: str | None,
        annotations: dict[str, str],
    ) -> None:
        """The sidecar gets at the GPUs by class or by annotation, never by both."""
        manifest = built(is_nri=is_nri, runtime_class_name=name, metrics_agent=metrics_on(enabled=is_measured))

        assert runtime_class == pod(manifest).get("runtimeClassName")
        assert annotations == template_annotations(manifest)

    def test_environment(self) -> None:
        """The sidecar sees every GPU, and only what utilities need of the driver."""
        env = containers(built(metrics_agent=metrics_on()))["metricsd"]["env"]

        assert env == [
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
        ]

    def test_cdi_specs(self) -> None:
        """In NRI mode fractiond sees the CDI specs, to refuse a GPU that none of them names."""
        manifest = built(is_nri=True)

        assert mounts(containers(manifest)["fractiond"])[-2:] == [
            ("cdi-static", "/etc/cdi", True),
            ("cdi-dynamic", "/var/run/cdi", True),
        ]
        assert volumes(manifest)["cdi-dynamic"] == {"path": "/var/run/cdi", "type": "DirectoryOrCreate"}


class TestArguments:
    @pytest.mark.parametrize("value", [True, False])
    def test_always_told(self, *, value: bool) -> None:
        """Both modes are told whether they are on or off, so that leaving one rolls back."""
        manifest = built(is_nri=value, options=attrs.evolve(OPTIONS, support_sm_sharing=value))
        text = "true" if value else "false"

        assert containers(manifest)["fractiond"]["args"] == [
            f"--support-sm-sharing={text}",
            f"--inject-cdi-device={text}",
        ]

    def test_all(self) -> None:
        """Every option of the config is a flag, in one order."""
        agent = an_agent(
            annotation_prefix="custom.example.com/c.",
            fail_open=True,
            nri_socket_path="/custom/nri.sock",
            retroactive_enforcement=True,
            cri_socket_path="/other/cri.sock",
            log_level="debug",
            retry_interval_seconds=10.0,
            stable_threshold_seconds=600.0,
            max_retries=5,
        )

        assert containers(built(fractioning_agent=agent))["fractiond"]["args"] == [
            "--support-sm-sharing=true",
            "--inject-cdi-device=false",
            "--annotation-prefix",
            "custom.example.com/c.",
            "--fail-open",
            "--socket-path",
            "/custom/nri.sock",
            "--log-level",
            "debug",
            "--retry-interval",
            "10s",
            "--stable-threshold",
            "10m0s",
            "--max-retries",
            "5",
            "--retroactive-enforcement=true",
            "--cri-socket",
            "/other/cri.sock",
        ]

    def test_zero_retries(self) -> None:
        """Zero is a value, not an absence."""
        args = containers(built(fractioning_agent=an_agent(max_retries=0)))["fractiond"]["args"]

        assert args[2:] == ["--max-retries", "0", "--retroactive-enforcement=false"]


class TestSockets:
    def test_enforcement(self) -> None:
        """Enforcement needs the CRI socket's directory, which may come later than the pod."""
        agent = an_agent(retroactive_enforcement=True, cri_socket_path="/custom/cri.sock")
        manifest = built(fractioning_agent=agent)

        assert volumes(manifest)["cri-socket"] == {"path": "/custom", "type": "DirectoryOrCreate"}
        assert ("cri-socket", "/custom", True) in mounts(containers(manifest)["fractiond"])

    def test_default(self) -> None:
        """The sockets are containerd's where nothing else is said."""
        manifest = built(fractioning_agent=an_agent(retroactive_enforcement=True))

        assert volumes(manifest)["nri-socket"] == {"path": "/var/run/nri"}
        assert volumes(manifest)["cri-socket"] == {"path": "/run/containerd", "type": "DirectoryOrCreate"}

    def test_no_enforcement(self) -> None:
        """Without enforcement nothing of the CRI socket is there."""
        manifest = built(fractioning_agent=an_agent())
        found = containers(manifest)["fractiond"]

        assert "cri-socket" not in volumes(manifest)
        assert "--retroactive-enforcement=false" in found["args"]
        assert "--cri-socket" not in found["args"]

    def test_side_by_side(self) -> None:
        """Two sockets in one directory need one mount."""
        agent = an_agent(retroactive_enforcement=True, nri_socket_path="/run/containerd/nri.sock")

        assert list(volumes(built(fractioning_agent=agent))) == ["nri-socket", "mps-pipe"]


class TestProbes:
    def test_default(self) -> None:
        """Ready is what fractiond says; alive is a port that can be connected to."""
        found = containers(built())["fractiond"]

        assert found["readinessProbe"] == {
            "httpGet": {"path": "/readyz", "port": 8093},
            "initialDelaySeconds": 5,
            "periodSeconds": 10,
        }
        assert found["livenessProbe"] == {
            "tcpSocket": {"port": 8093},
            "initialDelaySeconds": 10,
            "periodSeconds": 20,
            "failureThreshold": 3,
        }
        assert found["ports"] == [{"name": "readiness", "containerPort": 8093, "protocol": "TCP"}]
        assert "--readiness-port" not in found["args"]

    def test_another_port(self) -> None:
        """Probe, port and flag name the same number."""
        found = containers(built(fractioning_agent=an_agent(readiness_port=9999)))["fractiond"]

        assert found["readinessProbe"]["httpGet"]["port"] == 9999
        assert found["livenessProbe"]["tcpSocket"]["port"] == 9999
        assert [port["containerPort"] for port in found["ports"]] == [9999]
        assert found["args"][-3:] == ["--readiness-port", "9999", "--retroactive-enforcement=false"]

    def test_metricsd(self) -> None:
        """The sidecar is asked on its own port."""
        found = containers(built(metrics_agent=metrics_on()))["metricsd"]

        assert found["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": 2112}
        assert found["livenessProbe"] == {
            "httpGet": {"path": "/healthz", "port": 2112},
            "initialDelaySeconds": 15,
            "periodSeconds": 20,
            "failureThreshold": 3,
        }


class TestResources:
    @pytest.mark.parametrize(
        ("container", "request_", "limit"), [("fractiond", "64Mi", "256Mi"), ("metricsd", "128Mi", "512Mi")]
    )
    def test_contract(self, container: str, request_: str, limit: str) -> None:
        """Memory is limited and the CPU never is."""
        found = containers(built(metrics_agent=metrics_on()))[container]["resources"]

        assert found == {
            "requests": {"cpu": "50m", "memory": request_, "ephemeral-storage": "100Mi"},
            "limits": {"memory": limit},
        }


class TestFips:
    @pytest.mark.parametrize("mode", ["off", "on"])
    def test_not_only(self, mode: str) -> None:
        """Other modes leave the environment alone."""
        found = containers(built(options=attrs.evolve(OPTIONS, fips_mode=mode), metrics_agent=metrics_on()))

        assert "env" not in found["fractiond"]
        assert "FIPS_MODE" not in {one["name"] for one in found["metricsd"]["env"]}

    def test_only(self) -> None:
        """Mode `only` reaches both containers, after what NVIDIA's runtime reads."""
        found = containers(built(options=attrs.evolve(OPTIONS, fips_mode="only"), metrics_agent=metrics_on()))

        assert found["fractiond"]["env"] == [{"name": "FIPS_MODE", "value": "only"}]
        assert [one["name"] for one in found["metricsd"]["env"]] == [
            "NVIDIA_VISIBLE_DEVICES",
            "NVIDIA_DRIVER_CAPABILITIES",
            "FIPS_MODE",
        ]


class TestMetricsd:
    def test_some_names(self) -> None:
        """A metric that keeps its name needs no flag."""
        chosen = MetricNames(gpu_memory_used_bytes="a", gpu_sm_utilization_percent="b")
        found = containers(built(metrics_agent=metrics_on(metric_names=chosen)))["metricsd"]

        assert found["args"] == [
            "--metric-name-gpu-memory-used-bytes",
            "a",
            "--metric-name-gpu-sm-utilization-percent",
            "b",
        ]

    def test_more_volumes(self) -> None:
        """Volumes of the config are the pod's, and their mounts are metricsd's alone."""
        volume, volume_mount = {"name": "mock", "configMap": {"name": "nvml"}}, {"name": "mock", "mountPath": "/mock"}
        manifest = built(metrics_agent=metrics_on(volumes=(volume,), volume_mounts=(volume_mount,)))
        found = containers(manifest)

        assert pod(manifest)["volumes"][-1] == volume
        assert found["metricsd"]["volumeMounts"][-1] == volume_mount
        assert volume_mount not in found["fractiond"]["volumeMounts"]

    @pytest.mark.parametrize(
        ("address", "port"),
        [
            pytest.param("", 2112, id="absent"),
            pytest.param(":9400", 9400, id="port"),
            pytest.param(":1", 1, id="the lowest"),
            pytest.param(":65535", 65535, id="the highest"),
            pytest.param("[::1]:9400", 9400, id="address and port"),
            pytest.param("nonsense", 2112, id="no port"),
            pytest.param(":0", 2112, id="zero"),
            pytest.param(":65536", 2112, id="too large"),
            pytest.param(":000000000000002113", 2112, id="too long"),
        ],
    )
    def test_port(self, address: str, port: int) -> None:
        """Port, probes and annotation follow the address, which is passed on as it is."""
        manifest = built(metrics_agent=metrics_on(address=address))
        found = containers(manifest)["metricsd"]

        assert [port] == [one["containerPort"] for one in found["ports"]]
        assert port == found["readinessProbe"]["httpGet"]["port"]
        assert str(port) == template_annotations(manifest)["prometheus.io/port"]
        assert (["--metrics-address", address] if address else None) == found.get("args")

    def test_path(self) -> None:
        """Prometheus is sent where metricsd serves, slash or not."""
        manifest = built(metrics_agent=metrics_on(path="gpu"))

        assert template_annotations(manifest)["prometheus.io/path"] == "/gpu"
