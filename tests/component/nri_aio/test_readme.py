from __future__ import annotations

import asyncio
import inspect
import pathlib
import re
import runpy
from collections.abc import Mapping

import pytest
from nri_aio import mux, serving, session, snapshot, ttrpc
from nri_aio.pb import nri_pb2 as pb
from nri_aio.plugin import Plugin
from nri_aio.testing import FakeRuntime

README = (pathlib.Path(__file__).parents[3] / "libs/nri-aio/README.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def example(tmp_path: pathlib.Path) -> Mapping[str, object]:
    """Give the names of the first example, run as a file."""
    path = tmp_path / "stamp.py"
    path.write_text(BLOCKS[0])
    return runpy.run_path(str(path))


class TestExamples:
    """The code of the README."""

    async def test_plugin(self, socket_path: str, example: Mapping[str, object]) -> None:
        """The first example is a whole plugin that does what is said."""
        main = example["main"]
        assert inspect.iscoroutinefunction(main)
        async with FakeRuntime(socket_path) as runtime, asyncio.TaskGroup() as group:
            running = group.create_task(main(socket_path))
            await runtime.wait_plugins()
            creation = await runtime.create_container(pb.PodSandbox(name="pod"), pb.Container(id="c1"))
            running.cancel()

        assert [pb.KeyValue(key="STAMP", value="pod")] == list(creation.adjust.env)

    async def test_test(self, tmp_path: pathlib.Path, example: Mapping[str, object]) -> None:
        """The example of a test passes."""
        names: dict[str, object] = dict(example)
        exec(compile(BLOCKS[-1], "README.md", "exec"), names)  # noqa: S102 - our own text
        test = names["test_stamp"]
        assert inspect.iscoroutinefunction(test)

        assert await test(tmp_path) is None

    @pytest.mark.parametrize("block", [pytest.param(text, id=text.split("\n")[0]) for text in BLOCKS])
    def test_syntax(self, block: str) -> None:
        """All of it is Python."""
        body = "".join(f"    {line}\n" for line in block.splitlines())

        assert compile(f"async def example():\n{body}", "README.md", "exec").co_names


class TestFacts:
    """What the README says in numbers and names."""

    @pytest.mark.parametrize(
        ("row", "bounds"),
        [
            pytest.param(r"frame received \| 16 MiB \+ 10 ", mux.MAX_PAYLOAD == 16 * 1024**2 + 10, id="frame"),
            pytest.param(r"message received \| 16 MiB ", ttrpc.MAX_RECEIVED == 16 * 1024**2, id="received"),
            pytest.param(r"message sent \| 4 MiB ", ttrpc.MAX_SENT == 4 * 1024**2, id="sent"),
            pytest.param(r"text of a refusal \| 1024 ", ttrpc.MAX_STATUS_TEXT == 1024, id="refusal"),
            pytest.param(r"without an answer \| 256 ", session.MAX_OPEN_REQUESTS == 256, id="requests"),
            pytest.param(r"running as tasks \| 256 ", serving.MAX_TASKS == 256, id="tasks"),
            pytest.param(
                r"\| 20,000, 100,000, 256 MiB ",
                (snapshot.MAX_PODS, snapshot.MAX_CONTAINERS, snapshot.MAX_BYTES) == (20_000, 100_000, 256 * 1024**2),
                id="snapshot",
            ),
        ],
    )
    def test_bounds(self, row: str, bounds: bool) -> None:  # noqa: FBT001 - a column of the table
        """The table of bounds holds the constants' values."""
        assert (True, True) == (bool(re.search(row, README)), bounds)

    def test_every_handler_is_listed(self) -> None:
        """The table of handlers leaves none out, but the one that no runtime calls."""
        handlers = {name for name, _ in inspect.getmembers(Plugin, inspect.isfunction)} - {"shutdown"}

        assert {name for name in handlers if f"`{name}" in README} == handlers
