"""What a graft from sources is compiled with: the tree, torch's headers, the host compiler, generated kernel files."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from bare_host import BareHost
from rekindle import api
from rekindle.api import graft_source
from rekindle.errors import BadInput, MissingTool, StageFailed
from rekindle.facts import load_facts
from rekindle.formats.wheel import WheelZip
from rekindle.graft.engine import Tools
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.host.workspace import Workspace
from rekindle.inspect.published import Places
from rekindle.model.graft import GraftOptions, GraftRecipe, HeaderPackage
from rekindle.model.progress import Silent
from rekindle.model.source import FetchOptions, SourceTree
from rekindle.source.tree import MARKS
from tiny_wheels import make_wheel

GENERATOR = """
import pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--install_dir") + 1])
assert pathlib.Path(sys.argv[sys.argv.index("--source-path") + 1]).name == "ATen"
(folder / "asked.txt").write_text("\\n".join(sys.argv[1:]))
for name in pathlib.Path("names.txt").read_text().split():
    (folder / name).write_text("// kernel")
"""


@pytest.mark.parametrize("target", ["none.whl", "folder/torch", "folder\\torch"])
def test_a_path_without_a_file_is_never_looked_up_as_a_name(target: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no wheel"):
        api.graft(target, gpu="sm_50", workspace=tmp_path, offline=True)
    with pytest.raises(BadInput, match="there is no wheel"):
        api.graft_apply(target, tmp_path / "x.graft", workspace=tmp_path, offline=True)


def test_cards_of_two_vendors_and_of_others_are_refused(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-2.6.0-cp312-cp312-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("torch-2.6.0.dist-info/METADATA", "Name: torch\nVersion: 2.6.0\n")
    with pytest.raises(BadInput, match="one vendor"):
        api.graft(str(wheel), gpu=["sm_50", "gfx1031"], workspace=tmp_path / "work")
    with pytest.raises(BadInput, match="NVIDIA's and AMD's"):
        api.graft(str(wheel), gpu="Arc A770", workspace=tmp_path / "work")
    with pytest.raises(BadInput, match="is no directory"):
        api.graft(str(wheel), gpu="sm_50", workspace=tmp_path / "work", out=wheel)
    with pytest.raises(BadInput, match="does not cache device code"):
        api.graft(str(wheel), gpu="sm_50", workspace=tmp_path / "work", launcher="sccache")


class CompilerHost(BareHost):
    """Has these compilers on its path; each says its version."""

    def __init__(self, env: Mapping[str, str] | None = None, **versions: str) -> None:
        super().__init__(env=env)
        self.versions = {name.replace("_", "-").replace("gxx", "g++"): version for name, version in versions.items()}

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.versions else None

    def which_all(self, name: str) -> tuple[str, ...]:
        return (f"/usr/bin/{name}",) if name in self.versions else ()

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(f"/usr/bin/{name}" for name in self.versions) if pattern.startswith("/usr/bin/g") else ()

    def access(self, path: str) -> bool | None:
        return Path(path).name in self.versions

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        name = Path(argv[0]).name
        if name not in self.versions:
            return Completed(argv=tuple(argv), code=None)
        return Completed(argv=tuple(argv), code=0, out=f"{name} (Debian) {self.versions[name]}\nCopyright (C) Free\n")


def test_the_usual_compiler_is_left_to_nvcc_where_nvcc_takes_it() -> None:
    assert graft_source._preprocessor(CompilerHost(gxx="12.2.0"), "12.4", load_facts()) is None


def test_a_compiler_named_by_hand_is_taken_unasked() -> None:
    host = CompilerHost(env={"CUDAHOSTCXX": "/opt/g++-11"})
    assert graft_source._preprocessor(host, "12.4", load_facts()) == "/opt/g++-11"


def test_an_unknown_toolkit_and_other_systems_ask_for_no_compiler() -> None:
    assert graft_source._preprocessor(CompilerHost(), "99.9", load_facts()) is None
    assert graft_source._preprocessor(BareHost("windows"), "12.4", load_facts()) is None


def test_without_a_compiler_that_nvcc_takes_the_way_to_one_is_told() -> None:
    for host in (CompilerHost(), CompilerHost(gxx="15.1.0")):
        with pytest.raises(MissingTool, match=r"nvcc of CUDA 12\.4 takes") as refused:
            graft_source._preprocessor(host, "12.4", load_facts())
        assert "g++-13" in (refused.value.remedy or "") and "CUDAHOSTCXX" in (refused.value.remedy or "")


def companion(tmp_path: Path, requires: str) -> WheelZip:
    path = tmp_path / "xformers-0.0.30-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("xformers-0.0.30.dist-info/METADATA", f"Name: xformers\nVersion: 0.0.30\n{requires}\n")
    return WheelZip(lambda: path.open("rb"), path.name)


@pytest.mark.parametrize("requires", ["Requires-Dist: torch ==2.7.0", "Requires-Dist: torch (==2.7.0)"])
def test_a_companion_is_compiled_with_the_headers_of_its_own_torch(requires: str, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "include" / "ATen").mkdir(parents=True)
    (tmp_path / "include" / "ATen" / "ATen.h").touch()
    folders = [tmp_path / "other", tmp_path / "include"]
    found = graft_source._torch_include(companion(tmp_path, requires), folders, Workspace(tmp_path), Silent())
    assert found == ("2.7.0", tmp_path / "include")


@pytest.mark.parametrize("requires", ["Requires-Dist: torch >=2.0", "Requires-Dist: torchvision ==0.22.0", ""])
def test_a_companion_that_names_no_one_torch_is_refused(requires: str, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="for which torch"):
        graft_source._torch_include(companion(tmp_path, requires), [], Workspace(tmp_path), Silent())


def package(**values: object) -> HeaderPackage:
    row = {
        "name": "cccl",
        "version": "1",
        "torch": ">=2",
        "record": "0" * 64,
        "within": ("a",),
        "header": "cub/cub.cuh",
    }
    facts = {"source": ("x",), "date": "2026-01-01", "how": "measured"}
    return HeaderPackage(**{**row, **facts, **values})  # type: ignore[arg-type]


def test_headers_are_fetched_only_where_the_toolkit_lacks_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken: list[str] = []

    def take(row: HeaderPackage, _: object, folder: Path) -> tuple[Path, ...]:
        taken.append(row.name)
        return (folder / "same", folder / row.name)

    monkeypatch.setattr(graft_source, "take_headers", take)
    (tmp_path / "cub").mkdir()
    (tmp_path / "cub" / "cub.cuh").touch()
    rows = [package(), package(name="pinned", always=True), package(name="lacking", header="no/such.h")]
    found = graft_source._headers(rows, (tmp_path,), Workspace(tmp_path), Silent())
    assert taken == ["pinned", "lacking"]
    assert [path.name for path in found] == ["same", "pinned", "lacking"], "each folder once"


def recipe(**values: object) -> GraftRecipe:
    facts = {"source": ("x",), "date": "2026-01-01", "how": "measured"}
    return GraftRecipe(**{"releases": "==2.6.0", **facts, **values})  # type: ignore[arg-type]


def test_headers_of_submodules_that_the_tree_has_get_no_standin(tmp_path: Path) -> None:
    (tmp_path / "third_party" / "fmt").mkdir(parents=True)
    (tmp_path / "third_party" / "fmt" / "format.h").touch()
    folder = tmp_path / "standins"
    assert graft_source._standins(recipe(standins={"format.h": "x"}), tmp_path, folder) == ()
    both = recipe(standins={"format.h": "x", "nvtx.h": "// none"})
    assert graft_source._standins(both, tmp_path, folder) == (folder,)
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"nvtx.h": "// none"}


def generator_tree(tmp_path: Path, *written: str) -> Path:
    tree = tmp_path / "tree"
    (tree / "torchgen").mkdir(parents=True)
    (tree / "torchgen" / "__init__.py").touch()
    (tree / "torchgen" / "gen.py").write_text(GENERATOR, "utf-8")
    (tree / "names.txt").write_text(" ".join(written), "utf-8")
    return tree


def test_the_releases_own_generator_writes_the_kernel_files_once(tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    tree, folder, place = generator_tree(tmp_path, "UfuncCUDA_add.cu"), tmp_path / "generated", Workspace(tmp_path)
    asked = recipe(generated=("UfuncCUDA_add_cu",), generator=("--headers", "inner/list.txt"))
    assert graft_source._generated(asked, tree, folder, LiveHost(), place, Silent()) == folder
    words = (folder / "asked.txt").read_text().splitlines()
    assert words[-2:] == ["--headers", str(folder / "inner" / "list.txt")], "a path of the recipe lies in the folder"
    (folder / "asked.txt").unlink()
    assert graft_source._generated(asked, tree, folder, LiveHost(), place, Silent()) == folder
    assert not (folder / "asked.txt").exists(), "not written again"
    assert graft_source._generated(recipe(), tree, folder, LiveHost(), place, Silent()) is None


@pytest.mark.parametrize("broken", ["raise SystemExit('no such operator')", "print('all is well')"])
def test_a_generator_that_fails_or_writes_too_little_is_told(broken: str, tmp_path: Path) -> None:
    pytest.importorskip("yaml")
    tree = generator_tree(tmp_path)
    (tree / "torchgen" / "gen.py").write_text(broken, "utf-8")
    asked = recipe(generated=("UfuncCUDA_add_cu",))
    with pytest.raises(StageFailed, match=r"no such operator|all is well"):
        graft_source._generated(asked, tree, tmp_path / "made", LiveHost(), Workspace(tmp_path), Silent())


def torch_tree(root: Path, version: str) -> Path:
    for name in MARKS["torch"]:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{version}\n")
    return root


def test_kernel_files_are_compiled_with_the_release_the_wheel_and_the_toolkit_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, place = torch_tree(tmp_path / "tree", "2.7.0"), Workspace(tmp_path / "w")
    wheel = make_wheel(tmp_path, "torch", "2.7.0+cu126", files={"torch/include/ATen/ATen.h": b"//"})
    for name in ("cuda/bin/nvcc", "cuda/targets/x86_64-linux/include/cuda.h"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    asked: list[tuple[str, tuple[Path, ...]]] = []
    monkeypatch.setattr(graft_source, "find_packages", lambda torch, facts: torch)

    def headers(packages: str, own: tuple[Path, ...], *_: object) -> tuple[Path, ...]:
        asked.append((packages, own))
        return ()

    monkeypatch.setattr(graft_source, "_headers", headers)
    monkeypatch.setattr(graft_source, "wrap_nvcc", lambda nvcc, folder: folder)
    found = graft_source.gather_sources(
        wheel,
        GraftOptions(sources=str(tree), headers=(tmp_path / "own",), defines=("A=1",)),
        recipe(standins={"fmt.h": "//"}),
        Tools(release="12.6", nvcc=str(tmp_path / "cuda/bin/nvcc")),
        host=CompilerHost(env={"CUDAHOSTCXX": "mine"}),
        place=place,
        launcher="ccache",
        progress=Silent(),
    )
    work = place.root / "work" / wheel.stem
    assert (found.tree, found.nvcc, found.preprocessor) == (tree, work / "nvcc-12.6", "mine")
    assert (found.include / "ATen" / "ATen.h").is_file() and found.launcher == "ccache" and found.flags == ("-DA=1",)
    assert found.headers == (tmp_path / "own", work / "standins") and found.generated is None
    cuda = tmp_path / "cuda"
    own = (found.include, cuda / "include", cuda / "targets/x86_64-linux/include", tmp_path / "own")
    assert asked == [("2.7.0+cu126", own)]


def test_the_tree_is_the_folder_of_that_release_or_is_fetched_without_submodules(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree, place = torch_tree(tmp_path / "tree", "2.6.0"), Workspace(tmp_path / "w")
    with pytest.raises(BadInput, match=r"2\.6"):
        graft_source._tree("torch", "2.7.0+cu126", str(tree), place, Silent())
    asked: list[tuple[Path, FetchOptions]] = []

    def fetch(where: Path, told: FetchOptions, **_: object) -> SourceTree:
        asked.append((where, told))
        return SourceTree(project="torch", version="2.7.0", root="/fetched")

    monkeypatch.setattr(graft_source, "source_fetch", fetch)
    for source in (None, "debian"):
        assert graft_source._tree("torch", "2.7.0+cu126", source, place, Silent()) == Path("/fetched")
    assert [(where, told.release, told.place, told.submodules) for where, told in asked] == [
        (place.source / "torch-2.7.0", "2.7.0", None, False),
        (place.source / "torch-2.7.0", "2.7.0", "debian", False),
    ]


def test_headers_of_a_torch_that_is_not_here_come_out_of_its_wheel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = make_wheel(tmp_path / "index", "torch", "2.7.0", files={"torch/include/ATen/ATen.h": b"//"})
    files = [SimpleNamespace(name=f"{number}{torch.name}", url=torch.as_uri(), sha256=None) for number in ("", "9")]
    monkeypatch.setattr(graft_source, "find_wheels", lambda *_, **__: [SimpleNamespace(file=file) for file in files])
    monkeypatch.setattr(graft_source, "pip_places", Places)
    own = companion(tmp_path, "Requires-Dist: torch ==2.7.0")
    version, include = graft_source._torch_include(own, [tmp_path], Workspace(tmp_path / "w"), Silent())
    assert version == "2.7.0" and (include / "ATen" / "ATen.h").is_file()
    assert [path.name for path in (tmp_path / "w" / "official").iterdir()] == [torch.name]
    read: list[str] = []

    class Ranges:
        def __init__(self, url: str, context: object) -> None:
            read.append(url)

        def stream(self) -> object:
            return torch.open("rb")

    monkeypatch.setattr(graft_source, "RangeFile", Ranges)
    files[1].url = "file:///nowhere"
    assert "torch/include/ATen/ATen.h" in graft_source._open("torch==2.7.0").members and read == [torch.as_uri()]


def test_a_generator_without_its_packages_gets_an_environment_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folders: list[Path] = []

    def prepare(host: object, python: object, folder: Path, *_: object) -> SimpleNamespace:
        folders.append(folder)
        return SimpleNamespace(python="its own")

    monkeypatch.setattr(graft_source, "ask_interpreter", lambda *_: None)
    monkeypatch.setattr(graft_source, "prepare_target", prepare)
    assert graft_source._generator_python(BareHost(), Workspace(tmp_path)) == "its own"
    assert folders == [tmp_path / "python" / "torchgen"]
