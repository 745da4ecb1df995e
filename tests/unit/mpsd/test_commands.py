"""Command lines, environment, and the client list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpsd import commands
from mpsd.commands import HIGHEST_PID, CommandLine

LINE = CommandLine(binary="/b", protocol="3", pipe_dir="/pipe", log_dir="/log")


class TestDaemon:
    @pytest.mark.parametrize(
        ("protocol", "multiuser", "config", "arguments"),
        [
            pytest.param("3", True, "/c.toml", "-p 3 -m -f -a /c.toml", id="production"),
            pytest.param("", True, "/c.toml", "-m -f -a /c.toml", id="no protocol"),
            pytest.param("3", True, "", "-p 3 -m -f", id="no configuration"),
            pytest.param("3", False, "/c.toml", "-p 3 -f -a /c.toml", id="one user"),
            pytest.param("", False, "", "-f", id="nothing"),
        ],
    )
    def test_arguments(self, protocol: str, multiuser: bool, config: str, arguments: str) -> None:  # noqa: FBT001
        """What is empty or off is left out, and -f always stays."""
        line = CommandLine(binary="/b", protocol=protocol, pipe_dir="/pipe", log_dir="/log")

        assert ("/b", *arguments.split()) == line.daemon(multiuser=multiuser, config_path=config)


class TestCommand:
    def test_the_protocol_comes_first(self) -> None:
        """A command is spoken in the same protocol as the daemon's."""
        assert ("/b", "-p", "3", "client", "list", "--format=csv,noheader") == LINE.command(*commands.LIST_CLIENTS)

    def test_termination_names_the_process(self) -> None:
        """The process id is an argument of its own."""
        assert ("client", "terminate", "4194304") == commands.terminate_client(4194304)


class TestEnvironment:
    def test_both_directories_are_set_and_the_rest_passed_on(self) -> None:
        """What we were started with stays, but for the two directories."""
        found = LINE.environment({"PATH": "/p", "CUDA_MPS_PIPE_DIRECTORY": "/former"})

        assert {"PATH": "/p", "CUDA_MPS_PIPE_DIRECTORY": "/pipe", "CUDA_MPS_LOG_DIRECTORY": "/log"} == found


class TestParseClients:
    @pytest.mark.parametrize(
        ("text", "pids"),
        [
            pytest.param("", (), id="nothing"),
            pytest.param("12,shared,default\n", (12,), id="one line"),
            pytest.param("77\n12\n77\n12\n99\n", (77, 12, 99), id="each once, in order"),
            pytest.param("No clients are attached\n12\n", (12,), id="prose"),
            pytest.param("0\n-5\n12.34\nabc123\n4194305\n99999999999999999999\n", (), id="no process ids"),
            pytest.param("0007\n", (7,), id="zeros in front"),
            pytest.param("4194304, x", (4194304,), id="the highest, without a line's end"),
            pytest.param(" 5 ,x\r\n", (5,), id="spaces and carriage returns"),
            pytest.param("\uff15,x\n", (), id="full-width digit"),
            pytest.param("316...  shared  default\n", (), id="the table, cut short"),
        ],
    )
    def test_table(self, text: str, pids: tuple[int, ...]) -> None:
        """Only the first field counts, and only when it is a process id."""
        assert pids == commands.parse_clients(text)

    @given(st.lists(st.integers(1, HIGHEST_PID), unique=True))
    def test_what_was_listed_is_what_is_read(self, pids: list[int]) -> None:
        """Any process ids come back in their order."""
        assert tuple(pids) == commands.parse_clients("".join(f"{pid},shared,default\n" for pid in pids))

    @given(st.text())
    def test_any_text_gives_process_ids(self, text: str) -> None:
        """Whatever is said, nothing but possible process ids comes of it."""
        assert all(1 <= pid <= HIGHEST_PID for pid in commands.parse_clients(text))
