from __future__ import annotations

from typing import Any

import attrs
import pytest
from fractioning_core import resource
from fractioning_core.resource import (
    Condition,
    Config,
    FractioningAgent,
    InvalidResource,
    MetricNames,
    MetricsAgent,
    MpsDaemon,
    Problem,
    Spec,
    Toleration,
)
from fractioning_core.testing.manifests import SELECTOR, a_config_manifest, a_spec

NOW = "2026-11-29T12:00:00Z"

READY = Condition("Ready", "True", "AllComponentsReady", "", observed_generation=3, last_transition_time=NOW)
READY_BODY = {
    "type": "Ready",
    "status": "True",
    "reason": "AllComponentsReady",
    "message": "",
    "observedGeneration": 3,
    "lastTransitionTime": NOW,
}


NEW = Config("default", "", 0, "", is_deleting=False, finalizers=(), spec=Spec(node_selector=SELECTOR))


def refusal_of(manifest: dict[str, Any]) -> InvalidResource:
    """Read what cannot be read."""
    with pytest.raises(InvalidResource) as caught:
        resource.read(manifest)
    return caught.value


def refusal(*problems: Problem) -> InvalidResource:
    """Refuse a resource of which nothing matters."""
    config = Config("default", "", 0, "", is_deleting=False, finalizers=(), spec=Spec(node_selector={}))
    return InvalidResource(problems, config)


class TestRead:
    """A resource that the API server gives."""

    def test_least(self) -> None:
        """A resource with a node selector alone has nothing else."""
        assert NEW == resource.read(a_config_manifest())

    def test_all_of_the_spec(self) -> None:
        """Every field is read, durations as seconds."""
        spec = {
            "nodeSelector": {"a/b": "c", "d": ""},
            "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30}],
            "runtimeClassName": "",
            "fractioningAgent": {
                "annotationPrefix": "custom.example.com/c.",
                "failOpen": True,
                "nriSocketPath": "/custom/nri.sock",
                "retroactiveEnforcement": False,
                "criSocketPath": "/custom/cri.sock",
                "logLevel": "debug",
                "retryInterval": "10s",
                "stableThreshold": "10m",
                "maxRetries": 5,
                "readinessPort": 9999,
            },
            "metricsAgent": {
                "enabled": True,
                "logLevel": "warn",
                "address": ":9400",
                "path": "/m",
                "volumes": [{"name": "lib", "hostPath": {"path": "/usr/lib"}}],
                "volumeMounts": [{"name": "lib", "mountPath": "/lib"}],
                "metricNames": {
                    "gpuMemoryUsedBytes": "a",
                    "gpuSmUtilizationPercent": "b",
                    "gpuSmUtilizationPercentNormalized": "c",
                },
            },
            "mpsDaemon": {
                "logLevel": "error",
                "backoff": "1.5s",
                "maxRetries": 0,
                "stableThreshold": "0",
                "gracefulStopDelay": "1m30s",
            },
        }

        read = resource.read(a_config_manifest(spec))

        expected = Spec(
            node_selector={"a/b": "c", "d": ""},
            tolerations=(Toleration(key="gpu", operator="Exists", effect="NoExecute", toleration_seconds=30),),
            runtime_class_name="",
            fractioning_agent=FractioningAgent(
                annotation_prefix="custom.example.com/c.",
                fail_open=True,
                nri_socket_path="/custom/nri.sock",
                retroactive_enforcement=False,
                cri_socket_path="/custom/cri.sock",
                log_level="debug",
                retry_interval_seconds=10.0,
                stable_threshold_seconds=600.0,
                max_retries=5,
                readiness_port=9999,
            ),
            metrics_agent=MetricsAgent(
                enabled=True,
                log_level="warn",
                address=":9400",
                path="/m",
                volumes=({"name": "lib", "hostPath": {"path": "/usr/lib"}},),
                volume_mounts=({"name": "lib", "mountPath": "/lib"},),
                metric_names=MetricNames("a", "b", "c"),
            ),
            mps_daemon=MpsDaemon(
                log_level="error",
                backoff_seconds=1.5,
                max_retries=0,
                stable_threshold_seconds=0.0,
                graceful_stop_delay_seconds=90.0,
            ),
        )
        assert attrs.evolve(NEW, spec=expected) == read

    def test_empty_sections(self) -> None:
        """A section with nothing in it has what stands for absent, and enforces."""
        read = resource.read(a_config_manifest(a_spec(fractioningAgent={}, metricsAgent={}, mpsDaemon={})))

        expected = Spec(
            node_selector=SELECTOR,
            fractioning_agent=FractioningAgent(
                annotation_prefix="",
                fail_open=None,
                nri_socket_path="",
                retroactive_enforcement=True,
                cri_socket_path="",
                log_level="",
                retry_interval_seconds=None,
                stable_threshold_seconds=None,
                max_retries=None,
                readiness_port=None,
            ),
            metrics_agent=MetricsAgent(
                enabled=False, log_level="", address="", path="", volumes=(), volume_mounts=(), metric_names=None
            ),
            mps_daemon=MpsDaemon(
                log_level="",
                backoff_seconds=None,
                max_retries=None,
                stable_threshold_seconds=None,
                graceful_stop_delay_seconds=None,
            ),
        )
        assert attrs.evolve(NEW, spec=expected) == read

    def test_metadata(self) -> None:
        """What the API server says of the object is taken over."""
        manifest = a_config_manifest(
            uid="u-1",
            generation=7,
            resourceVersion="42",
            deletionTimestamp=NOW,
            finalizers=["a.example.com/x", "b.example.com/y"],
            annotations={"some": "thing"},
        )

        assert attrs.evolve(
            NEW,
            uid="u-1",
            generation=7,
            resource_version="42",
            is_deleting=True,
            finalizers=("a.example.com/x", "b.example.com/y"),
        ) == resource.read(manifest)

    def test_status(self) -> None:
        """The conditions are read as they were written."""
        manifest = a_config_manifest(status={"observedGeneration": 3, "conditions": [READY_BODY]})

        assert attrs.evolve(NEW, conditions=(READY,), observed_generation=3) == resource.read(manifest)

    @pytest.mark.parametrize(
        "status",
        [
            pytest.param({"conditions": [{**READY_BODY, "status": "Maybe"}]}, id="status of another word"),
            pytest.param({"conditions": [{"type": "Ready"}]}, id="parts missing"),
            pytest.param({"conditions": ["Ready"]}, id="text for a condition"),
            pytest.param({"conditions": {"Ready": "True"}}, id="object for the list"),
            pytest.param({"observedGeneration": "3"}, id="text for a number"),
            pytest.param([], id="list for the status"),
        ],
    )
    def test_unreadable_status(self, status: object) -> None:
        """A condition that cannot be read is as good as none, since the next status replaces it."""
        assert NEW == resource.read(a_config_manifest(status=status))

    def test_unknown_fields(self) -> None:
        """What we do not know is passed over, at every depth."""
        manifest = a_config_manifest(a_spec(images={"mpsd": "x"}, mpsDaemon={"recycleWhenIdle": True}))

        assert attrs.evolve(NEW, spec=Spec(node_selector=SELECTOR, mps_daemon=MpsDaemon())) == resource.read(manifest)

    def test_nulls(self) -> None:
        """A null stands for nothing, as it does for the API server."""
        manifest = a_config_manifest(
            {
                "nodeSelector": {**SELECTOR, "a": None},
                "tolerations": None,
                "mpsDaemon": None,
                "fractioningAgent": {"retroactiveEnforcement": None, "logLevel": None},
            }
        )

        assert attrs.evolve(
            NEW, spec=Spec(node_selector=SELECTOR, fractioning_agent=FractioningAgent())
        ) == resource.read(manifest)


class TestRefusal:
    """A resource with unusable values, as only another schema lets one in."""

    def test_all_at_once(self) -> None:
        """Every unusable value is told, in the order of the schema, and the rest is there to act on."""
        manifest = a_config_manifest(
            a_spec(
                mpsDaemon={"backoff": "5", "logLevel": "warn"},
                fractioningAgent={"readinessPort": 0},
                tolerations=[{"operator": "Exist", "key": "gpu"}],
            ),
            uid="u-1",
            deletionTimestamp=NOW,
        )

        refusal = refusal_of(manifest)

        problems = (
            Problem("spec.tolerations[0].operator", "Exist", "is none of the choices", '"", Exists, Equal, Lt, Gt'),
            Problem(
                "spec.fractioningAgent.readinessPort",
                0,
                "is out of range",
                "a whole number from 1 to 65535, without quotes",
            ),
            Problem(
                "spec.mpsDaemon.backoff",
                "5",
                "is not a duration of at least 1ms",
                "a number with a unit, such as 30s, 1m30s or 250ms, of at least 1ms",
            ),
        )
        rest = Spec(
            node_selector=SELECTOR,
            tolerations=(Toleration(key="gpu"),),
            fractioning_agent=FractioningAgent(),
            mps_daemon=MpsDaemon(log_level="warn"),
        )
        assert InvalidResource(problems, attrs.evolve(NEW, spec=rest, uid="u-1", is_deleting=True)) == refusal

    @pytest.mark.parametrize(
        ("manifest", "path", "reason"),
        [
            pytest.param({**a_config_manifest(), "spec": None}, "spec", "is missing", id="no spec"),
            pytest.param(a_config_manifest([]), "spec", "is not an object", id="list for the spec"),
            pytest.param(a_config_manifest({}), "spec.nodeSelector", "is missing", id="no node selector"),
            pytest.param(
                a_config_manifest({"nodeSelector": {"a": 1}}), "spec.nodeSelector.a", "is not a text", id="number"
            ),
            pytest.param(
                a_config_manifest(a_spec(tolerations=[None])), "spec.tolerations[0]", "is not an object", id="null item"
            ),
            pytest.param(
                a_config_manifest(a_spec(metricsAgent={"volumes": [{"name": "x"}, {"hostPath": {"path": "/"}}]})),
                "spec.metricsAgent.volumes[1].name",
                "is missing",
                id="volume without a name",
            ),
            pytest.param(
                a_config_manifest(
                    a_spec(metricsAgent={"metricNames": {"gpuMemoryUsedBytes": "x", "gpuSmUtilizationPercent": "x"}})
                ),
                "spec.metricsAgent.metricNames",
                "has one name for two metrics",
                id="one name twice",
            ),
            pytest.param(
                a_config_manifest(
                    a_spec(
                        metricsAgent={
                            "metricNames": {"gpuMemoryUsedBytes": "gpu_fractioning_gpu_sm_utilization_percent"}
                        }
                    )
                ),
                "spec.metricsAgent.metricNames",
                "has one name for two metrics",
                id="the name that another metric has by default",
            ),
            pytest.param(a_config_manifest(name="other"), "metadata.name", "is not the name", id="another name"),
        ],
    )
    def test_one(self, manifest: dict[str, Any], path: str, reason: str) -> None:
        """One unusable value is one problem that says where it stands."""
        assert [(path, reason)] == [(problem.path, problem.reason) for problem in refusal_of(manifest).problems]

    def test_unusable_selector(self) -> None:
        """A node selector with one unusable label is none, so that no part of it selects too much."""
        refusal = refusal_of(a_config_manifest({"nodeSelector": {"a": "b", "c d": "e"}}))

        assert Spec(node_selector={}) == refusal.config.spec


class TestWriteStatus:
    """The body for the status subresource."""

    def test_body(self) -> None:
        """It names the resource and has every condition whole."""
        body = resource.write_status((READY,), 3)

        expected = {
            "apiVersion": "gpu-fractioning.kai.scheduler/v1alpha1",
            "kind": "GpuFractioningConfig",
            "metadata": {"name": "default"},
            "status": {"observedGeneration": 3, "conditions": [READY_BODY]},
        }
        assert expected == body

    def test_round_trip(self) -> None:
        """What is written reads as the same conditions."""
        conditions = (READY, Condition("MpsdReady", "False", "X", "why", 4, NOW))

        manifest = a_config_manifest(status=resource.write_status(conditions, 4)["status"])

        assert (conditions, 4) == (resource.read(manifest).conditions, resource.read(manifest).observed_generation)


class TestInvalidResource:
    def test_text(self) -> None:
        """The error names the object and all problems."""
        error = refusal(Problem("a", 1, "is odd", "2"), Problem("b", 3, "is odd", "4"))

        assert 'GpuFractioningConfig "default": a: 1 is odd; accepted: 2; b: 3 is odd; accepted: 4' == str(error)

    def test_many(self) -> None:
        """More problems than fit a condition are counted."""
        error = refusal(*[Problem(f"a{number}", 1, "is odd", "2") for number in range(10)])

        assert str(error).endswith("a7: 1 is odd; accepted: 2; and 2 more")
