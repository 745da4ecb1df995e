"""Addresses to listen on, as Go programs write them: `:2112`, `127.0.0.1:2112`, `[::1]:2112`.

A host name is none: what it means is up to a resolver that may not answer yet when a service starts.
"""

from __future__ import annotations

import re
from ipaddress import ip_address

import attrs

from fractioning_core.service.problems import NotAccepted

ALL_ADDRESSES = "::"
"""IPv6 and IPv4 alike where the kernel has both, else IPv4."""

ACCEPTED = ":port or address:port with a port from 1 to 65535, such as :2112, 127.0.0.1:2112 or [::1]:2112"

_TEXT = re.compile(r"(?:([0-9.]*)|\[([0-9A-Fa-f:.]+)\]):([0-9]{1,5})")


@attrs.frozen
class Address:
    """
    Where to listen.

    Args:
        host: An IP address; `::` is all of them.
        port: 0 listens nowhere.
    """

    host: str
    port: int

    def __str__(self) -> str:
        if self.host == ALL_ADDRESSES:
            return f":{self.port}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


NOWHERE = Address(ALL_ADDRESSES, 0)


def parse(text: str) -> Address:
    """
    Return the address that a text stands for; no host is all addresses.

    Raises:
        NotAccepted: It is none, or has no port to listen on.
    """
    found = _TEXT.fullmatch(text)
    if found is None:
        raise NotAccepted(text, reason="is not an address to listen on", accepted=ACCEPTED)
    port = int(found[3])
    if not 1 <= port <= 65535:
        raise NotAccepted(text, reason="has a port that is out of range", accepted=ACCEPTED)
    try:
        host = str(ip_address(found[1] or found[2] or ALL_ADDRESSES))
    except ValueError as error:
        raise NotAccepted(text, reason="does not name an IP address", accepted=ACCEPTED) from error
    return Address(host, port)
