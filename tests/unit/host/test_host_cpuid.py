"""The leaves that are asked of a processor: those it has, with their subleaves, and no other."""

from __future__ import annotations

import ctypes
import mmap
import platform
import sys

import pytest

from rekindle.host import cpuid

EXTENDED = 0x80000000


def leaves(highest: int, extended: int, ecx: int = 0) -> dict[tuple[int, int], tuple[int, int, int, int]]:
    def ask(leaf: int, sub: int) -> tuple[int, int, int, int]:
        return {0: (highest, 0, 0, 0), 1: (leaf, sub, ecx, 0), EXTENDED: (extended, 0, 0, 0)}.get(
            leaf, (leaf, sub, 7, 8)
        )

    return cpuid._read_leaves(ask)


def test_only_leaves_that_the_processor_has_are_asked() -> None:
    basic = [key for key in leaves(7, EXTENDED) if key[0] < EXTENDED]
    assert basic == [(0, 0), (1, 0), (7, 0), (7, 1), (7, 2)]
    assert [key for key in leaves(6, EXTENDED) if key[0] < EXTENDED] == [(0, 0), (1, 0)]
    newest = {leaf for leaf, _ in leaves(0x24, EXTENDED)}
    assert {0xD, 0x14, 0x19, 0x24} <= newest and 2 not in newest
    assert leaves(7, EXTENDED)[7, 2] == (7, 2, 7, 8), "what it says under leaf and subleaf"


@pytest.mark.parametrize(("last", "count"), [(0, 1), (4, 5), (8, 9), (0x21, 9)])
def test_the_extended_leaves_end_where_the_processor_s_do_or_with_the_names_we_know(last: int, count: int) -> None:
    assert len([leaf for leaf, _ in leaves(1, EXTENDED + last) if leaf >= EXTENDED]) == count


def test_a_hypervisor_is_asked_only_where_there_is_one() -> None:
    assert (0x40000000, 0) in leaves(1, EXTENDED, 1 << 31)
    assert (0x40000000, 0) not in leaves(1, EXTENDED, (1 << 31) - 1)


def test_a_processor_without_the_leaf_of_features_has_none() -> None:
    assert set(leaves(0, EXTENDED, 1 << 31)) == {(0, 0), (EXTENDED, 0)}


def test_other_processors_have_no_such_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert cpuid.read_cpuid.__wrapped__() is None
    monkeypatch.setattr(platform, "machine", lambda: "AMD64")
    monkeypatch.setattr(cpuid, "_executable", lambda code: None)
    assert cpuid.read_cpuid.__wrapped__() is None, "pages that may not be executed"


def test_a_process_of_32_bits_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(sys, "maxsize", 2**31 - 1)
    monkeypatch.setattr(cpuid, "_executable", lambda code: pytest.fail("machine code of another width"))
    assert cpuid.read_cpuid.__wrapped__() is None


def test_a_processor_is_asked_by_its_own_instruction(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page is read-only here, so the calls into it are stood in for; what is asked and told is real."""
    written: list[bytes] = []
    called: list[int] = []

    def executable(code: bytes) -> tuple[int, object]:
        written.append(code)
        return 0x1000, object()

    def prototype(*kinds: object) -> object:
        def at(address: int) -> object:
            called.append(address)

            def run(*words: object) -> int:
                if words:
                    leaf, sub, out = words
                    out[0], out[1], out[2], out[3] = 1, leaf, ecx, sub  # type: ignore[index]
                return 0xE7

            return run

        return at

    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(cpuid, "_executable", executable)
    monkeypatch.setattr("ctypes.CFUNCTYPE", prototype)
    for ecx, xcr0 in ((1 << 27, 0xE7), (~(1 << 27) & 0x7FFFFFFF, None)):
        found = cpuid.read_cpuid.__wrapped__()
        assert found is not None and found.xcr0 == xcr0 and found.leaves[1, 0] == (1, 1, ecx, 0)
    assert called == [0x1000, 0x1040, 0x1000], "xgetbv lies 64 bytes behind, and is called where the system has it"
    assert written[0].startswith(cpuid._SYSV) and written[0][64:] == cpuid._XGETBV
    monkeypatch.setattr(sys, "platform", "win32")
    cpuid.read_cpuid.__wrapped__()
    assert written[-1].startswith(cpuid._WIN64)


@pytest.mark.skipif(sys.platform == "win32", reason="mprotect")
@pytest.mark.parametrize("answer", [0, -1])
def test_a_page_is_written_first_and_made_executable_afterwards(answer: int, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    class Library:
        def mprotect(self, address: object, size: int, rights: int) -> int:
            asked.append((size, rights))
            return answer

    monkeypatch.setattr("ctypes.CDLL", lambda name: Library())
    page = cpuid._executable(b"code")
    assert (page is not None) == (answer == 0) and asked == [(mmap.PAGESIZE, mmap.PROT_READ | mmap.PROT_EXEC)]
    assert page is None or ctypes.string_at(page[0], 4) == b"code"


@pytest.mark.parametrize(("gives", "protects", "works"), [(True, 1, True), (True, 0, False), (False, 1, False)])
def test_windows_gives_a_page(gives: bool, protects: int, works: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    room = ctypes.create_string_buffer(8)
    asked: list[tuple[int, ...]] = []

    class Allocate:
        restype: object = None

        def __call__(self, where: object, size: object, kind: int, rights: int) -> int:
            asked.append((size.value, kind, rights))  # type: ignore[attr-defined]
            return ctypes.addressof(room) if gives else 0

    class Kernel:
        VirtualAlloc = Allocate()

        def VirtualProtect(self, where: object, size: object, rights: int, old: object) -> int:
            asked.append((size.value, rights))  # type: ignore[attr-defined]
            return protects

    monkeypatch.setattr("ctypes.WinDLL", lambda name: Kernel(), raising=False)
    monkeypatch.setattr(sys, "platform", "win32")
    page = cpuid._executable(b"code")
    assert (page is not None) == works and (not gives or room.raw[:4] == b"code")
    # MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE; then PAGE_EXECUTE_READ
    assert asked == [(4096, 0x3000, 4), (4096, 0x20)][: 1 + gives]
