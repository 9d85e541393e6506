"""Stub libraries and symbol names with real compilers, a real loader and another reader as judge."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pytest
import x86_spark
from elftools.elf.elffile import ELFFile

import needs
from rekindle.emulate.qemu import X86
from rekindle.emulate.root import prepare_root
from rekindle.emulate.stubs import missing_libraries, read_linkage, stub_library
from rekindle.host.live import LiveHost
from rekindle.host.made import own_directories
from rekindle.model.progress import Silent
from rekindle.verify.crash import find_symbol

pytestmark = [pytest.mark.integration, needs.tool(x86_spark.COMPILERS[0])]
GCC = x86_spark.COMPILERS[0]


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """libfar.so.1 with two symbol versions, and libnear.so, which needs it and one unversioned name besides."""
    folder = tmp_path_factory.mktemp("libraries")
    (folder / "far.c").write_text("int far_one(void) { return 1; }\nint far_two(void) { return 2; }\n")
    (folder / "far.map").write_text("FAR_1 { global: far_one; local: *; };\nFAR_2 { global: far_two; } FAR_1;\n")
    (folder / "near.c").write_text(
        "int far_one(void); int far_two(void); int nowhere(void);\n"
        "int near(void) { return far_one() + far_two(); }\n"
        "int nearer(void) { return nowhere(); }\n"
        "static int __attribute__((noinline)) hidden(int x) { return x * 3; }\n"
        "int nearest(int x) { return hidden(x) + 1; }\n"
    )
    shared = [GCC, "-shared", "-fPIC", "-O1", "-fno-ipa-cp", "-o"]
    subprocess.run(
        [*shared, "libfar.so.1", "far.c", "-Wl,-soname,libfar.so.1", "-Wl,--version-script=far.map"],
        cwd=folder,
        check=True,
    )
    subprocess.run([*shared, "libnear.so", "near.c", "-L.", "-l:libfar.so.1"], cwd=folder, check=True)
    (folder / "libfar.so.1").rename(folder / "libfar.real")
    return folder


def test_wants_are_those_another_reader_finds(libraries: Path) -> None:
    linkage = read_linkage(libraries / "libnear.so")
    assert linkage is not None and "libfar.so.1" in linkage.needed
    assert {("far_one", "libfar.so.1", "FAR_1"), ("far_two", "libfar.so.1", "FAR_2")} <= linkage.undefined
    with (libraries / "libnear.so").open("rb") as file:
        table: Any = ELFFile(file).get_section_by_name(".dynsym")
        rows = list(table.iter_symbols())
    wanted = {r.name for r in rows if r["st_shndx"] == "SHN_UNDEF" and r["st_info"]["bind"] == "STB_GLOBAL" and r.name}
    defined = {r.name for r in rows if r["st_shndx"] != "SHN_UNDEF"}
    assert {name for name, _, _ in linkage.undefined} == wanted and defined <= linkage.defined


@pytest.mark.skipif(not X86.is_here and LiveHost().which("qemu-x86_64") is None, reason="needs qemu-x86_64 on PATH")
def test_the_loader_takes_the_stub_for_the_library(libraries: Path, tmp_path: Path) -> None:
    folders = [Path("/usr/lib/x86_64-linux-gnu"), Path("/lib/x86_64-linux-gnu")]
    command = ["python3"]
    if not X86.is_here:
        python = prepare_root(LiveHost(), own_directories()[1], Silent())
        assert python.root is not None
        folders = list(X86.library_folders(python.root))
        command = ["qemu-x86_64", "-L", str(python.root), "-E", f"PYTHONHOME={python.home}"]
        command += ["-E", f"LD_LIBRARY_PATH={tmp_path}", str(python.path)]
    missing = missing_libraries([libraries / "libnear.so"], folders)
    assert missing == {"libfar.so.1": {"far_one": "FAR_1", "far_two": "FAR_2", "nowhere": None}}
    (tmp_path / "libfar.so.1").write_bytes(stub_library("libfar.so.1", missing["libfar.so.1"]))
    script = (
        f"import ctypes, os; l = ctypes.CDLL({str(libraries / 'libnear.so')!r}, mode=os.RTLD_NOW)\n"
        "print(l.near(), l.nearer(), l.nearest(5))"
    )
    env = {"LD_LIBRARY_PATH": str(tmp_path), "PATH": "/usr/bin:/bin"} if X86.is_here else None
    done = subprocess.run([*command, "-c", script], capture_output=True, text=True, env=env)
    assert done.stdout.split() == ["1998", "999", "16"], done.stderr
    assert "version" not in done.stderr, "the loader misses no version information"


def test_a_place_in_the_file_has_the_name_nm_gives_it(libraries: Path) -> None:
    path = libraries / "libnear.so"
    with path.open("rb") as file:
        elf = ELFFile(file)
        text: Any = elf.get_section_by_name(".text")
        symbols: Any = elf.get_section_by_name(".symtab")
        rows = [r for r in symbols.iter_symbols() if r["st_info"]["type"] == "STT_FUNC"]
    shift = text["sh_offset"] - text["sh_addr"]
    tried = [row for row in rows if row.name in ("near", "nearer", "nearest", "hidden")]
    assert len(tried) == 4
    for row in tried:
        for inside in (0, row["st_size"] - 1):
            found = find_symbol(path, row["st_value"] + shift + inside)
            assert found == (row.name, "near.c" if row.name == "hidden" else None)
