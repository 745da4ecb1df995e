"""The DaemonSet of mpsd."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import pytest
from controller import mpsd
from controller.daemonset import Input, Manifest
from controller.options import Options
from controller.testing.builders import OPTIONS, a_config
from fractioning_core.resource import MpsDaemon, Toleration

CDI = {"nvidia.cdi.k8s.io/container.mpsd": "management.nvidia.com/gpu=all"}


def built(*, is_nri: bool = False, options: Options = OPTIONS, **spec: Any) -> Manifest:  # noqa: ANN401 - fields of what is built
    return mpsd.build(Input(a_config(**spec), options, is_nri))


def pod(manifest: Manifest) -> dict[str, Any]:
    found: dict[str, Any] = manifest["spec"]["template"]["spec"]
    return found


def container(manifest: Manifest) -> dict[str, Any]:
    (found,) = pod(manifest)["containers"]
    return dict(found)


def env(manifest: Manifest) -> dict[str, Any]:
    return {one["name"]: one.get("value") for one in container(manifest)["env"]}


class TestShape:
    def test_default(self, golden: Callable[[str, object], None]) -> None:
        """Without options mpsd runs with its own defaults."""
        manifest = built()
        golden("mpsd-default", manifest)

        assert "args" not in container(manifest)
        assert "tolerations" not in pod(manifest)
        assert pod(manifest)["serviceAccountName"] == "gpu-fractioning-daemon"
        assert pod(manifest)["hostPID"] is True
        assert container(manifest)["securityContext"] == {"privileged": True}
        assert container(manifest)["resources"] == {
            "requests": {"cpu": "50m", "memory": "64Mi", "ephemeral-storage": "100Mi"},
            "limits": {"memory": "256Mi"},
        }

    def test_everything(self, golden: Callable[[str, object], None]) -> None:
        """Every option has its place."""
        options = attrs.evolve(
            OPTIONS,
            fips_mode="only",
            image_pull_secrets=("registry",),
            required_scc="gpu-fractioning",
            priority_class_name="system-node-critical",
        )
        golden(
            "mpsd-everything",
            built(
                is_nri=True,
                options=options,
                mps_daemon=MpsDaemon(log_level="debug", graceful_stop_delay_seconds=90.0),
                tolerations=(Toleration("nvidia.com/gpu", "Exists", None, "NoSchedule", None),),
            ),
        )

    @pytest.mark.parametrize(
        ("options", "audit", "sharing"),
        [
            pytest.param(OPTIONS, "true", "true", id="default"),
            pytest.param(attrs.evolve(OPTIONS, audit_log=False), "false", "true", id="no audit log"),
            pytest.param(attrs.evolve(OPTIONS, support_sm_sharing=False), "true", "false", id="no SM sharing"),
        ],
    )
    def test_switches(self, options: Options, audit: str, sharing: str) -> None:
        """The installation's switches are told, on or off."""
        found = env(built(options=options))

        assert (audit, sharing) == (found["MPS_MEMACCT_AUDIT_LOG"], found["MPS_SUPPORT_SM_SHARING"])

    def test_probes(self) -> None:
        """The probes ask mpsd itself; its image has no shell for anything else."""
        found = container(built())

        assert found["readinessProbe"] == {
            "httpGet": {"path": "/readyz", "port": 8094},
            "initialDelaySeconds": 5,
            "periodSeconds": 10,
        }
        assert found["livenessProbe"] == {
            "httpGet": {"path": "/healthz", "port": 8094},
            "initialDelaySeconds": 60,
            "periodSeconds": 30,
            "failureThreshold": 6,
        }
        assert env(built())["MPS_HEALTH_PORT"] == "8094"


class TestGpuAccess:
    @pytest.mark.parametrize(
        ("is_nri", "name", "runtime_class", "annotations"),
        [
            pytest.param(True, None, None, CDI, id="NRI"),
            pytest.param(True, "custom-nvidia", None, CDI, id="NRI over another class"),
            pytest.param(False, None, "nvidia", {}, id="default"),
            pytest.param(False, "custom", "custom", {}, id="another class"),
            pytest.param(False, "", None, {}, id="no class"),
        ],
    )
    def test_table(
        self, *, is_nri: bool, name: str | None, runtime_class: str | None, annotations: dict[str, str]
    ) -> None:
        """The daemon gets at the GPUs by class or by annotation, never by both."""
        manifest = built(is_nri=is_nri, runtime_class_name=name)

        assert runtime_class == pod(manifest).get("runtimeClassName")
        assert annotations == manifest["spec"]["template"]["metadata"].get("annotations", {})


class TestFips:
    @pytest.mark.parametrize(("mode", "expected"), [("off", None), ("on", None), ("only", "only")])
    def test_table(self, mode: str, expected: str | None) -> None:
        """Only mode `only` reaches the program, and replaces nothing."""
        found = env(built(options=attrs.evolve(OPTIONS, fips_mode=mode)))

        assert expected == found.get("FIPS_MODE")
        assert {"NODE_NAME", "NVIDIA_VISIBLE_DEVICES", "MPS_MEMACCT_AUDIT_LOG"} <= found.keys()


class TestArguments:
    def test_all(self) -> None:
        """Every option of the config is a flag, in one order."""
        agent = MpsDaemon(
            log_level="debug",
            backoff_seconds=10.0,
            max_retries=5,
            stable_threshold_seconds=600.0,
            graceful_stop_delay_seconds=30.0,
        )

        assert container(built(mps_daemon=agent))["args"] == [
            *("--log-level", "debug"),
            *("--backoff", "10s"),
            *("--max-retries", "5"),
            *("--stable-threshold", "10m0s"),
            *("--graceful-stop-delay", "30s"),
        ]


class TestGrace:
    @pytest.mark.parametrize(
        ("delay", "expected"),
        [
            pytest.param(None, 75, id="default"),
            pytest.param(90.0, 105, id="90s"),
            pytest.param(0.0, 15, id="none"),
            pytest.param(0.5, 16, id="a part of a second"),
        ],
    )
    def test_table(self, delay: float | None, expected: int) -> None:
        """The pod may take longer than the control daemon may."""
        manifest = built(mps_daemon=MpsDaemon(graceful_stop_delay_seconds=delay))

        assert expected == pod(manifest)["terminationGracePeriodSeconds"]
        assert expected > (60 if delay is None else delay)

    def test_without_options(self) -> None:
        """The default holds without any options as well."""
        assert pod(built())["terminationGracePeriodSeconds"] == 75
