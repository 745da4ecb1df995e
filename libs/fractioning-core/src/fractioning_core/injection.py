"""
What a fractional container gets: environment, the MPS pipe mount and CDI devices.

This is the output contract. Creation applies a plan, the audit compares a plan with what a container has, and both
call the same `plan`, so that they cannot drift apart. Everything here is pure, and what runs while the runtime waits
is kept cheap.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence

import attrs

from fractioning_core import names
from fractioning_core.errors import InvalidAnnotation, InvalidAnnotations, escaped, shown
from fractioning_core.fraction import ComputeMode, Device, Fraction

# A variable of these that a container already lists twice keeps its second value, whatever a plugin sets.
ENFORCED_VARIABLES = (
    names.ENV_MEMORY_REQUEST,
    names.ENV_MEMORY_LIMIT,
    names.ENV_MPS_PIPE_DIRECTORY,
    names.ENV_VISIBLE_DEVICES,
)

# The text of a refusal travels to the kubelet and into a pod's status.
_KNOWN_LIMIT = 8


@attrs.frozen
class Options:
    """
    What the node's settings decide.

    Attributes:
        pipe_dir: the MPS pipe directory on the host.
        inject_cdi: whether GPUs are also requested as CDI devices, which the GPU Operator's NRI mode needs.
    """

    pipe_dir: str = names.MPS_PIPE_DIR
    inject_cdi: bool = False


@attrs.frozen
class CdiInventory:
    """
    The CDI devices that the node's specs list, by fully qualified name (`<kind>=<device>`).
    """

    devices: frozenset[str]

    def gpus(self) -> tuple[str, ...]:
        """
        List the devices of the GPU kind by name; one named `all` counts only where there is no other.
        """
        start = _qualified("")
        found = sorted(name.removeprefix(start) for name in self.devices if name.startswith(start))
        return tuple(name for name in found if name != "all") or tuple(found)


@attrs.frozen
class Mount:
    """
    A bind mount of a host directory.
    """

    source: str
    destination: str
    options: tuple[str, ...] = ("bind", "rw")


@attrs.frozen(cache_hash=True)
class Injection:
    """
    What a container gets, in the order in which it is set.
    """

    env: tuple[tuple[str, str], ...]
    mount: Mount
    cdi_devices: tuple[str, ...] = ()


def plan(
    fraction: Fraction,
    options: Options,
    cdi: CdiInventory | None,
    *,
    devices_key: str = names.GPU_DEVICES_SUFFIX,
) -> Injection:
    """
    Decide what a container gets.

    Args:
        fraction: what it asked for.
        options: the node's settings.
        cdi: the node's CDI devices; None where they are unknown, when UUIDs are taken on trust.
        devices_key: the annotation that named the devices, for the text of a refusal.

    Raises:
        InvalidAnnotations: with a problem for each device that cannot be requested from CDI. Only `inject_cdi` can
            bring this about.
    """
    mount = _pipe_mount(fraction.mode, options.pipe_dir)
    return Injection(
        env=_env(fraction, mount.destination),
        mount=mount,
        cdi_devices=_cdi_devices(fraction.devices, cdi, devices_key) if options.inject_cdi else (),
    )


def _env(fraction: Fraction, pipe_directory: str) -> tuple[tuple[str, str], ...]:
    enforced = (
        (names.ENV_MEMORY_REQUEST, str(fraction.request_mib)),
        (names.ENV_MEMORY_LIMIT, str(fraction.limit_mib)),
        (names.ENV_MPS_PIPE_DIRECTORY, pipe_directory),
    )
    visible = fraction.devices_value
    return (*enforced, (names.ENV_VISIBLE_DEVICES, visible)) if visible else enforced


# A node has two of them.
@functools.lru_cache(maxsize=4)
def _pipe_mount(mode: ComputeMode, pipe_dir: str) -> Mount:
    if mode is ComputeMode.SM_SHARING:
        return Mount(f"{pipe_dir}/{names.SHARED_PIPE_SUBPATH}", names.SM_SHARING_PIPE_DIR)
    return Mount(pipe_dir, pipe_dir)


def _cdi_devices(devices: tuple[Device, ...], cdi: CdiInventory | None, key: str) -> tuple[str, ...]:
    wanted: list[str] = []
    problems: list[InvalidAnnotation] = []
    for device in devices:
        found = _resolve(device, cdi)
        if isinstance(found, str):
            problems.append(InvalidAnnotation(key, device.text, f"is refused: {found}", _accepted(cdi)))
        else:
            wanted.extend(found)
    if problems:
        raise InvalidAnnotations(tuple(problems))
    return tuple(dict.fromkeys(_qualified(name) for name in wanted))


def _resolve(device: Device, cdi: CdiInventory | None) -> tuple[str, ...] | str:
    """
    Find the CDI devices that an entry means; text instead of a tuple says why there are none.
    """
    if device.uuid is not None:
        return _listed(device.uuid, cdi)
    if device.kind not in (None, names.CDI_GPU_KIND):
        # `management.nvidia.com/gpu=all` would hand a tenant every GPU of the node.
        return f"{escaped(device.text)} is of another CDI kind and names no GPU UUID"
    if not device.is_all and device.index is None:
        return f"{escaped(device.text)} names no GPU"
    if cdi is None:
        return f"{escaped(device.text)} needs the node's CDI specs, and they are not known"
    return cdi.gpus() or "the CDI specs list no GPU" if device.is_all else _listed(str(device.index), cdi)


def _listed(name: str, cdi: CdiInventory | None) -> tuple[str, ...] | str:
    if cdi is None or _qualified(name) in cdi.devices:
        return (name,)
    gpus = cdi.gpus()
    known = ", ".join(escaped(gpu) for gpu in gpus[:_KNOWN_LIMIT]) or "none"
    more = f" and {len(gpus) - _KNOWN_LIMIT} more" if len(gpus) > _KNOWN_LIMIT else ""
    return f"{escaped(name)} is in no CDI spec; known: {known}{more}"


def _qualified(name: str) -> str:
    return f"{names.CDI_GPU_KIND}={name}"


def _accepted(cdi: CdiInventory | None) -> str:
    return "a GPU UUID" if cdi is None else "a device that the node's CDI specs list"


def unknown_gpus(fraction: Fraction, live: frozenset[str] | None) -> tuple[str, ...]:
    """
    List the whole GPUs assigned by UUID that the node does not have.

    Args:
        fraction: what the container asked for.
        live: the node's GPU UUIDs; None where they are unknown, when nothing is reported.
    """
    if live is None:
        return ()
    return tuple(uuid for uuid in fraction.gpu_uuids if uuid not in live)


def duplicated(env: Iterable[str]) -> tuple[str, ...]:
    """
    List the enforced variables that a container's environment (`K=V` or a bare `K`) holds more than once.

    The runtime replaces the first occurrence and lets the second win (seen on containerd 2.3.7), so that no value of
    ours holds in such a container.
    """
    # One test in C sorts out nearly all entries before any is split.
    found = [entry.partition("=")[0] for entry in env if entry.startswith(ENFORCED_VARIABLES)]
    return tuple(name for name in ENFORCED_VARIABLES if found.count(name) > 1)


def shadowing_mounts(mount_destinations: Iterable[str], destination: str) -> tuple[str, ...]:
    """
    List the tenant's mounts that would hide the MPS socket: at our destination in another spelling, or below it.

    The identical spelling is not among them, since the plugin's mount replaces that one.
    """
    return tuple([theirs for theirs in mount_destinations if _shadows(theirs, destination)])


# Asked for each mount while the runtime waits; destinations repeat from container to container.
@functools.lru_cache(maxsize=1024)
def _shadows(theirs: str, ours: str) -> bool:
    return theirs != ours and f"{normalized(theirs)}/".startswith(f"{normalized(ours)}/")


# They repeat here as well.
@functools.lru_cache(maxsize=1024)
def normalized(path: str) -> str:
    """
    Give a path inside a container one spelling: absolute, no `//`, `.` or `..`, no slash at the end, `/run` for
    `/var/run`.
    """
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del parts[-1:]
        elif part not in ("", "."):
            parts.append(part)
    if parts[:2] == ["var", "run"]:
        del parts[0]
    return "/" + "/".join(parts)


@attrs.frozen
class Observed:
    """
    What a container has.

    Attributes:
        env: its environment, `K=V` or a bare `K`, in order.
        mounts: source and destination of its mounts, in order.
        cdi_devices: the CDI devices requested for it; None where the runtime does not tell.
    """

    env: tuple[str, ...]
    mounts: tuple[tuple[str, str], ...]
    cdi_devices: tuple[str, ...] | None = None


def differences(expected: Injection, observed: Observed) -> tuple[str, ...]:
    """
    List in what a container falls short of a plan, one reason each; empty when nothing does.
    """
    # One pass in C leaves the few entries that matter, of the dozens that a service-rich namespace gives.
    ours = tuple(name for name, _ in expected.env)
    relevant = [entry for entry in observed.env if entry.startswith(ours)]
    # Nearly always it is just what was injected, which is cheaper to see than to take apart.
    as_planned = relevant == [f"{name}={value}" for name, value in expected.env]
    return (
        *(() if as_planned else _all_env_differences(expected, relevant)),
        *_mount_differences(expected.mount, observed.mounts),
        *_cdi_differences(expected, observed),
    )


def _all_env_differences(expected: Injection, relevant: Sequence[str]) -> Iterator[str]:
    for name, value in expected.env:
        if not _is_void(name, expected, relevant):
            yield from _env_differences(name, value, relevant)


def _is_void(name: str, expected: Injection, env: Iterable[str]) -> bool:
    """
    Tell whether the CDI spec took the visible devices' place: NVIDIA's specs add `void` after whatever plugins set
    (seen on containerd: a second entry), so that nothing but CDI hands out GPUs.
    """
    if name != names.ENV_VISIBLE_DEVICES or not expected.cdi_devices:
        return False
    return _values(name, env)[-1:] == [names.VISIBLE_DEVICES_VOID]


def fenced(observed: Observed) -> bool:
    """
    Tell whether any memory limit at all is in force, be it a wrong one.
    """
    return any(value for value in _values(names.ENV_MEMORY_LIMIT, observed.env))


def _values(name: str, env: Iterable[str]) -> list[str | None]:
    """
    Collect what an environment holds for a variable; None for an entry without a value.
    """
    start = f"{name}="
    return [entry[len(start) :] if entry != name else None for entry in env if entry.startswith(start) or entry == name]


def _env_differences(name: str, expected: str, env: Iterable[str]) -> Iterator[str]:
    values = _values(name, env)
    if not values:
        yield f"env:{name} missing"
        return
    if len(values) > 1:
        yield f"env:{name} listed {'twice' if len(values) == 2 else f'{len(values)} times'}"
    in_force = values[-1]
    if in_force != expected:
        found = "has no value" if in_force is None else f"is {shown(in_force)}"
        yield f"env:{name} {found}, expected {shown(expected)}"


def _mount_differences(expected: Mount, mounts: Iterable[tuple[str, str]]) -> Iterator[str]:
    destination = normalized(expected.destination)
    sources = [source for source, target in mounts if normalized(target) == destination]
    if not sources:
        yield f"mount:{expected.source}:{expected.destination} missing"
    # The last mount at a place covers the ones before it.
    elif normalized(sources[-1]) != normalized(expected.source):
        yield f"mount:{expected.destination} comes from {escaped(sources[-1])}"


def _cdi_differences(expected: Injection, observed: Observed) -> Iterator[str]:
    if observed.cdi_devices is None:
        return
    for name in expected.cdi_devices:
        if name not in observed.cdi_devices:
            yield f"cdi:{name} missing"
