"""
The FIPS variants, proven inside: what is closed, what is left, and that no process runs outside of the mode asked for.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import attrs
import pytest
import pytest_asyncio
from fractioning_core.service import fips
from imagelab import container
from imagelab.archive import Image, Unpack
from imagelab.container import Container

# Enters the mode as the service's program does, then tries everything, and says what came of it.
PROBE = """
import json, sys
from fractioning_core.service import fips
fips.enter_or_exit()
import hashlib, hmac, importlib, random, socket, ssl, uuid

def tried(make):
    try:
        return bool(make())
    except ValueError:
        return False

def again(module, name):
    sys.modules.pop(module, None)
    return getattr(importlib.import_module(module), name)(b"")

def agrees(port):
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", int(port))) as plain:
        try:
            with context.wrap_socket(plain) as wrapped:
                return bool(wrapped.version())
        except ssl.SSLError:
            return False

built_in = [name for name in sys.builtin_module_names if name.startswith(("_md", "_sha", "_blake", "_hmac"))]
print(json.dumps({
    "hashes": {name: tried(lambda: getattr(hashlib, name)(b"")) for name in sorted(hashlib.algorithms_guaranteed)},
    "by name": {name: tried(lambda: hashlib.new(name, b"")) for name in ("md5", "blake2b", "sm3", "sha256")},
    "not for security": {name: tried(lambda: hashlib.new(name, b"", usedforsecurity=False))
        for name in ("md5", "blake2b")},
    "hmac": {name: tried(lambda: hmac.new(bytes(16), b"", name).digest()) for name in ("md5", "sha256")},
    "imported again": {module: tried(lambda: again(module, name)) for module, name in
        (("_md5", "md5"), ("_blake2", "blake2b"), ("_sha2", "sha256"))},
    "peers": {name: agrees(port) for name, port in (peer.split("=") for peer in sys.argv[1:])},
    "built in, not closed": sorted(set(built_in) - fips.BUILT_IN.keys()),
    "standard library": [random.Random(b"seed").random() > 0, len(str(uuid.uuid4()))],
}))
"""
APPROVED = {"sha1", "sha224", "sha256", "sha384", "sha512"}
APPROVED |= {"sha3_224", "sha3_256", "sha3_384", "sha3_512", "shake_128", "shake_256"}


@attrs.frozen
class Peer:
    """
    A TLS server that can do one thing, outside of any mode.
    """

    name: str
    group: str
    cipher: str = "DEFAULT"
    newest: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3

    def context(self, certificate: Path) -> ssl.SSLContext:
        """
        Make what it serves with.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        context.maximum_version = self.newest
        context.set_ciphers(self.cipher)
        context.set_ecdh_curve(self.group)
        return context


PEERS = (
    Peer("P-256", "prime256v1"),
    Peer("X25519", "X25519"),
    # Which ciphers TLS 1.3 has cannot be chosen.
    Peer("ChaCha20", "prime256v1", "ECDHE-RSA-CHACHA20-POLY1305", ssl.TLSVersion.TLSv1_2),
)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    A key and its certificate in one file.
    """
    folder = tmp_path_factory.mktemp("peer")
    request = ("openssl", "req", "-x509", "-nodes", "-newkey", "rsa:2048", "-subj", "/CN=peer", "-days", "1")
    subprocess.run([*request, "-keyout", folder / "key", "-out", folder / "chain"], check=True, capture_output=True)
    both = folder / "both"
    both.write_text((folder / "key").read_text() + (folder / "chain").read_text())
    return both


@pytest_asyncio.fixture
async def peers(certificate: Path) -> AsyncIterator[Mapping[str, int]]:
    """
    Ports by the names of peers.
    """
    async with AsyncExitStack() as stack:
        ports = {}
        for peer in PEERS:
            server = await asyncio.start_server(_greet, "127.0.0.1", 0, ssl=peer.context(certificate))
            await stack.enter_async_context(server)
            ports[peer.name] = server.sockets[0].getsockname()[1]
        yield ports


async def _greet(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


def agrees(port: int) -> bool:
    """
    Say whether a client in no mode can speak to a peer.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with socket.create_connection(("127.0.0.1", port)) as plain, context.wrap_socket(plain) as wrapped:
        return bool(wrapped.version())


def probe(image: Image, mode: str, scratch: Path, peers: Mapping[str, int]) -> dict[str, object]:
    told = [f"{name}={port}" for name, port in peers.items()]
    status, output = container.run(
        image, "/usr/bin/python3", "-IBc", PROBE, *told, scratch=scratch, environ={fips.MODE_VARIABLE: mode}
    )
    assert 0 == status, output
    found: dict[str, object] = json.loads(output)
    return found


class TestModes:
    @pytest.mark.parametrize("mode", [fips.ON, fips.ONLY])
    async def test_what_is_left(self, fips_image: Image, mode: str, tmp_path: Path, peers: Mapping[str, int]) -> None:
        """
        Approved hashes work; the others are refused by every way that a program takes, Python's own code included.

        Mode `on` differs in one thing: MD5 for a purpose that is said to have nothing to do with security.
        """
        expected = {
            "hashes": {name: name in APPROVED for name in sorted({*APPROVED, "md5", "blake2b", "blake2s"})},
            "by name": {"md5": False, "blake2b": False, "sm3": False, "sha256": True},
            "not for security": {"md5": mode == fips.ON, "blake2b": False},
            "hmac": {"md5": False, "sha256": True},
            "imported again": {"_md5": False, "_blake2": False, "_sha2": True},
            "peers": {"P-256": True, "X25519": False, "ChaCha20": False},
            "built in, not closed": [],
            "standard library": [True, 36],
        }

        assert expected == await asyncio.to_thread(probe, fips_image, mode, tmp_path, peers)

    async def test_peers(self, peers: Mapping[str, int]) -> None:
        """The peers that a client in the mode refuses are ones that others can speak to."""
        answers = {name: await asyncio.to_thread(agrees, port) for name, port in peers.items()}

        assert {"P-256": True, "X25519": True, "ChaCha20": True} == answers

    def test_default(self, fips_image: Image) -> None:
        """The variant is in mode `on` unless a pod says otherwise."""
        assert f"{fips.MODE_VARIABLE}={fips.ON}" in fips_image.config["Env"]

    @pytest.mark.parametrize("mode", [fips.ON, fips.ONLY])
    def test_the_service_starts(self, fips_image: Image, mode: str, tmp_path: Path) -> None:
        """The service itself starts in either mode."""
        program = f"/usr/local/bin/{fips_image.service}"
        status, output = container.run(
            fips_image, program, "--version", scratch=tmp_path, environ={fips.MODE_VARIABLE: mode}
        )

        assert (0, f"{fips_image.service} 0.1.0\n") == (status, output)


class TestStops:
    def test_plain_image(self, unpack: Unpack, tmp_path: Path) -> None:
        """An image without the provider does not run in the mode: it ends, naming what is missing and what to take."""
        image = unpack("mpsd", "")
        status, output = container.run(
            image, "/usr/local/bin/mpsd", scratch=tmp_path, environ={fips.MODE_VARIABLE: fips.ON}
        )

        assert fips.EXIT_NOT_IN_MODE == status
        assert "FIPS provider not loaded" in output
        assert "-fips" in output

    def test_unknown_mode(self, fips_image: Image, tmp_path: Path) -> None:
        """A mode that there is not stops it."""
        status, output = container.run(
            fips_image, f"/usr/local/bin/{fips_image.service}", scratch=tmp_path, environ={fips.MODE_VARIABLE: "onn"}
        )

        assert (fips.EXIT_NOT_IN_MODE, str(fips.UnknownFipsMode("onn")) + "\n") == (status, output)

    @pytest.mark.parametrize(
        "damage",
        [
            pytest.param(lambda root: (root / "etc/ssl/fips/on.cnf").unlink(), id="no configuration"),
            pytest.param(lambda root: (root / "etc/ssl/fips/module.cnf").unlink(), id="no checksum of the provider"),
            pytest.param(
                lambda root: _flip(next(root.glob("usr/lib/*/ossl-modules/fips.so"))), id="a changed provider"
            ),
        ],
    )
    def test_damage(self, damage: object, unpack: Unpack, tmp_path: Path) -> None:
        """Where OpenSSL would run on without FIPS, or with a provider that is not what was installed, it ends."""
        assert callable(damage)
        image = unpack("mpsd", "-fips")
        with Container(image, scratch=tmp_path, arguments=["--version"], before=damage) as stopped:
            status, output = stopped.wait(), stopped.output()

        assert fips.EXIT_NOT_IN_MODE == status, output
        assert "FIPS provider not loaded" in output

    def test_a_hash_loaded_before(self, unpack: Unpack, tmp_path: Path) -> None:
        """A program that has loaded a hash of the interpreter before it enters does not run on."""
        program = "import _md5\nfrom fractioning_core.service import fips\nfips.enter_or_exit()"
        status, output = container.run(unpack("mpsd", "-fips"), "/usr/bin/python3", "-IBc", program, scratch=tmp_path)

        assert (fips.EXIT_NOT_IN_MODE, f"{fips.EnteredTooLate(('_md5',))}\n") == (status, output)


def _flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    # In the middle of the text that the provider checks itself by, and not in what the loader reads.
    content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
