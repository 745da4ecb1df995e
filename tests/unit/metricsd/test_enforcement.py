from __future__ import annotations

import pytest
from fractioning_core.nvml.errors import returned
from fractioning_core.nvml.samples import MemoryLimits
from fractioning_core.record import Record
from metricsd import enforcement
from metricsd.enforcement import Declared
from metricsd.snapshot import Enforcement
from metricsd.world import Limits, NoCgroup

MIB = 2**20
GIB = 2**30
ASKED = Declared(request_bytes=2 * GIB, limit_bytes=4 * GIB)
OLD = Declared(request_bytes=None, limit_bytes=4 * GIB)
NOTHING = Declared(None, None)
GONE = NoCgroup("no cgroup at /kubepods/x", is_gone=True)


def failed(code: int, name: str) -> Limits:
    return returned(code, name=name, function="DeviceGetMemoryLimits")


def in_force(soft_bytes: int, hard_bytes: int | None) -> Limits:
    return MemoryLimits(soft_bytes, hard_bytes, used_bytes=GIB)


class TestDeclared:
    @pytest.mark.parametrize(
        ("requested", "request_mib", "limit_mib", "expected"),
        [
            pytest.param(4096, 2048, 4096, ASKED, id="both"),
            pytest.param(1, 2048, 4096, ASKED, id="both, and another figure to account with"),
            pytest.param(4096, 0, 0, OLD, id="old record"),
            pytest.param(0, 0, 0, NOTHING, id="nothing"),
            pytest.param(0, 2048, 0, Declared(2 * GIB, None), id="request alone"),
        ],
    )
    def test_in_bytes(self, requested: int, request_mib: int, limit_mib: int, expected: Declared) -> None:
        """A record's whole MiB are bytes here; one of the old form has the limit alone."""
        record = Record("p", "n", "u", (), requested, memory_request_mib=request_mib, memory_limit_mib=limit_mib)

        assert expected == enforcement.declared(record)


class TestJudge:
    @pytest.mark.parametrize(
        ("asked", "limits", "major", "expected"),
        [
            pytest.param(ASKED, in_force(2 * GIB, 4 * GIB), 615, Enforcement.ENFORCED, id="both equal"),
            pytest.param(ASKED, in_force(2 * GIB, 4 * GIB), None, Enforcement.ENFORCED, id="whatever the driver"),
            pytest.param(ASKED, in_force(2 * GIB, 4 * GIB - 1), 615, Enforcement.DIFFERENT, id="hard a byte less"),
            pytest.param(ASKED, in_force(2 * GIB, 4 * GIB + 1), 615, Enforcement.DIFFERENT, id="hard a byte more"),
            pytest.param(ASKED, in_force(2 * GIB - 1, 4 * GIB), 615, Enforcement.DIFFERENT, id="soft a byte less"),
            pytest.param(ASKED, in_force(2 * GIB + 1, 4 * GIB), 615, Enforcement.DIFFERENT, id="soft a byte more"),
            pytest.param(ASKED, in_force(0, 4 * GIB), 615, Enforcement.DIFFERENT, id="no soft limit"),
            pytest.param(ASKED, in_force(2 * GIB, None), 615, Enforcement.DIFFERENT, id="no hard limit"),
            pytest.param(ASKED, in_force(0, None), 615, Enforcement.NO_LIMIT, id="neither"),
            pytest.param(ASKED, in_force(0, 0), 615, Enforcement.DIFFERENT, id="a hard limit of nothing"),
            pytest.param(
                ASKED, failed(6, "NOT_FOUND"), 615, Enforcement.NO_LIMIT, id="driver does not know the cgroup"
            ),
            pytest.param(ASKED, failed(4, "NO_PERMISSION"), 615, Enforcement.NOT_READABLE, id="not permitted"),
            pytest.param(ASKED, failed(999, "UNKNOWN"), 570, Enforcement.NOT_READABLE, id="unknown error"),
            pytest.param(ASKED, None, 615, Enforcement.NOT_READABLE, id="not asked"),
            pytest.param(
                ASKED,
                failed(13, "FUNCTION_NOT_FOUND"),
                615,
                Enforcement.DRIVER_TOO_OLD,
                id="library lacks the function",
            ),
            pytest.param(
                ASKED,
                failed(13, "FUNCTION_NOT_FOUND"),
                None,
                Enforcement.DRIVER_TOO_OLD,
                id="library lacks the function, version not understood",
            ),
            pytest.param(ASKED, failed(3, "NOT_SUPPORTED"), 614, Enforcement.DRIVER_TOO_OLD, id="by an old driver"),
            pytest.param(ASKED, failed(3, "NOT_SUPPORTED"), 615, Enforcement.NOT_SUPPORTED, id="by a new driver"),
            pytest.param(
                ASKED, failed(3, "NOT_SUPPORTED"), None, Enforcement.NOT_SUPPORTED, id="by a driver of unknown version"
            ),
            pytest.param(ASKED, NoCgroup("cgroup v2 needed"), 615, Enforcement.NO_CGROUP, id="no cgroup"),
            pytest.param(ASKED, NoCgroup("cgroup v2 needed"), 570, Enforcement.NO_CGROUP, id="no cgroup, old driver"),
            pytest.param(NOTHING, in_force(0, None), 615, Enforcement.NOT_DECLARED, id="nothing declared"),
            pytest.param(NOTHING, None, 615, Enforcement.NOT_DECLARED, id="nothing declared, not asked"),
            pytest.param(OLD, in_force(GIB, 4 * GIB), 615, Enforcement.ENFORCED, id="old record, any soft limit"),
            pytest.param(OLD, in_force(GIB, 5 * GIB), 615, Enforcement.DIFFERENT, id="old record, hard differs"),
            pytest.param(OLD, in_force(GIB, None), 615, Enforcement.DIFFERENT, id="old record, no hard limit"),
        ],
    )
    def test_verdict(self, asked: Declared, limits: Limits | None, major: int | None, expected: Enforcement) -> None:
        """Enforced means equal to the byte; everything else has its own reason."""
        assert expected is enforcement.judge(asked, limits, major, is_used=True)

    @pytest.mark.parametrize(
        ("asked", "limits", "is_used", "expected"),
        [
            pytest.param(ASKED, GONE, False, Enforcement.ENDED, id="cgroup gone, no process"),
            pytest.param(NOTHING, GONE, False, Enforcement.ENDED, id="the same, with nothing declared"),
            pytest.param(ASKED, GONE, True, Enforcement.NO_CGROUP, id="cgroup gone, and a process"),
            pytest.param(ASKED, NoCgroup("cgroup v2 needed"), False, Enforcement.NO_CGROUP, id="nothing to see it by"),
            pytest.param(ASKED, in_force(2 * GIB, 4 * GIB), False, Enforcement.ENFORCED, id="idle"),
        ],
    )
    def test_ended(self, asked: Declared, limits: Limits, *, is_used: bool, expected: Enforcement) -> None:
        """A container has ended when its cgroup is gone and no process of it is seen."""
        assert expected is enforcement.judge(asked, limits, 615, is_used=is_used)
