"""
The forms that texts must have: each as a CEL rule for the API server and as a check for us.

CEL rather than `pattern`, because a rule has a message: the user reads what is accepted and not a regular expression.
Rules keep to what Kubernetes 1.28 knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from fractioning_core import durations, names, podannotations
from fractioning_core.errors import InvalidDuration, InvalidPrefix

RULES = "x-kubernetes-validations"

# sun_path has 108 bytes, one of them for the end.
MAX_SOCKET_PATH = 107
MAX_NAME = 253
# A host of 45 characters in brackets, a colon and a port.
_MAX_ADDRESS = 53

SUBDOMAIN = "[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
"""
What may name an object, or stand before the slash of a label's key.
"""

_TERM = "([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|\N{GREEK SMALL LETTER MU}s|ms|s|m|h)"
_DURATION = f"[-+]?(0|({_TERM})+)"

_DNS_LABEL = "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_DNS_NAME = rf"{_DNS_LABEL}([.]{_DNS_LABEL})*"

# The API server allows 63 characters behind the slash; one for the container and the shorter memory suffix must fit.
_MAX_NAME_START = 63 - 1 - len(names.GPU_MEMORY_LIMIT_SUFFIX)
_PREFIX = f"({_DNS_NAME}/)?([A-Za-z0-9][A-Za-z0-9._-]{{0,{_MAX_NAME_START - 1}}})?"

_OCTET = "(25[0-5]|2[0-4][0-9]|1[0-9]{2}|[1-9]?[0-9])"
# Whether the colons in brackets make an address is left to metricsd: the grammar would fill a page.
_HOST = rf"({_OCTET}([.]{_OCTET}){{3}}|\[[0-9A-Fa-f:.]{{2,45}}\])"


@attrs.frozen
class Form:
    """
    What a text must look like.

    Attributes:
        noun: what it is, with its article.
        accepted: what is right, for whoever wrote something else.
        max_length: most characters; the API server has to know how long a rule can take.
        rule: the rule in CEL, about `self`.
        fits: the same rule, here.
    """

    noun: str
    accepted: str
    max_length: int
    rule: str
    fits: Callable[[str], bool]

    def fault(self, text: str) -> str:
        """
        Say what is wrong with a text; nothing where it fits.
        """
        if len(text) > self.max_length:
            return f"is longer than {self.max_length} characters"
        return "" if self.fits(text) else f"is not {self.noun}"

    def schema(self) -> Mapping[str, Any]:
        """
        Give the part of a string's schema that demands the form.
        """
        text = f"is not {self.noun}; accepted: {self.accepted}"
        # The API server itself tells the type in place of the value.
        behind = json.dumps(f'" {text}')
        expression = f"'\"' + self + {behind}"
        rule = {"rule": self.rule, "message": text, "messageExpression": expression}
        return {"maxLength": self.max_length, RULES: [rule]}

    def or_nothing(self) -> Form:
        """
        Give the form that also takes the empty text, which stands for an absent one.
        """
        rule = f"self == '' || {self.rule}"
        return attrs.evolve(self, rule=rule, fits=lambda text: text == "" or self.fits(text))


def matches(expression: str, of: str = "self") -> str:
    """
    Write in CEL that a text matches an expression whole.
    """
    return f"{of}.matches(r'^({expression})$')"


def pattern(noun: str, expression: str, *, accepted: str, max_length: int, unlike: str | None = None) -> Form:
    """
    Make a form of a regular expression that RE2 and Python read alike, and of one that must not be found.
    """
    whole, part = re.compile(expression), re.compile(unlike or "$^")
    rule = matches(expression) + (f" && !self.matches(r'{unlike}')" if unlike else "")
    return Form(
        noun,
        accepted,
        max_length,
        rule,
        lambda text: bool(whole.fullmatch(text)) and not (unlike and part.search(text)),
    )


def duration(least_nanoseconds: int) -> Form:
    """
    A duration in Go's grammar that is not shorter than another.
    """
    least = durations.to_text(least_nanoseconds)

    def fits(text: str) -> bool:
        try:
            return durations.parse(text) >= least_nanoseconds
        except InvalidDuration:
            return False

    # The pattern goes first: what `duration` cannot read is an error that hides the message.
    rule = f"{matches(_DURATION)} && duration(self) >= duration('{least}')"
    accepted = f"{durations.ACCEPTED}, of at least {least}"
    return Form(f"a duration of at least {least}", accepted, durations.MAX_LENGTH, rule, fits)


def _fits_prefix(text: str) -> bool:
    try:
        podannotations.validate_prefix(text)
    except InvalidPrefix:
        return False
    return True


def _fits_address(text: str) -> bool:
    return bool(_ADDRESS.fullmatch(text)) and 1 <= int(text.rpartition(":")[2]) <= 65535


_ADDRESS = re.compile(f"{_HOST}?:[0-9]{{1,5}}")
_PORT = "int(self.substring(self.lastIndexOf(':') + 1))"

ANNOTATION_PREFIX = Form(
    noun="an annotation prefix",
    accepted="a DNS name in lower case with a slash, and then letters, digits, '.', '_' and '-', "
    f"such as {names.ANNOTATION_PREFIX}",
    max_length=MAX_NAME + 1 + _MAX_NAME_START,
    rule=f"{matches(_PREFIX)} && self.indexOf('/') <= {MAX_NAME}",
    fits=_fits_prefix,
)

ADDRESS = Form(
    noun="an address to listen on",
    accepted=":port or address:port with a port from 1 to 65535, such as :2112, 127.0.0.1:2112 or [::1]:2112",
    max_length=_MAX_ADDRESS,
    rule=f"{matches(_ADDRESS.pattern)} && {_PORT} >= 1 && {_PORT} <= 65535",
    fits=_fits_address,
)

SOCKET = pattern(
    "the path of a socket",
    "/[^:]*[^/:]/+[^/:]+",
    unlike=r"(^|/)[.][.](/|$)",
    accepted="an absolute path of a file in a directory, without '..' and ':', such as /run/containerd/containerd.sock",
    max_length=MAX_SOCKET_PATH,
)
"""
Its directory is mounted, and Kubernetes takes neither `..` nor a colon in a mount.
"""

PAGE = pattern(
    "the path of a page",
    "[A-Za-z0-9/._~-]*",
    accepted="letters, digits and / . _ ~ -, such as /metrics",
    max_length=MAX_NAME,
)

METRIC = pattern(
    "the name of a metric",
    "[a-zA-Z_:][a-zA-Z0-9_:]*",
    accepted="letters, digits, _ and :, not beginning with a digit",
    max_length=MAX_NAME,
)

OBJECT = pattern(
    "the name of an object",
    SUBDOMAIN,
    accepted="a DNS name in lower case, such as nvidia",
    max_length=MAX_NAME,
)
