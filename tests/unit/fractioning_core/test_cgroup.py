from __future__ import annotations

import itertools
import string

import pytest
from fractioning_core import cgroup
from fractioning_core.errors import InvalidCgroupsPath
from hypothesis import given
from hypothesis import strategies as st

ID = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4
POD = "kubepods-besteffort-pod3f2a.slice"
# What runc without systemd makes of a path that is meant for systemd.
LITERAL = f"/system.slice/containerd.service/{POD}"
SLICES = f"/kubepods.slice/kubepods-besteffort.slice/{POD}"

V1 = f"""11:cpuset:/kubepods/pod3f2a/{ID}
10:pids:/kubepods/pod3f2a/{ID}
9:freezer:/kubepods/pod3f2a/{ID}
8:net_cls,net_prio:/kubepods/pod3f2a/{ID}
7:devices:/kubepods/pod3f2a/{ID}
6:perf_event:/kubepods/pod3f2a/{ID}
5:memory:/kubepods/pod3f2a/{ID}
4:cpu,cpuacct:/kubepods/pod3f2a/{ID}
3:blkio:/kubepods/pod3f2a/{ID}
2:hugetlb:/kubepods/pod3f2a/{ID}
1:name=systemd:/kubepods/pod3f2a/{ID}
"""

WORDS = st.text(string.ascii_lowercase + string.digits + "_", min_size=1, max_size=8)
IDS = st.text("0123456789abcdef", min_size=64, max_size=64)
LAYOUTS = st.sampled_from(
    [
        "{slices}/crio-{id}.scope/container",
        "{slices}/cri-containerd-{id}.scope/init.scope",
        "{slices}/cri-containerd-{id}.scope",
        "/kubepods/besteffort/pod3f2a-11/{id}",
        "/../../{id}/below",
        "/../cri-containerd-{id}.scope",
        "/docker-{other}.scope/kubelet.slice/cri-containerd-{id}.scope",
        "/system.slice/cri-containerd-{id}.scope",
    ]
)


class TestParse:
    """The paths of a process."""

    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            pytest.param("", (), id="nothing"),
            pytest.param("0::/\n", ("/",), id="v2, at the root"),
            pytest.param(f"0::/kubepods/{ID}\n", (f"/kubepods/{ID}",), id="v2"),
            pytest.param(V1, (f"/kubepods/pod3f2a/{ID}",), id="v1, eleven times the same"),
            pytest.param("3:cpu:/b\n2:memory:/a\n1:pids:/b\n", ("/b", "/a"), id="v1, in order, each once"),
            pytest.param("0::/a:b:c\n", ("/a:b:c",), id="colons in the path"),
            pytest.param("\n  \n0:\n0::\nx\n0::/a\n", ("/a",), id="blank, short and pathless lines"),
            pytest.param("0::/a", ("/a",), id="no line end"),
            pytest.param("0::/a\x85b\u2028c\x0cd\n", ("/a\x85b\u2028c\x0cd",), id="what is a line end elsewhere"),
            pytest.param(f"0::/kubepods/{ID} (deleted)\n", (f"/kubepods/{ID}",), id="a cgroup that is removed"),
        ],
    )
    def test_paths(self, text: str, expected: tuple[str, ...]) -> None:
        """Each line has its path after the second colon; lines without one are passed over."""
        assert expected == cgroup.parse(text)

    @given(st.text())
    def test_any_text(self, text: str) -> None:
        """No text does anything but give paths, none of them empty, none twice."""
        paths = cgroup.parse(text)

        assert (True, len(paths)) == (all(paths), len(set(paths)))


class TestContainerId:
    """Which container a process is in, known or not."""

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            pytest.param(f"{SLICES}/crio-{ID}.scope/container", ID, id="CRI-O with crun"),
            pytest.param(f"{SLICES}/cri-containerd-{ID}.scope/init.scope", ID, id="a systemd in the container"),
            pytest.param(f"{SLICES}/cri-containerd-{ID}.scope", ID, id="containerd, systemd driver"),
            pytest.param(f"/kubepods/besteffort/pod3f2a/{ID}", ID, id="cgroupfs driver"),
            pytest.param(f"/system.slice/cri-containerd-{ID}.scope", ID, id="no slice"),
            pytest.param(f"{LITERAL}:cri-containerd:{ID}", ID, id="a scope's name that is not expanded"),
            pytest.param(f"/lab-1f/kubepods/pod3f2a/{ID}", ID, id="a parent of one's own"),
            pytest.param(f"/../../pod3f2a/{ID}", ID, id="seen from a cgroup namespace"),
            pytest.param(f"/docker/{ID}/kubelet.slice/cri-containerd-{OTHER}.scope", ID, id="a node in a container"),
            pytest.param(f"{SLICES}/crio-conmon-{ID}.scope", None, id="CRI-O's monitor"),
            pytest.param(f"/machine.slice/libpod-conmon-{ID}.scope", None, id="podman's monitor"),
            pytest.param("/", None, id="the root"),
            pytest.param("/system.slice/nvidia-persistenced.service", None, id="a service of the host"),
            pytest.param(f"/kubepods/{ID[:63]}", None, id="63 digits"),
            pytest.param(f"/kubepods/{ID}0", None, id="65 digits"),
            pytest.param(f"/kubepods/{ID.upper()}", None, id="capitals"),
            pytest.param("/kubepods/abc", None, id="an id that no runtime makes"),
        ],
    )
    def test_found(self, path: str, expected: str | None) -> None:
        """The id is 64 digits, alone or at the end of a scope's name, and never a monitor's."""
        assert expected == cgroup.container_id([path])

    def test_several_paths(self) -> None:
        """On v1 any of the paths may tell."""
        assert cgroup.container_id(["/", f"/kubepods/{ID}"]) == ID

    def test_no_path(self) -> None:
        """A process without paths is of no container."""
        assert cgroup.container_id([]) is None


class TestMatch:
    """Which known container a process is in."""

    @pytest.mark.parametrize(
        ("path", "known", "expected"),
        [
            pytest.param(f"{SLICES}/crio-{ID}.scope/container", ID, ID, id="CRI-O with crun"),
            pytest.param(f"{SLICES}/crio-conmon-{ID}.scope", ID, None, id="a monitor is no part of its container"),
            pytest.param(f"{SLICES}/cri-containerd-{ID}.scope", OTHER, None, id="another container"),
            pytest.param(
                "/a/cri-containerd-0123456789abcdef.scope", "0123456789abcdef", "0123456789abcdef", id="short"
            ),
            pytest.param("/kubepods/podx/abc", "abc", "abc", id="any id as a directory"),
            pytest.param("/kubepods/podx/abc/leaf", "abc", "abc", id="a leaf below"),
            pytest.param("/a.slice/crio-my-own-id.scope", "my-own-id", "my-own-id", id="dashes in the id"),
            pytest.param("/kubepods/podx/xabc", "abc", None, id="not a part of a longer name"),
            pytest.param("/kubepods/podx/abc.scope.d", "abc", None, id="nor the start of one"),
            pytest.param(f"{LITERAL}:cri-containerd:{ID}", ID, ID, id="a scope's name that is not expanded"),
            pytest.param(f"{LITERAL}:cri-containerd:{ID}", OTHER, None, id="such a name of another"),
            pytest.param("/kubepods/x:crio:my-own-id", "my-own-id", "my-own-id", id="dashes after a colon"),
            pytest.param("/abc.slice/x", "abc.slice", None, id="a slice is no container"),
            pytest.param("/a-abc.slice/x", "abc.slice", None, id="nor is the end of its name"),
            pytest.param("/", "", None, id="the root is nobody's"),
        ],
    )
    def test_found(self, path: str, known: str, expected: str | None) -> None:
        """Any id matches that is a directory's name, or the end of it after a dash."""
        assert expected == cgroup.match([path], {known})

    def test_what_a_container_names_below_itself_does_not_count(self) -> None:
        """A process that makes a cgroup with another container's id in its name stays its own container's."""
        path = f"{SLICES}/cri-containerd-{ID}.scope/cri-containerd-{OTHER}.scope"

        assert cgroup.match([path], {ID, OTHER}) == ID

    @pytest.mark.parametrize(
        "own",
        [
            pytest.param(f"{SLICES}/cri-containerd-{ID}.scope", id="systemd driver"),
            pytest.param(f"{SLICES}/crio-{ID}.scope/container", id="CRI-O with crun"),
            pytest.param(f"/kubepods/besteffort/pod3f2a/{ID}", id="cgroupfs driver"),
            pytest.param(f"{LITERAL}:cri-containerd:{ID}", id="a scope's name that is not expanded"),
            pytest.param(f"/kubelet.slice/kubelet-kubepods.slice/cri-containerd-{ID}.scope", id="kind"),
            pytest.param(f"/../../pod3f2a/{ID}", id="seen from a cgroup namespace"),
            pytest.param(f"/../cri-containerd-{ID}.scope", id="seen from the same pod"),
        ],
    )
    @pytest.mark.parametrize("below", ["cri-containerd-{}.scope", "x/{}", "x:y:{}", "x-{}"])
    def test_what_a_container_without_a_record_names_below_itself_does_not_count_either(
        self, own: str, below: str
    ) -> None:
        """Among pods the first container's id decides, known or not."""
        assert cgroup.match([f"{own}/{below.format(OTHER)}"], {OTHER}) is None

    def test_a_node_in_a_container(self) -> None:
        """Where the outer container is unknown the inner one is found."""
        path = f"/docker/{OTHER}/kubelet.slice/kubelet-kubepods.slice/cri-containerd-{ID}.scope"

        assert cgroup.match([path], {ID}) == ID

    @pytest.mark.parametrize(
        ("path", "expected"),
        [
            pytest.param("/own/place", "abc", id="the place itself"),
            pytest.param("/own/place/a/b", "abc", id="below it"),
            pytest.param("/own/place2", None, id="a longer name"),
            pytest.param("/own", None, id="above it"),
            pytest.param("/", None, id="the root"),
        ],
    )
    def test_by_place(self, path: str, expected: str | None) -> None:
        """A container whose cgroup does not spell its id is known by where that cgroup is."""
        assert expected == cgroup.match([path], {"abc"}, {"/own/place": "abc"})

    @pytest.mark.parametrize("place", ["/own/place", "/kubepods/podx/place"])
    def test_names_below_a_place(self, place: str) -> None:
        """What such a container names below its place does not count."""
        path = f"{place}/cri-containerd-{OTHER}.scope"

        assert cgroup.match([path], {"abc", OTHER}, {place: "abc"}) == "abc"

    @given(IDS, LAYOUTS)
    def test_every_layout(self, container: str, layout: str) -> None:
        """In whatever layout a runtime has it, a known container is found and another is not."""
        path = layout.format(id=container, slices=SLICES, other="d" * 63)

        assert (container, None) == (cgroup.match([path], {container}), cgroup.match([path], {container[:-1]}))

    @given(st.text(), st.text())
    def test_any_text(self, path: str, known: str) -> None:
        """A match is always one of the known."""
        assert cgroup.match([path], {known}) in (known, None)


class TestPlaces:
    """Containers whose cgroup tells no id."""

    @pytest.mark.parametrize(
        ("cgroups_path", "expected"),
        [
            pytest.param(f"/kubepods/podx/{ID}", {}, id="cgroupfs"),
            pytest.param(f"kubepods-podx.slice:crio:{ID}", {}, id="systemd"),
            pytest.param("/own/place", {"/own/place": ID}, id="a place of somebody's choice"),
            pytest.param("own.slice:x:y", {"/own.slice/x-y.scope": ID}, id="a scope of somebody's choice"),
            pytest.param("", {}, id="no path"),
            pytest.param("../x", {}, id="no usable path"),
        ],
    )
    def test_found(self, cgroups_path: str, expected: dict[str, str]) -> None:
        """Only what cannot be matched by its id is among them."""
        assert expected == cgroup.places({ID: cgroups_path})


class TestExpand:
    """The directory of a container's cgroup."""

    @pytest.mark.parametrize(
        ("cgroups_path", "expected"),
        [
            pytest.param(
                f"kubelet-kubepods-besteffort-pod3f2a.slice:cri-containerd:{ID}",
                "/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice"
                f"/kubelet-kubepods-besteffort-pod3f2a.slice/cri-containerd-{ID}.scope",
                id="kind",
            ),
            pytest.param(
                f"kubepods-pod3f2a.slice:crio:{ID}",
                f"/kubepods.slice/kubepods-pod3f2a.slice/crio-{ID}.scope",
                id="CRI-O",
            ),
            pytest.param(f"/kubepods/burstable/pod3f2a/{ID}", f"/kubepods/burstable/pod3f2a/{ID}", id="cgroupfs"),
            pytest.param(f":cri-containerd:{ID}", f"/system.slice/cri-containerd-{ID}.scope", id="no slice"),
            pytest.param(f"-.slice:crio:{ID}", f"/crio-{ID}.scope", id="the root slice"),
            pytest.param(f"//kubepods/./{ID}/", f"/kubepods/{ID}", id="a path that is not tidy"),
            pytest.param("/a/b:c:d", "/a/b:c:d", id="colons in a path"),
        ],
    )
    def test_expanded(self, cgroups_path: str, expected: str) -> None:
        """A slice is below those that its name spells, and a path is what it says."""
        assert expected == cgroup.expand(cgroups_path)

    @pytest.mark.parametrize(
        ("cgroups_path", "reason"),
        [
            pytest.param("", "is neither an absolute path nor a scope of systemd", id="empty"),
            pytest.param("kubepods/podx/abc", "is neither an absolute path nor a scope of systemd", id="relative"),
            pytest.param("a.slice:abc", "is neither an absolute path nor a scope of systemd", id="two parts"),
            pytest.param("a.slice:b:c:d", "is neither an absolute path nor a scope of systemd", id="four parts"),
            pytest.param("/", "is the root, which is no container's", id="the root"),
            pytest.param("//.", "is the root, which is no container's", id="the root, spelled otherwise"),
            pytest.param("/kubepods/../../etc", 'has ".." in it', id="a way out"),
            pytest.param("/kubepods/..", 'has ".." in it', id="a way up"),
            pytest.param("/kubepods\0/abc", "has a NUL in it", id="NUL in a path"),
            pytest.param("a.slice:b\0:c", "has a NUL in it", id="NUL in a scope"),
            pytest.param("a.slice:b:", "names no scope of systemd", id="no name"),
            pytest.param("a.slice:../b:c", "names no scope of systemd", id="a way out of a slice"),
            pytest.param("a.slice:b:c/d", "names no scope of systemd", id="a scope in a scope"),
            pytest.param("a:b:c", "names no slice of systemd", id="a slice without its suffix"),
            pytest.param(".slice:b:c", "names no slice of systemd", id="a slice without a name"),
            pytest.param("a--b.slice:b:c", "names no slice of systemd", id="two dashes"),
            pytest.param("-a.slice:b:c", "names no slice of systemd", id="a dash at the start"),
        ],
    )
    def test_refused(self, cgroups_path: str, reason: str) -> None:
        """What names no cgroup, or may lead out of the hierarchy, is refused with the text and the accepted forms."""
        with pytest.raises(InvalidCgroupsPath) as caught:
            cgroup.expand(cgroups_path)

        assert InvalidCgroupsPath(cgroups_path, reason, cgroup.ACCEPTED) == caught.value

    @given(st.lists(WORDS, min_size=1, max_size=5), WORDS, IDS)
    def test_slices(self, words: list[str], prefix: str, name: str) -> None:
        """Every slice continues the name of the one above it, and the last is the one that was named."""
        wanted = f"{'-'.join(words)}.slice"
        _, *slices, scope = cgroup.expand(f"{wanted}:{prefix}:{name}").split("/")
        names = [each.removesuffix(".slice") for each in slices]

        assert (wanted, f"{prefix}-{name}.scope", len(words)) == (slices[-1], scope, len(slices))
        assert all(below.startswith(f"{above}-") for above, below in itertools.pairwise(names))

    @given(st.text("ab/.:-\0") | st.text())
    def test_any_text(self, cgroups_path: str) -> None:
        """No text leads anywhere but below the root, and a tidy path stays as it is."""
        outcome: str | InvalidCgroupsPath
        try:
            outcome = cgroup.expand(cgroups_path)
        except InvalidCgroupsPath as error:
            outcome = error

        if isinstance(outcome, InvalidCgroupsPath):
            assert str(outcome).isprintable()
        else:
            assert not {"", ".", ".."} & set(outcome[1:].split("/"))
            assert outcome == cgroup.expand(outcome)
