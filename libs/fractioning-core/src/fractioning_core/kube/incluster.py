"""
Where the API server is and who we are, for a process in a pod.

The kubelet sets two variables and mounts three files into every container; a token file is replaced before its token
ends, which `tokens` deals with.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Self

import attrs

from fractioning_core.kube.errors import NotInCluster

ACCOUNT_DIR = Path("/var/run/secrets/kubernetes.io/serviceaccount")
HOST_VARIABLE = "KUBERNETES_SERVICE_HOST"
PORT_VARIABLE = "KUBERNETES_SERVICE_PORT"

# An address or a DNS name. An IPv6 address has colons, and a zone behind a percent sign.
_HOST = re.compile(r"[A-Za-z0-9.:%_-]{1,253}")
_PORT = re.compile(r"[0-9]{1,5}")
_MAX_PORT = 65535


@attrs.frozen
class Account:
    """
    A way to the API server.

    Args:
        url: Scheme, host and port.
        ca_file: Certificate authority that the server's certificate comes from.
        token_file: Where the bearer token lies.
    """

    url: str
    ca_file: Path
    token_file: Path

    @classmethod
    def from_environ(cls, environ: Mapping[str, str], *, directory: Path = ACCOUNT_DIR) -> Self:
        """
        Read what the kubelet tells; the files themselves are read when they are needed.

        Args:
            environ: The environment.
            directory: Where the ServiceAccount's files are mounted.

        Raises:
            NotInCluster: A variable is missing or malformed.
        """
        host = _read(environ, HOST_VARIABLE, _HOST, "an address or a DNS name")
        port = _read(environ, PORT_VARIABLE, _PORT, f"a number from 1 to {_MAX_PORT}")
        if not 0 < int(port) <= _MAX_PORT:
            raise NotInCluster(PORT_VARIABLE, port, f"a number from 1 to {_MAX_PORT}")
        bracketed = f"[{host}]" if ":" in host else host
        return cls(url=f"https://{bracketed}:{port}", ca_file=directory / "ca.crt", token_file=directory / "token")


def _read(environ: Mapping[str, str], variable: str, form: re.Pattern[str], accepted: str) -> str:
    text = environ.get(variable, "")
    if not form.fullmatch(text):
        raise NotInCluster(variable, text, accepted)
    return text
