"""Guarded or not: every function that uses more than the baseline, and why an old CPU would or would not meet it.

*dispatched*    a library that chooses copies itself, or only guarded code or a pointer leads there
*unconditional* reached by plain calls from code that asks nothing of the CPU
*suspect*       reached so too, but inside a library with its own dispatch, whose checks may lie elsewhere
*untold*        a way without a question leads there, but whether an old CPU ever takes it cannot be told
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from rekindle.formats.functions import GLOBAL, WEAK
from rekindle.formats.pe import Pe
from rekindle.inspect.baseline import Spread, spread_of
from rekindle.inspect.code_graph import CodeGraph
from rekindle.inspect.guards import Guard, Guards, short
from rekindle.inspect.isa_scan import LibraryScan
from rekindle.inspect.reach import chain_to, walk

IGNORED = {"base", "bad", "exclusive", "tzcnt"}
SILENT = {"lzcnt", "tzcnt"}
# The guard of a function that got away from a dispatched copy.
LEAKED = "inline code leaked from a copy for a newer CPU"
FEW = "few functions built apart from all others, in a library that asks the CPU"
# How many functions a search upwards may visit, and how many ways down are confirmed by decoding them.
MOST_VISITED = 3000
MOST_CONFIRMED = 24
# Microsoft's compiler puts jump tables between the code; one or two instructions are such numbers, not code for AVX.
TABLES_IN_CODE = 3


@dataclass(frozen=True)
class Exposed:
    """A function that an old CPU would meet; ``chain`` leads from it up to where outside code enters."""

    number: int
    name: str
    file: str
    address: int
    isa: tuple[str, ...]
    chain: tuple[str, ...]
    why: str
    guard: str | None = None


@dataclass(frozen=True)
class Offer:
    """A function that other libraries may call by ``symbol`` and that leads to ``exposed`` without asking the CPU."""

    symbol: str
    exposed: Exposed
    named: bool


@dataclass(frozen=True)
class Taking:
    """A function here that asks nothing of the CPU calls ``symbol`` of another library. ``certain``: outside code
    gets there; without symbols that is not known where only pointers lead there."""

    symbol: str
    chain: tuple[str, ...]
    certain: bool


@dataclass
class Exposure:
    """``dispatched`` counts functions per instruction set, ``guards`` per kind of guard. ``offers`` and ``takings``
    are the two ends of calls between libraries, see :mod:`rekindle.inspect.cross`."""

    functions: int = 0
    unconditional: list[Exposed] = field(default_factory=list)
    suspects: list[Exposed] = field(default_factory=list)
    silent: list[Exposed] = field(default_factory=list)
    untold: list[Exposed] = field(default_factory=list)
    dispatched: Counter[str] = field(default_factory=Counter)
    guards: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    named: bool = True
    offers: list[Offer] = field(default_factory=list)
    takings: list[Taking] = field(default_factory=list)


def classify(library: LibraryScan, guards: Guards) -> Exposure:
    return _Classifier(library, guards).run()


class _Classifier:
    def __init__(self, library: LibraryScan, guards: Guards) -> None:
        self.library = library
        self.functions = library.functions
        self.guards = guards
        self.graph = CodeGraph(library, guards.check_function)
        self.uses: dict[int, dict[str, int]] = defaultdict(dict)
        count: Counter[int] = Counter()
        for number, kind, address, times in library.scan.uses.tolist():
            name = library.classes[kind]
            if name not in ("base", "bad"):
                self.uses[number][name] = address
                count[number] += times
        if isinstance(library.binary, Pe):
            for number in [number for number, times in count.items() if times < TABLES_IN_CODE]:
                del self.uses[number]
        self.named = self.graph.named
        self.base = library.binary.view.what.rsplit("/", 1)[-1]
        self._guard_of: dict[int, Guard | None] = {}
        self._false: set[tuple[int, int]] = set()
        self._tried = 0

    def guard(self, number: int) -> Guard | None:
        if number not in self._guard_of:
            name = self.functions.name(number)
            self._guard_of[number] = self.guards.find(name, self.functions.file(number), self.base)
        return self._guard_of[number]

    def run(self) -> Exposure:
        out = Exposure(functions=len(self.functions), named=self.named)
        for number, used in sorted(self.uses.items()):
            isa = tuple(name for name in used if name not in IGNORED)
            if not isa or self._outlined_atomic(used):
                continue
            guard = self.guard(number)
            if guard is not None and set(isa) <= guard.needs:
                guard = None
            found = None if guard is not None and guard.trust == "whole" else self._exposed(number, guard)
            if found is None:
                self._dispatched(out, number, isa, guard)
                if guard is not None and guard.trust == "callers" and not set(isa) <= SILENT:
                    out.offers += self._offers(number, isa, min(used.values()), guard)
                continue
            chain, why, certain = found
            label = guard.title if guard else LEAKED if self._leaked(number) else None
            exposed = Exposed(
                number, self.functions.name(number), self.functions.file(number), min(used.values()), isa,
                chain, why, label,
            )  # fmt: skip
            if set(isa) <= SILENT:
                out.silent.append(exposed)
            elif label is None and certain:
                self._sort(out, exposed)
            else:
                (out.unconditional if certain else out.suspects).append(exposed)
        out.takings = self._takings()
        return out

    def _dispatched(self, out: Exposure, number: int, isa: Sequence[str], guard: Guard | None) -> None:
        out.dispatched.update(isa)
        out.guards[guard.title if guard else "reached through guarded code or a pointer only"] += 1
        for name in isa:
            if len(out.examples[name]) < 3:
                out.examples[name].append(self.functions.name(number))

    def _sort(self, out: Exposure, exposed: Exposed) -> None:
        """For certain where nobody asks or the code is everywhere in the library; a few functions built apart from
        all others, in a library that asks, are its copies for other CPUs; what lies between cannot be told."""
        asks = self.graph.asks_at_all
        sure = tuple(x for x in exposed.isa if x in self.spread.everywhere) if asks else exposed.isa
        few = tuple(x for x in exposed.isa if x in self.spread.few) if asks else ()
        rest = tuple(x for x in exposed.isa if x not in sure and x not in few and x not in SILENT)
        if sure:
            out.unconditional.append(replace(exposed, isa=sure))
        if rest:
            out.untold.append(replace(exposed, isa=rest))
        if few and not sure and not rest:
            out.dispatched.update(few)
            out.guards[FEW] += 1

    def _offers(self, number: int, isa: tuple[str, ...], address: int, guard: Guard) -> list[Offer]:
        """The exported functions that lead here without asking the CPU: who calls those decides."""
        if self.graph.checks(number):
            return []
        out, seen = [], {number}
        queue = [number]
        for current in queue:
            if current != number and self._blocks(current):
                continue
            if bool(self.functions.exported[current]):
                chain = () if current == number else (self.functions.name(current),)
                name, file = self.functions.name(number), self.functions.file(number)
                exposed = Exposed(number, name, file, address, isa, chain, "", guard.title)
                out.append(Offer(self.functions.name(current), exposed, guard.id == "named"))
            if len(seen) > MOST_VISITED:
                break
            for caller in self.graph.callers(current):
                if caller not in seen:
                    seen.add(caller)
                    queue.append(caller)
        return out

    def _takings(self) -> list[Taking]:
        """Calls into other libraries' functions of the kind whose callers must ask the CPU, by those who do not."""
        out = []
        references = self.library.references
        for slot, symbol in references.imports.items():
            guard = self.guards.find(symbol, "", references.libraries.get(slot, "").lower())
            if guard is None or guard.trust != "callers":
                continue
            open_ = [caller for caller in self.graph.takers(slot) if not self._blocks(caller)]
            chain = next((chain for caller in open_ if (chain := self._way_to(caller))), None)
            if chain is not None:
                out.append(Taking(symbol, chain, True))
            elif open_ and not self.named:
                out.append(Taking(symbol, (self.functions.name(open_[0]),), False))
        return out

    def _way_to(self, number: int) -> tuple[str, ...]:
        """This function and its callers up to where outside code enters."""
        if number not in self.called:
            return ()
        return tuple(map(self.functions.name, [number, *self._confirmed(number)]))

    def _leaked(self, number: int) -> bool:
        """Inline code of which the linker kept the copy made for a newer CPU, for everybody.

        Hidden inline functions turn local and lose their file; one that a dispatched copy also calls came from it.
        """
        own = self.functions.named(number) and self.functions.binding(number) != GLOBAL
        if not own or self.functions.file(number):
            return False
        return any(
            (guard := self.guard(c)) is not None and guard.trust == "whole" for c in self.graph.likely_callers(number)
        )

    def _outlined_atomic(self, used: dict[str, int]) -> bool:
        """LSE beside the older load/store-exclusive loop in one function: it chooses at run time."""
        return "lse" in used and "exclusive" in used and set(used) <= {"lse", "exclusive"}

    def _exposed(self, number: int, guard: Guard | None) -> tuple[tuple[str, ...], str, bool] | None:
        """(chain of callers, reason, certain) if an old CPU would come here; None if it is guarded."""
        # What asks the CPU itself knows when to stop.
        if self.graph.checks(number):
            return None
        return self._entrance(number, guard) or self._called(number, guard) or self._pointed(number, guard)

    def _entrance(self, number: int, guard: Guard | None) -> tuple[tuple[str, ...], str, bool] | None:
        if number in self.graph.started:
            return (), "runs when the library is loaded", True
        if guard is None:
            # A weak symbol is inline code that the linker kept one copy of: others bring their own.
            weak = self.functions.named(number) and self.functions.binding(number) == WEAK
            if self._offered(number) and not weak:
                return (), "exported, and asks nothing of the CPU", True
            if not self.graph.asks_at_all:
                return (), "nothing in this library asks the CPU", True
        return None

    def _called(self, number: int, guard: Guard | None) -> tuple[tuple[str, ...], str, bool] | None:
        chain = self._confirmed(number) or ([] if guard is None else self._called_far(number))
        if not chain:
            return None
        outside = guard is None or (guard.id != "named" and self.guard(chain[0]) is None)
        names = tuple(map(self.functions.name, chain))
        return names, f"called by {names[0]}, which asks nothing of the CPU", outside

    def _called_far(self, number: int) -> list[int]:
        """Called by a function that itself is reached through a pointer only, as an operator's kernel is."""
        for caller in self.graph.callers(number):
            if caller in self.pointed and not self._blocks(caller):
                return [caller, *(node for node in chain_to(caller, self.pointed) if node < len(self.functions))]
        return []

    def _pointed(self, number: int, guard: Guard | None) -> tuple[tuple[str, ...], str, bool] | None:
        """Nobody calls it, but a pointer to it lies where code gets that never asks."""
        if guard is not None or self.pointed.get(number) is None:
            return None
        chain = [node for node in chain_to(number, self.pointed) if node < len(self.functions)]
        names = tuple(map(self.functions.name, chain))
        return names, "a pointer to it is followed by code that asks nothing of the CPU", True

    def _confirmed(self, number: int) -> list[int]:
        """The callers from this function up to where outside code enters; empty if there is no such way."""
        while chain := chain_to(number, self.called):
            if self._tried >= MOST_CONFIRMED:
                return chain
            self._tried += 1
            below = [number, *chain]
            false = next((step for step in zip(chain, below, strict=False) if not self._real(*step)), None)
            if false is None:
                return chain
            # Bytes that only look like a call: search again without it.
            self._false.add(false)
            del self.called
        return []

    def _real(self, caller: int, callee: int) -> bool:
        return self.graph.really_calls(caller, callee)

    @functools.cached_property
    def called(self) -> dict[int, int | None]:
        """What outside code gets to by calls alone."""
        return walk(self.roots, self.graph.by_caller, self._blocks, self._false)

    @functools.cached_property
    def pointed(self) -> dict[int, int | None]:
        """What outside code gets to by calls and pointers."""
        count = len(self.functions)
        return walk(self.roots, self.graph.pointers, lambda node: node < count and self._blocks(node), self._false)

    @functools.cached_property
    def roots(self) -> list[int]:
        likely = set(np.flatnonzero(self.functions.exported).tolist()) | self.graph.started
        return [number for number in sorted(likely) if self._entered_from_outside(number)]

    @functools.cached_property
    def spread(self) -> Spread:
        """Instruction sets that are used all over the library, and those that only a corner uses."""
        plain = {n: used for n, used in self.uses.items() if self.guard(n) is None and not self.graph.checks(n)}
        return spread_of(plain, self.functions.end - self.functions.start, self.library.scan.legacy)

    @functools.cache  # noqa: B019 (lives as long as one library's audit)
    def _blocks(self, number: int) -> bool:
        """Code that is itself a copy for some CPU, or that asks the CPU, lets nobody through."""
        if self.graph.checks(number):
            return True
        if self.guard(number) is None:
            return False
        name, file = short(self.functions.name(number)), self.functions.file(number)
        return any(guard.id != "fbgemm" and guard.covers(name, file) for guard in self.guards.rows)

    def _entered_from_outside(self, number: int) -> bool:
        if number in self.graph.started:
            return True
        # A library with its own dispatch exports functions and keeps tables too; who calls them decides.
        if self.guard(number) is not None:
            return False
        return self._offered(number)

    def _offered(self, number: int) -> bool:
        """May other code call it by name? Of a Python extension, the interpreter knows only its PyInit function."""
        if not self.functions.exported[number]:
            return False
        return not self.extension or self.functions.name(number).startswith("PyInit_")

    @functools.cached_property
    def extension(self) -> bool:
        shown = np.flatnonzero(self.functions.exported).tolist()
        return any(self.functions.name(number).startswith("PyInit_") for number in shown)
