from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import attrs
import pytest
from controller.scrapers import ACCESS_REVIEWS, TOKEN_REVIEWS, VERDICT_SECONDS, Scrapers, Verdict
from fractioning_core.kube.errors import Forbidden
from fractioning_core.kube.objects import Objects
from fractioning_core.kube.transport import Request

pytestmark = pytest.mark.looptime


@attrs.define
class Reviewer:
    """
    An API server that knows one token, and may let its owner in.
    """

    allows: bool = True
    reviews: list[Mapping[str, Any]] = attrs.field(factory=list)
    asked: list[str] = attrs.field(factory=list)
    at_once: int = 0
    most_at_once: int = 0

    async def ask(self, request: Request) -> Mapping[str, Any]:
        """
        Review.
        """
        self.asked.append(request.path)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await asyncio.sleep(1)
        self.at_once -= 1
        body: Any = request.body
        if request.path == TOKEN_REVIEWS.path:
            is_known = body["spec"] == {"token": "good"}
            user = {"username": "system:serviceaccount:m:prometheus", "groups": ["g"], "uid": "u"}
            return {"status": {"authenticated": True, "user": user} if is_known else {}}
        self.reviews.append(body["spec"])
        return {"status": {"allowed": self.allows}}


@attrs.define
class Scene:
    """
    Scrapers of a page.
    """

    reviewer: Reviewer
    scrapers: Scrapers


@pytest.fixture
async def scene() -> Scene:
    reviewer = Reviewer()
    clock = asyncio.get_running_loop().time
    return Scene(reviewer, Scrapers(Objects(reviewer, field_manager="tests"), path="/metrics", clock=clock))


class TestJudge:
    """
    Who may read the page.
    """

    async def test_allowed(self, scene: Scene) -> None:
        """
        Whoever the API server knows and lets get the path may.
        """
        assert Verdict.ALLOWED is await scene.scrapers.judge("Bearer good")
        assert [
            {
                "user": "system:serviceaccount:m:prometheus",
                "uid": "u",
                "groups": ["g"],
                "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
            }
        ] == scene.reviewer.reviews

    async def test_denied(self, scene: Scene) -> None:
        """
        Whoever has not the right may not.
        """
        scene.reviewer.allows = False

        assert Verdict.DENIED is await scene.scrapers.judge("Bearer good")

    async def test_unknown(self, scene: Scene) -> None:
        """
        A token that the API server does not know is asked nothing more about.
        """
        assert (Verdict.UNKNOWN, [TOKEN_REVIEWS.path]) == (
            await scene.scrapers.judge("Bearer bad"),
            scene.reviewer.asked,
        )

    @pytest.mark.parametrize(
        "authorization",
        [
            pytest.param("", id="nothing"),
            pytest.param("Bearer ", id="no token"),
            pytest.param("Basic Zm9vOmJhcg==", id="a password"),
            pytest.param("Bearer " + "x" * 20000, id="too long"),
        ],
    )
    async def test_no_token(self, scene: Scene, authorization: str) -> None:
        """
        Without a token the API server is not asked.
        """
        assert (Verdict.UNKNOWN, []) == (await scene.scrapers.judge(authorization), scene.reviewer.asked)

    async def test_kept(self, scene: Scene) -> None:
        """
        A verdict is kept for a minute, and no longer.
        """
        await scene.scrapers.judge("Bearer good")
        await asyncio.sleep(VERDICT_SECONDS - 1)
        await scene.scrapers.judge("Bearer good")
        within = len(scene.reviewer.asked)
        scene.reviewer.allows = False
        await asyncio.sleep(1)

        assert (2, Verdict.DENIED) == (within, await scene.scrapers.judge("Bearer good"))

    async def test_guessing(self, scene: Scene) -> None:
        """
        Whoever guesses tokens keeps the API server busy with two requests at a time at the most.
        """
        async with asyncio.TaskGroup() as group:
            for number in range(100):
                group.create_task(scene.scrapers.judge(f"Bearer {number}"))

        assert 2 == scene.reviewer.most_at_once

    async def test_not_allowed_to_ask(self) -> None:
        """
        Where we may not ask, that is the caller's to tell.
        """

        class Refusing:
            async def ask(self, request: Request) -> Mapping[str, Any]:
                raise Forbidden(str(request), 403, "no right")

        scrapers = Scrapers(Objects(Refusing(), field_manager="tests"), path="/metrics", clock=lambda: 0.0)
        with pytest.raises(Forbidden):
            await scrapers.judge("Bearer good")


def test_paths() -> None:
    """
    Reviews are created where the API server has them.
    """
    assert ("/apis/authentication.k8s.io/v1/tokenreviews", "/apis/authorization.k8s.io/v1/subjectaccessreviews") == (
        TOKEN_REVIEWS.path,
        ACCESS_REVIEWS.path,
    )
