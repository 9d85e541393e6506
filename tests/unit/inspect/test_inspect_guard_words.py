"""The words that spare a guard's patterns: whatever a pattern matches has one of them in it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rekindle.formats.functions import SYMBOL, Functions
from rekindle.inspect.guards import Guard, has_one, load_guards

ASCII = st.characters(min_codepoint=32, max_codepoint=126)
GUARDED = [
    pytest.param(guard, pattern, id=f"{guard.id}-{kind}")
    for guard in load_guards().rows
    for kind, pattern in (("name", guard.name), ("file", guard.file))
    if guard.words and pattern is not None
]


@pytest.mark.parametrize(("guard", "pattern"), GUARDED)
def test_what_a_pattern_matches_has_one_of_the_guards_words(guard: Guard, pattern: re.Pattern[str]) -> None:
    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.from_regex(pattern, alphabet=ASCII))
    def holds(text: str) -> None:
        assert has_one(text.lower(), guard.words), text

    holds()


@pytest.mark.parametrize(
    ("name", "file", "guard"),
    [
        ("dot_product.avx2", "", "target-clones"),
        ("mkl_blas_dgemm", "", "mkl"),
        ("_mkl_serv", "", "mkl"),
        ("plain", "dft_kernel.c", "mkl"),
        ("Sleef_sinf8_u10", "", "sleef"),
        ("xnn_f32_gemm", "", "xnnpack"),
        ("_ZNK5arrow5acero18BlockedBloomFilter9Find_avx2EPKj", "", "arrow"),
        ("_ZN4dnnl4impl3cpuE", "", "onednn"),
        ("__aarch64_cas4_acq", "", "outline-atomics"),
        ("sgemm_kernel_HASWELL", "", "openblas"),
        ("plain", "QuantUtilsAvx2.cc", "fbgemm"),
        ("sha256_shani", "", "named"),
        ("find_sse2", "", "named"),
        ("_ZN3foo9simdlevelE3EvE", "", "named"),
        ("std_shared_ptr_assert", "", None),
        ("isa_of_simd_cpu", "", None),
    ],
)
def test_a_name_finds_its_guard(name: str, file: str, guard: str | None) -> None:
    found = load_guards().find(name, file)
    assert (found.id if found else None) == guard


@pytest.mark.parametrize("length", [0, 1, 255, 256, 257, 4095, 4096])
def test_a_name_of_any_length_is_read_to_its_end(length: int) -> None:
    """Names are read in two helpings; what ends at the edge of the first is whole."""
    strings = b"\0" + b"n" * length + b"\0next\0"
    assert _functions(strings).name(0) == ("n" * length or "function at 0x1000")


def test_a_name_that_never_ends_stops_at_the_table_or_at_4096_bytes() -> None:
    assert _functions(b"\0" + b"n" * 300).name(0) == "n" * 300
    assert _functions(b"\0" + b"n" * 5000 + b"\0").name(0) == "n" * 4096


def _functions(strings: bytes) -> Functions:
    table = np.zeros(1, SYMBOL)
    table["name"] = 1
    here, none = np.array([0x1000], np.int64), np.zeros(0, np.int64)
    exported = np.zeros(1, bool)
    # Bytes of something else lie behind the table.
    data = strings + b"beyond\0"
    return Functions(here, here + 16, np.zeros(1, np.int64), table, (data, 0, len(strings)), none, exported, {})
