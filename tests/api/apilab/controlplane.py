"""
A private control plane: etcd and kube-apiserver, each on a free port of loopback.

    async with ControlPlane() as plane, plane.admin() as api:
        await objects.create_node(api, "node-a")
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Self

import attrs
from fractioning_core.errors import FractioningError
from fractioning_core.kube.incluster import Account
from fractioning_core.kube.tokens import FixedTokens
from fractioning_core.kube.transport import Request, Transport
from lab import waiting
from lab.errors import Died, LabError, MissingToolchain
from lab.process import Service
from lab.toolchain import PROGRAMS

from apilab.certificates import Certificates

# 7 s on two idle cores; a suite shares them with whatever else runs.
READY_SECONDS = 120.0
ISSUER = "https://kubernetes.default.svc"
_SILENCE_SECONDS = 5.0
_ADMIN_TOKEN = "admin-of-the-lab"  # noqa: S105 - of a server that lives for one test run, on loopback
# Who a ServiceAccount is and what it asked for, without bodies. The lab's own requests would only swell the log.
_AUDIT_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}


class ControlPlane:
    """
    Both servers, on a directory of their own that goes with them.

    Args:
        flags: Further arguments of the API server.
    """

    def __init__(self, *, flags: Sequence[str] = ()) -> None:
        self._etcd_program = program("etcd")
        self._server_program = program("kube-apiserver")
        self.directory = Path(tempfile.mkdtemp(prefix="apilab-"))
        self.certificates = Certificates(self.directory / "pki")
        self.port = free_port()
        self.kubeconfig = self.directory / "kubeconfig.json"
        """
        The administrator's way in, for other programs.
        """
        self.audit_log = self.directory / "audit.log"
        """
        What ServiceAccounts have asked for.
        """
        self._flags = flags
        self._etcd_ports = free_port(), free_port()
        self._stack = AsyncExitStack()
        self._server: Service | None = None
        self._etcd: Service | None = None
        self._starts = 0

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        self._stack.callback(shutil.rmtree, self.directory, ignore_errors=True)
        try:
            await self.certificates.make()
            tokens = self.directory / "tokens.csv"
            tokens.write_text(f'{_ADMIN_TOKEN},admin,admin,"system:masters"\n')
            self._audit_policy.write_text(json.dumps(_AUDIT_POLICY))
            self.kubeconfig.write_text(json.dumps(_kubeconfig(self.account, _ADMIN_TOKEN)))
            self._stack.push_async_callback(self.stop_etcd)
            await self.start_etcd()
            self._stack.push_async_callback(self.stop)
            await self.start()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    @property
    def account(self) -> Account:
        """
        Where the API server is, for whoever has a token of its own.
        """
        return Account(
            url=f"https://127.0.0.1:{self.port}",
            ca_file=self.certificates.ca,
            token_file=self.directory / "no-token",
        )

    @property
    def is_running(self) -> bool:
        """
        Whether the API server was started and not stopped since.
        """
        return self._server is not None

    def admin(self, *, url: str = "") -> Transport:
        """
        Give the way in of one who may do everything; enter it.

        Args:
            url: Where to find the API server; by default where it is.
        """
        account = attrs.evolve(self.account, url=url) if url else self.account
        return Transport(account, tokens=FixedTokens(_ADMIN_TOKEN), user_agent="apilab")

    def with_token(self, token: str) -> Transport:
        """
        Give the way in of whoever has this token; enter it.
        """
        return Transport(self.account, tokens=FixedTokens(token), user_agent="apilab")

    async def start(self) -> None:
        """
        Start the API server on the data that etcd holds, and wait until it serves.
        """
        self._starts += 1
        server = Service(f"kube-apiserver-{self._starts}", self._server_argv(), directory=self.directory)
        self._server = await server.__aenter__()
        async with self.admin() as api:

            async def serves() -> bool:
                if server.exit_code is not None:
                    raise Died(server.name, server.exit_code, server.output())
                return await is_ready(api)

            await waiting.until_awaited(
                serves, what="the API server", timeout_seconds=READY_SECONDS, details=server.output
            )

    async def stop(self) -> None:
        """
        Stop the API server; what it stored stays.
        """
        server, self._server = self._server, None
        if server is not None:
            await server.end()

    def output(self) -> str:
        """
        Read what the running API server has written.
        """
        if self._server is None:
            raise LabError("the API server does not run")
        return self._server.output()

    async def start_etcd(self) -> None:
        """
        Start etcd on what it has stored.
        """
        self._starts += 1
        client, peer = (f"http://127.0.0.1:{port}" for port in self._etcd_ports)
        argv: list[str | Path] = [
            self._etcd_program,
            f"--data-dir={self.directory / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            # The data does not outlive the test run.
            "--unsafe-no-fsync",
            "--quota-backend-bytes=4294967296",
            "--log-level=warn",
        ]
        etcd = Service(f"etcd-{self._starts}", argv, directory=self.directory)
        self._etcd = await etcd.__aenter__()

    async def stop_etcd(self) -> None:
        """
        Stop etcd; the API server stays, and can answer nothing.
        """
        etcd, self._etcd = self._etcd, None
        if etcd is not None:
            await etcd.end()

    @property
    def _audit_policy(self) -> Path:
        return self.directory / "audit-policy.json"

    def _server_argv(self) -> list[str | Path]:
        pki = self.certificates
        return [
            self._server_program,
            f"--etcd-servers=http://127.0.0.1:{self._etcd_ports[0]}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--tls-cert-file={pki.server}",
            f"--tls-private-key-file={pki.server_key}",
            f"--client-ca-file={pki.ca}",
            f"--token-auth-file={self.directory / 'tokens.csv'}",
            f"--service-account-key-file={pki.token_key}",
            f"--service-account-signing-key-file={pki.token_key}",
            f"--service-account-issuer={ISSUER}",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--authorization-mode=RBAC",
            # An address of loopback cannot be an endpoint of the service, and nobody looks for it there.
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self.directory / 'run'}",
            "--allow-privileged=true",
            # Nobody would take the taint of a new node away: that is the node lifecycle controller, which is not run.
            "--disable-admission-plugins=TaintNodesByCondition",
            f"--audit-policy-file={self._audit_policy}",
            f"--audit-log-path={self.audit_log}",
            # Whoever reads it goes by places in it; by default a new one is begun after 100 MB.
            "--audit-log-maxsize=10000",
            *self._flags,
        ]


def free_port() -> int:
    """
    Find a port that nobody listens on now.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def is_ready(api: Transport) -> bool:
    """
    Tell whether an API server says that it is ready: before, it answers, and its own roles may not be there yet.
    """
    try:
        async with api.stream(Request("GET", "/readyz", accept="*/*"), silence_seconds=_SILENCE_SECONDS) as chunks:
            async for _ in chunks:
                pass
    except FractioningError:
        return False
    return True


def _kubeconfig(account: Account, token: str) -> Mapping[str, Any]:
    cluster = {"server": account.url, "certificate-authority": str(account.ca_file)}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "lab", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "admin"}}],
        "current-context": "lab",
    }


def program(name: str, part: str = "api") -> Path:
    """
    Find a program that a part of the toolchain makes.

    Raises:
        MissingToolchain: It has not been made.
    """
    path = PROGRAMS / name / name
    if not os.access(path, os.X_OK):
        raise MissingToolchain(path, part)
    return path
