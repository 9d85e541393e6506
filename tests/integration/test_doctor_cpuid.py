"""Our machine code for ``cpuid``, executed on emulated processors: each is named for what it is."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import needs
from rekindle.compat.cpu_names import match_microarchitecture
from rekindle.doctor.cpu import features_of
from rekindle.facts import load_facts
from rekindle.host import cpuid as code
from rekindle.host.protocol import Cpuid

pytestmark = [pytest.mark.integration, needs.tool("x86_64-linux-gnu-gcc", "qemu-x86_64")]

HARNESS = """
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
static const unsigned char ask[] = {%s};
static const unsigned char xgetbv[] = {%s};
int main(int count, char **words) {
    unsigned char *page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(page, ask, sizeof ask);
    memcpy(page + 64, xgetbv, sizeof xgetbv);
    if (mprotect(page, 4096, PROT_READ | PROT_EXEC)) return 1;
    for (int i = 1; i + 1 < count; i += 2) {
        uint32_t out[4], leaf = strtoul(words[i], 0, 0), sub = strtoul(words[i + 1], 0, 0);
        ((void (*)(uint32_t, uint32_t, uint32_t *))page)(leaf, sub, out);
        printf("%%u %%u %%u %%u %%u %%u\\n", leaf, sub, out[0], out[1], out[2], out[3]);
        if (leaf == 1 && (out[2] >> 27 & 1))
            fprintf(stderr, "%%llu\\n", (unsigned long long)((uint64_t (*)(void))(page + 64))());
    }
}
"""
LEAVES = [(0, 0), (1, 0), (7, 0), (7, 1), (0x40000000, 0), *((0x80000000 + i, 0) for i in range(9))]


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("cpuid")
    source = place / "ask.c"
    source.write_text(HARNESS % (", ".join(map(str, code._SYSV)), ", ".join(map(str, code._XGETBV))))
    subprocess.run(["x86_64-linux-gnu-gcc", "-static", "-O1", "-o", place / "ask", source], check=True)
    return place / "ask"


def ask(harness: Path, model: str) -> Cpuid:
    words = [str(number) for leaf in LEAVES for number in leaf]
    done = subprocess.run(
        ["qemu-x86_64", "-cpu", model, harness, *words], capture_output=True, text=True, check=True, timeout=60
    )
    rows = [[int(word) for word in line.split()] for line in done.stdout.splitlines()]
    xcr0 = next((int(line) for line in done.stderr.splitlines() if line.isdigit()), None)
    return Cpuid(leaves={(row[0], row[1]): (row[2], row[3], row[4], row[5]) for row in rows}, xcr0=xcr0)


@pytest.mark.parametrize(
    ("model", "name", "has", "lacks"),
    [
        ("Westmere", "westmere", {"sse4_2", "aes"}, {"avx"}),
        ("SandyBridge", "sandybridge", {"avx"}, {"f16c", "avx2"}),
        ("IvyBridge", "ivybridge", {"avx", "f16c"}, {"avx2", "fma"}),
        ("Haswell-noTSX", "haswell", {"avx2", "fma", "bmi2"}, {"avx512f"}),
    ],
)
def test_an_emulated_processor_is_named(harness: Path, model: str, name: str, has: set[str], lacks: set[str]) -> None:
    answer = ask(harness, model)
    features = features_of(answer)
    assert has <= features
    assert not lacks & features
    assert match_microarchitecture(load_facts(), "x86_64", "GenuineIntel", features) == name


def test_avx_the_system_does_not_save_does_not_count(harness: Path) -> None:
    answer = ask(harness, "Haswell-noTSX")
    assert answer.xcr0 and answer.xcr0 & 0b110 == 0b110
    without = features_of(Cpuid(leaves=answer.leaves, xcr0=0b011))
    assert not {"avx", "avx2", "fma", "f16c"} & without
    assert "sse4_2" in without
