"""
The control daemon's command line: how it is started, how it is asked, and how its client list is read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import attrs
from fractioning_core import names

ENV_LOG_DIRECTORY = "CUDA_MPS_LOG_DIRECTORY"
# CSV, because the table format cuts a PID of seven digits short.
LIST_CLIENTS = ("client", "list", "--format=csv,noheader")
# The kernel's own limit (PID_MAX_LIMIT on 64 bits).
HIGHEST_PID = 4_194_304
_PID = re.compile(r"0*([0-9]{1,7})")


@attrs.frozen
class CommandLine:
    """
    What every call of the program has in common.

    Args:
        binary: The program.
        protocol: Value of `-p`; empty passes none.
        pipe_dir: Where the daemon's sockets are.
        log_dir: Where it logs.
    """

    binary: str
    protocol: str
    pipe_dir: str
    log_dir: str

    def daemon(self, *, multiuser: bool, config_path: str) -> tuple[str, ...]:
        """
        Give the arguments of the daemon in the foreground.

        Args:
            multiuser: Serve clients of every user, by servers that root owns.
            config_path: Value of `-a`; empty passes none.
        """
        users = ("-m",) if multiuser else ()
        config = ("-a", config_path) if config_path else ()
        return (self.binary, *self._protocol(), *users, "-f", *config)

    def command(self, *words: str) -> tuple[str, ...]:
        """
        Give the arguments of one command to the running daemon.
        """
        return (self.binary, *self._protocol(), *words)

    def environment(self, inherited: Mapping[str, str]) -> dict[str, str]:
        """
        Add the two directories to an environment, which is otherwise passed on whole: where the driver's libraries
        lie is often known from it alone.
        """
        return {**inherited, names.ENV_MPS_PIPE_DIRECTORY: self.pipe_dir, ENV_LOG_DIRECTORY: self.log_dir}

    def _protocol(self) -> tuple[str, ...]:
        return ("-p", self.protocol) if self.protocol else ()


def terminate_client(pid: int) -> tuple[str, ...]:
    """
    Give the words of the command that blocks a client's new work and waits for what it has under way.
    """
    return ("client", "terminate", str(pid))


def parse_clients(text: str) -> tuple[int, ...]:
    """
    Read process ids from the client list: the first CSV field of each line, each once, in their order.

    Lines that begin with no process id are passed over, for the daemon also says things in prose.
    """
    first_fields = (line.partition(",")[0].strip() for line in text.splitlines())
    found = (_pid(field) for field in first_fields)
    return tuple(dict.fromkeys(pid for pid in found if pid is not None))


def _pid(field: str) -> int | None:
    digits = _PID.fullmatch(field)
    pid = int(digits[1]) if digits else 0
    return pid if 1 <= pid <= HIGHEST_PID else None
