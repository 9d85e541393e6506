"""One native file of the target, opened once: everything that is read from it lands in a ``Library``."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rekindle.formats.elf import Elf, is_elf
from rekindle.formats.pe import Pe, is_pe
from rekindle.inspect.cpu import CpuSurvey, survey_cpu
from rekindle.inspect.gpu import GpuSurvey, survey_gpu

_VERSION = re.compile(r"(GLIBC|GLIBCXX|CXXABI|GCC)_(\d+(?:\.\d+)*)$")


@dataclass(frozen=True, kw_only=True)
class Library:
    """``floors`` are the newest symbol versions wanted: {"GLIBC": "2.28", "GLIBCXX": "3.4.25"}."""

    file: str
    format: str
    machine: str
    gpu: GpuSurvey
    needed: tuple[str, ...] = ()
    delayed: tuple[str, ...] = ()
    soname: str | None = None
    rpath: tuple[str, ...] = ()
    floors: dict[str, str]
    cpu: CpuSurvey | None = None
    cxx_abi: str | None = None

    @property
    def base(self) -> str:
        return self.file.rsplit("/", 1)[-1]


def open_binary(data: Any, what: str) -> Elf | Pe | None:
    """An ELF or PE reader, or None where the file is neither (a script in bin/, a linker text file)."""
    head = bytes(data[:4])
    if is_elf(head):
        return Elf(data, what)
    return Pe(data, what) if is_pe(head) else None


def read_library(data: Any, file: str, *, cpu: bool = True, step: Callable[[int, int], None]) -> Library | None:
    """``step`` hears how far the audit of the code is, in bytes."""
    binary = open_binary(data, file)
    if binary is None:
        return None
    gpu = survey_gpu(binary, file)
    code = survey_cpu(binary, file, step) if cpu else None
    if isinstance(binary, Pe):
        return Library(
            file=file, format="pe", machine=binary.machine, gpu=gpu, needed=binary.needed, delayed=binary.delayed,
            floors={}, cpu=code,
        )  # fmt: skip
    return Library(
        file=file, format="elf", machine=binary.machine, gpu=gpu, needed=binary.needed, soname=binary.soname,
        rpath=binary.rpath, floors=_floors(binary), cxx_abi=_cxx_abi(binary), cpu=code,
    )  # fmt: skip


def _cxx_abi(elf: Elf) -> str | None:
    """``cxx11`` or ``pre-cxx11``, by how std::string is spelled in the symbols a library takes from libstdc++."""
    section = elf.section(".dynstr")
    if section is None:
        return None
    offset, size = elf.content(section)
    names = elf.view.take(offset, size)
    new = names.count(b"St7__cxx1112basic_string")
    old = names.count(b"\0_ZNSs") + names.count(b"\0_ZNKSs") + names.count(b"RKSs")
    if new == old == 0:
        return None
    return "cxx11" if new > old else "pre-cxx11"


def _floors(elf: Elf) -> dict[str, str]:
    best: dict[str, tuple[int, ...]] = {}
    for need in elf.version_needs:
        for version in need.versions:
            if match := _VERSION.match(version):
                number = tuple(int(part) for part in match[2].split("."))
                best[match[1]] = max(best.get(match[1], ()), number)
    return {kind: ".".join(map(str, number)) for kind, number in best.items()}


def newest(versions: list[str]) -> str | None:
    """The highest of dotted versions."""
    return max(versions, key=lambda text: tuple(map(int, text.split("."))), default=None)
