"""
The certificates of a control plane, made by the openssl program.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

import attrs
from lab.errors import CommandFailed

_DAYS = "2"
_CURVE = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


@attrs.frozen
class Certificates:
    """
    Files of one control plane.

    Args:
        directory: Where they go.
        server_names: Addresses and names of the server, as a certificate spells them.
    """

    directory: Path
    server_names: tuple[str, ...] = ("IP:127.0.0.1", "DNS:localhost")

    @property
    def ca(self) -> Path:
        """
        The certificate authority.
        """
        return self.directory / "ca.crt"

    @property
    def ca_key(self) -> Path:
        """
        Its key.
        """
        return self.directory / "ca.key"

    @property
    def server(self) -> Path:
        """
        The certificate of whoever serves the API.
        """
        return self.directory / "server.crt"

    @property
    def server_key(self) -> Path:
        """
        Its key.
        """
        return self.directory / "server.key"

    @property
    def token_key(self) -> Path:
        """
        The key that signs ServiceAccount tokens.
        """
        return self.directory / "token.key"

    async def make(self) -> None:
        """
        Make them all.
        """
        self.directory.mkdir(parents=True, exist_ok=True)
        # Python 3.13 trusts no authority that does not say what its key is for.
        uses = "keyUsage=critical,digitalSignature,keyCertSign,cRLSign"
        await self._request(self.ca, self.ca_key, "-subj", "/CN=lab-ca", "-addext", uses)
        alternatives = f"subjectAltName={','.join(self.server_names)}"
        await self.issue(self.server, self.server_key, "/CN=lab-api-server", alternatives)
        await _openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self.token_key)

    async def issue(self, certificate: Path, key: Path, subject: str, extension: str) -> None:
        """
        Make one more certificate of this authority.
        """
        await self._request(
            *(certificate, key, "-subj", subject, "-CA", self.ca, "-CAkey", self.ca_key),
            *("-addext", extension, "-addext", "basicConstraints=CA:FALSE"),
        )

    async def _request(self, certificate: Path, key: Path, *more: str | Path) -> None:
        await _openssl("req", "-x509", *_CURVE, "-days", _DAYS, "-keyout", key, "-out", certificate, *more)


async def _openssl(*arguments: str | Path) -> None:
    argv = ("openssl", *map(str, arguments))
    process = await asyncio.create_subprocess_exec(
        *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    output, _ = await process.communicate()
    if process.returncode:
        raise CommandFailed(argv, process.returncode, output.decode(errors="replace"))
