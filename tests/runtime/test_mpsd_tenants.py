"""
What tenants could do to the control daemon through the directory that they share with it (simulated r615 in front of
the real one).
"""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lab.mpsd import Mpsd
from mpsd import daemonfiles

# Waits for the daemon's own lock to go, and then has it until its input ends.
HOLD = "import fcntl; file = open({!r}, 'r+'); print('waits', flush=True); fcntl.lockf(file, fcntl.LOCK_EX); input()"


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """
    Have a process wait for the lock on a file while entered.
    """
    process = subprocess.Popen(
        [sys.executable, "-IS", "-c", HOLD.format(str(path))], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield
    finally:
        process.kill()
        process.communicate()


class TestDaemonFiles:
    async def test_modes(self, mpsd: Mpsd) -> None:
        """The daemon leaves the mode of its plain files as it found it: nobody but root may open them."""
        modes = {name: stat.S_IMODE((mpsd.pipe_dir / name).stat().st_mode) for name in daemonfiles.NAMES}

        assert dict.fromkeys(daemonfiles.NAMES, 0o600) == modes

    async def test_lock(self, mpsd: Mpsd) -> None:
        """Whoever waits for the daemon's lock does not keep the next daemon from starting."""
        former = mpsd.daemon()
        with locked(mpsd.pipe_dir / "control_lock"):
            os.kill(former, signal.SIGKILL)
            await mpsd.another_daemon(former)
            await mpsd.ready()

            assert mpsd.socket.is_socket()
