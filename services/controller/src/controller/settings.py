"""
What the controller can be told, by flag or environment.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import attrs
from fractioning_core.service import settings
from fractioning_core.service.addresses import ALL_ADDRESSES, NOWHERE, Address

DAEMONS = "Daemons"
GATES = "Version gates"
METRICS = "Metrics"
OPERATION = "Operation"

OFF = "0"
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
FIPS_MODES = ("off", "on", "only")

_OBJECT_NAME = r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?"
_OPTIONAL_NAME = rf"({_OBJECT_NAME})?"
_ACCEPTED_NAME = "the name of a Kubernetes object, or nothing"
_ACCEPTED_REPOSITORY = "an image without its tag, such as registry.example/gpu-fractioning/mpsd"


def _repository(daemon: str) -> str:
    return settings.string(
        f"{daemon}-image-repository",
        env=f"{daemon.upper()}_IMAGE_REPOSITORY",
        default="",
        pattern=r"\S*",
        accepted=_ACCEPTED_REPOSITORY,
        group=DAEMONS,
        help=f"image of {daemon}, without its tag; has to be set",
    )


def _tag(daemon: str) -> str:
    return settings.string(
        f"{daemon}-image-tag",
        env=f"{daemon.upper()}_IMAGE_TAG",
        default="",
        pattern=r"[A-Za-z0-9_.-]{0,128}",
        accepted="a tag, or nothing",
        group=DAEMONS,
        help=f"tag of that image; empty for an image of {daemon} that needs none, such as one with a digest",
    )


def _pull_policy(daemon: str) -> str:
    return settings.choice(
        f"{daemon}-image-pull-policy",
        env=f"{daemon.upper()}_IMAGE_PULL_POLICY",
        choices=PULL_POLICIES,
        default="IfNotPresent",
        group=DAEMONS,
        help="when nodes pull it",
    )


@attrs.frozen
class Settings:
    """
    The settings of one controller, valid as they stand.
    """

    fractiond_image_repository: str = _repository("fractiond")
    fractiond_image_tag: str = _tag("fractiond")
    fractiond_image_pull_policy: str = _pull_policy("fractiond")
    metricsd_image_repository: str = _repository("metricsd")
    metricsd_image_tag: str = _tag("metricsd")
    metricsd_image_pull_policy: str = _pull_policy("metricsd")
    mpsd_image_repository: str = _repository("mpsd")
    mpsd_image_tag: str = _tag("mpsd")
    mpsd_image_pull_policy: str = _pull_policy("mpsd")

    mpsd_audit_log: bool = settings.boolean(
        "mpsd-audit-log",
        env="MPSD_AUDIT_LOG",
        default=True,
        group=DAEMONS,
        help="let memory accounting log what it refuses",
    )
    """Passed on to mpsd."""

    support_sm_sharing: bool = settings.boolean(
        "support-sm-sharing",
        env="SUPPORT_SM_SHARING",
        default=True,
        group=DAEMONS,
        help="let containers share SMs",
    )
    """Passed on to mpsd and fractiond, which have to agree."""

    fips_mode: str = settings.choice(
        "fips-mode",
        env="FIPS_MODE",
        choices=FIPS_MODES,
        default="off",
        group=DAEMONS,
        help="`only` is passed on to the daemons; the others are a matter of which images run",
    )
    """The chart chooses the images."""

    daemon_service_account_name: str = settings.string(
        "daemon-service-account-name",
        env="DAEMON_SERVICE_ACCOUNT_NAME",
        default="",
        pattern=_OPTIONAL_NAME,
        accepted=_ACCEPTED_NAME,
        group=DAEMONS,
        help="ServiceAccount of mpsd, which labels its node; empty for the namespace's default",
    )
    """It needs the right to patch nodes."""

    fractiond_service_account_name: str = settings.string(
        "fractiond-service-account-name",
        env="FRACTIOND_SERVICE_ACCOUNT_NAME",
        default="",
        pattern=_OPTIONAL_NAME,
        accepted=_ACCEPTED_NAME,
        group=DAEMONS,
        help="ServiceAccount of fractiond, which asks the API server nothing; empty for the namespace's default",
    )
    """One of its own keeps it from the rights of others."""

    image_pull_secrets: tuple[str, ...] = settings.strings(
        "image-pull-secrets",
        env="IMAGE_PULL_SECRETS",
        default=(),
        group=DAEMONS,
        help="Secrets to pull the daemons' images with, separated by commas",
    )
    """In our namespace."""

    daemon_required_scc: str = settings.string(
        "daemon-required-scc",
        env="DAEMON_REQUIRED_SCC",
        default="",
        pattern=_OPTIONAL_NAME,
        accepted=_ACCEPTED_NAME,
        group=DAEMONS,
        help="SecurityContextConstraints that OpenShift has to admit the daemons under; empty for any",
    )
    """Keeps another one with a higher priority from being picked."""

    daemon_priority_class_name: str = settings.string(
        "daemon-priority-class-name",
        env="DAEMON_PRIORITY_CLASS_NAME",
        default="",
        pattern=_OPTIONAL_NAME,
        accepted=_ACCEPTED_NAME,
        group=DAEMONS,
        help="PriorityClass of the daemons; empty for the cluster's default",
    )
    """Without one a full node may evict what fences its containers."""

    skip_gpu_stack_version_checks: bool = settings.boolean(
        "skip-gpu-stack-version-checks",
        env="SKIP_GPU_STACK_VERSION_CHECKS",
        default=False,
        group=GATES,
        help="roll out on a GPU stack of any version; nothing reports one that cannot enforce limits",
    )
    """For an installation whose versions are misread."""

    metrics_bind_address: Address = settings.address(  # noqa: RUF009 - declares the field
        "metrics-bind-address",
        default=NOWHERE,
        off=OFF,
        group=METRICS,
        help="where /metrics is served; 0 = off",
    )
    """Off, as whoever turns it on also says whether it is secure."""

    metrics_secure: bool = settings.boolean(
        "metrics-secure",
        default=True,
        group=METRICS,
        help="serve the metrics with TLS, to callers whose token may get /metrics; needs --metrics-cert-path",
    )
    """Costs the right to create tokenreviews and subjectaccessreviews."""

    metrics_cert_path: str = settings.string(
        "metrics-cert-path",
        default="",
        group=METRICS,
        help="directory of the certificate, which is read again when it changes",
    )
    """No certificate is made up: nobody could check it."""

    metrics_cert_name: str = settings.string(
        "metrics-cert-name",
        default="tls.crt",
        group=METRICS,
        help="file of the certificate there",
    )
    """As in a Secret of type kubernetes.io/tls."""

    metrics_cert_key: str = settings.string(
        "metrics-cert-key",
        default="tls.key",
        group=METRICS,
        help="file of its key there",
    )
    """As above."""

    enable_http2: bool = settings.boolean(
        "enable-http2",
        default=False,
        group=METRICS,
        help="accepted and without effect: only HTTP/1.1 is served",
    )
    """What the flag guards against, floods of HTTP/2 streams, does not exist here."""

    health_probe_bind_address: Address = settings.address(  # noqa: RUF009 - declares the field
        "health-probe-bind-address",
        default=Address(ALL_ADDRESSES, 8081),
        off=OFF,
        group=OPERATION,
        help="where /healthz and /readyz are served; 0 = off",
    )
    """The probes of our pod ask there."""

    leader_elect: bool = settings.boolean(
        "leader-elect",
        default=False,
        group=OPERATION,
        help="act only while holding the lease gpu-fractioning.kai.scheduler; needed for more than one replica",
    )
    """Even a single replica has two pods during an update."""

    pod_namespace: str = settings.string(
        "pod-namespace",
        env="POD_NAMESPACE",
        default="default",
        pattern=r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        accepted="the name of a namespace",
        group=OPERATION,
        help="namespace of the daemons and of the lease",
    )
    """From the downward API."""

    identity: str = settings.string(
        "identity",
        env="POD_NAME",
        default="",
        group=OPERATION,
        help="how this candidate signs the lease; empty for the host's name and a random part",
    )
    """The name of a pod lets its next container take the lease up at once."""

    pod_uid: str = settings.string(
        "pod-uid",
        env="POD_UID",
        default="",
        group=OPERATION,
        help="uid of the pod that --identity names; the lease then goes with it. Empty lets the lease stay",
    )
    """From the downward API. Of another pod than the name it would be taken for gone, and the lease with it."""

    development: bool = settings.boolean(
        "development",
        default=False,
        group=OPERATION,
        help="log at debug level",
    )
    """On a terminal the log is laid out for people with and without it."""

    @classmethod
    def conflicts(cls, values: Mapping[str, object]) -> Iterator[tuple[str, str]]:
        """
        Refuse to start without the daemons' images, or to serve secure metrics without a certificate.
        """
        for daemon in ("fractiond", "metricsd", "mpsd"):
            field = f"{daemon}_image_repository"
            if values.get(field) == "":
                told = f"is not set, and nor is {daemon.upper()}_IMAGE_REPOSITORY; accepted: {_ACCEPTED_REPOSITORY}"
                yield field, told
        is_secure = values.get("metrics_secure") is True and values.get("metrics_bind_address", NOWHERE) != NOWHERE
        if is_secure and values.get("metrics_cert_path") == "":
            told = "is not set; accepted: the directory of a certificate, or --metrics-secure=false to serve plain HTTP"
            yield "metrics_cert_path", told
