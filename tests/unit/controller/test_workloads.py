"""What is read of the daemons' own objects."""

from __future__ import annotations

from typing import Any

import pytest
from controller import workloads
from controller.testing.builders import CONFIG_UID
from controller.workloads import DaemonSetView, FailedCreate, Owner, PodView


def waiting(reason: str) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason}}}


class TestFailureReason:
    @pytest.mark.parametrize(
        ("status", "expected"),
        [
            pytest.param(
                {"phase": "Running", "containerStatuses": [waiting("CrashLoopBackOff")]},
                "CrashLoopBackOff",
                id="a waiting container",
            ),
            pytest.param(
                {
                    "phase": "Pending",
                    "initContainerStatuses": [waiting("ImagePullBackOff")],
                    "containerStatuses": [waiting("PodInitializing")],
                },
                "ImagePullBackOff",
                id="init containers first",
            ),
            pytest.param({"phase": "Pending", "containerStatuses": [waiting("")]}, "Pending", id="an empty reason"),
            pytest.param({"phase": "Failed"}, "Failed", id="a failed pod"),
            pytest.param({"phase": "Running"}, "NotReady", id="running, and nothing waits"),
        ],
    )
    def test_table(self, status: dict[str, Any], expected: str) -> None:
        """The first reason that a container waits for tells why, and the phase where there is none."""
        assert expected == workloads.failure_reason({"status": status})


class TestPod:
    def test_ready(self) -> None:
        """A ready pod has no reason, and belongs to its controller rather than to any owner."""
        manifest = {
            "metadata": {
                "namespace": "ns",
                "name": "mpsd-x",
                "uid": "2",
                "labels": {"app.kubernetes.io/component": "mpsd"},
                "ownerReferences": [{"uid": "other"}, {"uid": "ds", "controller": True}],
            },
            "spec": {"nodeName": "node-a"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        }

        expected = PodView("node-a", "mpsd", is_ready=True, owner_uid="ds")
        assert expected == PodView.from_manifest(manifest)

    def test_leaving(self) -> None:
        """A pod that was told to go is terminating, and says why it is not ready."""
        found = PodView.from_manifest({"metadata": {"deletionTimestamp": "2026-11-29T12:00:00Z"}})

        assert (True, False, "NotReady") == (found.is_terminating, found.is_ready, found.reason)


class TestDaemonSet:
    def test_whole(self) -> None:
        """A DaemonSet tells whose it is, how far it is and what it was made from."""
        manifest = {
            "metadata": {
                "name": "gpu-fractioning-fractiond",
                "uid": "3",
                "generation": 4,
                "labels": {"a": "b"},
                "annotations": {"gpu-fractioning.kai.scheduler/spec-hash": "abc"},
                "ownerReferences": [
                    {
                        "apiVersion": "gpu-fractioning.kai.scheduler/v1alpha1",
                        "kind": "GpuFractioningConfig",
                        "name": "default",
                        "uid": CONFIG_UID,
                        "controller": True,
                    }
                ],
            },
            "spec": {"template": {"spec": {"containers": [{"args": ["--x", "--inject-cdi-device=true"]}]}}},
            "status": {
                "observedGeneration": 3,
                "desiredNumberScheduled": 5,
                "numberReady": 2,
            },
        }
        owner = Owner("gpu-fractioning.kai.scheduler/v1alpha1", "GpuFractioningConfig", "default", CONFIG_UID)

        expected = DaemonSetView(
            name="gpu-fractioning-fractiond",
            uid="3",
            labels={"a": "b"},
            owner=owner,
            generation=4,
            observed_generation=3,
            desired=5,
            ready=2,
            spec_hash="abc",
            injects_cdi=True,
        )
        assert expected == DaemonSetView.from_manifest(manifest)

    @pytest.mark.parametrize(
        ("args", "expected"),
        [
            pytest.param(["--inject-cdi-device=true"], True, id="on"),
            pytest.param(["--inject-cdi-device=false"], False, id="off"),
            pytest.param(["--log-level", "debug"], None, id="not told"),
            pytest.param(None, None, id="no arguments"),
        ],
    )
    def test_mode(self, *, args: list[str] | None, expected: bool | None) -> None:
        """A running fractiond's argument tells the mode that it was made for."""
        manifest = {"spec": {"template": {"spec": {"containers": [{"name": "fractiond", "args": args}]}}}}

        assert expected is DaemonSetView.from_manifest(manifest).injects_cdi


class TestOwner:
    @pytest.mark.parametrize(
        ("api_version", "kind", "expected"),
        [
            pytest.param("gpu-fractioning.kai.scheduler/v1alpha1", "GpuFractioningConfig", True, id="a config"),
            pytest.param("gpu-fractioning.kai.scheduler/v1", "GpuFractioningConfig", True, id="of another version"),
            pytest.param("example.org/v1alpha1", "GpuFractioningConfig", False, id="a namesake"),
            pytest.param("gpu-fractioning.kai.scheduler/v1alpha1", "Other", False, id="another kind"),
        ],
    )
    def test_is_config(self, *, api_version: str, kind: str, expected: bool) -> None:
        """A config is known by group and kind."""
        assert expected is Owner(api_version, kind, "default", "1").is_config


class TestFailedCreate:
    @pytest.mark.parametrize(
        ("times", "expected"),
        [
            pytest.param(
                {"lastTimestamp": "2026-11-29T12:00:00Z", "eventTime": None}, "2026-11-29T12:00:00Z", id="old form"
            ),
            pytest.param({"eventTime": "2026-11-29T12:00:00.5Z"}, "2026-11-29T12:00:00.5Z", id="new form"),
            pytest.param(
                {"eventTime": "2026-11-29T12:00:00Z", "series": {"lastObservedTime": "2026-11-29T12:09:00Z"}},
                "2026-11-29T12:09:00Z",
                id="repeated",
            ),
        ],
    )
    def test_time(self, times: dict[str, Any], expected: str) -> None:
        """An event is as old as its last time."""
        about = {"kind": "DaemonSet", "uid": "3"}
        event = {"reason": "FailedCreate", "message": "forbidden", "involvedObject": about, **times}

        assert FailedCreate("3", "forbidden", expected) == FailedCreate.from_manifest(event)

    @pytest.mark.parametrize(
        ("reason", "kind"),
        [
            pytest.param("SuccessfulCreate", "DaemonSet", id="another reason"),
            pytest.param("FailedCreate", "ReplicaSet", id="another kind"),
        ],
    )
    def test_others(self, reason: str, kind: str) -> None:
        """Events about other things are none of ours."""
        event = {"reason": reason, "message": "m", "involvedObject": {"kind": kind, "uid": "3"}}

        assert FailedCreate.from_manifest(event) is None

    @pytest.mark.parametrize(
        ("message", "expected"),
        [
            pytest.param('pods "gpu-fractioning-mpsd-v8xk2" is', 'pods "gpu-fractioning-mpsd-*" is', id="of a pod"),
            pytest.param("gpu-fractioning-mpsd-agent is", "gpu-fractioning-mpsd-agent is", id="another word"),
            pytest.param("gpu-fractioning-mpsd is", "gpu-fractioning-mpsd is", id="its own name"),
        ],
    )
    def test_generated_names(self, message: str, expected: str) -> None:
        """The pod's name, another one at each attempt, makes no other message."""
        about = {"kind": "DaemonSet", "uid": "3", "name": "gpu-fractioning-mpsd"}
        event = {"reason": "FailedCreate", "message": message, "involvedObject": about}

        found = FailedCreate.from_manifest(event)
        assert expected == (found.message if found else None)
