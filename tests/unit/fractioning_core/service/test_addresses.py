from __future__ import annotations

import pytest
from fractioning_core.service import addresses
from fractioning_core.service.addresses import Address
from fractioning_core.service.problems import NotAccepted
from hypothesis import given
from hypothesis import strategies as st


class TestParse:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param(":2112", Address("::", 2112), id="no host is all addresses"),
            pytest.param("[::]:2112", Address("::", 2112), id="all addresses in so many words"),
            pytest.param("0.0.0.0:2112", Address("0.0.0.0", 2112), id="all of IPv4"),
            pytest.param("127.0.0.1:2112", Address("127.0.0.1", 2112), id="IPv4"),
            pytest.param("[::1]:1", Address("::1", 1), id="IPv6, lowest port"),
            pytest.param("[FE80:0:0::1]:65535", Address("fe80::1", 65535), id="IPv6 in a long spelling, highest port"),
        ],
    )
    def test_accepted(self, text: str, expected: Address) -> None:
        """An address is a port, behind an IP address or nothing."""
        assert expected == addresses.parse(text)

    @pytest.mark.parametrize(
        ("text", "reason"),
        [
            pytest.param("", "is not an address to listen on", id="nothing"),
            pytest.param("2112", "is not an address to listen on", id="port without a colon"),
            pytest.param("127.0.0.1", "is not an address to listen on", id="no port"),
            pytest.param("localhost:2112", "is not an address to listen on", id="name"),
            pytest.param("::1:2112", "is not an address to listen on", id="IPv6 without brackets"),
            pytest.param("[127.0.0.1:2112", "is not an address to listen on", id="half a bracket"),
            pytest.param(":2112\n", "is not an address to listen on", id="line break"),
            pytest.param("[fe80::1%eth0]:2112", "is not an address to listen on", id="IPv6 with a zone"),
            pytest.param(":http", "is not an address to listen on", id="port by name"),
            pytest.param(":0", "has a port that is out of range", id="port 0"),
            pytest.param(":65536", "has a port that is out of range", id="port above 65535"),
            pytest.param("1.2.3:2112", "does not name an IP address", id="three numbers"),
            pytest.param("256.0.0.1:2112", "does not name an IP address", id="number above 255"),
            pytest.param("[1::2::3]:2112", "does not name an IP address", id="two gaps"),
        ],
    )
    def test_refused(self, text: str, reason: str) -> None:
        """What is none is refused with the reason and the accepted form."""
        with pytest.raises(NotAccepted) as caught:
            addresses.parse(text)

        assert NotAccepted(text, reason=reason, accepted=addresses.ACCEPTED) == caught.value


class TestText:
    @given(st.ip_addresses().map(str), st.integers(1, 65535))
    def test_round_trip(self, host: str, port: int) -> None:
        """An address is written as the text that gives it."""
        address = Address(host, port)

        assert address == addresses.parse(str(address))
