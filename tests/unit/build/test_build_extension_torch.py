"""An extension's own words, its torch and the toolkit its CMake wants, at the edges of what is known."""

from __future__ import annotations

import platform
import sys
from pathlib import Path, PurePosixPath
from typing import Any

import pytest

import needs
from bare_host import BareHost
from rekindle.build.companion import (
    find_extension,
    finds_torch,
    package_settings,
    plan_for,
    toolkit_for_cmake,
    with_settings,
)
from rekindle.errors import BadInput
from rekindle.model.build import Fact
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree

FIND = "find_package(Torch REQUIRED)\n"


def plan(**more: Any) -> Plan:
    recipe = BuildRecipe(source="torch", arch_list=more.pop("recipe_archs", ("8.6",)), env=more.pop("env", {}))
    values: dict[str, Any] = {
        "answer": "build", "torch": "2.6.0", "cuda": "12.4", "arch_list": ("8.6",), "build": recipe, **more,
    }  # fmt: skip
    return Plan(**values)


def tree(project: str, version: str = "1.0") -> SourceTree:
    return SourceTree(project=project, version=version, root="/somewhere")


def test_a_name_has_eighty_letters_at_most(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text(f"cpp_extension\nname='{'a' * 90}'\nversion='x1'\n")
    assert find_extension(tmp_path) == ("a" * 80, "0"), "and a version begins with a number"


def test_a_tree_without_a_name_is_called_as_its_folder(tmp_path: Path) -> None:
    root = tmp_path / "My Ops"
    root.mkdir()
    (root / "setup.py").write_text("import cpp_extension")
    assert find_extension(root) == ("my-ops", "0")


def test_what_pyproject_says_counts_after_setup_py(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("name = 'theirs'\nversion = '0.3'\n")
    (tmp_path / "setup.py").write_text("cpp_extension")
    assert find_extension(tmp_path) == ("theirs", "0.3")
    (tmp_path / "setup.py").write_text("cpp_extension\nname='ours', version='0.4'\n__version__ = '0.5'\n")
    assert find_extension(tmp_path) == ("ours", "0.5")


def test_torch_may_be_found_by_a_file_of_cmake_beside_the_first_hundred(tmp_path: Path) -> None:
    assert not finds_torch(tmp_path)
    (tmp_path / "cmake").mkdir()
    for number in range(101):
        (tmp_path / "cmake" / f"{number:03}.cmake").touch()
    (tmp_path / "cmake" / "100.cmake").write_text(FIND)
    assert not finds_torch(tmp_path), "a hundred are read"
    (tmp_path / "cmake" / "099.cmake").write_text(FIND)
    assert finds_torch(tmp_path)


def test_cmake_alone_makes_no_wheel(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text(FIND)
    assert find_extension(tmp_path) is None
    (tmp_path / "setup.py").write_text("name='x'")
    assert find_extension(tmp_path) == ("x", "0")


LINUX = "linux_x86_64"


@pytest.mark.parametrize(
    ("project", "version", "cuda", "rocm", "platform", "told"),
    [
        ("flash-attn", "2.8.3", "12.4", None, LINUX, {"FLASH_ATTENTION_FORCE_BUILD", "FLASH_ATTN_CUDA_ARCHS"}),
        ("flash-attn", "2.8.3", None, None, LINUX, set()),
        ("flash-attn", "2.6.0", None, "6.2", LINUX, {"FLASH_ATTENTION_FORCE_BUILD"}),
        ("flash-attn", "2.6.0", None, "6.2", "windows", set()),
        ("flash-attn", "2.5.9", None, "6.2", LINUX, set()),
        ("flash-attn", "0", None, "6.2", "windows", {"FLASH_ATTENTION_TRITON_AMD_ENABLE"}),
        ("torch-scatter", "2.1.2", "12.4", None, LINUX, set()),
        ("xformers", "0.0.30", "12.4", None, LINUX, {"XFORMERS_BUILD_TYPE"}),
        ("xformers", "0.0.30", "12.4", None, "macos_arm64", set()),
    ],
)
def test_words_of_a_known_package_are_for_its_cards_platform_and_releases(
    project: str, version: str, cuda: str | None, rocm: str | None, platform: str, told: set[str]
) -> None:
    env, _ = package_settings(project, version, plan(cuda=cuda, rocm=rocm), platform)
    assert set(env) == told, "what all understand (FORCE_CUDA) is told anyway"


def test_what_a_build_makes_of_a_card_is_asked_only_where_there_are_cards() -> None:
    assert package_settings("flash-attn", "2.8.3", plan(), LINUX)[1] == ("8.0",)
    rocm = plan(cuda=None, rocm="6.2", arch_list=("gfx90a",))
    assert package_settings("flash-attn", "2.8.3", rocm, LINUX)[1] == ("gfx90a",)
    assert package_settings("torch-scatter", "2.1.2", plan(), LINUX)[1] == ("8.6",), "it takes any"


def recipe_of(made: Plan) -> BuildRecipe:
    assert made.build is not None
    return made.build


@pytest.mark.parametrize(
    ("system", "machine", "told"),
    [
        ("linux", "x86_64", True), ("linux", "aarch64", True), ("linux", "arm64", True), ("win32", "AMD64", False),
    ],
)  # fmt: skip
def test_the_words_are_for_the_machine_that_builds(
    system: str, machine: str, told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    env = recipe_of(plan_for(plan(), tree("mamba-ssm", "2.3.1"))).env
    assert ("MAMBA_FORCE_BUILD" in env) is told, "it has rows for Linux alone"
    rocm = plan(cuda=None, rocm="6.2", arch_list=("gfx90a",))
    env = recipe_of(plan_for(rocm, tree("flash-attn", "2.6.0"))).env
    assert ("FLASH_ATTENTION_FORCE_BUILD" in env) is (machine == "x86_64"), "one for x86 alone"


def test_a_wheel_holds_what_the_recipe_asks_for() -> None:
    assert recipe_of(plan_for(plan(), tree("flash-attn", "2.8.3"))).arch_list == ("8.0",)
    assert recipe_of(plan_for(plan(recipe_archs=()), tree("flash-attn", "2.8.3"))).arch_list == ()


@pytest.mark.parametrize(("torch", "off"), [("2.6.0+cu124", True), (None, True), ("1.4.0", False)])
def test_what_would_be_downloaded_is_switched_off_for_releases_that_know_the_switch(
    torch: str | None, off: bool
) -> None:
    env = recipe_of(plan_for(plan(torch=torch), tree("torchaudio", "unknown"))).env
    assert (env.get("BUILD_SOX") == "0") is off
    assert env.get("PYTORCH_VERSION") == (torch.split("+")[0] if torch else None)


def test_settings_by_hand_win_over_asserts_and_change_nothing_else() -> None:
    recipe = BuildRecipe(source="x", env={"USE_CUDA": "1"}, asserts={"USE_CUDA": "ON", "USE_MKL": "ON"})
    made = Plan(answer="build", build=recipe)
    by_hand = recipe_of(with_settings(made, {"USE_CUDA": "0", "BLAS": "MKL"}))
    assert by_hand.env == {"USE_CUDA": "0", "BLAS": "MKL"} and by_hand.asserts == {"USE_MKL": "ON"}
    assert with_settings(made, {}) is made
    nothing = Plan(answer="install")
    assert with_settings(nothing, {"USE_CUDA": "0"}) is nothing


class WithCuda(BareHost):
    """A toolkit in its usual place, with these of its libraries."""

    def __init__(self, *libraries: str) -> None:
        super().__init__()
        home = "/usr/local/cuda"
        self.files = (f"{home}/bin/nvcc", f"{home}/include/cuda_runtime.h", *(f"{home}/{each}" for each in libraries))

    def which(self, name: str) -> str | None:
        return self.files[0] if name == "nvcc" else None

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(name for name in self.files if PurePosixPath(name).match(pattern))


def asked(tmp_path: Path, host: BareHost, found: str = "2.6.0+cu124 (CUDA 12.4)", **more: Any) -> str | None:
    (tmp_path / "CMakeLists.txt").write_text(FIND)
    fact = Fact(name="torch", wanted="any", found=found)
    return toolkit_for_cmake(host, plan(**{"cuda": None, "project": "ours", **more}), fact, tmp_path)


@needs.posix()
def test_a_whole_toolkit_is_named_to_cmake(tmp_path: Path) -> None:
    whole = WithCuda("lib64/libcudart.so.12", "lib64/libcublas.so.12")
    assert asked(tmp_path, whole) == "/usr/local/cuda"
    (tmp_path / "setup.py").write_text("cpp_extension")
    assert asked(tmp_path, whole) is None, "its CMake files are not read"


@needs.posix()
@pytest.mark.parametrize("libraries", [(), ("lib64/libcudart.so.12",), ("lib64/libcublas.so.12",)])
def test_without_a_whole_toolkit_the_way_on_is_a_torch_without_cuda(libraries: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"those of torch 2.6.0\+cu124 \(CUDA 12.4\) stop where there is") as refused:
        asked(tmp_path, WithCuda(*libraries))
    line = (refused.value.remedy or "").partition("or: ")[2]
    index = "PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu"
    assert line == f"{index} rekindle build --source {tmp_path} --against torch==2.6.0+cpu"


@needs.posix()
def test_the_way_on_names_the_release_that_is_there(tmp_path: Path) -> None:
    """A plan may leave it open; and of a release without an index none is named."""
    for release, kind, line in (
        ("2.7.1", " (CUDA 12.8)", "PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu rekindle build"),
        ("99.0", "+cu999 (CUDA 99.9)", "rekindle build"),
    ):
        with pytest.raises(BadInput) as refused:
            asked(tmp_path, BareHost(), release + kind, torch=None)
        told = (refused.value.remedy or "").partition("or: ")[2]
        assert told == f"{line} --source {tmp_path} --against torch=={release}+cpu"
