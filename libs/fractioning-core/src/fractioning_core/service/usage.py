"""The text of `--help`: every setting under its group, with default and environment variable."""

from __future__ import annotations

from collections.abc import Iterable

from fractioning_core.service.declarations import Setting

_PRECEDENCE = "A flag beats its environment variable, which beats the default. An empty variable counts as unset."


def render(program: str, settings: Iterable[Setting[object]]) -> str:
    """
    Write the help of a program.
    """
    groups: dict[str, list[Setting[object]]] = {}
    for setting in settings:
        groups.setdefault(setting.group, []).append(setting)
    blocks = [f"usage: {program} [flags]", _PRECEDENCE]
    blocks += ["\n".join([f"{title}:", *map(_entry, members)]) for title, members in groups.items()]
    blocks.append("Other:\n  --help, -h\n        print this text\n  --version\n        print the version")
    return "\n\n".join(blocks) + "\n"


def _entry(setting: Setting[object]) -> str:
    head = f"  --{setting.flag} {setting.kind.placeholder}".rstrip()
    default = setting.kind.show(setting.default) or '""'
    environment = f", environment {setting.env}" if setting.env else ""
    return f"{head}\n        {setting.help}\n        default {default}{environment}"
