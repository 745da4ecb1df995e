from __future__ import annotations

import stat
from pathlib import Path, PurePath

import pytest
from images import sites


class TestIsWanted:
    @pytest.mark.parametrize(
        "path",
        [
            pytest.param("aiohttp/web.py", id="a module"),
            pytest.param("aiohttp/_http_parser.cpython-313-x86_64-linux-gnu.so", id="an extension"),
            pytest.param("aiohttp/test_utils.py", id="a name that only speaks of tests"),
            pytest.param("kubernetes_asyncio/client/rest.py", id="a part that is used"),
            pytest.param("attrs-26.1.0.dist-info/METADATA", id="what an SBOM is made from"),
            pytest.param("attrs-26.1.0.dist-info/licenses/LICENSE", id="a licence"),
            pytest.param("protobuf-7.36.2.dist-info/LICENSE", id="a licence in the older place"),
        ],
    )
    def test_stays(self, path: str) -> None:
        """What is loaded, and what is told of it, goes in."""
        assert sites.is_wanted(PurePath(path))

    @pytest.mark.parametrize(
        "path",
        [
            pytest.param("frozenlist/tests/test_it.py", id="a test"),
            pytest.param("controller/testing/builders.py", id="what tests are written with"),
            pytest.param("uvloop/loop.pyx", id="a source of an extension"),
            pytest.param("uvloop/loop.pyi", id="a stub"),
            pytest.param("bin/prometheus", id="a program"),
            pytest.param("kubernetes_asyncio/client/models/v1_pod.py", id="a part that is not used"),
            pytest.param("attrs-26.1.0.dist-info/RECORD", id="a list of files that are not all there"),
            pytest.param("mpsd-0.1.0.dist-info/direct_url.json", id="where it was built"),
        ],
    )
    def test_goes(self, path: str) -> None:
        """What nothing loads, and what depends on who builds, stays out."""
        assert not sites.is_wanted(PurePath(path))


class TestWritePrograms:
    def test_enters_fips_first(self, tmp_path: Path) -> None:
        """A program enters its FIPS mode before it loads anything of the service, in an interpreter of its own."""
        metadata = tmp_path / "packages" / "mpsd-0.1.0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "entry_points.txt").write_text("[console_scripts]\nmpsd = mpsd.app:main\n")
        sites.write_programs(tmp_path / "packages", tmp_path / "bin")
        program = tmp_path / "bin" / "mpsd"
        text = program.read_text()

        assert text.startswith("#!/usr/bin/python3 -IB\n")
        assert text.index("fips.enter_or_exit()") < text.index("from mpsd.app import main") < text.index("\nmain()\n")
        assert 0o755 == stat.S_IMODE(program.stat().st_mode)
