"""
The same input makes the same image.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from imagelab.archive import ARCHIVES, REPOSITORY, Unpack

SERVICE = "metricsd"


def test_built_again_elsewhere(unpack: Unpack, tmp_path: Path) -> None:
    """
    Built anew in another folder, from sources of another time, by one whose files nobody else may read, it is the same.

    Only the base is taken over: what Debian's archive offers may have changed since.
    """
    (tmp_path / "stamps").mkdir()
    for name in ("base.tar", "base-fips.tar", "stamps/base"):
        shutil.copy(ARCHIVES / name, tmp_path / name)
    subprocess.run(
        [REPOSITORY / "scripts/build-images", "--output", tmp_path, SERVICE],
        check=True,
        preexec_fn=lambda: os.umask(0o077),
    )
    digest, reference = (tmp_path / f"{SERVICE}.digest").read_text().split()
    first = unpack(SERVICE, "")

    assert (first.digest, first.reference) == (digest, reference)
