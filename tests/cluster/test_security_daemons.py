"""
What the product's own pods may do: no more than this page says, and each of it for a reason that is shown.

The rights of the controller are shown to be needed, one by one, on the API server of tests/api.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
import pytest_asyncio
from apilab.helm import NAMESPACE
from clusterlab import accounts, confinement, daemoncopies, processes, strays, tenantpods
from clusterlab import pods as pods_of
from clusterlab.confinement import ALL, NONE, Confinement
from clusterlab.daemoncopies import PIPE_DIRECTORY, PREFIX, Change
from clusterlab.metricspage import MEMORY
from clusterlab.pods import Pods
from clusterlab.release import Release
from clusterlab.strays import Stray
from clusterlab.worker import RunningWorker

FRACTIOND_PORT, METRICSD_PORT, MPSD_PORT = 8093, 2112, 8094
ACCOUNTS = {"controller": "gpu-fractioning", "mpsd": "gpu-fractioning-daemon", "fractiond": "gpu-fractioning-fractiond"}
NODE = "gpu-1"
UNATTRIBUTED = "gpu_fractioning_metricsd_processes_unattributed"
NO_RECORDS = daemoncopies.without_mount("map-dir")
UNPRIVILEGED = daemoncopies.with_security(allowPrivilegeEscalation=False, capabilities={"drop": ["ALL"]})

HELD = {
    "controller": Confinement(
        uid=1000,
        capabilities=NONE,
        may_gain=False,
        is_filtered=True,
        root="ro",
        directories={},
        namespaces=frozenset(),
        has_token=True,
    ),
    "fractiond": Confinement(
        uid=0,
        capabilities=NONE,
        may_gain=False,
        is_filtered=True,
        root="ro",
        directories={
            "/run/nri": "ro",
            "/run/nvidia-mps": "ro",
            "/run/containerd": "ro",
            "/run/gpu-fractioning/map": "rw",
        },
        namespaces=frozenset({"pid"}),
        has_token=False,
    ),
    "metricsd": Confinement(
        uid=0,
        capabilities=ALL,
        may_gain=True,
        is_filtered=False,
        root="rw",
        directories={"/run/gpu-fractioning/map": "ro"},
        namespaces=frozenset({"pid"}),
        has_token=False,
    ),
    "mpsd": Confinement(
        uid=0,
        capabilities=ALL,
        may_gain=True,
        is_filtered=False,
        root="rw",
        directories={"/run/nvidia-mps": "rw", "/var/log/nvidia-mps": "rw"},
        namespaces=frozenset({"pid"}),
        has_token=True,
    ),
}
OURS = "gpufractioningconfigs"
GROUP = "gpu-fractioning.kai.scheduler"
DAEMON_NAMES = ("gpu-fractioning-fractiond", "gpu-fractioning-mpsd")
CLUSTER_WIDE = frozenset(
    {
        *(f"{verb} {OURS}.{GROUP}" for verb in ("list", "watch", "patch")),
        f"patch {OURS}/status.{GROUP}",
        f"update {OURS}/finalizers.{GROUP}",
        *(f"{verb} nodes" for verb in ("list", "watch", "patch")),
        "patch nodes/status",
        *(f"{verb} clusterpolicies.nvidia.com" for verb in ("list", "watch")),
        *(f"{verb} clusterserviceversions.operators.coreos.com" for verb in ("list", "watch")),
    }
)
OWN_NAMESPACE = frozenset(
    {
        *(f"{verb} daemonsets.apps" for verb in ("create", "list", "watch")),
        *(f"{verb} daemonsets.apps {name}" for verb in ("patch", "update", "delete") for name in DAEMON_NAMES),
        *(f"{verb} pods" for verb in ("list", "watch")),
        *(f"{verb} events" for verb in ("list", "watch")),
        "create leases.coordination.k8s.io",
        *(f"{verb} leases.coordination.k8s.io gpu-fractioning.kai.scheduler" for verb in ("get", "update")),
    }
)
RIGHTS = [
    pytest.param("controller", NAMESPACE, CLUSTER_WIDE | OWN_NAMESPACE, id="controller"),
    pytest.param("controller", "default", CLUSTER_WIDE | {"create events", "patch events"}, id="controller, events"),
    pytest.param("controller", "kube-system", CLUSTER_WIDE, id="controller, elsewhere"),
    pytest.param("mpsd", NAMESPACE, {"patch nodes"}, id="mpsd"),
    pytest.param("mpsd", "default", {"patch nodes"}, id="mpsd, elsewhere"),
    pytest.param("fractiond", NAMESPACE, set(), id="fractiond"),
    pytest.param("fractiond", "default", set(), id="fractiond, elsewhere"),
]


async def process_of(release: Release, program: str) -> tuple[RunningWorker, int]:
    """
    Find a process of the product, wherever it runs.
    """
    for worker in release.cluster.running_workers():
        for pid in processes.running(worker, program):
            return worker, pid
    raise AssertionError(program)


class TestHeld:
    @pytest.mark.parametrize("program", HELD)
    async def test_confinement(self, release: Release, program: str) -> None:
        """
        A process has the user, the capabilities, the directories of the node and the namespaces that the table says.
        """
        worker, pid = await process_of(release, program)

        assert HELD[program] == confinement.observe(worker, pid)

    @pytest.mark.parametrize(("program", "namespace", "expected"), RIGHTS)
    async def test_rights(self, release: Release, program: str, namespace: str, expected: set[str]) -> None:
        """
        An account may do in the cluster what the table says, beyond what every account may.
        """
        token = await accounts.issue(release.api, NAMESPACE, ACCOUNTS[program])
        everybody = await accounts.issue(release.api, "default", "default")
        may = await accounts.rights(release.cluster, token, namespace)

        assert frozenset(expected) == may - await accounts.rights(release.cluster, everybody, namespace)

    async def test_hooks(self, release: Release) -> None:
        """
        Nothing is left of what the hooks of installation were allowed.
        """
        found = await release.api.list(f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts")

        assert {"default", *ACCOUNTS.values()} == {each["metadata"]["name"] for each in found}


class TestFractiondNeeds:
    @pytest.mark.parametrize(
        ("changes", "told"),
        [
            pytest.param((), "ok", id="nothing more"),
            pytest.param((daemoncopies.without_mount("nri-socket"),), "/var/run/nri/nri.sock", id="NRI's socket"),
            pytest.param(
                (daemoncopies.with_security(runAsUser=65534, runAsGroup=65534),), "Permission denied", id="root"
            ),
        ],
    )
    async def test_ready(self, release: Release, changes: Sequence[Change], told: str) -> None:
        """
        Without NRI's socket, or without being root, it reaches no runtime and says so; with both it does.
        """
        async with daemoncopies.made(release, "fractiond", *changes, node=NODE) as copy:
            await copy.says(FRACTIOND_PORT, "/readyz", told)

    async def test_cri_socket(self, release: Release) -> None:
        """
        Without CRI's socket containers that slipped through are not found.
        """
        change = daemoncopies.without_mount("cri-socket")
        async with daemoncopies.made(release, "fractiond", change, node=NODE) as copy:
            await copy.logs("fractiond", "containers_not_compared")

    @pytest.mark.parametrize(
        "change",
        [
            pytest.param(daemoncopies.without_mount("map-dir"), id="no directory"),
            pytest.param(daemoncopies.read_only("map-dir"), id="only to read"),
        ],
    )
    async def test_records(self, release: Release, pods: Pods, change: Change) -> None:
        """
        Without a directory to write to there are no records, and metrics know no container.
        """
        async with daemoncopies.made(release, "fractiond", change, node=NODE) as copy:
            await copy.says(FRACTIOND_PORT, "/readyz", "ok")
            asked = pods_of.memory(limit="1Gi", prefix=PREFIX)
            pod = pods_of.manifest("recorded", annotations=asked, scheduler="default-scheduler")
            await pods.run({**pod, "spec": {**pod["spec"], "nodeName": NODE}})

            await copy.logs("fractiond", "record_failed")
            await pods.delete("recorded")


class TestMetricsdNeeds:
    @pytest_asyncio.fixture
    async def user(self, release: Release, pods: Pods) -> None:
        """
        A pod that uses a GPU of the node.
        """
        gpu = release.cluster.worker(NODE).worker.gpus[0]
        using = pods_of.Container(script=pods_of.simgpu(gpu, memory="512Mi"))
        devices = {"nvidia.com/container.main.gpus.devices": gpu}
        await pods.run(tenantpods.manifest("user", annotations=devices, containers=[using]))

    @pytest.mark.parametrize(
        ("changes", "used_bytes"),
        [
            pytest.param((), 512 << 20, id="nothing more"),
            pytest.param((daemoncopies.without("hostPID"),), 0, id="the node's processes"),
        ],
    )
    async def test_use(self, release: Release, user: None, changes: Sequence[Change], used_bytes: int) -> None:
        """
        Without the node's processes those that NVML names belong to nobody; with them it shows what a pod uses.
        """
        async with daemoncopies.made(release, "metricsd", *changes, node=NODE) as copy:
            await copy.shows(METRICSD_PORT, MEMORY, used_bytes, pod="user")

    @pytest.mark.parametrize(
        ("changes", "reason"),
        [
            pytest.param((NO_RECORDS,), "no_record", id="records"),
            pytest.param((NO_RECORDS, UNPRIVILEGED), "unannotated", id="records and privileges"),
        ],
    )
    async def test_records(self, release: Release, user: None, changes: Sequence[Change], reason: str) -> None:
        """
        Without the records a process is seen to belong to nobody; without privileges not even that it should have one.
        """
        async with daemoncopies.made(release, "metricsd", *changes, node=NODE) as copy:
            await copy.shows(METRICSD_PORT, UNATTRIBUTED, 1, reason=reason)

    async def test_driver(self, release: Release) -> None:
        """
        Without the RuntimeClass there is no driver to read.
        """
        change = daemoncopies.without("runtimeClassName")
        async with daemoncopies.made(release, "metricsd", change, node=NODE) as copy:
            await copy.says(METRICSD_PORT, "/readyz", "NVML")


class TestMpsdNeeds:
    @pytest_asyncio.fixture
    async def stray(self, release: Release) -> AsyncIterator[Stray]:
        """
        A control daemon that somebody has started by hand on the copy's pipe directory.
        """
        async with strays.made(release.cluster.worker(NODE), PIPE_DIRECTORY) as stray:
            yield stray

    @pytest.mark.parametrize(
        ("changes", "lives"),
        [
            pytest.param((), False, id="nothing more"),
            pytest.param((daemoncopies.without("hostPID"),), True, id="the node's processes"),
            pytest.param((UNPRIVILEGED,), True, id="privileges"),
        ],
    )
    async def test_strays(self, release: Release, stray: Stray, changes: Sequence[Change], *, lives: bool) -> None:
        """
        Without the node's processes, or without privileges to look into them, a daemon that is none of ours stays and
        there are two on one directory; as it is, mpsd ends it first.
        """
        async with daemoncopies.made(release, "mpsd", *changes, node=NODE) as copy:
            await copy.says(MPSD_PORT, "/readyz", "ok")

            assert lives == stray.lives

    async def test_pipe_directory(self, release: Release) -> None:
        """
        Without the directory of the node the sockets are where no container finds them.
        """
        change = daemoncopies.without_mount("mps-pipe")
        async with daemoncopies.made(release, "mpsd", change, node=NODE) as copy:
            await copy.says(MPSD_PORT, "/readyz", "ok")

            assert not (release.cluster.worker(NODE).files.run / "copy-mps/control").exists()

    async def test_driver(self, release: Release) -> None:
        """
        Without the RuntimeClass the control daemon's program is not there.
        """
        async with daemoncopies.made(release, "mpsd", daemoncopies.without("runtimeClassName"), node=NODE) as copy:
            await copy.logs("mpsd", "/usr/bin/nvidia-cuda-mps-control is not there")
