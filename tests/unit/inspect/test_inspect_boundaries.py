"""Just inside and just outside: branches of both encodings, the lists a build declares, the sums over libraries."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rekindle.formats import x86
from rekindle.inspect.baseline import (
    FEW,
    FEWEST_WINDOWS,
    LEAST_BYTES,
    MANY,
    PER_WINDOW,
    WINDOWS,
    spread_of,
    window_shares,
)
from rekindle.inspect.branches import NEAR, Roads, arm64_roads, x86_roads
from rekindle.inspect.cpu import CpuSurvey, join_cpu
from rekindle.inspect.declared import arch_lists_in, find_arch_list, read_declared
from rekindle.inspect.isa_exposure import ExposedCode, Exposure
from rekindle.inspect.reader import DirectorySource

START = 0x1000


def roads(code: str, gap: int = 0) -> Roads:
    """A function at 0x1000 from its bytes; ``..`` stands for so many nops."""
    raw = np.frombuffer(bytes.fromhex(code.replace("..", "90" * gap)), np.uint8)
    length, _ = x86.decode(raw)
    at, places = 0, []
    while at < len(raw):
        places.append(at)
        at += int(length[at])
    padded = np.concatenate([raw, np.zeros(32, np.uint8)])
    return x86_roads(padded, np.array(places, np.int64), START, START + len(raw))


def call(at: int, target: int) -> str:
    return "e8" + (target - START - at - 5).to_bytes(4, "little", signed=True).hex()


@pytest.mark.parametrize("prefix", ["f2", "f3", "3e", "2e", "66", "67", "f33e"])
def test_a_prefix_before_a_branch_changes_nothing(prefix: str) -> None:
    size = len(prefix) // 2
    assert not roads(f"{prefix}c3" + call(size + 1, 0x2000) + "c3").unavoidable(0x2000)
    assert not roads(f"{prefix}7405" + call(size + 2, 0x2000) + "c3").unavoidable(0x2000)
    # rep stos is no branch
    assert roads(f"{prefix}ab" + call(size + 1, 0x2000) + "c3").unavoidable(0x2000)


def test_a_call_comes_back_and_a_jump_does_not() -> None:
    assert roads(call(0, 0x3000) + call(5, 0x2000) + "c3").unavoidable(0x2000)
    assert not roads("e9" + call(0, 0x3000)[2:] + call(5, 0x2000) + "c3").unavoidable(0x2000)


@pytest.mark.parametrize("test", ["70", "74", "75", "7f"])
def test_every_condition_has_two_roads(test: str) -> None:
    assert not roads(f"{test}05" + call(2, 0x2000) + "c3").unavoidable(0x2000)
    long = "0f8" + test[1]
    assert not roads(f"{long}05000000" + call(6, 0x2000) + "c3").unavoidable(0x2000)
    # Over one nop to the call: it is made on both.
    assert roads(f"{long}01000000 90" + call(7, 0x2000) + "c3").unavoidable(0x2000)
    # setcc and cmovcc are no branches
    assert roads(f"0f9{test[1]}c0" + call(3, 0x2000) + "c3").unavoidable(0x2000)


def test_a_function_that_never_returns() -> None:
    # nop; jmp to the nop
    assert roads("90 90 ebfd").unavoidable(0x2000)
    # je back to the nop, or on to the return
    assert not roads("90 90 74fd c3").unavoidable(0x2000)
    assert roads("90 90 0f84f9ffffff" + call(8, 0x2000) + "c3").unavoidable(0x2000)


def test_short_and_long_jumps_and_tests() -> None:
    # jmp +1 over a return to the call
    assert roads("eb01 c3" + call(3, 0x2000) + "c3").unavoidable(0x2000)
    # je (six bytes) over the call to the return
    assert not roads("0f8405000000" + call(6, 0x2000) + "c3").unavoidable(0x2000)
    # cmovne is no branch, though it begins with the same byte
    assert roads("0f45c1" + call(3, 0x2000) + "c3").unavoidable(0x2000)
    # jmp through a register ends the road; call through one comes back
    assert not roads("ffe0" + call(2, 0x2000) + "c3").unavoidable(0x2000)
    assert roads("ffd0" + call(2, 0x2000) + "c3").unavoidable(0x2000)
    # ret with a number
    assert not roads("c20800" + call(3, 0x2000) + "c3").unavoidable(0x2000)


def test_a_jump_to_the_own_start_is_the_function_again() -> None:
    found = roads("85ff 74fa" + call(4, 0x2000) + "c3")
    assert not found.unavoidable(0x2000)
    assert found.unavoidable(START) is False


@pytest.mark.parametrize(("gap", "seen"), [(NEAR, True), (NEAR + 1, False)])
def test_how_far_a_call_may_stand_from_the_test(gap: int, seen: bool) -> None:
    # test edi, edi; je to a second call behind the first
    far = 2 + 6 + gap
    first = call(far, 0x2000)
    second = call(far + 6, 0x3000)
    found = roads("85ff 0f84" + (gap + 6).to_bytes(4, "little").hex() + ".." + first + "c3" + second + "c3", gap)
    assert (0x2000 in found.rivals) == seen


def test_a_test_before_the_end_of_a_function_has_no_rival() -> None:
    assert not roads("85ff 7400").rivals


def arm(*words: int) -> Roads:
    code = np.frombuffer(b"".join(word.to_bytes(4, "little") for word in words), np.uint8)
    return arm64_roads(code, START, START + len(code))


@pytest.mark.parametrize(
    "test", [0x54000000 | 2 << 5, 0x54000001 | 2 << 5, 0xB4000000 | 2 << 5, 0x35000000 | 2 << 5, 0x36000000 | 2 << 5,
             0xB7F80000 | 2 << 5],
    ids=["b.eq", "b.ne", "cbz x", "cbnz w", "tbz", "tbnz x63"],
)  # fmt: skip
def test_every_kind_of_arm_test_has_two_roads(test: int) -> None:
    ret, call_ = 0xD65F03C0, 0x94000400
    assert not arm(test, ret, call_, ret).unavoidable(0x2008)
    assert not arm(test, call_, ret).unavoidable(0x2004)
    # Both sides make the call.
    assert arm(test, 0xD503201F, call_, ret).unavoidable(0x2008)


def test_arm_branches_with_odd_numbers_in_them() -> None:
    nop, ret, call_ = 0xD503201F, 0xD65F03C0, 0x94000401
    # Three on, over the call; one on, to the call; register 1 tested
    assert not arm(0x14000003, call_, nop, ret).unavoidable(0x2008)
    assert arm(0x14000001, call_, ret).unavoidable(0x2008)
    for test in (0xB4000001 | 2 << 5, 0x36000001 | 2 << 5, 0x54000001 | 2 << 5):
        assert not arm(test, call_, ret).unavoidable(0x2008)
    # b.cond with bit 4 set is another instruction (bc.cond hints)
    assert arm(0x54000010 | 2 << 5, call_, ret).unavoidable(0x2008)


def test_arm_functions_of_odd_sizes() -> None:
    words = [0xD503201F] * 4 + [0xD65F03C0]
    code = b"".join(word.to_bytes(4, "little") for word in words)
    assert not arm(*words).unavoidable(0x2000)
    # Two bytes more than whole instructions
    padded = np.frombuffer(code + b"\0\0", np.uint8)
    assert not arm64_roads(padded, START, START + len(padded)).unavoidable(0x2000)
    # The bytes go on behind the function.
    assert arm64_roads(np.frombuffer(code, np.uint8), START, START + 16).unavoidable(0x2000)


@pytest.mark.parametrize("back", [0xD65F03C0, 0xD61F0200, 0xD65F0BFF], ids=["ret", "br x16", "retaa"])
def test_arm_roads_end(back: int) -> None:
    assert not arm(back, 0x94000400, 0xD65F03C0).unavoidable(0x2004)


def test_windows_of_code_at_their_limits() -> None:
    count = FEWEST_WINDOWS * PER_WINDOW
    size = np.full(count, LEAST_BYTES, np.int64)
    assert window_shares({0: ["avx"]}, size) == {"avx": 1 / FEWEST_WINDOWS}
    assert window_shares({0: ["avx"]}, size[:-1]) == {}
    smaller = size.copy()
    smaller[-1] = LEAST_BYTES - 1
    assert window_shares({0: ["avx"]}, smaller) == {}
    assert window_shares({}, size[:0]) == {}


@pytest.mark.parametrize(("windows", "corner"), [(int(WINDOWS * FEW), True), (int(WINDOWS * FEW) + 1, False)])
def test_avx_in_a_corner_makes_bit_instructions_copies(windows: int, corner: bool) -> None:
    size = np.full(WINDOWS * PER_WINDOW, LEAST_BYTES, np.int64)
    uses = {window * PER_WINDOW: ["bmi2"] for window in range(int(WINDOWS * MANY) + 1)}
    uses |= {window * PER_WINDOW + 1: ["avx"] for window in range(windows)}
    old = np.arange(2, WINDOWS * PER_WINDOW, 3)
    found = spread_of(uses, size, old)
    assert ("bmi2" in found.few) == corner
    assert ("avx" in found.few) == corner


def package(folder: Path, **files: str) -> DirectorySource:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("DOT", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return DirectorySource(folder)


def test_what_the_files_of_a_package_say(tmp_path: Path) -> None:
    files = {
        "torch-2DOT9DOT0DOTdist-info__METADATA": "Name: torch\nVersion: 2.9.0\nRequires-Dist: numpy\n\n",
        "torch-2DOT9DOT0DOTdist-info__WHEEL": "Wheel-Version: 1.0\nTag: cp311-cp311-linux_x86_64\n\n",
        "torch__versionDOTpy": "__version__ = '2.9.0+cu128'\ncuda: str = '12.8'\nhip = None\n",
        "torch__deep__versionDOTpy": "__version__ = '2.9.0+wrong'\n",
    }
    found = read_declared(package(tmp_path, **files))
    assert (found.name, found.version, found.cuda, found.rocm) == ("torch", "2.9.0+cu128", "12.8", None)
    assert found.tags == ("cp311-cp311-linux_x86_64",)
    assert found.requires == ("numpy",)


def test_a_local_part_in_the_metadata_says_more_than_the_package(tmp_path: Path) -> None:
    files = {
        "a-1DOTdist-info__METADATA": "Name: a\nVersion: 1.0+cu128.sm120\n\n",
        "a__versionDOTpy": "__version__ = '1.0+cu128'\n",
    }
    assert read_declared(package(tmp_path, **files)).version == "1.0+cu128.sm120"


def test_a_version_file_of_another_release_is_not_believed(tmp_path: Path) -> None:
    files = {
        "a-1DOTdist-info__METADATA": "Name: a\nVersion: 1.0\n\n",
        "a__versionDOTpy": "__version__ = '2.0+cu128'\n",
    }
    assert read_declared(package(tmp_path, **files)).version == "1.0"
    (tmp_path / "a-1.dist-info" / "METADATA").unlink()
    assert read_declared(DirectorySource(tmp_path)).version == "2.0+cu128"


def test_lists_of_architectures() -> None:
    def names(data: bytes) -> list[str]:
        return [target.name for target in find_arch_list(data)]

    assert names(b"x\0sm_90\0y") == ["sm_90"]
    assert names(b"\0sm_90\0sm_80\0") == []
    assert names(b"\0sm_90\0sm_70 sm_80\0") == ["sm_70", "sm_80"]
    assert names(b"textsm_70 sm_75 sm_80\0") == ["sm_70", "sm_75", "sm_80"]
    assert names(b"textsm_70 sm_75\0") == []
    assert names(b"sm_70 sm_75\0") == ["sm_70", "sm_75"]
    assert len(arch_lists_in(b"\0gfx906;gfx90a gfx1100\0")) == 1


def exposed(*isa: str) -> ExposedCode:
    return ExposedCode(1, "f", "", 0x10, isa, (), "called")


def test_sums_over_libraries() -> None:
    empty = Exposure(functions=1)
    empty.dispatched["avx"] = 0
    empty.guards["a guard"] = 0
    cpu = join_cpu([CpuSurvey("a/b_avx2.so.d/c.so", "x86_64", empty)], ["x86_64"])
    assert cpu.dispatched == ()
    assert cpu.guards == ()
    assert any("tzcnt" in note for note in cpu.notes)
    arm_ = join_cpu([CpuSurvey("c.so", "aarch64", Exposure(functions=1))], ["aarch64"])
    assert not any("tzcnt" in note for note in arm_.notes)
    many = [ExposedCode(n, f"f{n}", "", n, ("avx",), (), "called") for n in range(60)]
    cpu = join_cpu([CpuSurvey("c.so", "x86_64", Exposure(functions=60, unconditional=many))], ["x86_64"])
    assert (len(cpu.evidence), cpu.unconditional[0].functions, len(cpu.unconditional[0].examples)) == (40, 60, 5)


def test_a_folder_named_for_a_cpu_is_no_copy() -> None:
    library = CpuSurvey("lib_avx2.d/c.so", "x86_64", Exposure(functions=1, unconditional=[exposed("avx2")]))
    beside = CpuSurvey("lib.d/c.so", "x86_64", Exposure(functions=1, asks=True))
    assert "avx2" in join_cpu([library, beside], ["x86_64"]).required
