"""The resource on a real API server: what its schema takes, our reader takes, and the other way round."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest
import pytest_asyncio
from apilab import definitions
from apilab.controlplane import ControlPlane
from fractioning_core import resource
from fractioning_core.kube.errors import ApiRejection
from fractioning_core.kube.transport import MERGE_PATCH, Request, Transport
from fractioning_core.resource import Condition, InvalidResource, Problem, coreshapes, crd
from fractioning_core.testing.manifests import a_config_manifest, a_spec
from hypothesis import HealthCheck, example, given, settings
from specs import strategies
from specs.edges import EDGES

RESOURCES = f"/apis/{resource.API_VERSION}/{resource.PLURAL}"
SHAPES_SCRIPT = Path(__file__).parents[2] / "scripts/coreshapes.py"
EXAMPLES = 300

# One server answers for all examples, so a fixture that lives for all of them is what is wanted.
bounded = settings(
    max_examples=EXAMPLES, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@attrs.frozen
class Verdict:
    """What the API server says of a manifest: the object it would store, or why not."""

    stored: Mapping[str, Any] | None
    message: str = ""

    @property
    def places(self) -> tuple[str, ...]:
        """The fields that it names."""
        return tuple(re.findall(r"(spec[^ :]*): ", self.message))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def defined(plane: ControlPlane) -> AsyncIterator[None]:
    """The kind, for the tests here."""
    async with plane.admin() as api:
        await definitions.install(api, crd.manifest())
        yield
        await definitions.remove(api, crd.NAME)


@pytest.fixture
def api(admin: Transport, defined: None) -> Transport:
    """A way in to a server that has the kind."""
    return admin


async def judged(api: Transport, manifest: Mapping[str, Any]) -> Verdict:
    """Ask the API server what it would do with a manifest."""
    try:
        return Verdict(await api.ask(Request("POST", RESOURCES, query={"dryRun": "All"}, body=manifest)))
    except ApiRejection as refusal:
        return Verdict(None, refusal.message)


def problems_of(manifest: Mapping[str, Any]) -> tuple[Problem, ...]:
    """Ask our reader what is wrong with a manifest."""
    try:
        resource.read(manifest)
    except InvalidResource as refusal:
        return refusal.problems
    return ()


async def agreed(api: Transport, spec: object) -> bool:
    """Ask both about a spec, and tell whether it is right; they must say the same, of the same place."""
    manifest = {**a_config_manifest(), "spec": spec}
    verdict, problems = await judged(api, manifest), problems_of(manifest)

    assert (verdict.stored is None) == bool(problems), f"{spec}: {verdict.message}; ours: {problems}"
    if problems:
        assert any(problem.path.startswith(verdict.places) for problem in problems), f"{verdict}; ours: {problems}"
    return not problems


class TestAgreement:
    """The API server and our reader."""

    @bounded
    @given(spec=strategies.doubtful_specs() | strategies.JSON)
    @example(spec={})
    async def test_verdict(self, api: Transport, spec: object) -> None:
        """What the one takes the other takes, and both refuse for the same place."""
        await agreed(api, spec)

    @pytest.mark.parametrize("path", EDGES, ids=".".join)
    async def test_edges(self, api: Transport, path: tuple[str, ...]) -> None:
        """They agree about the values beside each bound of a field, and of both sorts there are some."""
        verdicts = []
        for value in EDGES[path]:
            spec: dict[str, Any] = a_spec()
            strategies.placed(spec, path, value)
            verdicts.append(await agreed(api, spec))

        assert {True, False} == set(verdicts)

    @bounded
    @given(spec=strategies.right_specs())
    async def test_stored(self, api: Transport, spec: dict[str, Any]) -> None:
        """What the API server stores, with its defaults, reads as what was sent."""
        manifest = a_config_manifest(spec)
        verdict = await judged(api, manifest)

        assert verdict.stored is not None, verdict.message
        assert resource.read(manifest).spec == resource.read(verdict.stored).spec

    @bounded
    @given(spec=strategies.right_specs())
    async def test_written(self, api: Transport, spec: dict[str, Any]) -> None:
        """What we write of what we read, the API server takes."""
        read = resource.read(a_config_manifest(spec)).spec
        verdict = await judged(api, a_config_manifest(resource.write(read)))

        assert verdict.stored is not None, verdict.message
        assert read == resource.read(verdict.stored).spec


class TestMessages:
    """What a user reads who wrote something wrong."""

    @pytest.mark.parametrize(
        ("manifest", "texts"),
        [
            pytest.param(a_config_manifest(name="not-default"), ["must be named 'default'"], id="another name"),
            pytest.param(a_config_manifest({}), ["spec.nodeSelector: Required value"], id="no node selector"),
            pytest.param(
                a_config_manifest(a_spec(mpsDaemon={"backoff": "5"})),
                ["spec.mpsDaemon.backoff", '"5" is not a duration of at least 1ms', "such as 30s, 1m30s or 250ms"],
                id="duration",
            ),
            pytest.param(
                a_config_manifest(a_spec(fractioningAgent={"logLevel": "loud"})),
                ["spec.fractioningAgent.logLevel", '"loud"', '"debug", "info", "warn", "error"'],
                id="log level",
            ),
            pytest.param(
                a_config_manifest(a_spec(metricsAgent={"address": "2112"})),
                ["spec.metricsAgent.address", '"2112" is not an address to listen on', "such as :2112"],
                id="address",
            ),
        ],
    )
    async def test_text(self, api: Transport, manifest: Mapping[str, Any], texts: list[str]) -> None:
        """The API server names the field, the value and the accepted form."""
        verdict = await judged(api, manifest)

        assert [] == [text for text in texts if text not in verdict.message], verdict.message


class TestUpdate:
    """A resource that is there."""

    async def test_selector(self, api: Transport) -> None:
        """Its node selector cannot be changed, and everything else can."""
        await api.ask(Request("POST", RESOURCES, body=a_config_manifest()))
        path = f"{RESOURCES}/{resource.NAME}"
        try:
            with pytest.raises(ApiRejection) as caught:
                await patch(api, path, {"spec": {"nodeSelector": {"other": "x"}}})
            changed = await patch(api, path, {"spec": {"mpsDaemon": {"logLevel": "debug"}}})
        finally:
            await api.ask(Request("DELETE", path))

        assert "nodeSelector is immutable" in caught.value.message
        assert resource.MpsDaemon(log_level="debug") == resource.read(changed).spec.mps_daemon

    async def test_status(self, api: Transport) -> None:
        """A status is written by its own subresource and read back as it was."""
        conditions = (Condition("Ready", "False", "ComponentNotReady", "", 1, "2026-11-29T12:00:00Z"),)
        await api.ask(Request("POST", RESOURCES, body=a_config_manifest()))
        path = f"{RESOURCES}/{resource.NAME}"
        try:
            await patch(api, f"{path}/status", resource.write_status(conditions, 1))
            read = resource.read(await api.ask(Request("GET", path)))
        finally:
            await api.ask(Request("DELETE", path))

        assert (conditions, 1, 1) == (read.conditions, read.observed_generation, read.generation)


class TestDefinition:
    """The definition itself."""

    async def test_stable(self, api: Transport) -> None:
        """Applied again it changes nothing: the server stores the schema as we write it."""
        path = f"{definitions.PATH}/{crd.NAME}"
        body = crd.manifest()
        versions = [await applied(api, path, body), await applied(api, path, body)]

        assert versions[0] == versions[1]

    async def test_shapes(self, admin: Transport) -> None:
        """Volumes and mounts have the fields that this release of Kubernetes publishes."""
        openapi = await admin.ask(Request("GET", "/openapi/v3/api/v1"))
        shapes, atomic = script(SHAPES_SCRIPT).shapes(openapi)

        assert (coreshapes.SHAPES, coreshapes.ATOMIC) == (shapes, atomic)


async def patch(api: Transport, path: str, body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Merge into an object."""
    return await api.ask(Request("PATCH", path, body=body, content_type=MERGE_PATCH))


async def applied(api: Transport, path: str, body: Mapping[str, Any]) -> str:
    """Apply a definition as the subcommand for it does; give the version of what is stored then."""
    query = {"fieldManager": "gpu-fractioning-crd-upgrader", "force": "true"}
    stored = await api.ask(Request("PATCH", path, query=query, body=body, content_type="application/apply-patch+yaml"))
    version: str = stored["metadata"]["resourceVersion"]
    return version


def script(path: Path) -> ModuleType:
    """Load a program that is no part of a package."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
