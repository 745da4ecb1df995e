"""Where the stand-in for the KAI scheduler puts pods; no cluster is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from clusterlab import placement
from clusterlab.placement import NODE_CONDITION, Placement
from clusterlab.workers import Worker

WORKERS = (Worker("a", 1, ("GPU-a0", "GPU-a1")), Worker("b", 2, ("GPU-b0",)), Worker("plain", 3))
REQUEST = "nvidia.com/container.main.gpu-memory.request"
DEVICES = "nvidia.com/container.main.gpus.devices"


def a_node(name: str, *, enforces: bool = True, **labels: str) -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": "True"}, {"type": NODE_CONDITION, "status": str(enforces)}]
    return {"metadata": {"name": name, "labels": labels}, "spec": {}, "status": {"conditions": conditions}}


def a_pod(annotations: Mapping[str, str] | None = None, *, node: str = "", **spec: object) -> dict[str, Any]:
    return {
        "metadata": {"name": "pod", "annotations": dict(annotations or {})},
        "spec": {"containers": [{"name": "main"}], **({"nodeName": node} if node else {}), **spec},
        "status": {},
    }


def placed(
    pod: Mapping[str, Any],
    *,
    nodes: Sequence[Mapping[str, Any]] = (a_node("a"), a_node("b")),
    pods: Sequence[Mapping[str, Any]] = (),
    is_cdi: bool = False,
) -> Placement | None:
    return placement.place(pod, nodes=nodes, pods=pods, workers=WORKERS, is_cdi=is_cdi)


class TestPlace:
    def test_bare_uuid(self) -> None:
        """
        A fractional pod gets the first of equal GPUs, by its UUID.
        """
        assert Placement("a", {DEVICES: "GPU-a0"}) == placed(a_pod({REQUEST: "1Gi"}))

    def test_cdi_name(self) -> None:
        """
        Where the device plugin uses CDI, the GPU is named as it does.
        """
        found = placed(a_pod({REQUEST: "1Gi"}), is_cdi=True)

        assert Placement("a", {DEVICES: "k8s.device-plugin.nvidia.com/gpu=GPU-a0"}) == found

    @pytest.mark.parametrize(
        ("annotations", "request_annotation"),
        [
            pytest.param({"gpu-memory": "2048"}, "2048Mi", id="MiB"),
            pytest.param({"gpu-fraction": "0.5"}, "20480Mi", id="fraction"),
        ],
    )
    def test_what_users_of_kai_write(self, annotations: Mapping[str, str], request_annotation: str) -> None:
        """
        What KAI's users ask for becomes a request, as a quantity.
        """
        assert Placement("a", {REQUEST: request_annotation, DEVICES: "GPU-a0"}) == placed(a_pod(annotations))

    def test_most_memory(self) -> None:
        """
        Requests of the pods that are there count.
        """
        there = [a_pod({REQUEST: "1Gi", DEVICES: gpu}, node="a") for gpu in ("GPU-a0", "GPU-a1")]

        assert Placement("b", {DEVICES: "GPU-b0"}) == placed(a_pod({REQUEST: "1Gi"}), pods=there)

    def test_no_room(self) -> None:
        """
        A pod waits while no GPU has room for it.
        """
        assert None is placed(a_pod({REQUEST: "41Gi"}))

    def test_waiting_pods(self) -> None:
        """
        A pod that waits, such as the one to be placed, has no memory yet.
        """
        pod = a_pod({REQUEST: "30Gi", DEVICES: "GPU-a0"})

        assert Placement("a", {DEVICES: "GPU-a0"}) == placed(pod, pods=[pod])

    def test_unready_nodes(self) -> None:
        """
        A node that does not enforce fractions gets none, and pods without a fraction all the same.
        """
        nodes = [a_node("a", enforces=False), a_node("plain")]

        assert None is placed(a_pod({REQUEST: "1Gi"}), nodes=nodes)
        assert Placement("a") == placed(a_pod(), nodes=nodes)

    def test_wanted_gpu(self) -> None:
        """
        A pod that names its GPU gets that one.
        """
        assert Placement("a", {DEVICES: "GPU-a1"}) == placed(a_pod({REQUEST: "1Gi", DEVICES: "GPU-a1"}))

    def test_node_selector(self) -> None:
        """
        A pod's node selector holds.
        """
        nodes = [a_node("a"), a_node("b", zone="z")]

        assert Placement("b") == placed(a_pod(nodeSelector={"zone": "z"}), nodes=nodes)
