"""
What NVML says when it does not answer as hoped, on the branches of our error tree.

    Unavailable
    └── NvmlError
        ├── NvmlUnavailable      it answered with an error: name, code and function
        │   ├── LibraryMissing      there is no libnvidia-ml.so.1 here
        │   └── DriverMismatch      library and loaded kernel module are of different versions
        └── NvmlSilent           it has not answered in time, and is not asked again before it does
"""

from __future__ import annotations

import attrs

from fractioning_core.errors import Unavailable, escaped

# Of nvml.h; those that a caller tells apart.
LIBRARY_NOT_FOUND = 12
LIB_RM_VERSION_MISMATCH = 18


class NvmlError(Unavailable):
    """
    NVML gives no reading at the moment.
    """


@attrs.frozen(auto_exc=False)
class NvmlUnavailable(NvmlError):  # noqa: N818  the root says that it is an error, the name says which
    """
    A function of NVML returned an error.

    Args:
        code: Its number in nvml.h.
        name: Its name there, without the prefix.
        function: The function, without `nvml`.
    """

    code: int
    name: str
    function: str

    def __str__(self) -> str:
        return f"NVML {self.function}: {self.name} ({self.code})"


class LibraryMissing(NvmlUnavailable):
    """
    The library cannot be loaded, as in a container that the driver's files were not put into.
    """

    def __str__(self) -> str:
        return f"{super().__str__()}: no libnvidia-ml.so.1 here that can be loaded"


@attrs.frozen(auto_exc=False)
class DriverMismatch(NvmlUnavailable):
    """
    An upgrade has replaced the library under a loaded kernel module, or the other way round.

    Args:
        library: Version of the library; empty where it did not tell.
    """

    library: str = ""

    def __str__(self) -> str:
        which = f" {escaped(self.library)}" if self.library else ""
        return f"{super().__str__()}: driver library{which} and kernel module mismatch"


@attrs.frozen(auto_exc=False)
class NvmlSilent(NvmlError):  # noqa: N818  same
    """
    A function of NVML has not returned yet.

    Args:
        function: The function, without `nvml`.
        seconds: Since when it is under way.
    """

    function: str
    seconds: float

    def __str__(self) -> str:
        return f"NVML {self.function} has not answered for {self.seconds:.0f} s"


def returned(code: int, *, name: str, function: str) -> NvmlUnavailable:
    """
    Give the error for a code that a function returned.
    """
    kinds: dict[int, type[NvmlUnavailable]] = {
        LIBRARY_NOT_FOUND: LibraryMissing,
        LIB_RM_VERSION_MISMATCH: DriverMismatch,
    }
    return kinds.get(code, NvmlUnavailable)(code, name, function)
