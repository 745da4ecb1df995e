"""
What has no business in an image: keys, tokens and passwords, what a build leaves behind, and words about the machine
that it was built on.
"""

from __future__ import annotations

import functools
import platform
import re
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from pip._internal.models.index import PyPI

from imagelab.archive import REPOSITORY, Image

ASSIGNED = "assigned password"
KINDS: Mapping[str, re.Pattern[bytes]] = {
    "private key": re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----\s+[A-Za-z0-9+/=]{40}"),
    "web token": re.compile(rb"eyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}"),
    "cloud key": re.compile(rb"(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "forge token": re.compile(rb"gh[pousr]_[A-Za-z0-9]{36}|github_pat_\w{50,}|glpat-[\w-]{20}"),
    "package index token": re.compile(rb"pypi-[A-Za-z0-9_-]{32,}"),
    # But for the word itself, which documents use.
    "URL with a password": re.compile(rb"://[^\s/:@'\"<>{}]{1,64}:(?!pass(?:word)?@)[^\s/:@'\"<>{}]{1,64}@[\w.-]+"),
    # With a digit: names of classes and fields have none.
    ASSIGNED: re.compile(
        rb"""(?i:password|passwd|secret|api_?key|token)["']?\s*[:=]\s*["'](?=[^"']*\d)[A-Za-z0-9+/_=-]{12,}["']"""
    ),
}
"""
What to look for in the bytes of every file, compiled modules included; but for what is assigned, which is looked for in
texts alone: in programs it would take most of the time, and they are compiled from texts that are here as well.
"""
REMAINS = frozenset(
    {
        *(".git", ".hg", ".svn", ".cache", ".ssh", ".aws", ".docker", ".kube", ".gnupg", ".venv"),
        *(".netrc", ".pypirc", ".npmrc", ".env", ".bash_history", ".python_history", ".git-credentials"),
        *("pip.conf", "auth.json", "auth.conf", "sources.list", "id_rsa", "id_ed25519", "direct_url.json"),
    }
)
"""
Names of files and folders that a build or a person leaves behind.
"""


@functools.cache
def of_this_machine() -> Mapping[str, re.Pattern[bytes]]:
    """
    Give what would tell of the machine that the image was built on: its folders, its name, where its packages are from.
    """
    places = [str(REPOSITORY), f"{Path.home()}/.", "/tmp/pip-", "/tmp/buildah"]
    # A shorter name is a word of its own.
    names = [name for name in (socket.gethostname(),) if len(name) > 6]
    servers = re.findall(r"://(?:[^/@\s]*@)?([^/:\s']+)", _sources())
    # Everybody's, and named in packages' own documents: where pip and the distribution look when nobody says otherwise.
    home = platform.freedesktop_os_release()["HOME_URL"].split("/")[2].removeprefix("www.")
    public = {PyPI.netloc, PyPI.file_storage_domain, f"deb.{home}", f"security.{home}", "localhost"}
    return {
        f"word of this machine, {word}": re.compile(re.escape(word.encode()))
        for word in dict.fromkeys([*places, *names, *servers])
        if word not in public
    }


def _sources() -> str:
    """
    Ask pip and apt where they get packages from.
    """
    asked = ([sys.executable, "-m", "pip", "config", "list"], ["apt-get", "indextargets", "--format", "$(REPO_URI)"])
    return "\n".join(subprocess.run(words, check=True, capture_output=True, text=True).stdout for words in asked)


def findings(image: Image, kinds: Mapping[str, re.Pattern[bytes]]) -> Iterator[str]:
    """
    Name every file of an image that holds something of these kinds, with what it holds.
    """
    for path in image.files():
        name = str(path.relative_to(image.root))
        if path.name in REMAINS:
            yield f"{name}: left behind"
        if path.is_file():
            yield from (f"{name}: {found}" for found in matches(path.read_bytes(), kinds))


def matches(content: bytes, kinds: Mapping[str, re.Pattern[bytes]]) -> Iterator[str]:
    """
    Name what is found in some bytes.
    """
    is_text = b"\0" not in content
    for kind, pattern in kinds.items():
        if kind == ASSIGNED and not is_text:
            continue
        for match in dict.fromkeys(pattern.findall(content)):
            yield f"{kind}: {match[:80].decode(errors='replace')}"
