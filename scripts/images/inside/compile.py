"""
compile.py FOLDER...: compiles every module in some folders, with the interpreter that runs this.

The results do not depend on the sources' times, which a layer of an image does not keep: tied to a time they would all
be stale, and every start would compile anew.
"""

from __future__ import annotations

import py_compile
import sys
from pathlib import Path


def main() -> None:
    """Compile them."""
    for folder in sys.argv[1:]:
        for source in sorted(Path(folder).rglob("*.py")):
            py_compile.compile(
                str(source), doraise=True, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
            )


main()
