from __future__ import annotations

import json

import pytest
from fractioning_core.errors import FractioningError, InvalidInput, Unavailable
from fractioning_core.kube import errors
from fractioning_core.kube.errors import (
    ApiOverloaded,
    ApiRejection,
    BadAnswer,
    Conflict,
    Expired,
    Forbidden,
    InvalidNodeName,
    LeaseLost,
    NotFound,
    Unauthorized,
)

REQUEST = "PATCH /api/v1/nodes/node-a"


def status_object(message: object) -> bytes:
    return json.dumps({"kind": "Status", "message": message}).encode()


class TestFromStatus:
    """
    The error for an answer.
    """

    @pytest.mark.parametrize(
        ("status", "kind", "branch"),
        [
            pytest.param(400, ApiRejection, InvalidInput, id="bad request"),
            pytest.param(401, Unauthorized, Unavailable, id="unauthorized"),
            pytest.param(403, Forbidden, Unavailable, id="forbidden"),
            pytest.param(404, NotFound, Unavailable, id="not found"),
            pytest.param(409, Conflict, Unavailable, id="conflict"),
            pytest.param(410, Expired, Unavailable, id="gone"),
            pytest.param(422, ApiRejection, InvalidInput, id="invalid object"),
            pytest.param(429, ApiOverloaded, Unavailable, id="too many requests"),
            pytest.param(500, ApiOverloaded, Unavailable, id="internal error"),
            pytest.param(503, ApiOverloaded, Unavailable, id="service unavailable"),
        ],
    )
    def test_branch(self, status: int, kind: type[FractioningError], branch: type[FractioningError]) -> None:
        """
        The status decides what the caller does.
        """
        error = errors.from_status(REQUEST, status, b"")

        assert (kind, True) == (type(error), isinstance(error, branch))

    @pytest.mark.parametrize(
        ("body", "told"),
        [
            pytest.param(status_object("nodes is forbidden"), ": nodes is forbidden", id="a status object"),
            pytest.param(status_object("two\nlines"), r": two\nlines", id="one line in any case"),
            pytest.param(b"upstream is gone", ": upstream is gone", id="a balancer's text"),
            pytest.param(
                status_object(7), ': {\\"kind\\": \\"Status\\", \\"message\\": 7}', id="a message that is none"
            ),
            pytest.param(b"[1]", ": [1]", id="no object"),
            pytest.param(b"[" * 100_000, ": " + "[" * 300, id="nested too deep to read"),
            pytest.param(b"", "", id="nothing"),
            pytest.param(None, "", id="no body"),
        ],
    )
    def test_message(self, body: bytes | None, told: str) -> None:
        """
        The server's sentence is told after the request and the status.
        """
        assert f"{REQUEST}: 403 from the API server{told}" == str(errors.from_status(REQUEST, 403, body))

    def test_long_message(self) -> None:
        """
        A page of text is cut.
        """
        error = errors.from_status(REQUEST, 403, status_object("x" * 1000))

        assert f"{REQUEST}: 403 from the API server: {'x' * 300}..." == str(error)

    @pytest.mark.parametrize(
        ("header", "seconds"),
        [
            pytest.param(None, 0.0, id="nothing"),
            pytest.param("7", 7.0, id="seconds"),
            pytest.param("9" * 5000, 60.0, id="more than is obeyed"),
            pytest.param("Wed, 21 Oct 2026 07:28:00 GMT", 0.0, id="a date"),
            pytest.param("\u0667", 0.0, id="another alphabet's digit"),
            pytest.param("-1", 0.0, id="below zero"),
        ],
    )
    def test_retry_after(self, header: str | None, seconds: float) -> None:
        """
        A time to wait is kept, within reason.
        """
        error = errors.from_status(REQUEST, 429, b"slow", retry_after=header)

        assert ApiOverloaded(REQUEST, 429, "slow", seconds) == error


class TestText:
    """
    The texts of the others.
    """

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            pytest.param(
                InvalidNodeName("Node_A"),
                '"Node_A" is not the name of a node; accepted: small letters, digits, - and ., as spec.nodeName',
                id="node name",
            ),
            pytest.param(
                BadAnswer(REQUEST, "is not JSON"), f"{REQUEST}: the API server's answer is not JSON", id="bad answer"
            ),
            pytest.param(LeaseLost("a/b", "c has it"), "lost the lease a/b: c has it", id="lease lost"),
        ],
    )
    def test_facts(self, error: FractioningError, text: str) -> None:
        """
        Each names what it is about.
        """
        assert text == str(error)
