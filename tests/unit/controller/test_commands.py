from __future__ import annotations

import pytest
from controller import commands
from controller.commands import COMMANDS, RemovalSettings
from fractioning_core.service import settings

CLUSTERLESS: dict[str, str] = {}


class TestUsage:
    """
    How the commands take their arguments.
    """

    @pytest.mark.parametrize("name", list(COMMANDS))
    def test_extra_argument(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        """
        An argument that is none of theirs is named, and nothing is done.
        """
        status = COMMANDS[name](["x"])

        assert (1, f'"x": unexpected argument\ncontroller {name} --help lists every setting\n') == (
            status,
            capsys.readouterr().err,
        )

    @pytest.mark.parametrize("name", list(COMMANDS))
    def test_help(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        """
        Help names the command and its flags.
        """
        status = COMMANDS[name](["--help"])
        text = capsys.readouterr().out

        assert (0, True, True) == (status, f"usage: controller {name}" in text, "--development" in text)

    @pytest.mark.parametrize(
        ("argv", "seconds"),
        [
            pytest.param([], 120.0, id="two minutes by default"),
            pytest.param(["--timeout=90s"], 90.0, id="as the chart writes it"),
            pytest.param(["--timeout", "5m"], 300.0, id="as a person writes it"),
        ],
    )
    def test_timeout(self, argv: list[str], seconds: float) -> None:
        """
        How long the removal waits can be told.
        """
        chosen = settings.load(RemovalSettings, program="p", version="1", argv=argv, environ={})

        assert seconds == chosen.timeout_seconds


class TestNoCluster:
    """
    What happens outside a cluster.
    """

    @pytest.mark.parametrize("command", [commands.apply_crds, commands.delete_config])
    def test_told(self, command: object, capsys: pytest.CaptureFixture[str]) -> None:
        """
        The variable that is missing is named, and the status says that nothing was done.
        """
        assert callable(command)
        status = command([], CLUSTERLESS)

        assert (1, True) == (status, "KUBERNETES_SERVICE_HOST is not set" in capsys.readouterr().out)
