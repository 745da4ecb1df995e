"""
Specs by chance: right ones, and ones with a doubt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fractioning_core import resource
from fractioning_core.resource import sections
from fractioning_core.testing.manifests import a_spec
from hypothesis import strategies as st


def text_of(alphabet: str, size: int = 12) -> st.SearchStrategy[str]:
    """Texts of the characters that matter to a form."""
    return st.text(alphabet=alphabet, max_size=size)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**65), 2**65)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)
LEVELS = st.sampled_from(["", "debug", "info", "warn", "error"])
COUNTS = st.integers(0, 2**31 - 1)
DURATIONS = st.sampled_from(["1ms", "30s", "1m30s", "+1.5h", "5.s", ".5s", "2562047h", "1µs1ms"])
WILD_DURATIONS = text_of("0123456789.-+hmsnuµ")
SOCKETS = st.sampled_from(["", "/run/a.sock", "/var/run/nri/nri.sock", "/a/.b"])
WILD_PATHS = text_of("/.:a\n")
METRICS = st.sampled_from(["", "a", "b:c", "_d"])

# Of each field the values that are right, and the texts that may be.
FIELDS: Mapping[tuple[str, ...], tuple[st.SearchStrategy[Any], st.SearchStrategy[Any]]] = {
    ("nodeSelector",): (
        st.dictionaries(st.sampled_from(["a", "b.c/d", "E_f"]), st.sampled_from(["", "x", "Y.z"])),
        st.dictionaries(text_of("aA-._/0 ", 6), text_of("aA-._ ", 6), max_size=2),
    ),
    ("tolerations",): (
        st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "key": st.text(max_size=3),
                    "operator": st.sampled_from(["", "Exists", "Equal", "Lt"]),
                    "effect": st.sampled_from(["", "NoSchedule", "PreferNoSchedule", "NoExecute"]),
                    "tolerationSeconds": st.integers(-(2**63), 2**63 - 1),
                },
            ),
            max_size=2,
        ),
        st.lists(st.dictionaries(st.sampled_from(["operator", "effect", "value", "tolerationSeconds"]), JSON)),
    ),
    ("runtimeClassName",): (st.sampled_from(["", "nvidia", "a.b-c"]), text_of("aA-.")),
    ("fractioningAgent", "annotationPrefix"): (st.sampled_from(["", "a.b/c.", "d"]), text_of("aA0-._/")),
    ("fractioningAgent", "failOpen"): (st.booleans(), st.none()),
    ("fractioningAgent", "nriSocketPath"): (SOCKETS, WILD_PATHS),
    ("fractioningAgent", "retroactiveEnforcement"): (st.booleans(), st.none()),
    ("fractioningAgent", "criSocketPath"): (SOCKETS, WILD_PATHS),
    ("fractioningAgent", "logLevel"): (LEVELS, text_of("debuginfo", 5)),
    ("fractioningAgent", "retryInterval"): (DURATIONS, WILD_DURATIONS),
    ("fractioningAgent", "stableThreshold"): (DURATIONS | st.just("0"), WILD_DURATIONS),
    ("fractioningAgent", "maxRetries"): (COUNTS, st.integers(-2, 2) | st.integers(2**31 - 2, 2**31 + 2)),
    ("fractioningAgent", "readinessPort"): (st.integers(1, 65535), st.integers(-1, 2) | st.integers(65534, 65537)),
    ("metricsAgent", "enabled"): (st.booleans(), st.none()),
    ("metricsAgent", "logLevel"): (LEVELS, st.none()),
    ("metricsAgent", "address"): (
        st.sampled_from(["", ":1", "10.0.0.1:2112", "[::1]:65535"]),
        text_of("0125.:[]f") | st.integers(65530, 65540).map(":{}".format),
    ),
    ("metricsAgent", "path"): (st.sampled_from(["", "/metrics", "m"]), text_of("a/ ?\n")),
    ("metricsAgent", "metricNames"): (
        st.just({"gpuMemoryUsedBytes": "a", "gpuSmUtilizationPercent": ""}),
        st.fixed_dictionaries(
            {}, optional={name: METRICS | text_of("aA0_:-", 3) for name in sections.declared(resource.MetricNames)}
        ),
    ),
    ("metricsAgent", "volumes"): (
        st.just([{"name": "a", "hostPath": {"path": "/lib"}}]),
        st.lists(
            st.fixed_dictionaries(
                {},
                optional={
                    "name": st.text(max_size=2) | JSON,
                    "hostPath": st.fixed_dictionaries({}, optional={"path": st.just("/"), "type": JSON}),
                    "emptyDir": st.fixed_dictionaries({}, optional={"sizeLimit": text_of("0159.eEKMimnu+-", 6) | JSON}),
                    "configMap": st.fixed_dictionaries({}, optional={"items": st.lists(JSON), "defaultMode": JSON}),
                    "csi": st.fixed_dictionaries({"driver": JSON}, optional={"volumeAttributes": JSON}),
                },
            ),
            max_size=2,
        ),
    ),
    ("metricsAgent", "volumeMounts"): (
        st.just([{"name": "a", "mountPath": "/a"}]),
        st.lists(st.dictionaries(st.sampled_from(["name", "mountPath", "readOnly", "subPath"]), JSON), max_size=2),
    ),
    ("mpsDaemon", "logLevel"): (LEVELS, st.none()),
    ("mpsDaemon", "backoff"): (DURATIONS, WILD_DURATIONS),
    ("mpsDaemon", "maxRetries"): (COUNTS, st.none()),
    ("mpsDaemon", "stableThreshold"): (DURATIONS, WILD_DURATIONS),
    ("mpsDaemon", "gracefulStopDelay"): (DURATIONS | st.just("0s"), WILD_DURATIONS),
}


def placed(spec: dict[str, Any], path: tuple[str, ...], value: object) -> None:
    """Put a value into a spec."""
    for name in path[:-1]:
        spec = spec.setdefault(name, {})
    spec[path[-1]] = value


@st.composite
def right_specs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> dict[str, Any]:
    """Specs with some fields, all of them right."""
    spec: dict[str, Any] = a_spec()
    for path in draw(st.lists(st.sampled_from(list(FIELDS)), unique=True, max_size=8)):
        placed(spec, path, draw(FIELDS[path][0]))
    return spec


@st.composite
def doubtful_specs(draw: Callable[[st.SearchStrategy[Any]], Any]) -> dict[str, Any]:
    """Specs with one field that may be wrong, so that no other one hides what is made of it."""
    spec: dict[str, Any] = draw(right_specs())
    path = draw(st.sampled_from(list(FIELDS)))
    placed(spec, path, draw(FIELDS[path][1] | JSON))
    return spec
