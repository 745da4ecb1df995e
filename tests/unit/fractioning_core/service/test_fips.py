"""
The mode itself is proven inside the images, where the provider is; here is what can be told without it.
"""

from __future__ import annotations

import subprocess
import sys
from types import ModuleType

import pytest
from fractioning_core.service import fips
from fractioning_core.service.fips import EnteredTooLate, NotInFipsMode, OpenSslState, StandIns, UnknownFipsMode

IN_MODE = OpenSslState(fips=True, others=(), fips_by_default=True)


def openssl() -> ModuleType:
    """Give a module of OpenSSL's hashes that has one of them."""
    module = ModuleType("_hashlib")
    module.openssl_sha256 = lambda data: f"openssl {data}"  # type: ignore[attr-defined]
    return module


def entered(program: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run a program in an interpreter that has loaded nothing yet."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=False)  # noqa: S603 - our own


class TestState:
    @pytest.mark.parametrize(
        ("state", "on", "only"),
        [
            pytest.param(IN_MODE, True, True, id="FIPS alone"),
            pytest.param(
                OpenSslState(fips=True, others=("default",), fips_by_default=True), True, False, id="beside the default"
            ),
            pytest.param(
                OpenSslState(fips=True, others=("legacy",), fips_by_default=True), False, False, id="beside the legacy"
            ),
            pytest.param(OpenSslState(fips=True, others=(), fips_by_default=False), False, False, id="not by default"),
            pytest.param(OpenSslState(fips=False, others=(), fips_by_default=True), False, False, id="not loaded"),
            pytest.param(
                OpenSslState(fips=False, others=("default",), fips_by_default=False), False, False, id="as ever"
            ),
        ],
    )
    def test_satisfies(self, state: OpenSslState, *, on: bool, only: bool) -> None:
        """The provider has to be loaded and asked by default; only `on` tolerates the default one beside it."""
        assert (on, only) == (state.satisfies(fips.ON), state.satisfies(fips.ONLY))


class TestEnter:
    @pytest.mark.parametrize("environ", [{}, {"FIPS_MODE": ""}, {"FIPS_MODE": "off"}], ids=["unset", "empty", "off"])
    def test_off(self, environ: dict[str, str]) -> None:
        """Without a mode nothing is touched."""
        before = dict(environ)
        fips.enter(environ)

        assert before == environ
        assert not [finder for finder in sys.meta_path if isinstance(finder, StandIns)]

    def test_unknown_mode(self) -> None:
        """A mode that there is not is refused, with those that there are."""
        with pytest.raises(UnknownFipsMode) as refused:
            fips.enter({"FIPS_MODE": "On"})

        assert 'FIPS_MODE: "On" is not a mode; accepted: off, on, only' == str(refused.value)

    def test_too_late(self) -> None:
        """Where a hash of the interpreter is loaded already, the process cannot enter."""
        import _md5  # type: ignore[import-not-found] # noqa: F401, PLC0415 - loaded on purpose

        with pytest.raises(EnteredTooLate) as refused:
            fips.enter({"FIPS_MODE": "on"})

        assert "_md5" in refused.value.modules


class TestProcess:
    def test_no_provider(self) -> None:
        """A process whose OpenSSL has no FIPS provider ends with status 78, naming state, configuration and remedy."""
        done = entered("from fractioning_core.service import fips; fips.enter_or_exit(); print('on')", FIPS_MODE="only")
        state = OpenSslState(fips=False, others=("default",), fips_by_default=False)
        expected = NotInFipsMode(fips.ONLY, "/etc/ssl/fips/only.cnf", state)

        assert (fips.EXIT_NOT_IN_MODE, "", f"{expected}\n") == (done.returncode, done.stdout, done.stderr)

    def test_loads_no_hash_itself(self) -> None:
        """Entering comes early enough: what it imports has not loaded a hash."""
        done = entered(
            "import sys\n"
            "from fractioning_core.service import fips\n"
            "print(sorted(fips.BUILT_IN.keys() & sys.modules.keys()))\n"
        )

        assert "[]\n" == done.stdout


class TestStandIns:
    @pytest.fixture
    def module(self) -> ModuleType:
        """Gives the stand-in of a module with hashes that OpenSSL has and has not."""
        stand_ins = StandIns(openssl())
        module = ModuleType("_sha2")
        stand_ins.exec_module(module)
        return module

    def test_leads_to_openssl(self, module: ModuleType) -> None:
        """A hash that OpenSSL has is OpenSSL's."""
        assert "openssl b'x'" == module.sha256(b"x")

    def test_refuses(self, module: ModuleType) -> None:
        """A hash that OpenSSL has not is refused with the error that hashlib raises for an unknown one."""
        with pytest.raises(ValueError, match="sha512 is not available in FIPS mode"):
            module.sha512(b"x", usedforsecurity=False)

    @pytest.mark.parametrize("name", sorted(fips.BUILT_IN))
    def test_claims(self, name: str) -> None:
        """Each module of hashes is claimed before the interpreter's own is found."""
        spec = StandIns(openssl()).find_spec(name)

        assert spec is not None
        assert (name, "OpenSSL") == (spec.name, spec.origin)

    def test_leaves_others(self) -> None:
        """No other module is claimed."""
        assert StandIns(openssl()).find_spec("_hashlib") is None

    def test_every_built_in_hash(self) -> None:
        """No module of hashes that this interpreter brings is forgotten."""
        brought = {name for name in sys.stdlib_module_names if name.startswith(("_md", "_sha", "_blake", "_hmac"))}

        assert brought
        assert set() == brought - fips.BUILT_IN.keys()
