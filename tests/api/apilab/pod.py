"""
What the kubelet gives a container that talks to the API server.
"""

from __future__ import annotations

import copy
import shutil
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlsplit

from fractioning_core.kube.incluster import ACCOUNT_DIR, HOST_VARIABLE, PORT_VARIABLE


class Pod:
    """
    The mounted account and the variables of one pod.

    Args:
        directory: Where the files go.
        url: Where the pod finds the API server.
        ca: The certificate authority of that server.
        token: The first token.
    """

    def __init__(self, directory: Path, *, url: str, ca: Path, token: str) -> None:
        self.directory = directory
        self._url = urlsplit(url)
        self._swaps = 0
        directory.mkdir(parents=True)
        shutil.copy(ca, directory / "ca.crt")
        (directory / "token").symlink_to("..data/token")
        self.swap(token)

    def at(self, url: str) -> Pod:
        """
        Give the same pod in a cluster whose API server is elsewhere.
        """
        other = copy.copy(self)
        other._url = urlsplit(url)
        return other

    @property
    def environ(self) -> Mapping[str, str]:
        """
        The variables.
        """
        return {HOST_VARIABLE: str(self._url.hostname), PORT_VARIABLE: str(self._url.port)}

    @property
    def seen(self) -> Mapping[Path, Path]:
        """
        Where a container finds the mounted account.
        """
        return {ACCOUNT_DIR: self.directory}

    @property
    def token(self) -> str:
        """
        The token that lies there now.
        """
        return (self.directory / "token").read_text()

    def swap(self, token: str) -> None:
        """
        Put another token in place as the kubelet does: in a new directory to which a link is then moved.
        """
        self._swaps += 1
        fresh = self.directory / f"..data-{self._swaps}"
        fresh.mkdir()
        (fresh / "token").write_text(token)
        link = self.directory / "..data_tmp"
        link.symlink_to(fresh.name)
        link.rename(self.directory / "..data")
