"""What configure is told of the GPU toolkit: which CUDA of several, where ROCm's parts lie, what is lacking."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

import pytest

import needs
from bare_host import BareHost
from rekindle.build.environment import chosen_cuda, headers_beside_torch, toolkit_places
from rekindle.host.protocol import Completed
from rekindle.model.plan import BuildRecipe, Plan

pytestmark = needs.posix()
CUDA = Plan(answer="build", torch="2.6.0", cuda="12.4", build=BuildRecipe(source="torch"))
ROCM = Plan(answer="build", torch="2.6.0", rocm="6.2", build=BuildRecipe(source="torch"))
CPU = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="torch"))


class Machine(BareHost):
    """One with these files; an nvcc below cuda-N says N. ``says`` is what any other program answers."""

    def __init__(self, *files: str, env: Mapping[str, str] | None = None, says: str | None = None) -> None:
        super().__init__(env=env)
        self.files, self.says = files, says
        self.asked: list[tuple[str, ...]] = []

    def which(self, name: str) -> str | None:
        return next((path for path in self.files if PurePosixPath(path).name == name), None)

    def glob(self, pattern: str) -> tuple[str, ...]:
        folders = {str(parent) for name in self.files for parent in PurePosixPath(name).parents}
        return tuple(name for name in (*self.files, *sorted(folders)) if PurePosixPath(name).match(pattern))

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        self.asked.append(tuple(argv))
        home = PurePosixPath(argv[0]).parent.parent.name
        if "--version" in argv and home.startswith("cuda-"):
            return Completed(argv=tuple(argv), code=0, out=f"Cuda compilation tools, release {home[5:]}, V1.2.3")
        return Completed(argv=tuple(argv), code=None if self.says is None else 0, out=self.says or "")


def cuda(release: str) -> tuple[str, str]:
    home = f"/usr/local/cuda-{release}"
    return f"{home}/bin/nvcc", f"{home}/include/cuda_runtime.h"


ONE, TWO = cuda("12.4"), (*cuda("12.8"), *cuda("12.4"))
HOME = "/usr/local/cuda-12.4"
TOLD = {"CUDA_HOME": HOME, "CUDA_PATH": HOME, "CUDAToolkit_ROOT": HOME, "CUDACXX": f"{HOME}/bin/nvcc"}


def test_of_two_toolkits_the_planned_one_is_named_by_every_name() -> None:
    assert chosen_cuda(Machine(*TWO), CUDA, {}) == TOLD


def test_the_only_toolkit_is_found_without_being_named() -> None:
    assert chosen_cuda(Machine(*ONE), CUDA, {}) == {}
    assert chosen_cuda(Machine(), CUDA, {}) == {}
    assert chosen_cuda(Machine(*TWO), CPU, {"CUDA_HOME": HOME}) == {}, "a build without CUDA is told nothing of it"


@pytest.mark.parametrize("name", ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"])
def test_a_toolkit_that_the_plan_names_is_named_by_the_other_names_too(name: str) -> None:
    assert chosen_cuda(Machine(*ONE), CUDA, {name: HOME}) == {key: it for key, it in TOLD.items() if key != name}
    assert chosen_cuda(Machine(*ONE), CUDA, {name: ""}) == {}, "an empty name is none"


def test_a_compiler_that_the_plan_names_decides() -> None:
    other = {"CMAKE_CUDA_COMPILER": "/usr/local/cuda-12.8/bin/nvcc"}
    told = chosen_cuda(Machine(*TWO), CUDA, other)
    assert told == dict.fromkeys(("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"), "/usr/local/cuda-12.8")
    assert "CUDACXX" not in chosen_cuda(Machine(*TWO), CUDA, {"CUDACXX": f"{HOME}/bin/nvcc"}), "it is set already"


def test_a_folder_without_headers_is_named_by_nothing() -> None:
    assert chosen_cuda(Machine(ONE[0], TWO[0]), CUDA, {}) == {"CUDACXX": ONE[0]}


HIP = ("/opt/rocm/bin/hipcc", "/opt/rocm/llvm/bin/clang++", "/opt/rocm/lib/cmake/hip/FindHIP.cmake")
DEBIAN = ("/usr/bin/hipcc", "/usr/lib/x86_64-linux-gnu/cmake/hip/FindHIP.cmake", "/usr/lib/llvm-17/bin/clang++")


def test_amds_own_rocm_is_named_by_its_place_alone() -> None:
    assert toolkit_places(Machine(*HIP), ROCM, {}) == {"ROCM_PATH": "/opt/rocm"}
    assert toolkit_places(Machine(*HIP), ROCM, {"ROCM_PATH": "/opt/rocm"}) == {}


def test_debians_rocm_is_named_with_its_module_and_its_clang() -> None:
    machine = Machine(*DEBIAN, says="/usr/lib/llvm-17/bin\n")
    assert toolkit_places(machine, ROCM, {}) == {
        "ROCM_PATH": "/usr",
        "CMAKE_MODULE_PATH": "/usr/lib/x86_64-linux-gnu/cmake/hip",
        "HIP_CLANG_PATH": "/usr/lib/llvm-17/bin",
    }
    assert ("/usr/bin/hipconfig", "--hipclangpath") in machine.asked


def test_what_the_plan_or_the_shell_says_of_rocm_stays() -> None:
    settings = {"ROCM_PATH": "/usr", "CMAKE_MODULE_PATH": "/mine", "HIP_CLANG_PATH": "/mine"}
    assert toolkit_places(Machine(*DEBIAN, says="/usr/lib/llvm-17/bin"), ROCM, settings) == {}
    shell = Machine(*DEBIAN, env={"HIP_CLANG_PATH": "/shell"}, says="/usr/lib/llvm-17/bin")
    assert toolkit_places(shell, ROCM, {})["HIP_CLANG_PATH"] == "/shell"


def test_a_module_in_its_usual_place_is_not_named_beside_a_deeper_one() -> None:
    deeper = "/opt/rocm/lib64/cmake/hip/FindHIP.cmake"
    assert toolkit_places(Machine(*HIP, deeper), ROCM, {}) == {"ROCM_PATH": "/opt/rocm"}
    told = toolkit_places(Machine(*HIP[:2], deeper), ROCM, {})
    assert told == {"ROCM_PATH": "/opt/rocm", "CMAKE_MODULE_PATH": "/opt/rocm/lib64/cmake/hip"}


def test_without_rocm_or_a_plan_for_it_nothing_is_said_of_it() -> None:
    assert toolkit_places(Machine(), ROCM, {}) == {}
    assert toolkit_places(Machine(*HIP), CUDA, {}) == {}


WHOLE = tuple(f"{HOME}/include/{name}" for name in ("cublas_v2.h", "cublasLt.h", "cusparse.h", "cusolverDn.h"))


def test_headers_that_the_toolkit_lacks_come_from_the_packages_beside_torch() -> None:
    folders = ["/env/nvidia/cublas/include", "/env/nvidia/cusparse/include"]
    machine = Machine(*WHOLE[3:], says=json.dumps(folders))
    assert headers_beside_torch(machine, "/env/bin/python", HOME) == tuple(folders)
    [asked] = machine.asked
    assert asked[0] == "/env/bin/python" and asked[-3:] == ("cublas_v2.h", "cublasLt.h", "cusparse.h")


def test_a_whole_toolkit_needs_no_headers_from_elsewhere() -> None:
    machine = Machine(*WHOLE, says='["/env/nvidia/cublas/include"]')
    assert headers_beside_torch(machine, "/env/bin/python", HOME) == () and machine.asked == []


def test_a_python_that_does_not_answer_has_no_headers() -> None:
    assert headers_beside_torch(Machine(), "/env/bin/python", HOME) == ()
