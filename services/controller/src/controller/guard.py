"""
The one gate that every write passes: nothing is written by whom another may have replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
from fractioning_core.errors import Unavailable
from fractioning_core.kube.transport import Api, Request


@attrs.frozen(auto_exc=False)
class MayNotWrite(Unavailable):
    """
    We do not lead, or are about to end.
    """

    request: str

    def __str__(self) -> str:
        return f"{self.request}: not written, since this replica does not lead or is ending"


@attrs.frozen
class GuardedApi:
    """
    The API server for as long as we may write; reading is always allowed.

    Args:
        api: The API server.
        may_write: Asked before each write.
    """

    _api: Api
    _may_write: Callable[[], bool] = attrs.field(kw_only=True)

    async def ask(self, request: Request) -> Mapping[str, Any]:
        """
        Pass a request on; raises MayNotWrite, or what the API raises.
        """
        if request.verb != "GET" and not self._may_write():
            raise MayNotWrite(str(request))
        return await self._api.ask(request)
