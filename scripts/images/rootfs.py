"""
A root folder of Debian packages that holds Python and the libraries it needs, and nothing that starts anything else.

There is no shell, no package manager and no tool: packages are unpacked and never configured. What asyncio services do
not load is left out. The names, versions and copyrights of the packages stay, for those who scan and those who audit.
"""

from __future__ import annotations

import io
import re
import shutil
import tarfile
from collections.abc import Iterable
from pathlib import Path

from images import debian, failure

COMPILER = Path(__file__).parent / "inside" / "compile.py"
FIPS_CONFIGURATIONS = Path(__file__).parent / "fips"
# Where fractioning_core.service.fips looks for OpenSSL's configurations.
FIPS_FOLDER = "etc/ssl/fips"

_LIBRARY = f"usr/lib/python{debian.PYTHON}"
_UNWANTED = re.compile(
    "|".join(
        (
            r"usr/share/(man|locale|info|lintian|bug|apps|applications|binfmts|gdb|perl5|pixmaps|python3)/",
            r"usr/share/doc/[^/]+/(?!copyright$)",
            r"usr/(s?bin|games)/(?!python)",
            r"etc/(default|dpkg|profile\.d|skel|update-motd\.d|issue)",
            r"usr/lib/binfmt\.d/",
            r".*\.a$",
            # Character sets beyond Unicode, vector mathematics, profiling and name services of other times. The stubs
            # of libdl, libpthread, librt and libutil stay: the driver's programs are linked with them.
            r"usr/lib/[^/]+/(gconv|audit|engines-3)/",
            r"usr/lib/[^/]+/lib(mvec|nsl|thread_db|BrokenLocale|c_malloc_debug|pcprofile|memusage|expatw)[._]",
            r"usr/lib/[^/]+/lib(nss_compat|nss_hesiod)[._]",
            # pydoc and wsgiref stay: libraries import them.
            rf"{_LIBRARY}/(test|pydoc_data|idlelib|turtledemo|tkinter|ensurepip|curses|sqlite3|dbm|venv|__phello__)/",
            rf"{_LIBRARY}/config-",
            rf"{_LIBRARY}/(turtle|antigravity|this|cProfile|profile|pstats|doctest|pdb|rlcompleter|webbrowser)\.py$",
            rf"{_LIBRARY}/(imaplib|poplib|ftplib|smtplib|mailbox|shelve)\.py$",
            rf"{_LIBRARY}/lib-dynload/(_test|_xxtest|xxlimited|xxsubtype|_ctypes_test|_codecs_|readline)",
            rf"{_LIBRARY}/lib-dynload/_(curses|dbm|sqlite3|bz2|lzma|uuid|lsprof)",
        )
    )
)
# What links lead to, what a container fills, and a home. Nothing here writes to /tmp, so nobody may.
_FOLDERS = ("dev", "home/nonroot", "proc", "run", "sys", "tmp", "usr/sbin")
_LINKS = {"usr/bin/python3": f"python{debian.PYTHON}", "var/run": "/run"}
_ACCOUNTS = {
    "etc/passwd": (
        "root:x:0:0:root:/root:/sbin/nologin\n"
        "nonroot:x:1000:1000:nonroot:/home/nonroot:/sbin/nologin\n"
        "nobody:x:65534:65534:nobody:/nonexistent:/sbin/nologin\n"
    ),
    "etc/group": "root:x:0:\nnonroot:x:1000:\nnogroup:x:65534:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}


def make(debs: Iterable[Path], root: Path) -> None:
    """
    Unpack packages into a new root folder and compile its standard library.
    """
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    database = root / "var/lib/dpkg/status.d"
    for deb in debs:
        _unpack(deb, root)
        # One file for each package, where scanners look on images without dpkg.
        database.mkdir(parents=True, exist_ok=True)
        (database / debian.name_of(deb)).write_text(debian.control(deb))
    for folder in _FOLDERS:
        (root / folder).mkdir(parents=True, exist_ok=True)
    for name, text in _ACCOUNTS.items():
        (root / name).write_text(text)
    for name, target in _LINKS.items():
        (root / name).symlink_to(target)
    _compile(root)


def add_fips(debs: Iterable[Path], tool: Path, root: Path) -> None:
    """
    Add OpenSSL's FIPS provider with its configurations.

    Args:
        debs: packages to unpack.
        tool: the package of the `openssl` program, which writes the provider's checksum and is not left inside.
        root: a root folder from `make`.
    """
    for deb in debs:
        _unpack(deb, root)
        (root / "var/lib/dpkg/status.d" / debian.name_of(deb)).write_text(debian.control(deb))
    folder = root / FIPS_FOLDER
    folder.mkdir(parents=True)
    for configuration in FIPS_CONFIGURATIONS.glob("*.cnf"):
        shutil.copy(configuration, folder)
    program = root / "openssl"
    try:
        program.write_bytes(_member(tool, "./usr/bin/openssl"))
        program.chmod(0o755)
        module = next(root.glob("usr/lib/*/ossl-modules/fips.so")).relative_to(root)
        install = ("/openssl", "fipsinstall", "-quiet", "-pedantic", "-module", f"/{module}")
        failure.run(["chroot", root, *install, "-out", f"/{FIPS_FOLDER}/module.cnf"])
    finally:
        program.unlink(missing_ok=True)


def pack(root: Path, archive: Path, *, epoch: int) -> None:
    """
    Write a root folder as an archive that is the same for the same files: sorted, of one time, owned by root.

    Modes are of two kinds, so that none depends on who builds, and nothing is setuid or writable for others.
    """

    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mtime = epoch
        member.mode = 0o755 if member.isdir() or _is_program(member) else 0o644
        return member

    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            tar.add(path, str(path.relative_to(root)), recursive=False, filter=plain)


def is_wanted(path: str) -> bool:
    """
    Say whether a file of a package goes into the root.
    """
    return _UNWANTED.match(path) is None


def _is_program(member: tarfile.TarInfo) -> bool:
    # Some modules of the standard library are programs as well, of an interpreter that lies elsewhere.
    return bool(member.mode & 0o100) and not member.name.endswith(".py")


def _unpack(deb: Path, root: Path) -> None:
    with _files(deb) as tar:
        for member in tar:
            member.name = member.name.removeprefix("./")
            # Folders come with the files in them; the few that are wanted empty are made by name.
            if not member.isdir() and is_wanted(member.name):
                tar.extract(member, root, filter="tar")


def _member(deb: Path, name: str) -> bytes:
    with _files(deb) as tar:
        found = tar.extractfile(name)
        if found is None:
            raise failure.BuildFailed(f"{deb.name} has no file {name}")
        return found.read()


def _files(deb: Path) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(failure.run(["dpkg-deb", "--fsys-tarfile", deb])))


def _compile(root: Path) -> None:
    # By the interpreter it is for: the file format is its own.
    failure.run(["chroot", root, "/usr/bin/python3", "-IB", "-", f"/{_LIBRARY}"], stdin=COMPILER.read_bytes())
