"""
Keeps a process to OpenSSL's FIPS provider, or ends it.

Configuring OpenSSL is not enough, for two reasons. The interpreter brings hashes of its own, compiled in, which know
nothing of OpenSSL's settings: `hashlib.blake2b()` works in any mode, and so does `hashlib.md5()` where OpenSSL refuses
it. And OpenSSL runs on as if nothing had been asked where its configuration is missing or the provider was tampered
with. So a program enters the mode before anything else is loaded: the configuration is named, the state that OpenSSL
reached is looked at, and modules of built-in hashes are replaced by ones that lead to OpenSSL or refuse.

This is no boundary against code that means to get around it. What is not hashing or TLS, such as the random numbers
that the kernel gives, is not touched.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from collections.abc import Callable, Mapping, MutableMapping
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, NoReturn

import attrs

from fractioning_core.errors import FractioningError, InvalidInput, Misuse, shown

MODE_VARIABLE = "FIPS_MODE"
CONFIGURATION_VARIABLE = "OPENSSL_CONF"
CONFIGURATION_FOLDER = "/etc/ssl/fips"
OFF, ON, ONLY = "off", "on", "only"
EXIT_NOT_IN_MODE = 78
"""EX_CONFIG of sysexits: starting again will not help."""

BUILT_IN: Mapping[str, tuple[str, ...]] = {
    "_md5": ("md5",),
    "_sha1": ("sha1",),
    "_sha2": ("sha224", "sha256", "sha384", "sha512"),
    "_sha3": ("sha3_224", "sha3_256", "sha3_384", "sha3_512", "shake_128", "shake_256"),
    "_blake2": ("blake2b", "blake2s"),
    # What _sha2 was until Python 3.11.
    "_sha256": ("sha224", "sha256"),
    "_sha512": ("sha384", "sha512"),
}
"""Modules of hashes that the interpreter brings, and what each gives."""


@attrs.frozen(auto_exc=False)
class UnknownFipsMode(InvalidInput):
    """
    A mode that there is not.
    """

    text: str

    def __str__(self) -> str:
        return f"{MODE_VARIABLE}: {shown(self.text)} is not a mode; accepted: {OFF}, {ON}, {ONLY}"


@attrs.frozen
class OpenSslState:
    """
    What OpenSSL made of its configuration.

    Args:
        fips: The FIPS provider is loaded, which means that it passed its own tests.
        others: Providers loaded beside it that are not limited to approved algorithms.
        fips_by_default: Whoever asks without a wish is answered by the FIPS provider.
    """

    fips: bool
    others: tuple[str, ...]
    fips_by_default: bool

    def satisfies(self, mode: str) -> bool:
        """
        Say whether this is the mode `on` or `only`; the former lets those have the default provider who ask for it.
        """
        allowed = ("default",) if mode == ON else ()
        return self.fips and self.fips_by_default and set(self.others) <= set(allowed)


@attrs.frozen(auto_exc=False)
class NotInFipsMode(InvalidInput):
    """
    OpenSSL is not in the mode that was asked for.
    """

    mode: str
    configuration: str
    state: OpenSslState

    def __str__(self) -> str:
        facts = (
            f"FIPS provider {'loaded' if self.state.fips else 'not loaded'}",
            f"other providers: {', '.join(self.state.others) or 'none'}",
            f"FIPS {'is' if self.state.fips_by_default else 'is not'} the default",
        )
        return (
            f"{MODE_VARIABLE}={self.mode}: OpenSSL is not in that mode ({'; '.join(facts)}) with {self.configuration}; "
            f"it takes an image whose tag ends in -fips"
        )


@attrs.frozen(auto_exc=False)
class EnteredTooLate(Misuse):
    """
    Hashes of the interpreter are loaded already, and somebody may hold on to them.
    """

    modules: tuple[str, ...]

    def __str__(self) -> str:
        return f"{MODE_VARIABLE}: loaded before the mode was entered: {', '.join(self.modules)}"


def enter_or_exit(environ: MutableMapping[str, str] = os.environ) -> None:
    """
    Enter the mode that the environment asks for, or end the process with status 78 and a line that says why.
    """
    try:
        enter(environ)
    except FractioningError as error:
        sys.stderr.write(f"{error}\n")
        raise SystemExit(EXIT_NOT_IN_MODE) from error


def enter(environ: MutableMapping[str, str]) -> None:
    """
    Enter the mode that the environment asks for; without one, and with `off`, nothing happens.

    Raises:
        UnknownFipsMode: there is no such mode.
        EnteredTooLate: a hash of the interpreter is loaded.
        NotInFipsMode: OpenSSL cannot be brought into the mode.
    """
    mode = environ.get(MODE_VARIABLE) or OFF
    if mode == OFF:
        return
    if mode not in (ON, ONLY):
        raise UnknownFipsMode(mode)
    loaded = tuple(sorted(BUILT_IN.keys() & sys.modules.keys()))
    if loaded:
        raise EnteredTooLate(loaded)
    configuration = f"{CONFIGURATION_FOLDER}/{mode}.cnf"
    environ[CONFIGURATION_VARIABLE] = configuration
    # OpenSSL reads its configuration when this is loaded, once.
    openssl = importlib.import_module("_hashlib")
    state = _state(openssl)
    if not state.satisfies(mode):
        raise NotInFipsMode(mode, configuration, state)
    sys.meta_path.insert(0, StandIns(openssl))


class StandIns:
    """
    Answers imports of the interpreter's hashes with modules that lead to OpenSSL, or refuse what it does not have.

    A finder rather than ready modules: whoever drops one of them and imports it again gets the same. It is both finder
    and loader, without importlib's base classes, whose module loads `random` and thereby a hash.
    """

    def __init__(self, openssl: ModuleType) -> None:
        self._openssl = openssl

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:  # noqa: ARG002 - the import system's signature
        """
        Claim the modules of hashes.
        """
        loader: Any = self
        return ModuleSpec(fullname, loader, origin="OpenSSL") if fullname in BUILT_IN else None

    def create_module(self, spec: ModuleSpec) -> None:
        """
        Leave it to the import system.
        """

    def exec_module(self, module: ModuleType) -> None:
        """
        Fill one of them.
        """
        for name in BUILT_IN[module.__name__]:
            setattr(module, name, getattr(self._openssl, f"openssl_{name}", None) or _refusing(name))


def _state(openssl: ModuleType) -> OpenSslState:
    try:
        is_available = ctypes.CDLL("libcrypto.so.3").OSSL_PROVIDER_available
    except OSError:
        # An interpreter with an OpenSSL of its own inside, which has no providers to load.
        return OpenSslState(fips=False, others=(), fips_by_default=bool(openssl.get_fips_mode()))
    available = [name for name in ("fips", "default", "legacy") if is_available(None, name.encode())]
    return OpenSslState(
        fips="fips" in available,
        others=tuple(name for name in available if name != "fips"),
        fips_by_default=bool(openssl.get_fips_mode()),
    )


def _refusing(name: str) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        # The type that hashlib raises for a hash it does not have.
        raise ValueError(f"{name} is not available in FIPS mode")

    return refuse
