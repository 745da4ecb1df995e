from __future__ import annotations

import itertools

import pytest
from fractioning_core import injection
from fractioning_core.errors import InvalidAnnotation, InvalidAnnotations
from fractioning_core.fraction import ComputeMode
from fractioning_core.injection import CdiInventory, Injection, Mount, Observed, Options
from fractioning_core.testing.builders import a_fraction
from hypothesis import given
from hypothesis import strategies as st

KIND = "k8s.device-plugin.nvidia.com/gpu"
KEY = "nvidia.com/container.main.gpus.devices"
PLAIN = Options()
CDI = Options(inject_cdi=True)
REQUEST = ("NVIDIA_GPU_MEMORY_REQUEST", "2048")
LIMIT = ("NVIDIA_GPU_MEMORY_LIMIT", "4096")


def an_inventory(*devices: str, kind: str = KIND) -> CdiInventory:
    return CdiInventory(frozenset(f"{kind}={device}" for device in devices))


def as_observed(planned: Injection, *, env: tuple[str, ...] = (), mounts: tuple[tuple[str, str], ...] = ()) -> Observed:
    return Observed(
        env=(*env, *(f"{name}={value}" for name, value in planned.env)),
        mounts=(*mounts, (planned.mount.source, planned.mount.destination)),
        cdi_devices=planned.cdi_devices,
    )


class TestPlan:
    """What a container gets."""

    def test_time_slicing(self) -> None:
        """A time-sliced container gets both bounds and the plain pipe directory at its own path."""
        expected = Injection(
            env=(REQUEST, LIMIT, ("CUDA_MPS_PIPE_DIRECTORY", "/run/nvidia-mps")),
            mount=Mount("/run/nvidia-mps", "/run/nvidia-mps", ("bind", "rw")),
            cdi_devices=(),
        )

        assert expected == injection.plan(a_fraction(), PLAIN, None)

    def test_sm_sharing(self) -> None:
        """An sm-sharing container gets the shared server's directory at the fixed path."""
        expected = Injection(
            env=(REQUEST, LIMIT, ("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")),
            mount=Mount("/run/nvidia-mps/shared/default", "/tmp/nvidia-mps", ("bind", "rw")),
            cdi_devices=(),
        )

        assert expected == injection.plan(a_fraction(mode=ComputeMode.SM_SHARING), PLAIN, None)

    @pytest.mark.parametrize(
        ("mode", "expected"),
        [
            pytest.param(ComputeMode.TIME_SLICING, Mount("/srv/mps", "/srv/mps"), id="time-slicing"),
            pytest.param(ComputeMode.SM_SHARING, Mount("/srv/mps/shared/default", "/tmp/nvidia-mps"), id="sm-sharing"),
        ],
    )
    def test_pipe_directory_is_a_setting(self, mode: ComputeMode, expected: Mount) -> None:
        """Another pipe directory moves the source, and in time-slicing the destination too."""
        assert expected == injection.plan(a_fraction(mode=mode), Options(pipe_dir="/srv/mps"), None).mount

    @pytest.mark.parametrize("value", ["GPU-a", "GPU-a, GPU-b", "all", "0,1", f"{KIND}=GPU-a", "void"])
    def test_visible_devices(self, value: str) -> None:
        """The devices annotation is passed on verbatim, as the last variable."""
        planned = injection.plan(a_fraction(devices=value), PLAIN, None)

        assert ("NVIDIA_VISIBLE_DEVICES", value) == planned.env[-1]
        assert not planned.cdi_devices


class TestCdi:
    """CDI devices, where they are asked for."""

    @pytest.mark.parametrize(
        ("devices", "inventory", "expected"),
        [
            pytest.param("", None, (), id="no assignment"),
            pytest.param("GPU-a", None, ("GPU-a",), id="UUID on trust"),
            pytest.param("GPU-a", an_inventory("GPU-a", "GPU-b"), ("GPU-a",), id="UUID in a spec"),
            pytest.param("GPU-b,GPU-a,GPU-b", an_inventory("GPU-a", "GPU-b"), ("GPU-b", "GPU-a"), id="order, once"),
            pytest.param(f"{KIND}=GPU-a,GPU-a", None, ("GPU-a",), id="CDI name and bare UUID are one"),
            pytest.param("nvidia.com/gpu=GPU-a", None, ("GPU-a",), id="UUID under another kind"),
            pytest.param("MIG-a", an_inventory("MIG-a"), ("MIG-a",), id="MIG slice"),
            pytest.param("all", an_inventory("GPU-b", "GPU-a"), ("GPU-a", "GPU-b"), id="all is expanded"),
            pytest.param("all", an_inventory("GPU-a", "all"), ("GPU-a",), id="all beside a device named all"),
            pytest.param("all", an_inventory("all"), ("all",), id="only a device named all"),
            pytest.param(f"{KIND}=all", an_inventory("GPU-a"), ("GPU-a",), id="CDI name of all"),
            pytest.param("0", an_inventory("0", "1"), ("0",), id="index with a device of that name"),
            pytest.param("all,GPU-b", an_inventory("GPU-a", "GPU-b"), ("GPU-a", "GPU-b"), id="all and one of them"),
        ],
    )
    def test_requested(self, devices: str, inventory: CdiInventory | None, expected: tuple[str, ...]) -> None:
        """Each assigned GPU is requested once, under the device plugin's kind."""
        planned = injection.plan(a_fraction(devices=devices), CDI, inventory)

        assert tuple(f"{KIND}={name}" for name in expected) == planned.cdi_devices

    @pytest.mark.parametrize(
        ("devices", "inventory", "fault"),
        [
            pytest.param(
                "GPU-a", an_inventory("GPU-c", "GPU-b"), "GPU-a is in no CDI spec; known: GPU-b, GPU-c", id="UUID"
            ),
            pytest.param("GPU-a", an_inventory(), "GPU-a is in no CDI spec; known: none", id="UUID and no spec"),
            pytest.param(
                "GPU-a",
                an_inventory("GPU-a", kind="nvidia.com/gpu"),
                "GPU-a is in no CDI spec; known: none",
                id="other kind",
            ),
            pytest.param("0", an_inventory("GPU-a"), "0 is in no CDI spec; known: GPU-a", id="index without a device"),
            pytest.param("all", an_inventory(), "the CDI specs list no GPU", id="all of nothing"),
            pytest.param(
                "all", None, "all needs the node's CDI specs, and they are not known", id="all, unknown specs"
            ),
            pytest.param("0", None, "0 needs the node's CDI specs, and they are not known", id="index, unknown specs"),
            pytest.param("void", an_inventory("void"), "void names no GPU", id="void"),
            pytest.param(
                "management.nvidia.com/gpu=all",
                an_inventory("GPU-a"),
                "management.nvidia.com/gpu=all is of another CDI kind and names no GPU UUID",
                id="the management device",
            ),
            pytest.param(
                "GPU-z",
                an_inventory(*(f"GPU-{number}" for number in range(9))),
                "GPU-z is in no CDI spec; known: GPU-0, GPU-1, GPU-2, GPU-3, GPU-4, GPU-5, GPU-6, GPU-7 and 1 more",
                id="many known",
            ),
        ],
    )
    def test_refused(self, devices: str, inventory: CdiInventory | None, fault: str) -> None:
        """A device that no spec has is refused before the runtime trips over it."""
        with pytest.raises(InvalidAnnotations) as caught:
            injection.plan(a_fraction(devices=devices), CDI, inventory, devices_key=KEY)

        accepted = "a GPU UUID" if inventory is None else "a device that the node's CDI specs list"
        assert (InvalidAnnotation(KEY, devices, f"is refused: {fault}", accepted),) == caught.value.problems

    def test_every_unusable_device_is_told(self) -> None:
        """A refusal names each device that cannot be had."""
        with pytest.raises(InvalidAnnotations) as caught:
            injection.plan(a_fraction(devices="GPU-x,GPU-a,7"), CDI, an_inventory("GPU-a"))

        assert ["GPU-x", "7"] == [problem.value for problem in caught.value.problems]


class TestUnknownGpus:
    """GPUs that the node does not have."""

    @pytest.mark.parametrize(
        ("devices", "live", "expected"),
        [
            pytest.param("GPU-old", frozenset({"GPU-new"}), ("GPU-old",), id="gone"),
            pytest.param("GPU-new,GPU-old", frozenset({"GPU-new"}), ("GPU-old",), id="one of two"),
            pytest.param("GPU-new", frozenset({"GPU-new"}), (), id="there"),
            pytest.param("GPU-old", frozenset[str](), ("GPU-old",), id="no GPU at all"),
            pytest.param("GPU-old", None, (), id="unknown inventory"),
            pytest.param(f"{KIND}=GPU-old", frozenset({"GPU-new"}), ("GPU-old",), id="CDI name"),
            pytest.param("MIG-old,0,all", frozenset({"GPU-new"}), (), id="nothing that names a whole GPU"),
        ],
    )
    def test_listed(self, devices: str, live: frozenset[str] | None, expected: tuple[str, ...]) -> None:
        """Whole GPUs named by UUID that are not on the node are listed."""
        assert expected == injection.unknown_gpus(a_fraction(devices=devices), live)


class TestDuplicated:
    """Variables whose second value would win over ours."""

    @pytest.mark.parametrize(
        ("env", "expected"),
        [
            pytest.param([], (), id="empty"),
            pytest.param(["NVIDIA_GPU_MEMORY_LIMIT=99999"], (), id="image only"),
            pytest.param(["NVIDIA_GPU_MEMORY_LIMIT"], (), id="bare once"),
            pytest.param(
                ["NVIDIA_GPU_MEMORY_LIMIT=99999", "A=1", "NVIDIA_GPU_MEMORY_LIMIT=88888"],
                ("NVIDIA_GPU_MEMORY_LIMIT",),
                id="image and pod",
            ),
            pytest.param(
                ["NVIDIA_GPU_MEMORY_LIMIT=1", "NVIDIA_GPU_MEMORY_LIMIT"],
                ("NVIDIA_GPU_MEMORY_LIMIT",),
                id="with and bare",
            ),
            pytest.param(
                ["NVIDIA_VISIBLE_DEVICES=void", "NVIDIA_GPU_MEMORY_REQUEST=1"] * 2,
                ("NVIDIA_GPU_MEMORY_REQUEST", "NVIDIA_VISIBLE_DEVICES"),
                id="two of them",
            ),
            pytest.param(["CUDA_MPS_PIPE_DIRECTORY=/x"] * 3, ("CUDA_MPS_PIPE_DIRECTORY",), id="three times"),
            pytest.param(["PATH=/bin", "PATH=/sbin"], (), id="another variable twice"),
            pytest.param(["NVIDIA_GPU_MEMORY_LIMITS=1", "NVIDIA_GPU_MEMORY_LIMIT=1"], (), id="a longer name"),
            pytest.param(["X=NVIDIA_GPU_MEMORY_LIMIT=1", "NVIDIA_GPU_MEMORY_LIMIT=1"], (), id="in a value"),
        ],
    )
    def test_listed(self, env: list[str], expected: tuple[str, ...]) -> None:
        """An enforced variable that a container holds more than once is listed."""
        assert expected == injection.duplicated(env)


class TestShadowingMounts:
    """Tenant mounts that would hide the MPS socket."""

    @pytest.mark.parametrize(
        ("theirs", "is_shadowing"),
        [
            pytest.param("/run/nvidia-mps", False, id="identical, which is replaced"),
            pytest.param("/run/nvidia-mps/", True, id="slash at the end"),
            pytest.param("//run/nvidia-mps", True, id="two slashes at the start"),
            pytest.param("/run//nvidia-mps", True, id="two slashes"),
            pytest.param("/run/./nvidia-mps", True, id="dot"),
            pytest.param("/run/x/../nvidia-mps", True, id="dot dot"),
            pytest.param("/../run/nvidia-mps", True, id="above the root"),
            pytest.param("run/nvidia-mps", True, id="relative"),
            pytest.param("/var/run/nvidia-mps", True, id="var run"),
            pytest.param("/run/nvidia-mps/control", True, id="the socket itself"),
            pytest.param("/var/run/nvidia-mps/x/y", True, id="further below"),
            pytest.param("/run/nvidia-mps2", False, id="a longer name"),
            pytest.param("/run", False, id="a parent, which is mounted first"),
            pytest.param("/", False, id="the root"),
            pytest.param("/data", False, id="elsewhere"),
            pytest.param("/data/run/nvidia-mps", False, id="the same names elsewhere"),
            pytest.param("/var/runner/nvidia-mps", False, id="not var run"),
        ],
    )
    def test_spellings(self, theirs: str, *, is_shadowing: bool) -> None:
        """Another spelling of our destination and anything below it is shadowing."""
        found = injection.shadowing_mounts(["/proc", theirs, "/sys"], "/run/nvidia-mps")

        assert ((theirs,) if is_shadowing else ()) == found

    @given(st.lists(st.sampled_from(["run", "nvidia-mps", "..", ".", "", "var", "x"]), max_size=12))
    def test_normalised_paths_are_plain(self, parts: list[str]) -> None:
        """A normalised path is absolute, has no odd part, and stays as it is."""
        path = injection.normalized("/".join(parts))

        assert not {"", ".", ".."} & set(path.split("/")[1:]) or path == "/"
        assert (True, path) == (path.startswith("/"), injection.normalized(path))


class TestDifferences:
    """What a container has against what it ought to have."""

    @pytest.mark.parametrize(
        ("mode", "devices", "options"),
        list(itertools.product(ComputeMode, ["", "GPU-a", "GPU-a,GPU-b"], [PLAIN, CDI, Options(pipe_dir="/srv/mps")])),
    )
    def test_what_creation_gives_passes(self, mode: ComputeMode, devices: str, options: Options) -> None:
        """Whatever a plan holds, a container that got it shows no difference."""
        planned = injection.plan(a_fraction(mode=mode, devices=devices), options, None)

        observed = as_observed(planned, env=("PATH=/bin",), mounts=(("proc", "/proc"),))

        assert () == injection.differences(planned, observed)

    def test_nothing_injected(self) -> None:
        """A container that slipped through lacks the three variables and the mount."""
        planned = injection.plan(a_fraction(), PLAIN, None)

        expected = (
            "env:NVIDIA_GPU_MEMORY_REQUEST missing",
            "env:NVIDIA_GPU_MEMORY_LIMIT missing",
            "env:CUDA_MPS_PIPE_DIRECTORY missing",
            "mount:/run/nvidia-mps:/run/nvidia-mps missing",
        )
        assert expected == injection.differences(planned, Observed(env=("PATH=/bin",), mounts=(("proc", "/proc"),)))

    @pytest.mark.parametrize("name", injection.ENFORCED_VARIABLES)
    def test_each_variable_counts(self, name: str) -> None:
        """Any one variable that is gone is a difference."""
        planned = injection.plan(a_fraction(devices="GPU-a"), PLAIN, None)
        whole = as_observed(planned)

        observed = Observed(tuple(entry for entry in whole.env if not entry.startswith(name)), whole.mounts)

        assert (f"env:{name} missing",) == injection.differences(planned, observed)

    @pytest.mark.parametrize(
        ("entries", "expected"),
        [
            pytest.param(["NVIDIA_GPU_MEMORY_LIMIT=9999"], ('is "9999", expected "4096"',), id="another value"),
            pytest.param(["NVIDIA_GPU_MEMORY_LIMIT="], ('is "", expected "4096"',), id="empty value"),
            pytest.param(["NVIDIA_GPU_MEMORY_LIMIT"], ('has no value, expected "4096"',), id="bare"),
            pytest.param(["NVIDIA_GPU_MEMORY_LIMIT=4096"] * 2, ("listed twice",), id="twice the same"),
            pytest.param(["NVIDIA_GPU_MEMORY_LIMIT=4096"] * 3, ("listed 3 times",), id="three times the same"),
            pytest.param(
                ["NVIDIA_GPU_MEMORY_LIMIT=4096", "NVIDIA_GPU_MEMORY_LIMIT=8"],
                ("listed twice", 'is "8", expected "4096"'),
                id="twice, and the last is another",
            ),
            pytest.param(["NVIDIA_GPU_MEMORY_LIMITS=4096"], ("missing",), id="a longer name"),
            pytest.param(["NVIDIA_GPU_MEMORY_LIMIT=\n"], ('is "\\n", expected "4096"',), id="escaped"),
        ],
    )
    def test_values(self, entries: list[str], expected: tuple[str, ...]) -> None:
        """Values are compared, not presence."""
        planned = injection.plan(a_fraction(), PLAIN, None)
        whole = as_observed(planned)
        rest = [entry for entry in whole.env if not entry.startswith("NVIDIA_GPU_MEMORY_LIMIT")]

        observed = Observed((*rest, *entries), whole.mounts)

        assert tuple(f"env:NVIDIA_GPU_MEMORY_LIMIT {text}" for text in expected) == injection.differences(
            planned, observed
        )

    @pytest.mark.parametrize(
        ("options", "last", "expected"),
        [
            pytest.param(CDI, "void", (), id="CDI spec says void"),
            pytest.param(CDI, "all", ("listed twice", 'is "all", expected "GPU-a"'), id="CDI, and somebody says all"),
            pytest.param(PLAIN, "void", ("listed twice", 'is "void", expected "GPU-a"'), id="void without CDI"),
        ],
    )
    def test_void_takes_the_place_of_visible_devices(
        self, options: Options, last: str, expected: tuple[str, ...]
    ) -> None:
        """Where the GPU comes from CDI, the `void` that CDI specs add is no difference; any other value is."""
        planned = injection.plan(a_fraction(devices="GPU-a"), options, None)
        whole = as_observed(planned)

        observed = Observed((*whole.env, f"NVIDIA_VISIBLE_DEVICES={last}"), whole.mounts, whole.cdi_devices)

        assert tuple(f"env:NVIDIA_VISIBLE_DEVICES {text}" for text in expected) == injection.differences(
            planned, observed
        )

    def test_own_devices_of_an_unassigned_container(self) -> None:
        """A variable for which there is nothing to inject is left alone."""
        planned = injection.plan(a_fraction(), PLAIN, None)

        assert () == injection.differences(planned, as_observed(planned, env=("NVIDIA_VISIBLE_DEVICES=all",)))

    @pytest.mark.parametrize(
        ("mode", "mounts", "expected"),
        [
            pytest.param(
                ComputeMode.TIME_SLICING,
                [("/home/evil", "/run/nvidia-mps")],
                ("mount:/run/nvidia-mps comes from /home/evil",),
                id="a foreign host path",
            ),
            pytest.param(
                ComputeMode.TIME_SLICING,
                [("/run/nvidia-mps/shared/default", "/run/nvidia-mps")],
                ("mount:/run/nvidia-mps comes from /run/nvidia-mps/shared/default",),
                id="time-slicing on the shared source",
            ),
            pytest.param(
                ComputeMode.SM_SHARING,
                [("/run/nvidia-mps", "/tmp/nvidia-mps")],
                ("mount:/tmp/nvidia-mps comes from /run/nvidia-mps",),
                id="sm-sharing on the plain socket",
            ),
            pytest.param(
                ComputeMode.SM_SHARING,
                [("/run/nvidia-mps", "/run/nvidia-mps")],
                ("mount:/run/nvidia-mps/shared/default:/tmp/nvidia-mps missing",),
                id="the other mode's mount",
            ),
            pytest.param(
                ComputeMode.TIME_SLICING,
                [("/run/nvidia-mps", "/run/nvidia-mps"), ("/evil", "/run/nvidia-mps")],
                ("mount:/run/nvidia-mps comes from /evil",),
                id="covered by a later mount",
            ),
            pytest.param(
                ComputeMode.TIME_SLICING,
                [("/run/nvidia-mps", "/run/nvidia-mps"), ("/evil", "/var/run//nvidia-mps/")],
                ("mount:/run/nvidia-mps comes from /evil",),
                id="covered under another spelling",
            ),
            pytest.param(
                ComputeMode.TIME_SLICING,
                [("/evil", "/run/nvidia-mps"), ("/run/nvidia-mps", "/run/nvidia-mps")],
                (),
                id="covering an earlier mount",
            ),
        ],
    )
    def test_mounts(self, mode: ComputeMode, mounts: list[tuple[str, str]], expected: tuple[str, ...]) -> None:
        """The last mount at the destination is the one that holds, and its source must be ours."""
        planned = injection.plan(a_fraction(mode=mode), PLAIN, None)

        observed = Observed(as_observed(planned).env, tuple(mounts))

        assert expected == injection.differences(planned, observed)

    @pytest.mark.parametrize(
        ("requested", "expected"),
        [
            pytest.param((), (f"cdi:{KIND}=GPU-a missing",), id="none"),
            pytest.param((f"{KIND}=GPU-b",), (f"cdi:{KIND}=GPU-a missing",), id="another"),
            pytest.param((f"{KIND}=GPU-a", f"{KIND}=GPU-b"), (), id="one more"),
            pytest.param(None, (), id="not visible"),
        ],
    )
    def test_cdi_devices(self, requested: tuple[str, ...] | None, expected: tuple[str, ...]) -> None:
        """A CDI device that is not requested is a difference, where the runtime tells."""
        planned = injection.plan(a_fraction(devices="GPU-a"), CDI, None)
        whole = as_observed(planned)

        observed = Observed(whole.env, whole.mounts, requested)

        assert expected == injection.differences(planned, observed)


class TestFenced:
    """Whether any limit is in force."""

    @pytest.mark.parametrize(
        ("env", "expected"),
        [
            pytest.param(("NVIDIA_GPU_MEMORY_LIMIT=1024",), True, id="a limit"),
            pytest.param(("NVIDIA_GPU_MEMORY_LIMIT=99999",), True, id="a wrong limit"),
            pytest.param(("PATH=/bin",), False, id="absent"),
            pytest.param(("NVIDIA_GPU_MEMORY_LIMIT",), False, id="bare"),
            pytest.param(("NVIDIA_GPU_MEMORY_LIMIT=",), False, id="empty"),
            pytest.param(("NVIDIA_GPU_MEMORY_REQUEST=1024",), False, id="request only"),
        ],
    )
    def test_limit(self, env: tuple[str, ...], *, expected: bool) -> None:
        """A container with a limit variable that has a value is fenced, be it with the wrong one."""
        assert expected == injection.fenced(Observed(env=env, mounts=()))
