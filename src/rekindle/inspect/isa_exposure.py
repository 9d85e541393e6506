"""Guarded or not: every function that uses more than the baseline, and why an old CPU would or would not meet it.

*dispatched*    a library that chooses copies itself, or only guarded code or a pointer leads there
*unconditional* reached by plain calls from code that asks nothing of the CPU
*suspect*       reached so too, but inside a library with its own dispatch, whose checks may lie elsewhere
"""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from rekindle.compat.operators import SILENT
from rekindle.formats.functions import GLOBAL, WEAK
from rekindle.formats.pe import Pe
from rekindle.inspect.code_graph import CodeGraph
from rekindle.inspect.guards import Guard, Guards
from rekindle.inspect.isa_scan import LibraryScan
from rekindle.inspect.judge import Judge
from rekindle.inspect.reach import UNREACHED, chain_to

IGNORED = {"base", "bad", "exclusive", "tzcnt"}
# The guard of a function that got away from a dispatched copy.
LEAKED = "inline code leaked from a copy for a newer CPU"
# How many functions a search upwards may visit before the answer is "somebody unguarded calls it".
MOST_VISITED = 3000
# Microsoft's compiler puts jump tables between the code; one or two instructions are such numbers, not code for AVX.
TABLES_IN_CODE = 3


@dataclass(frozen=True)
class Exposed:
    """A function that an old CPU would meet; ``chain`` leads from it up to where outside code enters, ``entries``
    are the exported functions it enters by, where there is no other way. ``at_load``: whoever loads it meets it."""

    number: int
    name: str
    file: str
    address: int
    isa: tuple[str, ...]
    chain: tuple[str, ...]
    why: str
    guard: str | None = None
    entries: frozenset[str] | None = None
    at_load: bool = False


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
    asks: bool = False
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

    def guard(self, number: int) -> Guard | None:
        if number not in self._guard_of:
            name = self.functions.name(number)
            self._guard_of[number] = self.guards.find(name, self.functions.file(number), self.base)
        return self._guard_of[number]

    def run(self) -> Exposure:
        out = Exposure(functions=len(self.functions), named=self.named, asks=self.graph.asks_at_all)
        for number, used in sorted(self.uses.items()):
            isa = tuple(name for name in used if name not in IGNORED)
            if not isa or self._outlined_atomic(used):
                continue
            guard = self.guard(number)
            if guard is not None and set(isa) <= guard.needs:
                guard = None
            if guard is None and self.judge is not None:
                self._judge(out, number, isa, used)
                continue
            found = None if guard is not None and guard.trust == "whole" else self._exposed(number, guard)
            if found is None:
                out.dispatched.update(isa)
                out.guards[guard.title if guard else "reached through guarded code or a pointer only"] += 1
                for name in isa:
                    if len(out.examples[name]) < 3:
                        out.examples[name].append(self.functions.name(number))
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
            else:
                (out.unconditional if certain else out.suspects).append(exposed)
        out.takings = self._takings()
        return out

    @functools.cached_property
    def judge(self) -> Judge | None:
        """Three answers, by what calls what. Where source files are named for the copies they hold (torch), names tell
        more; of PE code the pointers are not read."""
        if isinstance(self.library.binary, Pe) or self.library.marked:
            return None
        return Judge(self.library, self.graph, self.uses, self._is_copy, self.guards.telling)

    def _is_copy(self, number: int) -> bool:
        return self.guard(number) is not None

    def _judge(self, out: Exposure, number: int, isa: tuple[str, ...], used: dict[str, int]) -> None:
        assert self.judge is not None
        address = min(used.values())
        found = self.judge.answer(number, isa)
        name, file = self.functions.name(number), self.functions.file(number)
        loud = False
        for names, kind in ((found.sure, out.unconditional), (found.untold, out.untold)):
            audible = tuple(one for one in names if one not in SILENT)
            if names and not audible:
                kind = out.silent
            if names:
                loud = True
                places = [used[one] for one in audible]
                early = kind is out.unconditional and self.judge.runs_at_load(number, places)
                kind.append(
                    Exposed(
                        number,
                        name,
                        file,
                        address,
                        audible or names,
                        found.chain,
                        found.why,
                        entries=found.entries,
                        at_load=early,
                    )
                )
        if not loud:
            out.dispatched.update(isa)
            out.guards["reached through guarded code or a pointer only"] += 1
            for one in isa:
                if len(out.examples[one]) < 3:
                    out.examples[one].append(name)

    def _offers(self, number: int, isa: tuple[str, ...], address: int, guard: Guard) -> list[Offer]:
        """The exported functions that lead here without asking the CPU: who calls those decides."""
        if self.judge is not None and self.judge.extension:
            return []
        callers = self.graph.callers if self.judge is None else self.judge.by_callee.of
        if self.graph.checks(number):
            return []
        out, seen = [], {number}
        queue = [number]
        for current in queue:
            if current != number and self._closed(current):
                continue
            if bool(self.functions.exported[current]):
                chain = () if current == number else (self.functions.name(current),)
                name, file = self.functions.name(number), self.functions.file(number)
                exposed = Exposed(number, name, file, address, isa, chain, "", guard.title)
                out.append(Offer(self.functions.name(current), exposed, guard.id == "named"))
            if len(seen) > MOST_VISITED:
                break
            for caller in callers(current):
                if caller not in seen:
                    seen.add(caller)
                    queue.append(caller)
        return out

    def _closed(self, number: int) -> bool:
        return self._blocks(number) if self.judge is None else bool(self.judge.blocked[number])

    def _takings(self) -> list[Taking]:
        """Calls into other libraries' functions of the kind whose callers must ask the CPU, by those who do not."""
        out = []
        references = self.library.references
        for slot, symbol in references.imports.items():
            guard = self.guards.find(symbol, "", references.libraries.get(slot, "").lower())
            if guard is None or guard.trust != "callers":
                continue
            open_ = [caller for caller in self.graph.takers(slot) if not self._closed(caller)]
            chain = next((chain for caller in open_ if (chain := self._way_to(caller)) is not None), None)
            if chain is not None:
                out.append(Taking(symbol, chain, True))
            elif open_ and not self.named:
                out.append(Taking(symbol, (self.functions.name(open_[0]),), False))
        return out

    def _way_to(self, number: int) -> tuple[str, ...] | None:
        """This function and its callers up to where outside code enters; None where there is no such way."""
        if self.judge is None:
            return self._unguarded_path(number)
        if self.judge.called[number] == UNREACHED:
            return None
        return tuple(map(self.functions.name, [number, *chain_to(number, self.judge.called)][:12]))

    def _leaked(self, number: int) -> bool:
        """Inline code of which the linker kept the copy made for a newer CPU, for everybody.

        Hidden inline functions turn local and lose their file; one that a dispatched copy also calls came from it.
        """
        own = self.functions.named(number) and self.functions.binding(number) != GLOBAL
        if not own or self.functions.file(number):
            return False
        return any((guard := self.guard(c)) is not None and guard.trust == "whole" for c in self.graph.callers(number))

    def _outlined_atomic(self, used: dict[str, int]) -> bool:
        """LSE beside the older load/store-exclusive loop in one function: it chooses at run time."""
        return "lse" in used and "exclusive" in used and set(used) <= {"lse", "exclusive"}

    def _exposed(self, number: int, guard: Guard | None) -> tuple[tuple[str, ...], str, bool] | None:
        """(chain of callers, reason, certain) if an old CPU would come here; None if it is guarded."""
        found = self._entrance(number, guard) or self._called(number, guard)
        # What asks the CPU itself knows when to stop; asked last, because it costs a decoding.
        return None if found is None or self.graph.checks(number) else found

    def _entrance(self, number: int, guard: Guard | None) -> tuple[tuple[str, ...], str, bool] | None:
        if number in self.graph.started:
            return (), "runs when the library is loaded", True
        if guard is None:
            # A weak symbol is inline code that the linker kept one copy of: others bring their own.
            weak = self.functions.named(number) and self.functions.binding(number) == WEAK
            if bool(self.functions.exported[number]) and not weak:
                return (), "exported, and asks nothing of the CPU", True
            if not self.graph.asks_at_all:
                return (), "nothing in this library asks the CPU", True
        return None

    def _called(self, number: int, guard: Guard | None) -> tuple[tuple[str, ...], str, bool] | None:
        if self.judge is not None:
            return self._called_by_name(number, guard)
        for caller in self.graph.callers(number):
            chain = self._unguarded_path(caller)
            if chain is not None:
                outside = guard is None or (guard.id != "named" and self.guard(caller) is None)
                return chain, f"called by {chain[0]}, which asks nothing of the CPU", outside
        return None

    def _called_by_name(self, number: int, guard: Guard | None) -> tuple[tuple[str, ...], str, bool] | None:
        """A copy by its name: does code call it that outside code gets to without a question?"""
        judge = self.judge
        assert judge is not None
        if judge.called[number] == UNREACHED:
            return None
        chain = chain_to(number, judge.called)
        if not chain or not self.graph.calls(chain[0], number):
            return None
        names = tuple(map(self.functions.name, chain[:12]))
        outside = guard is None or (guard.id != "named" and self.guard(chain[0]) is None)
        return names, f"called by {names[0]}, which asks nothing of the CPU", outside

    def _unguarded_path(self, number: int) -> tuple[str, ...] | None:
        """From a caller up to an entry point without meeting a guard: the names on the way, or None."""
        parents: dict[int, int | None] = {number: None}
        queue = [number]
        for current in queue:
            if self._blocks(current):
                continue
            if self._entered_from_outside(current):
                chain: list[str] = []
                step: int | None = current
                while step is not None:
                    chain.append(self.functions.name(step))
                    step = parents[step]
                return tuple(reversed(chain))
            if len(parents) > MOST_VISITED:
                return (self.functions.name(number),)
            for caller in self.graph.callers(current):
                if caller not in parents:
                    parents[caller] = current
                    queue.append(caller)
        return None

    def _blocks(self, number: int) -> bool:
        """Code that is itself a copy for some CPU, or that asks the CPU, lets nobody through."""
        name, file = self.functions.name(number), self.functions.file(number)
        copy = any(guard.id != "fbgemm" and guard.covers(name, file) for guard in self.guards.rows)
        return copy or self.graph.checks(number)

    def _entered_from_outside(self, number: int) -> bool:
        if number in self.graph.started:
            return True
        # A library with its own dispatch exports functions and keeps tables too; who calls them decides.
        if self.guard(number) is not None:
            return False
        if bool(self.functions.exported[number]):
            return True
        return self.named and self.graph.taken(number) and not self.uses.get(number)
