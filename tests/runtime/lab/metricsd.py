"""
metricsd over the simulated driver, beside whoever writes the records that it reads.

    async with Metricsd(directory=tmp_path, map_dir=fractiond.map_dir, state=state) as metricsd:
        await metricsd.ready()
        used = await metricsd.samples("gpu_memory_used_bytes")
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

import attrs
from prometheus_client.parser import text_string_to_metric_families
from simgpu import programs
from simgpu.programs import MissingDriver
from simgpu.state import StateFile

from lab import waiting
from lab.errors import LabError, MissingToolchain
from lab.process import HttpResponse, Service
from lab.program import READY_SECONDS, Program

PREFIX = "gpu_fractioning_"
INTERVAL_SECONDS = 2
"""
The least that metricsd takes.
"""
SHOWN_WITHIN_SECONDS = 30.0


@attrs.frozen
class Sample:
    """
    A line of the page: its labels and its value.
    """

    labels: Mapping[str, str]
    value: float


Samples = Mapping[str, Sequence[Sample]]
"""
By full name.
"""


class Metricsd:
    """
    One metricsd process; `start` after its end runs the next one on the same directories.

    Args:
        directory: Where its output goes, and what stands for /dev lies.
        map_dir: Where the records are.
        state: Of the simulated driver.
        proc_root: Where it finds the processes.
        cgroup_root: Where it finds the cgroups.
        library: Which simulated NVML it finds; the one of r615 where None.
        flags: Further arguments, which win over the ones given here.
    """

    def __init__(
        self,
        *,
        directory: Path,
        map_dir: Path,
        state: StateFile,
        proc_root: Path = Path("/proc"),
        cgroup_root: Path = Path("/sys/fs/cgroup"),
        library: Path | None = None,
        flags: Sequence[str] = (),
    ) -> None:
        try:
            driver = programs.locate()
        except MissingDriver as error:
            raise MissingToolchain(error.path, "simgpu") from error
        arguments = [
            f"--map-dir={map_dir}",
            f"--proc-root={proc_root}",
            f"--cgroup-root={cgroup_root}",
            f"--dev-root={directory / 'dev'}",
            f"--metrics-interval={INTERVAL_SECONDS}s",
            *flags,
        ]
        self._program = Program(
            "metricsd",
            arguments,
            port_flag="--metrics-address=127.0.0.1:",
            directory=directory,
            environ={"LD_LIBRARY_PATH": str((library or driver.library).parent), **state.environ},
        )
        self.port = self._program.port

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._program.end()

    @property
    def service(self) -> Service:
        """
        The process that runs now.
        """
        return self._program.service

    async def start(self) -> None:
        """
        Start the next process; the one before must have ended.
        """
        await self._program.start()

    async def ready(self, *, timeout_seconds: float = READY_SECONDS) -> None:
        """
        Wait until it calls itself ready.
        """
        await self._program.ready(timeout_seconds=timeout_seconds)

    async def not_ready(self, reason: str, *, timeout_seconds: float = READY_SECONDS) -> str:
        """
        Wait until it calls itself not ready with a text in the reason; gives the whole.
        """
        return await self._program.not_ready(reason, timeout_seconds=timeout_seconds)

    async def get(self, path: str) -> HttpResponse:
        """
        Fetch a page of its server.
        """
        return await self._program.get(path)

    async def page(self) -> Samples:
        """
        Read all of `/metrics`.
        """
        return parse((await self.get("/metrics")).body)

    async def samples(self, name: str, **labels: str) -> tuple[Sample, ...]:
        """
        Read the samples of a name behind the common prefix, those alone that have these labels.
        """
        return _chosen(await self.page(), name, labels)

    async def value(self, name: str, **labels: str) -> float:
        """
        Read the one sample of a name behind the common prefix that has these labels.

        Raises:
            LabError: There is none, or more than one.
        """
        found = await self.samples(name, **labels)
        if len(found) != 1:
            raise LabError(f"samples of {PREFIX}{name} with {labels}: {found}, where there is to be one")
        return found[0].value

    async def shows(
        self, what: str, fits: Callable[[Samples], bool], *, timeout_seconds: float = SHOWN_WITHIN_SECONDS
    ) -> Samples:
        """
        Wait until the page fits; gives it.

        Args:
            what: The thing waited for, for the error.
            fits: Judges a page.
            timeout_seconds: How long to keep asking.
        """
        body = ""

        async def ask() -> Samples | None:
            nonlocal body
            body = (await self.get("/metrics")).body
            page = parse(body)
            return page if fits(page) else None

        return await waiting.until_awaited(
            ask,
            what=f"metricsd's page to show {what}",
            timeout_seconds=timeout_seconds,
            details=lambda: f"{_without_comments(body)}\n{self.service.output()}",
        )

    async def shows_value(
        self, name: str, value: float, *, timeout_seconds: float = SHOWN_WITHIN_SECONDS, **labels: str
    ) -> Samples:
        """
        Wait until the one sample of a name with these labels has a value; gives the page.
        """
        return await self.shows(
            f"{name} {labels} {value:g}",
            lambda page: [value] == [sample.value for sample in _chosen(page, name, labels)],
            timeout_seconds=timeout_seconds,
        )

    async def turned(self) -> Samples:
        """
        Wait for the result of a cycle that began after this was asked for; gives the page.
        """
        before = await self._cycles()

        async def has_turned() -> bool:
            # The one under way may have begun before.
            return await self._cycles() >= before + 2

        await waiting.until_awaited(
            has_turned,
            what="metricsd to turn two cycles",
            timeout_seconds=3 * INTERVAL_SECONDS + READY_SECONDS,
            details=self.service.output,
        )
        return await self.page()

    async def _cycles(self) -> float:
        return sum(sample.value for sample in await self.samples("metricsd_cycles_total"))


def parse(body: str) -> Samples:
    """
    Parse a page: samples by name.
    """
    page: dict[str, list[Sample]] = {}
    for family in text_string_to_metric_families(body):
        for sample in family.samples:
            page.setdefault(sample.name, []).append(Sample(sample.labels, sample.value))
    return page


def by_pod(page: Samples, name: str) -> dict[str, float]:
    """
    Give the values of a name behind the common prefix, by pod; of several for one pod, the last.
    """
    return {sample.labels["pod"]: sample.value for sample in page.get(PREFIX + name, ())}


def tells_of_pods(page: Samples) -> bool:
    """
    Tell whether a page has a sample about some pod or container.
    """
    return any("pod" in sample.labels for samples in page.values() for sample in samples)


def _chosen(page: Samples, name: str, labels: Mapping[str, str]) -> tuple[Sample, ...]:
    return tuple(sample for sample in page.get(PREFIX + name, ()) if labels.items() <= sample.labels.items())


def _without_comments(body: str) -> str:
    return "\n".join(line for line in body.splitlines() if not line.startswith("#"))
