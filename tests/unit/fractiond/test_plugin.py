"""The NRI handlers, called as the runtime calls them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, MutableMapping, Sequence
from typing import Any

import attrs
import nri_aio
import pytest
from fractiond import wire
from fractiond.audit import Kind, Violation
from fractiond.fencing import Assessor, Inventory, Policy
from fractiond.metrics import METHODS, Metrics, Outcome
from fractiond.plugin import FractionPlugin
from fractioning_core import names
from fractioning_core.injection import Options
from fractioning_core.podannotations import Grammar
from fractioning_core.record import GpuDevice, Record
from fractioning_core.testing.builders import a_record, annotations_for
from nri_aio import Call, Configuration, Refused
from nri_aio.pb import nri_pb2 as pb
from nri_aio.plugin import is_overridden

Sample = Callable[..., float | None]
Merge = Callable[[pb.Container, pb.ContainerAdjustment], pb.Container]
LogLines = list[MutableMapping[str, Any]]

CALL = Call("X", 0.0, 1.5, 2.0)
LIMIT = names.ENV_MEMORY_LIMIT
GPU_A, GPU_B = "GPU-aaaa", "GPU-bbbb"
OURS = annotations_for(limit="4Gi")
BAD = annotations_for(limit="16GB")
CONFIGURATION = Configuration("containerd", "2.3.7", "v0.12.0", 2.0, 5.0, "", 0x3FFF)


@attrs.define
class Node:
    current: Inventory = attrs.field(factory=Inventory)
    doubts: int = 0

    def doubt(self) -> None:
        """Count the doubt."""
        self.doubts += 1


@attrs.define
class Keeper:
    """The records as they should be."""

    records: dict[str, Record] = attrs.field(factory=dict)
    replaced: list[dict[str, Record]] = attrs.field(factory=list)
    spared: list[set[str]] = attrs.field(factory=list)

    def put(self, container_id: str, record: Record) -> None:
        """Keep a record."""
        self.records[container_id] = record

    def put_new(self, container_id: str, record: Record) -> None:
        """Keep a record, unless there is one."""
        self.records.setdefault(container_id, record)

    def drop(self, container_id: str) -> None:
        """Remove a record."""
        self.records.pop(container_id, None)

    def replace(self, records: Mapping[str, Record], *, spare: Collection[str]) -> None:
        """Keep these, and those to spare."""
        self.records = dict(records)
        self.spared.append(set(spare))
        self.replaced.append(dict(records))


@attrs.define
class Court:
    submitted: list[Violation] = attrs.field(factory=list)
    forgotten: list[str] = attrs.field(factory=list)
    retained: set[str] = attrs.field(factory=set)

    def submit(self, violations: Sequence[Violation]) -> None:
        """Note the violations."""
        self.submitted.extend(violations)

    def forget(self, container_id: str) -> None:
        """Note the removal."""
        self.forgotten.append(container_id)

    def retain(self, existing: Collection[str]) -> None:
        """Note who is left."""
        self.retained = set(existing)


@attrs.define
class Line:
    told: list[str] = attrs.field(factory=list)

    def registered(self) -> None:
        """Note the registration."""
        self.told.append("registered")

    def synchronized(self) -> None:
        """Note the synchronise."""
        self.told.append("synchronized")

    def lost(self, reason: str) -> None:
        """Note the loss."""
        self.told.append(f"lost: {reason}")


@attrs.define
class Stage:
    """A plugin and everything around it."""

    metrics: Metrics
    policy: Policy = Policy(Grammar(), Options())  # noqa: RUF009  frozen
    node: Node = attrs.field(factory=Node)
    keeper: Keeper = attrs.field(factory=Keeper)
    court: Court = attrs.field(factory=Court)
    line: Line = attrs.field(factory=Line)
    known: set[str] = attrs.field(factory=set)
    deferred: list[Callable[[], object]] = attrs.field(factory=list)
    compared: int = 0
    plugin: FractionPlugin = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.plugin = FractionPlugin(
            Assessor(self.policy, self.node),
            known=self.known,
            keeper=self.keeper,
            court=self.court,
            line=self.line,
            after_synchronize=self.compare,
            metrics=self.metrics,
            later=self.deferred.append,
            clock=lambda: 0.0,
        )

    def compare(self) -> None:
        """Count a comparison with CRI."""
        self.compared += 1

    def say(self) -> None:
        """Do what was put off until after the answer."""
        while self.deferred:
            self.deferred.pop(0)()

    def create(self, pod: pb.PodSandbox, container: pb.Container) -> pb.CreateContainerResponse | None:
        """Ask for an adjustment, and do what was put off."""
        answer = self.plugin.create_container(pb.CreateContainerRequest(pod=pod, container=container), CALL)
        self.say()
        return answer

    def validate(self, pod: pb.PodSandbox, container: pb.Container, adjust: pb.ContainerAdjustment) -> None:
        """Ask for consent to what all plugins adjust."""
        request = pb.ValidateContainerAdjustmentRequest(pod=pod, container=container, adjust=adjust)
        assert self.plugin.validate_container_adjustment(request, CALL) is None

    def start(self, pod: pb.PodSandbox, container: pb.Container) -> None:
        """Tell that a container is about to start."""
        self.plugin.start_container(pb.LifecycleRequest(pod=pod, container=container), CALL)

    def remove(self, pod: pb.PodSandbox, container: pb.Container) -> None:
        """Tell that a container is gone."""
        self.plugin.remove_container(pb.LifecycleRequest(pod=pod, container=container), CALL)


@pytest.fixture
def stage(metrics: Metrics) -> Stage:
    return Stage(metrics)


def a_pod(annotations: Mapping[str, str] = OURS, *, pod_id: str = "p1") -> pb.PodSandbox:
    return pb.PodSandbox(id=pod_id, name="job-1", uid="uid-1", namespace="team-a", annotations=annotations)


def a_container(
    container_id: str = "c1",
    *,
    name: str = "main",
    pod_id: str = "p1",
    env: Sequence[str] = ("PATH=/bin",),
    mounts: Sequence[str] = (),
    minors: Sequence[int] = (),
    state: pb.ContainerState = pb.CONTAINER_UNKNOWN,
) -> pb.Container:
    devices = [pb.LinuxDevice(path=f"/dev/nvidia{minor}", type="c", major=195, minor=minor) for minor in minors]
    return pb.Container(
        id=container_id,
        pod_sandbox_id=pod_id,
        name=name,
        env=env,
        mounts=[pb.Mount(source="/tenant", destination=path) for path in mounts],
        linux=pb.LinuxContainer(devices=devices),
        state=state,
    )


def made(stage: Stage, merge: Merge, pod: pb.PodSandbox, container: pb.Container) -> pb.Container:
    """Create a container as a runtime does that asked the plugin."""
    response = stage.create(pod, container)
    assert response is not None
    return merge(container, response.adjust)


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(Refused) as caught:
        act()
    return str(caught.value)


class TestSubscription:
    def test_only_what_is_needed_is_subscribed_to(self, stage: Stage) -> None:
        """Every further event would cost the node a round trip under the runtime's lock."""
        handlers = [name for name in vars(nri_aio.Plugin) if not name.startswith("_")]

        assert {
            "configure",
            "synchronize",
            "synchronized",
            "create_container",
            "validate_container_adjustment",
            "start_container",
            "remove_container",
            "shutdown",
            "handler_failed",
        } == {name for name in handlers if is_overridden(stage.plugin, name)}


class TestConfigure:
    def test_the_registration_is_told_with_whom(self, stage: Stage, log: LogLines) -> None:
        """The log has the runtime's versions and whether it asks before it creates."""
        stage.plugin.configure(CONFIGURATION)

        assert ["registered"] == stage.line.told
        assert [
            {
                "event": "runtime_registered",
                "log_level": "info",
                "runtime": "containerd",
                "runtime_version": "2.3.7",
                "nri_version": "v0.12.0",
                "request_timeout_seconds": 2.0,
                "validates": True,
            }
        ] == log

    def test_an_older_runtime_does_not_validate(self, stage: Stage, log: LogLines) -> None:
        """Whoever runs one reads that a missed creation is only caught at the start."""
        stage.plugin.configure(attrs.evolve(CONFIGURATION, events=0x07FF))

        assert not log[0]["validates"]

    @pytest.mark.parametrize(
        ("inject_cdi", "version", "told"),
        [
            pytest.param(True, "2.0.5", ["cdi_devices_ignored"], id="a runtime that ignores them"),
            pytest.param(True, "2.3.7", [], id="one that honours them"),
            pytest.param(False, "2.0.5", [], id="none injected"),
        ],
    )
    def test_cdi_devices_that_go_nowhere_are_told(
        self, metrics: Metrics, log: LogLines, inject_cdi: object, version: str, told: list[str]
    ) -> None:
        """A container without its GPU would otherwise be the first sign."""
        stage = Stage(metrics, Policy(Grammar(), Options(inject_cdi=bool(inject_cdi))))
        stage.plugin.configure(attrs.evolve(CONFIGURATION, runtime_version=version))

        assert ["runtime_registered", *told] == [line["event"] for line in log]


class TestCreate:
    def test_an_annotated_container_gets_the_plan(self, stage: Stage, merge: Merge) -> None:
        """After the runtime's merge the container has our values beside its own."""
        container = made(stage, merge, a_pod(annotations_for(limit="4Gi", devices=GPU_A)), a_container())

        assert [
            "PATH=/bin",
            f"{names.ENV_MEMORY_REQUEST}=4096",
            f"{LIMIT}=4096",
            f"{names.ENV_MPS_PIPE_DIRECTORY}=/run/nvidia-mps",
            f"{names.ENV_VISIBLE_DEVICES}={GPU_A}",
        ] == list(container.env)
        assert [("/run/nvidia-mps", "/run/nvidia-mps")] == [
            (each.source, each.destination) for each in container.mounts
        ]

    def test_it_is_recorded_with_the_devices_that_show(self, stage: Stage) -> None:
        """Two device nodes and 4Gi make one record of two GPUs and 4096 MiB."""
        stage.create(a_pod(), a_container(minors=(0, 1)))

        assert {
            "c1": a_record(
                pod="job-1",
                namespace="team-a",
                pod_uid="uid-1",
                gpu_devices=(GpuDevice(minor_number=0), GpuDevice(minor_number=1)),
                requested_memory_mib=4096,
                container="main",
                memory_request_mib=4096,
                memory_limit_mib=4096,
            )
        } == stage.keeper.records

    @pytest.mark.parametrize(
        ("annotations", "name"),
        [
            pytest.param({}, "main", id="pod without annotations"),
            pytest.param(OURS, "prep", id="init container beside an annotated one"),
            pytest.param(OURS, "main2", id="sibling with a longer name"),
        ],
    )
    def test_any_other_container_is_left_alone(
        self, stage: Stage, sample: Sample, log: LogLines, annotations: dict[str, str], name: str
    ) -> None:
        """No adjustment, no record, no line; the runtime is told of no change."""
        answer = stage.create(a_pod(annotations), a_container(name=name, minors=(0,)))
        stage.say()

        assert (None, {}, []) == (answer, stage.keeper.records, log)
        assert 1.0 == sample("containers_total", outcome="untouched")

    @pytest.mark.parametrize("annotations", [pytest.param({}, id="untouched"), pytest.param(OURS, id="fenced")])
    def test_the_container_is_known_from_then_on(self, stage: Stage, annotations: dict[str, str]) -> None:
        """The comparison with CRI does not take it for one that NRI never told of."""
        stage.create(a_pod(annotations), a_container())

        assert {"c1"} == stage.known

    def test_looking_up_annotations_changes_no_message(self, stage: Stage) -> None:
        """A protobuf map makes entries when it is read carelessly; the request stays as it came."""
        request = pb.CreateContainerRequest(pod=a_pod({"a": "b"}), container=a_container())
        before = request.SerializeToString(deterministic=True)

        stage.plugin.create_container(request, CALL)

        assert before == request.SerializeToString(deterministic=True)

    def test_unusable_annotations_refuse_it(self, stage: Stage, sample: Sample) -> None:
        """The user reads container, pod, key, value and what is accepted, and nothing is recorded."""
        text = refusal(lambda: stage.create(a_pod(BAD), a_container()))

        assert text == (
            'container "main" in pod "team-a/job-1": nvidia.com/container.main.gpu-memory.limit: "16GB" is not a'
            " Kubernetes quantity; accepted: a Kubernetes quantity of at least 1Mi, such as 512Mi, 8Gi or 1.5G"
        )
        assert ({}, 1.0) == (stage.keeper.records, sample("containers_total", outcome="refused"))

    @pytest.mark.parametrize(
        ("container", "named"),
        [
            pytest.param(a_container(env=(f"{LIMIT}=9", f"{LIMIT}=8")), LIMIT, id="variable twice"),
            pytest.param(a_container(mounts=("/var/run/nvidia-mps",)), "/var/run/nvidia-mps", id="mount over the pipe"),
        ],
    )
    def test_what_would_defeat_the_plan_refuses_it(self, stage: Stage, container: pb.Container, named: str) -> None:
        """A container that no adjustment can fence is not made, and not recorded."""
        text = refusal(lambda: stage.create(a_pod(), container))

        assert named in text
        assert {} == stage.keeper.records

    def test_a_refusal_asks_for_a_new_look_at_the_node(self, stage: Stage) -> None:
        """A GPU that came since is found before the kubelet tries again."""
        stage.node.current = Inventory(gpu_uuids=frozenset({GPU_B}))
        pod = a_pod(annotations_for(limit="4Gi", devices=GPU_A))
        refusal(lambda: stage.create(pod, a_container()))
        stage.node.current = Inventory(gpu_uuids=frozenset({GPU_A}))

        assert stage.create(pod, a_container()) is not None
        assert 1 == stage.node.doubts

    def test_several_problems_are_one_line(self, stage: Stage) -> None:
        """Everything that is wrong arrives in one message without a line break."""
        annotations = annotations_for(limit="x\ny", mode="fast", devices="a\nb")

        text = refusal(lambda: stage.create(a_pod(annotations), a_container()))

        assert all(key in text for key in ("gpu-memory.limit", "gpu-compute.mode", "gpus.devices"))
        assert text.isprintable()

    def test_fail_open_lets_unusable_memory_pass_unrecorded(
        self, metrics: Metrics, sample: Sample, log: LogLines
    ) -> None:
        """The container runs without a limit, and log and counter say so."""
        stage = Stage(metrics, Policy(Grammar(), Options(), fail_open=True))

        answer = stage.create(a_pod(BAD), a_container())
        stage.say()

        assert (None, {}) == (answer, stage.keeper.records)
        assert 1.0 == sample("containers_total", outcome="failed_open")
        assert ["container_failed_open"] == [line["event"] for line in log]
        assert "16GB" in log[0]["ignored"][0]

    def test_fail_open_keeps_the_limit_when_only_the_mode_is_wrong(self, metrics: Metrics, log: LogLines) -> None:
        """What can be read is applied, and what was passed over is in the line of the container."""
        stage = Stage(metrics, Policy(Grammar(), Options(), fail_open=True))

        answer = stage.create(a_pod(annotations_for(limit="4Gi", mode="fast")), a_container())
        stage.say()

        assert answer is not None
        assert 1 == len(log[0]["ignored"])


class TestLogOfCreation:
    def test_the_runtime_waits_for_neither_log_nor_record(self, stage: Stage, log: LogLines) -> None:
        """Both are made once the answer is on its way."""
        stage.plugin.create_container(pb.CreateContainerRequest(pod=a_pod(), container=a_container()), CALL)
        before = (len(log), len(stage.keeper.records))
        stage.say()

        assert ((0, 0), (1, 1)) == (before, (len(log), len(stage.keeper.records)))

    def test_a_container_that_was_removed_meanwhile_gets_no_record(self, stage: Stage) -> None:
        """A creation that fails at once leaves nothing behind."""
        stage.plugin.create_container(pb.CreateContainerRequest(pod=a_pod(), container=a_container()), CALL)
        stage.remove(a_pod(), a_container())
        stage.say()

        assert {} == stage.keeper.records

    def test_a_fenced_container_is_one_line_with_what_it_got(self, stage: Stage, log: LogLines) -> None:
        """Bounds, mode and devices are there; nothing of the tenant's environment is."""
        stage.create(
            a_pod(annotations_for(request="2Gi", limit="4Gi", devices=GPU_A)), a_container(env=("PASSWORD=secret",))
        )
        stage.say()

        assert [
            {
                "event": "container_fenced",
                "log_level": "info",
                "namespace": "team-a",
                "pod": "job-1",
                "container": "main",
                "container_id": "c1",
                "request_mib": 2048,
                "limit_mib": 4096,
                "mode": "time-slicing",
                "devices": GPU_A,
                "ignored": (),
            }
        ] == log

    def test_the_kubelets_retries_are_one_warning(self, stage: Stage, log: LogLines) -> None:
        """The first refusal is a warning, the same again only a detail."""
        for number in range(3):
            refusal(lambda: stage.create(a_pod(BAD), a_container(f"c{number}")))  # noqa: B023  called at once
        stage.say()

        assert ["warning", "debug", "debug"] == [line["log_level"] for line in log]
        assert {"container_refused"} == {line["event"] for line in log}


class TestValidate:
    def planned(self, stage: Stage, pod: pb.PodSandbox) -> pb.ContainerAdjustment:
        """Give what creation injects."""
        response = stage.create(pod, a_container())
        assert response is not None
        return response.adjust

    def test_our_own_adjustment_passes(self, stage: Stage) -> None:
        """What we injected, and what other plugins added, is consented to."""
        pod = a_pod()
        adjust = self.planned(stage, pod)
        adjust.env.add(key="OTHER", value="1")

        stage.validate(pod, a_container(), adjust)

        assert 0.0 == stage.metrics.outcomes[Outcome.REJECTED_AT_VALIDATION]._value.get()

    def test_a_creation_that_we_missed_is_rejected(self, stage: Stage, sample: Sample) -> None:
        """Where our answer came too late, the container is not made without it."""
        text = refusal(lambda: stage.validate(a_pod(), a_container(), pb.ContainerAdjustment()))

        assert f"env:{LIMIT} missing" in text
        assert text.startswith('container "main" in pod "team-a/job-1": ')
        assert 1.0 == sample("containers_total", outcome="rejected_at_validation")

    @pytest.mark.parametrize("key", [LIMIT, names.ENV_MEMORY_REQUEST, names.ENV_MPS_PIPE_DIRECTORY])
    def test_another_plugins_value_is_rejected(self, stage: Stage, key: str) -> None:
        """A plugin behind us that took a variable over does not get its way."""
        pod = a_pod()
        adjust = self.planned(stage, pod)
        next(pair for pair in adjust.env if pair.key == key).value = "99999"

        text = refusal(lambda: stage.validate(pod, a_container(), adjust))

        assert f"env:{key}" in text

    def test_a_mount_that_another_plugin_took_away_is_rejected(self, stage: Stage) -> None:
        """Without the pipe the container would run beside MPS."""
        pod = a_pod()
        adjust = self.planned(stage, pod)
        del adjust.mounts[:]

        assert "mount:" in refusal(lambda: stage.validate(pod, a_container(), adjust))

    @pytest.mark.parametrize(
        ("annotations", "fail_open"),
        [pytest.param({}, False, id="not annotated"), pytest.param(BAD, True, id="let pass by fail-open")],
    )
    def test_what_creation_leaves_alone_passes(
        self,
        metrics: Metrics,
        annotations: dict[str, str],
        fail_open: bool,  # noqa: FBT001  a row of the table
    ) -> None:
        """Nothing is expected of a container that gets nothing."""
        stage = Stage(metrics, Policy(Grammar(), Options(), fail_open=fail_open))

        stage.validate(a_pod(annotations), a_container(), pb.ContainerAdjustment())

        assert 0 == stage.node.doubts

    def test_what_creation_would_refuse_is_rejected(self, stage: Stage) -> None:
        """A creation that we missed does not slip through on bad annotations."""
        assert "16GB" in refusal(lambda: stage.validate(a_pod(BAD), a_container(), pb.ContainerAdjustment()))


class TestStart:
    def test_a_fenced_container_starts_and_is_recorded_anew(self, stage: Stage, merge: Merge) -> None:
        """Device nodes that CDI added after the creation come into the record."""
        pod = a_pod(annotations_for(limit="4Gi", devices=GPU_A))
        container = made(stage, merge, pod, a_container())
        container.linux.devices.add(path="/dev/nvidia3", type="c", major=195, minor=3)

        stage.start(pod, container)

        assert (GpuDevice(uuid=GPU_A, minor_number=3),) == stage.keeper.records["c1"].gpu_devices

    @pytest.mark.parametrize(
        ("runtime", "submitted"),
        [pytest.param("cri-o", ["c1"], id="starts all the same"), pytest.param("containerd", [], id="obeys")],
    )
    def test_a_runtime_that_only_logs_a_refusal_gets_a_stop(
        self, stage: Stage, runtime: str, submitted: list[str]
    ) -> None:
        """CRI-O starts a container that a plugin refused, so that it is stopped through CRI."""
        stage.plugin.configure(attrs.evolve(CONFIGURATION, runtime_name=runtime))
        with pytest.raises(nri_aio.Refused):
            stage.start(a_pod(), a_container(state=pb.CONTAINER_CREATED))

        assert submitted == [each.subject.container_id for each in stage.court.submitted]

    def test_one_that_slipped_through_is_refused(self, stage: Stage, sample: Sample) -> None:
        """A container made while we were away does not run its program."""
        text = refusal(lambda: stage.start(a_pod(), a_container()))

        assert f"env:{LIMIT} missing" in text
        assert ({}, 1.0) == (stage.keeper.records, sample("containers_total", outcome="rejected_at_start"))

    def test_a_value_that_changed_since_is_refused(self, stage: Stage, merge: Merge) -> None:
        """A CDI spec that sets our variable after us is found out."""
        pod = a_pod()
        container = made(stage, merge, pod, a_container())
        container.env.append(f"{LIMIT}=99999")

        assert f"env:{LIMIT} listed twice" in refusal(lambda: stage.start(pod, container))

    def test_a_mount_that_came_since_is_refused(self, stage: Stage, merge: Merge) -> None:
        """A mount of another plugin's that hides the socket is found out."""
        pod = a_pod()
        container = made(stage, merge, pod, a_container())
        container.mounts.add(source="/x", destination="/run/nvidia-mps/control")

        assert "hides the pipe" in refusal(lambda: stage.start(pod, container))

    def test_void_from_a_cdi_spec_is_as_it_should_be(self, metrics: Metrics, merge: Merge) -> None:
        """NVIDIA's specs void the visible devices after us, where CDI hands out the GPU instead."""
        stage = Stage(metrics, Policy(Grammar(), Options(inject_cdi=True)))
        pod = a_pod(annotations_for(limit="4Gi", devices=GPU_A))
        container = made(stage, merge, pod, a_container())
        container.env.append(f"{names.ENV_VISIBLE_DEVICES}=void")

        stage.start(pod, container)

        assert "c1" in stage.keeper.records

    def test_void_where_cdi_hands_out_nothing_is_refused(self, stage: Stage, merge: Merge) -> None:
        """Without CDI devices a voided container would have no GPU, or another one."""
        pod = a_pod(annotations_for(limit="4Gi", devices=GPU_A))
        container = made(stage, merge, pod, a_container())
        container.env.append(f"{names.ENV_VISIBLE_DEVICES}=void")

        assert names.ENV_VISIBLE_DEVICES in refusal(lambda: stage.start(pod, container))

    @pytest.mark.parametrize(
        ("annotations", "fail_open"),
        [pytest.param({}, False, id="not annotated"), pytest.param(BAD, True, id="let pass by fail-open")],
    )
    def test_what_creation_leaves_alone_starts(
        self,
        metrics: Metrics,
        annotations: dict[str, str],
        fail_open: bool,  # noqa: FBT001  a row of the table
    ) -> None:
        """Nothing is looked for in a container that got nothing, and nothing recorded."""
        stage = Stage(metrics, Policy(Grammar(), Options(), fail_open=fail_open))

        stage.start(a_pod(annotations), a_container())

        assert {} == stage.keeper.records


class TestALife:
    @pytest.mark.parametrize("mode", ["time-slicing", "sm-sharing"])
    @pytest.mark.parametrize("devices", [None, GPU_A, "all", f"{GPU_A},{GPU_B}"])
    def test_what_creation_gives_passes_every_later_look(
        self, stage: Stage, merge: Merge, sample: Sample, mode: str, devices: str | None
    ) -> None:
        """Creation, validation, start and audit agree, so that no container is made in vain or stopped."""
        pod = a_pod(annotations_for(request="1Gi", limit="4Gi", mode=mode, devices=devices))
        container = a_container(env=("PATH=/bin", f"{LIMIT}=1", f"{names.ENV_VISIBLE_DEVICES}=void"))
        if devices is None:
            del container.env[-1]
        response = stage.create(pod, container)
        assert response is not None
        created = merge(container, response.adjust)

        stage.validate(pod, created, response.adjust)
        stage.start(pod, created)
        stage.plugin.synchronize([pod], [created])

        assert [] == stage.court.submitted
        assert ["c1"] == list(stage.keeper.records)
        assert 1.0 == sample("containers_total", outcome="fenced")


class TestRemove:
    def test_everything_about_the_container_goes(self, stage: Stage) -> None:
        """The runtime may have lost the pod, and sends it empty."""
        stage.create(a_pod(), a_container())

        stage.remove(pb.PodSandbox(), a_container())

        assert ({}, set(), ["c1"]) == (stage.keeper.records, stage.known, stage.court.forgotten)

    def test_one_that_nobody_knew_is_fine(self, stage: Stage) -> None:
        """Removals of containers that failed to be made, or were made before us, come too."""
        stage.remove(pb.PodSandbox(), a_container("c9"))

        assert ["c9"] == stage.court.forgotten


class TestSynchronize:
    def running(
        self, stage: Stage, merge: Merge, container_id: str, *, pod_id: str
    ) -> tuple[pb.PodSandbox, pb.Container]:
        """Give a pod and its running container that was fenced."""
        pod = a_pod(pod_id=pod_id)
        container = made(stage, merge, pod, a_container(container_id, pod_id=pod_id, minors=(0,)))
        container.state = pb.CONTAINER_RUNNING
        return pod, container

    def test_only_annotated_containers_are_recorded_and_nothing_is_updated(self, stage: Stage, merge: Merge) -> None:
        """Of an annotated container, its sidecar and another pod with a whole GPU, the first is recorded."""
        pod, ours = self.running(stage, merge, "c1", pod_id="p1")
        sidecar = a_container("c2", name="proxy", state=pb.CONTAINER_RUNNING)
        whole = a_container("c3", pod_id="p2", minors=(1,), state=pb.CONTAINER_RUNNING)

        handler: Callable[..., object] = stage.plugin.synchronize
        updates = handler([pod, a_pod({}, pod_id="p2")], [ours, sidecar, whole])

        assert updates is None
        assert [["c1"]] == [list(each) for each in stage.keeper.replaced]
        assert ({"c1", "c2", "c3"}, []) == (stage.known, stage.court.submitted)

    def test_of_one_good_and_one_bad_only_the_bad_is_submitted(self, stage: Stage, merge: Merge) -> None:
        """A container that was made while fractiond was away is found, and recorded as well."""
        pod, good = self.running(stage, merge, "good", pod_id="p1")
        bad = a_container("bad", state=pb.CONTAINER_RUNNING)

        stage.plugin.synchronize([pod], [good, bad])

        assert [("bad", Kind.UNFENCED)] == [(each.subject.container_id, each.kind) for each in stage.court.submitted]
        assert {"good", "bad"} == set(stage.keeper.records)

    @pytest.mark.parametrize(
        ("state", "judged"),
        [
            pytest.param(pb.CONTAINER_CREATED, True, id="created"),
            pytest.param(pb.CONTAINER_RUNNING, True, id="running"),
            pytest.param(pb.CONTAINER_PAUSED, True, id="paused"),
            pytest.param(pb.CONTAINER_STOPPED, False, id="stopped"),
            pytest.param(pb.CONTAINER_UNKNOWN, False, id="unknown"),
        ],
    )
    def test_only_what_lives_is_judged(
        self,
        stage: Stage,
        state: pb.ContainerState,
        judged: bool,  # noqa: FBT001  a row of the table
    ) -> None:
        """A container that has ended needs no stop."""
        stage.plugin.synchronize([a_pod()], [a_container(state=state)])

        assert judged is bool(stage.court.submitted)

    def test_one_without_its_pod_stays_unknown(self, stage: Stage) -> None:
        """The comparison with CRI looks up what the list does not explain."""
        stage.plugin.synchronize([], [a_container(state=pb.CONTAINER_RUNNING)])

        assert (set(), [], [{}]) == (stage.known, stage.court.submitted, stage.keeper.replaced)

    def test_an_empty_list_leaves_the_records_alone(self, stage: Stage) -> None:
        """After its own restart a runtime may list nothing while containers run."""
        stage.create(a_pod(), a_container())

        stage.plugin.synchronize([], [])

        assert (["c1"], []) == (list(stage.keeper.records), stage.keeper.replaced)

    def test_what_was_known_before_is_forgotten(self, stage: Stage) -> None:
        """The runtime's list is the truth, also about what is gone."""
        stage.known |= {"old"}

        stage.plugin.synchronize([a_pod()], [a_container(state=pb.CONTAINER_RUNNING)])

        assert {"c1"} == stage.known

    def test_one_that_was_fenced_under_laxer_rules_keeps_its_record(self, metrics: Metrics, merge: Merge) -> None:
        """What runs on is accounted for, whatever today's rules say of its annotations."""
        pod = a_pod(annotations_for(limit="4Gi", mode="sm-sharing"))
        container = made(Stage(metrics), merge, pod, a_container())
        container.state = pb.CONTAINER_RUNNING
        stricter = Stage(metrics, Policy(Grammar(sm_sharing=False), Options()))
        stricter.plugin.synchronize([pod], [container])

        assert [Kind.TOLERATED] == [each.kind for each in stricter.court.submitted]
        assert [4096] == [each.requested_memory_mib for each in stricter.keeper.records.values()]

    def test_one_without_its_pod_keeps_the_record_it_has(self, stage: Stage) -> None:
        """What could not be judged is not forgotten."""
        stage.plugin.synchronize([], [a_container("c9", state=pb.CONTAINER_RUNNING)])

        assert [{"c9"}] == stage.keeper.spared

    def test_a_container_that_creation_would_refuse_is_not_recorded(self, stage: Stage) -> None:
        """Without a readable limit there is nothing to account with."""
        stage.plugin.synchronize([a_pod(BAD)], [a_container(state=pb.CONTAINER_RUNNING)])

        assert [{}] == stage.keeper.replaced
        assert [Kind.UNFENCED] == [each.kind for each in stage.court.submitted]

    def test_a_mode_typo_under_fail_open_is_audited_as_time_slicing(self, metrics: Metrics) -> None:
        """A typo does not exempt a container from the audit."""
        stage = Stage(metrics, Policy(Grammar(), Options(), fail_open=True))

        stage.plugin.synchronize(
            [a_pod(annotations_for(limit="4Gi", mode="fast"))], [a_container(state=pb.CONTAINER_RUNNING)]
        )

        assert 1 == len(stage.court.submitted)

    def test_it_is_one_line_with_numbers(self, stage: Stage, log: LogLines) -> None:
        """How much the runtime told is in the log, after the answer."""
        stage.plugin.synchronize([a_pod()], [a_container(), a_container("c2", name="x")])
        stage.say()

        assert [("synchronized", 1, 2, 1)] == [
            (line["event"], line["pods"], line["containers"], line["fractional"]) for line in log
        ]

    def test_the_comparison_with_cri_begins_when_the_runtime_has_the_answer(self, stage: Stage) -> None:
        """Not before we are on the runtime's list, when events come for what the list lacks."""
        stage.plugin.synchronize([], [])
        before = (stage.compared, list(stage.line.told))

        stage.plugin.synchronized()

        assert ((0, []), (1, ["synchronized"])) == (before, (stage.compared, stage.line.told))


class TestShutdown:
    def test_the_line_is_lost(self, stage: Stage) -> None:
        """Readiness goes with the runtime's word, before the socket closes."""
        stage.plugin.shutdown()

        assert ["lost: the runtime is shutting down"] == stage.line.told


class TestHandlerFailed:
    def test_a_fault_is_counted_and_logged_with_its_traceback(
        self, stage: Stage, sample: Sample, log: LogLines
    ) -> None:
        """A bug of ours refuses a container, and leaves a trace."""
        error = ZeroDivisionError("x")

        stage.plugin.handler_failed("CreateContainer", error)

        assert 1.0 == sample("handler_failures_total", method="create")
        assert [("handler_failed", "error", "CreateContainer", error)] == [
            (line["event"], line["log_level"], line["method"], line["exc_info"]) for line in log
        ]


class TestTimes:
    def test_each_answer_is_timed_once(self, stage: Stage, merge: Merge, sample: Sample) -> None:
        """Refused or not, every request of a method is one observation."""
        pod = a_pod()
        response = stage.create(pod, a_container())
        assert response is not None
        created = merge(a_container(), response.adjust)
        refusal(lambda: stage.create(a_pod(BAD), a_container()))
        stage.create(a_pod({}), a_container())
        stage.validate(pod, created, response.adjust)
        refusal(lambda: stage.validate(pod, created, pb.ContainerAdjustment()))
        stage.start(pod, created)
        refusal(lambda: stage.start(pod, a_container()))
        stage.remove(pod, created)
        stage.plugin.synchronize([], [])

        assert {"create": 3, "validate": 2, "start": 2, "remove": 1, "synchronize": 1} == {
            method: sample("handler_seconds_count", method=method) for method in METHODS
        }


class TestAdjustmentOfCreation:
    def test_it_is_the_plan_in_wire_form(self, stage: Stage) -> None:
        """Nothing is added to what fencing decided, and nothing lost."""
        pod = a_pod()
        assessment = Assessor(stage.policy, stage.node).assess(pod.annotations, "main")
        planned = getattr(assessment, "injection")  # noqa: B009  the type is checked by the comparison

        assert wire.adjustment(planned) == stage.create(pod, a_container())
