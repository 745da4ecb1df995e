"""
Whether the GPU stack is new enough to enforce memory limits.

Two operands decide, the container toolkit and the device plugin. Where the ClusterPolicy pins one, its tag is
judged; where it leaves one out, the GPU Operator supplies its own default, so the GPU Operator's version is judged in
its place; a digest or `latest` says nothing and does not block. Without a ClusterPolicy only the GPU Operator's
version from OLM is there to judge.

Versions are semantic versions as golang.org/x/mod/semver accepts them: `v1` and `v1.2` are short forms, a number has
no leading zero.
"""

from __future__ import annotations

import re

import attrs

from fractioning_core import names
from fractioning_core.errors import escaped, shown

MIN_CONTAINER_TOOLKIT = "v1.20.1"
MIN_DEVICE_PLUGIN = "v0.20.1"
# The first release whose default operands reach both minima.
MIN_GPU_OPERATOR = "v26.7.1"

OPERAND_UNSUPPORTED = "GPUOperandVersionUnsupported"
OPERATOR_UNSUPPORTED = "GPUOperatorVersionUnsupported"

_FROM_POLICY = f'ClusterPolicy label "{names.CLUSTER_POLICY_VERSION_LABEL}"'
_FROM_CSV = "ClusterServiceVersion"

_NUMBER = r"(?:0|[1-9][0-9]*)"
# An identifier of a pre-release is a number without leading zeros, or has something that is no digit.
_PRERELEASE = rf"(?:{_NUMBER}|[0-9]*[A-Za-z-][0-9A-Za-z-]*)"
_SEMVER = re.compile(
    rf"v({_NUMBER})(?:\.({_NUMBER})(?:\.({_NUMBER})(-{_PRERELEASE}(?:\.{_PRERELEASE})*)?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?)?)?",
)
_SUFFIX = re.compile(r"[-+]")


@attrs.frozen
class Unsupported:
    """
    Why the GPU stack is not supported, ready for a condition.
    """

    reason: str
    message: str


@attrs.frozen
class ClusterPolicyVersions:
    """
    The versions a ClusterPolicy tells, each empty where it does not.

    Attributes:
        gpu_operator: label `app.kubernetes.io/version`.
        container_toolkit: `spec.toolkit.version`.
        device_plugin: `spec.devicePlugin.version`.
    """

    gpu_operator: str = ""
    container_toolkit: str = ""
    device_plugin: str = ""


@attrs.frozen
class _Operand:
    name: str
    path: str
    minimum: str
    version: str


def check_cluster_policy(versions: ClusterPolicyVersions) -> Unsupported | None:
    """
    Judge a GPU stack by its ClusterPolicy; the first operand that is too old decides.
    """
    operands = (
        _Operand("container toolkit", "spec.toolkit.version", MIN_CONTAINER_TOOLKIT, versions.container_toolkit),
        _Operand("device plugin", "spec.devicePlugin.version", MIN_DEVICE_PLUGIN, versions.device_plugin),
    )
    for operand in operands:
        message = _operand_fault(operand)
        if message:
            return Unsupported(OPERAND_UNSUPPORTED, message)
    defaulted = [operand.name for operand in operands if not operand.version.strip()]
    return _check_defaults(versions.gpu_operator, defaulted) if defaulted else None


def check_cluster_service_version(version: str) -> Unsupported | None:
    """
    Judge a GPU stack by the GPU Operator's ClusterServiceVersion, where there is no ClusterPolicy.
    """
    message = _operator_fault(version, _FROM_CSV)
    return Unsupported(OPERATOR_UNSUPPORTED, message) if message else None


def normalize_operand(text: str) -> str | None:
    """
    Give an operand's tag as a full version without its distribution suffix; None when it is no version.
    """
    return _canonical(_with_v(_SUFFIX.split(text.strip(), maxsplit=1)[0]))


def normalize_gpu_operator(text: str) -> str | None:
    """
    Give a GPU Operator version in full, pre-release kept; None when it is no version.
    """
    version = _with_v(text.strip())
    return _canonical(version) or _canonical(_with_patch(version))


def _check_defaults(gpu_operator: str, defaulted: list[str]) -> Unsupported | None:
    message = _operator_fault(gpu_operator, _FROM_POLICY)
    if not message:
        return None
    supplies = f"it supplies the default {' and '.join(defaulted)} version that the ClusterPolicy leaves unset"
    return Unsupported(OPERATOR_UNSUPPORTED, f"{message}, and {supplies}")


def _operand_fault(operand: _Operand) -> str:
    version = normalize_operand(operand.version)
    if version is None or _release(version) >= _release(operand.minimum):
        return ""
    raw = escaped(operand.version.strip())
    return (
        f"NVIDIA {operand.name} version {raw} from ClusterPolicy {operand.path}"
        f" is below minimum supported version {operand.minimum}"
    )


def _operator_fault(text: str, source: str) -> str:
    raw = text.strip()
    minimum = f"minimum supported version is {MIN_GPU_OPERATOR}"
    if not raw:
        return f"NVIDIA GPU Operator version from {source} is missing; {minimum}"
    version = normalize_gpu_operator(raw)
    if version is None:
        return f"NVIDIA GPU Operator version {shown(raw)} from {source} is invalid; {minimum}"
    if _release(version) < _release(MIN_GPU_OPERATOR):
        return f"NVIDIA GPU Operator version {escaped(raw)} is below minimum supported version {MIN_GPU_OPERATOR}"
    return ""


def _with_v(version: str) -> str:
    return version if version.startswith("v") else f"v{version}"


def _with_patch(version: str) -> str:
    """
    Complete `v26.7-rc.1`, which is no semantic version, to `v26.7.0-rc.1`.
    """
    release = _SUFFIX.split(version, maxsplit=1)[0]
    return f"{release}.0{version[len(release) :]}" if release.count(".") == 1 else version


def _canonical(version: str) -> str | None:
    form = _SEMVER.fullmatch(version)
    return f"v{form[1]}.{form[2] or 0}.{form[3] or 0}{form[4] or ''}" if form else None


def _release(canonical: str) -> tuple[tuple[int, str], ...]:
    """
    Give a sort key of major, minor and patch alone: a candidate of a supported release is supported.
    """
    release = _SUFFIX.split(canonical[1:], maxsplit=1)[0]
    # Without leading zeros, numbers order by length and then by text; so no text becomes a huge number.
    return tuple((len(number), number) for number in release.split("."))
