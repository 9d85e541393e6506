"""Our ELF and PE readers against pyelftools and pefile, on the libraries this Python itself runs on."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from binaries import make_pe
from rekindle.formats.elf import Elf
from rekindle.formats.functions import find_functions
from rekindle.formats.pe import Pe

elffile = pytest.importorskip("elftools.elf.elffile")
pefile = pytest.importorskip("pefile")


def libraries() -> list[Path]:
    """A dozen real shared libraries, whatever the machine has."""
    import numpy

    found = sorted(Path(numpy.__file__).parent.rglob("*.so"), key=lambda path: path.stat().st_size)[-6:]
    dynload = sysconfig.get_config_var("DESTSHARED")
    found += sorted(Path(dynload).glob("*.so"))[:6] if dynload else []
    return [path for path in found if path.read_bytes()[:4] == b"\x7fELF"]


@pytest.mark.skipif(sys.platform != "linux", reason="needs ELF libraries")
@pytest.mark.parametrize("path", libraries() if sys.platform == "linux" else [], ids=lambda path: path.name)
def test_elf(path: Path) -> None:
    mine = Elf(path.read_bytes(), path.name)
    with path.open("rb") as file:
        theirs = elffile.ELFFile(file)
        rows = [(s.name, s["sh_offset"], s["sh_size"]) for s in theirs.iter_sections()]
        assert [(s.name, s.offset, s.size) for s in mine.sections] == rows
        dynamic = theirs.get_section_by_name(".dynamic")
        assert list(mine.needed) == [tag.needed for tag in dynamic.iter_tags("DT_NEEDED")]
        rpath = [tag.runpath for tag in dynamic.iter_tags("DT_RUNPATH")] or [
            t.rpath for t in dynamic.iter_tags("DT_RPATH")
        ]
        assert ":".join(mine.rpath) == ":".join(rpath)
        needs = theirs.get_section_by_name(".gnu.version_r")
        expected = {v.name: tuple(aux.name for aux in names) for v, names in needs.iter_versions()} if needs else {}
        assert {need.library: need.versions for need in mine.version_needs} == expected
        table = theirs.get_section_by_name(".symtab") or theirs.get_section_by_name(".dynsym")
        text = [s for s in theirs.iter_sections() if s["sh_flags"] & 4]
        names = {
            s["st_value"]: s["st_size"]
            for s in table.iter_symbols()
            if s["st_info"]["type"] in ("STT_FUNC", "STT_LOOS") and isinstance(s["st_shndx"], int)
            and any(t["sh_addr"] <= s["st_value"] < t["sh_addr"] + t["sh_size"] for t in text
                    if not t.name.startswith(".plt") and t.name not in (".init", ".fini"))
        }  # fmt: skip
    functions = find_functions(mine)
    starts = set(functions.start.tolist())
    assert names.keys() <= starts


def test_pe() -> None:
    data = make_pe({".text": b"\xc3" * 100, ".nv_fatb": b"x" * 700}, imports=["KERNEL32.dll", "cudart64_110.dll"])
    mine, theirs = Pe(data), pefile.PE(data=data, fast_load=True)
    assert [s.name for s in mine.sections] == [s.Name.rstrip(b"\0").decode() for s in theirs.sections]
    assert [s.offset for s in mine.sections] == [s.PointerToRawData for s in theirs.sections]
    assert mine.image_base == theirs.OPTIONAL_HEADER.ImageBase
    assert mine.offset_of(0x2000) == theirs.get_offset_from_rva(0x2000)
