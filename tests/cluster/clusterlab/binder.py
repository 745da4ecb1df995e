"""
A stand-in for the KAI scheduler: does with fractional pods what that one's binder does, and nothing else of it.

    python -m clusterlab.binder DIRECTORY

The annotations go inside the Binding, so that they are on the pod before the kubelet sees it. Where pods are put is
decided in `placement`.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from fractioning_core.errors import FractioningError
from fractioning_core.kube.errors import ApiRefusal
from fractioning_core.kube.transport import Request, Transport

from clusterlab import gpuoperator, placement
from clusterlab.controlplane import ControlPlane
from clusterlab.layout import Layout
from clusterlab.parts import Parts
from clusterlab.placement import Placement
from clusterlab.workers import WORKERS

NAME = "kai-scheduler"
PART = "kai-stand-in"
# Short beside the seconds that a pod takes to start.
_PERIOD_SECONDS = 0.1

Object = Mapping[str, Any]


def main() -> None:
    """
    Place pods for ever.
    """
    layout = Layout(Path(sys.argv[1]))
    asyncio.run(_serve(ControlPlane(layout, Parts(layout)).admin()))


async def _serve(api: Transport) -> None:
    async with api:
        while True:
            try:
                await place_all(api)
            except FractioningError as error:
                # The API server may be away, and that may be the test.
                print(f"{PART}: {error}", flush=True)
            await asyncio.sleep(_PERIOD_SECONDS)


async def place_all(api: Transport) -> None:
    """
    Place every pod that waits for this scheduler, and for which there is room.
    """
    waiting = await _list(api, "/api/v1/pods", fieldSelector=f"spec.schedulerName={NAME},spec.nodeName=")
    for pod in waiting:
        # Read anew for each: the one before has taken its part.
        nodes, pods = await _list(api, "/api/v1/nodes"), await _list(api, "/api/v1/pods")
        found = placement.place(pod, nodes=nodes, pods=pods, workers=WORKERS, is_cdi=await _is_cdi(api))
        if found is not None and not pod["metadata"].get("deletionTimestamp"):
            await _bind(api, pod, found)


async def _bind(api: Transport, pod: Object, found: Placement) -> None:
    metadata = pod["metadata"]
    path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}/binding"
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": metadata["name"], "uid": metadata["uid"], "annotations": dict(found.annotations)},
        "target": {"apiVersion": "v1", "kind": "Node", "name": found.node},
    }
    try:
        await api.ask(Request("POST", path, body=binding))
    except ApiRefusal as error:
        # Deleted in between, most often.
        print(f"{PART}: {error}", flush=True)
        return
    print(f"{PART}: {metadata['namespace']}/{metadata['name']} to {found.node} {dict(found.annotations)}", flush=True)


async def _is_cdi(api: Transport) -> bool:
    """
    Tell whether the device plugin uses CDI, as the GPU Operator's resource says.
    """
    policies = await _list(api, "/apis/nvidia.com/v1/clusterpolicies")
    found = next((each for each in policies if each["metadata"]["name"] == gpuoperator.POLICY), {})
    return bool(found.get("spec", {}).get("cdi", {}).get("nriPluginEnabled"))


async def _list(api: Transport, path: str, **query: str) -> Sequence[Object]:
    items: Sequence[Object] = (await api.ask(Request("GET", path, query=query)))["items"]
    return items


if __name__ == "__main__":
    main()
