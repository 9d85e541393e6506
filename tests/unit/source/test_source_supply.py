"""A tree without its submodules: what fills it, what stays missing and why, and a tree with them stays as it is."""

from __future__ import annotations

import functools
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import needs
import rekindle.source.supply
import source_mini as mini
from rekindle.compat.resources import parts_for
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.model.progress import Silent
from rekindle.model.source import FetchOptions, SourceTree
from rekindle.source import journal
from rekindle.source.fetch import fetch
from rekindle.source.origins import find_packaged
from rekindle.source.patches import status
from rekindle.source.supply import Packaging, fill, survey, with_parts, without_submodules
from rekindle.toolkits.libraries import find_lacks, system_kind, system_version
from rekindle.toolkits.programs import bring_lacking

RELEASE = "1.13.1"
GITMODULES = "".join(
    f'[submodule "{path}"]\n\tpath = {path}\n\turl = https://example.org/{path}.git\n'
    for path in ("third_party/fmt", "third_party/gloo", "third_party/pocketfft", "third_party/flatbuffers", "ios")
)


class Machine(LiveHost):
    """This machine with other programs, headers and libraries on it; programs write what they are told to make."""

    def __init__(self, *, programs: Sequence[str] = (), files: Sequence[str] = (), content: bytes = b"") -> None:
        super().__init__()
        self.programs, self.files, self.content = programs, files, content

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.programs else None

    def glob(self, pattern: str) -> tuple[str, ...]:
        from fnmatch import fnmatch

        return tuple(file for file in self.files if fnmatch(file, pattern))

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        return self.content

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        Path(argv[2], "mobile_bytecode_generated.h").write_text("// made again")
        return Completed(argv=tuple(argv), code=0)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = mini.make_tree(tmp_path / "pytorch")
    (root / ".gitmodules").write_text(GITMODULES)
    (root / "third_party/gloo").mkdir(parents=True)
    folder = root / "torch/csrc/jit/serialization"
    folder.mkdir(parents=True)
    (folder / "mobile_bytecode_generated.h").write_text("// as shipped")
    return root


@pytest.fixture
def packaging(tmp_path: Path) -> Packaging:
    home = tmp_path / "debian"
    (home / "pocketfft-1").mkdir(parents=True)
    (home / "pocketfft-1/pocketfft_hdronly.h").write_text("// fft")
    (home / "pocketfft").symlink_to("pocketfft-1")
    archive = tmp_path / "pytorch_2.6.0+dfsg-7.debian.tar.xz"
    with tarfile.open(archive, "w:xz") as file:
        file.add(home, "debian")
    return functools.partial(find_packaged, RELEASE, tmp_path / "cache", Silent(), archive=archive)


def states(root: Path) -> dict[str, str]:
    return {part.path: part.way if part.ready else "missing" for part in survey(root, RELEASE)}


def tree_of(root: Path) -> SourceTree:
    return with_parts(status(root))


@needs.links()
def test_everything_is_filled_and_told(tree: Path, packaging: Packaging) -> None:
    assert set(states(tree).values()) == {"missing"}
    host = Machine(programs=["flatc"])
    parts = fill(tree, RELEASE, host=host, packaging=packaging, progress=Silent())
    assert all(part.ready for part in parts)
    assert states(tree) == {
        "third_party/fmt": "system", "third_party/gloo": "off", "third_party/pocketfft": "copy",
        "third_party/flatbuffers": "system", "ios": "off",
    }  # fmt: skip
    assert "fmt::${name}" in (tree / "third_party/fmt/CMakeLists.txt").read_text()
    assert "switched off (USE_DISTRIBUTED=0" in (tree / "third_party/gloo/CMakeLists.txt").read_text()
    assert (tree / "torch/csrc/jit/serialization/mobile_bytecode_generated.h").read_text() == "// made again"
    assert "debian.tar.xz: pocketfft" in next(p.origin or "" for p in parts if p.name == "pocketfft")
    assert tree_of(tree).missing_submodules == ()
    before = mini.snapshot(tree)
    fill(tree, RELEASE, host=host, packaging=packaging, progress=Silent())
    assert mini.snapshot(tree) == before, "again changes nothing"


def test_a_package_that_lacks_the_folder_is_told(tree: Path, tmp_path: Path) -> None:
    archive = tmp_path / "pytorch_2.6.0+dfsg-7.debian.tar.xz"
    with tarfile.open(archive, "w:xz") as file:
        file.add(tree / "torch", "debian")
    with pytest.raises(BadInput, match=r"debian\.tar\.xz has no pocketfft"):
        find_packaged(RELEASE, tmp_path / "cache", Silent(), "pocketfft", archive)


@needs.links()
def test_what_cannot_be_filled_says_why_and_how_and_comes_later(tree: Path, packaging: Packaging) -> None:
    parts = fill(tree, RELEASE, host=Machine(programs=["apt-get"]), packaging=packaging, progress=Silent())
    (late,) = [part for part in parts if not part.ready]
    assert late.name == "flatbuffers"
    assert "flatc is not on this machine" in (late.detail or "")
    assert "apt-get install" in (late.fix or "")
    assert "flatbuffers-compiler" in (late.fix or "")
    assert tree_of(tree).missing_submodules == ("third_party/flatbuffers (not there)",)
    told = with_parts(status(tree), parts).missing_submodules
    assert len(told) == 1 and told[0].startswith("third_party/flatbuffers (flatc is not on this machine")
    assert all(p.ready for p in fill(tree, RELEASE, host=Machine(programs=["flatc"]), packaging=packaging,
                                     progress=Silent()))  # fmt: skip
    assert len(journal.read_record(tree).supply) == len(parts), "what was filled before is still known"


def test_submodules_that_are_there_stay_and_ask_for_no_settings(tree: Path) -> None:
    for name in ("fmt", "gloo", "pocketfft", "flatbuffers"):
        (tree / "third_party" / name).mkdir(exist_ok=True)
        (tree / "third_party" / name / "CMakeLists.txt").write_text("project(real)\n")
    before = mini.snapshot(tree)
    parts = fill(tree, RELEASE, host=Machine(), packaging=None, progress=Silent())
    assert {name: text for name, text in mini.snapshot(tree).items() if name != "ios/CMakeLists.txt"} == before
    assert {part.way for part in parts} == {"submodule", "off"}
    assert without_submodules(parts, parts_for(RELEASE)) == ()


def test_a_copy_that_lacks_its_header_is_no_copy(tree: Path, tmp_path: Path) -> None:
    archive = tmp_path / "pytorch_2.6.0+dfsg-7.debian.tar.xz"
    (tmp_path / "d/pocketfft").mkdir(parents=True)
    with tarfile.open(archive, "w:xz") as file:
        file.add(tmp_path / "d", "debian")
    packaging = functools.partial(find_packaged, RELEASE, tmp_path / "cache", Silent(), archive=archive)
    parts = fill(tree, RELEASE, host=Machine(programs=["flatc"]), packaging=packaging, progress=Silent())
    assert [part.name for part in parts if not part.ready] == ["pocketfft"]
    assert not (tree / "third_party/pocketfft").exists()


def test_a_fetch_that_dies_while_filling_leaves_nothing(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def die(*_args: object, **_kwargs: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rekindle.source.fetch.fill", die)
    target = tmp_path / "new/place"
    with pytest.raises(KeyboardInterrupt):
        fetch(FetchOptions(release=RELEASE, place=str(tree)), target, cache=tmp_path / "cache", windows=False)
    assert not target.exists()
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize(("release", "has"), [("1.13.1", "foxi"), ("2.3.1", "foxi"), ("2.4.0", None)])
def test_rows_follow_the_release(release: str, has: str | None) -> None:
    assert ("foxi" if any(row.name == "foxi" for row in parts_for(release)) else None) == has


def test_what_is_missing_is_one_line() -> None:
    rows = [row for row in parts_for(RELEASE) if row.name in ("sleef", "protobuf")]
    bare = Machine(programs=["apt-get"])
    lacks = find_lacks(bare, rows)
    assert {lack.need.name for lack in lacks} == {"sleef", "protobuf"}
    line = bring_lacking(bare, lacks) or ""
    assert line.endswith("libprotobuf-dev libprotoc-dev protobuf-compiler libsleef-dev")
    there = ["/usr/include/sleef.h", "/usr/lib/x86_64-linux-gnu/libsleef.so"]
    assert [lack.need.name for lack in find_lacks(Machine(files=there), rows)] == ["protobuf"]
    elsewhere = ["/opt/own/include/sleef.h", "/opt/own/lib/libsleef.a"]
    env = {"CMAKE_PREFIX_PATH": "/opt/other;/opt/own"}
    assert [lack.need.name for lack in find_lacks(Machine(files=elsewhere), rows, env)] == ["protobuf"]
    (blas,) = [row for row in load_facts().supply.need if row.name == "BLAS and LAPACK"]
    assert find_lacks(Machine(), [blas])
    assert not find_lacks(Machine(files=["/usr/lib64/libmkl_rt.so"]), [blas])


@pytest.mark.parametrize(("macro", "version"), [("90100", "9.1.0"), ("110104", "11.1.4"), ("80101", "8.1.1")])
def test_the_version_of_a_system_header(macro: str, version: str) -> None:
    (fmt,) = [row for row in parts_for(RELEASE) if row.name == "fmt"]
    host = Machine(files=["/usr/include/fmt/base.h"], content=f"#define FMT_VERSION {macro}\n".encode())
    assert system_version(host, fmt) == version
    assert system_version(Machine(), fmt) is None


def test_an_old_header_that_says_no_version_is_told_by_what_it_lacks() -> None:
    (cpuinfo,) = [row for row in parts_for("2.6.0") if row.name == "cpuinfo"]
    header = "/usr/include/cpuinfo.h"
    assert cpuinfo.old is not None
    new = f"static inline bool {cpuinfo.old.lacks}(void);".encode()
    assert system_kind(Machine(files=[header], content=b"bool cpuinfo_has_x86_avx2(void);"), cpuinfo) == "without-amx"
    assert system_kind(Machine(files=[header], content=new), cpuinfo) == "usual"
    assert system_kind(Machine(), cpuinfo) is None, "not there: nobody knows"
    (fmt,) = [row for row in parts_for("2.6.0") if row.name == "fmt"]
    assert system_kind(Machine(files=[header]), fmt) is None


@pytest.mark.parametrize("folder", ["concurrentqueue", "concurrentqueue/moodycamel"], ids=["Debian 12", "Debian 13"])
def test_a_header_that_distributions_lay_elsewhere(folder: str) -> None:
    (row,) = [row for row in parts_for("2.12.1") if row.name == "concurrentqueue"]
    assert not find_lacks(Machine(files=[f"/usr/include/{folder}/concurrentqueue.h"]), [row])
    (lack,) = find_lacks(Machine(files=["/usr/include/moodycamel/other.h"]), [row])
    assert "<concurrentqueue/concurrentqueue.h> or <concurrentqueue/moodycamel/" in lack.what[0]


@needs.posix()
@pytest.mark.parametrize("folder", ["concurrentqueue", "concurrentqueue/moodycamel"], ids=["Debian 12", "Debian 13"])
def test_the_stand_in_finds_either(folder: str, tmp_path: Path) -> None:
    compiler = LiveHost().which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    (tmp_path / folder).mkdir(parents=True)
    standins = Path(rekindle.source.supply.__file__).parent / "standins"
    for name in ("concurrentqueue.h", "lightweightsemaphore.h"):
        (tmp_path / folder / name).write_text("int found_here;\n")
        said = LiveHost().run([compiler, "-E", "-x", "c++", "-nostdinc", f"-I{tmp_path}", str(standins / name)])
        assert said.ok and "found_here" in said.out, said.err


def test_without_debians_packaging_a_copy_says_that_no_package_is_known(tree: Path) -> None:
    parts = fill(tree, RELEASE, host=Machine(programs=["flatc"]), packaging=None, progress=Silent())
    (late,) = [part for part in parts if part.name == "pocketfft"]
    assert not late.ready and "no package is known" in (late.detail or "")


@needs.links()
def test_a_package_that_cannot_be_had_is_told_in_its_own_words(tree: Path) -> None:
    def offline(name: str) -> tuple[Path, str]:
        raise BadInput(f"no mirror has {name}", remedy="try another")

    parts = fill(tree, RELEASE, host=Machine(programs=["flatc"]), packaging=offline, progress=Silent())
    (late,) = [part for part in parts if not part.ready]
    assert (late.name, late.detail, late.fix) == ("pocketfft", "no mirror has pocketfft", "try another")
