from __future__ import annotations

import pytest
from fractioning_core import versions
from fractioning_core.versions import ClusterPolicyVersions, Unsupported
from hypothesis import given
from hypothesis import strategies as st

OPERAND = "GPUOperandVersionUnsupported"
OPERATOR = "GPUOperatorVersionUnsupported"
TOOLKIT = "v1.20.1-ubuntu20.04"
PLUGIN = "v0.20.1"
DIGEST = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
FROM_LABEL = 'ClusterPolicy label "app.kubernetes.io/version"'
DEFAULT_TOOLKIT = ", and it supplies the default container toolkit version that the ClusterPolicy leaves unset"


class TestClusterPolicy:
    """The gate where there is a ClusterPolicy."""

    @pytest.mark.parametrize(
        ("gpu_operator", "toolkit", "plugin"),
        [
            pytest.param("v26.3.3", TOOLKIT, PLUGIN, id="pinned operands make an old operator irrelevant"),
            pytest.param("26.7", TOOLKIT, PLUGIN, id="pinned operands make a short version irrelevant"),
            pytest.param("", TOOLKIT, PLUGIN, id="pinned operands make a missing version irrelevant"),
            pytest.param("v26.7.1", TOOLKIT, PLUGIN, id="all supported"),
            pytest.param("v26.7.1", "v1.20.1", "v0.20.1-ubi8", id="other suffixes"),
            pytest.param("v26.7.0", "v1.21.0-ubuntu20.04", "v0.21.0", id="newer operands"),
            pytest.param("v26.7.0", "v1.100.0", "v0.100.0", id="numbers are compared as numbers"),
            pytest.param("v26.7.0", DIGEST, PLUGIN, id="a digest is not checked"),
            pytest.param("v26.7.0", "latest", "latest", id="latest is not checked"),
            pytest.param("v26.7.1", "", PLUGIN, id="default toolkit of a supported operator"),
            pytest.param("v26.7.1-rc.1", "", "", id="a candidate of the first supported release"),
            pytest.param("26.7.1", "", "", id="without v"),
            pytest.param("v27.0.0", "  ", "", id="a later year"),
        ],
    )
    def test_supported(self, gpu_operator: str, toolkit: str, plugin: str) -> None:
        """A stack that reaches the minima, or tells nothing against it, passes."""
        assert versions.check_cluster_policy(ClusterPolicyVersions(gpu_operator, toolkit, plugin)) is None

    @pytest.mark.parametrize(
        ("gpu_operator", "toolkit", "plugin", "reason", "message"),
        [
            pytest.param(
                "v26.7.1",
                "v1.20.0-ubuntu20.04",
                PLUGIN,
                OPERAND,
                "NVIDIA container toolkit version v1.20.0-ubuntu20.04 from ClusterPolicy spec.toolkit.version"
                " is below minimum supported version v1.20.1",
                id="toolkit",
            ),
            pytest.param(
                "v26.7.1",
                TOOLKIT,
                "v0.20.0",
                OPERAND,
                "NVIDIA device plugin version v0.20.0 from ClusterPolicy spec.devicePlugin.version"
                " is below minimum supported version v0.20.1",
                id="device plugin",
            ),
            pytest.param(
                "v26.7.1",
                "v1.20.0",
                "v0.20.0",
                OPERAND,
                "NVIDIA container toolkit version v1.20.0 from ClusterPolicy spec.toolkit.version"
                " is below minimum supported version v1.20.1",
                id="the first of two",
            ),
            pytest.param(
                "v26.7.0",
                "v1.20",
                "",
                OPERAND,
                "NVIDIA container toolkit version v1.20 from ClusterPolicy spec.toolkit.version"
                " is below minimum supported version v1.20.1",
                id="an operand wins over the operator",
            ),
            pytest.param(
                "v26.7.0",
                "",
                PLUGIN,
                OPERATOR,
                f"NVIDIA GPU Operator version v26.7.0 is below minimum supported version v26.7.1{DEFAULT_TOOLKIT}",
                id="default toolkit of an old operator",
            ),
            pytest.param(
                "v26.7.0",
                "",
                "",
                OPERATOR,
                "NVIDIA GPU Operator version v26.7.0 is below minimum supported version v26.7.1, and it supplies the"
                " default container toolkit and device plugin version that the ClusterPolicy leaves unset",
                id="both defaults of an old operator",
            ),
            pytest.param(
                "v26.7.0-rc.1",
                "",
                PLUGIN,
                OPERATOR,
                f"NVIDIA GPU Operator version v26.7.0-rc.1 is below minimum supported version v26.7.1{DEFAULT_TOOLKIT}",
                id="a candidate of an old release",
            ),
            pytest.param(
                "26.7",
                "",
                PLUGIN,
                OPERATOR,
                f"NVIDIA GPU Operator version 26.7 is below minimum supported version v26.7.1{DEFAULT_TOOLKIT}",
                id="a short version is a zero release",
            ),
            pytest.param(
                "",
                "",
                PLUGIN,
                OPERATOR,
                f"NVIDIA GPU Operator version from {FROM_LABEL} is missing; minimum supported version is v26.7.1"
                f"{DEFAULT_TOOLKIT}",
                id="no label",
            ),
            pytest.param(
                "not-a-version",
                "",
                PLUGIN,
                OPERATOR,
                f'NVIDIA GPU Operator version "not-a-version" from {FROM_LABEL} is invalid; minimum supported version'
                f" is v26.7.1{DEFAULT_TOOLKIT}",
                id="no version in the label",
            ),
        ],
    )
    def test_unsupported(self, gpu_operator: str, toolkit: str, plugin: str, reason: str, message: str) -> None:
        """A stack below a minimum is told with reason and message."""
        found = versions.check_cluster_policy(ClusterPolicyVersions(gpu_operator, toolkit, plugin))

        assert Unsupported(reason, message) == found

    def test_message_is_bounded(self) -> None:
        """A version of any length makes a message of one short line."""
        found = versions.check_cluster_policy(ClusterPolicyVersions(container_toolkit="v1.0.0-" + "a\n" * 100_000))

        assert found is not None
        assert (True, True) == (found.message.isprintable(), len(found.message) < 400)


class TestClusterServiceVersion:
    """The gate where only OLM tells the version."""

    @pytest.mark.parametrize("version", ["26.7.1", "v26.7.1", "26.8.0", "26.7.1-rc.1"])
    def test_supported(self, version: str) -> None:
        """The first supported release and later ones pass."""
        assert versions.check_cluster_service_version(version) is None

    @pytest.mark.parametrize(
        ("version", "message"),
        [
            pytest.param(
                "26.3.3", "NVIDIA GPU Operator version 26.3.3 is below minimum supported version v26.7.1", id="old"
            ),
            pytest.param(
                "26.7.0",
                "NVIDIA GPU Operator version 26.7.0 is below minimum supported version v26.7.1",
                id="just below",
            ),
            pytest.param(
                "",
                "NVIDIA GPU Operator version from ClusterServiceVersion is missing; minimum supported version"
                " is v26.7.1",
                id="missing",
            ),
            pytest.param(
                "x",
                'NVIDIA GPU Operator version "x" from ClusterServiceVersion is invalid; minimum supported version'
                " is v26.7.1",
                id="invalid",
            ),
        ],
    )
    def test_unsupported(self, version: str, message: str) -> None:
        """Anything else is told with reason and message."""
        assert Unsupported(OPERATOR, message) == versions.check_cluster_service_version(version)


class TestNormalisation:
    """Version text to a full version."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param("v1.20.1", "v1.20.1", id="v1.20.1"),
            pytest.param("1.20.1", "v1.20.1", id="1.20.1"),
            pytest.param("v1.20.1-ubuntu20.04", "v1.20.1", id="ubuntu"),
            pytest.param("v1.20.1-ubi8", "v1.20.1", id="ubi8"),
            pytest.param("v1.20", "v1.20.0", id="v1.20"),
            pytest.param("sha256-0123", None, id="sha256-"),
            pytest.param("latest", None, id="latest"),
            pytest.param("", None, id="empty"),
            pytest.param(" v1.20.1 ", "v1.20.1", id="space around"),
            pytest.param("v1.20.1+build", "v1.20.1", id="build"),
            pytest.param("v01.20.1", None, id="leading zero"),
            pytest.param("v1.20.1.1", None, id="four parts"),
            pytest.param("V1.20.1", None, id="capital v"),
        ],
    )
    def test_operand(self, text: str, expected: str | None) -> None:
        """An operand's tag loses its suffix and is completed."""
        assert expected == versions.normalize_operand(text)

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param("v26.7.1", "v26.7.1", id="v26.7.1"),
            pytest.param("26.7.1", "v26.7.1", id="26.7.1"),
            pytest.param("26.7", "v26.7.0", id="26.7"),
            pytest.param("v26.7-rc.1", "v26.7.0-rc.1", id="v26.7-rc.1"),
            pytest.param("not-a-version", None, id="not-a-version"),
            pytest.param("v26", "v26.0.0", id="major alone"),
            pytest.param("v26-rc.1", None, id="candidate of a major alone"),
            pytest.param("v26.7.1+build.5", "v26.7.1", id="build is dropped"),
            pytest.param("v26.7.1-rc.01", None, id="leading zero in a candidate"),
            pytest.param("v26.7.1-rc.0a", "v26.7.1-rc.0a", id="zero and letter in a candidate"),
            pytest.param("v26.7.1-", None, id="empty candidate"),
            pytest.param("v26.7.1-rc..1", None, id="empty identifier"),
            pytest.param("v26.7.1+", None, id="empty build"),
            pytest.param("v26.07.1", None, id="leading zero"),
            pytest.param("v26.7.1\n", "v26.7.1", id="line break behind"),
            pytest.param("v\u0662.7.1", None, id="foreign digit"),
        ],
    )
    def test_gpu_operator(self, text: str, expected: str | None) -> None:
        """A GPU Operator version keeps its pre-release and is completed."""
        assert expected == versions.normalize_gpu_operator(text)

    @given(st.text("v0123456789.-+rc", max_size=30))
    def test_normal_form_is_stable(self, text: str) -> None:
        """What is in full stays as it is."""
        once = versions.normalize_gpu_operator(text)

        assert once is None or once == versions.normalize_gpu_operator(once)

    @pytest.mark.parametrize("number", ["9" * 5000, "1" + "0" * 5000])
    def test_huge_numbers(self, number: str) -> None:
        """A number that Python would not convert is compared all the same."""
        assert versions.check_cluster_service_version(f"v{number}.0.0") is None


class TestMinima:
    """The versions that are needed."""

    def test_values(self) -> None:
        """The minima are those that the GPU stack documents."""
        actual = (versions.MIN_CONTAINER_TOOLKIT, versions.MIN_DEVICE_PLUGIN, versions.MIN_GPU_OPERATOR)

        assert ("v1.20.1", "v0.20.1", "v26.7.1") == actual
