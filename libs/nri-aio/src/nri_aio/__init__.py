"""
An asyncio SDK for Node Resource Interface (NRI) plugins.

Derive from `Plugin`, give it to `run`. `nri_aio.cri` holds a client for the same runtime's CRI socket.
"""

from nri_aio.connection import DEFAULT_SOCKET, Connection, Statistics
from nri_aio.errors import Refused
from nri_aio.lifecycle import State
from nri_aio.plugin import Call, Change, ChangeRequest, Configuration, Plugin, Reply
from nri_aio.runner import run

__all__ = [
    "DEFAULT_SOCKET",
    "Call",
    "Change",
    "ChangeRequest",
    "Configuration",
    "Connection",
    "Plugin",
    "Refused",
    "Reply",
    "State",
    "Statistics",
    "run",
]
