"""Routes into a library by its calls and pointers, with three answers for code that needs more than the baseline.

*dispatched*     outside code gets there only through functions that ask the CPU, or through a test between two copies
*unconditional*  nothing in the library asks; or the instruction set is used all over it; or a function that others can
                 call has it, or calls it on every road through it
*untold*         a way without a question leads there, but whether it is taken on an old CPU is not seen in the file
"""

import functools
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from rekindle.formats.code_scan import Flags, Ints
from rekindle.formats.functions import WEAK
from rekindle.inspect import reach
from rekindle.inspect.baseline import FEW, SECOND, Spread, spread_of
from rekindle.inspect.branches import Roads, arm64_roads, x86_roads
from rekindle.inspect.code_graph import CodeGraph
from rekindle.inspect.reach import UNREACHED, Edges, Judgement, Route, Uses, chain_to, climb, way_to

# Copies of one function have about the same size.
MOST_RATIO = 8
MOST_EDGES = 20_000
MOST_CHAIN = 12
MANY_OFFERED = 16
BATCH = 64
MOST_ASKED, MOST_BACK = 64, 4000
# The guard of what a library with copies for several CPUs offers by name.
LONE_EXPORT = "exported beside copies that are chosen at run time"
# A C++ template that is told apart by a level: its name, as compilers spell it, has this in it.
_LEVEL = "ILNS"
# Instruction sets and numbers in a name, which is where copies of one function differ.
_MARK = re.compile(r"(?i)avx\w{0,4}|sse\d?|fma|neon|sve|default|generic|scalar|\d+")


class RoutesByCalls:
    """One library. ``uses``: functions beyond the baseline; ``copy``: is it one by name; ``telling``: worth asking?"""

    def __init__(
        self, graph: CodeGraph, uses: Uses, copy: Callable[[int], bool], telling: Callable[[str], bool]
    ) -> None:
        self.graph, self.library, self.functions = graph, graph.library, graph.functions
        self.copy, self.telling = copy, telling
        self.count = len(self.functions)
        self.uses = {number: frozenset(used) - {"exclusive"} for number, used in uses.items()}
        self._asked = 0
        self._caller, self._callee = graph.edges
        self.by_caller = Edges(self._caller, self._callee)
        self.callers = Edges(self._callee, self._caller).of

    def judge(self, number: int, isa: tuple[str, ...]) -> Judgement:
        """By what calls what and where pointers lie, whatever the names say."""
        if not (self.graph.asks_at_all or self.graph.resolvers):
            return Judgement(isa, why="nothing in this library asks the CPU")
        if bool(self.blocked[number]) and number not in self.first:
            return Judgement()
        sure = tuple(name for name in isa if name in self.spread.everywhere)
        if not (others := tuple(name for name in isa if name not in sure)):
            return Judgement(sure, chain=self._names(chain_to(number, self.called)), why="used all over the library")
        if self._twin_by_name(number, frozenset(others)):
            return Judgement(sure, why="used all over the library")
        if number in self.roots:
            started = number in self.graph.started
            why = "runs when the library is loaded" if started else "exported, and asks nothing of the CPU"
            guard = LONE_EXPORT if not sure and self._is_lone_export(number, others) else None
            return Judgement(isa, why=why, entries=self._entries(number), guard=guard)
        if chain := self._certain_way(number):
            names = self._names(chain)
            why = f"called by {names[0]}, which asks nothing of the CPU"
            return Judgement(isa, chain=names, why=why, entries=self._entries(number))
        if self.called[number] != UNREACHED:
            names = self._names(chain_to(number, self.called))
            why = f"called by {names[0]}, but not on every road through it"
            return Judgement(sure, others, names, why, None if sure else self._entries(number))
        if self.pointed[number] != UNREACHED:
            names = self._names([node for node in chain_to(number, self.pointed) if node < self.count])
            # A corner of a library that asks, to which only pointers lead, is what choosing at run time looks like.
            untold = tuple(name for name in others if name not in self.spread.few)
            return Judgement(sure, untold, names, "a pointer to it lies where code gets that asks nothing of the CPU")
        return Judgement(sure, why="used all over the library")

    def _is_lone_export(self, number: int, isa: tuple[str, ...]) -> bool:
        """A function left open beside many copies that the library chooses at run time (parasail_memset___m256i beside
        312): whoever calls it by name must ask, and nobody else meets it."""
        using = ([other for other, used in self.uses.items() if name in used] for name in isa)
        is_few = (sum(other in self.roots for other in others) <= FEW * len(others) for others in using)
        return number not in self.first and all(is_few)

    def is_closed(self, number: int) -> bool:
        return bool(self.blocked[number])

    def route_to_caller(self, number: int) -> Route | None:
        # Of what is not reached the chain is empty.
        chain = chain_to(number, self.called)
        return Route(chain[0], self._names(chain)) if chain and self.graph.calls(chain[0], number) else None

    def route_to(self, number: int) -> tuple[str, ...] | None:
        return None if self.called[number] == UNREACHED else self._names([number, *chain_to(number, self.called)])

    def runs_at_load(self, number: int, places: list[int]) -> bool:
        """Does every road pass it, in a function that the loader calls or that such a function calls on every road?"""
        roads = self._roads(number) if number in self._at_load else None
        return roads is not None and any(map(roads.passes, places))

    @functools.cached_property
    def _at_load(self) -> frozenset[int]:
        came: dict[int, int] = {}
        for _, came in climb(sorted(self.graph.started), self.by_caller.of, takes=self._always):
            if len(came) > MOST_BACK:
                break
        return frozenset(came)

    def _entries(self, number: int) -> frozenset[str] | None:
        """The exported functions that lead here by calls and pointers; None: the loader does, or it is too much."""
        self._asked += 1
        if self._asked > MOST_ASKED:
            return None
        out = set()
        blocked = set(np.flatnonzero(self.blocked).tolist())
        for node, came in climb([number], self._backward.of, takes=lambda _, before: before not in blocked):
            if node in self.first or len(came) > MOST_BACK:
                return None
            if node in self.roots:
                out.add(self.functions.name(node))
        return frozenset(out)

    @functools.cached_property
    def _backward(self) -> Edges:
        graph, _ = reach.pointer_edges(self.library, *self.edges, self.graph.numbers, self._silent)
        return graph.reversed()

    def _names(self, chain: Sequence[int]) -> tuple[str, ...]:
        return tuple(map(self.functions.name, chain[:MOST_CHAIN]))

    @functools.cached_property
    def offers(self) -> bool:
        """The interpreter takes nothing of a Python extension but its PyInit function, and nobody else anything."""
        return not self._inits

    @functools.cached_property
    def _inits(self) -> frozenset[int]:
        return frozenset(number for number in self._exported if self.functions.name(number).startswith("PyInit_"))

    @functools.cached_property
    def _exported(self) -> list[int]:
        return np.flatnonzero(self.functions.exported).tolist()

    @functools.cached_property
    def first(self) -> frozenset[int]:
        """What runs at loading: it calls what fills the tables, which makes it no guard of all else it calls."""
        return self._inits.union(self.graph.started)

    @functools.cached_property
    def roots(self) -> frozenset[int]:
        if self._inits:
            return self.first
        # A weak symbol is inline code that the linker kept one copy of: others bring their own.
        strong = (number for number in self._exported if self.functions.binding(number) != WEAK)
        return self.first.union(number for number in strong if not self.copy(number))

    @functools.cached_property
    def blocked(self) -> Flags:
        """Functions that ask the CPU, themselves or through a small one they call; copies by name; ifunc resolvers."""
        askers = self.graph.asking | set(self.graph.import_askers)
        asking = self._flags(askers)
        state = reach.find_state(self.library, askers, self.callers)
        knowing = self._flags(reach.readers_of(self.library, state) | self.graph.state_readers | self.graph.resolvers)
        question = asking | self._flags(filter(self.graph.is_question, set(self._callee.tolist())))
        first = self._flags(self.first)
        out = asking | knowing
        out[self._caller[question[self._callee]]] = True
        small = (self.functions.end - self.functions.start) <= reach.SMALL
        far = self._flags(self._caller[asking[self._callee]].tolist())
        out[self._caller[(small & (knowing | far))[self._callee]]] = True
        out[first] = False
        # A copy uses what it is a copy for, or calls what does, or says so in its name.
        near = {*self.uses, *self._caller[np.isin(self._callee, sorted(self.uses))].tolist()}
        near |= {number for number in range(self.count) if self.telling(self.functions.name(number))}
        out[[number for number in sorted(near) if self.copy(number)]] = True
        self._silent = (asking | knowing) & first
        return out

    def _flags(self, numbers: Iterable[int]) -> Flags:
        out = np.zeros(self.count, bool)
        out[list(numbers)] = True
        return out

    @functools.cached_property
    def edges(self) -> tuple[Ints, Ints]:
        """The calls, without those that a test chooses between two copies."""
        beyond = self._flags(n for n, used in self.uses.items() if not used <= self.spread.everywhere)
        chosen = np.zeros(len(self._caller), bool)
        if not beyond.any():
            return self._caller, self._callee
        reached = self._walk(self._caller, self._callee)[: self.count] != UNREACHED
        likely = np.flatnonzero(beyond[self._callee] & ~self.blocked[self._caller] & reached[self._caller])[:MOST_EDGES]
        likely = likely[np.argsort(self._caller[likely], kind="stable")]
        callers, first = np.unique(self._caller[likely], return_index=True)
        rows = np.split(likely, first[1:])
        for begin in range(0, len(callers), BATCH):
            numbers = callers[begin : begin + BATCH].tolist()
            for mine, roads in zip(rows[begin : begin + BATCH], self._all_roads(numbers), strict=True):
                if roads.rivals:
                    chosen[mine] = [self._is_chosen(roads, int(self._callee[row])) for row in mine.tolist()]
        return self._caller[~chosen], self._callee[~chosen]

    def _is_chosen(self, roads: Roads, callee: int) -> bool:
        """Is the callee one of two copies between which the caller chooses? The other lacks its instruction set."""
        size, addresses = self._size(callee), self.graph.stubs_to(callee)
        rivals = (self.graph.number_at(rival) for address in addresses for rival in roads.rivals.get(address, ()))
        others = (n for n in rivals if n is not None and not self.uses[callee] <= self.uses.get(n, frozenset()))
        sizes = ((size, self._size(other)) for other in others)
        return any(max(pair) <= MOST_RATIO * min(pair) for pair in sizes)

    def _walk(self, caller: Ints, callee: Ints) -> Ints:
        """What outside code gets to by calls and pointers; nodes after the functions are places in data."""
        blocked = self.blocked
        graph, nodes = reach.pointer_edges(self.library, caller, callee, self.graph.numbers, self._silent)
        wide = np.append(blocked, np.zeros(nodes - self.count, bool))
        return graph.walk(np.array(sorted(self.roots), np.int64), wide)

    def _size(self, number: int) -> int:
        return int(self.functions.end[number] - self.functions.start[number])

    @functools.lru_cache(maxsize=4096)  # noqa: B019 (lives as long as one library's audit)
    def _roads(self, number: int) -> Roads | None:
        return None if self._size(number) > 1 << 18 else next(self._all_roads([number]))

    def _all_roads(self, numbers: list[int]) -> Iterator[Roads]:
        spans = [(int(self.functions.start[number]), int(self.functions.end[number])) for number in numbers]
        if self.library.binary.machine == "aarch64":
            yield from (arm64_roads(self.graph.raw(n), *span) for n, span in zip(numbers, spans, strict=True))
            return
        for span, (code, at) in zip(spans, self.graph.decode_many(numbers), strict=True):
            yield x86_roads(code, at, *span)

    @functools.cached_property
    def called(self) -> Ints:
        caller, callee = self.edges
        return Edges(caller, callee).walk(np.array(sorted(self.roots), np.int64), self.blocked)

    @functools.cached_property
    def pointed(self) -> Ints:
        return self._walk(*self.edges)

    def _certain_way(self, number: int) -> list[int] | None:
        """Callers up to where outside code enters, each of which calls the one below on every road through it."""

        def takes(node: int, caller: int) -> bool:
            return not self.blocked[caller] and self._always(caller, node)

        for _, came in climb([number], self.callers, takes=takes):
            root = next((node for node in came if node in self.roots and node != number), None)
            if root is not None:
                return way_to(root, came)[1:]
            if len(came) > 64:
                break
        return None

    def _always(self, caller: int, callee: int) -> bool:
        roads = self._roads(caller)
        return roads is not None and any(roads.unavoidable(address) for address in self.graph.stubs_to(callee))

    @functools.cached_property
    def spread(self) -> Spread:
        plain = {n: used for n, used in self.uses.items() if not self.copy(n) and n not in self.graph.asking}
        legacy = self.library.scan.legacy if self.library.binary.machine == "x86_64" else None
        spread = spread_of(plain, self.functions.end - self.functions.start, legacy)
        # Up to x86-64-v2, many functions that others call by name and that ask nothing say the same.
        open_: Counter[str] = Counter()
        for number in self.roots & plain.keys():
            if not self._twin_by_name(number, plain[number]):
                open_.update(plain[number] & SECOND)
        offered = frozenset(name for name, times in open_.items() if times >= MANY_OFFERED)
        return Spread(spread.everywhere | offered, spread.few - offered)

    @functools.cached_property
    def _families(self) -> dict[str, list[int]]:
        out: dict[str, list[int]] = defaultdict(list)
        for number in range(self.count):
            if self.functions.named(number) and _LEVEL in (name := self.functions.name(number)[:400]):
                out[_MARK.sub("#", name)].append(number)
        return out

    def _twin_by_name(self, number: int, isa: frozenset[str]) -> bool:
        """Is there a function whose name differs in numbers or instruction sets only, and that lacks these?"""
        name = self.functions.name(number)[:400]
        # A hash at the end (Rust) or a file's number tells copies of nothing apart; C++ templates by a level do.
        family = self._families.get(_MARK.sub("#", name), ()) if _LEVEL in name else ()
        return any(isa.isdisjoint(self.uses.get(other, ())) for other in family)
