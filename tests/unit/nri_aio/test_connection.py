from __future__ import annotations

import pytest
from nri_aio import connection
from nri_aio.errors import Misuse


class TestProtobuf:
    """The one implementation that is fast enough."""

    def test_upb_is_accepted(self) -> None:
        """Nothing happens with upb."""
        connection._require_upb("upb")

    @pytest.mark.parametrize("implementation", ["python", "cpp"])
    def test_others_are_refused(self, implementation: str) -> None:
        """Any other is named, with what is accepted."""
        with pytest.raises(Misuse, match=f"'{implementation}' implementation, accepted is 'upb'"):
            connection._require_upb(implementation)


class TestDefaults:
    """What users rely on without naming it."""

    def test_socket(self) -> None:
        """The socket is where both runtimes have it."""
        assert "/var/run/nri/nri.sock" == connection.DEFAULT_SOCKET

    def test_time_outs(self) -> None:
        """Seconds for connecting, registering, updating and closing."""
        assert (5.0, 5.0, 10.0, 1.0) == (
            connection.CONNECT_TIMEOUT,
            connection.REGISTRATION_TIMEOUT,
            connection.UPDATE_TIMEOUT,
            connection.CLOSE_TIMEOUT,
        )
