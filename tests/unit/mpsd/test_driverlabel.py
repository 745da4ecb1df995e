from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeAlias

import attrs
import certifi
import pytest
import structlog
from fractioning_core import names
from fractioning_core.errors import FileUnavailable, FractioningError, Misuse
from fractioning_core.kube import errors as kube
from mpsd import driverlabel
from mpsd.driverlabel import REFRESH_SECONDS, RETRIES, DriverLabel
from mpsd.driverstate import DriverProblem, DriverState, LabelProblem

Patch: TypeAlias = tuple[float, str]

NODE = "node-a"
GONE = kube.ApiUnreachable("https://10.96.0.1:443", "Connect call failed")
FORBIDDEN = kube.Forbidden(f"PATCH /api/v1/nodes/{NODE}", 403, "no right")
UNAUTHORIZED = kube.Unauthorized(f"PATCH /api/v1/nodes/{NODE}", 401, "Unauthorized")


def now() -> float:
    return asyncio.get_running_loop().time()


@attrs.define
class Cluster:
    """
    Nodes whose labels can be written, unless it is told to fail; remembers what was written when.
    """

    error: FractioningError | None = None
    seconds: float = 0.0
    attempts: list[float] = attrs.field(factory=list)
    written: list[Patch] = attrs.field(factory=list)
    labels: dict[tuple[str, str], str | None] = attrs.field(factory=dict)
    annotations: dict[str, str | None] = attrs.field(factory=dict)

    async def patch(
        self, node: str, *, labels: Mapping[str, str | None], annotations: Mapping[str, str | None]
    ) -> None:
        """
        Write labels and annotations.
        """
        self.attempts.append(now())
        await asyncio.sleep(self.seconds)
        if self.error is not None:
            raise self.error
        self.written += [(now(), str(value)) for value in labels.values()]
        self.labels |= {(node, key): value for key, value in labels.items()}
        self.annotations |= annotations


@attrs.define
class Scene:
    """
    The loop between a driver and a cluster.
    """

    cluster: Cluster = attrs.field(factory=Cluster)
    state: DriverState = attrs.field(factory=lambda: DriverState(now))

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[DriverState]:
        """
        Run the loop.
        """
        label = DriverLabel(self.cluster, node=NODE, state=self.state, retries=RETRIES)
        task = asyncio.create_task(label.run())
        try:
            yield self.state
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@pytest.fixture
async def scene() -> Scene:
    return Scene()


@pytest.mark.looptime
class TestWriting:
    """
    When the label is written.
    """

    async def test_start(self, scene: Scene) -> None:
        """
        It is written as soon as the driver is known, on this node and no other key.
        """
        async with scene.kept() as state:
            await asyncio.sleep(5)
            state.learn("615.43.02", 615)
            await asyncio.sleep(1)

        assert ({(NODE, names.DRIVER_LABEL): "615"}, [(5, "615")]) == (scene.cluster.labels, scene.cluster.written)

    async def test_other_version(self, scene: Scene) -> None:
        """
        It is written again at once when NVML reports another version.
        """
        async with scene.kept() as state:
            state.learn("615.43.02", 615)
            await asyncio.sleep(5)
            state.learn("620.10.01", 620)
            await asyncio.sleep(5)

        assert [(0, "615"), (5, "620")] == scene.cluster.written

    async def test_other_version_during_a_write(self, scene: Scene) -> None:
        """
        A version that arrives during a write is written after it.
        """
        scene.cluster.seconds = 3
        async with scene.kept() as state:
            state.learn("615.43.02", 615)
            await asyncio.sleep(1)
            state.learn("620.10.01", 620)
            await asyncio.sleep(10)

        assert [(3, "615"), (6, "620")] == scene.cluster.written

    async def test_refresh(self, scene: Scene) -> None:
        """
        It is written again every ten minutes, in case somebody removed it.
        """
        async with scene.kept() as state:
            state.learn("615.43.02", 615)
            await asyncio.sleep(2 * REFRESH_SECONDS + 1)

        assert [(0, "615"), (600, "615"), (1200, "615")] == scene.cluster.written

    async def test_old_driver(self, scene: Scene) -> None:
        """
        A driver below the least that we need is announced as it is.
        """
        async with scene.kept() as state:
            state.learn("580.10", 580)
            await asyncio.sleep(1)

        assert [(0, "580")] == scene.cluster.written

    async def test_silent_driver(self, scene: Scene) -> None:
        """
        A driver that went silent keeps its label fresh.
        """
        async with scene.kept() as state:
            state.learn("615.43.02", 615)
            await asyncio.sleep(1)
            state.doubt(DriverProblem.SILENT, "no answer")
            await asyncio.sleep(REFRESH_SECONDS + 1)

        assert [(0, "615"), (1, "615"), (601, "615")] == scene.cluster.written

    async def test_half_upgrade(self, scene: Scene) -> None:
        """
        Half an upgrade leaves the label alone, for as long as it lasts; what NVML says then is written at once.
        """
        async with scene.kept() as state:
            state.learn("615.43.02", 615)
            await asyncio.sleep(1)
            state.doubt(DriverProblem.MISMATCH, "mismatch")
            await asyncio.sleep(3 * REFRESH_SECONDS)
            state.learn("620.10.01", 620)
            await asyncio.sleep(1)

        assert [(0, "615"), (1801, "620")] == scene.cluster.written

    async def test_bug(self, scene: Scene) -> None:
        """
        A fault of our own is not mistaken for one of the API server.
        """
        scene.cluster.error = Misuse("a bug")
        scene.state.learn("615.43.02", 615)

        with pytest.raises(Misuse):
            await DriverLabel(scene.cluster, node=NODE, state=scene.state, retries=RETRIES).run()


@pytest.mark.looptime
class TestAnnouncing:
    """
    What the node says of a driver in trouble.
    """

    async def test_trouble(self, scene: Scene) -> None:
        """
        A driver in trouble is told of in the annotation, on a node whose label is not written.
        """
        async with scene.kept() as state:
            state.doubt(DriverProblem.MISMATCH, "mismatch: reboot the node")
            await asyncio.sleep(1)

        assert ({}, {names.DRIVER_PROBLEM_ANNOTATION: "mismatch: reboot the node"}) == (
            scene.cluster.labels,
            scene.cluster.annotations,
        )

    async def test_recovery(self, scene: Scene) -> None:
        """
        The request that labels a driver which is fine removes the annotation.
        """
        async with scene.kept() as state:
            state.doubt(DriverProblem.MISMATCH, "mismatch")
            await asyncio.sleep(1)
            state.learn("620.10.01", 620)
            await asyncio.sleep(1)

        assert (2, "620", None) == (
            len(scene.cluster.attempts),
            scene.cluster.labels[NODE, names.DRIVER_LABEL],
            scene.cluster.annotations[names.DRIVER_PROBLEM_ANNOTATION],
        )

    async def test_not_asked_yet(self, scene: Scene) -> None:
        """
        Before NVML was asked nothing is written.
        """
        async with scene.kept():
            await asyncio.sleep(REFRESH_SECONDS)

        assert [] == scene.cluster.attempts

    async def test_silence_that_lasts(self, scene: Scene) -> None:
        """
        A silence that only grows longer is written once.
        """
        async with scene.kept() as state:
            for seconds in range(10, 200, 10):
                state.doubt(DriverProblem.STARTING, f"no answer for {seconds} s", lasting_seconds=seconds)
                await asyncio.sleep(10)

        assert (1, "NVML has not answered yet") == (
            len(scene.cluster.attempts),
            scene.cluster.annotations[names.DRIVER_PROBLEM_ANNOTATION],
        )

    async def test_failure(self, scene: Scene) -> None:
        """
        An annotation that cannot be written is tried again, and told of as a label that is not.
        """
        scene.cluster.error = FORBIDDEN
        async with scene.kept() as state:
            state.doubt(DriverProblem.MISMATCH, "mismatch")
            await asyncio.sleep(2)
            during = state.label.problem
            scene.cluster.error = None
            await asyncio.sleep(2)

        assert (LabelProblem.FORBIDDEN, None, [0, 1, 3]) == (during, state.label.problem, scene.cluster.attempts)


@pytest.mark.looptime
class TestFailing:
    """
    What happens when the label cannot be written.
    """

    async def test_back_off(self, scene: Scene) -> None:
        """
        It is tried again with growing waits, a minute at most.
        """
        scene.cluster.error = GONE
        async with scene.kept() as state:
            state.learn("615.43.02", 615)
            await asyncio.sleep(190)

        assert [0, 1, 3, 7, 15, 31, 63, 123, 183] == scene.cluster.attempts

    async def test_return(self, scene: Scene) -> None:
        """
        The label follows when the API server returns after longer than the longest wait.
        """
        scene.cluster.error = GONE
        async with scene.kept() as state:
            state.learn("615.43.02", 615)
            await asyncio.sleep(300)
            during = state.label.problem
            scene.cluster.error = None
            await asyncio.sleep(60)

        assert (LabelProblem.UNREACHABLE, None, [(303, "615")]) == (during, state.label.problem, scene.cluster.written)

    async def test_other_version(self, scene: Scene) -> None:
        """
        Another version does not wait for the back-off of the one before.
        """
        scene.cluster.error = GONE
        async with scene.kept() as state:
            state.learn("615.43.02", 615)
            await asyncio.sleep(100)
            scene.cluster.error = None
            state.learn("620.10.01", 620)
            await asyncio.sleep(1)

        assert [(100, "620")] == scene.cluster.written

    async def test_refused_for_minutes(self, scene: Scene) -> None:
        """
        A token that stays invalid for five minutes costs a handful of requests, and mpsd says so and is not ready.
        """
        scene.cluster.error = UNAUTHORIZED
        async with scene.kept() as state:
            state.learn("615.43.02", 615)
            await asyncio.sleep(300)
            complaint = state.complaint()

        assert (
            f"node not labelled: PATCH /api/v1/nodes/{NODE}: 401 from the API server: Unauthorized",
            10,
        ) == (complaint, len(scene.cluster.attempts))

    async def test_log(self, scene: Scene) -> None:
        """
        A failure that stays is one line of the log, and so is its end.
        """
        with structlog.testing.capture_logs() as lines:
            scene.cluster.error = FORBIDDEN
            async with scene.kept() as state:
                state.learn("615.43.02", 615)
                await asyncio.sleep(100)
                scene.cluster.error = None
                await asyncio.sleep(3 * REFRESH_SECONDS)

        assert [
            {
                "event": "node_not_labelled",
                "log_level": "warning",
                "node": NODE,
                "kind": "forbidden",
                "error": str(FORBIDDEN),
            },
            {
                "event": "node_labelled",
                "log_level": "info",
                "node": NODE,
                "label": names.DRIVER_LABEL,
                "value": "615",
                "version": "615.43.02",
            },
        ] == lines


class TestClassify:
    """
    The kind of a failure.
    """

    @pytest.mark.parametrize(
        ("error", "problem"),
        [
            pytest.param(kube.InvalidNodeName(""), LabelProblem.BAD_NODE_NAME, id="no node name"),
            pytest.param(kube.NotFound("r", 404, "m"), LabelProblem.NO_SUCH_NODE, id="unknown node"),
            pytest.param(UNAUTHORIZED, LabelProblem.UNAUTHORIZED, id="401"),
            pytest.param(kube.NoToken("/token", "is empty"), LabelProblem.UNAUTHORIZED, id="no token"),
            pytest.param(FORBIDDEN, LabelProblem.FORBIDDEN, id="403"),
            pytest.param(kube.NotInCluster("V", "", "a"), LabelProblem.NOT_CONFIGURED, id="bad environment"),
            pytest.param(FileUnavailable("read", "/ca", "gone"), LabelProblem.NOT_CONFIGURED, id="no authority"),
            pytest.param(GONE, LabelProblem.UNREACHABLE, id="nobody there"),
            pytest.param(kube.ApiOverloaded("r", 503, "m"), LabelProblem.UNREACHABLE, id="503"),
            pytest.param(kube.ApiRejection("r", 422, "m"), LabelProblem.REFUSED, id="422"),
            pytest.param(kube.Conflict("r", 409, "m"), LabelProblem.REFUSED, id="409"),
            pytest.param(kube.BadAnswer("r", "is not JSON"), LabelProblem.REFUSED, id="no JSON"),
        ],
    )
    def test_kind(self, error: FractioningError, problem: LabelProblem) -> None:
        """
        Each error of the API has one.
        """
        assert problem is driverlabel.classify(error)


class TestLabelsFrom:
    """
    The way to the API server that the environment describes.
    """

    async def test_pod(self, tmp_path: Path) -> None:
        """
        In a pod the label goes to the API server that the kubelet names, with the mounted token and authority.
        """
        (tmp_path / "token").write_text("t")
        (tmp_path / "ca.crt").write_bytes(Path(certifi.where()).read_bytes())
        environ = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": "1"}

        async with driverlabel.labels_from(environ, directory=tmp_path) as labels:
            assert labels is not None
            with pytest.raises(kube.ApiUnreachable) as raised:
                await labels.patch(NODE, labels={"k": "v"}, annotations={})

        assert "https://127.0.0.1:1" == raised.value.server

    @pytest.mark.parametrize(
        "environ",
        [
            pytest.param({"KUBERNETES_SERVICE_HOST": "x y"}, id="a malformed host"),
            pytest.param({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, id="no port"),
        ],
    )
    async def test_a_bad_environment(self, environ: Mapping[str, str]) -> None:
        """
        In a cluster whose environment is malformed every write says why not, and nothing else fails.
        """
        async with driverlabel.labels_from(environ) as labels:
            assert labels is not None
            with pytest.raises(kube.NotInCluster):
                await labels.patch(NODE, labels={"k": "v"}, annotations={})

    @pytest.mark.parametrize(
        "environ", [pytest.param({}, id="not set"), pytest.param({"KUBERNETES_SERVICE_HOST": ""}, id="empty")]
    )
    async def test_no_cluster(self, environ: Mapping[str, str]) -> None:
        """
        Where the environment names no API server there is nobody who writes labels.
        """
        async with driverlabel.labels_from(environ) as labels:
            assert labels is None


class TestOutsideACluster:
    """
    There is no node to label.
    """

    async def test_it_is_told_once(self) -> None:
        """
        The loop says so in the state and in one line of the log, and ends.
        """
        state = DriverState(now)
        with structlog.testing.capture_logs() as lines:
            await DriverLabel(None, node="", state=state, retries=RETRIES).run()
        state.learn("615.43.02", 615)

        assert ("not in a cluster: no label", "") == (state.label_reason(), state.complaint())
        assert [{"event": "nothing_to_label", "log_level": "info", "reason": "not in a cluster: no label"}] == lines
