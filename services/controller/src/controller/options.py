"""
What the installation decides, as against the GpuFractioningConfig: images, accounts and switches.
"""

from __future__ import annotations

import attrs

FIPS_OFF = "off"
FIPS_ONLY = "only"


@attrs.frozen
class Image:
    """
    Where a daemon's image comes from.
    """

    repository: str
    tag: str = ""
    pull_policy: str = ""

    @property
    def name(self) -> str:
        """
        The reference as a container has it; empty without a repository.
        """
        return f"{self.repository}:{self.tag}" if self.repository and self.tag else self.repository

    @property
    def policy(self) -> str:
        """
        The pull policy, with its default.
        """
        return self.pull_policy or "IfNotPresent"


@attrs.frozen
class Options:
    """
    The installation.

    Attributes:
        namespace: where the controller runs, and its DaemonSets with it.
        fractiond, metricsd, mpsd: the daemons' images.
        support_sm_sharing: whether containers may share SMs; both daemons have to agree.
        audit_log: whether memory accounting logs what it refuses.
        skip_version_checks: let every version of the GPU stack pass.
        fips_mode: `off`, `on` or `only`. `on` is a matter of images alone; `only` reaches the daemons as `FIPS_MODE`,
            which our images read before anything else.
        daemon_service_account: mpsd's account, which may patch its node's label.
        fractiond_service_account: fractiond's account, which may do nothing and whose token is not mounted.
        image_pull_secrets: names of Secrets for the daemons' pods.
        required_scc: the SecurityContextConstraints to pin the daemons' pods to; empty outside OpenShift.
        priority_class_name: of the daemons' pods; empty for the cluster's default.
    """

    namespace: str
    fractiond: Image
    metricsd: Image
    mpsd: Image
    support_sm_sharing: bool = True
    audit_log: bool = True
    skip_version_checks: bool = False
    fips_mode: str = FIPS_OFF
    daemon_service_account: str = ""
    fractiond_service_account: str = ""
    image_pull_secrets: tuple[str, ...] = ()
    required_scc: str = ""
    priority_class_name: str = ""
