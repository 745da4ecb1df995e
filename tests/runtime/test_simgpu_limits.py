"""
Simulated memory limits: the two functions of NVML, as nvml.h describes them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
from lab import cgrouptree
from lab.limitscene import OPERATING_SYSTEM, LimitScene
from lab.limitscene import TOTAL_BYTES as TOTAL
from simgpu.limits import MAX, Limit, LimitsFile
from simgpu.reader import Reader
from simgpu.state import Gpu, Machine

INVALID_ARGUMENT = 2
NOT_SUPPORTED = 3
NO_PERMISSION = 4
NOT_FOUND = 6
FUNCTION_NOT_FOUND = 13
GPU_IS_LOST = 15


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[LimitScene]:
    """
    A machine whose cgroup has no limits yet.
    """
    made = LimitScene(tmp_path)
    with made.nvml:
        yield made


@pytest.fixture
def open_directory() -> Iterator[Path]:
    """
    A directory that anybody may enter, as that of the test itself is not.
    """
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


class TestSetting:
    @pytest.mark.parametrize(
        ("soft", "hard", "error"),
        [
            pytest.param(5, 7, 0, id="both"),
            pytest.param(0, MAX, 0, id="none"),
            pytest.param(TOTAL, TOTAL, 0, id="all"),
            pytest.param(MAX, MAX, 0, id="the maximum"),
            pytest.param(7, 5, INVALID_ARGUMENT, id="soft over hard"),
            pytest.param(0, TOTAL + 1, INVALID_ARGUMENT, id="hard over the card"),
            pytest.param(TOTAL + 1, MAX, INVALID_ARGUMENT, id="soft over the card"),
        ],
    )
    def test_values(self, scene: LimitScene, soft: int, hard: int, error: int) -> None:
        """
        Limits are taken as nvml.h says, and are read back by exactly what was set; refused ones are not set.
        """
        told = scene.set(soft, hard)

        assert (error, NOT_FOUND if error else [soft, hard, 0]) == (told, scene.get())

    def test_each_gpu_and_cgroup_has_its_own(self, scene: LimitScene) -> None:
        """
        Limits belong to one GPU and one cgroup, not to those above and below.
        """
        child = cgrouptree.add(scene.root, "/kubepods/pod1/c1/init")
        scene.set(1, 2)
        scene.set(3, 4, gpu=1)
        scene.set(5, 6, cgroup=child)

        assert ([1, 2, 0], [3, 4, 0], [5, 6, 0]) == (scene.get(), scene.get(gpu=1), scene.get(cgroup=child))
        assert NOT_FOUND == scene.get(cgroup=scene.cgroup.parent)

    def test_another_process_finds_them(self, scene: LimitScene) -> None:
        """
        Limits are the driver's, not those of the process that set them.
        """
        scene.set(1, 2)
        with Reader(scene.driver.library, environ=scene.state.environ) as other:
            assert [1, 2, 0] == other.ask(f"limits(0, {str(scene.cgroup)!r})")

    def test_without_being_root(self, open_directory: Path) -> None:
        """
        Anybody may read limits, and root alone may set them.
        """
        scene = LimitScene(open_directory)
        scene.set(1, 2)
        with scene.nvml as nvml:
            nvml.ask("__import__('os').seteuid(65534)")

            assert (NO_PERMISSION, [1, 2, 0]) == (scene.set(3, 4), scene.get())


class TestCgroups:
    def test_one_that_is_gone(self, scene: LimitScene) -> None:
        """
        A cgroup takes its limits along, and its successor of the same name has none.
        """
        scene.set(1, 2)
        scene.cgroup.rmdir()
        gone = scene.get()
        scene.cgroup.mkdir()

        assert (OPERATING_SYSTEM, NOT_FOUND) == (gone, scene.get())

    @pytest.mark.parametrize(
        "path",
        [pytest.param("nowhere", id="absent"), pytest.param("", id="in no tree"), pytest.param("simgpu", id="file")],
    )
    def test_one_that_cannot_be_opened(self, scene: LimitScene, path: str) -> None:
        """
        What is no directory of a cgroup v2 tree cannot be opened.
        """
        directory = scene.directory / path

        assert (OPERATING_SYSTEM, OPERATING_SYSTEM) == (scene.set(1, 2, cgroup=directory), scene.get(cgroup=directory))

    def test_another_name_for_it(self, scene: LimitScene) -> None:
        """
        A cgroup is the same by whatever path it is reached.
        """
        (scene.directory / "link").symlink_to(scene.root)
        scene.set(1, 2)

        assert [1, 2, 0] == scene.get(cgroup=scene.directory / "link/kubepods/pod1/../pod1/c1")

    def test_use_that_the_state_tells(self, scene: LimitScene) -> None:
        """
        What a cgroup uses can be told by the state, for one GPU.
        """
        scene.write(cgroup_used_bytes={scene.cgroup: 77})
        scene.set(1, 2)
        scene.set(3, 4, gpu=1)

        assert ([1, 2, 77], [3, 4, 0]) == (scene.get(), scene.get(gpu=1))


class TestSupport:
    @pytest.mark.parametrize(
        ("machine", "error"),
        [
            pytest.param(Machine(memory_limits=False), NOT_SUPPORTED, id="switched off"),
            pytest.param(Machine(driver="610.43.02"), NOT_SUPPORTED, id="driver before r615"),
            pytest.param(Machine(devices=(Gpu("GPU-1", mig=True),)), NOT_SUPPORTED, id="MIG"),
            pytest.param(Machine(devices=(Gpu("GPU-1", error=GPU_IS_LOST),)), GPU_IS_LOST, id="lost"),
        ],
    )
    def test_none(self, scene: LimitScene, machine: Machine, error: int) -> None:
        """
        Both functions say why there are no limits.
        """
        devices = machine.devices or (Gpu("GPU-1", memory_total_bytes=TOTAL),)
        scene.state.write(attrs.evolve(machine, devices=devices))

        assert (error, error) == (scene.set(0, 0), scene.get())

    def test_an_old_library(self, scene: LimitScene) -> None:
        """
        The library of a driver before r615 has neither function, and all the others.
        """
        with Reader(scene.driver.old_library, environ=scene.state.environ) as old:
            path = repr(str(scene.cgroup))
            errors = [old.error_of(call) for call in (f"set_limits(0, {path}, 1, 2)", f"limits(0, {path})")]

            assert ([FUNCTION_NOT_FOUND] * 2, "GPU-1") == (errors, old.ask("nvmlDeviceGetUUID(gpu(0))"))


class TestBehindItsBack:
    def test_a_change(self, scene: LimitScene) -> None:
        """
        What a test puts in the file counts at once, also in place of what was set.
        """
        limits = LimitsFile(scene.state)
        scene.set(1, 2)
        before = (scene.get(), limits.read())
        limits.put(Limit("GPU-1", scene.cgroup, soft_bytes=8, hard_bytes=9))
        changed = scene.get()
        limits.remove("GPU-1", scene.cgroup)

        assert ([1, 2, 0], (Limit("GPU-1", scene.cgroup, soft_bytes=1, hard_bytes=2),)) == before
        assert ([8, 9, 0], NOT_FOUND) == (changed, scene.get())

    def test_the_driver_keeps_what_was_put(self, scene: LimitScene) -> None:
        """
        Limits put for a directory of any kind stay when others are set, and those of directories that are gone do not.
        """
        limits = LimitsFile(scene.state)
        put = Limit("GPU-2", scene.cgroup, soft_bytes=8, hard_bytes=9)
        limits.put(put)
        limits.put(attrs.evolve(put, directory=scene.root / "gone"))
        scene.set(1, 2)

        assert {put, Limit("GPU-1", scene.cgroup, soft_bytes=1, hard_bytes=2)} == set(limits.read())
