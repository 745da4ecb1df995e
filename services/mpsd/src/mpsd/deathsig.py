"""
Starts a program that is killed when whoever started it dies: `deathsig.py PARENT PROGRAM ARGUMENTS...`.

A file of its own that becomes the program (exec), so the program keeps the process id its supervisor waits for. The
rejected ways: a `preexec_fn` runs Python between fork and exec in a process with threads, which may find a lock held
for ever; `posix_spawn` knows no death signal; `setpriv` is not in every image, and the image may have no shell. This
costs about 25 ms of processor time at each start.

The kernel ties the signal to the thread that forked, not to its process: whoever starts this does it from a thread
that lives as long as the process, which for mpsd is the main thread with its event loop. SIGKILL, because a stopped
control daemon would leave any other signal pending.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
# What a shell answers for a program that cannot be run.
EXIT_NOT_RUNNABLE = 127


def main(argv: list[str]) -> None:
    """
    Arm the signal and become the program.
    """
    parent, program = int(argv[1]), argv[2:]
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    if prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        sys.exit(f"cannot set the parent-death signal: {os.strerror(ctypes.get_errno())}")
    # The parent may have died before the signal was armed; nobody is then left to send it.
    if os.getppid() != parent:
        sys.exit(EXIT_NOT_RUNNABLE)
    try:
        os.execv(program[0], program)  # noqa: S606  no shell: the image may have none
    except OSError as error:
        sys.stderr.write(f"cannot run {program[0]}: {error.strerror}\n")
        sys.exit(EXIT_NOT_RUNNABLE)


if __name__ == "__main__":
    main(sys.argv)
