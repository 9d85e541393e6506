"""AArch64 libraries made by a real compiler: asked, not asked, run while loading; and what qemu says to them."""

from __future__ import annotations

import subprocess
import tomllib
from pathlib import Path

import pytest

import needs
from rekindle.inspect.reader import FileSource
from rekindle.inspect.survey import inspect_source
from rekindle.model.progress import Silent
from rekindle.model.wheel import WheelCpu

HEAD = "#include <stdatomic.h>\n#include <sys/auxv.h>\nstatic atomic_int n;\nint used;\n"
ADD = "{ used = atomic_fetch_add(&n, 1); }\n"
AT_LOAD = f"static __attribute__((constructor)) void begin(void) {ADD}"
LATER = f"static __attribute__((noinline)) void step(void) {ADD}void work(void) {{ step(); }}\n"
# Outline atomics choose by a variable that libgcc fills; a program may ask the kernel itself.
ASKED = (
    f"static __attribute__((noinline)) void step(void) {ADD}"
    "static __attribute__((noinline)) void old(void) { used++; }\n"
    "void work(void) { if (getauxval(AT_HWCAP) & HWCAP_ATOMICS) step(); else old(); }\n"
)
SOMETIMES = f'static __attribute__((constructor)) void begin(void) {{ if (getenv("X")) {ADD} }}\n'


def made(folder: Path, text: str, march: str, *flags: str) -> Path:
    out = folder / "liba.so"
    source = folder / "a.c"
    source.write_text("#include <stdlib.h>\n" + HEAD + text, encoding="utf-8")
    command = [
        "aarch64-linux-gnu-gcc",
        "-O2",
        "-shared",
        "-fPIC",
        f"-march={march}",
        *flags,
        str(source),
        "-o",
        str(out),
    ]
    subprocess.run(command, check=True)
    return out


def read(path: Path) -> WheelCpu:
    return inspect_source(FileSource(path), progress=Silent()).cpu


@pytest.mark.integration
@needs.tool("aarch64-linux-gnu-gcc")
@pytest.mark.parametrize(
    ("text", "march", "level", "early"),
    [
        (AT_LOAD, "armv8.1-a", "armv8-a+lse", ("lse",)),
        (LATER, "armv8.1-a", "armv8-a+lse", ()),
        (SOMETIMES, "armv8.1-a", "armv8-a+lse", ()),
        (ASKED, "armv8.1-a", "armv8-a", ()),
        (AT_LOAD, "armv8-a", "armv8-a", ()),
    ],
    ids=["at load", "when called", "at load, perhaps", "asked", "outlined"],
)
def test_what_is_said_of_atomics(tmp_path: Path, text: str, march: str, level: str, early: tuple[str, ...]) -> None:
    cpu = read(made(tmp_path, text, march))
    assert (cpu.runs_from, cpu.at_load) == (level, early)


@pytest.mark.integration
@needs.tool("aarch64-linux-gnu-gcc", "qemu-aarch64")
def test_code_that_runs_at_load_ends_a_program_on_an_old_cpu(tmp_path: Path) -> None:
    """The oracle behind ``at_load``: the library alone, loaded and nothing else, dies without LSE and lives with it."""
    made(tmp_path, AT_LOAD, "armv8.1-a")
    program = tmp_path / "p.c"
    program.write_text("extern int used; int main(void) { return used != 0; }\n", encoding="utf-8")
    out = tmp_path / "p"
    command = ["aarch64-linux-gnu-gcc", str(program), "-o", str(out), f"-L{tmp_path}", "-la", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(command, check=True)
    ended = {
        cpu: subprocess.run(
            ["qemu-aarch64", "-L", "/usr/aarch64-linux-gnu", "-cpu", cpu, str(out)], check=False
        ).returncode
        for cpu in ("cortex-a72", "neoverse-n1")
    }
    assert ended["cortex-a72"] in (-4, 132)
    assert ended["neoverse-n1"] == 0


def test_the_table_of_wheels_is_in_order() -> None:
    """What `tools/cpu_oracle.py --arch aarch64` saw: oldest first, and the first that runs ends the search."""
    order = ["cortex-a53", "cortex-a72", "neoverse-n1", "max"]
    table = tomllib.loads((Path(__file__).parents[1] / "truth" / "cpu_wheels_aarch64.toml").read_text("utf-8"))["wheel"]
    assert len({row["spec"] for row in table}) == len(table) >= 8
    for row in table:
        assert list(row["tried"]) == order[: len(row["tried"])]
        assert list(row["tried"].values()) == ["crash"] * (len(row["tried"]) - 1) + ["ok"], row["spec"]
