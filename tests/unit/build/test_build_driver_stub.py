"""Where configure finds libcuda by itself, and where it must be told."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest

import needs
from bare_host import BareHost
from rekindle.build.environment import driver_stub
from rekindle.model.plan import BuildRecipe, Plan

PLAN = Plan(answer="build", torch="1.13.1", cuda="11.8", build=BuildRecipe(source="torch"))
DEBIAN = ("/usr/bin/nvcc", "/usr/include/cuda_runtime.h", "/usr/lib/x86_64-linux-gnu/stubs/libcuda.so")
NVIDIA = ("/usr/local/cuda/bin/nvcc", "/usr/local/cuda/include/cuda_runtime.h")


class Machine(BareHost):
    def __init__(self, *files: str) -> None:
        super().__init__()
        self.files = files

    def which(self, name: str) -> str | None:
        return next((path for path in self.files if Path(path).name == name), None)

    def glob(self, pattern: str) -> tuple[str, ...]:
        """As the file system does it: a star stays within one folder."""
        return tuple(name for name in self.files if PurePosixPath(name).match(pattern))


@needs.posix()
def test_debians_stub_is_told() -> None:
    assert driver_stub(Machine(*DEBIAN), PLAN, {}) == {"CUDA_CUDA_LIB": DEBIAN[2]}


@pytest.mark.parametrize(
    "there", ["/usr/lib/x86_64-linux-gnu/libcuda.so", "/usr/lib64/libcuda.so", "/usr/lib/libcuda.so"]
)
def test_a_driver_with_its_link_is_found_by_itself(there: str) -> None:
    assert driver_stub(Machine(*DEBIAN, there), PLAN, {}) == {}


@pytest.mark.parametrize("place", ["lib64/stubs", "lib/stubs", "lib64", "lib"])
@needs.posix()
def test_so_is_the_stub_of_nvidias_own_toolkit(place: str) -> None:
    hidden = "/usr/local/cuda/targets/x86_64-linux/lib/stubs/libcuda.so"
    assert driver_stub(Machine(*NVIDIA, hidden, f"/usr/local/cuda/{place}/libcuda.so"), PLAN, {}) == {}
    assert driver_stub(Machine(*NVIDIA, hidden), PLAN, {}) == {"CUDA_CUDA_LIB": hidden}


@pytest.mark.parametrize("name", ["CUDA_CUDA_LIB", "CMAKE_LIBRARY_PATH"])
def test_what_was_said_by_hand_stays(name: str) -> None:
    assert driver_stub(Machine(*DEBIAN), PLAN, {name: "/mine"}) == {}


def test_nothing_is_told_where_there_is_nothing() -> None:
    assert driver_stub(Machine(*DEBIAN[:2]), PLAN, {}) == {}
    assert driver_stub(Machine(DEBIAN[2]), PLAN, {}) == {}, "no toolkit"
    cpu = Plan(answer="build", torch="1.13.1", build=BuildRecipe(source="torch"))
    assert driver_stub(Machine(*DEBIAN), cpu, {}) == {}
