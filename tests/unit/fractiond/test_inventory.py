"""What the node holds, as its files tell."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, MutableMapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest
from fractiond import inventory
from fractiond.fencing import Inventory
from fractiond.inventory import NodeInventory, Sources
from fractioning_core.injection import CdiInventory
from hypothesis import given, settings
from hypothesis import strategies as st

# On a busy machine the time of one example says nothing.
UNHURRIED = settings(deadline=None)

Running = Callable[[NodeInventory], AbstractAsyncContextManager[asyncio.Task[None]]]
LogLines = list[MutableMapping[str, Any]]

UUID = "GPU-5c91c94a-3d1b-4c5a-9d8a-0123456789ab"
OTHER = "GPU-ffffffff-3d1b-4c5a-9d8a-0123456789ab"
KIND = "k8s.device-plugin.nvidia.com/gpu"

# As the driver writes it, tabs and all.
INFORMATION = """\
Model: \t\t NVIDIA H200
IRQ:   \t\t 187
GPU UUID: \t {uuid}
Video BIOS: \t 96.00.bc.00.01
Bus Type: \t PCIe
Device Minor: \t 0
GPU Excluded:\t No
"""


def add_gpu(proc: Path, uuid: str, *, bus: str = "0000:18:00.0") -> Path:
    file = proc / "driver/nvidia/gpus" / bus / "information"
    file.parent.mkdir(parents=True)
    file.write_text(INFORMATION.format(uuid=uuid))
    return file


def spec(*names: str, kind: str = KIND) -> str:
    return json.dumps({"cdiVersion": "0.5.0", "kind": kind, "devices": [{"name": name} for name in names]})


def sources(root: Path, *directories: str) -> Sources:
    return Sources(proc_root=root, cdi_spec_dirs=tuple(root / name for name in directories))


class TestGpus:
    def test_each_gpus_uuid_is_read(self, tmp_path: Path) -> None:
        """The driver's listing under /proc gives the live UUIDs without NVML."""
        add_gpu(tmp_path, UUID)
        add_gpu(tmp_path, OTHER, bus="0000:2a:00.0")

        assert Inventory(gpu_uuids=frozenset({UUID, OTHER})) == inventory.read(sources(tmp_path))

    def test_no_driver_is_unknown(self, tmp_path: Path) -> None:
        """Where there is nothing to read, nobody is refused."""
        assert Inventory() == inventory.read(sources(tmp_path))

    def test_a_driver_without_gpus_yet_is_unknown(self, tmp_path: Path) -> None:
        """An empty listing while the driver loads is no proof that there are no GPUs."""
        (tmp_path / "driver/nvidia/gpus").mkdir(parents=True)

        assert inventory.read(sources(tmp_path)).gpu_uuids is None

    @pytest.mark.parametrize(
        "text",
        [
            pytest.param("", id="empty file"),
            pytest.param("GPU UUID: \t GPU-????????-????-????-????-????????????\n", id="driver that is starting"),
            pytest.param("GPU UUID: \t \n", id="no UUID"),
            pytest.param(f"X GPU UUID: {UUID}\n", id="line that begins otherwise"),
            pytest.param(f"GPU UUID: {UUID} and more\n", id="line that goes on"),
        ],
    )
    def test_one_gpu_that_does_not_tell_makes_all_unknown(self, tmp_path: Path, text: str) -> None:
        """Half a list would refuse containers of the other half."""
        add_gpu(tmp_path, UUID)
        add_gpu(tmp_path, OTHER, bus="0000:2a:00.0").write_text(text)

        assert inventory.read(sources(tmp_path)).gpu_uuids is None

    def test_a_file_that_does_not_read_makes_all_unknown(self, tmp_path: Path) -> None:
        """A GPU whose file vanished between listing and reading is not taken for gone."""
        add_gpu(tmp_path, UUID)
        add_gpu(tmp_path, OTHER, bus="0000:2a:00.0").unlink()

        assert inventory.read(sources(tmp_path)).gpu_uuids is None

    def test_bytes_that_are_no_text_do_no_harm(self, tmp_path: Path) -> None:
        """Firmware strings of other lines may hold anything."""
        add_gpu(tmp_path, UUID).write_bytes(b"Model: \xff\xfe\nGPU UUID: \t " + UUID.encode() + b"\n")

        assert frozenset({UUID}) == inventory.read(sources(tmp_path)).gpu_uuids


class TestCdi:
    def test_nothing_is_read_where_devices_are_not_injected(self, tmp_path: Path) -> None:
        """Without the setting no directory is looked at and nothing is known."""
        assert inventory.read(sources(tmp_path)).cdi is None

    def test_specs_of_all_directories_are_joined(self, tmp_path: Path) -> None:
        """Static and generated specs, JSON and YAML, count alike."""
        for name in ("etc", "run"):
            (tmp_path / name).mkdir()
        (tmp_path / "etc/a.json").write_text(spec("GPU-a"))
        (tmp_path / "run/b.yaml").write_text(f"kind: {KIND}\ndevices:\n- name: GPU-b\n- name: 0\n")

        assert (
            CdiInventory(frozenset({f"{KIND}=GPU-a", f"{KIND}=GPU-b", f"{KIND}=0"}))
            == inventory.read(sources(tmp_path, "etc", "run")).cdi
        )

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            pytest.param("bad.json", "{", id="broken JSON"),
            pytest.param("bad.yaml", "a: [", id="broken YAML"),
            pytest.param("bad.json", "[" * 100_000, id="nested beyond measure, JSON"),
            pytest.param("bad.yaml", "[" * 100_000, id="nested beyond measure, YAML"),
            pytest.param("bad.json", "[]", id="list"),
            pytest.param("bad.yaml", "", id="empty"),
            pytest.param("bad.yaml", "!!bool maybe", id="tag that does not fit, looked up"),
            pytest.param("bad.yaml", "!!timestamp x", id="tag that does not fit, matched"),
            pytest.param("bad.yaml", "!!python/object/apply:os.abort []", id="tag that would run code"),
            pytest.param("bad.json", '{"kind": 1, "devices": []}', id="kind that is no text"),
            pytest.param("bad.json", '{"kind": "a/b", "devices": {}}', id="devices that are no list"),
            pytest.param("big.json", f'{{"kind": "a/b", "x": "{"x" * 4 * 1024 * 1024}"}}', id="over the size"),
            pytest.param("spec.yml", f"kind: {KIND}\ndevices:\n- name: GPU-y\n", id="suffix no runtime reads"),
            pytest.param("spec.json.bak", spec("GPU-y"), id="copy"),
        ],
    )
    def test_what_is_no_spec_holds_no_device_and_hides_no_other(self, tmp_path: Path, name: str, text: str) -> None:
        """A broken file beside a good one is passed over, as the runtime does."""
        (tmp_path / "etc").mkdir()
        (tmp_path / "etc/good.json").write_text(spec("GPU-a"))
        (tmp_path / "etc" / name).write_text(text)

        assert CdiInventory(frozenset({f"{KIND}=GPU-a"})) == inventory.read(sources(tmp_path, "etc")).cdi

    def test_a_directory_that_does_not_exist_holds_none(self, tmp_path: Path) -> None:
        """One of two usual directories is enough."""
        (tmp_path / "etc").mkdir()

        assert CdiInventory(frozenset()) == inventory.read(sources(tmp_path, "etc", "run")).cdi

    def test_no_directory_at_all_is_unknown(self, tmp_path: Path) -> None:
        """A mistyped mount of the spec directories refuses nobody."""
        assert inventory.read(sources(tmp_path, "etc", "run")).cdi is None

    def test_a_directory_that_is_named_like_a_spec_is_passed_over(self, tmp_path: Path) -> None:
        """Reading goes on behind what does not read."""
        (tmp_path / "etc/a.json").mkdir(parents=True)
        (tmp_path / "etc/b.json").write_text(spec("GPU-a"))

        assert CdiInventory(frozenset({f"{KIND}=GPU-a"})) == inventory.read(sources(tmp_path, "etc")).cdi


class TestParseSpec:
    def test_devices_without_a_name_are_left_out(self) -> None:
        """What cannot be requested is not listed."""
        text = json.dumps({"kind": KIND, "devices": [{"name": "a"}, {}, "b", None]})

        assert (f"{KIND}=a",) == inventory.parse_spec(text, is_json=True)

    TEXTS = st.one_of(
        st.text(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(max_size=8),
            lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(("kind", "devices", "name", "x")), inner),
            max_leaves=10,
        ).map(json.dumps),
        st.lists(
            st.sampled_from(("!!", "bool", "int", " ", "x", "\n", "- ", "[", "{", ":", "&a", "*a", "<<")), max_size=20
        ).map("".join),
    )

    @UNHURRIED
    @given(text=TEXTS, is_json=st.booleans())
    def test_any_text_is_a_spec_or_a_value_error(self, text: str, is_json: bool) -> None:  # noqa: FBT001  drawn
        """No file in a spec directory can end the task that reads them."""
        try:
            names = inventory.parse_spec(text, is_json=is_json)
        except ValueError:
            return

        assert all("=" in name for name in names)


class TestNodeInventory:
    async def test_it_begins_unknown(self, tmp_path: Path) -> None:
        """Until the first reading nobody is refused."""
        assert Inventory() == NodeInventory(sources(tmp_path)).current

    async def test_start_reads_before_the_first_container(self, tmp_path: Path, log: LogLines) -> None:
        """What is there when fractiond begins is known when it registers."""
        add_gpu(tmp_path, UUID)
        (tmp_path / "etc").mkdir()
        node = NodeInventory(sources(tmp_path, "etc"))

        await node.start()

        assert Inventory(gpu_uuids=frozenset({UUID}), cdi=CdiInventory(frozenset())) == node.current
        assert [("inventory_changed", 1, 0)] == [(line["event"], line["gpus"], line["cdi_devices"]) for line in log]

    async def test_a_hung_file_system_does_not_hold_up_the_start(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, log: LogLines
    ) -> None:
        """A reading that does not end leaves the inventory unknown, and says so."""
        # The thread that hangs is real, so virtual time is of no use here.
        monkeypatch.setattr(inventory, "FIRST_READ_SECONDS", 0.05)
        pipe = add_gpu(tmp_path, UUID)
        pipe.unlink()
        os.mkfifo(pipe)
        node = NodeInventory(sources(tmp_path))

        await node.start()
        _release(pipe)

        assert (Inventory(), ["inventory_not_read_yet"]) == (node.current, [line["event"] for line in log])

    async def test_a_doubt_is_answered_by_a_new_reading(self, tmp_path: Path, running: Running) -> None:
        """After a refusal the files are looked at again at once, not at the next regular reading."""
        node = NodeInventory(sources(tmp_path))
        async with running(node):
            add_gpu(tmp_path, UUID)
            node.doubt()
            await _until(lambda: node.current != Inventory())

        assert frozenset({UUID}) == node.current.gpu_uuids

    async def test_one_doubt_is_one_reading(self, tmp_path: Path, running: Running) -> None:
        """After the answer it is quiet again until the next doubt or the next regular reading."""
        node = NodeInventory(sources(tmp_path))
        async with running(node):
            add_gpu(tmp_path, UUID)
            node.doubt()
            await _until(lambda: node.current != Inventory())
            add_gpu(tmp_path, OTHER, bus="0000:2a:00.0")
            for _ in range(100):
                # A reading is one turn of a thread, too.
                await asyncio.to_thread(os.sched_yield)

        assert frozenset({UUID}) == node.current.gpu_uuids

    @pytest.mark.looptime
    async def test_it_is_renewed_without_a_doubt(self, tmp_path: Path, running: Running) -> None:
        """A GPU that was swapped is known before anybody is refused over it."""
        add_gpu(tmp_path, UUID)
        node = NodeInventory(sources(tmp_path))
        async with running(node):
            await asyncio.sleep(inventory.REFRESH_SECONDS - 1)
            early = node.current
            await asyncio.sleep(2)
            await _until(lambda: node.current != Inventory())

        assert (Inventory(), frozenset({UUID})) == (early, node.current.gpu_uuids)

    async def test_an_unchanged_reading_says_nothing(self, tmp_path: Path, log: LogLines) -> None:
        """The log has a line for each change, not for each reading."""
        add_gpu(tmp_path, UUID)
        node = NodeInventory(sources(tmp_path))

        await node.start()
        await node.start()

        assert 1 == len(log)


def _release(pipe: Path) -> None:
    """Let whoever reads a pipe go on, or find it gone."""
    with os.fdopen(os.open(pipe, os.O_RDWR), "wb", buffering=0) as end:
        pipe.unlink()
        end.write(b"\n")


async def _until(condition: Callable[[], bool]) -> None:
    """Let other tasks and threads go on until a condition holds."""
    async with asyncio.timeout(30):
        while not condition():
            await asyncio.to_thread(os.sched_yield)
