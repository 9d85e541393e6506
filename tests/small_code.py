"""A library as the audit of its code sees it, made by hand: a few functions of real x86-64 bytes, one page each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np

from rekindle.formats.code_scan import Scan, Variables, pack
from rekindle.formats.elf import Elf
from rekindle.formats.functions import Code, Functions
from rekindle.formats.pe import WRITE, Pe
from rekindle.formats.references import References
from rekindle.inspect.isa_scan import LibraryScan

FIRST, PAGE = 0x1000, 0x1000
DATA = 0x100000
LOCAL, GLOBAL, WEAK = 0, 1, 2
CLASSES = ("base", "bad", "avx2", "avx", "tzcnt", "lzcnt", "lse", "exclusive", "sse4.1", "fma")
_HEADS = {"call": "e8", "jmp": "e9", "je": "0f84"}


@dataclass
class Made:
    """``code``: name -> its instructions, as bytes in hex, or ``call NAME``, ``jmp NAME``, ``je NAME``; in other bytes
    ``@NAME`` or ``@0xADDRESS`` stands for the distance to it from the instruction's end. ``uses``: (function, class,
    address, how often), ``between``: bytes at an address outside of the functions, ``sources``: the files of local
    functions."""

    code: Mapping[str, Sequence[str]]
    exported: Iterable[str] = ()
    weak: Iterable[str] = ()
    started: Iterable[str | int] = ()
    resolvers: Iterable[str | int] = ()
    stripped: Iterable[str] = ()
    pointers: Mapping[int, str | int] = field(default_factory=dict)
    imports: Mapping[int, str] = field(default_factory=dict)
    stubs: Mapping[int, int] = field(default_factory=dict)
    takes: Iterable[tuple[str, str]] = ()
    reads: Iterable[tuple[str, int]] = ()
    touches: Iterable[tuple[str, int, bool]] = ()
    uses: Iterable[tuple[str, str, int, int]] = ()
    state: Sequence[int] = ()
    size: int = 0x1000
    files: int = 1
    sources: Mapping[str, str] = field(default_factory=dict)
    local: Iterable[str] = ()
    machine: str = "x86_64"
    sections: Sequence[Any] = ()
    libraries: Mapping[int, str] = field(default_factory=dict)
    between: Mapping[int, str] = field(default_factory=dict)
    room: int = 0
    cookie: int | None = None
    windows: bool = False
    marked: bool = False
    what: str = "libmade.so"

    def at(self, name: str | int) -> int:
        return name if isinstance(name, int) else FIRST + PAGE * list(self.code).index(name)

    def _place(self, aim: str) -> int:
        return int(aim, 16) if aim.startswith("0x") else self.at(aim)

    def number(self, name: str) -> int:
        return list(self.code).index(name)

    def _binding(self, name: str) -> int:
        if name in set(self.local) | set(self.sources):
            return LOCAL
        return WEAK if name in set(self.weak) else GLOBAL

    def scan(self) -> LibraryScan:
        names = list(self.code)
        raw, ends, calls, asks = bytearray(PAGE * len(names) + self.room), [], [], []
        for number, (name, parts) in enumerate(self.code.items()):
            begin = self.at(name)
            body = bytearray()
            for part in parts:
                head, _, aim = part.partition(" ")
                if head in _HEADS:
                    head, aim = _HEADS[head], "@" + aim
                if aim.startswith("@"):
                    aim, _, tail = aim[1:].partition(" ")
                    place, end = self._place(aim), bytes.fromhex(tail)
                    body += bytes.fromhex(head)
                    body += (place - begin - len(body) - 4 - len(end)).to_bytes(4, "little", signed=True) + end
                    if head.endswith(("e8", "e9")) or head[-4:-1] == "0f8":
                        calls.append((number, place))
                else:
                    body += bytes.fromhex(part)
            if b"\x0f\xa2" in body or b"\x0f\x01\xd0" in body:
                asks.append(number)
            raw[PAGE * number : PAGE * number + len(body)] = body
            ends.append(begin + len(body))
        for place, text in self.between.items():
            piece = bytes.fromhex(text)
            raw[place - FIRST : place - FIRST + len(piece)] = piece
        named = [-1 if name in set(self.stripped) else number for number, name in enumerate(names)]
        texts = sorted(set(self.sources.values()))
        strings = b"\0" + b"".join(text.encode() + b"\0" for text in texts)
        offsets = [strings.index(b"\0" + text.encode() + b"\0") + 1 for text in texts]
        homes = [len(names) + texts.index(self.sources[name]) if name in self.sources else 0 for name in names]
        functions = Functions(
            start=np.array([self.at(name) for name in names], np.int64),
            end=np.array(ends, np.int64),
            symbol=np.array(named, np.int64),
            table={
                "info": np.array([self._binding(name) << 4 for name in names] + [4] * len(texts), np.int64),
                "name": np.array([0] * len(names) + offsets, np.int64),
            },
            strings=(strings, 0, len(strings)),
            files=np.array(homes if self.files else [], np.int64),
            exported=np.array([name in set(self.exported) | set(self.weak) for name in names], bool),
            names={number: name for number, name in enumerate(names) if named[number] >= 0},
        )
        variables = Variables(DATA, DATA + self.size)
        where = sorted(self.pointers)
        references = References(
            pointers=_pairs((slot, self.at(self.pointers[slot])) for slot in where),
            imports=dict(self.imports),
            stubs=dict(self.stubs),
            started=np.array([self.at(name) for name in self.started], np.int64),
            resolvers=np.array([self.at(name) for name in self.resolvers], np.int64),
            libraries=dict(self.libraries),
        )
        touched = [(self.number(name), address, write) for name, address, write in self.touches]
        function, address, write = (np.array([row[n] for row in touched], np.int64) for n in range(3))
        scan = Scan(
            uses=np.array([(self.number(n), CLASSES.index(c), *r) for n, c, *r in self.uses], np.int64).reshape(-1, 4),
            calls=_pairs(calls),
            takes=_pairs((self.number(one), self.at(other)) for one, other in self.takes),
            reads=_pairs((self.number(one), address) for one, address in self.reads),
            touches=pack(function, address, write.astype(bool), variables),
            asks=np.array(asks, np.int64),
            legacy=np.zeros(0, np.int64),
        )
        data = section(".data", DATA, self.size, WRITE if self.windows else 3)
        view = SimpleNamespace(data=bytes(raw), size=len(raw), what=self.what)
        binary: Any = Pe.__new__(Pe) if self.windows else Elf.__new__(Elf)
        binary.__dict__.update(machine=self.machine, sections=[data, *self.sections], view=view)
        if self.windows or self.cookie is not None:
            binary.__dict__["cookie"] = self.cookie
        code = [Code(FIRST, 0, len(raw))]
        state = np.array(self.state, np.int64)
        return LibraryScan(binary, functions, references, CLASSES, scan, state, code, variables, self.marked)


def section(name: str, address: int, size: int, flags: int = 3) -> Any:
    """A section of either kind of file, as far as the audit looks at it."""
    return SimpleNamespace(name=name, address=address, size=size, virtual_size=size, flags=flags, kind=1)


def _pairs(rows: Iterable[tuple[int, int]]) -> Any:
    return np.array(sorted(rows), np.int64).reshape(-1, 2)
