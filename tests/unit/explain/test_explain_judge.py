"""The root among consequences and red herrings."""

from __future__ import annotations

import pytest

from rekindle import api
from rekindle.explain.rule import load_files
from samples import load_samples

FAMILY = {rule.id: name for name, file in load_files().items() for rule in file.rule}
PROBE = """\
Performing C++ SOURCE FILE Test HAS_UINT failed with the following output:
/b/CMakeFiles/CMakeTmp/src.cxx:3:1: error: ‘uint8_t’ does not name a type
"""


def ids(text: str) -> list[str]:
    return [match.id for match in api.explain(text).matches]


def test_the_warning_explains_the_error_that_follows() -> None:
    text = (
        "NVIDIA H100 with CUDA capability sm_90 is not compatible with the current PyTorch installation.\n"
        "The current PyTorch install supports CUDA capabilities sm_70 sm_80.\n"
        "RuntimeError: CUDA error: no kernel image is available for execution on the device\n"
    )
    assert ids(text)[0] == "sm-newer-than-wheel"


def test_a_test_of_cmake_is_not_the_failure() -> None:
    assert ids(PROBE)[0] == "cmake-probe-not-an-error"
    real = "/src/gloo/types.h:70:11: error: ‘uint8_t’ does not name a type\n"
    assert ids(PROBE + "-- Configuring done\n" * 8 + real)[0] == "missing-include-new-gcc"


def test_what_the_build_got_past_does_not_matter_any_more() -> None:
    old = "c++: fatal error: Killed signal terminated program cc1plus\n"
    text = old + "Successfully built ext\nSuccessfully installed ext-1.0\nRuntimeError: No CUDA GPUs are available\n"
    assert ids(text)[0] == "cuda-initialization-failed"


def test_a_handled_exception_gives_way() -> None:
    text = (
        "ModuleNotFoundError: No module named 'triton'\n[plugins] import failed, plugin disabled\n"
        + "ok\n" * 20
        + "ImportError: libcudart.so.11.0: cannot open shared object file: No such file or directory\n"
    )
    assert ids(text)[0] == "missing-shared-library-cuda"


def test_the_first_error_of_a_build_comes_first() -> None:
    text = (
        "/t/a.s:1: Error: no such instruction: `vpdpbusd'\n"
        + "x\n" * 50
        + "/s/b.cc:1:1: error: ‘uint8_t’ does not name a type\n"
    )
    assert ids(text)[:2] == ["binutils-too-old", "missing-include-new-gcc"]


def test_a_rule_is_less_certain_outside_its_releases() -> None:
    error = "D:\\pt\\aten\\src\\ATen/cpu/vec/vec_base.h(147): fatal error C1001: Internal compiler error.\n"
    inside = api.explain("Building wheel torch-2.3.0\n" + error).matches
    outside = api.explain("Building wheel torch-1.10.0\n" + error).matches
    grades = ("low", "medium", "high")
    found = {match.id: match.confidence for match in outside}
    assert inside[0].id == "msvc-c1001-vec-base"
    assert grades.index(found["msvc-c1001-vec-base"]) < grades.index(inside[0].confidence)


def test_a_killed_compiler_is_not_a_compiler_bug() -> None:
    text = "c++: internal compiler error: Killed (program cc1plus)\nPlease submit a full bug report,\n"
    assert ids(text)[0] == "oom-killed"


@pytest.mark.parametrize(
    "log",
    [
        "RuntimeError: Caught RuntimeError in DataLoader worker process 0.\nOriginal Traceback:\n{}",
        "torch._inductor.exc.InductorError: SubprocException: An exception occurred in a subprocess:\n\n{}",
        "torch._inductor.exc.CppCompileError: C++ compile error\n\n{}",
        "{}RuntimeError: Failed to import transformers.models.x because of the following error:\nx\n",
        "{}torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \ntrain.py FAILED\n",
    ],
)
def test_an_error_inside_stands_before_what_wraps_it(log: str) -> None:
    inner = "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x3 and 5x6)\n" + "x\n" * 8
    assert ids(log.format(inner))[0] == "wrong-use"


def test_what_triton_says_of_a_kernel_stands_before_that_it_does_not_compile() -> None:
    where = "triton.compiler.errors.CompilationError: at 12:9:\n    offs = tl.arange(0, N)\n           ^\n"
    owners = [
        api.explain(where + why).matches[0].title.partition(":")[0]
        for why in ('ValueError("arange\'s range must be a power of 2")\n', "NameError('x is not defined')\n")
    ]
    assert owners == ["a Triton kernel and its sizes", "a Triton kernel that does not compile"]


def test_hipblaslt_can_be_left_out_whatever_it_answers() -> None:
    for status in ("INVALID_VALUE", "NOT_SUPPORTED", "UNKNOWN"):
        error = f"RuntimeError: CUDA error: HIPBLAS_STATUS_{status} when calling `hipblasLtMatmul( ltHandle )`\n"
        assert "TORCH_BLAS_PREFER_HIPBLASLT=0" in " ".join(api.explain(error).matches[0].fix)


@pytest.mark.parametrize("sample", load_samples(), ids=lambda sample: sample.name)
def test_no_sample_fires_another_familys_certain_rule(sample: object) -> None:
    """Another family may be mentioned, but never as certain and first."""
    matches = api.explain(sample.text).matches  # type: ignore[attr-defined]
    if matches and matches[0].confidence == "high":
        assert FAMILY[matches[0].id] == FAMILY[sample.cause]  # type: ignore[attr-defined]
