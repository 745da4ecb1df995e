"""
Makes the images; see scripts/build-images, which says how it is called.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from images import assembly, products
from images.failure import BuildFailed

REPOSITORY = Path(__file__).parents[2]
# 2026-01-01: what every file says unless a release says when it was made.
EPOCH = 1767225600


def main() -> None:
    """
    Read the arguments and make what they name.
    """
    known = {product.service: product for product in products.read(REPOSITORY)}
    parser = argparse.ArgumentParser(prog="scripts/build-images", add_help=False)
    parser.add_argument("services", nargs="*", metavar="SERVICE")
    parser.add_argument("--fips", action="store_true")
    parser.add_argument("--refresh", action="store_true")
    parser.add_argument("--context", action="store_true")
    parser.add_argument("--output", type=Path, default=REPOSITORY / ".cache" / "images")
    given = parser.parse_args()
    unknown = sorted(set(given.services) - known.keys())
    if unknown:
        parser.error(f"no such image: {', '.join(unknown)}; accepted: {', '.join(known)}")
    chosen = [known[service] for service in given.services or known]
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or str(EPOCH)
    if not epoch.isdecimal():
        parser.error(f"SOURCE_DATE_EPOCH: {epoch!r} is no time; accepted: seconds since 1970, or nothing")
    work = assembly.Assembly(REPOSITORY, output=given.output.resolve(), epoch=int(epoch))
    try:
        work.prepare(chosen)
        if not given.context:
            work.build(chosen, products.VARIANTS if given.fips else (products.PLAIN,), refresh=given.refresh)
    except BuildFailed as error:
        sys.exit(f"build-images: {error}")


if __name__ == "__main__":
    main()
