"""NRI messages from and to the domain's values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from fractiond import wire
from fractiond.wire import Subject
from fractioning_core.injection import Injection, Mount, Observed
from fractioning_core.record import GpuDevice
from fractioning_core.testing.builders import a_fraction, a_record
from nri_aio.pb import nri_pb2 as pb

PLANNED = Injection(
    env=(("NVIDIA_GPU_MEMORY_LIMIT", "1024"), ("CUDA_MPS_PIPE_DIRECTORY", "/run/nvidia-mps")),
    mount=Mount("/run/nvidia-mps/shared/default", "/tmp/nvidia-mps", ("bind", "rw")),
    cdi_devices=("k8s.device-plugin.nvidia.com/gpu=GPU-a", "k8s.device-plugin.nvidia.com/gpu=GPU-b"),
)

Merge = Callable[[pb.Container, pb.ContainerAdjustment], pb.Container]


def device(*, kind: str = "c", major: int = 195, minor: int = 0) -> pb.LinuxDevice:
    return pb.LinuxDevice(path=f"/dev/x{minor}", type=kind, major=major, minor=minor)


class TestSubject:
    POD = pb.PodSandbox(id="p1", name="job-1", uid="uid-1", namespace="team-a")
    CONTAINER = pb.Container(id="c1", pod_sandbox_id="p1", name="main")

    def test_it_is_read_from_a_request(self, subject: Subject) -> None:
        """Pod and container of a request name the container."""
        assert subject == Subject.of(self.POD, self.CONTAINER)

    def test_its_text_begins_every_refusal(self, subject: Subject) -> None:
        """A user recognises the container by its name, its pod's and the namespace."""
        assert 'container "main" in pod "team-a/job-1"' == str(subject)

    def test_its_log_keys_are_the_four_of_every_line(self, subject: Subject) -> None:
        """A search of the log for a pod or a container finds each of its lines."""
        assert {"namespace": "team-a", "pod": "job-1", "container": "main", "container_id": "c1"} == subject.keys()


class TestAdjustment:
    def test_each_key_is_removed_before_it_is_set(self) -> None:
        """A variable or mount that an earlier plugin claimed is taken over, which a plain set would conflict with."""
        adjust = wire.adjustment(PLANNED).adjust

        assert [
            ("-NVIDIA_GPU_MEMORY_LIMIT", ""),
            ("NVIDIA_GPU_MEMORY_LIMIT", "1024"),
            ("-CUDA_MPS_PIPE_DIRECTORY", ""),
            ("CUDA_MPS_PIPE_DIRECTORY", "/run/nvidia-mps"),
        ] == [(pair.key, pair.value) for pair in adjust.env]
        assert [
            pb.Mount(destination="-/tmp/nvidia-mps"),
            pb.Mount(
                destination="/tmp/nvidia-mps",
                source="/run/nvidia-mps/shared/default",
                type="bind",
                options=["bind", "rw"],
            ),
        ] == list(adjust.mounts)

    def test_cdi_devices_are_requested_in_order(self) -> None:
        """The runtime resolves the names; nothing of theirs is written out here."""
        adjust = wire.adjustment(PLANNED).adjust

        assert list(PLANNED.cdi_devices) == [each.name for each in adjust.CDI_devices]

    def test_nothing_else_is_touched(self) -> None:
        """Arguments, hooks, annotations, limits and other containers stay as they are."""
        response = wire.adjustment(PLANNED)

        assert ["adjust"] == [field.name for field, _ in response.ListFields()]
        assert {"env", "mounts", "CDI_devices"} == {field.name for field, _ in response.adjust.ListFields()}


class TestAdjusted:
    def test_a_validator_sees_what_was_planned(self) -> None:
        """Our own adjustment reads back as every value of the plan, and as no marker."""
        assert Observed(
            env=("NVIDIA_GPU_MEMORY_LIMIT=1024", "CUDA_MPS_PIPE_DIRECTORY=/run/nvidia-mps"),
            mounts=(("/run/nvidia-mps/shared/default", "/tmp/nvidia-mps"),),
            cdi_devices=PLANNED.cdi_devices,
        ) == wire.adjusted(wire.adjustment(PLANNED).adjust)

    def test_an_empty_adjustment_has_no_cdi_devices_rather_than_unknown_ones(self) -> None:
        """At validation the runtime shows all that is requested, so none is none."""
        assert Observed(env=(), mounts=(), cdi_devices=()) == wire.adjusted(pb.ContainerAdjustment())


class TestObserved:
    def test_environment_and_mounts_are_read_in_order(self) -> None:
        """Doubles and bare keys survive, since the audit judges them."""
        container = pb.Container(
            env=["A=1", "A=2", "B"],
            mounts=[pb.Mount(source="/s", destination="/d", options=["ro"]), pb.Mount(destination="/proc")],
        )

        assert Observed(env=("A=1", "A=2", "B"), mounts=(("/s", "/d"), ("", "/proc"))) == wire.observed(container)

    @pytest.mark.parametrize(
        "devices",
        [
            pytest.param([], id="none shown"),
            pytest.param([pb.CDIDevice(name="k/c=1")], id="those that the kubelet requested"),
        ],
    )
    def test_cdi_devices_are_not_known(self, devices: list[pb.CDIDevice]) -> None:
        """What a runtime lists there says nothing of the devices that a plugin requested."""
        assert wire.observed(pb.Container(CDI_devices=devices)).cdi_devices is None

    def test_what_was_adjusted_is_observed(self, merge: Merge) -> None:
        """An adjustment that a runtime merged reads back with no variable and no mount lost."""
        container = merge(pb.Container(env=["PATH=/bin"]), wire.adjustment(PLANNED).adjust)

        assert Observed(
            env=("PATH=/bin", *(f"{key}={value}" for key, value in PLANNED.env)),
            mounts=((PLANNED.mount.source, PLANNED.mount.destination),),
        ) == wire.observed(container)


class TestRecordOf:
    @pytest.mark.parametrize(
        ("devices", "nodes", "expected"),
        [
            pytest.param(
                "",
                [device(minor=0), device(minor=1)],
                (GpuDevice(minor_number=0), GpuDevice(minor_number=1)),
                id="minors",
            ),
            pytest.param("", [device(minor=1), device(minor=1)], (GpuDevice(minor_number=1),), id="a minor twice"),
            pytest.param("", [device(minor=255)], (), id="nvidiactl"),
            pytest.param("", [device(major=1, minor=3)], (), id="another driver's device"),
            pytest.param("", [device(kind="b")], (), id="block device"),
            pytest.param("GPU-a", [], (GpuDevice(uuid="GPU-a"),), id="UUID before the device nodes show"),
            pytest.param("GPU-a", [device(minor=3)], (GpuDevice(uuid="GPU-a", minor_number=3),), id="one of each"),
            pytest.param("0", [], (), id="index, of which no record is kept"),
        ],
    )
    def test_gpus_come_from_annotation_and_device_nodes(
        self, subject: Subject, devices: str, nodes: list[pb.LinuxDevice], expected: tuple[GpuDevice, ...]
    ) -> None:
        """UUIDs are those the annotation names, minors those of /dev/nvidiaN in the container."""
        container = pb.Container(linux=pb.LinuxContainer(devices=nodes))

        assert expected == wire.record_of(subject, container, a_fraction(devices=devices)).gpu_devices

    def test_the_pod_the_declaration_and_the_cgroup_are_recorded(self, subject: Subject) -> None:
        """A record says whose the container is, what it declared, and where its cgroup is as the runtime writes it."""
        container = pb.Container(linux=pb.LinuxContainer(cgroups_path="kubepods-poduid-1.slice:cri-containerd:c1"))

        assert a_record(
            pod="job-1",
            namespace="team-a",
            pod_uid="uid-1",
            gpu_devices=(),
            requested_memory_mib=4096,
            container="main",
            memory_request_mib=2048,
            memory_limit_mib=4096,
            cgroups_path="kubepods-poduid-1.slice:cri-containerd:c1",
        ) == wire.record_of(subject, container, a_fraction(request_mib=2048, limit_mib=4096))

    def test_a_container_without_a_linux_section_tells_nothing_of_devices(self, subject: Subject) -> None:
        """Unknown devices are recorded as unknown, not as none, and the cgroup likewise."""
        record = wire.record_of(subject, pb.Container(), a_fraction())

        assert (None, "") == (record.gpu_devices, record.cgroups_path)

    def test_a_named_gpu_is_recorded_without_a_linux_section_too(self, subject: Subject) -> None:
        """What the annotation names is known whatever the runtime tells."""
        record = wire.record_of(subject, pb.Container(), a_fraction(devices="GPU-a"))

        assert (GpuDevice(uuid="GPU-a"),) == record.gpu_devices

    def test_reading_leaves_the_message_as_it_was(self, subject: Subject) -> None:
        """Looking for devices does not add an empty Linux section to the container."""
        container = pb.Container(id="c1")

        wire.record_of(subject, container, a_fraction())

        assert pb.Container(id="c1") == container
