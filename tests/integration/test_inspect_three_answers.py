"""Dispatched, unconditional or cannot be told: each way to choose as a compiler writes it, with and without symbols."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import needs
from rekindle import api
from rekindle.model.wheel import WheelCpu

GCC = "x86_64-linux-gnu-gcc"
pytestmark = [pytest.mark.integration, needs.tool(GCC)]
LOOP = "for (int i = 0; i < n; i++) a[i] = a[i] * 3 + 1;"
COPIES = f"""
#define COPY __attribute__((noinline, noclone))
static COPY void plain(int *a, int n) {{ {LOOP} }}
static COPY __attribute__((target("avx2"))) void fast(int *a, int n) {{ {LOOP} }}
static COPY int other(int *a) {{ return a[0] > 5 ? 7 : a[1]; }}
"""
ASKED = {
    # a test between two copies, by a flag that was found out elsewhere and handed on
    "handed on": """
struct context { int wide; };
void prepare(struct context *c) { __builtin_cpu_init(); c->wide = __builtin_cpu_supports("avx2"); }
void run(struct context *c, int *a, int n) { if (c->wide) fast(a, n); else plain(a, n); }""",
    "pointer filled at loading": """
static void (*chosen)(int *, int) = plain;
__attribute__((constructor)) static void choose(void) {
  __builtin_cpu_init(); if (__builtin_cpu_supports("avx2")) chosen = fast; }
void run(int *a, int n) { chosen(a, n); }""",
    "ifunc": """
static void (*resolve(void))(int *, int) { __builtin_cpu_init(); return __builtin_cpu_supports("avx2") ? fast : plain; }
void run(int *a, int n) __attribute__((ifunc("resolve")));""",
    "asked on the way": """
void run(int *a, int n) { if (__builtin_cpu_supports("avx2")) fast(a, n); else plain(a, n); }""",
    "target clones": f"""
__attribute__((target_clones("avx2", "default"))) void work(int *a, int n) {{ {LOOP} }}
void run(int *a, int n) {{ work(a, n); plain(a, n); }}""",
}
ASKS = 'int asks(void) { __builtin_cpu_init(); return __builtin_cpu_supports("avx2"); }'
ALWAYS = "void run(int *a, int n) { fast(a, n); a[0]++; }\n" + ASKS
SOMETIMES = "int run(int *a, int n) { if (other(a) == 7) fast(a, n); return a[2]; }\n" + ASKS


def audit(folder: Path, text: str, stripped: bool) -> WheelCpu:
    source, made = folder / "code.c", folder / "libcode.so"
    source.write_text(COPIES + text)
    flags = ["-O3", "-shared", "-fPIC", "-w", "-fno-tree-slp-vectorize", *(["-s"] if stripped else [])]
    subprocess.run([GCC, *flags, "-o", made, source], check=True)
    return api.inspect(str(made)).cpu


@pytest.mark.parametrize("stripped", [False, True])
@pytest.mark.parametrize("way", ASKED)
def test_ways_to_choose(tmp_path: Path, way: str, stripped: bool) -> None:
    cpu = audit(tmp_path, ASKED[way], stripped)
    assert (cpu.runs_from, cpu.unconditional, cpu.untold) == ("x86-64", (), ())
    assert "avx2" in {use.isa for use in cpu.dispatched}


@pytest.mark.parametrize("stripped", [False, True])
def test_called_on_every_road(tmp_path: Path, stripped: bool) -> None:
    cpu = audit(tmp_path, ALWAYS, stripped)
    assert cpu.runs_from == "x86-64-v3"
    assert "avx2" in {use.isa for use in cpu.unconditional}


@pytest.mark.parametrize("stripped", [False, True])
def test_called_on_some_roads_only(tmp_path: Path, stripped: bool) -> None:
    cpu = audit(tmp_path, SOMETIMES, stripped)
    assert cpu.runs_from is None
    assert cpu.at_least == "x86-64"
    assert "avx2" in {use.isa for use in cpu.untold}
    assert "not on every road" in " ".join(one.why for one in cpu.evidence)


def test_where_nobody_asks_the_code_is_needed(tmp_path: Path) -> None:
    cpu = audit(tmp_path, SOMETIMES.replace(ASKS, ""), stripped=True)
    assert cpu.runs_from == "x86-64-v3"
