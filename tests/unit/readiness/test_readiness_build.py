"""What can fail at the end is asked at the start: each question just inside and just outside."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import needs
from rekindle.build import tree as state
from rekindle.build.assertwanted import check_configuration
from rekindle.build.launchers import behind_one_name
from rekindle.compat.resources import parts_for
from rekindle.errors import BadInput, MissingTool, NotReady
from rekindle.formats.ninja import has_objects
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.interpreters.search import base_of_ours
from rekindle.model.interpreter import Interpreter
from rekindle.model.machine import Check
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree
from rekindle.model.supply import TreePart
from rekindle.readiness.case import MAX_ARCHS_IN_NAME, PlannedBuild, wheel_name, wheel_version
from rekindle.readiness.cuda import cuda_for_build
from rekindle.readiness.programs import check_linker, check_release, find_build_python, python_tools
from rekindle.readiness.register import check_build, refuse_unready
from rekindle.toolkits.compilers import find_compilers


class Machine(LiveHost):
    """This machine with only these programs (and what they say) and files on it."""

    def __init__(self, programs: Mapping[str, str] | None = None, files: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.programs, self.files = programs or {}, files or {}

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{Path(name).name}" if Path(name).name in self.programs else None

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(name for name in self.files if fnmatch(name, pattern))

    def which_all(self, name: str) -> tuple[str, ...]:
        return (found,) if (found := self.which(name)) else ()

    def realpath(self, path: str) -> str:
        return path

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        return self.files.get(path, "").encode()

    def run(self, argv: Sequence[str], **_options: object) -> Completed:
        name = Path(argv[0]).name
        known = name in self.programs
        return Completed(argv=tuple(argv), code=0 if known else None, out=self.programs.get(name, ""))


def check_gpu(host: Machine, plan: Plan) -> Iterator[Check]:
    return cuda_for_build(host, PlannedBuild(plan=plan, python="", place=Path()))


def plan(**more: object) -> Plan:
    recipe = {"source": "torch", "env": {}, "pins": {"cmake": "<4"}, **more.pop("recipe", {})}  # type: ignore[dict-item]
    return Plan(**{"answer": "build", "torch": "1.13.1", "build": BuildRecipe(**recipe), **more})  # type: ignore[arg-type]


GCC11 = "gcc (Debian 11.3.0-12) 11.3.0\n"
GCC12 = "gcc (Debian 12.2.0-14) 12.2.0\n"


def test_a_compiler_without_a_number_in_its_name_will_do() -> None:
    host = Machine({"gcc": GCC12, "g++": GCC12})
    cc, cxx = find_compilers(host, {"CC": "gcc-12", "CXX": "g++-12"})
    assert (cc.path, cxx.path) == ("/usr/bin/gcc", "/usr/bin/g++")


def test_a_missing_compiler_is_a_line_to_paste_not_a_circle() -> None:
    host = Machine({"gcc": GCC12, "g++": GCC12, "apt-get": ""})
    with pytest.raises(MissingTool, match="gcc-11 is not on this machine") as caught:
        find_compilers(host, {"CC": "gcc-11", "CXX": "g++-11"})
    assert (caught.value.remedy or "").endswith("apt-get install -y --no-install-recommends g++-11")


@needs.posix()
def test_pythons_own_linker_is_asked_for_and_replaced() -> None:
    told = '{"CC": "x86_64-linux-gnu-gcc -pthread", "LDSHARED": "x86_64-linux-gnu-gcc -shared -Wl,-O1"}'
    found = python_tools(Machine({"python3": told}), "/usr/bin/python3")
    assert found.missing == {"CC": "x86_64-linux-gnu-gcc", "LDSHARED": "x86_64-linux-gnu-gcc"}
    assert found.overrides("/opt/gcc", "/opt/g++")["LDSHARED"] == "/opt/gcc -shared -Wl,-O1"
    here = python_tools(Machine({"python3": told, "x86_64-linux-gnu-gcc": ""}), "/usr/bin/python3")
    assert here.missing == {}
    python = Interpreter(path="/usr/bin/python3", version="3.11.2")
    (check,) = check_linker(Machine({"python3": told}), python)
    assert check.status == "warn"
    assert "LDSHARED names x86_64-linux-gnu-gcc" in (check.found or "")


@pytest.mark.parametrize(("version", "status"), [("3.7.1", None), ("3.11.2", None), ("3.12.0", "warn")])
def test_python_against_the_release(version: str, status: str | None) -> None:
    python = Interpreter(path="p", version=version)
    found = list(check_release(plan(), python))
    assert [check.status for check in found] == ([status] if status else [])


@pytest.mark.parametrize(("planned", "told"), [("3.11", False), ("3.10", True), (None, False)])
def test_another_python_than_the_planned_one_is_told(planned: str | None, told: bool) -> None:
    checks = check_release(plan(python=planned), Interpreter(path="p", version="3.11.2"))
    assert any("3.10" in (check.found or "") for check in checks) is told


def test_a_python_the_release_never_took_is_refused() -> None:
    python = Interpreter(path="p", version="3.6.15")
    with pytest.raises(BadInput, match=r"torch 1\.13\.1 needs Python >=3\.7\.0, and p is 3\.6\.15"):
        list(check_release(plan(), python))


def test_everything_that_is_missing_is_told_at_once() -> None:
    checks = [
        Check(id="a", status="fail", found="no gcc", fix="install gcc"),
        Check(id="b", status="warn", found="little disk", fix="free some"),
        Check(id="c", status="fail", found="no sleef", fix="install sleef"),
        Check(id="d", status="fail", found="no fmt", fix="install sleef"),
    ]
    with pytest.raises(NotReady, match="no gcc; no sleef; no fmt") as caught:
        refuse_unready(checks)
    assert caught.value.remedy == "install gcc\ninstall sleef"
    assert caught.value.exit_code == 1
    refuse_unready([check for check in checks if check.status != "fail"])


@needs.posix()
def test_missing_libraries_and_third_parties_come_from_one_question(tmp_path: Path) -> None:
    tree = SourceTree(
        project="torch", version="1.13.1", root=str(tmp_path), missing_submodules=("third_party/foxi (not there)",),
        parts=(
            TreePart(name="sleef", path="third_party/sleef", way="system"),
            TreePart(name="foxi", path="third_party/foxi", way="submodule", ready=False),
            TreePart(name="onnx", path="third_party/onnx", way="submodule"),
        ),
    )  # fmt: skip
    host = Machine({"apt-get": ""}, {"/usr/lib/libopenblas.so": ""})
    asked = PlannedBuild(plan=plan(), python=sys.executable, place=tmp_path, tree=tree)
    found = {check.id: check for check in check_build(host, asked)}
    assert "missing on this system: sleef (<sleef.h>)" in (found["third-parties"].found or "")
    assert (found["third-parties"].fix or "").endswith(" libsleef-dev"), "onnx is a submodule here, BLAS is there"
    assert found["submodules"].fix == f"rekindle source fill {tmp_path}"
    assert found["compiler"].status == "fail"


CUDA = {"cuda": "11.8", "arch_list": ("3.5", "9.0"), "cudnn": "8.9.2"}
NVCC = {"nvcc": "sm_35\nsm_50\nsm_86\nsm_90\n"}
HEADER = "#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 9\n#define CUDNN_PATCHLEVEL 2\n"
FILES = {
    "/opt/cuda/bin/nvcc": "", "/opt/cuda/lib64/stubs/libcuda.so": "", "/opt/cudnn/include/cudnn_version.h": HEADER,
    "/opt/cudnn/lib/libcudnn.so.8.9.2": "", "/opt/cudnn/lib/libcudnn.so.8": "",
}  # fmt: skip
ENV = {"recipe": {"env": {"CUDA_HOME": "/opt/cuda", "CUDNN_ROOT": "/opt/cudnn"}}}


@needs.posix()
def test_a_cuda_build_that_is_ready() -> None:
    found = {check.id: check for check in check_gpu(Machine(NVCC, FILES), plan(**CUDA, **ENV))}
    assert found["nvcc-targets"].found == "sm_35, sm_90"
    assert found["cudnn"].found == "8.9.2"
    assert found["libcuda"].status == "ok"


@pytest.mark.parametrize(
    ("programs", "files", "words"),
    [
        ({"nvcc": "sm_50\nsm_90\n"}, FILES, r"cannot make code for sm_35; it knows sm_50 to sm_90"),
        (NVCC, {k: v for k, v in FILES.items() if "libcuda.so" not in k}, "no libcuda.so and no stub"),
        (NVCC, {k: v for k, v in FILES.items() if "libcudnn" not in k}, "its library are not in /opt/cudnn"),
        (
            NVCC,
            {k.replace("so.8.9.2", "so.8.6.0"): v for k, v in FILES.items()},
            r"headers are 8\.9\.2 and its library is 8\.6\.0",
        ),
    ],
)
@needs.posix()
def test_a_cuda_build_that_would_fail_late(programs: dict[str, str], files: dict[str, str], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        list(check_gpu(Machine(programs, files), plan(**CUDA, **ENV)))


def test_the_name_of_the_wheel_is_known_before() -> None:
    name = wheel_name(plan(), None, "cp311", LiveHost())
    assert name is not None
    assert name.startswith("torch-1.13.1+rekindle.cpu-cp311-cp311-")
    cuda = wheel_name(plan(cuda="11.8", arch_list=("3.5", "9.0")), None, "cp311", LiveHost())
    assert cuda is not None
    assert cuda.startswith("torch-1.13.1+rekindle.cu118.sm35.sm90-cp311-")


def test_a_torch_without_lapack_is_not_what_was_planned(tmp_path: Path) -> None:
    summary = ["--   USE_BLAS              : 1", "--   USE_LAPACK            : 0"]
    facts = {fact.name: fact.ok for fact in check_configuration(plan(), tmp_path, summary, [])}
    assert facts == {"USE_BLAS": True, "USE_LAPACK": False}


def test_how_it_is_made_does_not_make_another_tree(tmp_path: Path) -> None:
    first = plan(recipe={"env": {"USE_CUDA": "0", "CCACHE_DIR": "/a", "MAX_JOBS": "4"}})
    other = plan(recipe={"env": {"USE_CUDA": "0", "CCACHE_DIR": "/b"}})
    assert state.settings_of(first) == state.settings_of(other) == {"env USE_CUDA": "0"}
    old = state.TreeState(project="torch", version="1", settings={"env USE_CUDA": "0", "launcher": "none"})
    new = state.TreeState(project="torch", version="1", settings=state.settings_of(other))
    assert state.differences(old, new) == []
    assert not has_objects(tmp_path)
    (tmp_path / ".ninja_log").write_text("# ninja log v5\n0\t9\t1\tc10/a.cpp.o\tabc\n")
    assert has_objects(tmp_path)


@pytest.mark.skipif(sys.platform == "win32", reason="scripts")
def test_a_launcher_is_behind_a_name_that_stays(tmp_path: Path) -> None:
    without = behind_one_name({}, tmp_path)
    script = Path(without["CMAKE_CXX_COMPILER_LAUNCHER"])
    import subprocess

    assert subprocess.run([script, "echo", "a b"], capture_output=True, text=True).stdout == "a b\n"
    farm = behind_one_name({"CMAKE_CXX_COMPILER_LAUNCHER": "/usr/bin/env", "USE_CCACHE": "0"}, tmp_path)
    assert farm["CMAKE_CXX_COMPILER_LAUNCHER"] == str(script)
    assert "exec /usr/bin/env" in script.read_text()
    assert "env" not in Path(farm["CMAKE_CUDA_COMPILER_LAUNCHER"]).read_text(), "a farm takes no nvcc"


class Bare(Machine):
    """Nothing on the path, nothing in the usual places; programs run."""

    def glob(self, pattern: str) -> tuple[str, ...]:
        return (pattern,) if pattern == base_of_ours() else ()


@needs.posix("an embedded Python has no headers")
def test_the_python_that_runs_us_is_found_wherever_it_lies() -> None:
    own = f"{sys.version_info.major}.{sys.version_info.minor}"
    assert find_build_python(Bare(), own).version.startswith(f"{own}.")
    with pytest.raises(BadInput, match=r"there is no Python 3\.2 that runs here"):
        find_build_python(Bare(), "3.2")


@pytest.mark.parametrize(
    ("programs", "line"),
    [
        ({"apt-get": ""}, "apt-get install -y --no-install-recommends python3.11-dev"),
        ({"dnf": ""}, "dnf install -y python3.11-devel"),
        ({}, "install its development package (python3-dev or alike)"),
    ],
)
def test_a_python_without_headers_is_a_line_to_paste(tmp_path: Path, programs: dict[str, str], line: str) -> None:
    class Linux(Machine):
        system = "linux"

        def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, object] | None:
            there = (tmp_path / "Python.h").exists()
            return {"version": "3.11.2", "include": str(tmp_path), "headers": there} if "python3.11" in path else None

    host = Linux({"python3.11": "", **programs})
    with pytest.raises(BadInput, match="has no headers") as refused:
        find_build_python(host, "3.11")
    assert (refused.value.remedy or "").removeprefix("sudo ") == line
    (tmp_path / "Python.h").touch()
    assert find_build_python(host, "3.11").version == "3.11.2"


def test_windows_hears_of_no_development_package(tmp_path: Path) -> None:
    class Windows(Machine):
        system = "windows"

        def python(self, path: str, *, timeout: float = 4.0) -> Mapping[str, object] | None:
            return {"version": "3.11.2", "include": str(tmp_path)} if "python3.11" in path else None

    host = Windows({"python3.11": ""})
    with pytest.raises(BadInput, match="has no headers") as refused:
        find_build_python(host, "3.11")
    assert "python.org" in (refused.value.remedy or "") and "-dev" not in (refused.value.remedy or "")


@needs.posix()
def test_no_blas_is_asked_for_not_noted(tmp_path: Path) -> None:
    """configure goes on without one, and torch.linalg is missing in the end."""
    for files, lacks in (({}, True), ({"/usr/lib/x86_64-linux-gnu/libopenblas.so": ""}, False)):
        asked = PlannedBuild(plan=plan(), python=sys.executable, place=tmp_path)
        found = {check.id: check for check in check_build(Machine({"apt-get": ""}, files), asked)}
        check = found["third-parties"]
        assert (check.status == "fail") is lacks
        assert ("BLAS and LAPACK" in (check.found or "")) is lacks
        assert ((check.fix or "").endswith(" libopenblas-dev")) is lacks
        assert not [one for one in found.values() if "ortran" in f"{one.found}{one.fix}"], "no build asks for Fortran"


@pytest.mark.parametrize(
    ("version", "recipe", "words"),
    [
        ("3.17.0", {}, "CMake 3.17.0 is too old: torch 2.6.0 wants 3.18"),
        ("3.18.0", {}, None),
        ("3.31.0", {}, None),
        ("4.0.0", {}, "CMake 4.0.0 refuses the CMake files of torch 2.6.0"),
        ("4.0.0", {"env": {"CMAKE_POLICY_VERSION_MINIMUM": "3.5"}}, None),
    ],
)
def test_cmake_and_its_policies(tmp_path: Path, version: str, recipe: dict[str, object], words: str | None) -> None:
    asked = PlannedBuild(plan=plan(torch="2.6.0", recipe={"pins": {}, **recipe}), python=sys.executable, place=tmp_path)
    host = Machine({"cmake": f"cmake version {version}"})
    (check,) = [one for one in check_build(host, asked) if one.id == "cmake"]
    assert (check.status == "fail") is (words is not None)
    assert words is None or (words in (check.found or "") and (check.fix or "").startswith("pip install"))


def test_torchs_policies_are_not_asked_of_an_extension(tmp_path: Path) -> None:
    """torchaudio 2.6.0 has CMake files of its own, which CMake 4 takes."""
    planned = plan(torch="2.6.0", project="torchaudio", recipe={"pins": {}})
    asked = PlannedBuild(plan=planned, python=sys.executable, place=tmp_path)
    for version in ("3.17.0", "4.4.4"):
        checks = check_build(Machine({"cmake": f"cmake version {version}"}), asked)
        assert [one.status for one in checks if one.id == "cmake"] == ["ok"]


@needs.posix()
def test_nccl_is_asked_for_where_it_is_planned() -> None:
    env = {"CUDA_HOME": "/opt/cuda", "CUDNN_ROOT": "/opt/cudnn", "USE_NCCL": "1", "USE_SYSTEM_NCCL": "1"}
    planned = plan(**CUDA, recipe={"env": env})
    host = Machine({**NVCC, "apt-get": ""}, FILES)
    with pytest.raises(BadInput, match=r"NCCL is planned, and <nccl.h> is not here") as refused:
        list(check_gpu(host, planned))
    assert (refused.value.remedy or "").endswith("libnccl-dev")
    there = {**FILES, "/usr/include/nccl.h": "", "/usr/lib/libnccl.so": ""}
    assert "nccl" in {check.id for check in check_gpu(Machine(NVCC, there), planned)}
    for told in ({}, {"USE_NCCL": "1"}, {"USE_SYSTEM_NCCL": "1"}, {"USE_NCCL": "1", "USE_SYSTEM_NCCL": "0"}):
        unplanned = plan(**CUDA, recipe={"env": {**ENV["recipe"]["env"], **told}})
        assert "nccl" not in {check.id for check in check_gpu(host, unplanned)}, "not planned, not asked"


NEW = {"torch": "2.12.1", "cuda": "13.0", "arch_list": ("9.0",), "cudnn": "9.20.0"}
ASKED = {"CUDA_HOME": "/opt/cuda", "USE_CUDNN": "1", "USE_NCCL": "1", "USE_SYSTEM_NCCL": "1"}


def supplied_tree(*folders: str, way: Any = "index") -> SourceTree:
    parts = tuple(TreePart(name=name, path=f"third_party/{name}", way=way) for name in folders)
    return SourceTree(root="/tree", project="torch", version="2.12.1", parts=parts)


@needs.posix()
def test_what_the_index_brings_is_looked_for_once_it_is_there(tmp_path: Path) -> None:
    recipe = {"env": ASKED, "origin": "debian", "packages": ("libfmt-dev",)}
    before = PlannedBuild(plan=plan(**NEW, recipe=recipe), python="3.99", place=tmp_path)
    host = Machine(NVCC, FILES)
    assert {check.id for check in cuda_for_build(host, before)} == {"nvcc-targets", "libcuda"}
    for origin in ("git", "tarball"):
        whole = PlannedBuild(plan=plan(**NEW, recipe={**recipe, "origin": origin}), python="3.99", place=tmp_path)
        with pytest.raises(BadInput, match=r"the plan wants cuDNN 9\.20\.0"):
            list(cuda_for_build(host, whole))
    after = replace(before, tree=supplied_tree("cudnn", "nccl/nccl", "cutlass"))
    assert after.roots == {"CUDNN_ROOT": "/tree/third_party/cudnn", "NCCL_ROOT": "/tree/third_party/nccl/nccl"}
    with pytest.raises(BadInput, match=r"its headers are not in /tree/third_party/cudnn"):
        list(cuda_for_build(host, after))
    cudnn = {
        "/tree/third_party/cudnn/include/cudnn_version.h": HEADER.replace("8", "9", 1),
        "/tree/third_party/cudnn/lib/libcudnn.so.9": "",
    }
    with pytest.raises(BadInput, match="NCCL is planned"):
        list(cuda_for_build(Machine(NVCC, {**FILES, **cudnn}), after))
    nccl = {"/tree/third_party/nccl/nccl/include/nccl.h": "", "/tree/third_party/nccl/nccl/lib/libnccl.so": ""}
    there = {check.id for check in cuda_for_build(Machine(NVCC, {**FILES, **cudnn, **nccl}), after)}
    assert {"cudnn", "nccl"} <= there


def test_the_build_is_told_of_its_own_libraries_alone(tmp_path: Path) -> None:
    def roots(tree: SourceTree, **other: Any) -> set[str]:
        made = plan(**{**NEW, **other}, recipe={"env": {}})
        return set(PlannedBuild(plan=made, python="3.99", place=tmp_path, tree=tree).roots)

    full = supplied_tree("cudnn", "nccl/nccl", "cusparselt")
    assert roots(full) == {"CUDNN_ROOT", "NCCL_ROOT", "CUSPARSELT_ROOT"}
    assert roots(supplied_tree("cudnn", "nccl/nccl", way="off")) == set()
    assert roots(full, cudnn="9.12.0") == {"NCCL_ROOT", "CUSPARSELT_ROOT"}, "another cuDNN was planned"
    assert roots(full, cuda="12.9") == set(), "they are for CUDA 13"
    assert roots(full, cuda=None) == set()
    assert roots(full, project="torchvision") == set()
    by_hand = plan(**NEW, recipe={"env": {"CUDNN_ROOT": "/mine"}})
    assert PlannedBuild(plan=by_hand, python="3.99", place=tmp_path, tree=full).settings["CUDNN_ROOT"] == "/mine"


def test_two_toolkits_the_named_one_counts() -> None:
    """/usr/local/cuda and another one: the plan's CUDA_HOME decides, else its release; another version is refused."""
    from rekindle.readiness.cuda import find_toolkit

    class Two(Machine):
        def run(self, argv: Sequence[str], **_options: object) -> Completed:
            if not argv[0].endswith("nvcc"):
                return Completed(argv=tuple(argv), code=1)
            version = "11.8" if argv[0].startswith("/opt/cuda") else "12.4"
            return Completed(argv=tuple(argv), code=0, out=f"Cuda compilation tools, release {version}, V{version}.1")

    host = Two({}, {"/opt/cuda": "", "/opt/cuda/bin/nvcc": "", "/usr/local/cuda/bin/nvcc": ""})
    for settings in ({"CUDA_HOME": "/opt/cuda"}, {}):
        assert find_toolkit(host, plan(**CUDA), settings, "g++") == {"nvcc": "11.8 (/opt/cuda/bin/nvcc)"}
    with pytest.raises(BadInput, match=r"wants CUDA 11\.8, but /usr/local/cuda/bin/nvcc is 12\.4"):
        find_toolkit(host, plan(**CUDA), {"CUDA_HOME": "/usr/local/cuda"}, "g++")


def test_the_check_says_which_toolkit_of_how_many(tmp_path: Path) -> None:
    said = {"nvcc": "Cuda compilation tools, release 11.8, V11.8.89", "gcc": GCC11, "g++": GCC11}
    two = {"/opt/cuda": "", "/opt/cuda/bin/nvcc": ""}
    for files, words in (({}, ""), (two, ", the one that the plan names of 2 toolkits here")):
        checks = check_build(Machine(said, files), PlannedBuild(plan=plan(**CUDA), python="3.99", place=tmp_path))
        (nvcc,) = [check for check in checks if check.id == "nvcc"]
        assert nvcc.found == f"11.8 (/usr/bin/nvcc){words}"


@pytest.mark.parametrize(
    ("cuda", "way", "fails"),
    [
        ("12.4", "off", True),
        ("12.4", "another file", True),
        ("12.4", "index", False),
        ("12.4", "submodule", False),
        (None, "off", False),
    ],
)
def test_a_tree_filled_for_another_back_end_lacks_headers(
    cuda: str | None, way: Any, fails: bool, tmp_path: Path
) -> None:
    (row,) = [one for one in parts_for("2.6.0") if one.name == "cutlass"]
    assert row.index is not None
    origin = f"package index: x sha256:{row.index.sha256 if way == 'index' else 'other'}"
    known: Any = "index" if way == "another file" else way
    parts = (TreePart(name="cutlass", path="third_party/cutlass", way=known, origin=origin),)
    tree = SourceTree(root="/t r", project="torch", version="2.6.0", parts=parts)
    asked = PlannedBuild(plan=plan(torch="2.6.0", cuda=cuda), python="3.99", place=tmp_path, tree=tree)
    found = [check for check in check_build(Machine(), asked) if check.id == "headers"]
    assert [check.fix for check in found] == (["rekindle source fill '/t r'"] if fails else [])


def test_a_tree_that_cannot_be_built_with_cuda_is_told_so_at_the_start(tmp_path: Path) -> None:
    parts = (TreePart(name="cutlass", path="third_party/cutlass", way="off"),)
    tree = SourceTree(root="/t", project="torch", version="2.8.0", parts=parts)
    for cuda, fails in (("12.6", True), (None, False)):
        asked = PlannedBuild(plan=plan(torch="2.8.0", cuda=cuda), python="3.99", place=tmp_path, tree=tree)
        found = [check for check in check_build(Machine(), asked) if check.id == "headers"]
        assert [check.status for check in found] == (["fail"] if fails else [])
        assert all("kernel files include CUTLASS" in (check.found or "") for check in found)


def test_little_disk_is_told_and_none_refused(tmp_path: Path) -> None:
    from rekindle.host.protocol import Disk

    class Small(Machine):
        free = 0

        def disk(self, path: str) -> Disk | None:
            return Disk(total=1 << 40, free=self.free)

    # All that was measured of a CPU build goes onto this one disk: environment, build tree, wheel.
    need = int(0.18 * 2**30) + int(2.8 * 2**30) + int(0.05 * 2**30)
    for free, status in ((need, "warn"), (need - 1, "fail"), (40 << 30, "ok"), ((40 << 30) - 1, "warn")):
        host = Small()
        host.free = free
        asked = PlannedBuild(plan=plan(recipe={"disk_gib": 40}), python=sys.executable, place=tmp_path)
        (check,) = [one for one in check_build(host, asked) if one.id == "disk"]
        assert check.status == status, free


TREE = SourceTree(project="torchvision", version="0.22.0a0+git", root="")


@pytest.mark.parametrize(
    ("fields", "version"),
    [
        ({"torch": "2.7.1+x"}, "2.7.1+rekindle.cpu"),
        ({"torch": None}, "0.22.0a0+rekindle.cpu"),
        ({"project": "torchvision", "torch": "2.7.1"}, "0.22.0a0+rekindle.cpu"),
        ({"cuda": "12.8", "arch_list": ("9.0a", "10.0+PTX")}, "1.13.1+rekindle.cu128.sm90a.sm100ptx"),
        ({"rocm": "6.4", "arch_list": ("gfx1100",)}, "1.13.1+rekindle.rocm6.4.gfx1100"),
        ({"variant": "cu118"}, "1.13.1+rekindle.cu118"),
    ],
)
def test_a_wheel_s_version_tells_what_it_is_for(fields: dict[str, Any], version: str) -> None:
    assert wheel_version(replace(plan(), **fields), TREE) == version


def test_a_few_architectures_stand_in_the_name_and_many_do_not() -> None:
    archs = tuple(f"{number}.0" for number in range(1, MAX_ARCHS_IN_NAME + 2))
    few, many = (replace(plan(cuda="12.8"), arch_list=archs[:count]) for count in (len(archs) - 1, len(archs)))
    assert wheel_version(few, TREE).count("sm") == MAX_ARCHS_IN_NAME and "sm" not in wheel_version(many, TREE)


def test_cuda_is_asked_only_of_a_cuda_build_on_linux() -> None:
    host = Machine({"nvcc": "release 11.8, V11.8.89"})
    for system, cuda in (("windows", "11.8"), ("linux", None)):
        elsewhere = type("Elsewhere", (Machine,), {"system": system})(host.programs)
        assert (
            list(cuda_for_build(elsewhere, PlannedBuild(plan=plan(cuda=cuda), python="python", place=Path("/x")))) == []
        )
