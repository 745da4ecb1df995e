"""What a container gets, and what stands in its way."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs
import pytest
from fractiond import fencing
from fractiond.fencing import Assessor, Fenced, Inventory, Policy, Untouched, Unusable
from fractioning_core import names
from fractioning_core.fraction import ComputeMode
from fractioning_core.injection import CdiInventory, Injection, Mount, Options
from fractioning_core.podannotations import Grammar
from fractioning_core.testing.builders import a_fraction, annotations_for
from hypothesis import given, settings
from hypothesis import strategies as st

# On a busy machine the time of one example says nothing.
UNHURRIED = settings(deadline=None)

GPU_A, GPU_B = "GPU-aaaa", "GPU-bbbb"
LIMIT = names.ENV_MEMORY_LIMIT
REQUEST = names.ENV_MEMORY_REQUEST
PIPE = names.ENV_MPS_PIPE_DIRECTORY
VISIBLE = names.ENV_VISIBLE_DEVICES
STRICT = Policy(Grammar(), Options())
OPEN = Policy(Grammar(), Options(), fail_open=True)
WITH_CDI = Policy(Grammar(), Options(inject_cdi=True))
ONE_GIB = annotations_for(limit="1Gi")
DEVICES_KEY = "nvidia.com/container.main.gpus.devices"
LIMIT_KEY = "nvidia.com/container.main.gpu-memory.limit"

MergeEnv = Callable[[Iterable[str], Iterable[tuple[str, str]]], list[str]]


def assess(
    annotations: dict[str, str], *, policy: Policy = STRICT, inventory: Inventory | None = None
) -> fencing.Assessment:
    return fencing.assess(annotations, "main", policy=policy, inventory=inventory or Inventory())


def specs(*names_of_devices: str) -> Inventory:
    return Inventory(cdi=CdiInventory(frozenset(f"{names.CDI_GPU_KIND}={name}" for name in names_of_devices)))


class TestAssess:
    def test_a_container_without_memory_annotations_is_the_one_untouched_value(self) -> None:
        """An un-annotated container gives the shared constant, which handlers compare by identity."""
        assessment = assess({"other": "x"})

        assert assessment is fencing.UNTOUCHED

    def test_an_annotated_container_is_fenced_with_the_whole_plan(self) -> None:
        """Both memory bounds, the pipe and the devices come out as one value."""
        annotations = annotations_for(request="1Gi", limit="2Gi", devices=GPU_A)

        assert Fenced(
            a_fraction(request_mib=1024, limit_mib=2048, devices=GPU_A),
            Injection(
                env=((REQUEST, "1024"), (LIMIT, "2048"), (PIPE, "/run/nvidia-mps"), (VISIBLE, GPU_A)),
                mount=Mount("/run/nvidia-mps", "/run/nvidia-mps"),
            ),
        ) == assess(annotations)

    def test_sm_sharing_leads_to_the_shared_server(self) -> None:
        """An sm-sharing container finds the shared server's directory where CUDA looks by default."""
        assessment = assess(annotations_for(limit="1Gi", mode="sm-sharing"))

        assert isinstance(assessment, Fenced)
        assert ComputeMode.SM_SHARING is assessment.fraction.mode
        assert Mount("/run/nvidia-mps/shared/default", "/tmp/nvidia-mps") == assessment.injection.mount

    def test_several_mistakes_are_told_at_once(self) -> None:
        """Whoever wrote two bad annotations learns of both from one refusal."""
        assessment = assess(annotations_for(limit="16GB", mode="fast"))

        assert isinstance(assessment, Unusable)
        told = "; ".join(assessment.problems)
        assert 2 == len(assessment.problems)
        assert told.index("gpu-memory.limit") < told.index("gpu-compute.mode")


class TestFailOpen:
    def test_an_unusable_memory_bound_lets_the_container_pass(self) -> None:
        """Nothing is injected, and what was wrong is handed on for the log."""
        strict, tolerant = assess(annotations_for(limit="x")), assess(annotations_for(limit="x"), policy=OPEN)

        assert isinstance(strict, Unusable)
        assert Untouched(ignored=strict.problems) == tolerant

    def test_an_unusable_mode_falls_back_to_time_slicing_and_keeps_the_limit(self) -> None:
        """A typo in the mode does not cost the memory boundary."""
        assessment = assess(annotations_for(limit="1Gi", mode="fast"), policy=OPEN)

        assert isinstance(assessment, Fenced)
        assert a_fraction(request_mib=1024, limit_mib=1024) == assessment.fraction
        assert 1 == len(assessment.ignored)

    def test_unusable_devices_are_left_out_and_the_limit_kept(self) -> None:
        """A line break in the devices costs the devices alone."""
        assessment = assess(annotations_for(limit="1Gi", devices=f"{GPU_A}\nX=1"), policy=OPEN)

        assert isinstance(assessment, Fenced)
        assert VISIBLE not in dict(assessment.injection.env)

    def test_a_gpu_that_is_not_here_is_refused_all_the_same(self) -> None:
        """Fail-open covers typing mistakes, not a container that was sent to the wrong node."""
        inventory = Inventory(gpu_uuids=frozenset({GPU_B}))

        assessment = assess(annotations_for(limit="1Gi", devices=GPU_A), policy=OPEN, inventory=inventory)

        assert isinstance(assessment, Unusable)

    def test_a_device_in_no_cdi_spec_is_refused_with_what_was_passed_over(self) -> None:
        """The refusal names the typo as well, so that it can be mended in one go."""
        policy = attrs.evolve(WITH_CDI, fail_open=True)

        assessment = assess(
            annotations_for(limit="1Gi", mode="fast", devices=GPU_A), policy=policy, inventory=specs(GPU_B)
        )

        assert isinstance(assessment, Unusable)
        assert 2 == len(assessment.problems)


class TestGpusOfTheNode:
    def test_a_refusal_names_the_key_the_missing_gpu_and_those_here(self) -> None:
        """A UUID from before a card swap is told beside the one that took its place."""
        inventory = Inventory(gpu_uuids=frozenset({"GPU-new"}))

        assessment = assess(annotations_for(limit="1Gi", devices="GPU-new,GPU-old"), inventory=inventory)

        assert isinstance(assessment, Unusable)
        (problem,) = assessment.problems
        assert DEVICES_KEY in problem
        assert "GPU-old is not on this node" in problem
        assert "(GPU-new)" in problem

    def test_an_unknown_inventory_refuses_nothing(self) -> None:
        """A node whose driver files do not read takes the scheduler's word."""
        assessment = assess(annotations_for(limit="1Gi", devices="GPU-old"), inventory=Inventory(gpu_uuids=None))

        assert isinstance(assessment, Fenced)

    @pytest.mark.parametrize(
        "devices",
        [
            pytest.param("0", id="index"),
            pytest.param("all", id="all"),
            pytest.param(f"k8s.device-plugin.nvidia.com/gpu={GPU_B}", id="CDI name of a GPU that is here"),
            pytest.param("MIG-1234", id="MIG slice"),
            pytest.param("void", id="word that is no device"),
        ],
    )
    def test_only_uuids_of_whole_gpus_are_looked_up(self, devices: str) -> None:
        """What names no whole GPU by UUID is not compared with the list of GPUs."""
        inventory = Inventory(gpu_uuids=frozenset({GPU_B}))

        assessment = assess(annotations_for(limit="1Gi", devices=devices), inventory=inventory)

        assert isinstance(assessment, Fenced)

    def test_a_uuid_inside_a_cdi_name_is_looked_up(self) -> None:
        """A CDI name does not smuggle a GPU of another node past the check."""
        inventory = Inventory(gpu_uuids=frozenset({GPU_B}))

        assessment = assess(
            annotations_for(limit="1Gi", devices=f"k8s.device-plugin.nvidia.com/gpu={GPU_A}"), inventory=inventory
        )

        assert isinstance(assessment, Unusable)

    def test_the_text_of_a_refusal_stays_short_and_plain(self) -> None:
        """A UUID made up to fill or break a line is cut and escaped in the refusal."""
        devices = f'GPU-{"x" * 9000},GPU-\u202e"evil'
        inventory = Inventory(gpu_uuids=frozenset({GPU_B}))

        assessment = assess(annotations_for(limit="1Gi", devices=devices), inventory=inventory)

        assert isinstance(assessment, Unusable)
        (problem,) = assessment.problems
        assert len(problem) < 1000
        assert problem.isascii()

    def test_a_crowd_of_missing_gpus_is_cut(self) -> None:
        """A list of over a thousand wrong UUIDs does not become a line of sixteen kilobytes."""
        devices = ",".join(f"GPU-{number:08x}" for number in range(1200))
        inventory = Inventory(gpu_uuids=frozenset({GPU_B}))

        assessment = assess(annotations_for(limit="1Gi", devices=devices), inventory=inventory)

        assert isinstance(assessment, Unusable)
        assert len(assessment.problems[0]) < 1000


class TestCdi:
    @pytest.mark.parametrize(
        ("devices", "listed", "expected"),
        [
            pytest.param(GPU_A, (GPU_A, GPU_B), (GPU_A,), id="UUID that is listed"),
            pytest.param("all", (GPU_A, GPU_B), (GPU_A, GPU_B), id="all expands to every UUID"),
            pytest.param("all", ("all", GPU_A), (GPU_A,), id="all prefers the single devices"),
            pytest.param("1", ("0", "1"), ("1",), id="index that is listed"),
            pytest.param(f"{GPU_A},{GPU_A}", (GPU_A,), (GPU_A,), id="twice the same is once"),
        ],
    )
    def test_devices_are_requested_by_listed_names(
        self, devices: str, listed: tuple[str, ...], expected: tuple[str, ...]
    ) -> None:
        """Each assigned GPU becomes a CDI device that a spec of the node lists."""
        assessment = assess(annotations_for(limit="1Gi", devices=devices), policy=WITH_CDI, inventory=specs(*listed))

        assert isinstance(assessment, Fenced)
        assert tuple(f"{names.CDI_GPU_KIND}={name}" for name in expected) == assessment.injection.cdi_devices

    @pytest.mark.parametrize(
        "devices",
        [
            pytest.param(GPU_A, id="UUID in no spec"),
            pytest.param("0", id="index where specs list UUIDs"),
            pytest.param("management.nvidia.com/gpu=all", id="kind that would give every GPU"),
            pytest.param("nvidia.com/gpu=all", id="all of another kind"),
            pytest.param("void", id="word that is no device"),
        ],
    )
    def test_what_no_spec_lists_is_refused_naming_the_annotation(self, devices: str) -> None:
        """The user reads the key and what is known here, not the runtime's unresolvable device."""
        assessment = assess(annotations_for(limit="1Gi", devices=devices), policy=WITH_CDI, inventory=specs(GPU_B))

        assert isinstance(assessment, Unusable)
        assert DEVICES_KEY in assessment.problems[0]

    def test_all_is_never_requested_where_no_spec_lists_it(self) -> None:
        """The device plugin's kind has no `all`, so it is refused where nothing is listed."""
        assessment = assess(annotations_for(limit="1Gi", devices="all"), policy=WITH_CDI, inventory=specs())

        assert isinstance(assessment, Unusable)

    def test_a_uuid_is_taken_on_trust_where_specs_do_not_read(self) -> None:
        """An unreadable spec directory refuses no container that names its GPU."""
        assessment = assess(annotations_for(limit="1Gi", devices=GPU_A), policy=WITH_CDI)

        assert isinstance(assessment, Fenced)
        assert (f"{names.CDI_GPU_KIND}={GPU_A}",) == assessment.injection.cdi_devices


class TestAssessor:
    def test_it_asks_with_the_nodes_latest_inventory(self) -> None:
        """A reading that changes between two questions changes the answer."""

        class Node:
            current = Inventory(gpu_uuids=frozenset({GPU_B}))

            def doubt(self) -> None:
                """Nothing to renew."""

        node, annotations = Node(), annotations_for(limit="1Gi", devices=GPU_A)
        assessor = Assessor(STRICT, node)
        before = assessor.assess(annotations, "main")
        node.current = Inventory(gpu_uuids=frozenset({GPU_A}))

        assert [Unusable, Fenced] == [type(before), type(assessor.assess(annotations, "main"))]


@attrs.frozen
class Attack:
    """What a tenant writes into a pod, or bakes into an image."""

    annotations: dict[str, str] = attrs.field(factory=lambda: ONE_GIB)
    env: tuple[str, ...] = ()
    mounts: tuple[str, ...] = ()
    container: str = "main"
    policy: Policy = STRICT

    def assessment(self) -> fencing.Assessment:
        """Decide what the container gets."""
        return fencing.assess(self.annotations, self.container, policy=self.policy, inventory=Inventory())

    def problems(self) -> tuple[str, ...]:
        """Give what creation refuses the container for; nothing where it does not."""
        match self.assessment():
            case Fenced(injection=planned):
                return fencing.obstacles(planned, env=self.env, destinations=self.mounts)
            case Unusable(problems=problems):
                return problems
            case _:
                return ()


def limit(text: str) -> Attack:
    return Attack(annotations_for(limit=text))


def devices(text: str, *, env: tuple[str, ...] = ()) -> Attack:
    return Attack(annotations_for(limit="1Gi", devices=text), env=env)


def mode(text: str, *, policy: Policy = STRICT) -> Attack:
    return Attack(annotations_for(limit="1Gi", mode=text), policy=policy)


def mounted(path: str, compute_mode: str = "time-slicing") -> Attack:
    return Attack(annotations_for(limit="1Gi", mode=compute_mode), mounts=("/data", path))


LONG_NAME = "m" * 253

REFUSED = [
    pytest.param(Attack(env=(f"{LIMIT}=1", f"{LIMIT}=2")), LIMIT, id="variable listed twice in the pod"),
    pytest.param(Attack(env=(f"{LIMIT}=9", "PATH=/", f"{LIMIT}=8")), LIMIT, id="variable in image and pod"),
    pytest.param(Attack(env=(f"{LIMIT}=1024",) * 2), LIMIT, id="variable twice with the right value"),
    pytest.param(Attack(env=(f"{LIMIT}=1",) * 3), LIMIT, id="variable three times"),
    pytest.param(Attack(env=(LIMIT, f"{LIMIT}=9")), LIMIT, id="bare key, then valued"),
    pytest.param(Attack(env=(f"{LIMIT}=9", LIMIT)), LIMIT, id="valued, then bare key"),
    pytest.param(Attack(env=(f"{LIMIT}=", f"{LIMIT}=9")), LIMIT, id="empty, then valued"),
    pytest.param(Attack(env=(f"{REQUEST}=1", f"{REQUEST}=2")), REQUEST, id="request twice"),
    pytest.param(Attack(env=(f"{PIPE}=/a", f"{PIPE}=/b")), PIPE, id="pipe directory twice"),
    pytest.param(devices(GPU_A, env=(f"{VISIBLE}=all", f"{VISIBLE}=void")), VISIBLE, id="visible devices twice"),
    pytest.param(mounted("/run/nvidia-mps/"), "/run/nvidia-mps/", id="mount with a slash at the end"),
    pytest.param(mounted("/run//nvidia-mps"), "/run//nvidia-mps", id="mount with a double slash"),
    pytest.param(mounted("/var/run/nvidia-mps"), "/var/run/nvidia-mps", id="mount by way of /var/run"),
    pytest.param(mounted("/run/nvidia-mps/control"), "/run/nvidia-mps/control", id="mount over the socket"),
    pytest.param(mounted("/run/x/../nvidia-mps"), "/run/x/../nvidia-mps", id="mount with two dots"),
    pytest.param(mounted("/run/./nvidia-mps"), "/run/./nvidia-mps", id="mount with one dot"),
    pytest.param(mounted("run/nvidia-mps"), "run/nvidia-mps", id="relative mount, which runtimes take from the root"),
    pytest.param(mounted("/../run/nvidia-mps"), "/../run/nvidia-mps", id="mount that climbs above the root"),
    pytest.param(mounted("/tmp/nvidia-mps/log", "sm-sharing"), "/tmp/nvidia-mps/log", id="mount below, sm-sharing"),
    pytest.param(mounted("/run/nvidia-mps/\nforged"), "/run/nvidia-mps/\\nforged", id="mount with a line break"),
    pytest.param(mounted("/run/nvidia-mps/" + "x" * 5000), "/run/nvidia-mps/xxx", id="mount of 5000 characters"),
    pytest.param(devices(f"{GPU_A}\nLD_PRELOAD=/x"), DEVICES_KEY, id="line break in devices"),
    pytest.param(devices(f"{GPU_A}\rX"), DEVICES_KEY, id="carriage return in devices"),
    pytest.param(devices(f"{GPU_A}\x00LD_PRELOAD=/x"), DEVICES_KEY, id="NUL in devices"),
    pytest.param(devices(f"{GPU_A}\u2028X"), DEVICES_KEY, id="unicode line separator in devices"),
    pytest.param(devices(f"{GPU_A}\x1b[2J"), DEVICES_KEY, id="terminal escape in devices"),
    pytest.param(devices("GPU-a," * 5000), DEVICES_KEY, id="devices of 30,000 characters"),
    pytest.param(limit(""), LIMIT_KEY, id="empty quantity"),
    pytest.param(limit("-1Gi"), LIMIT_KEY, id="negative quantity"),
    pytest.param(limit("0"), LIMIT_KEY, id="zero"),
    pytest.param(limit("4096"), LIMIT_KEY, id="bytes where MiB were meant"),
    pytest.param(limit("1e999999999"), LIMIT_KEY, id="exponent that would fill the memory"),
    pytest.param(limit("1e-999999999"), LIMIT_KEY, id="exponent that would fill it downwards"),
    pytest.param(limit("9" * 10_000_000), LIMIT_KEY, id="ten megabytes of digits"),
    pytest.param(limit("x" * 10_000_000), LIMIT_KEY, id="ten megabytes of text"),
    pytest.param(limit("\uff11Gi"), LIMIT_KEY, id="full-width digit"),
    pytest.param(limit("\u0663Gi"), LIMIT_KEY, id="Arabic digit"),
    pytest.param(limit("1_000Mi"), LIMIT_KEY, id="digits as Python writes them"),
    pytest.param(limit("0x40000000"), LIMIT_KEY, id="hexadecimal"),
    pytest.param(limit("NaN"), LIMIT_KEY, id="not a number"),
    pytest.param(limit("Inf"), LIMIT_KEY, id="infinity"),
    pytest.param(limit(" 1Gi"), LIMIT_KEY, id="space in front"),
    pytest.param(limit("1Gi\n"), LIMIT_KEY, id="line break behind"),
    pytest.param(limit("1Gi\x00"), LIMIT_KEY, id="NUL behind"),
    pytest.param(limit("16Ei"), LIMIT_KEY, id="more than 2^63 bytes"),
    pytest.param(Attack(annotations_for(request="2Gi", limit="1Gi")), LIMIT_KEY, id="limit below the request"),
    pytest.param(mode("SM-SHARING"), "gpu-compute.mode", id="mode in capitals"),
    pytest.param(mode(""), "gpu-compute.mode", id="empty mode"),
    pytest.param(mode("sm-sharing\x00"), "gpu-compute.mode", id="NUL behind the mode"),
    pytest.param(
        mode("sm-sharing", policy=Policy(Grammar(sm_sharing=False), Options())),
        "gpu-compute.mode",
        id="sm-sharing where it is off",
    ),
]

FENCED = [
    pytest.param(Attack(env=(f"{LIMIT}=99999",)), [], id="limit in the image or the pod"),
    pytest.param(Attack(env=(f"{LIMIT}=1024",)), [], id="limit there already"),
    pytest.param(Attack(env=(LIMIT,)), [], id="bare key"),
    pytest.param(Attack(env=(f"{LIMIT}=",)), [], id="emptied limit"),
    pytest.param(Attack(env=(f"{PIPE}=/my/own/mps",)), [], id="own pipe directory"),
    pytest.param(
        Attack(env=("nvidia_gpu_memory_limit=9",)), ["nvidia_gpu_memory_limit=9"], id="lower case, which nobody reads"
    ),
    pytest.param(Attack(env=(f"{LIMIT} =9",)), [f"{LIMIT} =9"], id="trailing space in the key"),
    pytest.param(Attack(env=(f" {LIMIT}=9",)), [f" {LIMIT}=9"], id="leading space in the key"),
    pytest.param(Attack(env=(f"{LIMIT}S=9", f"{LIMIT}S=8")), [f"{LIMIT}S=8"], id="plural spelling, twice"),
    pytest.param(Attack(env=(f"X={LIMIT}=9", f"Y={LIMIT}=9")), [f"X={LIMIT}=9", f"Y={LIMIT}=9"], id="key in values"),
    pytest.param(Attack(env=(f"={LIMIT}=9",)), [], id="nameless variable, which runtimes drop"),
    pytest.param(Attack(env=("A=1", "A=2", "B")), ["A=2"], id="other variables twice or bare"),
    pytest.param(
        Attack(env=(f"{VISIBLE}=all", f"{VISIBLE}=void")),
        [f"{VISIBLE}=void"],
        id="visible devices twice where none are assigned",
    ),
    pytest.param(devices(GPU_A, env=(f"{VISIBLE}=all",)), [], id="visible devices in the image"),
    pytest.param(devices("all,all"), [], id="all twice, as written"),
    pytest.param(devices("GPU-a, GPU-a"), [], id="one GPU twice, as written"),
    pytest.param(devices(f"{VISIBLE}=all"), [], id="devices that look like a variable"),
    pytest.param(devices(" \t"), [], id="blank devices"),
    pytest.param(mounted("/run/nvidia-mps"), [], id="mount at the very place, which ours replaces"),
    pytest.param(mounted("/run/nvidia-mps2"), [], id="mount beside"),
    pytest.param(mounted("/run"), [], id="mount above, under which ours comes later"),
    pytest.param(mounted("/tmp/nvidia-mps"), [], id="mount where the other mode would be"),
    pytest.param(Attack(annotations_for(LONG_NAME, limit="1Gi"), container=LONG_NAME), [], id="name of 253 characters"),
    pytest.param(limit("+1Gi"), [], id="plus sign, as Kubernetes allows"),
    pytest.param(limit("1024000000000m"), [], id="thousandths of bytes"),
]

UNTOUCHED = [
    pytest.param(Attack(annotations_for("main2", limit="1Gi")), id="sibling whose name is longer"),
    pytest.param(Attack(annotations_for("mai", limit="1Gi")), id="sibling whose name is shorter"),
    pytest.param(Attack(annotations_for("prep", limit="1Gi")), id="annotated init container beside"),
    pytest.param(Attack(annotations_for("MAIN", limit="1Gi")), id="name in capitals"),
    pytest.param(Attack({f"{LIMIT_KEY} ": "1Gi"}), id="trailing space in the annotation"),
    pytest.param(Attack({LIMIT_KEY.upper(): "1Gi"}), id="annotation in capitals"),
    pytest.param(Attack({"nvidia.com/container.main.gpu-memory.limits": "1Gi"}), id="plural annotation"),
    pytest.param(Attack(annotations_for(limit="1Gi", prefix="example.com/")), id="foreign prefix"),
    pytest.param(Attack(annotations_for(mode="sm-sharing", devices="all")), id="mode and devices alone"),
    pytest.param(Attack(annotations_for(devices="a\nb")), id="bad devices alone"),
    pytest.param(Attack({}, env=(f"{LIMIT}=1", f"{LIMIT}=2")), id="variables twice without annotations"),
    pytest.param(Attack(annotations_for(LONG_NAME, limit="1Gi"), container=LONG_NAME[:-1]), id="252 of 253 characters"),
]


class TestAttacksOfATenant:
    @pytest.mark.parametrize(("attack", "named"), REFUSED)
    def test_what_cannot_be_fenced_is_refused_naming_it(self, attack: Attack, named: str) -> None:
        """One problem in one short line of plain text names the key, the variable or the mount."""
        (problem,) = attack.problems()

        assert named in problem
        assert problem.isascii()
        assert problem.isprintable()
        assert len(problem) < 1000

    @pytest.mark.parametrize(("attack", "kept"), FENCED)
    def test_what_is_fenced_has_exactly_what_is_annotated(
        self, attack: Attack, kept: list[str], merge_env: MergeEnv
    ) -> None:
        """After the runtime's merge each variable of ours is there once with our value, and the rest as it was."""
        assessment = attack.assessment()

        assert isinstance(assessment, Fenced)
        planned = assessment.injection
        assert () == attack.problems()
        assert sorted([*kept, *(f"{key}={value}" for key, value in planned.env)]) == sorted(
            merge_env(attack.env, planned.env)
        )
        assert attack.annotations.get(DEVICES_KEY, "").strip() == dict(planned.env).get(VISIBLE, "")

    @pytest.mark.parametrize("attack", UNTOUCHED)
    def test_what_is_not_annotated_for_this_very_name_is_untouched(self, attack: Attack) -> None:
        """No near miss of a key makes a container fractional, or refuses it."""
        assert fencing.UNTOUCHED is attack.assessment()

    KEYS = st.sampled_from(
        (LIMIT, REQUEST, PIPE, VISIBLE, LIMIT.lower(), f"{LIMIT}S", f"{LIMIT} ", "", "A", f"-{LIMIT}")
    )
    VARIABLES = st.builds("".join, st.tuples(KEYS, st.sampled_from(("", "=", "=9", f"={LIMIT}=9"))))

    @UNHURRIED
    @given(env=st.lists(VARIABLES, max_size=6), assigned=st.sampled_from(("", GPU_A)))
    def test_no_environment_is_let_through_with_another_value(
        self, env: list[str], assigned: str, merge_env: MergeEnv
    ) -> None:
        """Whatever a container lists, it is refused or ends with every value of ours in force."""
        attack = devices(assigned, env=tuple(env))
        assessment = attack.assessment()

        assert isinstance(assessment, Fenced)
        after = [entry.partition("=") for entry in merge_env(env, assessment.injection.env)]
        in_force = tuple((key, value) for key, _, value in after if key in dict(assessment.injection.env))
        assert bool(attack.problems()) or sorted(assessment.injection.env) == sorted(in_force)

    @UNHURRIED
    @given(env=st.lists(VARIABLES, max_size=6))
    def test_no_harmless_environment_is_refused(self, env: list[str], merge_env: MergeEnv) -> None:
        """Where the runtime's merge could not lose a value of ours, nothing is refused."""
        attack = Attack(env=tuple(env))
        assessment = attack.assessment()

        assert isinstance(assessment, Fenced)
        listed = [entry.partition("=")[0] for entry in env]
        lost = [key for key, _ in assessment.injection.env if listed.count(key) > 1]
        assert len(lost) == len(attack.problems())


class TestObstacles:
    def test_every_obstacle_is_told(self) -> None:
        """Two variables and one mount in the way give three lines, variables first."""
        attack = Attack(env=(f"{LIMIT}=1", f"{LIMIT}=2", PIPE, PIPE), mounts=("/var/run/nvidia-mps",))

        told = attack.problems()

        assert [LIMIT, PIPE, "/var/run/nvidia-mps"] == [
            next(name for name in (LIMIT, PIPE, "/var/run/nvidia-mps") if name in problem) for problem in told
        ]

    def test_a_crowd_of_mounts_is_cut(self) -> None:
        """A thousand mounts below the pipe directory do not become a refusal of a hundred kilobytes."""
        attack = Attack(mounts=tuple(f"/run/nvidia-mps/{number}" for number in range(1000)))

        assert len("; ".join(attack.problems())) < 2500

    def test_the_advice_tells_how_to_mend_it(self) -> None:
        """The line about a variable says where it may come from and what is accepted."""
        (problem,) = Attack(env=(f"{LIMIT}=1", f"{LIMIT}=2")).problems()

        assert "image and pod" in problem
        assert "at most once" in problem
