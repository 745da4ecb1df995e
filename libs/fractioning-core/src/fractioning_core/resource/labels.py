"""
Labels to select nodes by.

The API server would take any text here and then refuse the daemons' pods, when the selector cannot be changed any more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from fractioning_core.resource import forms, kinds
from fractioning_core.resource.kinds import Kind, Problems
from fractioning_core.resource.problems import Problem

MAX_LENGTH = 63
# More than anybody selects by; the API server has to know how long a rule can take.
MAX_LABELS = 64

_VALUE = re.compile("([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_KEY = re.compile(rf"({forms.SUBDOMAIN}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,{MAX_LENGTH - 2}}}[A-Za-z0-9])?")
_RULE = (
    f"self.all(key, {forms.matches(_KEY.pattern, 'key')} && key.indexOf('/') <= {forms.MAX_NAME}"
    f" && {forms.matches(_VALUE.pattern, 'self[key]')})"
)
_ACCEPTED = (
    f"a key such as nvidia.com/gpu.present, and a value of at most {MAX_LENGTH} letters, digits, '-', '_' and '.', "
    "both with a letter or digit at either end"
)
_TEXTS = kinds.mapping(kinds.text())


def kind() -> Kind[Mapping[str, str]]:
    """
    Labels with their values, which may be none.
    """
    schema = {
        "type": "object",
        "maxProperties": MAX_LABELS,
        "additionalProperties": {"type": "string", "maxLength": MAX_LENGTH},
        kinds.RULES: [{"rule": _RULE, "message": f"has what is not a label; accepted: {_ACCEPTED}"}],
    }
    return Kind(schema, "labels, or {} for every node", _read, dict)


def _read(value: object, path: str, problems: Problems) -> Mapping[str, str] | None:
    before = len(problems)
    found = _TEXTS.read(value, path, problems) or {}
    if len(found) > MAX_LABELS:
        problems.append(Problem(path, len(found), "labels are too many", f"at most {MAX_LABELS}"))
    for key, text in found.items():
        if not _is_label(key, text):
            problems.append(Problem(f"{path}.{key}", text, "is not a label", _ACCEPTED))
    return found if len(problems) == before else None


def _is_label(key: str, text: str) -> bool:
    key_fits = _KEY.fullmatch(key) and key.find("/") <= forms.MAX_NAME
    return bool(key_fits and len(text) <= MAX_LENGTH and _VALUE.fullmatch(text))
