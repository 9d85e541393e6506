"""A real nvcc: what was planned is what is configured, what is configured is what the wheel holds, and ccache hits."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

import needs
import rekindle.spark
from failed_builds import failed
from rekindle import api
from rekindle.api.build_wheels import read_back
from rekindle.build import build
from rekindle.errors import BadInput, BuildFailed
from rekindle.facts import load_facts
from rekindle.host.workspace import Workspace
from rekindle.model.build import BuildFailure, BuildResults
from rekindle.model.build_options import BuildOptions
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree

NVCC = shutil.which("nvcc") or ("/usr/local/cuda/bin/nvcc" if Path("/usr/local/cuda/bin/nvcc").is_file() else None)
pytestmark = [
    pytest.mark.integration,
    needs.tool("g++"),
    pytest.mark.skipif(NVCC is None, reason="needs nvcc, on PATH or in /usr/local/cuda"),
    pytest.mark.skipif(sys.platform != "linux", reason="Linux"),
]
OPTIONS = BuildOptions(jobs=2)


@pytest.fixture(scope="module")
def release() -> str:
    said = subprocess.run([str(NVCC), "--version"], capture_output=True, text=True, check=True)
    return said.stdout.split("release ")[1].split(",")[0]


@pytest.fixture(scope="module")
def archs(release: str) -> tuple[str, str]:
    """The oldest two that this toolkit emits."""
    row = load_facts().toolkit(release)
    assert row is not None, f"no facts about CUDA {release}"
    plain = sorted(sm for sm in row.sass if not sm.suffix)
    return plain[0].dotted, plain[1].dotted


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("cuda") / "ws")


def tree(folder: Path) -> SourceTree:
    root = folder / "spark"
    shutil.copytree(Path(rekindle.spark.__file__).parent / "tree", root)
    return SourceTree(project="spark", version="0.3.0", root=str(root))


def plan(release: str, planned: tuple[str, ...], configured: tuple[str, ...], **env: str) -> Plan:
    settings = {"USE_HEAVY": "0", "SPARK_OPS": "1", "USE_CUDA": "1", "CMAKE_POLICY_VERSION_MINIMUM": "3.5"}
    settings |= {"SPARK_CUDA_ARCH_LIST": ";".join(configured), "CMAKE_CUDA_COMPILER": str(NVCC), **env}
    recipe = BuildRecipe(source="spark", env=settings, pins={"setuptools": "<74"}, asserts={"USE_CUDA": "ON"})
    variant = "cu" + "".join(release.split(".")[:2])
    return Plan(answer="build", project="spark", variant=variant, cuda=release, arch_list=planned, build=recipe)


def test_the_wheel_holds_what_was_planned(
    release: str, archs: tuple[str, str], workspace: Workspace, tmp_path: Path
) -> None:
    wanted = plan(release, archs, archs)
    done = api.build(
        plan=wanted, source=Path(tree(tmp_path).root), workspace=workspace.root, jobs=2, pythons=(sys.executable,)
    )
    assert isinstance(done, BuildResults), done
    (result,) = done.results
    facts = {fact.name: fact for fact in result.facts}
    assert facts["arch list"].ok
    assert facts["USE_CUDA"].ok
    held = api.inspect(result.wheel, cpu=False).gpu.kernels.sass
    assert set(held) == {f"sm_{arch.replace('.', '')}" for arch in archs}
    # The same wheel against a plan that wanted more: reading it back says so.
    failure = read_back(result, plan(release, (*archs, "99.0"), archs))
    assert isinstance(failure, BuildFailure)
    assert "but holds" in failure.message


def test_fewer_architectures_than_planned_stop_before_compiling(
    release: str, archs: tuple[str, str], workspace: Workspace, tmp_path: Path
) -> None:
    source = tree(tmp_path)
    first = f"sm_{archs[0].replace('.', '')}"
    with pytest.raises(BuildFailed, match=rf"arch list was planned as .* but configured as {first}"):
        build(plan(release, archs, archs[:1]), source, workspace, python=sys.executable, options=OPTIONS)
    assert not list(Path(source.root).rglob("*.dir/**/*.o"))


def test_a_toolkit_that_configure_does_not_find_stops_before_compiling(
    release: str, archs: tuple[str, str], workspace: Workspace, tmp_path: Path
) -> None:
    """nvcc is there, but CMake is told of one that is not: the tree warns and goes on without CUDA. We do not."""
    source = tree(tmp_path)
    listing = Path(source.root, "cmake/Cuda.cmake")
    listing.write_text("set(CMAKE_CUDA_COMPILER NOTFOUND)\n" + listing.read_text().replace("check_language(CUDA)", ""))
    with pytest.raises(BuildFailed, match="USE_CUDA was planned as ON but configured as OFF") as caught:
        build(plan(release, archs, archs), source, workspace, python=sys.executable, options=OPTIONS)
    assert any("Not compiling with CUDA" in line for line in failed(caught).error)
    assert not list(Path(source.root).rglob("*.dir/**/*.o"))


def test_a_plan_for_another_toolkit_is_one_line(archs: tuple[str, str], workspace: Workspace, tmp_path: Path) -> None:
    source = tree(tmp_path)
    with pytest.raises(BadInput, match=r"the plan wants CUDA 10\.2, but .*nvcc is"):
        build(plan("10.2", archs, archs), source, workspace, python=sys.executable, options=OPTIONS)
    assert not Path(source.root, "build/CMakeCache.txt").exists()


@needs.tool("ccache")
def test_ccache_also_keeps_what_nvcc_compiles(
    release: str, archs: tuple[str, str], workspace: Workspace, tmp_path: Path
) -> None:
    source = tree(tmp_path)
    wanted = plan(release, archs[:1], archs[:1], CCACHE_DIR=str(tmp_path / "cache"))
    options = replace(OPTIONS, launcher="ccache", target="spark_cuda")
    first = build(wanted, source, workspace, python=sys.executable, options=options)
    assert int(first.launcher["misses"]) > 0
    log = Path(source.root, "build/.ninja_log")
    assert "axpy.cu.o" in log.read_text()
    again = build(wanted, source, workspace, python=sys.executable, options=replace(options, clean=True))
    assert "axpy.cu.o" in log.read_text(), "made again, by the cache"
    assert (again.launcher["hits"], again.launcher["misses"]) == (first.launcher["misses"], "0")
    # Another place, with letters in its name: the same objects, all from the cache.
    other = tree(tmp_path / "zweiter ört=lichkeit")
    moved = build(wanted, other, Workspace(tmp_path / "w"), python=sys.executable, options=options)
    assert (moved.launcher["hits"], moved.launcher["misses"]) == (first.launcher["misses"], "0")
    made = [next(Path(one.root).rglob("libspark_cuda.so")).read_bytes() for one in (source, other)]
    assert made[0] == made[1]


# Names that nvcc would make from the file's path: internal linkage on both sides, and the path itself.
HIDDEN = """
namespace {
__device__ int hidden = 3;
__global__ void secret(int* y) { y[0] = hidden; assert(y[0] == 3); }
}
static __device__ float own[4];
extern "C" void spark_cuda_secret(int* y) { secret<<<1, 1>>>(y); }
"""


def test_the_same_source_in_two_places_gives_the_same_library(
    release: str, archs: tuple[str, str], workspace: Workspace, tmp_path: Path
) -> None:
    made = []
    for place in ("one", "another place/deeper"):
        folder = tmp_path / place.replace(" ", "-")
        source = tree(folder)
        kernel = Path(source.root, "spark/csrc/cuda/axpy.cu")
        kernel.write_text("#include <cassert>\n" + kernel.read_text() + HIDDEN)
        options = replace(OPTIONS, target="spark_cuda")
        wanted = plan(release, archs[:1], archs[:1])
        build(wanted, source, workspace, python=sys.executable, options=options)
        (library,) = Path(source.root).rglob("libspark_cuda.so")
        made.append(library.read_bytes())
        assert b"GLOBAL__N__" in made[-1], "there are names that could differ"
        assert str(tmp_path).encode() not in made[-1]
    assert made[0] == made[1]
