from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from fractioning_core import names, podannotations, quantity
from fractioning_core.errors import InvalidAnnotation, InvalidPrefix
from fractioning_core.fraction import ComputeMode
from fractioning_core.podannotations import Grammar, Keys, Reading
from fractioning_core.testing.builders import a_fraction, annotations_for
from hypothesis import given
from hypothesis import strategies as st

GRAMMAR = Grammar()
KEYS = podannotations.keys("main", GRAMMAR)
NOTHING = Reading(fraction=None, problems=())


class InsertingMap(Mapping[str, str]):
    """A protobuf string map: `[]` inserts what is missing."""

    def __init__(self, values: dict[str, str]) -> None:
        self.values_by_key = values

    def __getitem__(self, key: str) -> str:
        return self.values_by_key.setdefault(key, "")

    def __contains__(self, key: object) -> bool:
        return key in self.values_by_key

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_key)

    def __len__(self) -> int:
        return len(self.values_by_key)


class TestMatching:
    """Which container an annotation is for."""

    @pytest.mark.parametrize(
        "annotations",
        [
            pytest.param({}, id="none at all"),
            pytest.param({"team": "ml"}, id="none of ours"),
            pytest.param(annotations_for("main2", limit="1Gi"), id="a longer name"),
            pytest.param(annotations_for("mai", limit="1Gi"), id="a shorter name"),
            pytest.param(annotations_for("sidecar", limit="broken"), id="a sibling's"),
            pytest.param(annotations_for(limit="1Gi", prefix="example.com/"), id="another prefix"),
            pytest.param(annotations_for(mode="sm-sharing"), id="mode alone is inert"),
            pytest.param(annotations_for(devices="GPU-a"), id="devices alone are inert"),
            pytest.param(annotations_for(mode="broken", devices="a\nb"), id="even broken, both are inert"),
        ],
    )
    def test_not_fractional(self, annotations: dict[str, str]) -> None:
        """Without a memory annotation under its own name a container is not fractional."""
        assert NOTHING == podannotations.read(annotations, "main", GRAMMAR)

    @pytest.mark.parametrize("prefix", ["custom.example.com/c.", "", "plain.", "gpu.example/"])
    def test_prefix_is_a_setting(self, prefix: str) -> None:
        """A custom prefix counts in place of the default one."""
        annotations = annotations_for(limit="1Gi", prefix=prefix) | annotations_for(
            limit="9Gi", prefix="other.example/"
        )

        reading = podannotations.read(annotations, "main", Grammar(prefix=prefix))

        assert Reading(a_fraction(request_mib=1024, limit_mib=1024)) == reading

    def test_containers_of_a_pod_are_told_apart(self) -> None:
        """Each container gets what stands under its own name."""
        annotations = annotations_for("one", limit="1024Mi") | annotations_for("two", limit="3072Mi")

        readings = [podannotations.read(annotations, name, GRAMMAR) for name in ("one", "two")]

        assert [1024, 3072] == [reading.fraction.limit_mib for reading in readings if reading.fraction]

    def test_a_protobuf_map_stays_as_it_is(self) -> None:
        """Reading inserts no key into a map whose look-up would."""
        annotations = InsertingMap(annotations_for(limit="1Gi"))

        podannotations.read(annotations, "main", GRAMMAR)
        podannotations.read(annotations, "other", GRAMMAR)

        assert annotations_for(limit="1Gi") == annotations.values_by_key

    def test_keys(self) -> None:
        """A key is prefix, container name and suffix."""
        expected = Keys(
            request="nvidia.com/container.main.gpu-memory.request",
            limit="nvidia.com/container.main.gpu-memory.limit",
            mode="nvidia.com/container.main.gpu-compute.mode",
            devices="nvidia.com/container.main.gpus.devices",
        )

        assert expected == KEYS


class TestMemory:
    """The two memory annotations."""

    @pytest.mark.parametrize(
        ("request_text", "limit_text", "expected"),
        [
            pytest.param("2048Mi", "4096Mi", (2048, 4096), id="both"),
            pytest.param("2Gi", None, (2048, 2048), id="request only"),
            pytest.param(None, "4Gi", (4096, 4096), id="limit only"),
            pytest.param("4Gi", "4Gi", (4096, 4096), id="equal"),
            pytest.param("1000M", "954Mi", (954, 954), id="equal once rounded"),
        ],
    )
    def test_usable(self, request_text: str | None, limit_text: str | None, expected: tuple[int, int]) -> None:
        """The one that is absent takes the value of the other."""
        annotations = annotations_for(request=request_text, limit=limit_text)

        reading = podannotations.read(annotations, "main", GRAMMAR)

        assert Reading(a_fraction(request_mib=expected[0], limit_mib=expected[1])) == reading

    def test_limit_below_request(self) -> None:
        """A limit below the request is refused with both keys and both values."""
        reading = podannotations.read(annotations_for(request="2Gi", limit="1Gi"), "main", GRAMMAR)

        problem = InvalidAnnotation(
            KEYS.limit, "1Gi", f'is below {KEYS.request}: "2Gi"', "a limit at or above the request"
        )
        assert Reading(None, (problem,)) == reading

    @pytest.mark.parametrize(
        ("request_text", "limit_text", "keys"),
        [
            pytest.param("broken", None, [KEYS.request], id="request alone"),
            pytest.param(None, "broken", [KEYS.limit], id="limit alone"),
            pytest.param("broken", "1Gi", [KEYS.request], id="request beside a good limit"),
            pytest.param("1Gi", "broken", [KEYS.limit], id="limit beside a good request"),
            pytest.param("broken", "", [KEYS.request, KEYS.limit], id="both"),
            pytest.param(" 1Gi", None, [KEYS.request], id="not trimmed"),
        ],
    )
    def test_unusable(self, request_text: str | None, limit_text: str | None, keys: list[str]) -> None:
        """One bad memory value leaves nothing to apply, and each is named."""
        reading = podannotations.read(annotations_for(request=request_text, limit=limit_text), "main", GRAMMAR)

        assert (None, keys) == (reading.fraction, [problem.key for problem in reading.problems])

    def test_the_quantity_tells_what_is_wrong(self) -> None:
        """A problem carries the quantity's own reason and accepted form."""
        reading = podannotations.read(annotations_for(limit="4096"), "main", GRAMMAR)

        problem = InvalidAnnotation(KEYS.limit, "4096", "counts bytes and is below 1 MiB", quantity.ACCEPTED)
        assert (problem,) == reading.problems


class TestMode:
    """The compute mode."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param(None, ComputeMode.TIME_SLICING, id="absent"),
            pytest.param("time-slicing", ComputeMode.TIME_SLICING, id="time-slicing"),
            pytest.param("sm-sharing", ComputeMode.SM_SHARING, id="sm-sharing"),
            pytest.param(" \tsm-sharing\n", ComputeMode.SM_SHARING, id="space around"),
            pytest.param("\u3000sm-sharing\u00a0", ComputeMode.SM_SHARING, id="wide space around"),
        ],
    )
    def test_usable(self, text: str | None, expected: ComputeMode) -> None:
        """A mode is trimmed on the outside and then exact."""
        reading = podannotations.read(annotations_for(request="2Gi", limit="4Gi", mode=text), "main", GRAMMAR)

        assert Reading(a_fraction(mode=expected)) == reading

    @pytest.mark.parametrize("text", ["", "  ", "SM-Sharing", "mps", "sm_sharing", "\x1csm-sharing", "sm-sharing,"])
    def test_unusable(self, text: str) -> None:
        """Any other mode is a problem, and time-slicing with memory kept is what is left."""
        reading = podannotations.read(annotations_for(request="2Gi", limit="4Gi", mode=text), "main", GRAMMAR)

        problem = InvalidAnnotation(KEYS.mode, text, "is not a compute mode", "time-slicing or sm-sharing")
        assert Reading(a_fraction(), (problem,)) == reading

    def test_sm_sharing_switched_off(self) -> None:
        """Where sm-sharing is off it is a problem, and time-slicing is what is left."""
        annotations = annotations_for(request="2Gi", limit="4Gi", mode="sm-sharing")

        reading = podannotations.read(annotations, "main", Grammar(sm_sharing=False))

        problem = InvalidAnnotation(KEYS.mode, "sm-sharing", "is switched off on this node", "time-slicing")
        assert Reading(a_fraction(), (problem,)) == reading


class TestDevices:
    """The device assignment."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param(None, "", id="absent"),
            pytest.param("", "", id="empty"),
            pytest.param("  ", "", id="blank"),
            pytest.param("GPU-a", "GPU-a", id="one"),
            pytest.param(" GPU-a, GPU-b\n", "GPU-a, GPU-b", id="outer trim only"),
            pytest.param("all", "all", id="all"),
            pytest.param(
                "x" * podannotations.MAX_DEVICES_LENGTH, "x" * podannotations.MAX_DEVICES_LENGTH, id="longest"
            ),
        ],
    )
    def test_usable(self, text: str | None, expected: str) -> None:
        """Devices are trimmed on the outside and then taken verbatim."""
        reading = podannotations.read(annotations_for(request="2Gi", limit="4Gi", devices=text), "main", GRAMMAR)

        assert Reading(a_fraction(devices=expected)) == reading

    @pytest.mark.parametrize(
        "char", ["\n", "\r", "\t", "\x00", "\x1b", "\x1c", "\x7f", "\x85", "\x9f", "\u2028", "\u2029"], ids=ascii
    )
    def test_control_character(self, char: str) -> None:
        """A control character or line break inside is a problem, and no devices are what is left."""
        text = f"GPU-a{char}NVIDIA_GPU_MEMORY_LIMIT=9"

        reading = podannotations.read(annotations_for(request="2Gi", limit="4Gi", devices=text), "main", GRAMMAR)

        assert (a_fraction(), [(KEYS.devices, "has a line break or another control character")]) == (
            reading.fraction,
            [(problem.key, problem.reason) for problem in reading.problems],
        )

    def test_too_many_devices(self) -> None:
        """Entries are counted before any is looked at, since each one costs the runtime's time."""
        text = ",".join(["0"] * (podannotations.MAX_DEVICES + 1))

        reading = podannotations.read(annotations_for(request="2Gi", limit="4Gi", devices=text), "main", GRAMMAR)

        assert ["has more than 128 entries"] == [problem.reason for problem in reading.problems]

    def test_too_long(self) -> None:
        """A list past the bound is a problem."""
        text = "x" * (podannotations.MAX_DEVICES_LENGTH + 1)

        reading = podannotations.read(annotations_for(request="2Gi", limit="4Gi", devices=text), "main", GRAMMAR)

        assert ["is longer than 16384 characters"] == [problem.reason for problem in reading.problems]


class TestOwn:
    """What an answer can be remembered by."""

    def test_it_is_all_that_reading_looks_at(self) -> None:
        """Keys of other containers and other keys of this one are not among it."""
        annotations = annotations_for(request="2Gi", limit="4Gi", mode="sm-sharing", devices="0")
        others = {"a": "b", f"{KEYS.limit}2": "1Gi"}

        assert tuple(annotations.items()) == podannotations.own(annotations | others, "main", GRAMMAR)

    def test_nothing_without_a_memory_annotation(self) -> None:
        """Mode and devices alone do nothing."""
        assert () == podannotations.own({KEYS.mode: "sm-sharing", KEYS.devices: "0"}, "main", GRAMMAR)


class TestAllAtOnce:
    """Everything that is wrong is told together."""

    def test_every_problem_is_collected(self) -> None:
        """One reading names each bad annotation."""
        annotations = annotations_for(request="x", limit="y", mode="z", devices="a\nb")

        reading = podannotations.read(annotations, "main", GRAMMAR)

        assert [KEYS.request, KEYS.limit, KEYS.mode, KEYS.devices] == [problem.key for problem in reading.problems]

    @given(
        request=st.none() | st.text(),
        limit=st.none() | st.text() | st.sampled_from(["1Gi", "2Gi"]),
        mode=st.none() | st.text(),
        devices=st.none() | st.text(),
    )
    def test_reading_never_fails(
        self, request: str | None, limit: str | None, mode: str | None, devices: str | None
    ) -> None:
        """Whatever is written, reading gives a valid fraction, a problem, or both, and nothing only for nothing."""
        annotations = annotations_for(request=request, limit=limit, mode=mode, devices=devices)

        reading = podannotations.read(annotations, "main", GRAMMAR)

        asked = request is not None or limit is not None
        assert asked == bool(reading.fraction or reading.problems)
        assert all(str(problem).isprintable() for problem in reading.problems)
        assert reading.fraction is None or 1 <= reading.fraction.request_mib <= reading.fraction.limit_mib


class TestPrefix:
    """The annotation prefix setting."""

    @pytest.mark.parametrize(
        "prefix",
        [
            pytest.param(names.ANNOTATION_PREFIX, id="the default"),
            pytest.param("", id="empty"),
            pytest.param("gpu.example/", id="nothing behind the slash"),
            pytest.param("custom.example.com/c.", id="custom"),
            pytest.param("plain.", id="no slash"),
            pytest.param("a/B_c-", id="upper case behind the slash"),
            pytest.param("a/" + "b" * 45, id="room for one character"),
            pytest.param("a" * 63 + ".b/", id="longest DNS label"),
        ],
    )
    def test_legal(self, prefix: str) -> None:
        """A prefix under which the API server accepts annotations makes a grammar."""
        podannotations.validate_prefix(prefix)

        assert prefix == Grammar(prefix=prefix).prefix

    @pytest.mark.parametrize(
        ("prefix", "reason"),
        [
            pytest.param("a/b/", "it has more than one slash", id="two slashes"),
            pytest.param("UP PER/", "what is before the slash is not a DNS name in lower case", id="space and case"),
            pytest.param("Example.com/", "what is before the slash is not a DNS name in lower case", id="upper case"),
            pytest.param("/x", "what is before the slash is not a DNS name in lower case", id="nothing before it"),
            pytest.param("a..b/", "what is before the slash is not a DNS name in lower case", id="empty label"),
            pytest.param("-a/", "what is before the slash is not a DNS name in lower case", id="leading dash"),
            pytest.param("a-/", "what is before the slash is not a DNS name in lower case", id="trailing dash"),
            pytest.param("a" * 64 + "/", "what is before the slash is not a DNS name in lower case", id="long label"),
            pytest.param("a." * 127 + "/", "what is before the slash is not a DNS name in lower case", id="dot at end"),
            pytest.param("a." * 126 + "ab/", "what is before the slash is not a DNS name in lower case", id="254"),
            pytest.param("a/b c", "what begins the name has other characters", id="space behind it"),
            pytest.param("a/.b", "what begins the name has other characters", id="leading dot"),
            pytest.param("b\n", "what begins the name has other characters", id="line break"),
            pytest.param("a/" + "b" * 46, "it leaves no room for a container name", id="no room"),
        ],
    )
    def test_illegal(self, prefix: str, reason: str) -> None:
        """Any other prefix is refused with the reason, by the check and by the grammar."""
        with pytest.raises(InvalidPrefix) as by_check:
            podannotations.validate_prefix(prefix)
        with pytest.raises(InvalidPrefix) as by_grammar:
            Grammar(prefix=prefix)

        assert by_check.value == by_grammar.value
        assert (prefix, reason) == (by_check.value.text, by_check.value.reason[: len(reason)])

    def test_text(self) -> None:
        """The refusal shows the prefix and the accepted form in one line."""
        with pytest.raises(InvalidPrefix) as caught:
            podannotations.validate_prefix("a/b/")

        expected = (
            '"a/b/" is not an annotation prefix: it has more than one slash; accepted: nothing, or a DNS name in'
            " lower case with a slash, and then letters, digits, '.', '_' and '-', such as nvidia.com/container."
        )
        assert expected == str(caught.value)
