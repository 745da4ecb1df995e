from __future__ import annotations

import json

import pytest
from fractioning_core import record
from fractioning_core.errors import InvalidRecord
from fractioning_core.record import GpuDevice, Record
from fractioning_core.testing.builders import a_record
from hypothesis import given
from hypothesis import strategies as st

GOLDEN = (
    b'{"schemaVersion":1,"pod":"trainer-7d9f","namespace":"team-ml","podUID":"3f2a-uid",'
    b'"gpuDevices":[{"index":0,"minorNumber":0},{"index":3,"minorNumber":0}],"requestedMemoryMiB":2048}'
)
GOLDEN_RECORD = a_record(gpu_devices=(GpuDevice(0, None, 0), GpuDevice(3, None, 0)))
FULL = (
    GOLDEN[:-1] + b',"container":"main","memoryRequestMiB":1024,"memoryLimitMiB":2048,'
    b'"cgroupsPath":"kubepods-pod3f2a.slice:cri-containerd:abc"}'
)
FULL_RECORD = a_record(
    gpu_devices=GOLDEN_RECORD.gpu_devices,
    container="main",
    memory_request_mib=1024,
    memory_limit_mib=2048,
    cgroups_path="kubepods-pod3f2a.slice:cri-containerd:abc",
)

PRINTABLE = st.text(max_size=50).filter(str.isprintable)
NUMBERS = st.integers(0, 2**63 - 1)
DEVICES = st.builds(GpuDevice, index=NUMBERS, uuid=st.none() | PRINTABLE.filter(bool), minor_number=st.none() | NUMBERS)
RECORDS = st.builds(
    Record,
    pod=PRINTABLE,
    namespace=PRINTABLE,
    pod_uid=PRINTABLE,
    gpu_devices=st.none() | st.lists(DEVICES, max_size=8).map(tuple),
    requested_memory_mib=NUMBERS,
    container=PRINTABLE,
    memory_request_mib=NUMBERS,
    memory_limit_mib=NUMBERS,
    cgroups_path=PRINTABLE,
)


def a_body(**changes: object) -> bytes:
    return json.dumps(json.loads(GOLDEN) | changes).encode()


def a_body_without(key: str) -> bytes:
    return json.dumps({name: value for name, value in json.loads(GOLDEN).items() if name != key}).encode()


class TestEncode:
    """A record as bytes."""

    def test_golden(self) -> None:
        """The format is pinned byte for byte, with all that fractiond tells and without."""
        assert (GOLDEN, FULL) == (record.encode(GOLDEN_RECORD), record.encode(FULL_RECORD))

    @pytest.mark.parametrize(
        ("entry", "expected"),
        [
            pytest.param(
                a_record(gpu_devices=None), b'"gpuDevices":null,"requestedMemoryMiB":2048}', id="devices unknown"
            ),
            pytest.param(a_record(gpu_devices=()), b'"gpuDevices":[],"requestedMemoryMiB":2048}', id="no devices"),
            pytest.param(a_record(requested_memory_mib=0), b'"gpuDevices":[]}', id="memory unknown"),
            pytest.param(
                a_record(gpu_devices=(GpuDevice(uuid="GPU-a", minor_number=2),), requested_memory_mib=0),
                b'"gpuDevices":[{"index":0,"uuid":"GPU-a","minorNumber":2}]}',
                id="UUID and minor",
            ),
            pytest.param(
                a_record(gpu_devices=(GpuDevice(uuid="GPU-a"),), requested_memory_mib=0),
                b'"gpuDevices":[{"index":0,"uuid":"GPU-a"}]}',
                id="UUID alone",
            ),
        ],
    )
    def test_what_is_unknown_is_left_out(self, entry: Record, expected: bytes) -> None:
        """Devices are null or a list, and an unknown UUID, minor or amount has no field."""
        start = b'{"schemaVersion":1,"pod":"trainer-7d9f","namespace":"team-ml","podUID":"3f2a-uid",'

        assert start + expected == record.encode(entry)


class TestDecode:
    """Bytes as a record."""

    def test_golden(self) -> None:
        """The pinned bytes read back as the records."""
        assert (GOLDEN_RECORD, FULL_RECORD) == (record.decode(GOLDEN), record.decode(FULL))

    @given(RECORDS)
    def test_round_trip(self, entry: Record) -> None:
        """What is written reads back the same."""
        assert entry == record.decode(record.encode(entry))

    @pytest.mark.parametrize(
        ("data", "expected"),
        [
            pytest.param(a_body(extra={"a": 1}), GOLDEN_RECORD, id="unknown field"),
            pytest.param(a_body_without("gpuDevices"), a_record(gpu_devices=None), id="no devices field"),
            pytest.param(
                a_body_without("requestedMemoryMiB"),
                Record("trainer-7d9f", "team-ml", "3f2a-uid", GOLDEN_RECORD.gpu_devices),
                id="no memory",
            ),
            pytest.param(
                a_body(container=None, memoryRequestMiB=None, memoryLimitMiB=None, cgroupsPath=None),
                GOLDEN_RECORD,
                id="null where nothing is told",
            ),
            pytest.param(
                a_body(cgroupsPath="/" + "x" * 4095),
                a_record(gpu_devices=GOLDEN_RECORD.gpu_devices, cgroups_path="/" + "x" * 4095),
                id="the longest path",
            ),
            pytest.param(a_body(gpuDevices=[{}]), a_record(gpu_devices=(GpuDevice(),)), id="empty device"),
            pytest.param(
                a_body(gpuDevices=[{"uuid": ""}]),
                a_record(gpu_devices=(GpuDevice(uuid=None),)),
                id="empty UUID is none",
            ),
        ],
    )
    def test_lenient(self, data: bytes, expected: Record) -> None:
        """Unknown fields are passed over, and optional ones may be absent."""
        assert expected == record.decode(data)

    @pytest.mark.parametrize(
        ("data", "reason"),
        [
            pytest.param(b"", "not JSON", id="empty"),
            pytest.param(GOLDEN[:-1], "not JSON", id="cut short"),
            pytest.param(b"\xff\xfe", "not JSON", id="not text"),
            pytest.param(b"[" * 60_000, "not JSON", id="deeply nested"),
            pytest.param(b'{"schemaVersion":' + b"9" * 10_000 + b"}", "not JSON", id="number of 10,000 digits"),
            pytest.param(b" " * 65_537, "longer than 65536 bytes", id="too long"),
            pytest.param(b"[]", "the record is not an object", id="a list"),
            pytest.param(b"{}", "schemaVersion is missing, not 1", id="no version"),
            pytest.param(a_body(schemaVersion=2), "schemaVersion is 2, not 1", id="version 2"),
            pytest.param(a_body(schemaVersion=True), "schemaVersion is true, not 1", id="version true"),
            pytest.param(a_body(schemaVersion="1"), 'schemaVersion is \\"1\\", not 1', id="version as text"),
            pytest.param(a_body_without("pod"), "pod is missing, not printable text", id="no pod"),
            pytest.param(a_body(namespace=7), "namespace is 7, not printable text", id="namespace is a number"),
            pytest.param(a_body(podUID="x" * 254), "podUID is", id="UID too long"),
            pytest.param(a_body(pod="a\nb"), "pod is", id="line break"),
            pytest.param(a_body(pod="\ud800"), "pod is", id="half a surrogate pair"),
            pytest.param(a_body(gpuDevices={}), "gpuDevices is not a list of at most 256", id="devices are an object"),
            pytest.param(
                a_body(gpuDevices=[{}] * 257), "gpuDevices is not a list of at most 256", id="too many devices"
            ),
            pytest.param(a_body(gpuDevices=[1]), "an entry of gpuDevices is not an object", id="device is a number"),
            pytest.param(a_body(gpuDevices=[{"uuid": 1}]), "uuid is 1, not printable text", id="UUID is a number"),
            pytest.param(a_body(gpuDevices=[{"minorNumber": -1}]), "minorNumber is -1, not", id="negative minor"),
            pytest.param(a_body(gpuDevices=[{"index": 0.5}]), "index is 0.5, not", id="fractional index"),
            pytest.param(a_body(requestedMemoryMiB="1Gi"), 'requestedMemoryMiB is \\"1Gi\\", not', id="memory as text"),
            pytest.param(
                a_body(requestedMemoryMiB=2**63), "requestedMemoryMiB is 9223372036854775808, not", id="overflow"
            ),
            pytest.param(a_body(requestedMemoryMiB=True), "requestedMemoryMiB is true, not", id="memory is true"),
            pytest.param(a_body(container=1), "container is 1, not printable text", id="container is a number"),
            pytest.param(a_body(container="x" * 254), "container is", id="container too long"),
            pytest.param(a_body(memoryRequestMiB=-1), "memoryRequestMiB is -1, not", id="negative request"),
            pytest.param(a_body(memoryLimitMiB="1Gi"), 'memoryLimitMiB is \\"1Gi\\", not', id="limit as text"),
            pytest.param(a_body(cgroupsPath=["/a"]), 'cgroupsPath is [\\"/a\\"], not', id="path is a list"),
            pytest.param(a_body(cgroupsPath="/a\x00b"), "cgroupsPath is", id="NUL in the path"),
            pytest.param(a_body(cgroupsPath="/" + "x" * 4096), "cgroupsPath is", id="path too long"),
        ],
    )
    def test_refused(self, data: bytes, reason: str) -> None:
        """Anything else is refused, naming the field and what it is."""
        with pytest.raises(InvalidRecord) as caught:
            record.decode(data)

        assert reason == caught.value.reason[: len(reason)]

    @given(st.binary())
    def test_any_bytes(self, data: bytes) -> None:
        """No bytes do anything but read as a record or be refused in one line."""
        outcome: Record | InvalidRecord
        try:
            outcome = record.decode(data)
        except InvalidRecord as error:
            outcome = error

        assert isinstance(outcome, Record) or str(outcome).isprintable()


class TestFileName:
    """The file of a container."""

    @pytest.mark.parametrize(
        ("container_id", "expected"),
        [
            pytest.param("abc", "abc.json", id="bare"),
            pytest.param("containerd://abc", "abc.json", id="scheme"),
            pytest.param("x://cri-o://abc", "abc.json", id="two schemes"),
            pytest.param("  abc\n", "abc.json", id="space around"),
            pytest.param("a/b\\c", "a_b_c.json", id="separators"),
            pytest.param("../../etc/passwd", "_._.._etc_passwd.json", id="way out"),
            pytest.param(".hidden", "_hidden.json", id="leading dot"),
            pytest.param("a\x00b", "a_b.json", id="NUL"),
            pytest.param("", "", id="empty"),
            pytest.param("containerd://", "", id="scheme alone"),
            pytest.param("  ", "", id="blank"),
        ],
    )
    def test_sanitised(self, container_id: str, expected: str) -> None:
        """A file name is the bare id without anything that leads elsewhere."""
        assert expected == record.file_name(container_id)

    @given(st.text())
    def test_always_a_visible_file_of_the_directory(self, container_id: str) -> None:
        """No id names a hidden file or another directory."""
        name = record.file_name(container_id)

        assert not name or (not name.startswith(".") and "/" not in name and name.isprintable())


class TestDevices:
    """The GPUs of a container, from two sources."""

    @pytest.mark.parametrize(
        ("uuids", "minors", "expected"),
        [
            pytest.param([], [], (), id="neither"),
            pytest.param(["GPU-a"], [], (GpuDevice(uuid="GPU-a"),), id="UUID alone"),
            pytest.param([], [0, 1], (GpuDevice(minor_number=0), GpuDevice(minor_number=1)), id="minors alone"),
            pytest.param(["GPU-a"], [3], (GpuDevice(uuid="GPU-a", minor_number=3),), id="one of each"),
            pytest.param(
                ["GPU-a", "GPU-b"],
                [0, 1],
                (
                    GpuDevice(uuid="GPU-a"),
                    GpuDevice(uuid="GPU-b"),
                    GpuDevice(minor_number=0),
                    GpuDevice(minor_number=1),
                ),
                id="two of each are not paired",
            ),
            pytest.param(
                ["GPU-a"],
                [0, 1],
                (GpuDevice(uuid="GPU-a"), GpuDevice(minor_number=0), GpuDevice(minor_number=1)),
                id="one and two",
            ),
        ],
    )
    def test_joined(self, uuids: list[str], minors: list[int], expected: tuple[GpuDevice, ...]) -> None:
        """One of each is one GPU; more stand side by side."""
        assert expected == record.devices(uuids, minors)


class TestNvidiaMinors:
    """GPUs among device nodes."""

    @pytest.mark.parametrize(
        ("nodes", "expected"),
        [
            pytest.param([], (), id="none"),
            pytest.param(
                [("c", 195, 0), ("c", 195, 1), ("c", 195, 1), ("c", 195, 255), ("c", 1, 0)], (0, 1), id="a node's"
            ),
            pytest.param([("c", 195, 32), ("c", 195, 33)], (32,), id="the last minor"),
            pytest.param([("c", 195, 1), ("c", 195, 0)], (1, 0), id="order is kept"),
            pytest.param([("b", 195, 0)], (), id="a block device"),
            pytest.param([("u", 195, 2)], (2,), id="an unbuffered character device"),
            pytest.param([("c", 195, -1)], (), id="any minor"),
            pytest.param([("p", 195, 0)], (), id="a pipe"),
        ],
    )
    def test_picked(self, nodes: list[tuple[str, int, int]], expected: tuple[int, ...]) -> None:
        """Character devices of major 195 with minors 0 to 32 are GPUs, each once."""
        assert expected == record.nvidia_minors(nodes)
