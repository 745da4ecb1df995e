"""
Who may read the metrics: whoever shows a token that the API server knows, and may `get` the page's path.

The API server decides both, by a TokenReview and a SubjectAccessReview. A verdict is kept for a minute, so that a
scraper costs two requests in that time, and a right that is taken away ends within it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

import attrs
from fractioning_core.kube.collections import Collection
from fractioning_core.kube.objects import Objects

from controller import manifests

TOKEN_REVIEWS = Collection("authentication.k8s.io", "v1", "tokenreviews")
ACCESS_REVIEWS = Collection("authorization.k8s.io", "v1", "subjectaccessreviews")

VERDICT_SECONDS = 60.0
# A cluster has a few scrapers; whoever guesses tokens pushes out verdicts that cost two requests.
_VERDICTS = 64
# Whoever guesses tokens is not to keep the API server busy.
_REVIEWS_AT_ONCE = 2
# As the API server's own bound on headers.
_TOKEN_LIMIT = 16384
_SCHEME = "Bearer "


class Verdict(Enum):
    """
    What is made of a token.
    """

    UNKNOWN = 401
    DENIED = 403
    ALLOWED = 200


@attrs.frozen
class _Kept:
    verdict: Verdict
    until: float


class Scrapers:
    """
    Judges tokens.

    Args:
        objects: The API server.
        path: The page.
        clock: The loop's time.
    """

    def __init__(self, objects: Objects, *, path: str, clock: Callable[[], float]) -> None:
        self._objects = objects
        self._path = path
        self._clock = clock
        self._kept: OrderedDict[bytes, _Kept] = OrderedDict()
        self._reviews = asyncio.Semaphore(_REVIEWS_AT_ONCE)

    async def judge(self, authorization: str) -> Verdict:
        """
        Judge who shows a header `Authorization`; raises FractioningError when the API server does not answer.
        """
        token = authorization.removeprefix(_SCHEME).strip()
        if not authorization.startswith(_SCHEME) or not token or len(token) > _TOKEN_LIMIT:
            return Verdict.UNKNOWN
        digest = hashlib.sha256(token.encode()).digest()
        async with self._reviews:
            kept = self._kept.get(digest)
            if kept is None or kept.until <= self._clock():
                kept = self._keep(digest, await self._review(token))
        return kept.verdict

    def _keep(self, digest: bytes, verdict: Verdict) -> _Kept:
        kept = self._kept[digest] = _Kept(verdict, self._clock() + VERDICT_SECONDS)
        self._kept.move_to_end(digest)
        while len(self._kept) > _VERDICTS:
            self._kept.popitem(last=False)
        return kept

    async def _review(self, token: str) -> Verdict:
        answer = await self._objects.create(TOKEN_REVIEWS.path, _token_review(token))
        if manifests.mapping(answer, "status").get("authenticated") is not True:
            return Verdict.UNKNOWN
        user = manifests.mapping(answer, "status", "user")
        answer = await self._objects.create(ACCESS_REVIEWS.path, _access_review(user, self._path))
        is_allowed = manifests.mapping(answer, "status").get("allowed") is True
        return Verdict.ALLOWED if is_allowed else Verdict.DENIED


def _token_review(token: str) -> Mapping[str, Any]:
    return {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}


def _access_review(user: Mapping[str, Any], path: str) -> Mapping[str, Any]:
    known = {"user": user.get("username"), **{key: user[key] for key in ("uid", "groups", "extra") if user.get(key)}}
    spec = {**known, "nonResourceAttributes": {"path": path, "verb": "get"}}
    return {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
