"""Does a container have what creation would inject today?"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import pytest
from fractiond import audit, fencing, wire
from fractiond.audit import Kind, Violation
from fractiond.fencing import Assessment, Fenced, Inventory, Policy, Untouched, Unusable
from fractiond.wire import Subject
from fractioning_core import names
from fractioning_core.injection import CdiInventory, Injection, Observed, Options
from fractioning_core.podannotations import Grammar
from fractioning_core.testing.builders import annotations_for
from hypothesis import given, settings
from hypothesis import strategies as st
from nri_aio.pb import nri_pb2 as pb

# On a busy machine the time of one example says nothing.
UNHURRIED = settings(deadline=None)

LIMIT, REQUEST = names.ENV_MEMORY_LIMIT, names.ENV_MEMORY_REQUEST
PIPE, VISIBLE = names.ENV_MPS_PIPE_DIRECTORY, names.ENV_VISIBLE_DEVICES
PIPE_DIR = "/run/nvidia-mps"
SHARED = f"{PIPE_DIR}/shared/default"
GPU_A, GPU_B = "GPU-aaaa", "GPU-bbbb"
SUBJECT = Subject("team-a", "job-1", "uid-1", "main", "c1")
INVENTORY = Inventory(
    gpu_uuids=frozenset({GPU_A, GPU_B}),
    cdi=CdiInventory(frozenset(f"{names.CDI_GPU_KIND}={gpu}" for gpu in (GPU_A, GPU_B))),
)

Merge = Callable[[pb.Container, pb.ContainerAdjustment], pb.Container]


def assess(
    *,
    limit: str = "1Gi",
    mode: str | None = None,
    devices: str | None = None,
    fail_open: bool = False,
    sm_sharing: bool = True,
    cdi: bool = False,
) -> Assessment:
    policy = Policy(Grammar(sm_sharing=sm_sharing), Options(inject_cdi=cdi), fail_open=fail_open)
    annotations = annotations_for(limit=limit, mode=mode, devices=devices)
    return fencing.assess(annotations, "main", policy=policy, inventory=INVENTORY)


def judge(observed: Observed, assessment: Assessment) -> Violation | None:
    return audit.judge(SUBJECT, observed, assessment, pipe_dir=PIPE_DIR)


def planned(assessment: Assessment) -> Injection:
    assert isinstance(assessment, Fenced)
    return assessment.injection


def having(injection: Injection) -> Observed:
    """Give a container that has exactly what was injected, among things of its own."""
    return Observed(
        env=("PATH=/bin", *(f"{key}={value}" for key, value in injection.env), "HOME=/"),
        mounts=(("proc", "/proc"), (injection.mount.source, injection.mount.destination)),
        cdi_devices=injection.cdi_devices or None,
    )


NOTHING = Observed(env=("PATH=/bin",), mounts=(("proc", "/proc"),))


class TestAFencedContainer:
    @pytest.mark.parametrize(
        "assessment",
        [
            pytest.param(assess(), id="time-slicing"),
            pytest.param(assess(mode="sm-sharing"), id="sm-sharing"),
            pytest.param(assess(devices="all"), id="with devices"),
            pytest.param(assess(mode="fast", fail_open=True), id="mode typo let pass as time-slicing"),
        ],
    )
    def test_what_creation_injects_is_no_violation(self, assessment: Assessment) -> None:
        """A container that has all of the plan is left alone."""
        assert judge(having(planned(assessment)), assessment) is None


class TestAnUntouchedContainer:
    @pytest.mark.parametrize(
        "assessment",
        [
            pytest.param(fencing.UNTOUCHED, id="not annotated"),
            pytest.param(Untouched(ignored=("bad",)), id="let pass by fail-open"),
        ],
    )
    def test_it_is_never_judged(self, assessment: Assessment) -> None:
        """Creation would give it nothing, so it lacks nothing."""
        assert judge(NOTHING, assessment) is None


class TestAnUnfencedContainer:
    def test_everything_missing_is_told_in_the_order_of_injection(self) -> None:
        """A container that slipped through lacks each variable and the mount."""
        assert Violation(
            SUBJECT,
            Kind.UNFENCED,
            (
                f"env:{REQUEST} missing",
                f"env:{LIMIT} missing",
                f"env:{PIPE} missing",
                f"mount:{PIPE_DIR}:{PIPE_DIR} missing",
            ),
        ) == judge(NOTHING, assess())

    @pytest.mark.parametrize(
        "entry",
        [pytest.param(LIMIT, id="bare key"), pytest.param(f"{LIMIT}=", id="empty value")],
    )
    def test_a_limit_without_a_value_is_no_limit(self, entry: str) -> None:
        """The driver's hook enforces nothing then, so the container counts as unfenced."""
        violation = judge(Observed(env=(entry,), mounts=()), assess())

        assert violation is not None
        assert Kind.UNFENCED is violation.kind


class TestADifferentContainer:
    @pytest.mark.parametrize(
        ("change", "reason"),
        [
            pytest.param(
                (f"{LIMIT}=1024", f"{LIMIT}=2048"), f'env:{LIMIT} is "2048", expected "1024"', id="other limit"
            ),
            pytest.param(
                (f"{REQUEST}=1024", f"{REQUEST}=1"), f'env:{REQUEST} is "1", expected "1024"', id="other request"
            ),
            pytest.param(
                (f"{PIPE}={PIPE_DIR}", f"{PIPE}=/x"), f'env:{PIPE} is "/x", expected "{PIPE_DIR}"', id="other pipe"
            ),
            pytest.param(
                (f"{VISIBLE}={GPU_A}", f"{VISIBLE}=all"), f'env:{VISIBLE} is "all", expected "{GPU_A}"', id="all GPUs"
            ),
            pytest.param((f"{VISIBLE}={GPU_A}", "X=1"), f"env:{VISIBLE} missing", id="devices missing"),
            pytest.param((f"{REQUEST}=1024", "X=1"), f"env:{REQUEST} missing", id="request missing"),
            pytest.param(
                (f"{PIPE}={PIPE_DIR}", PIPE), f'env:{PIPE} has no value, expected "{PIPE_DIR}"', id="bare pipe"
            ),
        ],
    )
    def test_a_limit_of_its_own_makes_it_different_rather_than_unfenced(
        self, change: tuple[str, str], reason: str
    ) -> None:
        """Values are compared: a limit is in force, but something is not as injected."""
        assessment = assess(devices=GPU_A)
        right = having(planned(assessment))
        env = tuple(change[1] if entry == change[0] else entry for entry in right.env)

        assert Violation(SUBJECT, Kind.DIFFERENT, (reason,)) == judge(attrs.evolve(right, env=env), assessment)

    @pytest.mark.parametrize(
        ("mode", "mount", "reason"),
        [
            pytest.param("time-slicing", None, f"mount:{PIPE_DIR}:{PIPE_DIR} missing", id="no mount"),
            pytest.param(
                "time-slicing", ("/evil", PIPE_DIR), f"mount:{PIPE_DIR} comes from /evil", id="foreign source"
            ),
            pytest.param(
                "time-slicing",
                (SHARED, PIPE_DIR),
                f"mount:{PIPE_DIR} comes from {SHARED}",
                id="the shared server's socket",
            ),
            pytest.param(
                "sm-sharing",
                (PIPE_DIR, "/tmp/nvidia-mps"),
                f"mount:/tmp/nvidia-mps comes from {PIPE_DIR}",
                id="the plain socket",
            ),
            pytest.param(
                "sm-sharing", (SHARED, "/elsewhere"), f"mount:{SHARED}:/tmp/nvidia-mps missing", id="another place"
            ),
        ],
    )
    def test_the_mount_is_the_modes_own(self, mode: str, mount: tuple[str, str] | None, reason: str) -> None:
        """Right variables with no mount, or another one, are not what creation would give."""
        assessment = assess(mode=mode)
        observed = attrs.evolve(having(planned(assessment)), mounts=(mount,) if mount else ())

        # Variables alone anybody can set; a plugin's mount at a plugin's place only a plugin.
        is_ours = mount in {(SHARED, PIPE_DIR), (PIPE_DIR, "/tmp/nvidia-mps")}
        kind = Kind.DIFFERENT if is_ours else Kind.UNFENCED
        assert Violation(SUBJECT, kind, (reason,)) == judge(observed, assessment)

    def test_a_mount_over_the_pipe_is_a_violation(self) -> None:
        """A mount below ours hides the socket, though all that was injected is there."""
        assessment = assess()
        right = having(planned(assessment))
        hidden = attrs.evolve(right, mounts=(*right.mounts, ("/x", f"{PIPE_DIR}/control\n")))

        assert Violation(SUBJECT, Kind.DIFFERENT, (f"mount:{PIPE_DIR}/control\\n hides the pipe",)) == judge(
            hidden, assessment
        )

    def test_annotations_that_were_edited_later_are_compared_as_they_are_now(self) -> None:
        """A container with yesterday's limit differs from what creation would inject today."""
        violation = judge(having(planned(assess(limit="2Gi"))), assess(limit="1Gi"))

        assert violation is not None
        assert (
            f'env:{REQUEST} is "2048", expected "1024"',
            f'env:{LIMIT} is "2048", expected "1024"',
        ) == violation.reasons

    def test_a_missing_cdi_device_counts_where_devices_are_shown(self) -> None:
        """Of two requested devices the one that is missing is named."""
        assessment = assess(devices="all", cdi=True)
        observed = attrs.evolve(having(planned(assessment)), cdi_devices=(f"{names.CDI_GPU_KIND}={GPU_A}",))

        assert Violation(SUBJECT, Kind.DIFFERENT, (f"cdi:{names.CDI_GPU_KIND}={GPU_B} missing",)) == judge(
            observed, assessment
        )

    def test_cdi_devices_that_are_not_shown_are_not_missed(self) -> None:
        """A runtime that reports no CDI devices makes no violator of every container."""
        assessment = assess(devices="all", cdi=True)

        assert judge(attrs.evolve(having(planned(assessment)), cdi_devices=None), assessment) is None


class TestAContainerThatCreationWouldRefuse:
    REFUSED = assess(limit="x")

    @pytest.mark.parametrize(
        ("observed", "kind"),
        [
            pytest.param(NOTHING, Kind.UNFENCED, id="with nothing of ours"),
            pytest.param(having(planned(assess())), Kind.TOLERATED, id="with the time-slicing pipe"),
            pytest.param(having(planned(assess(mode="sm-sharing"))), Kind.TOLERATED, id="with the sm-sharing pipe"),
            pytest.param(
                Observed(env=(f"{LIMIT}=1024",), mounts=()), Kind.UNFENCED, id="with variables anyone could write"
            ),
            pytest.param(
                Observed(env=(), mounts=((f"{PIPE_DIR}-mine", PIPE_DIR),)), Kind.UNFENCED, id="with a directory beside"
            ),
            pytest.param(
                Observed(env=(), mounts=(("/mine", PIPE_DIR),)), Kind.UNFENCED, id="with another directory at our place"
            ),
        ],
    )
    def test_only_one_that_carries_our_pipe_is_tolerated(self, observed: Observed, kind: Kind) -> None:
        """The host's pipe directory is what only a plugin can bind in, so it tells who was fenced once."""
        assert isinstance(self.REFUSED, Unusable)

        assert Violation(SUBJECT, kind, self.REFUSED.problems) == judge(observed, self.REFUSED)

    def test_sm_sharing_that_was_switched_off_does_not_stop_who_has_it(self) -> None:
        """A stricter setting is told, and turns into no outage."""
        violation = judge(having(planned(assess(mode="sm-sharing"))), assess(mode="sm-sharing", sm_sharing=False))

        assert violation is not None
        assert Kind.TOLERATED is violation.kind


MODES = st.sampled_from((None, "time-slicing", "sm-sharing"))
DEVICES = st.sampled_from((None, GPU_A, f"{GPU_A},{GPU_B}", "all", f"{names.CDI_GPU_KIND}={GPU_A},{GPU_B}"))
OWN_ENV = st.lists(
    st.sampled_from(("PATH=/bin", "BARE", LIMIT, f"{VISIBLE}=void", f"{PIPE}=/x", "A=1", f"{REQUEST}=7")),
    unique_by=lambda entry: entry.partition("=")[0],
)


@st.composite
def round_trips(draw: st.DrawFn) -> tuple[Assessment, pb.Container]:
    """Draw what creation decides, and a container of the tenant's before it."""
    assessment = assess(mode=draw(MODES), devices=draw(DEVICES), cdi=draw(st.booleans()))
    own_mounts = draw(st.sampled_from(([], [pb.Mount(source="/mine", destination=PIPE_DIR)])))
    return assessment, pb.Container(id="c1", name="main", env=draw(OWN_ENV), mounts=own_mounts)


class TestARoundTrip:
    @UNHURRIED
    @given(trip=round_trips())
    def test_what_creation_injects_the_audit_accepts(self, trip: tuple[Assessment, pb.Container], merge: Merge) -> None:
        """Modes, devices and CDI in every combination, merged into any container, give no violation."""
        assessment, container = trip
        created = merge(container, wire.adjustment(planned(assessment)).adjust)

        assert judge(wire.observed(created), assessment) is None

    @UNHURRIED
    @given(trip=round_trips(), data=st.data())
    def test_one_variable_dropped_changed_or_doubled_is_named(
        self, trip: tuple[Assessment, pb.Container], data: st.DataObject, merge: Merge
    ) -> None:
        """No single variable of the plan can be lost without a violation that names it and nothing else."""
        assessment, container = trip
        plan = planned(assessment)
        key, value = data.draw(st.sampled_from(plan.env))
        instead = data.draw(st.sampled_from(((), (key,), (f"{key}=",), (f"{key}={value}0",), (f"{key}={value}",) * 2)))
        created = merge(container, wire.adjustment(plan).adjust)
        place = list(created.env).index(f"{key}={value}")
        created.env[place : place + 1] = instead

        violation = judge(wire.observed(created), assessment)

        assert violation is not None
        assert 1 == len(violation.reasons)
        assert f"env:{key} " in violation.reasons[0]

    @UNHURRIED
    @given(trip=round_trips(), change=st.sampled_from(("dropped", "other source", "other place")))
    def test_the_mount_dropped_or_changed_is_named(
        self, trip: tuple[Assessment, pb.Container], change: str, merge: Merge
    ) -> None:
        """No change of the pipe mount passes."""
        assessment, container = trip
        plan = planned(assessment)
        created = merge(container, wire.adjustment(plan).adjust)
        (place,) = (i for i, each in enumerate(created.mounts) if each.destination == plan.mount.destination)
        if change == "dropped":
            del created.mounts[place]
        elif change == "other source":
            created.mounts[place].source = "/elsewhere"
        else:
            created.mounts[place].destination = "/elsewhere"

        violation = judge(wire.observed(created), assessment)

        assert violation is not None
        assert 1 == len(violation.reasons)
        assert violation.reasons[0].startswith("mount:")
        assert plan.mount.destination in violation.reasons[0]

    @UNHURRIED
    @given(trip=round_trips(), data=st.data())
    def test_a_validator_misses_each_cdi_device_that_is_gone(
        self, trip: tuple[Assessment, pb.Container], data: st.DataObject
    ) -> None:
        """At validation any requested device that another plugin took away is named, even the only one."""
        assessment, _ = trip
        adjust = wire.adjustment(planned(assessment)).adjust
        wanted = [each.name for each in adjust.CDI_devices]
        lost = data.draw(st.sampled_from((*wanted, None)))
        del adjust.CDI_devices[:]
        adjust.CDI_devices.extend(pb.CDIDevice(name=name) for name in wanted if name != lost)

        violation = judge(wire.adjusted(adjust), assessment)

        assert ([f"cdi:{lost} missing"] if lost else []) == list(violation.reasons if violation else ())
