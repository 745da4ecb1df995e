from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from fractioning_core.errors import InvalidInput
from fractioning_core.kube.errors import NotInCluster
from fractioning_core.kube.incluster import ACCOUNT_DIR, Account

POD = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "KUBERNETES_SERVICE_PORT": "443"}


class TestFromEnviron:
    """
    The account that a pod's environment describes.
    """

    @pytest.mark.parametrize(
        ("host", "url"),
        [
            pytest.param("10.96.0.1", "https://10.96.0.1:443", id="IPv4"),
            pytest.param("fd00::1", "https://[fd00::1]:443", id="IPv6 in brackets"),
            pytest.param("api.example.test", "https://api.example.test:443", id="a name"),
        ],
    )
    def test_address(self, host: str, url: str) -> None:
        """
        The address is the one that the kubelet tells, and the files are where it mounts them.
        """
        account = Account.from_environ({**POD, "KUBERNETES_SERVICE_HOST": host})

        assert Account(url, ca_file=ACCOUNT_DIR / "ca.crt", token_file=ACCOUNT_DIR / "token") == account

    def test_directory(self) -> None:
        """
        The files may be elsewhere.
        """
        account = Account.from_environ(POD, directory=Path("/elsewhere"))

        assert Path("/elsewhere/token") == account.token_file

    @pytest.mark.parametrize(
        ("environ", "message"),
        [
            pytest.param(
                {},
                "KUBERNETES_SERVICE_HOST is not set, as it is in every pod of a cluster; "
                "accepted: an address or a DNS name",
                id="no cluster",
            ),
            pytest.param(
                {**POD, "KUBERNETES_SERVICE_HOST": "a b"},
                'KUBERNETES_SERVICE_HOST is "a b"; accepted: an address or a DNS name',
                id="a host that is none",
            ),
            pytest.param(
                {**POD, "KUBERNETES_SERVICE_PORT": "https"},
                'KUBERNETES_SERVICE_PORT is "https"; accepted: a number from 1 to 65535',
                id="a port that is no number",
            ),
            pytest.param(
                {**POD, "KUBERNETES_SERVICE_PORT": "65536"},
                'KUBERNETES_SERVICE_PORT is "65536"; accepted: a number from 1 to 65535',
                id="a port above all ports",
            ),
            pytest.param(
                {**POD, "KUBERNETES_SERVICE_PORT": "0"},
                'KUBERNETES_SERVICE_PORT is "0"; accepted: a number from 1 to 65535',
                id="port zero",
            ),
        ],
    )
    def test_unusable(self, environ: Mapping[str, str], message: str) -> None:
        """
        A missing or malformed variable is named, with its value and the accepted form.
        """
        with pytest.raises(NotInCluster) as raised:
            Account.from_environ(environ)

        assert (message, True) == (str(raised.value), isinstance(raised.value, InvalidInput))
