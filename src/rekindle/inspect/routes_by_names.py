"""Routes into a library by the names of its functions and files, searched upwards from each function.

For libraries that name source files for the copies they hold (torch), where names tell more than calls do, and for PE
code, whose pointers are not read.
"""

from __future__ import annotations

from collections.abc import Mapping

from rekindle.formats.functions import GLOBAL, WEAK
from rekindle.inspect.code_graph import CodeGraph
from rekindle.inspect.guards import NamedGuards
from rekindle.inspect.reach import Judgement, Route

# The guard of a function that got away from a dispatched copy.
LEAKED = "inline code leaked from a copy for a newer CPU"
# How many functions a search upwards may visit before the answer is "somebody unguarded calls it".
MOST_VISITED = 3000


class RoutesByNames:
    """How outside code gets to the functions of one library without meeting a question to the CPU; ``uses`` are the
    functions with more than the baseline. :class:`RoutesByCalls` answers the same questions."""

    # Other libraries may call what is exported.
    offers = True

    def __init__(self, graph: CodeGraph, uses: Mapping[int, Mapping[str, int]], guards: NamedGuards) -> None:
        self.graph, self.functions = graph, graph.functions
        self.uses, self.guards = uses, guards

    def judge(self, number: int, isa: tuple[str, ...]) -> Judgement:
        """Everybody meets it or nobody does: names leave no doubt."""
        way = self._entrance(number)
        if way is None and (route := self.route_to_caller(number)) is not None:
            way = route.names, f"called by {route.names[0]}, which asks nothing of the CPU"
        # What asks the CPU itself knows when to stop; asked last, because it costs a decoding.
        if way is None or self.graph.checks(number):
            return Judgement()
        return Judgement(isa, chain=way[0], why=way[1], guard=LEAKED if self._leaked(number) else None)

    def _entrance(self, number: int) -> tuple[tuple[str, ...], str] | None:
        if number in self.graph.started:
            return (), "runs when the library is loaded"
        # A weak symbol is inline code that the linker kept one copy of: others bring their own.
        weak = self.functions.named(number) and self.functions.binding(number) == WEAK
        if bool(self.functions.exported[number]) and not weak:
            return (), "exported, and asks nothing of the CPU"
        if not self.graph.asks_at_all:
            return (), "nothing in this library asks the CPU"
        return None

    def _leaked(self, number: int) -> bool:
        """Inline code of which the linker kept the copy made for a newer CPU, for everybody.

        Hidden inline functions turn local and lose their file; one that a dispatched copy also calls came from it.
        """
        own = self.functions.named(number) and self.functions.binding(number) != GLOBAL
        if not own or self.functions.file(number):
            return False
        guards = map(self.guards.of, self.graph.callers(number))
        return any(guard is not None and guard.trust == "whole" for guard in guards)

    def is_closed(self, number: int) -> bool:
        """Code that is itself a copy for some CPU, or that asks the CPU, lets nobody through."""
        return self.guards.covers_copy(number) or self.graph.checks(number)

    def callers(self, number: int) -> tuple[int, ...]:
        return self.graph.callers(number)

    def route_to_caller(self, number: int) -> Route | None:
        """The first caller to which outside code gets, and the way there; None where there is none."""
        for caller in self.graph.callers(number):
            names = self.route_to(caller)
            if names is not None:
                return Route(caller, names)
        return None

    def route_to(self, number: int) -> tuple[str, ...] | None:
        """This function and its callers up to where outside code enters; None where there is no such way."""
        parents: dict[int, int | None] = {number: None}
        queue = [number]
        for current in queue:
            if self.is_closed(current):
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

    def runs_at_load(self, number: int, places: list[int]) -> bool:
        """Not asked here: it takes the roads through each function."""
        return False

    def _entered_from_outside(self, number: int) -> bool:
        if number in self.graph.started:
            return True
        # A library with its own dispatch exports functions and keeps tables too; who calls them decides.
        if self.guards.of(number) is not None:
            return False
        if bool(self.functions.exported[number]):
            return True
        return self.graph.named and self.graph.taken(number) and not self.uses.get(number)
