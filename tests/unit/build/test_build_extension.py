"""Trees that compile against torch are known by what they say, and get the plan in their own words."""

from pathlib import Path

import pytest

from rekindle.build.companion import Torch, find_extension, package_settings, plan_for, torch_in
from rekindle.build.request import project_of, version_of
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree, compiles_against_torch
from rekindle.readiness.case import wheel_name

SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
__version__ = '2.1.2'
setup(name='torch_scatter', version=__version__, ext_modules=[CUDAExtension('a', ['a.cu'])])
"""


def plan(**changes: object) -> Plan:
    recipe = BuildRecipe(
        source="torch",
        env={"CC": "gcc-12", "USE_CUDA": "1", "BLAS": "OpenBLAS", "TORCH_CUDA_ARCH_LIST": "7.5;8.6"},
        pins={"numpy": ">=1.26", "pyyaml": ""},
        arch_list=("7.5", "8.6"),
    )
    told = {"answer": "build", "torch": "2.6.0", "cuda": "12.4", "arch_list": ("7.5", "8.6"), "build": recipe}
    return Plan(**{**told, **changes})  # type: ignore[arg-type]


def tree(project: str, version: str = "1.0") -> SourceTree:
    return SourceTree(project=project, version=version, root="/somewhere")


def test_known_by_setup_py(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text(SETUP, encoding="utf-8")
    assert find_extension(tmp_path) == ("torch-scatter", "2.1.2")
    assert (project_of(tmp_path), version_of(tmp_path)) == ("torch-scatter", "2.1.2")


def test_pkg_info_counts_more_than_setup_py(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text(SETUP, encoding="utf-8")
    (tmp_path / "PKG-INFO").write_text(
        "Metadata-Version: 2.1\r\nName: Other_Name\r\nVersion: 9.1\r\n", encoding="utf-8"
    )
    assert find_extension(tmp_path) == ("other-name", "9.1")


def test_known_by_cmake(tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("project(x)\nfind_package( Torch REQUIRED)\n", encoding="utf-8")
    assert find_extension(tmp_path) is None  # nothing makes a wheel of it
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "x"\nversion = "0.3"\n', encoding="utf-8")
    assert find_extension(tmp_path) == ("x", "0.3")


def test_what_does_not_compile_against_torch_is_refused_with_a_way_on(tmp_path: Path) -> None:
    (tmp_path / "setup.py").write_text("from setuptools import setup\nsetup(name='x')\n", encoding="utf-8")
    assert find_extension(tmp_path) is None
    with pytest.raises(BadInput, match="nothing in it compiles against torch") as refused:
        project_of(tmp_path)
    assert "cpp_extension" in (refused.value.remedy or "")


def test_a_strangers_extension_gets_what_all_understand() -> None:
    said = plan_for(plan(), tree("anybodys"))
    assert said.project == "anybodys"
    assert said.build is not None
    assert said.build.env["FORCE_CUDA"] == "1"
    assert said.build.env["TORCH_CUDA_ARCH_LIST"] == "7.5;8.6"
    assert said.build.env["CC"] == "gcc-12"
    assert "USE_CUDA" not in said.build.env
    assert "pyyaml" not in said.build.pins
    cpu = plan_for(plan(cuda=None, arch_list=()), tree("anybodys"))
    assert cpu.build is not None
    assert cpu.build.env["FORCE_CUDA"] == "0"


@pytest.mark.parametrize(
    ("archs", "wanted"), [(("8.6",), "80"), (("8.9", "9.0"), "80;90"), (("12.0",), "120"), (("8.0", "8.6"), "80")]
)
def test_flash_attn_is_told_in_its_own_words(archs: tuple[str, ...], wanted: str) -> None:
    env, built = package_settings("flash-attn", "2.8.3.post2", plan(arch_list=archs), "linux_x86_64")
    assert env == {"FLASH_ATTENTION_FORCE_BUILD": "TRUE", "FLASH_ATTN_CUDA_ARCHS": wanted}
    # What the wheel is read back against is what its build can make.
    assert [arch.replace(".", "") for arch in built] == wanted.split(";")


def test_settings_of_another_version_or_platform_are_not_taken() -> None:
    nothing: tuple[dict[str, str], tuple[str, ...]] = ({}, ("7.5", "8.6"))
    assert package_settings("flash-attn", "9.9", plan(), "linux_x86_64") == nothing
    assert package_settings("anybodys", "1.0", plan(), "linux_x86_64") == nothing
    assert package_settings("flash-attn", "1.0.9", plan(), "linux_x86_64") == ({}, ("7.5", "8.0"))


@pytest.mark.parametrize(
    ("against", "wanted"),
    [
        (None, Torch()),
        ("torch==2.6.0", Torch("2.6.0")),
        ("torch==2.6.0+cu124", Torch("2.6.0", "cu124")),
        ("/a b/torch-2.13.0+cpu-cp311-cp311-linux_x86_64.whl", Torch("2.13.0", "cpu", "3.11")),
        ("torch-2.6.0+rekindle.cpu-cp39-cp39-linux_x86_64.whl", Torch("2.6.0", None, "3.9")),
        ("odd.whl", Torch()),
    ],
)
def test_the_torch_it_is_compiled_against(against: str | None, wanted: Torch) -> None:
    assert torch_in(against) == wanted


def test_torch_itself_is_no_extension() -> None:
    assert not compiles_against_torch("torch")
    assert compiles_against_torch("torch-scatter")
    assert plan_for(plan(), tree("torch")) == plan()


def test_the_wheel_of_a_name_with_dashes() -> None:
    said = plan_for(plan(), tree("torch-scatter", "2.1.2"))
    name = wheel_name(said, tree("torch-scatter", "2.1.2"), "cp311", LiveHost())
    assert name is not None
    assert name.startswith("torch_scatter-2.1.2+rekindle.cu124.sm75.sm86-cp311-cp311-")
