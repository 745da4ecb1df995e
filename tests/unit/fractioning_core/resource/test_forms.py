from __future__ import annotations

import re

import pytest
from fractioning_core.resource import forms
from fractioning_core.resource.forms import Form
from hypothesis import example, given
from hypothesis import strategies as st

ONE_MILLISECOND = forms.duration(10**6)
ANY_LENGTH = forms.duration(0)

LABEL_63 = "a" * 63
DNS_NAME_253 = ".".join([LABEL_63] * 3 + ["a" * 61])


class TestFits:
    """What each form takes; that the API server takes the same is for tests against a real one."""

    @pytest.mark.parametrize(
        ("form", "text"),
        [
            pytest.param(ONE_MILLISECOND, "1ms", id="duration at the bound"),
            pytest.param(ONE_MILLISECOND, "+1m30s", id="duration with a sign"),
            pytest.param(ONE_MILLISECOND, ".5h", id="duration with a fraction"),
            pytest.param(ANY_LENGTH, "0", id="no time"),
            pytest.param(ANY_LENGTH, "-0s", id="no time, signed"),
            pytest.param(forms.ANNOTATION_PREFIX, "nvidia.com/container.", id="prefix"),
            pytest.param(forms.ANNOTATION_PREFIX, "", id="empty prefix"),
            pytest.param(forms.ANNOTATION_PREFIX, f"{DNS_NAME_253}/{'a' * 45}", id="longest prefix"),
            pytest.param(forms.ADDRESS, ":2112", id="port"),
            pytest.param(forms.ADDRESS, ":65535", id="highest port"),
            pytest.param(forms.ADDRESS, ":00080", id="port with zeros in front"),
            pytest.param(forms.ADDRESS, "127.0.0.1:2112", id="IPv4"),
            pytest.param(forms.ADDRESS, "255.249.199.99:1", id="IPv4 with large numbers"),
            pytest.param(forms.ADDRESS, "[::1]:2112", id="IPv6"),
            pytest.param(forms.ADDRESS, "[::ffff:10.0.0.1]:2112", id="IPv4 in IPv6"),
            pytest.param(forms.SOCKET, "/run/containerd/containerd.sock", id="socket"),
            pytest.param(forms.SOCKET, "//run//a.sock", id="socket with slashes twice"),
            pytest.param(forms.SOCKET, "/run/..a/b..", id="socket with dots in names"),
            pytest.param(forms.PAGE, "/metrics", id="page"),
            pytest.param(forms.PAGE, "metrics", id="page without a slash"),
            pytest.param(forms.METRIC, "a:b_C9", id="metric"),
            pytest.param(forms.OBJECT, "nvidia-legacy.v1", id="object"),
            pytest.param(forms.OBJECT, "a" * 253, id="longest name of an object"),
        ],
    )
    def test_taken(self, form: Form, text: str) -> None:
        """A text of the form has no fault."""
        assert form.fault(text) == ""

    @pytest.mark.parametrize(
        ("form", "text", "fault"),
        [
            pytest.param(ONE_MILLISECOND, "999999ns", "is not a duration of at least 1ms", id="short duration"),
            pytest.param(ONE_MILLISECOND, "5", "is not a duration of at least 1ms", id="duration without a unit"),
            pytest.param(ONE_MILLISECOND, "", "is not a duration of at least 1ms", id="empty duration"),
            pytest.param(ONE_MILLISECOND, "2562048h", "is not a duration of at least 1ms", id="over 292 years"),
            pytest.param(ONE_MILLISECOND, f"{'1' * 64}s", "is longer than 64 characters", id="long duration"),
            pytest.param(ANY_LENGTH, "-1s", "is not a duration of at least 0s", id="negative duration"),
            pytest.param(forms.ANNOTATION_PREFIX, "Nvidia.com/", "is not an annotation prefix", id="upper-case domain"),
            pytest.param(forms.ANNOTATION_PREFIX, "a/b/", "is not an annotation prefix", id="two slashes"),
            pytest.param(forms.ANNOTATION_PREFIX, "a" * 46, "is not an annotation prefix", id="long start of a name"),
            pytest.param(forms.ANNOTATION_PREFIX, f"{DNS_NAME_253}a/", "is not an annotation prefix", id="long domain"),
            pytest.param(forms.ADDRESS, "localhost:2112", "is not an address to listen on", id="host name"),
            pytest.param(forms.ADDRESS, ":0", "is not an address to listen on", id="no port"),
            pytest.param(forms.ADDRESS, ":65536", "is not an address to listen on", id="port too high"),
            pytest.param(forms.ADDRESS, "2112", "is not an address to listen on", id="port without a colon"),
            pytest.param(forms.ADDRESS, "127.0.0.256:1", "is not an address to listen on", id="IPv4 out of range"),
            pytest.param(forms.ADDRESS, "127.0.0.01:1", "is not an address to listen on", id="IPv4 with zeros"),
            pytest.param(forms.ADDRESS, "::1:2112", "is not an address to listen on", id="IPv6 without brackets"),
            pytest.param(forms.ADDRESS, ":2112\n", "is not an address to listen on", id="line break behind"),
            pytest.param(forms.SOCKET, "run/a.sock", "is not the path of a socket", id="relative"),
            pytest.param(forms.SOCKET, "/a.sock", "is not the path of a socket", id="in the root"),
            pytest.param(forms.SOCKET, "//a.sock", "is not the path of a socket", id="in the root, slash twice"),
            pytest.param(forms.SOCKET, "/run/", "is not the path of a socket", id="directory"),
            pytest.param(forms.SOCKET, "/run/../a.sock", "is not the path of a socket", id="back step"),
            pytest.param(forms.SOCKET, "/run/a:b/c", "is not the path of a socket", id="colon"),
            pytest.param(forms.SOCKET, f"/run/{'a' * 103}", "is longer than 107 characters", id="long for a socket"),
            pytest.param(forms.PAGE, "/a b", "is not the path of a page", id="space"),
            pytest.param(forms.METRIC, "9a", "is not the name of a metric", id="digit first"),
            pytest.param(forms.METRIC, "a-b", "is not the name of a metric", id="dash"),
            pytest.param(
                forms.METRIC, "\N{LATIN SMALL LETTER E WITH ACUTE}", "is not the name of a metric", id="accent"
            ),
            pytest.param(forms.OBJECT, "Nvidia", "is not the name of an object", id="upper case"),
            pytest.param(forms.OBJECT, "a..b", "is not the name of an object", id="two dots"),
        ],
    )
    def test_refused(self, form: Form, text: str, fault: str) -> None:
        """A text of another form has a fault that says what it is not."""
        assert fault == form.fault(text)

    def test_or_nothing(self) -> None:
        """The empty text fits where a field may be absent, and nothing else becomes right."""
        form = forms.ADDRESS.or_nothing()

        assert ("", "is not an address to listen on") == (form.fault(""), form.fault(":"))

    @given(st.text(alphabet="aA0-._/", max_size=12) | st.text(max_size=4))
    @example("a" * 45)
    @example("a" * 46)
    @example(f"{'a' * 63}.b/")
    @example(f"{'a' * 64}.b/")
    @example(f"{DNS_NAME_253}/")
    @example(f"{DNS_NAME_253}a/")
    def test_prefix_rule(self, text: str) -> None:
        """The rule for prefixes says by an expression and an index what the reader of annotations says by steps."""
        expression, bound = re.fullmatch(
            r"self\.matches\(r'(.*)'\) && self\.indexOf\('/'\) <= (\d+)", forms.ANNOTATION_PREFIX.rule
        ).groups()  # type: ignore[union-attr] # the rule has this form, or the test fails
        by_rule = bool(re.fullmatch(expression, text)) and text.find("/") <= int(bound)

        assert by_rule == forms.ANNOTATION_PREFIX.fits(text)


class TestSchema:
    def test_message(self) -> None:
        """A form is a rule with its message, and an expression that also tells the value."""
        schema = Form("a b", 'c "d"', 5, "self == 'b'", fits=lambda text: text == "b").schema()

        expected = {
            "maxLength": 5,
            "x-kubernetes-validations": [
                {
                    "rule": "self == 'b'",
                    "message": 'is not a b; accepted: c "d"',
                    "messageExpression": """'"' + self + "\\" is not a b; accepted: c \\"d\\"\"""",
                }
            ],
        }
        assert expected == schema
