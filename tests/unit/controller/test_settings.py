from __future__ import annotations

import attrs
import pytest
from controller.settings import Settings
from fractioning_core.service import settings
from fractioning_core.service.addresses import ALL_ADDRESSES, NOWHERE, Address
from fractioning_core.service.problems import BadSettings

IMAGES = {
    "FRACTIOND_IMAGE_REPOSITORY": "r.test/fractiond",
    "METRICSD_IMAGE_REPOSITORY": "r.test/metricsd",
    "MPSD_IMAGE_REPOSITORY": "r.test/mpsd",
}

DEFAULTS = {
    "fractiond_image_repository": "r.test/fractiond",
    "fractiond_image_tag": "",
    "fractiond_image_pull_policy": "IfNotPresent",
    "metricsd_image_repository": "r.test/metricsd",
    "metricsd_image_tag": "",
    "metricsd_image_pull_policy": "IfNotPresent",
    "mpsd_image_repository": "r.test/mpsd",
    "mpsd_image_tag": "",
    "mpsd_image_pull_policy": "IfNotPresent",
    "mpsd_audit_log": True,
    "support_sm_sharing": True,
    "fips_mode": "off",
    "daemon_service_account_name": "",
    "fractiond_service_account_name": "",
    "image_pull_secrets": (),
    "daemon_required_scc": "",
    "daemon_priority_class_name": "",
    "skip_gpu_stack_version_checks": False,
    "metrics_bind_address": NOWHERE,
    "metrics_secure": True,
    "metrics_cert_path": "",
    "metrics_cert_name": "tls.crt",
    "metrics_cert_key": "tls.key",
    "enable_http2": False,
    "health_probe_bind_address": Address(ALL_ADDRESSES, 8081),
    "leader_elect": False,
    "pod_namespace": "default",
    "identity": "",
    "pod_uid": "",
    "development": False,
}


def load(*argv: str, **environ: str) -> Settings:
    return settings.load(Settings, program="controller", version="1", argv=argv, environ={**IMAGES, **environ})


def told(*argv: str, **environ: str) -> list[str]:
    """
    Give what is said of bad settings.
    """
    with pytest.raises(BadSettings) as caught:
        load(*argv, **environ)
    return [str(problem) for problem in caught.value.problems]


def values(chosen: Settings) -> dict[str, object]:
    return attrs.asdict(chosen, recurse=False)


class TestDefaults:
    """
    What holds when only the images are told.
    """

    def test_all(self) -> None:
        """
        Every setting has the documented default.
        """
        assert DEFAULTS == values(load())

    @pytest.mark.parametrize(
        "variable", ["MPSD_AUDIT_LOG", "FIPS_MODE", "POD_NAMESPACE", "IMAGE_PULL_SECRETS", "MPSD_IMAGE_PULL_POLICY"]
    )
    def test_empty_variable(self, variable: str) -> None:
        """
        A chart that leaves a value empty changes nothing.
        """
        assert DEFAULTS == values(load(**{variable: ""}))


class TestReading:
    """
    What the chart tells.
    """

    def test_flags(self) -> None:
        """
        The flags of the Deployment are understood.
        """
        chosen = load(
            "--leader-elect",
            "--health-probe-bind-address=:8082",
            "--metrics-bind-address=:8080",
            "--metrics-secure=false",
            "--enable-http2",
        )
        address = Address(ALL_ADDRESSES, 8080)

        assert (True, Address(ALL_ADDRESSES, 8082), address, False) == (
            chosen.leader_elect,
            chosen.health_probe_bind_address,
            chosen.metrics_bind_address,
            chosen.metrics_secure,
        )

    def test_environment(self) -> None:
        """
        The variables of the Deployment are understood.
        """
        chosen = load(
            POD_NAMESPACE="gpu",
            MPSD_IMAGE_TAG="1.0",
            MPSD_IMAGE_PULL_POLICY="Always",
            IMAGE_PULL_SECRETS="a,b",
            SKIP_GPU_STACK_VERSION_CHECKS="true",
            DAEMON_SERVICE_ACCOUNT_NAME="gpu-daemon",
        )

        assert ("gpu", "1.0", "Always", ("a", "b"), True, "gpu-daemon") == (
            chosen.pod_namespace,
            chosen.mpsd_image_tag,
            chosen.mpsd_image_pull_policy,
            chosen.image_pull_secrets,
            chosen.skip_gpu_stack_version_checks,
            chosen.daemon_service_account_name,
        )

    @pytest.mark.parametrize("flag", ["health-probe-bind-address", "metrics-bind-address"])
    def test_off(self, flag: str) -> None:
        """
        `0` serves nothing.
        """
        chosen = load(f"--{flag}=0")

        assert NOWHERE == getattr(chosen, flag.replace("-", "_"))


class TestRefusals:
    """
    What stops the start.
    """

    def test_no_images(self) -> None:
        """
        Each image that is missing is named with the variable that sets it, that of metricsd too.
        """
        found = told(**dict.fromkeys(IMAGES, ""))

        assert list(IMAGES) == [text.split(", and nor is ")[1].split(";")[0] for text in found]

    def test_secure_metrics_without_a_certificate(self) -> None:
        """
        Metrics that are to be secure need a certificate; the message tells the other way, too.
        """
        (text,) = told("--metrics-bind-address=:8443")

        assert (
            "--metrics-cert-path: is not set; accepted: the directory of a certificate, or --metrics-secure=false to "
            "serve plain HTTP"
        ) == text

    @pytest.mark.parametrize(
        ("flag", "text"),
        [
            pytest.param("metrics-bind-address", "8080", id="a port alone"),
            pytest.param("health-probe-bind-address", "", id="no address"),
            pytest.param("pod-namespace", "A", id="a namespace in capitals"),
            pytest.param("daemon-service-account-name", "a b", id="an account with a space"),
            pytest.param("mpsd-image-pull-policy", "always", id="a policy in small letters"),
            pytest.param("fips-mode", "enabled", id="another word for FIPS"),
            pytest.param("mpsd-image-repository", "a b", id="an image with a space"),
            pytest.param("mpsd-image-tag", ":1", id="a tag with a colon"),
            pytest.param("mpsd-audit-log", "yes", id="a boolean in other words"),
        ],
    )
    def test_malformed(self, flag: str, text: str) -> None:
        """
        A malformed value is named with its flag and the accepted form.
        """
        (problem,) = told(f"--{flag}={text}")

        assert (True, True) == (problem.startswith(f"--{flag}: "), "accepted: " in problem)
