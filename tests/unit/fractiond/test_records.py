"""The record directory becomes what handlers last said."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, MutableMapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import attrs
import pytest
from fractiond import records as module
from fractiond.metrics import Metrics
from fractiond.records import Records
from fractioning_core.errors import FileUnavailable
from fractioning_core.mapdir import MapDir
from fractioning_core.mapreader import MapReader
from fractioning_core.record import Record
from fractioning_core.testing.builders import a_record

pytestmark = pytest.mark.looptime

Sample = Callable[..., float | None]
Running = Callable[[Records], AbstractAsyncContextManager[asyncio.Task[None]]]
LogLines = list[MutableMapping[str, Any]]


@attrs.define
class Disk:
    """A directory that may be full, slow or read-only."""

    files: dict[str, Record] = attrs.field(factory=dict)
    done: list[tuple[str, str]] = attrs.field(factory=list)
    refused: set[str] = attrs.field(factory=set)
    """Ids whose records it does not take; "*" for all, "sweep" for sweeps."""
    threads: set[int] = attrs.field(factory=set)
    gate: threading.Event = attrs.field(factory=threading.Event)
    """Every write waits until it is set, as it is from the start."""
    writing: threading.Event = attrs.field(factory=threading.Event)

    def __attrs_post_init__(self) -> None:
        self.gate.set()

    def write(self, container_id: str, record: Record) -> None:
        """Take a record, once the gate is open."""
        self.writing.set()
        # A bound against a test that forgets to open the gate.
        assert self.gate.wait(5)
        self._touch("write", container_id)
        self.files[container_id] = record

    def delete(self, container_id: str) -> None:
        """Remove a record."""
        self._touch("delete", container_id)
        self.files.pop(container_id, None)

    def sweep(self, keep: Collection[str]) -> None:
        """Remove all records but these, once the gate is open."""
        self.writing.set()
        assert self.gate.wait(5)
        self._touch("sweep", "sweep")
        self.files = {each: record for each, record in self.files.items() if each in keep}

    def _touch(self, action: str, container_id: str) -> None:
        self.threads.add(threading.get_ident())
        if self.refused & {container_id, "*"}:
            raise FileUnavailable(action, f"/map/{container_id}", "No space left on device")
        self.done.append((action, container_id))


@pytest.fixture
def disk() -> Disk:
    return Disk()


@pytest.fixture
def records(disk: Disk, metrics: Metrics) -> Records:
    return Records(disk, metrics=metrics, log_events=False)


A, B, C = (a_record(pod=name) for name in "abc")


class TestPutAndDrop:
    async def test_what_was_put_and_not_dropped_is_on_disk(
        self, records: Records, disk: Disk, running: Running
    ) -> None:
        """Two records and one removal leave one file."""
        async with running(records):
            records.put("a", A)
            records.put("b", B)
            records.drop("a")
            await records.flush()

        assert {"b": B} == disk.files

    async def test_changes_are_made_in_the_order_they_were_said(
        self, records: Records, disk: Disk, running: Running
    ) -> None:
        """A reader sees containers appear as they were created."""
        async with running(records):
            for each in ("c", "a", "b"):
                records.put(each, A)
            await records.flush()

        assert [("write", "c"), ("write", "a"), ("write", "b")] == disk.done

    async def test_the_same_record_is_written_once(self, records: Records, disk: Disk, running: Running) -> None:
        """A start that shows no new device costs no write."""
        async with running(records):
            records.put("a", A)
            await records.flush()
            records.put("a", a_record(pod="a"))
            await records.flush()

        assert [("write", "a")] == disk.done

    async def test_another_record_of_the_same_container_replaces_it(
        self, records: Records, disk: Disk, running: Running
    ) -> None:
        """Devices that showed at the start are written over the record of the creation."""
        async with running(records):
            records.put("a", A)
            await records.flush()
            records.put("a", B)
            await records.flush()

        assert {"a": B} == disk.files

    async def test_dropping_an_unknown_container_touches_nothing(
        self, records: Records, disk: Disk, running: Running
    ) -> None:
        """Most removals on a node are of containers without a record."""
        async with running(records):
            records.drop("a")
            await records.flush()

        assert [] == disk.done

    async def test_files_are_touched_in_another_thread(self, records: Records, disk: Disk, running: Running) -> None:
        """A slow disk does not hold up the loop that answers the runtime."""
        async with running(records):
            records.put("a", A)
            records.retain(["a"])
            await records.flush()
            records.drop("a")
            await records.flush()

        assert {("sweep", "sweep"), ("write", "a"), ("delete", "a")} == set(disk.done)
        assert threading.get_ident() not in disk.threads


class TestReplace:
    async def test_exactly_the_given_ones_are_left(self, records: Records, disk: Disk, running: Running) -> None:
        """What a fractiond before us left behind goes, what is kept stays, what is new comes."""
        disk.files = {"stale": A, "keep": B}
        async with running(records):
            records.replace({"keep": B, "fresh": C}, spare=())
            await records.flush()

        assert {"keep": B, "fresh": C} == disk.files

    async def test_a_record_of_the_creation_does_not_replace_that_of_the_start(
        self, records: Records, disk: Disk, running: Running
    ) -> None:
        """What is put off after an answer may come after what the next event said."""
        async with running(records):
            records.put("a", B)
            records.put_new("a", A)
            records.put_new("c", C)
            await records.flush()

        assert {"a": B, "c": C} == disk.files

    async def test_those_to_spare_stay_as_they_are(self, records: Records, disk: Disk, running: Running) -> None:
        """A container that could not be judged this time keeps the record it has."""
        disk.files = {"stale": A, "unclear": B}
        async with running(records):
            records.replace({"fresh": C}, spare=["unclear"])
            await records.flush()

        assert {"fresh": C, "unclear": B} == disk.files

    async def test_a_record_that_the_disk_lost_is_written_again(
        self, records: Records, disk: Disk, running: Running
    ) -> None:
        """Memory and disk may differ after somebody cleaned up; a synchronise mends it."""
        async with running(records):
            records.put("a", A)
            await records.flush()
            disk.files.clear()
            records.replace({"a": A}, spare=())
            await records.flush()

        assert {"a": A} == disk.files

    async def test_with_none_everything_goes(self, records: Records, disk: Disk, running: Running) -> None:
        """A node without fractional containers has no records."""
        disk.files = {"stale": A}
        async with running(records):
            records.put("a", A)
            records.replace({}, spare=())
            await records.flush()

        assert {} == disk.files


class TestRetain:
    async def test_containers_that_do_not_exist_lose_memory_and_file(
        self, records: Records, disk: Disk, running: Running
    ) -> None:
        """CRI's list decides what is gone; nothing is written for what stays."""
        disk.files = {"old": C}
        async with running(records):
            records.put("a", A)
            records.put("b", B)
            await records.flush()
            disk.done.clear()
            records.retain(["b", "other"])
            await records.flush()

        assert {"b": B} == disk.files
        assert ("write", "b") not in disk.done

    async def test_a_record_put_since_survives_the_sweep(self, records: Records, disk: Disk, running: Running) -> None:
        """A container created while CRI was listing is not swept away."""
        async with running(records):
            records.retain(["a"])
            records.put("new", A)
            await records.flush()

        assert {"new": A} == disk.files

    async def test_a_record_put_since_survives_a_sweep_that_comes_late(
        self, records: Records, disk: Disk, running: Running
    ) -> None:
        """A sweep that has to be tried again does not go by a list that is old by then."""
        disk.refused = {"sweep"}
        async with running(records):
            records.retain([])
            records.put("new", A)
            await asyncio.sleep(0.4)
            disk.refused.clear()
            await records.flush()

        assert {"new": A} == disk.files

    async def test_a_second_list_during_a_sweep_is_swept_by_too(
        self, records: Records, disk: Disk, running: Running
    ) -> None:
        """What the later list says is gone goes, though a sweep by the earlier one was under way."""
        disk.files = {"a": A, "b": B}
        disk.gate.clear()
        async with running(records):
            records.retain(["a", "b"])
            await asyncio.to_thread(disk.writing.wait, 5)
            records.retain(["b"])
            disk.gate.set()
            await records.flush()

        assert {"b": B} == disk.files

    async def test_files_of_containers_that_exist_but_are_not_known_stay(
        self, records: Records, disk: Disk, running: Running
    ) -> None:
        """After a runtime's restart with an empty list the records of what still runs are left alone."""
        disk.files = {"a": A}
        async with running(records):
            records.retain(["a"])
            await records.flush()

        assert {"a": A} == disk.files


class TestADiskThatRefuses:
    async def test_one_bad_record_does_not_keep_the_others(
        self, records: Records, disk: Disk, running: Running, sample: Sample
    ) -> None:
        """What can be written is, and the failure is counted."""
        disk.refused = {"a"}
        async with running(records):
            records.put("a", A)
            records.put("b", B)
            await asyncio.sleep(0.4)

        assert ({"b": B}, 1, 1.0) == (disk.files, records.depth, sample("record_errors_total"))

    async def test_it_is_tried_again_ever_more_slowly_until_there_is_room(
        self, records: Records, disk: Disk, running: Running, sample: Sample
    ) -> None:
        """A full disk costs time and nothing else."""
        disk.refused = {"*"}
        async with running(records):
            records.put("a", A)
            await asyncio.sleep(60)
            tries = sample("record_errors_total")
            disk.refused.clear()
            await records.flush()

        # After 0, 0.5, 1.5, 3.5, 7.5, 15.5, 30.5 and 45.5 s.
        assert (8.0, {"a": A}, 0) == (tries, disk.files, records.depth)

    async def test_after_a_success_the_wait_is_short_again(
        self, records: Records, disk: Disk, running: Running, sample: Sample
    ) -> None:
        """A hiccup next week is not met with last week's patience."""
        disk.refused = {"*"}
        async with running(records):
            records.put("a", A)
            await asyncio.sleep(60)
            disk.refused.clear()
            await records.flush()
            before = sample("record_errors_total") or 0.0
            disk.refused = {"b"}
            records.put("b", B)
            await asyncio.sleep(1.6)

        assert 3.0 == (sample("record_errors_total") or 0.0) - before

    async def test_a_sweep_that_fails_is_tried_again(
        self, records: Records, disk: Disk, running: Running, sample: Sample
    ) -> None:
        """Stale files do not stay because the directory could not be listed once."""
        disk.files, disk.refused = {"stale": A}, {"sweep"}
        async with running(records):
            records.retain([])
            await asyncio.sleep(0.4)
            disk.refused.clear()
            await records.flush()

        assert ({}, 1.0) == (disk.files, sample("record_errors_total"))

    async def test_a_removal_that_fails_is_tried_again(self, records: Records, disk: Disk, running: Running) -> None:
        """A container that is gone does not stay in the metrics for good."""
        async with running(records):
            records.put("a", A)
            await records.flush()
            disk.refused = {"a"}
            records.drop("a")
            await asyncio.sleep(0.4)
            disk.refused.clear()
            await records.flush()

        assert {} == disk.files


class TestAChangeDuringAWrite:
    @pytest.mark.parametrize(
        ("change", "expected"),
        [
            pytest.param(lambda records: records.put("a", B), {"a": B}, id="another record"),
            pytest.param(lambda records: records.drop("a"), {}, id="removal"),
            pytest.param(lambda records: records.retain([]), {}, id="found to be gone"),
        ],
    )
    async def test_the_last_word_counts(
        self,
        records: Records,
        disk: Disk,
        running: Running,
        change: Callable[[Records], None],
        expected: dict[str, Record],
    ) -> None:
        """What was said while a thread was writing is done after it."""
        disk.gate.clear()
        async with running(records):
            records.put("a", A)
            await asyncio.to_thread(disk.writing.wait, 5)
            change(records)
            disk.gate.set()
            await records.flush()

        assert expected == disk.files


class TestFlush:
    async def test_it_waits_for_everything(self, records: Records, disk: Disk, running: Running) -> None:
        """Fifty records are on disk when it returns."""
        async with running(records):
            for number in range(50):
                records.put(f"c{number}", A)
            await records.flush()

        assert (50, 0) == (len(disk.files), records.depth)

    async def test_it_returns_at_once_where_nothing_is_due(self, records: Records) -> None:
        """A fractiond that wrote nothing shuts down without a worker."""
        await records.flush()

        assert 0 == records.depth

    async def test_it_does_not_pretend(self, records: Records, disk: Disk, running: Running) -> None:
        """On a disk that takes nothing it waits, and the caller sets the bound."""
        disk.refused = {"*"}
        async with running(records):
            records.put("a", A)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(2):
                    await records.flush()

        assert 1 == records.depth

    async def test_it_waits_for_a_sweep(self, records: Records, disk: Disk, running: Running) -> None:
        """A removal of stale files is work too."""
        disk.files = {"stale": A}
        async with running(records):
            records.retain([])
            await records.flush()

        assert {} == disk.files


class TestBound:
    async def test_past_the_bound_a_new_container_is_dropped_and_counted(
        self, records: Records, sample: Sample, log: LogLines
    ) -> None:
        """A runtime gone mad costs records, not memory."""
        for number in range(module.MAX_RECORDS + 1):
            records.put(f"c{number}", A)

        assert (module.MAX_RECORDS, 1.0) == (records.depth, sample("records_dropped_total"))
        assert ["record_dropped"] == [line["event"] for line in log]

    async def test_one_that_is_held_can_still_change(self, records: Records, sample: Sample) -> None:
        """The bound is on containers, not on changes."""
        for number in range(module.MAX_RECORDS):
            records.put(f"c{number}", A)
        records.put("c0", B)

        assert 0.0 == sample("records_dropped_total")

    async def test_a_removal_makes_room(self, records: Records, sample: Sample) -> None:
        """A node that runs containers for years never runs into the bound."""
        for number in range(module.MAX_RECORDS * 2):
            records.put(f"c{number}", A)
            records.drop(f"c{number}")

        assert 0.0 == sample("records_dropped_total")


class TestLog:
    @pytest.mark.parametrize(
        ("wanted", "events"),
        [
            pytest.param(True, [("record_written", "a"), ("record_removed", None)], id="on"),
            pytest.param(False, [], id="off"),
        ],
    )
    async def test_events_are_logged_where_that_is_wanted(
        self,
        disk: Disk,
        metrics: Metrics,
        running: Running,
        log: LogLines,
        wanted: bool,  # noqa: FBT001  a row of the table
        events: list[tuple[str, str | None]],
    ) -> None:
        """One line for each file that came or went, and none on a node that is not asked."""
        records = Records(disk, metrics=metrics, log_events=wanted)
        async with running(records):
            records.put("x", A)
            await records.flush()
            records.drop("x")
            await records.flush()

        assert events == [(line["event"], line["pod"]) for line in log]


class TestARealDirectory:
    async def test_files_come_and_go(self, tmp_path: Path, metrics: Metrics, running: Running) -> None:
        """With the directory that fractiond uses, exactly the wanted files are there."""
        directory = MapDir(tmp_path / "map")
        directory.write("stale", A)
        records = Records(directory, metrics=metrics, log_events=False)
        async with running(records):
            records.replace({"a": A, "b": B}, spare=())
            await records.flush()
            records.drop("b")
            await records.flush()

        assert ["a.json"] == [path.name for path in (tmp_path / "map").iterdir()]
        assert ({"a": A}, ()) == MapReader(directory.path).read()
