from __future__ import annotations

import attrs
import pytest
from fractioning_core.rpc.mpsvalues import (
    ConfigurationStatus,
    DaemonStatus,
    DriverStatus,
    LabelStatus,
    MpsStatus,
    ProbeStatus,
)
from mpsd import statuspage

WELL = MpsStatus(
    version="0.1.0",
    ready=True,
    reason="",
    daemon=DaemonStatus("running", "", 4242, 11_520.0, {"crashed": 1, "requested": 0, "no_answer": 2}),
    configuration=ConfigurationStatus("/etc/nvidia-mps/mps-control.toml", "[features.memacct]\nenabled=true\n"),
    probe=ProbeStatus(2.1, latency_seconds=0.0032, clients=(123, 456)),
    driver=DriverStatus("615.43.02", 615),
    label=LabelStatus("615", 185.0),
)
WELL_PAGE = """\
mpsd 0.1.0: ready
daemon         running, pid 4242, up 3h 12m
restarts       crashed 1, no_answer 2
configuration  /etc/nvidia-mps/mps-control.toml
                 [features.memacct]
                 enabled=true
last check     2.1s ago: answered in 3.2 ms
clients        2: 123, 456
driver         615.43.02
label          615, written 3m 5s ago
"""
ILL = MpsStatus(
    version="0.1.0",
    ready=False,
    reason="control daemon held: driver r580 cannot account for memory",
    daemon=DaemonStatus("held", "driver r580 cannot account for memory"),
    driver=DriverStatus("580.95.05", 580, "nvml_silent", "NVML does not answer, 12 s"),
    label=LabelStatus("", None, "forbidden", "403 from the API server"),
)
ILL_PAGE = """\
mpsd 0.1.0: NOT READY: control daemon held: driver r580 cannot account for memory
daemon         held (driver r580 cannot account for memory)
restarts       none
configuration  none
last check     none yet
clients        unknown
driver         580.95.05 (nvml_silent: NVML does not answer, 12 s)
label          not written (forbidden: 403 from the API server)
"""


class TestRender:
    @pytest.mark.parametrize(
        ("status", "page"), [pytest.param(WELL, WELL_PAGE, id="well"), pytest.param(ILL, ILL_PAGE, id="ill")]
    )
    def test_a_page(self, status: MpsStatus, page: str) -> None:
        """
        The page says first whether all is well and why not, then each subject in a line.
        """
        assert statuspage.render(status) == page

    @pytest.mark.parametrize(
        ("probe", "line"),
        [
            pytest.param(ProbeStatus(0.5), "0.5s ago: all is well", id="nothing asked"),
            pytest.param(
                ProbeStatus(0.5, "no_answer", "no answer within 3 s", 3.0),
                "0.5s ago: no_answer: no answer within 3 s",
                id="a problem",
            ),
        ],
    )
    def test_a_check(self, probe: ProbeStatus, line: str) -> None:
        """
        A check is told with its age and what it found.
        """
        page = statuspage.render(attrs.evolve(WELL, probe=probe))

        assert f"last check     {line}\n" in page

    @pytest.mark.parametrize(
        ("clients", "line"),
        [
            pytest.param((), "none", id="none"),
            pytest.param(None, "unknown", id="unknown"),
            pytest.param(tuple(range(1, 23)), f"22: {', '.join(map(str, range(1, 21)))} and 2 more", id="many"),
        ],
    )
    def test_clients(self, clients: tuple[int, ...] | None, line: str) -> None:
        """
        Clients are counted and listed, up to a bound; none and unknown differ.
        """
        page = statuspage.render(attrs.evolve(WELL, probe=ProbeStatus(0.0, clients=clients)))

        assert f"clients        {line}\n" in page

    def test_no_cluster(self) -> None:
        """
        Where there is nothing to label, the line says only that.
        """
        page = statuspage.render(attrs.evolve(WELL, label=LabelStatus("", None, "", "not in a cluster: no label")))

        assert "label          not in a cluster: no label\n" in page


class TestDuration:
    @pytest.mark.parametrize(
        ("seconds", "text"),
        [
            pytest.param(0.04, "0.0s", id="nothing"),
            pytest.param(59.94, "59.9s", id="seconds"),
            pytest.param(60.0, "1m 0s", id="a minute"),
            pytest.param(3661.0, "1h 1m", id="an hour"),
            pytest.param(3600.0, "1h 0m", id="exactly an hour"),
            pytest.param(200_000.0, "2d 7h", id="days"),
        ],
    )
    def test_its_text(self, seconds: float, text: str) -> None:
        """
        The two largest units tell enough.
        """
        assert statuspage.duration(seconds) == text
