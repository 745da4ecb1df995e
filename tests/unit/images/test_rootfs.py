from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from images import rootfs

LIBRARIES = "usr/lib/x86_64-linux-gnu"
STANDARD = "usr/lib/python3.13"


class TestIsWanted:
    @pytest.mark.parametrize(
        "path",
        [
            pytest.param("usr/bin/python3.13", id="the interpreter"),
            pytest.param(f"{LIBRARIES}/libc.so.6", id="the C library"),
            pytest.param(f"{LIBRARIES}/libdl.so.2", id="a stub that the driver is linked with"),
            pytest.param(f"{LIBRARIES}/ossl-modules/fips.so", id="the FIPS provider"),
            pytest.param(f"{STANDARD}/pydoc.py", id="pydoc, which libraries import"),
            pytest.param(f"{STANDARD}/wsgiref/util.py", id="wsgiref, which libraries import"),
            pytest.param(f"{STANDARD}/profiling.py", id="a name that only begins like an unwanted one"),
            pytest.param(f"{STANDARD}/lib-dynload/_ssl.cpython-313-x86_64-linux-gnu.so", id="an extension"),
            pytest.param("usr/share/doc/libc6/copyright", id="a licence"),
            pytest.param("usr/share/common-licenses/GPL-3", id="a licence that others refer to"),
            pytest.param("etc/ld.so.conf.d/libc.conf", id="where libraries are looked for"),
        ],
    )
    def test_stays(self, path: str) -> None:
        """What a service loads, and what a licence says, goes in."""
        assert rootfs.is_wanted(path)

    @pytest.mark.parametrize(
        "path",
        [
            pytest.param("usr/bin/ldd", id="a script for a shell"),
            pytest.param("usr/sbin/ldconfig", id="a tool"),
            pytest.param("usr/share/man/man1/python3.13.1.gz", id="a manual"),
            pytest.param("usr/share/doc/libc6/changelog.Debian.gz", id="a changelog"),
            pytest.param("usr/share/doc/libc6/copyright.bak", id="a name that only begins like a licence"),
            pytest.param(f"{LIBRARIES}/gconv/IBM037.so", id="a character set"),
            pytest.param(f"{LIBRARIES}/libmvec.so.1", id="vector mathematics"),
            pytest.param(f"{STANDARD}/test/test_os.py", id="a test"),
            pytest.param(f"{STANDARD}/pdb.py", id="a debugger"),
            pytest.param(
                f"{STANDARD}/lib-dynload/_bz2.cpython-313-x86_64-linux-gnu.so",
                id="an extension whose library is not there",
            ),
        ],
    )
    def test_goes(self, path: str) -> None:
        """Tools, documents, tests, and what lacks its library stay out."""
        assert not rootfs.is_wanted(path)


class TestPack:
    def test_the_same_for_the_same_files(self, tmp_path: Path) -> None:
        """Neither the order, nor times, nor modes of whoever builds are in an archive."""
        for number, names in enumerate((("a", "b"), ("b", "a"))):
            root = tmp_path / str(number)
            root.mkdir(mode=0o700)
            for name in names:
                (root / name).write_text(name)
                (root / name).chmod(0o600 if number else 0o644)
            rootfs.pack(root, tmp_path / f"{number}.tar", epoch=7)

        assert (tmp_path / "0.tar").read_bytes() == (tmp_path / "1.tar").read_bytes()

    def test_modes(self, tmp_path: Path) -> None:
        """Nothing is setuid or writable for others; a program stays one, a module of the library is none."""
        root = tmp_path / "root"
        root.mkdir()
        for name, mode in (("program", 0o4755), ("module.py", 0o755), ("loose", 0o666)):
            (root / name).touch()
            (root / name).chmod(mode)
        (root / "tmp").mkdir()
        (root / "tmp").chmod(0o1777)
        rootfs.pack(root, tmp_path / "tar", epoch=7)

        with tarfile.open(tmp_path / "tar") as tar:
            found = {member.name: member.mode for member in tar}
        assert {"program": 0o755, "module.py": 0o644, "loose": 0o644, "tmp": 0o755} == found
