"""A library whose containers were moved, loaded by the real loader: its own code finds them through the pointers."""

from __future__ import annotations

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

from binaries import make_entry, make_fatbin
from gpu_libraries import make_cubin
from rekindle.formats.fatbin import write_entry
from rekindle.graft.library import GpuLibrary
from rekindle.model.arch import Sm

pytestmark = [pytest.mark.integration]

# Two containers, each with a wrapper, as nvcc writes them; a constant behind them and one that must stay relocated.
LIBRARY = r"""
#include <stddef.h>
__asm__(".section .nv_fatbin,\"a\"\n.balign 8\n"
        "first: .incbin \"first.bin\"\n.balign 8\n"
        "second: .incbin \"second.bin\"\n.balign 8\n.text\n");
extern const unsigned char first[] __attribute__((visibility("hidden")));
extern const unsigned char second[] __attribute__((visibility("hidden")));
struct wrapper { int magic, version; const unsigned char *data; void *more; };
__attribute__((section(".nvFatBinSegment"))) struct wrapper wrappers[] = {
  {0x466243b1, 1, first, 0}, {0x466243b1, 1, second, 0}};
static const char *const words[] = {"still", "here"};
unsigned long long total(int which) {
  const unsigned char *at = wrappers[which].data;
  unsigned long long size = *(unsigned long long *)(at + 8), sum = 0;
  if (*(unsigned *)at != 0xba55ed50) return 0;
  for (size_t i = 0; i < size + 16; i++) sum = sum * 31 + at[i];
  return sum;
}
const char *word(int which) { return words[which]; }
static __thread int count = 40;
int counted(void) { return ++count; }
"""
MAIN = r"""
#include <stdio.h>
#include <dlfcn.h>
int main(int n, char **v) {
  void *lib = dlopen(v[1], RTLD_NOW);
  if (!lib) { puts(dlerror()); return 1; }
  unsigned long long (*total)(int) = dlsym(lib, "total");
  const char *(*word)(int) = dlsym(lib, "word");
  int (*counted)(void) = dlsym(lib, "counted");
  printf("%llu %llu %s %s %d %d\n", total(0), total(1), word(0), word(1), counted(), counted());
}
"""
X86 = platform.machine() in ("x86_64", "AMD64")
PACKED = "-Wl,-z,pack-relative-relocs"


def _runner(compiler: str) -> list[str]:
    if compiler == "gcc" or X86:
        return []
    return ["qemu-x86_64", "-L", "/usr/x86_64-linux-gnu"]


def _sum(content: bytes) -> int:
    total = 0
    for byte in content:
        total = (total * 31 + byte) % (1 << 64)
    return total


@pytest.mark.parametrize(
    ("compiler", "flags"),
    [
        ("gcc", ()),
        ("gcc", ("-Wl,-z,separate-code",)),
        ("gcc", ("-Wl,-z,noseparate-code", "-Wl,-z,max-page-size=65536")),
        ("x86_64-linux-gnu-gcc", ()),
        ("x86_64-linux-gnu-gcc", (PACKED,)),
    ],
    ids=["native", "separate-code", "large-pages", "x86-64", "x86-64-relr"],
)
@pytest.mark.parametrize("size", [200, 400_000])
def test_the_loader_and_the_librarys_own_code_agree(
    tmp_path: Path, compiler: str, flags: tuple[str, ...], size: int
) -> None:
    runner = _runner(compiler)
    for tool in (compiler, *runner[:1]):
        if shutil.which(tool) is None:
            pytest.skip(f"needs {tool}")
    image = make_cubin(80, code=bytes(range(256)) * (size // 256 + 1))
    parts = [make_fatbin([make_entry(2, 80, payload=image), make_entry(2, 86, payload=image)]), make_fatbin(
        [make_entry(2, 80, payload=image[::-1])])]  # fmt: skip
    for name, content in zip(("first", "second"), parts, strict=True):
        (tmp_path / f"{name}.bin").write_bytes(content)
    (tmp_path / "lib.c").write_text(LIBRARY)
    (tmp_path / "main.c").write_text(MAIN)
    run = ["-O1", "-fPIC", "-shared", *flags, "lib.c", "-o", "lib.so"]
    if subprocess.run([compiler, *run], cwd=tmp_path, capture_output=True).returncode:
        pytest.skip(f"this linker does not take {flags}")
    subprocess.run([compiler, "main.c", "-o", "main", "-ldl"], cwd=tmp_path, check=True)
    if PACKED in flags:
        assert b".relr.dyn" in (tmp_path / "lib.so").read_bytes()

    def told(library: str) -> list[str]:
        done = subprocess.run([*runner, "./main", library], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout.split()

    before = told("./lib.so")
    assert before[:2] == [str(_sum(part)) for part in parts]
    added = write_entry(make_cubin(120), Sm(12, 0), compression="zstd")
    with GpuLibrary(tmp_path / "lib.so", "lib.so") as library:
        library.write_with({0: [added]}, tmp_path / "grafted.so")
    after = told("./grafted.so")
    with GpuLibrary(tmp_path / "grafted.so", "grafted.so") as library:
        raw, places = (tmp_path / "grafted.so").read_bytes(), [unit.container for unit in library.units]
        stored = [raw[place.offset : place.offset + place.size] for place in places]
        assert [[entry.name for entry in unit.container.entries] for unit in library.units] == [
            ["sm_80", "sm_86", "sm_120"],
            ["sm_80"],
        ]
    assert after[:2] == [str(_sum(one)) for one in stored] and after[2:] == before[2:]
    if size > 1 << 17:
        grown = (tmp_path / "grafted.so").stat().st_size - (tmp_path / "lib.so").stat().st_size
        assert grown < len(added) + 3 * (1 << 16), "the old content leaves the file"
    if compiler == "gcc" and shutil.which("patchelf"):
        # What bundle does to libraries afterwards.
        subprocess.run(["patchelf", "--set-rpath", "$ORIGIN/somewhere/far", "grafted.so"], cwd=tmp_path, check=True)
        assert told("./grafted.so") == after
