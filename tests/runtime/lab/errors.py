"""
What can go wrong in the lab.

    LabError
    ├── MissingToolchain   a program is not there: run scripts/toolchain
    ├── Overdue            what was waited for did not happen in time
    ├── Died               a program ended while it was needed
    ├── CommandFailed      a helper program (ctr, umount) said no
    └── CriError           the runtime refused a call
"""

# ruff: noqa: N818 - the root says that these are errors; the names say which.

from __future__ import annotations


class LabError(Exception):
    """
    The lab could not do what was asked.
    """


class MissingToolchain(LabError):
    """
    A program of the toolchain is not installed.
    """

    def __init__(self, path: object, part: str) -> None:
        super().__init__(path, part)
        self.path = path
        self.part = part

    def __str__(self) -> str:
        return f"{self.path} is not there; make it with: scripts/toolchain {self.part}"


class Overdue(LabError):
    """
    Something awaited did not happen in time.
    """

    def __init__(self, what: str, seconds: float, details: str = "") -> None:
        super().__init__(what, seconds, details)
        self.what = what
        self.seconds = seconds
        self.details = details

    def __str__(self) -> str:
        return f"waited {self.seconds:g} s in vain for {self.what}{_below(self.details)}"


class Died(LabError):
    """
    A program ended while it was still needed.
    """

    def __init__(self, program: str, exit_code: int | None, output: str = "") -> None:
        super().__init__(program, exit_code, output)
        self.program = program
        self.exit_code = exit_code
        self.output = output

    def __str__(self) -> str:
        return f"{self.program} ended with status {self.exit_code}{_below(self.output)}"


class CommandFailed(LabError):
    """
    A helper program ended with an error.
    """

    def __init__(self, argv: tuple[str, ...], exit_code: int, output: str) -> None:
        super().__init__(argv, exit_code, output)
        self.argv = argv
        self.exit_code = exit_code
        self.output = output

    def __str__(self) -> str:
        return f"{' '.join(self.argv)} ended with status {self.exit_code}{_below(self.output)}"


class CriError(LabError):
    """
    The runtime refused a call, or could not be reached.
    """

    def __init__(self, method: str, status: str, message: str) -> None:
        super().__init__(method, status, message)
        self.method = method
        self.status = status
        self.message = message

    def __str__(self) -> str:
        return f"{self.method}: {self.status}: {self.message}"


def _below(text: str) -> str:
    """
    Put the end of a program's output below a message, for this is all that a failed run leaves behind.
    """
    return f":\n{text[-4000:]}" if text else ""
