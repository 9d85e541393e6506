"""Guarded or not: every function that uses more than the baseline, and why an old CPU would or would not meet it.

*dispatched*    a library that chooses copies itself, or only guarded code or a pointer leads there
*unconditional* reached by plain calls from code that asks nothing of the CPU
*suspect*       reached so too, but inside a library with its own dispatch, whose checks may lie elsewhere

Routes into a library are found by its calls (:mod:`rekindle.inspect.routes_by_calls`). For libraries that name source
files for the copies they hold (torch), where names tell more than calls do, and for PE code, whose pointers are not
read, they are searched upwards from each function by the names of functions and files.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rekindle.compat.processor import SILENT
from rekindle.formats.functions import GLOBAL, WEAK
from rekindle.formats.pe import Pe
from rekindle.inspect.code_graph import CodeGraph
from rekindle.inspect.guards import Guard, Guards
from rekindle.inspect.isa_scan import LibraryScan
from rekindle.inspect.reach import Judgement, Route, Uses, climb, way_to
from rekindle.inspect.routes_by_calls import RoutesByCalls

IGNORED = {"base", "bad", "exclusive", "tzcnt"}
# Microsoft's compiler puts jump tables between the code; one or two instructions are such numbers, not code for AVX.
TABLES_IN_CODE = 3


@dataclass(frozen=True)
class ExposedCode:
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
    exposed: ExposedCode
    named: bool


@dataclass(frozen=True)
class ForeignCall:
    """A function here that asks nothing of the CPU calls ``symbol`` of another library. ``certain``: outside code
    gets there; without symbols that is not known where only pointers lead there."""

    symbol: str
    chain: tuple[str, ...]
    certain: bool


@dataclass
class Exposure:
    """``dispatched`` counts functions per instruction set, ``guards`` per kind of guard. ``offers`` and
    ``foreign_calls`` are the two ends of calls between libraries, see :mod:`rekindle.inspect.cpu`."""

    functions: int = 0
    unconditional: list[ExposedCode] = field(default_factory=list)
    suspects: list[ExposedCode] = field(default_factory=list)
    silent: list[ExposedCode] = field(default_factory=list)
    untold: list[ExposedCode] = field(default_factory=list)
    dispatched: Counter[str] = field(default_factory=Counter)
    guards: Counter[str] = field(default_factory=Counter)
    named: bool = True
    asks: bool = False
    offers: list[Offer] = field(default_factory=list)
    foreign_calls: list[ForeignCall] = field(default_factory=list)


def classify(library: LibraryScan, guards: Guards) -> Exposure:
    """Every function of a library that uses more than the baseline, sorted into what an old CPU meets and what not."""
    return _Classifier(library, guards).run()


class _Classifier:
    def __init__(self, library: LibraryScan, guards: Guards) -> None:
        self.library = library
        self.functions = functions = library.functions
        self.base = library.binary.view.what.rpartition("/")[2]
        self.guards = guards
        # The guard that a function carries, by its name or that of its file or library.
        self.guard_of = functools.cache(lambda n: guards.find(functions.name(n), functions.file(n), self.base))
        self.graph = CodeGraph(library, guards.check_function)
        self.uses = _isa_uses(library)
        self.out = Exposure(functions=len(self.functions), named=self.graph.named, asks=self.graph.asks_at_all)
        # Where files are named for the copies they hold (torch), names tell more; of PE code the pointers are not read.
        self.routes: RoutesByNames | RoutesByCalls
        if isinstance(library.binary, Pe) or library.marked:
            self.routes = RoutesByNames(self.graph, self.uses, self.guard_of, guards)
        else:
            self.routes = RoutesByCalls(self.graph, self.uses, lambda n: self.guard_of(n) is not None, guards.telling)

    def run(self) -> Exposure:
        for number, used in sorted(self.uses.items()):
            isa = tuple(name for name in used if name not in IGNORED)
            # LSE beside the older load/store-exclusive loop in one function: it chooses at run time.
            if not isa or used.keys() == {"lse", "exclusive"}:
                continue
            guard = self.guard_of(number)
            if guard is not None and not set(isa) <= guard.needs:
                self._add_copy(number, isa, used, guard)
                continue
            # No copy by its name: how outside code gets there decides.
            judgement = self.routes.judge(number, isa)
            if not judgement.sure and not judgement.untold:
                self._add_dispatched(isa, "reached through guarded code or a pointer only")
            for names, kind in ((judgement.sure, self.out.unconditional), (judgement.untold, self.out.untold)):
                if names:
                    self._add_exposed(number, names, used, judgement, kind)
        self.out.foreign_calls = self._foreign_calls()
        return self.out

    def _add_copy(self, number: int, isa: tuple[str, ...], used: Mapping[str, int], guard: Guard) -> None:
        """A copy for newer CPUs by its name, or that of its file or library: does anything call it without asking?"""
        judgement, certain = None, True
        if guard.trust != "whole" and number in self.graph.started:
            judgement = Judgement(isa, why="runs when the library is loaded", guard=guard.title)
        elif guard.trust != "whole" and (route := self.routes.route_to_caller(number)) is not None:
            why = f"called by {route.names[0]}, which asks nothing of the CPU"
            judgement = Judgement(isa, chain=route.names, why=why, guard=guard.title)
            certain = guard.id != "named" and self.guard_of(route.caller) is None
        # What asks the CPU itself knows when to stop; asked last, because it costs a decoding.
        if judgement is not None and not self.graph.checks(number):
            self._add_exposed(number, isa, used, judgement, self.out.unconditional if certain else self.out.suspects)
            return
        self._add_dispatched(isa, guard.title)
        if guard.trust == "callers" and not set(isa) <= SILENT:
            self.out.offers += self._offers(number, isa, min(used.values()), guard)

    def _add_dispatched(self, isa: tuple[str, ...], guard: str) -> None:
        self.out.dispatched.update(isa)
        self.out.guards[guard] += 1

    def _add_exposed(
        self, number: int, isa: tuple[str, ...], used: Mapping[str, int], judgement: Judgement, kind: list[ExposedCode]
    ) -> None:
        """What gives wrong numbers without a crash is kept apart, and not named beside what crashes."""
        crashing = tuple(name for name in isa if name not in SILENT)
        places = [used[name] for name in crashing]
        at_load = bool(crashing) and kind is self.out.unconditional and self.routes.runs_at_load(number, places)
        what = (number, self.functions.name(number), self.functions.file(number), min(used.values()), crashing or isa)
        how = (judgement.chain, judgement.why, judgement.guard, judgement.entries)
        (kind if crashing else self.out.silent).append(ExposedCode(*what, *how, at_load=at_load))

    def _offers(self, number: int, isa: tuple[str, ...], address: int, guard: Guard) -> list[Offer]:
        """The exported functions that lead here without asking the CPU: who calls those decides."""
        if not self.routes.offers or self.graph.checks(number):
            return []
        out = []
        closed, name, file = self.routes.is_closed, self.functions.name(number), self.functions.file(number)
        for node, came in climb([number], self.routes.callers, closed=lambda node: node != number and closed(node)):
            if bool(self.functions.exported[node]):
                symbol = self.functions.name(node)
                chain = () if node == number else (symbol,)
                exposed = ExposedCode(number, name, file, address, isa, chain, "", guard.title)
                out.append(Offer(symbol, exposed, guard.id == "named"))
            if len(came) > MOST_VISITED:
                break
        return out

    def _foreign_calls(self) -> list[ForeignCall]:
        """Calls into other libraries' functions of the kind whose callers must ask the CPU, by those who do not."""
        out, references = [], self.library.references
        for slot, symbol in references.imports.items():
            guard = self.guards.find(symbol, "", references.libraries.get(slot, "").lower())
            callers = self.graph.by_slot.of(slot) if guard is not None and guard.trust == "callers" else []
            open_ = [caller for caller in callers if not self.routes.is_closed(caller)]
            chain = next((chain for caller in open_ if (chain := self.routes.route_to(caller)) is not None), None)
            if chain is not None:
                out.append(ForeignCall(symbol, chain, True))
            elif open_ and not self.graph.named:
                out.append(ForeignCall(symbol, (self.functions.name(open_[0]),), False))
        return out


def _isa_uses(library: LibraryScan) -> dict[int, dict[str, int]]:
    """Of each function that uses more than the baseline: its instruction sets, and where each is used first."""
    uses: dict[int, dict[str, int]] = defaultdict(dict)
    count: Counter[int] = Counter()
    for number, kind, address, times in library.scan.uses.tolist():
        name = library.classes[kind]
        if name not in ("base", "bad"):
            uses[number][name] = address
            count[number] += times
    fewest = TABLES_IN_CODE if isinstance(library.binary, Pe) else 0
    return {number: used for number, used in uses.items() if count[number] >= fewest}


# The guard of a function that got away from a dispatched copy.
LEAKED = "inline code leaked from a copy for a newer CPU"
# How many functions a search upwards may visit before the answer is "somebody unguarded calls it".
MOST_VISITED = 3000


class RoutesByNames:
    """How outside code gets to the functions of one library without meeting a question to the CPU, which
    :class:`RoutesByCalls` answers too; ``uses`` are the functions with more than the baseline."""

    # Other libraries may call what is exported.
    offers = True

    def __init__(self, graph: CodeGraph, uses: Uses, guard_of: Callable[[int], Guard | None], table: Guards) -> None:
        self.graph, self.functions, self.callers = graph, graph.functions, graph.callers
        self.uses, self.guard_of, self.table = uses, guard_of, table

    def judge(self, number: int, isa: tuple[str, ...]) -> Judgement:
        """Everybody meets it or nobody does: names leave no doubt."""
        chain: tuple[str, ...] = ()
        if number in self.graph.started:
            why = "runs when the library is loaded"
        # A weak symbol is inline code that the linker kept one copy of: others bring their own.
        elif bool(self.functions.exported[number]) and self.functions.binding(number) != WEAK:
            why = "exported, and asks nothing of the CPU"
        elif not self.graph.asks_at_all:
            why = "nothing in this library asks the CPU"
        elif (route := self.route_to_caller(number)) is not None:
            chain, why = route.names, f"called by {route.names[0]}, which asks nothing of the CPU"
        else:
            return Judgement()
        # What asks the CPU itself knows when to stop; asked last, because it costs a decoding.
        if self.graph.checks(number):
            return Judgement()
        return Judgement(isa, chain=chain, why=why, guard=LEAKED if self._is_leaked(number) else None)

    def _is_leaked(self, number: int) -> bool:
        """Inline code of which the linker kept the copy made for a newer CPU, for everybody. Hidden inline functions
        turn local and lose their file; one that a dispatched copy also calls came from it."""
        is_local = self.functions.named(number) and self.functions.binding(number) != GLOBAL
        guards = map(self.guard_of, self.callers(number) if is_local and not self.functions.file(number) else ())
        return any(guard is not None and guard.trust == "whole" for guard in guards)

    def is_closed(self, number: int) -> bool:
        """Code that is itself a copy for some CPU, or that asks the CPU, lets nobody through."""
        # By its own name or its file's: a whole library's says nothing of who asks.
        name, file = self.functions.name(number), self.functions.file(number)
        is_copy = any(guard.id != "fbgemm" and guard.covers(name, file) for guard in self.table.rows)
        return is_copy or self.graph.checks(number)

    def route_to_caller(self, number: int) -> Route | None:
        """The first caller to which outside code gets, and the way there; None where there is none."""
        ways = ((caller, self.route_to(caller)) for caller in self.callers(number))
        return next((Route(caller, names) for caller, names in ways if names is not None), None)

    def route_to(self, number: int) -> tuple[str, ...] | None:
        """This function and its callers up to where outside code enters; None where there is no such way."""
        for node, came in climb([number], self.callers, closed=self.is_closed):
            if self._entered_from_outside(node):
                return tuple(map(self.functions.name, way_to(node, came)))
            if len(came) > MOST_VISITED:
                return (self.functions.name(number),)
        return None

    def runs_at_load(self, number: int, places: list[int]) -> bool:
        """Not asked here: it takes the roads through each function."""
        return False

    def _entered_from_outside(self, number: int) -> bool:
        # A library with its own dispatch exports functions and keeps tables too; who calls them decides.
        if number in self.graph.started or self.guard_of(number) is not None:
            return number in self.graph.started
        is_pointed_to = self.graph.named and number in self.graph.pointed_to and not self.uses.get(number)
        return is_pointed_to or bool(self.functions.exported[number])
