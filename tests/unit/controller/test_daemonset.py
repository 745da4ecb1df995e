"""What both DaemonSets have in common."""

from __future__ import annotations

import attrs
import pytest
from controller import daemonset, fractiond, mpsd
from controller.daemonset import Input
from controller.testing.builders import OPTIONS, a_config

BUILDERS = {"fractiond": fractiond.build, "mpsd": mpsd.build}


@pytest.mark.parametrize("component", BUILDERS)
class TestCommon:
    def test_names(self, component: str) -> None:
        """Name, labels and selectors are ours, and the config is the controller."""
        manifest = BUILDERS[component](Input(a_config(), OPTIONS, is_nri=False))
        labels = {"app.kubernetes.io/managed-by": "gpu-fractioning", "app.kubernetes.io/component": component}
        metadata, spec = manifest["metadata"], manifest["spec"]

        assert ("gpu-fractioning", f"gpu-fractioning-{component}") == (metadata["namespace"], metadata["name"])
        assert [labels] * 3 == [
            metadata["labels"],
            spec["selector"]["matchLabels"],
            spec["template"]["metadata"]["labels"],
        ]
        assert spec["template"]["spec"]["nodeSelector"] == {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.deploy.client": "true",
        }
        assert metadata["ownerReferences"] == [
            {
                "apiVersion": "gpu-fractioning.kai.scheduler/v1alpha1",
                "kind": "GpuFractioningConfig",
                "name": "default",
                "uid": "config-uid",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ]

    def test_hash(self, component: str) -> None:
        """The same input gives the same manifest, and every difference another hash."""
        given = Input(a_config(), OPTIONS, is_nri=False)
        others = [
            Input(a_config(uid="other"), OPTIONS, is_nri=False),
            Input(a_config(), attrs.evolve(OPTIONS, image_pull_secrets=("x",)), is_nri=False),
            Input(a_config(), OPTIONS, is_nri=True),
        ]
        build = BUILDERS[component]

        assert build(given) == build(given)
        assert len({daemonset.spec_hash(build(one)) for one in [given, *others]}) == 4

    def test_generation_does_not_count(self, component: str) -> None:
        """A change of the config that concerns the other daemon alone changes nothing here."""
        build = BUILDERS[component]
        first, second = (build(Input(a_config(generation=number), OPTIONS, is_nri=False)) for number in (1, 2))

        assert first == second


@pytest.mark.parametrize(
    ("name", "expected"), [pytest.param(None, "nvidia", id="absent"), ("", None), ("other", "other")]
)
def test_runtime_class(name: str | None, expected: str | None) -> None:
    """An absent class is the default, and an empty one is none."""
    assert expected == daemonset.runtime_class(name)
