from __future__ import annotations

import pytest
from nri_aio.pb import nri_pb2 as pb
from nri_aio.testing.claims import Claims, Conflict


def env(*keys: str) -> pb.ContainerAdjustment:
    return pb.ContainerAdjustment(env=[pb.KeyValue(key=key, value="v") for key in keys])


class TestClaims:
    """Who set what."""

    def test_different_keys_do_not_meet(self) -> None:
        """Plugins may set different things."""
        claims = Claims()

        assert (None, None) == (claims.add("10-a", env("A")), claims.add("20-b", env("B")))

    @pytest.mark.parametrize(
        ("adjust", "key"),
        [
            pytest.param(env("A"), "env A", id="environment"),
            pytest.param(
                pb.ContainerAdjustment(mounts=[pb.Mount(destination="/m")]), "mount /m", id="mount destination"
            ),
            pytest.param(pb.ContainerAdjustment(annotations={"k": "v"}), "annotation k", id="annotation"),
            pytest.param(
                pb.ContainerAdjustment(linux=pb.LinuxContainerAdjustment(devices=[pb.LinuxDevice(path="/dev/x")])),
                "device /dev/x",
                id="device path",
            ),
            pytest.param(
                pb.ContainerAdjustment(rlimits=[pb.POSIXRlimit(type="RLIMIT_NOFILE")]),
                "rlimit RLIMIT_NOFILE",
                id="resource limit",
            ),
        ],
    )
    def test_the_same_key_is_a_conflict(self, adjust: pb.ContainerAdjustment, key: str) -> None:
        """The second one to set a thing is named with the first."""
        claims = Claims()
        claims.add("10-a", adjust)

        assert Conflict("10-a", "20-b", key) == claims.add("20-b", adjust)

    def test_one_plugin_conflicts_with_itself(self) -> None:
        """A key twice in one answer is a conflict as well."""
        assert Conflict("10-a", "10-a", "env A") == Claims().add("10-a", env("A", "A"))

    def test_removal_withdraws_an_earlier_claim(self) -> None:
        """A plugin that removes a key first may set it."""
        claims = Claims()
        claims.add("10-a", env("A"))

        assert claims.add("20-b", env("A", "-A")) is None
