from __future__ import annotations

import pytest
from fractioning_core.errors import Unavailable
from fractioning_core.nvml import errors
from fractioning_core.nvml.errors import DriverMismatch, LibraryMissing, NvmlSilent, NvmlUnavailable


class TestReturned:
    @pytest.mark.parametrize(
        ("code", "name", "kind", "text"),
        [
            pytest.param(
                12,
                "LIBRARY_NOT_FOUND",
                LibraryMissing,
                "NVML Init: LIBRARY_NOT_FOUND (12): no libnvidia-ml.so.1 here that can be loaded",
                id="no library",
            ),
            pytest.param(
                18,
                "LIB_RM_VERSION_MISMATCH",
                DriverMismatch,
                "NVML Init: LIB_RM_VERSION_MISMATCH (18): driver library and kernel module mismatch",
                id="half an upgrade",
            ),
            pytest.param(999, "UNKNOWN", NvmlUnavailable, "NVML Init: UNKNOWN (999)", id="any other"),
        ],
    )
    def test_a_code(self, code: int, name: str, kind: type[NvmlUnavailable], text: str) -> None:
        """
        A code gives the kind that a caller tells apart, and a text that names function, error and number.
        """
        error = errors.returned(code, name=name, function="Init")

        assert (kind, code, text) == (type(error), error.code, str(error))

    def test_it_may_be_tried_again(self) -> None:
        """
        Every failure of NVML is on the branch that is retried.
        """
        assert isinstance(errors.returned(18, name="LIB_RM_VERSION_MISMATCH", function="Init"), Unavailable)
        assert isinstance(NvmlSilent("Init", 1.0), Unavailable)


class TestNvmlSilent:
    def test_its_text(self) -> None:
        """
        A call that hangs is told by function and whole seconds.
        """
        assert str(NvmlSilent("Init", 31.7)) == "NVML Init has not answered for 32 s"
