"""
The control plane: etcd, kube-apiserver, kube-controller-manager and kube-scheduler, in a network of their own.
"""

from __future__ import annotations

import hashlib
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

import attrs
from apilab.certificates import Certificates
from apilab.controlplane import ISSUER, is_ready
from fractioning_core.kube.incluster import Account
from fractioning_core.kube.tokens import FixedTokens
from fractioning_core.kube.transport import Transport
from lab import waiting
from lab.errors import Died

from clusterlab import configs, network
from clusterlab.layout import Layout
from clusterlab.parts import Parts
from clusterlab.programs import program
from clusterlab.workers import Worker

GATEWAY = "gateway"
ETCD = "etcd"
SERVER = "kube-apiserver"
CONTROLLERS = "kube-controller-manager"
SCHEDULER = "kube-scheduler"
PARTS = (GATEWAY, ETCD, SERVER, CONTROLLERS, SCHEDULER)

_ADMIN = "admin"
_PORT = 443
# 7 s on two idle cores; a suite shares them with whatever else runs.
_READY_SECONDS = 120.0
_GATEWAY_SECONDS = 15.0
_USERS = {_ADMIN: _ADMIN, "controllers": "system:kube-controller-manager", "scheduler": "system:kube-scheduler"}


@attrs.frozen
class ControlPlane:
    """
    The servers of the cluster in one directory.
    """

    layout: Layout
    parts: Parts

    @property
    def certificates(self) -> Certificates:
        """
        Its certificates.
        """
        names = [f"IP:{each}" for each in ("127.0.0.1", network.PLANE_ADDRESS, network.SERVICE_ADDRESS)]
        names += [f"DNS:{each}" for each in ("localhost", "kubernetes.default", "kubernetes.default.svc")]
        return Certificates(self.layout.pki, server_names=tuple(names))

    @property
    def gateway_pid(self) -> int:
        """
        The process that names the network.
        """
        pid = self.parts.pid(GATEWAY)
        if pid is None:
            raise Died(GATEWAY, None, self._log(GATEWAY))
        return pid

    def admin(self) -> Transport:
        """
        Give the way in of one who may do everything; enter it.
        """
        account = Account(
            url=f"https://127.0.0.1:{self.layout.port.read_text()}",
            ca_file=self.certificates.ca,
            token_file=self.layout.pki / "no-token",
        )
        return Transport(account, tokens=FixedTokens(self._token(_ADMIN)), user_agent="clusterlab")

    async def start(self, workers: Sequence[Worker]) -> None:
        """
        Start the network, etcd and the API server; the workers may be started meanwhile.
        """
        self.layout.pki.mkdir(parents=True)
        self.parts.spawn(
            GATEWAY,
            [sys.executable, "-m", "clusterlab.gateway", self.layout.port, network.PLANE_ADDRESS, str(_PORT)],
            environ={"PYTHONPATH": str(Path(__file__).parents[1])},
        )
        await self.certificates.make()
        kubelet_client = (self.layout.pki / "kubelet-client.crt", self.layout.pki / "kubelet-client.key")
        await self.certificates.issue(
            *kubelet_client, "/O=system:masters/CN=kubelet-client", "extendedKeyUsage=clientAuth"
        )
        self._write_tokens(workers)
        await self._gateway()
        self._write_kubeconfigs(workers)
        await network.make_plane(self.gateway_pid)
        self._spawn(ETCD, _etcd(self.layout))
        self.start_server()

    async def finish(self) -> None:
        """
        Wait until the API server serves, and start the others.
        """
        await self.serves()
        config = {"controllers": CONTROLLERS, "scheduler": SCHEDULER}
        for user, name in config.items():
            more = _controllers(self.certificates) if name == CONTROLLERS else []
            self._spawn(name, [program(name), *_component(self.layout.kubeconfig_of(user)), *more])

    def start_server(self) -> None:
        """
        Start the API server on what etcd holds.
        """
        self._spawn(SERVER, _server(self.layout, self.certificates))

    async def stop_server(self) -> None:
        """
        End the API server at once; what it stored stays.
        """
        await self.parts.end(SERVER)

    def check(self, *names: str) -> None:
        """
        See that these of its servers run; by default all.

        Raises:
            Died: One does not.
        """
        for name in names or PARTS:
            if self.parts.pid(name) is None:
                raise Died(name, None, self._log(name))

    async def serves(self) -> None:
        """
        Wait until the API server answers.
        """
        async with self.admin() as api:

            async def answers() -> bool:
                self.check(GATEWAY, ETCD, SERVER)
                # Kubernetes' own controllers end when they are refused, as they are before their roles are there.
                return await is_ready(api)

            await waiting.until_awaited(
                answers, what="the API server", timeout_seconds=_READY_SECONDS, details=lambda: self._log(SERVER)
            )

    async def _gateway(self) -> None:
        def is_there() -> bool:
            return self.gateway_pid > 0 and self.layout.port.exists() and self.layout.port.read_text() != ""

        await waiting.until(is_there, what="the gateway", timeout_seconds=_GATEWAY_SECONDS)

    def _write_tokens(self, workers: Sequence[Worker]) -> None:
        lines = [f"{self._token(user)},{name},{user}" for user, name in _USERS.items()]
        lines[0] += ',"system:masters"'
        lines += [f'{self._token(one.name)},system:node:{one.name},{one.name},"system:nodes"' for one in workers]
        (self.layout.pki / "tokens.csv").write_text("\n".join(lines) + "\n")

    def _write_kubeconfigs(self, workers: Sequence[Worker]) -> None:
        ca = self.certificates.ca
        url = f"https://127.0.0.1:{self.layout.port.read_text()}"
        self.layout.kubeconfig.write_text(configs.kubeconfig(url=url, ca=ca, token=self._token(_ADMIN)))
        for user in (*_USERS, *(one.name for one in workers)):
            path = self.layout.kubeconfig_of(user)
            path.parent.mkdir(exist_ok=True)
            inner = f"https://{network.PLANE_ADDRESS}:{_PORT}"
            path.write_text(configs.kubeconfig(url=inner, ca=ca, token=self._token(user)))

    def _token(self, user: str) -> str:
        """
        Give a user's token: others on this machine can reach the gateway, and must not guess it.
        """
        secret = self.layout.pki / "secret"
        if not secret.exists():
            secret.touch(mode=0o600)
            secret.write_text(secrets.token_hex(32))
        return hashlib.sha256(f"{secret.read_text()} {user}".encode()).hexdigest()

    def _spawn(self, name: str, argv: Sequence[str | Path]) -> None:
        self.parts.spawn(name, [*network.inside(self.gateway_pid), *argv])

    def _log(self, name: str) -> str:
        log = self.parts.log(name)
        return log.read_text(errors="replace") if log.exists() else ""


def _etcd(layout: Layout) -> list[str | Path]:
    client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
    return [
        program("etcd"),
        f"--data-dir={layout.base / 'etcd'}",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        # The data does not outlive the cluster.
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]


def _server(layout: Layout, pki: Certificates) -> list[str | Path]:
    return [
        program(SERVER),
        "--etcd-servers=http://127.0.0.1:2379",
        "--bind-address=0.0.0.0",
        f"--advertise-address={network.PLANE_ADDRESS}",
        f"--secure-port={_PORT}",
        f"--service-cluster-ip-range={network.SERVICE_RANGE}",
        f"--tls-cert-file={pki.server}",
        f"--tls-private-key-file={pki.server_key}",
        f"--client-ca-file={pki.ca}",
        f"--token-auth-file={layout.pki / 'tokens.csv'}",
        f"--service-account-key-file={pki.token_key}",
        f"--service-account-signing-key-file={pki.token_key}",
        f"--service-account-issuer={ISSUER}",
        f"--kubelet-client-certificate={layout.pki / 'kubelet-client.crt'}",
        f"--kubelet-client-key={layout.pki / 'kubelet-client.key'}",
        # Nobody here resolves the names of nodes.
        "--kubelet-preferred-address-types=InternalIP",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        f"--cert-dir={layout.base / 'server'}",
    ]


def _component(kubeconfig: Path) -> list[str]:
    given = [f"--{use}kubeconfig={kubeconfig}" for use in ("", "authentication-", "authorization-")]
    return [*given, "--leader-elect=false", "--bind-address=127.0.0.1"]


def _controllers(pki: Certificates) -> list[str]:
    return [
        f"--root-ca-file={pki.ca}",
        f"--service-account-private-key-file={pki.token_key}",
        "--use-service-account-credentials=true",
        "--controllers=*",
        # A node that is down is noticed within a test's patience; its kubelet tells its state every four seconds.
        "--node-monitor-grace-period=16s",
    ]
