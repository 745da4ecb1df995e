from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nri_aio import crivalues
from nri_aio.crivalues import Container, ContainerEvent, ContainerState, EventType, PodSandbox, PodSandboxState
from nri_aio.pb import cri_pb2

SPEC = {
    "annotations": {"example.com/a": "1"},
    "mounts": [{"source": "/src", "destination": "/dst"}, {"destination": "/proc"}],
    "process": {"env": ["A=1", "B=2"]},
}


def a_status(info: object) -> crivalues.ContainerStatus:
    """Read a status whose verbose part is this."""
    text = info if isinstance(info, str) else json.dumps(info)
    return crivalues.container_status(
        cri_pb2.ContainerStatusResponse(status=cri_pb2.ContainerStatus(id="c1"), info={"info": text})
    )


class TestContainerStatus:
    """Reading a status."""

    def test_message(self) -> None:
        """The fixed part is taken over."""
        status = cri_pb2.ContainerStatus(
            id="c1",
            metadata=cri_pb2.ContainerMetadata(name="main", attempt=2),
            state=cri_pb2.CONTAINER_EXITED,
            created_at=7,
            exit_code=137,
            labels={"l": "1"},
        )

        read = crivalues.container_status(cri_pb2.ContainerStatusResponse(status=status))

        assert (
            crivalues.ContainerStatus(
                id="c1",
                name="main",
                attempt=2,
                state=ContainerState.EXITED,
                created_at_ns=7,
                exit_code=137,
                labels={"l": "1"},
                pid=None,
                env=None,
                mounts=None,
                annotations=None,
            )
            == read
        )

    def test_verbose_part(self) -> None:
        """Pid and the OCI spec's environment, mounts and annotations are taken from the runtime's JSON."""
        read = a_status({"pid": 42, "runtimeSpec": SPEC})

        assert (42, ("A=1", "B=2"), (("/src", "/dst"), ("", "/proc")), {"example.com/a": "1"}) == (
            read.pid,
            read.env,
            read.mounts,
            read.annotations,
        )

    @pytest.mark.parametrize(
        "info",
        [
            pytest.param("", id="nothing"),
            pytest.param("{", id="broken"),
            pytest.param("[" * 100_000, id="deep"),
            pytest.param([], id="a list"),
            pytest.param({"pid": "42", "runtimeSpec": []}, id="other types"),
            pytest.param({"runtimeSpec": {"process": 1, "mounts": {}, "annotations": []}}, id="other types inside"),
        ],
    )
    def test_unknown_shape_is_none(self, info: object) -> None:
        """What does not have the shape of an OCI spec is not told."""
        read = a_status(info)

        assert (None, None, None, None) == (read.pid, read.env, read.mounts, read.annotations)

    def test_odd_members_are_left_out(self) -> None:
        """An entry of another type does not spoil its neighbours."""
        spec = {"process": {"env": ["A=1", 2]}, "mounts": [1, {"source": 3}], "annotations": {"a": 1, "b": "2"}}
        read = a_status({"runtimeSpec": spec})

        assert (("A=1",), (("3", ""),), {"b": "2"}) == (read.env, read.mounts, read.annotations)

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.text(),
            lambda x: (
                st.lists(x)
                | st.dictionaries(st.sampled_from(["pid", "runtimeSpec", "process", "env", "mounts", "annotations"]), x)
            ),
        )
    )
    def test_any_json_is_read(self, info: object) -> None:
        """No JSON makes reading fail."""
        assert "c1" == a_status(json.dumps(info)).id


class TestLists:
    """Reading lists."""

    def test_container(self) -> None:
        """A container's message becomes a value."""
        message = cri_pb2.Container(
            id="c1",
            pod_sandbox_id="p1",
            metadata=cri_pb2.ContainerMetadata(name="main", attempt=1),
            state=cri_pb2.CONTAINER_RUNNING,
            created_at=5,
            labels={"l": "1"},
            annotations={"a": "2"},
        )

        expected = Container("c1", "p1", "main", 1, ContainerState.RUNNING, 5, {"l": "1"}, {"a": "2"})
        assert expected == crivalues.container(message)

    def test_state_of_a_later_version_is_unknown(self) -> None:
        """A number that is not known yet is not taken for one that is."""
        message = cri_pb2.Container.FromString(bytes([0x30, 99]))

        assert ContainerState.UNKNOWN is crivalues.container(message).state

    def test_pod_sandbox(self) -> None:
        """A pod's message becomes a value."""
        message = cri_pb2.PodSandbox(
            id="p1",
            metadata=cri_pb2.PodSandboxMetadata(name="pod", namespace="ns", uid="u1"),
            state=cri_pb2.SANDBOX_NOTREADY,
            created_at=5,
            labels={"l": "1"},
            annotations={"a": "2"},
        )

        expected = PodSandbox("p1", "pod", "ns", "u1", PodSandboxState.NOT_READY, 5, {"l": "1"}, {"a": "2"})
        assert expected == crivalues.pod_sandbox(message)


class TestEvents:
    """Reading events."""

    def test_event(self) -> None:
        """An event's message becomes a value."""
        message = cri_pb2.ContainerEventResponse(
            container_id="c1", container_event_type=cri_pb2.CONTAINER_STOPPED_EVENT, created_at=5
        )

        assert ContainerEvent("c1", EventType.STOPPED, 5) == crivalues.container_event(message)

    def test_event_of_a_later_version_keeps_its_number(self) -> None:
        """A kind that is not known yet comes as its number."""
        message = cri_pb2.ContainerEventResponse.FromString(bytes([0x10, 99]))

        assert 99 == crivalues.container_event(message).type
