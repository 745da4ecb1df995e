"""
OCI images made by hand from static busybox, since there is no registry to pull from.

An image archive is an OCI layout in a tar file: `oci-layout`, `index.json` and blobs named by their digests
(image-spec, "Image Layout"). All images of one archive share the one layer, which is stored uncompressed:
compressing it would take longer than everything else together.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import subprocess
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import attrs

from lab.toolchain import BUSYBOX

_DIRECTORIES = ("bin", "etc", "tmp", "proc", "sys", "dev", "run", "var")
_MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
_CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
_LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@attrs.frozen
class Image:
    """
    An image: its name with tag, what it runs, and the environment it brings along ("NAME=value").
    """

    name: str
    command: tuple[str, ...] = ("/bin/sleep", "1000000")
    env: tuple[str, ...] = ()


PAUSE = Image("localhost/pause:1")
BUSYBOX_IMAGE = Image("localhost/busybox:1")


def build(name: str, out: Path, *, cmd: Sequence[str], env: Sequence[str] = ()) -> None:
    """
    Write an archive with a single image.

    Args:
        name: Name with tag, such as `localhost/busybox:1`.
        out: The archive to write.
        cmd: What a container runs that names no command.
        env: "NAME=value" texts, which the container gets before those of the pod.
    """
    write_archive([Image(name, tuple(cmd), tuple(env))], out)


def write_archive(images: Iterable[Image], out: Path) -> None:
    """
    Write an archive that `ctr images import` takes.
    """
    layer = _layer()
    blobs = {_digest(layer): layer}
    manifests = [_add_image(image, layer, blobs) for image in images]
    index = _json({"schemaVersion": 2, "manifests": manifests})
    with tarfile.open(out, "w") as archive:
        _add_file(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add_file(archive, "index.json", index)
        for digest, content in blobs.items():
            _add_file(archive, f"blobs/{digest.replace(':', '/')}", content)


def _add_image(image: Image, layer: bytes, blobs: dict[str, bytes]) -> Mapping[str, object]:
    config = _json(
        {
            "architecture": _ARCHITECTURES[platform.machine()],
            "os": "linux",
            "config": {"Cmd": list(image.command), "Env": ["PATH=/bin", *image.env]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
        }
    )
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": _MANIFEST_TYPE,
            "config": _descriptor(_CONFIG_TYPE, config),
            "layers": [_descriptor(_LAYER_TYPE, layer)],
        }
    )
    blobs |= {_digest(config): config, _digest(manifest): manifest}
    # The annotation under which containerd's importer looks for the full name.
    return _descriptor(_MANIFEST_TYPE, manifest) | {"annotations": {"io.containerd.image.name": image.name}}


def _layer() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as layer:
        for name in _DIRECTORIES:
            directory = tarfile.TarInfo(name)
            directory.type, directory.mode = tarfile.DIRTYPE, 0o1777 if name == "tmp" else 0o755
            layer.addfile(directory)
        _add_file(layer, "bin/busybox", BUSYBOX.read_bytes(), mode=0o755)
        for applet in _applets():
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            layer.addfile(link)
        _add_file(layer, "etc/passwd", b"root:x:0:0::/:/bin/sh\n")
    return buffer.getvalue()


def _applets() -> list[str]:
    listing = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True)
    return [applet for applet in listing.stdout.split() if applet != "busybox"]


def _add_file(archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _descriptor(media_type: str, content: bytes) -> dict[str, object]:
    return {"mediaType": media_type, "digest": _digest(content), "size": len(content)}


def _digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
