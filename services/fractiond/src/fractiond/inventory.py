"""
What this node holds: its GPUs, by the driver's own listing, and the CDI devices that specs describe.

Read in a thread, now and then and whenever a container was refused over it, so that a handler only looks at the last
answer. What cannot be read is "not known", and refuses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import attrs
import structlog
import yaml
from fractioning_core.injection import CdiInventory

from fractiond.fencing import Inventory

REFRESH_SECONDS = 10.0
# Reading a handful of small files; a hung file system must not hold up the registration.
FIRST_READ_SECONDS = 2.0
# A spec of a node with 16 GPUs and MIG is some 100 KiB.
MAX_SPEC_BYTES = 4 * 1024 * 1024
# What the runtime's CDI library reads; a device of any other file would be accepted here and not be found there.
SPEC_SUFFIXES = (".json", ".yaml")
# libyaml takes 25 ms for the 100 KiB that the loader in Python takes 180 ms for, beside the loop that answers.
YAML_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
# The driver's text, one field a line: "GPU UUID: \t GPU-…" (NVIDIA driver README, /proc/driver/nvidia/gpus).
UUID_LINE = re.compile(r"^GPU UUID:\s*(GPU-[0-9a-fA-F-]+)\s*$", re.MULTILINE)


@attrs.frozen
class Sources:
    """Where to read."""

    proc_root: Path
    cdi_spec_dirs: tuple[Path, ...]
    """Empty where CDI devices are not injected: then nobody asks for them."""


class NodeInventory:
    """The last reading, and the task that renews it."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources
        self._log = structlog.get_logger()
        self._doubted = asyncio.Event()
        self.current = Inventory()

    def doubt(self) -> None:
        """Ask for a new reading soon: somebody was refused because of the last one."""
        self._doubted.set()

    async def start(self) -> None:
        """Read once before the first container is decided; a slow disk leaves the inventory unknown."""
        try:
            async with asyncio.timeout(FIRST_READ_SECONDS):
                await self._refresh()
        except TimeoutError:
            self._log.warning("inventory_not_read_yet", waited_seconds=FIRST_READ_SECONDS)

    async def run(self) -> None:
        """Renew the reading, for ever."""
        while True:
            # Either somebody asked, or it is time for the regular reading.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REFRESH_SECONDS):
                    await self._doubted.wait()
            self._doubted.clear()
            await self._refresh()

    async def _refresh(self) -> None:
        found = await asyncio.to_thread(read, self._sources)
        if found != self.current:
            self.current = found
            self._log.info(
                "inventory_changed",
                gpus=_count(found.gpu_uuids),
                cdi_devices=_count(found.cdi.devices if found.cdi else None),
            )


def _count(names: frozenset[str] | None) -> int | str:
    return "unknown" if names is None else len(names)


def read(sources: Sources) -> Inventory:
    """Read the node once, blocking."""
    return Inventory(
        gpu_uuids=_gpus(sources.proc_root / "driver/nvidia/gpus"),
        cdi=_cdi(sources.cdi_spec_dirs) if sources.cdi_spec_dirs else None,
    )


def _gpus(directory: Path) -> frozenset[str] | None:
    """List the UUIDs the driver shows; None without a driver, or while one of its files does not read."""
    try:
        texts = [(entry / "information").read_text(errors="replace") for entry in directory.iterdir()]
    except OSError:
        return None
    found = [UUID_LINE.search(text) for text in texts]
    # A GPU whose UUID does not show yet (the driver is starting) makes the whole list unknown.
    return frozenset(match[1] for match in found if match) if found and all(found) else None


def _cdi(directories: Iterable[Path]) -> CdiInventory | None:
    """List the devices of all specs; None where no directory is there, or one of them does not read."""
    names: set[str] = set()
    found = False
    for directory in directories:
        try:
            files = sorted(path for path in directory.iterdir() if path.suffix in SPEC_SUFFIXES)
        except FileNotFoundError:
            continue
        except OSError:
            # What it may hold would be missing from the list, and be refused.
            return None
        found = True
        for path in files:
            names.update(_spec_devices(path))
    return CdiInventory(frozenset(names)) if found else None


def _spec_devices(path: Path) -> Iterator[str]:
    """Read one spec; a broken one holds no device for the runtime either, which says so itself."""
    try:
        if path.stat().st_size > MAX_SPEC_BYTES:
            return
        spec = parse_spec(path.read_text(errors="replace"), is_json=path.suffix == ".json")
    except (OSError, ValueError):
        return
    yield from spec


def parse_spec(text: str, *, is_json: bool) -> tuple[str, ...]:
    """
    Give the fully qualified device names of one CDI spec.

    Raises:
        ValueError: the text is no CDI spec (a `kind`, and `devices` with a `name` each: CDI specification, 0.3 on).
    """
    match _loaded(text, is_json=is_json):
        case {"kind": str(kind), "devices": list(devices)}:
            return tuple(
                f"{kind}={device['name']}" for device in devices if isinstance(device, dict) and "name" in device
            )
        case _:
            raise ValueError("no kind and devices in it")


def _loaded(text: str, *, is_json: bool) -> object:
    try:
        return json.loads(text) if is_json else yaml.load(text, Loader=YAML_LOADER)  # noqa: S506  a safe loader, either way
    # Deep nesting is a RecursionError; a tag whose text does not fit it (`!!bool maybe`) comes through as whatever the
    # loader stumbled over.
    except (yaml.YAMLError, RecursionError, LookupError, AttributeError, TypeError) as error:
        raise ValueError(f"neither JSON nor YAML: {type(error).__name__}") from error
