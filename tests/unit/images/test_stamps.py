from __future__ import annotations

from pathlib import Path

import pytest
from images import stamps


@pytest.fixture
def done() -> list[str]:
    return []


class TestOnce:
    def test_same_input(self, tmp_path: Path, done: list[str]) -> None:
        """A step is not done again for the same input."""
        for _ in range(2):
            stamps.once(tmp_path / "deep" / "stamp", "input", lambda: done.append("step"), "a step")

        assert ["step"] == done

    def test_other_input(self, tmp_path: Path, done: list[str]) -> None:
        """A step is done again for other input."""
        for text in ("one", "two"):
            stamps.once(tmp_path / "stamp", text, lambda: done.append("step"), "a step")

        assert ["step", "step"] == done

    def test_failure(self, tmp_path: Path, done: list[str]) -> None:
        """A step that failed over an older result is done again, for the older input too."""

        def fail() -> None:
            raise RuntimeError

        stamps.once(tmp_path / "stamp", "old", lambda: done.append("step"), "a step")
        with pytest.raises(RuntimeError):
            stamps.once(tmp_path / "stamp", "new", fail, "a step")
        stamps.once(tmp_path / "stamp", "old", lambda: done.append("step"), "a step")

        assert ["step", "step"] == done


class TestFingerprint:
    @pytest.mark.parametrize(
        ("name", "text", "mode"),
        [
            pytest.param("a", "other", 0o644, id="content"),
            pytest.param("b", "text", 0o644, id="a name"),
            pytest.param("a", "text", 0o755, id="a mode"),
        ],
    )
    def test_tells_apart(self, tmp_path: Path, name: str, text: str, mode: int) -> None:
        """Whatever gets into an image is told apart."""
        for folder, file, content, its_mode in (("one", "a", "text", 0o644), ("two", name, text, mode)):
            (tmp_path / folder).mkdir()
            (tmp_path / folder / file).write_text(content)
            (tmp_path / folder / file).chmod(its_mode)

        assert stamps.fingerprint(tmp_path / "one") != stamps.fingerprint(tmp_path / "two")

    def test_caches(self, tmp_path: Path) -> None:
        """What Python caches beside its modules makes no difference."""
        (tmp_path / "module.py").touch()
        before = stamps.fingerprint(tmp_path)
        (tmp_path / "__pycache__").mkdir()
        (tmp_path / "__pycache__" / "module.cpython-311.pyc").touch()

        assert before == stamps.fingerprint(tmp_path)
