"""Assembly without symbols and unwind tables: its CPUID counts although no function is known to hold it."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path

import pytest

import needs
from rekindle.inspect.code_graph import _executes_cpuid
from rekindle.inspect.reader import FileSource
from rekindle.inspect.survey import inspect_source
from rekindle.model.progress import Silent

LINES = (".text", ".balign 16", "quiet_ask:", "push %rbx", "mov $7, %eax", "xor %ecx, %ecx", "{}", "mov %ebx, %eax",
         "pop %rbx", "ret")  # fmt: skip
ASM = 'asm("' + "\\n".join(LINES) + '\\n");\n'
C = """
int ask(void) __asm__("quiet_ask");
static int plain(const int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i]; return s; }
__attribute__((target("avx2"), noinline, optimize("O3")))
static int fast(const int *a, int n) { int s = 0; for (int i = 0; i < n; i++) s += a[i] * 3; return s; }
static int (*chosen)(const int *, int) = plain;
void init(void) { if (ask() & 32) chosen = fast; }
int work(const int *a, int n) { return chosen(a, n); }
"""


@pytest.mark.integration
@needs.tool("gcc")
@pytest.mark.skipif(platform.machine() != "x86_64", reason="x86-64 assembly")
@pytest.mark.parametrize(("instruction", "required"), [("cpuid", False), ("mov $0xa20f, %ebx", True)])
def test_a_question_in_code_that_is_no_known_function(tmp_path: Path, instruction: str, required: bool) -> None:
    (tmp_path / "a.c").write_text(ASM.format(instruction) + C, encoding="utf-8")
    out = tmp_path / "liba.so"
    subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-s", str(tmp_path / "a.c"), "-o", str(out)], check=True)
    cpu = inspect_source(FileSource(out), progress=Silent()).cpu
    assert ("avx2" in cpu.required) == required


def test_the_bytes_must_be_the_instruction() -> None:
    assert _executes_cpuid(bytes.fromhex("53 b801000000 0fa2 5b c3"))
    assert not _executes_cpuid(bytes.fromhex("b80fa20000 c3"))
    assert not _executes_cpuid(b"")
