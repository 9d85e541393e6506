"""The numbers that were found over wheels of which is known where they run, each with its neighbour."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rekindle.inspect.baseline import spread_of, window_shares
from rekindle.inspect.cpu import CpuSurvey, join_cpu
from rekindle.inspect.declared import find_arch_list, read_declared
from rekindle.inspect.isa_exposure import ExposedCode, Exposure
from rekindle.inspect.reader import DirectorySource


def sizes(count: int, size: int = 48) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.full(count, size, np.int64)


def test_windows_of_code() -> None:
    # Sixteen windows of 32 functions at least, 64 at most; functions below 48 bytes are not counted.
    assert window_shares({0: ["avx"]}, sizes(512)) == {"avx": 1 / 16}
    assert window_shares({0: ["avx"]}, sizes(511)) == {}
    assert window_shares({0: ["avx"]}, sizes(512, 47)) == {}
    assert window_shares({0: ["avx"]}, sizes(2048)) == {"avx": 1 / 64}
    assert window_shares({0: ["avx"]}, sizes(2080)) == {"avx": 1 / 64}
    assert window_shares({0: ["avx"]}, sizes(1024)) == {"avx": 1 / 32}
    small = np.concatenate([sizes(512), sizes(400, 10)])
    assert window_shares({0: ["avx"], 911: ["avx"]}, small) == {"avx": 2 / 16}


def test_where_a_window_ends() -> None:
    every = sizes(2048)
    assert window_shares({0: ["avx"], 31: ["avx"]}, every) == {"avx": 1 / 64}
    assert window_shares({31: ["avx"], 32: ["avx"]}, every) == {"avx": 2 / 64}
    assert window_shares({number: ["avx"] for number in range(2048)}, every) == {"avx": 1.0}
    assert window_shares({2016: ["avx"], 2047: ["avx"]}, every) == {"avx": 1 / 64}


def test_four_tenths_are_many_and_three_twentieths_few() -> None:
    # Of 20 windows: 8 are 0.4, 3 are 0.15
    every = sizes(20 * 32)

    def spread(windows: int) -> tuple[bool, bool]:
        found = spread_of({window * 32 + 2: ["sve"] for window in range(windows)}, every, None)
        return "sve" in found.everywhere, "sve" in found.few

    assert [spread(count) for count in (8, 7, 4, 3)] == [(True, False), (False, False), (False, False), (False, True)]


@pytest.mark.parametrize(("old", "everywhere"), [(20, True), (21, False)])
def test_four_of_five_with_vectors_are_avx(old: int, everywhere: bool) -> None:
    every = sizes(2048)
    uses = {window * 32 + 2: ["avx"] for window in range(64)} | {window * 32 + 3: ["avx"] for window in range(16)}
    legacy = np.array([window * 32 + 4 for window in range(old)], np.int64)
    assert ("avx" in spread_of(uses, every, legacy).everywhere) is everywhere


def test_a_list_on_the_border_of_two_windows() -> None:
    """A library is searched in pieces of 8 MB, each with 512 bytes of the next."""
    text = b"\0sm_70 sm_80 sm_90\0"
    for before in ((8 << 20) - 10, (8 << 20) + 100, (8 << 20) - len(text)):
        assert [one.name for one in find_arch_list(bytes(before) + text)] == ["sm_70", "sm_80", "sm_90"]


@pytest.mark.parametrize(("size", "version"), [(65_536, "1.0+cu118"), (65_537, "1.0")])
def test_a_version_file_has_64_kilobytes_at_most(tmp_path: Path, size: int, version: str) -> None:
    for name in ("demo", "demo-1.0.dist-info"):
        (tmp_path / name).mkdir()
    (tmp_path / "demo-1.0.dist-info" / "METADATA").write_text("Name: demo\nVersion: 1.0\n\n", encoding="utf-8")
    text = "__version__ = '1.0+cu118'\n"
    (tmp_path / "demo" / "version.py").write_bytes((text + "#" * (size - len(text))).encode())
    assert read_declared(DirectorySource(tmp_path)).version == version


def exposed(*isa: str, chain: tuple[str, ...] = ()) -> ExposedCode:
    return ExposedCode(1, "f", "", 0x10, isa, chain, "called")


def test_what_is_said_of_a_whole_wheel() -> None:
    def wheel(**lists: list[ExposedCode]) -> CpuSurvey:
        return CpuSurvey("a.so", "x86_64", Exposure(functions=9, **lists))  # type: ignore[arg-type]

    chain = ("one", "two", "three", "four", "five")
    found = join_cpu([wheel(unconditional=[exposed("avx", chain=chain)])], ["x86_64"])
    assert found.evidence[0].callers == chain[:4]
    assert (found.evidence[0].address, found.functions) == ("0x10", 9)
    # A doubt about SSE3 is taken for a need: only the first 64-bit CPUs lack it.
    doubt = join_cpu([wheel(untold=[exposed("sse3")])], ["x86_64"])
    assert (doubt.required, doubt.runs_from, doubt.untold) == (("sse3",), "nocona", ())
    # Two machines in one wheel: no level fits both.
    both = join_cpu([wheel(unconditional=[exposed("avx")])], ["aarch64", "x86_64"])
    assert (both.arch, both.runs_from, both.oldest) == (None, None, ())
    assert join_cpu([], ["x86_64"]).arch == "x86_64"
    assert join_cpu([], []).arch is None
    nameless = CpuSurvey("a.so", "x86_64", Exposure(functions=9, named=False))
    assert any("without symbols" in note for note in join_cpu([nameless], ["x86_64"]).notes)
    assert not any("without symbols" in note for note in found.notes)


def test_functions_of_one_name_are_one_row() -> None:
    rows = [exposed("avx"), exposed("avx"), exposed("avx2")]
    found = join_cpu([CpuSurvey("a.so", "x86_64", Exposure(functions=3, unconditional=rows))], ["x86_64"])
    assert [one.isa for one in found.evidence] == [("avx",), ("avx2",)]
    assert [(one.isa, one.functions) for one in found.unconditional] == [("avx", 2), ("avx2", 1)]


def test_the_same_limits_beside_the_older_encoding() -> None:
    """Of 20 windows: 8 are 0.4; AVX in 3 (0.15) is no more than a corner, so bit instructions are copies."""
    every, none = sizes(20 * 32), np.zeros(0, np.int64)

    def at(windows: int, *isa: str) -> dict[int, list[str]]:
        return {window * 32 + 2: list(isa) for window in range(windows)}

    assert [("sse4.1" in spread_of(at(count, "sse4.1"), every, none).everywhere) for count in (8, 7)] == [True, False]
    legacy = np.array([window * 32 + 5 for window in range(20)], np.int64)
    bits = {window * 32 + 3: ["bmi2"] for window in range(10)}
    for windows, copies in ((3, True), (4, False)):
        found = spread_of(at(windows, "avx") | bits, every, legacy)
        assert ("bmi2" in found.few) is copies
