"""A crash in words: the place, the instruction set that was refused, what to do about it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bare_host import BareHost
from rekindle.host.protocol import Completed
from rekindle.model.verify import Crash
from rekindle.verify import crash as crashes
from rekindle.verify.crash import MOST_NAME, crash_place, demangle, describe_crash, find_symbol, remedy_for

AVX2 = "c5fdfec0"  # vpaddd ymm0, ymm0, ymm0
PLAIN = "4801c0"  # add rax, rax


def test_only_a_refused_instruction_has_a_remedy_of_its_own() -> None:
    assert remedy_for(Crash(signal="SIGSEGV")) is None
    assert "rekindle inspect" in (remedy_for(Crash(signal="SIGILL")) or "")
    own = remedy_for(Crash(signal="SIGILL", unit="BinaryOps.cpp.AVX512.cpp")) or ""
    assert "copy for AVX512" in own and "ATEN_CPU_CAPABILITY" in own
    assert "copy for" not in (remedy_for(Crash(signal="SIGILL", unit="BinaryOps.cpp")) or "")


def test_the_set_of_a_refused_instruction_is_named() -> None:
    found = describe_crash(BareHost(), {"name": "SIGILL", "code": AVX2, "library": None, "offset": None}, "x86_64")
    assert (found.isa, found.instruction) == ("avx2", AVX2)
    assert describe_crash(BareHost(), {"name": "SIGILL", "code": AVX2}, "AMD64").isa == "avx2"
    assert describe_crash(BareHost(), {"name": "SIGILL", "code": PLAIN}, "x86_64").isa is None, "every CPU has it"
    assert describe_crash(BareHost(), {"name": "SIGSEGV", "code": AVX2}, "x86_64").isa is None, "it was not refused"
    assert describe_crash(BareHost(), {"name": "SIGILL", "code": AVX2}, "riscv64").isa is None
    assert describe_crash(BareHost(), {}, "x86_64").signal == "unknown signal"


def test_arm_instructions_have_their_sets() -> None:
    assert describe_crash(BareHost(), {"name": "SIGILL", "code": "1f2003d5"}, "aarch64").isa is None, "a nop"
    assert describe_crash(BareHost(), {"name": "SIGILL", "code": "000020"}, "aarch64").isa is None, "cut short"
    assert describe_crash(BareHost(), {"name": "SIGILL", "code": "00002004"}, "arm64").isa == "sve"


class NameHost(BareHost):
    """Has one of the tools that read mangled names; it answers so."""

    def __init__(self, tool: str, answer: str | None) -> None:
        super().__init__()
        self.tool, self.answer = tool, answer

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name == self.tool else None

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        assert argv[0] == self.tool
        code = 0 if self.answer is not None else 1
        return Completed(argv=tuple(argv), code=code, out=f"{self.answer}\n" if self.answer else "")


def test_a_name_is_read_by_whatever_tool_is_there() -> None:
    assert demangle(NameHost("c++filt", "at::add()"), "_ZN2at3addEv") == "at::add()"
    assert demangle(NameHost("llvm-cxxfilt", "at::add()"), "_ZN2at3addEv") == "at::add()"
    assert demangle(NameHost("c++filt", None), "_ZN2at3addEv") == "_ZN2at3addEv"
    assert demangle(NameHost("c++filt", ""), "_ZN2at3addEv") == "_ZN2at3addEv"
    assert demangle(BareHost(), "_ZN2at3addEv") == "_ZN2at3addEv" and demangle(NameHost("c++filt", "x"), "add") == "add"


def test_the_place_in_one_line() -> None:
    assert crash_place(Crash(signal="SIGSEGV")) == ""
    whole = Crash(
        signal="SIGILL", function="add", unit="a.cpp", library="/x/liba.so", offset=0x10, instruction=AVX2, isa="avx2"
    )
    assert crash_place(whole) == f"in add, compiled from a.cpp, at liba.so+0x10, avx2 instruction {AVX2}…"
    assert crash_place(Crash(signal="SIGILL", instruction="ab" * 12)) == f"instruction {'ab' * 8}…"
    assert crash_place(Crash(signal="SIGSEGV", instruction=AVX2)) == ""
    assert crash_place(Crash(signal="SIGSEGV", library="/x/liba.so", offset=0)) == "at liba.so+0x0"
    longest = Crash(signal="SIGSEGV", function="f" * MOST_NAME)
    assert crash_place(longest) == f"in {'f' * MOST_NAME}"
    assert crash_place(Crash(signal="SIGSEGV", function="f" * (MOST_NAME + 1))) == f"in {'f' * (MOST_NAME - 1)}…"


def test_a_function_is_named_only_where_a_table_names_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    names = {3: "add", 4: ""}
    table: Any = SimpleNamespace(
        at=lambda address: {0x1003: 3, 0x1004: 4}.get(address),
        named=lambda number: bool(names[number]),
        name=lambda number: names[number],
        file=lambda number: "",
    )
    monkeypatch.setattr("rekindle.formats.functions.find_functions", lambda elf: table)
    elf: Any = SimpleNamespace(address_of=lambda offset: None if offset > 9 else 0x1000 + offset)
    with monkeypatch.context() as patched:
        patched.setattr(crashes, "open_elf", lambda path: contextlib.nullcontext(elf))
        assert find_symbol(tmp_path / "any.so", 3) == ("add", None)
        assert [find_symbol(tmp_path / "any.so", offset) for offset in (4, 5, 10)] == [None, None, None]
    (tmp_path / "no.so").write_bytes(b"no library")
    assert find_symbol(tmp_path / "no.so", 3) is None and find_symbol(tmp_path / "none.so", 3) is None
