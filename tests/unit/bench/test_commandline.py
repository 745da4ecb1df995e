from __future__ import annotations

import commandline
import pytest


class TestParse:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            pytest.param([], (False, False), id="nothing"),
            pytest.param(["--write"], (True, False), id="write"),
            pytest.param(["--quick"], (False, True), id="quick"),
        ],
    )
    def test_accepted(self, monkeypatch: pytest.MonkeyPatch, words: list[str], expected: tuple[bool, bool]) -> None:
        """
        Either may be asked for.
        """
        monkeypatch.setattr("sys.argv", ["bench", *words])
        asked = commandline.parse("nri", "what it costs", quick="a smoke run")

        assert expected == (asked.write, asked.quick)

    @pytest.mark.parametrize(
        ("words", "quick", "said"),
        [
            pytest.param(["--quick", "--write"], "a smoke run", "--write with --quick", id="both"),
            pytest.param(["--quick"], "", "unrecognized arguments: --quick", id="quick where there is none"),
        ],
    )
    def test_refused(
        self,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        words: list[str],
        quick: str,
        said: str,
    ) -> None:
        """
        Figures of a smoke run are not for the README, and not every bench has one.
        """
        monkeypatch.setattr("sys.argv", ["bench", *words])
        with pytest.raises(SystemExit) as ended:
            commandline.parse("nri", "what it costs", quick=quick)

        assert 2 == ended.value.code
        assert said in capsys.readouterr().err
