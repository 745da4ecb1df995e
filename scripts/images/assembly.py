"""
From sources to archives, doing again only what changed.

Each step keeps a stamp of what went into it; a step whose stamp is still right is not done. So the second run looks at
files and does nothing else. What the Debian archive offers today is not looked at again unless that is asked for.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

import attrs
from packaging.utils import canonicalize_name

from images import closure, debian, products, rootfs, sites, stamps
from images.buildah import Buildah
from images.products import Product

_HERE = Path(__file__).parent
_THIRD_PARTY, _OWN = "third-party", "own"
_DOCUMENTS = "usr/share/doc/gpu-fractioning"


@attrs.frozen
class Assembly:
    """
    A repository, and the folder that its images come into.
    """

    repository: Path
    output: Path = attrs.field(kw_only=True)
    epoch: int = attrs.field(kw_only=True)

    @property
    def context(self) -> Path:
        """
        The folder that the Dockerfiles build from.
        """
        return self.output / "context"

    def prepare(self, chosen: Iterable[Product]) -> None:
        """
        Install what images hold into the context.
        """
        shutil.rmtree(self.context / "build", ignore_errors=True)
        shutil.copytree(_HERE / "inside", self.context / "build", ignore=shutil.ignore_patterns("__pycache__"))
        for product in chosen:
            self._prepare(product.service)

    def build(self, chosen: Iterable[Product], variants: Iterable[str], *, refresh: bool = False) -> None:
        """
        Make the archives of images whose context is prepared.

        Args:
            chosen: the images.
            variants: which of each.
            refresh: whether to ask the Debian archive for newer packages first.
        """
        self._roots(refresh=refresh)
        storage = self.output / "storage"
        try:
            for variant in variants:
                for product in chosen:
                    self._build(product, variant, Buildah(storage, self.epoch))
        finally:
            # What is wanted of it lies in the archives, and old images would pile up.
            shutil.rmtree(storage, ignore_errors=True)

    def _prepare(self, service: str) -> None:
        members: dict[str, Path] = {canonicalize_name(folder.name): folder for folder in self._members()}
        needed = closure.of(service, own=frozenset(members), python=debian.PYTHON, requirements_of=closure.installed)
        requirements = closure.locked((self.repository / "requirements.txt").read_text(), needed.third_party)
        site = self.context / "sites" / service
        packages = sites.PACKAGES.format(python=debian.PYTHON)
        third_party, own = site / _THIRD_PARTY / packages, site / _OWN / packages
        maker = stamps.fingerprint(_HERE / "sites.py")
        site.mkdir(parents=True, exist_ok=True)

        def install_third_party() -> None:
            sites.install_locked(requirements, third_party, python=debian.PYTHON)
            sites.settle(site)

        def install_own() -> None:
            shutil.rmtree(site / _OWN, ignore_errors=True)
            sites.install_own([members[name] for name in needed.own], own)
            sites.write_programs(own, site / _OWN / sites.PROGRAMS)
            documents = site / _OWN / _DOCUMENTS
            documents.mkdir(parents=True)
            (documents / "LICENSE").write_bytes((self.repository / "LICENSE").read_bytes())
            (documents / "LICENSE").chmod(0o644)
            sites.settle(site)

        stamp = self.output / "stamps" / service
        sources = "".join(stamps.fingerprint(members[name]) for name in needed.own)
        stamps.once(
            stamp.with_suffix(f".{_THIRD_PARTY}"), maker + requirements, install_third_party, f"packages of {service}"
        )
        stamps.once(stamp.with_suffix(f".{_OWN}"), maker + sources, install_own, f"{service} itself")

    def _members(self) -> list[Path]:
        return sorted(
            path.parent for kind in ("libs", "services") for path in self.repository.glob(f"{kind}/*/pyproject.toml")
        )

    def _roots(self, *, refresh: bool) -> None:
        stamp = self.output / "stamps" / "base"
        if refresh or not all(self._base(variant).exists() for variant in products.VARIANTS):
            stamp.unlink(missing_ok=True)
        inputs = "".join(
            stamps.fingerprint(_HERE / name) for name in ("debian.py", "rootfs.py", "inside/compile.py", "fips")
        )
        stamps.once(stamp, f"{inputs}{self.epoch}", self._make_roots, "the base")

    def _make_roots(self) -> None:
        apt, root = self.output / "apt", self.output / "root"
        debs = debian.fetch((*debian.PACKAGES, *debian.FIPS_PACKAGES, debian.FIPS_TOOL), apt)
        named = {debian.name_of(deb): deb for deb in debs}
        rootfs.make([named[name] for name in sorted(debian.PACKAGES)], root)
        rootfs.pack(root, self._base(products.PLAIN), epoch=self.epoch)
        rootfs.add_fips([named[name] for name in debian.FIPS_PACKAGES], named[debian.FIPS_TOOL], root)
        rootfs.pack(root, self._base(products.FIPS), epoch=self.epoch)
        shutil.rmtree(root)

    def _base(self, variant: str) -> Path:
        return self.output / f"base{variant}.tar"

    def _build(self, product: Product, variant: str, engine: Buildah) -> None:
        archive, name = self.output / product.archive(variant), product.reference(variant)
        dockerfile = self.repository / product.dockerfile
        inputs = [dockerfile, self.context / "build", self.context / "sites" / product.service, self._base(variant)]

        def make() -> None:
            base = f"localhost/gpu-fractioning-base{variant}"
            if not engine.has(base):
                engine.import_root(self._base(variant), base)
            arguments = {
                "BASE": base,
                "VERSION": f"{product.version}{variant}",
                "SOURCE_DATE_EPOCH": str(self.epoch),
                "FIPS_MODE": "on" if variant == products.FIPS else "off",
            }
            engine.build(self.context, dockerfile=dockerfile, target=product.service, name=name, arguments=arguments)
            digest = engine.save(name, archive)
            archive.with_suffix(".digest").write_text(f"{digest} {name}\n")

        stamp = self.output / "stamps" / archive.name
        if not archive.exists():
            stamp.unlink(missing_ok=True)
        stamps.once(stamp, f"{name} {self.epoch} {' '.join(map(stamps.fingerprint, inputs))}", make, name)
