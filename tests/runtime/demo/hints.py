"""
Commands to try on a demo that was left running. Each works as it stands, from any directory.
"""

from __future__ import annotations

import shlex

from lab import toolchain

from demo.acts import command_line
from demo.mps import status_command
from demo.stage import VERSION, Stage

PROMPT = "  $ "


def commands(stage: Stage) -> list[str]:
    """
    List commands with a line above each that says what it shows.
    """
    ctr = f"{toolchain.locate(VERSION).ctr} --address {stage.containerd.cri_socket} --namespace k8s.io"
    url = f"http://localhost:{stage.fractiond.port}"
    fractiond = stage.fractiond.service.pid
    lines = ["Everything goes on running. Try:", ""]
    for what, command in (
        ("the containers, pods (pause) among them", f"{ctr} containers list"),
        (
            "a program of yours inside the newest of them, latecomer",
            f"{ctr} tasks exec --exec-id look {_newest(stage)} /bin/env",
        ),
        ("what mpsd knows", shlex.join(map(str, status_command(stage)))),
        ("is mpsd ready?", f"curl -s -w '\\n' http://localhost:{stage.mpsd.port}/readyz"),
        ("is fractiond ready?", f"curl -s -w '\\n' {url}/readyz"),
        ("its counters", f"curl -s {url}/metrics | grep _total"),
        ("whose GPU memory is whose", f"cat {stage.fractiond.map_dir}/*.json"),
        (
            "how much of it each uses (simulated), and whether its limit is in force",
            f"curl -s http://localhost:{stage.metricsd.port}/metrics | grep ^gpu_fractioning_container",
        ),
        ("its log", f"tail -n 5 {stage.base}/fractiond-2.out"),
        ("end it as a crash would", f"kill -9 {fractiond}"),
        ("start it again", f"{shlex.join(command_line(fractiond)[1:])} >> {stage.base}/fractiond-2.out &"),
        ("end and remove everything", f"{toolchain.REPOSITORY}/scripts/demo --clean {stage.base}"),
    ):
        lines += [f"  {what}", PROMPT + command, ""]
    return lines


def _newest(stage: Stage) -> str:
    return max(stage.fractiond.map_dir.glob("*.json"), key=lambda path: path.stat().st_mtime).stem
