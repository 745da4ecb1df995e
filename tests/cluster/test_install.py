"""
A release's life from the packed chart: installed, upgraded, rolled back and uninstalled, with fractional pods running.

It is lived once (`clusterlab.life`); each test tells one thing of what was seen. The release that was there is put back
afterwards. Driver, GPUs and NVIDIA's runtime are simulated, and the scheduler is a stand-in; all else is real.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import attrs
import pytest
import pytest_asyncio
from apilab.helm import RELEASE
from clusterlab import departure
from clusterlab import life as life_of
from clusterlab.client import Client
from clusterlab.cluster import Cluster
from clusterlab.life import BOTH, KEPT, NEWER, VALUES, Life
from clusterlab.release import FRACTIOND, MPSD, Release

INSTALL_SECONDS = 60.0


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def life(installed: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Life]:
    """
    A whole life, and then the release of the other tests again.
    """
    async with installed.admin() as api:
        release = Release(installed, Client(api))
        try:
            yield await life_of.live(release, tmp_path_factory.mktemp("charts"))
        finally:
            await departure.erase(release)
            await release.install()
            await release.steady()


class TestInstall:
    def test_ready_in_time(self, life: Life) -> None:
        """
        From the packed chart, with the images loaded, everything is Ready in less than a minute.
        """
        print(f"helm install to Ready: {life.ready_seconds:.1f} s")

        assert life.ready_seconds < INSTALL_SECONDS

    def test_on_all_nodes(self, life: Life, cluster: Cluster) -> None:
        """
        Both daemons have a pod on each node with GPUs, and nowhere else.
        """
        nodes = {worker.name for worker in cluster.workers if worker.gpus}

        assert dict.fromkeys(BOTH, nodes) == {name: set(pods) for name, pods in life.installed.containers.items()}

    def test_values(self, life: Life) -> None:
        """
        The resource is as the values say.
        """
        spec = life.installed.spec

        assert VALUES["fractioningAgent"].items() <= spec["fractioningAgent"].items()
        assert VALUES["mpsDaemon"].items() <= spec["mpsDaemon"].items()


class TestUpgrade:
    def test_newer_chart(self, life: Life) -> None:
        """
        The release is of the newer chart, with the values and the spec that it had.
        """
        expected = attrs.evolve(life.installed, chart=f"{RELEASE}-{NEWER}")

        assert (expected.chart, expected.values, expected.spec) == (
            life.upgraded.chart,
            life.upgraded.values,
            life.upgraded.spec,
        )

    def test_nothing_else(self, life: Life) -> None:
        """
        No daemon is restarted, and the resource is the one that was there.
        """
        assert life.installed.config == life.upgraded.config
        assert life.installed.containers == life.upgraded.containers

    def test_changed_value(self, life: Life) -> None:
        """
        A value of fractiond's that changes rolls fractiond out, and leaves the resource and mpsd alone.
        """
        before, after = life.upgraded, life.changed

        assert (before.config, before.containers[MPSD]) == (after.config, after.containers[MPSD])
        assert before.containers[FRACTIOND].keys() == after.containers[FRACTIOND].keys()
        assert set() == before.of(FRACTIOND) & after.of(FRACTIOND)


class TestRollback:
    def test_as_before(self, life: Life) -> None:
        """
        A rollback gives chart, values and spec of before; the resource and mpsd stay.
        """
        expected = attrs.evolve(
            life.upgraded, containers={**life.upgraded.containers, FRACTIOND: life.rolled_back.containers[FRACTIOND]}
        )

        assert expected == life.rolled_back


class TestTenants:
    def test_fenced_throughout(self, life: Life) -> None:
        """
        No container of a fractional pod, older than upgrade and rollback or newer, is without its fence at any time.
        """
        assert [] == life.spells

    def test_undisturbed(self, life: Life) -> None:
        """
        Every container that was there before lives through upgrade, change and rollback.
        """
        assert set() == life.ended


class TestUninstall:
    def test_left(self, life: Life) -> None:
        """
        Of all that the cluster has, nothing is there that was not before, but for what helm and Kubernetes keep.
        """
        assert KEPT == life.left

    def test_nothing_mentions_it(self, life: Life) -> None:
        """
        No other object has anything of the product: no label, annotation, condition, owner or manager of fields.
        """
        assert KEPT == life.mentioning
