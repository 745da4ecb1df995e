from __future__ import annotations

import pytest
from nri_aio import errors
from nri_aio.errors import NriError


class TestTree:
    """What callers catch."""

    @pytest.mark.parametrize(
        ("branch", "leaves"),
        [
            pytest.param(errors.Unavailable, [errors.Unreachable, errors.Disconnected, errors.Rejected], id="retry"),
            pytest.param(
                errors.CriError, [errors.CriUnavailable, errors.CriDeadlineExceeded, errors.CriFailed], id="cri"
            ),
        ],
    )
    def test_branches(self, branch: type[NriError], leaves: list[type[NriError]]) -> None:
        """A branch catches its leaves."""
        assert all(issubclass(leaf, branch) for leaf in leaves)

    def test_one_root(self) -> None:
        """Everything raised on purpose is an NriError."""
        classes = [
            value for value in vars(errors).values() if isinstance(value, type) and value.__module__ == errors.__name__
        ]

        assert all(issubclass(each, NriError) for each in classes)


class TestText:
    """What messages say."""

    @pytest.mark.parametrize(
        ("error", "text"),
        [
            pytest.param(
                errors.Disconnected("closed by the runtime", "active"),
                "NRI connection lost while active: closed by the runtime",
                id="disconnected",
            ),
            pytest.param(errors.Rejected("no"), "NRI registration rejected: no", id="rejected"),
            pytest.param(
                errors.Rejected("no", "see the log"), "NRI registration rejected: no (see the log)", id="hint"
            ),
            pytest.param(
                errors.CallFailed("UpdateContainers", 2, "a\nb"),
                "NRI call UpdateContainers failed with status 2: 'a\\nb'",
                id="text from outside is escaped",
            ),
            pytest.param(
                errors.CriFailed("StopContainer", "UNKNOWN", "x" * 100),
                f"CRI StopContainer: UNKNOWN: '{'x' * 80}'…",
                id="text from outside is cut",
            ),
            pytest.param(
                errors.CriDeadlineExceeded("Version", 5.0), "CRI Version: no answer within 5 s", id="cri deadline"
            ),
        ],
    )
    def test_text(self, error: NriError, text: str) -> None:
        """A message is one line built from the error's facts."""
        assert text == str(error)

    def test_raised_error_takes_a_cause(self) -> None:
        """Frozen facts do not get into the way of raising."""
        with pytest.raises(errors.Unreachable) as caught:
            raise errors.Unreachable("/s", "gone") from OSError()

        assert isinstance(caught.value.__cause__, OSError)
