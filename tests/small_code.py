"""A library as the audit of its code sees it, made by hand: a few functions of real x86-64 bytes, one page each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from rekindle.formats.code_scan import Scan, Variables, pack
from rekindle.formats.functions import Code, Functions
from rekindle.formats.references import References
from rekindle.inspect.isa_scan import LibraryScan

FIRST, PAGE = 0x1000, 0x1000
DATA = 0x100000
GLOBAL, WEAK = 1, 2
_HEADS = {"call": "e8", "jmp": "e9", "je": "0f84"}


@dataclass
class Made:
    """``code``: name -> its instructions, as bytes in hex, or ``call NAME``, ``jmp NAME``, ``je NAME``."""

    code: Mapping[str, Sequence[str]]
    exported: Iterable[str] = ()
    weak: Iterable[str] = ()
    started: Iterable[str] = ()
    resolvers: Iterable[str] = ()
    stripped: Iterable[str] = ()
    pointers: Mapping[int, str | int] = field(default_factory=dict)
    imports: Mapping[int, str] = field(default_factory=dict)
    stubs: Mapping[int, int] = field(default_factory=dict)
    takes: Iterable[tuple[str, str]] = ()
    reads: Iterable[tuple[str, int]] = ()
    touches: Iterable[tuple[str, int, bool]] = ()
    state: Sequence[int] = ()
    size: int = 0x1000
    files: int = 1
    machine: str = "x86_64"

    def at(self, name: str | int) -> int:
        return name if isinstance(name, int) else FIRST + PAGE * list(self.code).index(name)

    def number(self, name: str) -> int:
        return list(self.code).index(name)

    def scan(self) -> LibraryScan:
        names = list(self.code)
        raw, ends, calls, asks = bytearray(PAGE * len(names)), [], [], []
        for number, (name, parts) in enumerate(self.code.items()):
            begin = self.at(name)
            body = bytearray()
            for part in parts:
                head, _, aim = part.partition(" ")
                if head in _HEADS:
                    body += bytes.fromhex(_HEADS[head])
                    place = int(aim, 16) if aim.startswith("0x") else self.at(aim)
                    body += (place - begin - len(body) - 4).to_bytes(4, "little", signed=True)
                    calls.append((number, place))
                else:
                    body += bytes.fromhex(part)
            if b"\x0f\xa2" in body or b"\x0f\x01\xd0" in body:
                asks.append(number)
            raw[PAGE * number : PAGE * number + len(body)] = body
            ends.append(begin + len(body))
        count = len(names)
        binding = [WEAK if name in set(self.weak) else GLOBAL for name in names]
        named = [-1 if name in set(self.stripped) else number for number, name in enumerate(names)]
        functions = Functions(
            start=np.array([self.at(name) for name in names], np.int64),
            end=np.array(ends, np.int64),
            symbol=np.array(named, np.int64),
            table={"info": np.array([one << 4 for one in binding], np.int64), "name": np.zeros(count, np.int64)},
            strings=(b"\0", 0, 1),
            files=np.zeros(self.files, np.int64),
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
        )
        touched = [(self.number(name), address, write) for name, address, write in self.touches]
        function, address, write = (np.array([row[n] for row in touched], np.int64) for n in range(3))
        scan = Scan(
            uses=np.zeros((0, 4), np.int64),
            calls=_pairs(calls),
            takes=_pairs((self.number(one), self.at(other)) for one, other in self.takes),
            reads=_pairs((self.number(one), address) for one, address in self.reads),
            touches=pack(function, address, write.astype(bool), variables),
            asks=np.array(asks, np.int64),
            legacy=np.zeros(0, np.int64),
        )
        data = SimpleNamespace(name=".data", address=DATA, size=self.size, flags=3, kind=1)
        binary: Any = SimpleNamespace(
            machine=self.machine, sections=[data], view=SimpleNamespace(data=bytes(raw), size=len(raw))
        )
        return LibraryScan(
            cast(Any, binary),
            functions,
            references,
            ("avx2",),
            scan,
            np.array(self.state, np.int64),
            [Code(FIRST, 0, len(raw))],
            variables,
        )


def _pairs(rows: Iterable[tuple[int, int]]) -> Any:
    return np.array(sorted(rows), np.int64).reshape(-1, 2)
