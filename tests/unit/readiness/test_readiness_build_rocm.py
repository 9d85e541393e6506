"""A ROCm build before it starts: the tree's own demands against the machine, the tree itself, where configure looks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path

import msgspec
import pytest

import needs
from bare_host import BareHost
from rekindle.build.environment import toolkit_places
from rekindle.errors import BadInput
from rekindle.host.protocol import Completed, Host
from rekindle.model.machine import Check
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree
from rekindle.readiness.case import PlannedBuild
from rekindle.readiness.rocm import refuse_cuda_tree, rocm_for_build

LOAD = """
find_package_and_print_version(HIP 1.0 MODULE REQUIRED)
  find_package_and_print_version(hip REQUIRED CONFIG)
  find_package_and_print_version(miopen REQUIRED)
  find_package_and_print_version(rccl)
  find_package_and_print_version(hsa-runtime64 REQUIRED)
"""
DEBIAN = "/usr/lib/x86_64-linux-gnu/cmake"
ROCTX = "/usr/lib/x86_64-linux-gnu/libroctx64.so"


class Machine(BareHost):
    """A machine with these files, and the programs among them on its path."""

    def __init__(self, files: Mapping[str, str], env: Mapping[str, str] | None = None) -> None:
        super().__init__(env=env)
        self.files = files

    def which(self, name: str) -> str | None:
        return next((path for path in self.files if Path(path).name == name), None)

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        if argv[0] in self.files and argv[1:] == ["--hipclangpath"]:
            return Completed(argv=tuple(argv), code=0, out=self.files[argv[0]])
        return Completed(argv=tuple(argv), code=None)

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(name for name in self.files if fnmatch(name, pattern))

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        return self.files[path].encode() if path in self.files else None


def machine(*packages: str, hipcc: str = "/usr/bin/hipcc", more: Mapping[str, str] | None = None) -> Machine:
    configs = {f"{DEBIAN}/{name}/{name}-config.cmake": "" for name in packages if name != "roctx"}
    library = {ROCTX: ""} if "roctx" in packages else {}
    return Machine({"/t/cmake/public/LoadHIP.cmake": LOAD, hipcc: "", **configs, **library, **(more or {})})


def plan(**env: str) -> Plan:
    return Plan(answer="build", torch="2.6.0", rocm="6.4", build=BuildRecipe(source="torch", env=env))


TREE = SourceTree(project="torch", version="2.6.0", root="/t", hipified=True)


def check_rocm(host: Host, plan: Plan, tree: SourceTree | None) -> Iterator[Check]:
    return rocm_for_build(host, PlannedBuild(plan=plan, python="", place=Path(), tree=tree))


@needs.posix()
def test_only_what_the_tree_demands_is_asked_for() -> None:
    with pytest.raises(BadInput, match="will demand hip, miopen, hsa-runtime64, not found"):
        list(check_rocm(machine("roctx"), plan(), TREE))
    assert list(check_rocm(machine(), plan(), msgspec.structs.replace(TREE, root="/elsewhere"))) == []


@needs.posix()
def test_all_there() -> None:
    (check,) = check_rocm(machine("hip", "miopen", "hsa-runtime64", "roctx"), plan(), TREE)
    assert check.status == "ok" and check.found == "4 demanded, all below /usr"


@needs.posix()
def test_what_lacks_is_named_with_its_packages() -> None:
    host = machine("hip", "roctx", more={"/usr/bin/apt-get": ""})
    with pytest.raises(BadInput, match="the build will demand miopen, hsa-runtime64, not found below /usr") as caught:
        list(check_rocm(host, plan(), TREE))
    assert (caught.value.remedy or "").endswith("libmiopen-dev libhsa-runtime-dev")


@needs.posix()
def test_what_lacks_is_named_as_it_is_where_no_manager_is_known() -> None:
    with pytest.raises(BadInput) as caught:
        list(check_rocm(machine("hip", "roctx"), plan(), TREE))
    assert caught.value.remedy == "install the development packages of miopen, hsa-runtime64"


def test_the_other_spelling_of_a_config_counts() -> None:
    files = {f"{DEBIAN}/miopen/miopenConfig.cmake": ""}
    assert list(check_rocm(machine("hip", "hsa-runtime64", "roctx", more=files), plan(), TREE))


@needs.posix()
def test_what_is_linked_without_being_demanded_is_asked_for_too() -> None:
    lacks = machine("hip", "miopen", "hsa-runtime64", more={"/usr/bin/apt-get": ""})
    with pytest.raises(BadInput, match=r"will demand roctx \(libroctx64\), not found below /usr") as caught:
        list(check_rocm(lacks, plan(), TREE))
    assert (caught.value.remedy or "").endswith(" libroctx-dev")
    assert list(check_rocm(machine("hip", "miopen", "hsa-runtime64", more={ROCTX: ""}), plan(), TREE))
    runtime = machine("hip", "miopen", "hsa-runtime64", more={f"{ROCTX}.4": ""})
    with pytest.raises(BadInput):  # the library alone, without its development files, cannot be linked
        list(check_rocm(runtime, plan(), TREE))
    bare = machine("hip", "miopen", "hsa-runtime64")
    assert list(check_rocm(bare, plan(), msgspec.structs.replace(TREE, version="1.12.1"))), "no row speaks of it"


AMD = {f"/opt/rocm/lib/cmake/{name}/{name}-config.cmake": "" for name in ("hip", "hsa-runtime64")}


@pytest.mark.parametrize("place", ["lib", "roctracer/lib", None])
@needs.posix()
def test_amds_own_rocm_is_looked_through_and_told_amds_own_packages(place: str | None) -> None:
    there = {f"/opt/rocm/{place}/libroctx64.so": "", "/opt/rocm/lib/cmake/miopen/miopen-config.cmake": ""}
    host = machine(hipcc="/opt/rocm/bin/hipcc", more={**AMD, **(there if place else {}), "/usr/bin/apt-get": ""})
    if place:
        (check,) = check_rocm(host, plan(), TREE)
        assert check.found == "4 demanded, all below /opt/rocm"
        return
    with pytest.raises(BadInput, match=r"will demand miopen, roctx \(libroctx64\)") as caught:
        list(check_rocm(host, plan(), TREE))
    assert (caught.value.remedy or "").endswith(" miopen-hip-dev roctracer-dev")


def test_a_place_that_the_plan_names_counts() -> None:
    host = machine("hip", "miopen", "hsa-runtime64", more={"/mine/lib/libroctx64.so": ""})
    assert list(check_rocm(host, plan(CMAKE_PREFIX_PATH="/other;/mine"), TREE))
    with pytest.raises(BadInput, match="roctx"):
        list(check_rocm(host, plan(CMAKE_PREFIX_PATH="/other"), TREE))


def test_nothing_is_asked_of_other_builds() -> None:
    cuda = Plan(answer="build", torch="2.6.0", cuda="12.4", build=BuildRecipe(source="torch"))
    vision = Plan(answer="build", torch="2.6.0", rocm="6.4", project="torchvision", build=BuildRecipe(source="v"))
    assert not list(check_rocm(machine(), cuda, TREE)) and not list(check_rocm(machine(), vision, TREE))
    assert not list(check_rocm(machine(), plan(), None)), "before there is a tree nobody knows what it demands"


def test_a_tree_that_is_not_hipified_is_refused_with_the_line_that_does_it() -> None:
    refuse_cuda_tree(plan(), TREE)
    bare = SourceTree(project="torch", version="2.6.0", root="/t")
    with pytest.raises(BadInput, match="CUDA tree") as caught:
        refuse_cuda_tree(plan(), bare)
    assert caught.value.remedy == "rekindle source hipify /t"
    refuse_cuda_tree(Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="torch")), bare)


@needs.posix()
def test_configure_is_told_where_the_found_rocm_lies() -> None:
    assert toolkit_places(machine(), plan(), {}) == {"ROCM_PATH": "/usr"}
    assert toolkit_places(machine(hipcc="/opt/rocm/bin/hipcc"), plan(), {}) == {"ROCM_PATH": "/opt/rocm"}
    assert toolkit_places(machine(), plan(), {"ROCM_PATH": "/usr"}) == {}, "what the plan says stays"
    assert toolkit_places(machine(hipcc="/nowhere"), plan(), {}) == {}
    cpu = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="torch"))
    assert toolkit_places(machine(), cpu, {}) == {}


@needs.posix()
def test_hips_module_is_told_where_configure_would_not_look() -> None:
    debian = {f"{DEBIAN}/hip/FindHIP.cmake": ""}
    told = {"ROCM_PATH": "/usr", "CMAKE_MODULE_PATH": f"{DEBIAN}/hip"}
    assert toolkit_places(machine(more=debian), plan(), {}) == told
    assert toolkit_places(machine(more={"/usr/lib64/cmake/hip/FindHIP.cmake": ""}), plan(), {}) == {
        "ROCM_PATH": "/usr", "CMAKE_MODULE_PATH": "/usr/lib64/cmake/hip"
    }  # fmt: skip
    both = debian | {"/usr/lib/cmake/hip/FindHIP.cmake": ""}
    assert toolkit_places(machine(more=both), plan(), {}) == {"ROCM_PATH": "/usr"}, "it is found by itself"
    assert toolkit_places(machine(more=debian), plan(), {"CMAKE_MODULE_PATH": "/mine"}) == {"ROCM_PATH": "/usr"}


CLANG = {"/usr/bin/hipconfig": "/usr/lib/llvm-21/bin", "/usr/lib/llvm-21/bin/clang++": ""}


@needs.posix()
def test_hips_clang_is_told_where_it_is_not_below_rocm() -> None:
    told = {"ROCM_PATH": "/usr", "HIP_CLANG_PATH": "/usr/lib/llvm-21/bin"}
    assert toolkit_places(machine(more=CLANG), plan(), {}) == told
    amds = {**CLANG, "/usr/llvm/bin/clang++": ""}
    assert toolkit_places(machine(more=amds), plan(), {}) == {"ROCM_PATH": "/usr"}, "FindHIP takes that one by itself"
    assert toolkit_places(machine(more=CLANG), plan(), {"HIP_CLANG_PATH": "/mine"}) == {"ROCM_PATH": "/usr"}


@pytest.mark.parametrize("said", ["", "/gone/bin"])
@needs.posix()
def test_a_clang_that_is_not_there_is_not_told(said: str) -> None:
    files = {**CLANG, "/usr/bin/hipconfig": said}
    assert toolkit_places(machine(more=files), plan(), {}) == {"ROCM_PATH": "/usr"}


def test_the_clang_of_the_shell_is_handed_on() -> None:
    host = machine(more=CLANG)
    mine = Machine(host.files, env={"HIP_CLANG_PATH": "/mine/bin"})
    assert toolkit_places(mine, plan(), {})["HIP_CLANG_PATH"] == "/mine/bin"
