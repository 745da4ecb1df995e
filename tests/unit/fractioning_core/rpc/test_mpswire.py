from __future__ import annotations

import pytest
from fractioning_core.rpc import mpswire
from fractioning_core.rpc.mpsvalues import (
    ConfigurationStatus,
    DaemonStatus,
    DriverStatus,
    LabelStatus,
    MpsStatus,
    ProbeStatus,
    RestartKind,
)
from fractioning_core.rpc.pb.fractioning.mps import v1
from hypothesis import given
from hypothesis import strategies as st

SECONDS = st.floats(min_value=0, max_value=1e9)
PIDS = st.integers(min_value=1, max_value=4_194_304)
TEXT = st.text(max_size=20)
PROBES = st.builds(
    ProbeStatus,
    age_seconds=SECONDS,
    problem=TEXT,
    reason=TEXT,
    latency_seconds=st.none() | SECONDS,
    clients=st.none() | st.lists(PIDS, max_size=3).map(tuple),
)
STATUSES = st.builds(
    MpsStatus,
    version=TEXT,
    ready=st.booleans(),
    reason=TEXT,
    daemon=st.builds(
        DaemonStatus,
        state=TEXT,
        reason=TEXT,
        pid=st.none() | PIDS,
        uptime_seconds=SECONDS,
        restarts=st.dictionaries(TEXT, st.integers(min_value=0, max_value=1 << 40), max_size=3),
    ),
    configuration=st.builds(ConfigurationStatus, path=TEXT, text=TEXT),
    probe=st.none() | PROBES,
    driver=st.builds(
        DriverStatus, version=TEXT, major=st.none() | st.integers(min_value=1, max_value=999), problem=TEXT, reason=TEXT
    ),
    label=st.builds(LabelStatus, value=TEXT, age_seconds=st.none() | SECONDS, problem=TEXT, reason=TEXT),
)


class TestStatus:
    @given(STATUSES)
    def test_round_trip(self, status: MpsStatus) -> None:
        """
        Every status comes out of its bytes as it went in; unknown and zero stay apart.
        """
        read = v1.StatusResponse().parse(bytes(mpswire.encode_status(status)))

        assert mpswire.decode_status(read) == status

    def test_an_empty_message(self) -> None:
        """
        A message without anything in it is a status of which nothing is known.
        """
        expected = MpsStatus(version="", ready=False, reason="", daemon=DaemonStatus(""))

        assert mpswire.decode_status(v1.StatusResponse()) == expected


class TestKind:
    @pytest.mark.parametrize("kind", [pytest.param(kind, id=kind.value) for kind in RestartKind])
    def test_round_trip(self, kind: RestartKind) -> None:
        """
        Every kind has a word of its own on the wire.
        """
        assert mpswire.decode_kind(mpswire.encode_kind(kind)) is kind

    def test_none_given(self) -> None:
        """
        A kind that was not given is none.
        """
        assert mpswire.decode_kind(v1.RestartRequestKind(0)) is None
