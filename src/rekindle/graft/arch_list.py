"""What a torch says it was compiled for (``torch.cuda.get_arch_list()``), corrected: one text in libtorch_python."""

from __future__ import annotations

import mmap
import re
from collections.abc import Sequence
from pathlib import Path

from rekindle.formats.elf import Elf, is_elf
from rekindle.formats.elf_string import replace_text
from rekindle.model.arch import parse_sm

LIBRARY = "torch/lib/libtorch_python.so"
# Of two names at least: single ones occur in messages.
_LIST = re.compile(rb"sm_\d{2,3}[af]?(?: (?:sm|compute)_\d{2,3}[af]?)+\0")


def corrected(old: str, archs: Sequence[str]) -> str:
    """The list with more architectures, in its order: machine code by number, PTX last."""
    names = old.split(" ")
    code = [name for name in names if name.startswith("sm_")]
    for arch in archs:
        if arch not in code:
            later = [index for index, name in enumerate(code) if parse_sm(name) > parse_sm(arch)]
            code.insert(later[0] if later else len(code), arch)
    return " ".join([*code, *(name for name in names if not name.startswith("sm_"))])


def correct_list(path: Path, archs: Sequence[str]) -> str | None:
    """Change the library in place; None where that is done (or nothing is due), else why it was left as it is."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        if not is_elf(data[:64]):
            return "its list of architectures is not in an ELF library"
        lists = [(found.start(), found[0][:-1]) for found in _LIST.finditer(data)]
        longest = max(lists, key=lambda one: len(one[1]), default=None)
        if longest is None or sum(1 for one in lists if one[1] == longest[1]) > 1:
            return "its list of architectures was not found"
        new = corrected(longest[1].decode(), archs).encode()
        if new == longest[1]:
            return None
        elf = Elf(data, LIBRARY)
        edits = replace_text(elf, longest[0], longest[1], new)
        del elf
        if edits is None:
            return "its list of architectures could not be exchanged with certainty"
        for edit in edits:
            data[edit.offset : edit.offset + len(edit.content)] = edit.content
        data.flush()
    return None
