"""The CPU audit on real compilers' output: spark's library with and without an unguarded function.

Every optimisation level, stripped and not, for x86-64 and AArch64: dispatched copies are never an alarm, the
one function compiled with AVX2 (or SVE) for everybody always is.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import needs
import rekindle.spark
from rekindle import api
from rekindle.model.wheel import WheelCpu

pytestmark = pytest.mark.integration
CORE = Path(rekindle.spark.__file__).parent / "tree" / "spark" / "csrc"
CONFIG = "\n".join(
    f'#define {name} "x"'
    for name in (
        "SPARK_VERSION", "SPARK_COMPILER", "SPARK_CXX_FLAGS", "SPARK_BUILD_TYPE", "SPARK_CAPABILITIES",
        "SPARK_BUILD_PYTHON", "SPARK_USE_CUDA",
    )
)  # fmt: skip
X86 = {"DEFAULT": [], "AVX2": ["-mavx2", "-mfma"], "AVX512": ["-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq"]}
ARM = {"ASIMD": [], "SVE": ["-march=armv8-a+sve"]}


def build(folder: Path, compiler: str, copies: dict[str, list[str]], level: str, unguarded: list[str]) -> Path:
    (folder / "spark_config.h").write_text(CONFIG + "\n")
    arm = "SVE" in copies
    defines = ["-DSPARK_ON_ARM", "-DSPARK_HAVE_SVE"] if arm else ["-DSPARK_ON_X86", "-DUSE_DISPATCH"]
    common = [compiler, "-c", "-fPIC", "-fvisibility=hidden", "-std=c++14", level, f"-I{CORE}", f"-I{folder}", *defines]
    objects = []
    for name, flags in copies.items():
        source = folder / f"kernels.cpp.{name}.cpp"
        source.write_text('#include "core/kernels.cpp"\n')
        target = folder / f"{name}.o"
        capability = [f"-DSPARK_CAPABILITY={name}", f'-DSPARK_CAPABILITY_NAME="{name}"']
        # The copies are built with -O3 whatever the rest gets, as spark's CMake does.
        subprocess.run([*common, "-O3", *capability, *flags, str(source), "-o", str(target)], check=True)
        objects.append(str(target))
    for name, flags in (("dispatch", []), ("checksum", unguarded), ("exports", [])):
        target = folder / f"{name}.o"
        subprocess.run([*common, *flags, str(CORE / "core" / f"{name}.cpp"), "-o", str(target)], check=True)
        objects.append(str(target))
    library = folder / "libspark_core.so"
    subprocess.run([compiler, "-shared", "-o", str(library), *objects], check=True)
    return library


def audits(library: Path) -> list[WheelCpu]:
    """The library as linked, and stripped of its symbols."""
    whole = api.inspect(str(library)).cpu
    subprocess.run(["llvm-strip-15", "--strip-all", str(library)], check=True)
    return [whole, api.inspect(str(library)).cpu]


LEVELS = ["-O0", "-O1", "-O2", "-O3"]


@needs.tool("x86_64-linux-gnu-g++", "llvm-strip-15")
@pytest.mark.parametrize("level", LEVELS)
def test_x86_dispatched_copies_are_no_alarm(tmp_path: Path, level: str) -> None:
    for cpu in audits(build(tmp_path, "x86_64-linux-gnu-g++", X86, level, [])):
        assert cpu.unconditional == ()
        assert {"avx", "avx512"} <= {use.isa for use in cpu.dispatched}
        assert cpu.runs_from == "x86-64"


@needs.tool("x86_64-linux-gnu-g++", "llvm-strip-15")
@pytest.mark.parametrize("level", LEVELS)
def test_x86_one_unguarded_function_is_named(tmp_path: Path, level: str) -> None:
    flags = ["-mavx2", "-DSPARK_UNGUARDED_AVX2=1"]
    for cpu in audits(build(tmp_path, "x86_64-linux-gnu-g++", X86, level, flags)):
        names = [name for use in cpu.unconditional for name in use.examples]
        assert "avx2" in {use.isa for use in cpu.unconditional}
        assert any("checksum" in name for name in names)
        assert not any("kernel" in name for name in names)
        assert cpu.runs_from == "x86-64-v3"
        assert "haswell" in cpu.oldest


@needs.tool("aarch64-linux-gnu-g++", "llvm-strip-15")
@pytest.mark.parametrize("level", LEVELS)
def test_arm_dispatched_copies_are_no_alarm(tmp_path: Path, level: str) -> None:
    for cpu in audits(build(tmp_path, "aarch64-linux-gnu-g++", ARM, level, [])):
        assert cpu.unconditional == ()
        assert "sve" in {use.isa for use in cpu.dispatched}
        assert cpu.runs_from == "armv8-a"


@needs.tool("aarch64-linux-gnu-g++", "llvm-strip-15")
def test_arm_one_unguarded_function_is_named(tmp_path: Path) -> None:
    for cpu in audits(build(tmp_path, "aarch64-linux-gnu-g++", ARM, "-O3", ["-march=armv8-a+sve"])):
        assert "sve" in {use.isa for use in cpu.unconditional}
        assert any("checksum" in name for use in cpu.unconditional for name in use.examples)
