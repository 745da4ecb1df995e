from __future__ import annotations

import pytest
from fractioning_core.fraction import Device, Fraction, devices_in
from fractioning_core.testing.builders import a_fraction

KIND = "k8s.device-plugin.nvidia.com/gpu"


class TestDevice:
    """One entry of the devices annotation."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param("GPU-8f4e", Device("GPU-8f4e", uuid="GPU-8f4e"), id="UUID"),
            pytest.param("MIG-8f4e", Device("MIG-8f4e", uuid="MIG-8f4e"), id="MIG UUID"),
            pytest.param("MIG-GPU-8f4e/1/0", Device("MIG-GPU-8f4e/1/0", uuid="MIG-GPU-8f4e/1/0"), id="old MIG name"),
            pytest.param("0", Device("0", index=0), id="index"),
            pytest.param("15", Device("15", index=15), id="index of two digits"),
            pytest.param("all", Device("all", is_all=True), id="all"),
            pytest.param(f"{KIND}=GPU-8f4e", Device(f"{KIND}=GPU-8f4e", uuid="GPU-8f4e", kind=KIND), id="CDI UUID"),
            pytest.param(f"{KIND}=1", Device(f"{KIND}=1", index=1, kind=KIND), id="CDI index"),
            pytest.param(f"{KIND}=all", Device(f"{KIND}=all", kind=KIND, is_all=True), id="CDI all"),
            pytest.param(
                "nvidia.com/gpu=GPU-8f4e",
                Device("nvidia.com/gpu=GPU-8f4e", uuid="GPU-8f4e", kind="nvidia.com/gpu"),
                id="another CDI kind",
            ),
            pytest.param("void", Device("void"), id="void"),
            pytest.param("gpu-8f4e", Device("gpu-8f4e"), id="lower case is no UUID"),
            pytest.param("0:1", Device("0:1"), id="MIG index"),
            pytest.param("a=GPU-8f4e", Device("a=GPU-8f4e"), id="no CDI kind"),
            pytest.param("12345", Device("12345"), id="too long for an index"),
            pytest.param("\u0661", Device("\u0661"), id="foreign digit"),
        ],
    )
    def test_forms(self, text: str, expected: Device) -> None:
        """Each known form is understood and any other kept as text."""
        assert expected == Device.from_text(text)

    def test_list_passes_over_empty_entries(self) -> None:
        """Space around entries and empty entries mean nothing."""
        assert (Device("0", index=0), Device("1", index=1)) == devices_in(" 0 ,,1, ")


class TestFraction:
    """What one container asked for."""

    def test_defaults(self) -> None:
        """Without mode and devices a fraction is time-sliced on no particular GPU."""
        assert Fraction(1024, 1024) == a_fraction(request_mib=1024, limit_mib=1024)

    def test_effective_memory_is_the_limit(self) -> None:
        """The figure to account with is what is enforced."""
        assert 4096 == a_fraction(request_mib=2048, limit_mib=4096).effective_mib

    def test_devices_follow_their_text(self) -> None:
        """The entries are read from the verbatim value."""
        assert devices_in("GPU-a,1") == a_fraction(devices="GPU-a,1").devices

    def test_whole_gpus_by_uuid(self) -> None:
        """Whole GPUs are listed once, in order, without MIG slices, indices and `all`."""
        fraction = a_fraction(devices=f"GPU-b,{KIND}=GPU-a,MIG-c,GPU-b,0,all")

        assert ("GPU-b", "GPU-a") == fraction.gpu_uuids
