from __future__ import annotations

from pathlib import Path

from images import products

CHART = "deploy/helm/gpu-fractioning"
VALUES = """\
images:
  operator: {repository: registry.example/operator, tag: ""}
  fractiond: {repository: registry.example/fractiond, tag: ""}
  metricsd: {repository: registry.example/metricsd, tag: v9}
  mpsd: {repository: registry.example/mpsd, tag: ""}
"""


def test_named_by_the_chart(tmp_path: Path) -> None:
    """Images are called what the chart pulls: its repositories, its appVersion, or a tag of their own."""
    (tmp_path / CHART).mkdir(parents=True)
    (tmp_path / CHART / "values.yaml").write_text(VALUES)
    (tmp_path / CHART / "Chart.yaml").write_text("appVersion: 1.2.0\n")
    found = products.read(tmp_path)

    assert [
        ("controller.tar", "registry.example/operator:1.2.0"),
        ("fractiond.tar", "registry.example/fractiond:1.2.0"),
        ("metricsd.tar", "registry.example/metricsd:v9"),
        ("mpsd.tar", "registry.example/mpsd:1.2.0"),
    ] == [(product.archive(""), product.reference("")) for product in found]


def test_fips_variant(tmp_path: Path) -> None:
    """The FIPS variant's tag ends as the chart's does in a FIPS mode."""
    product = products.Product("mpsd", "Dockerfile.node", "registry.example/mpsd", "1.2.0")

    assert ("mpsd-fips.tar", "registry.example/mpsd:1.2.0-fips") == (
        product.archive("-fips"),
        product.reference("-fips"),
    )
