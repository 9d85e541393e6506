"""Who asks the CPU what it can do, and what outside code gets to without meeting such a question.

A function asks if it executes CPUID (or reads HWCAP), reads a variable that such a function fills, or calls a small
function that does one of these. Without symbols such variables are known by the asking functions that write them.

Outside code gets further by plain calls, or through pointers as well. Nodes are functions and *anchors*, the places in
data that code or another pointer names; a table of pointers belongs to the anchor before it. So a method table leads
from the function that hands it to Python to every method in it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rekindle.formats.code_scan import Flags, Ints, unpack
from rekindle.formats.elf import Elf
from rekindle.inspect.isa_scan import LibraryScan

UNREACHED, ROOT = -2, -1
# Of functions with more than the baseline: each instruction set, and where it is used first.
Uses = Mapping[int, Mapping[str, int]]
# A caller asks the CPU also through a small function in between (init_simd -> cpu_support -> cpuid).
SMALL = 1024
# An asker that takes a variable's address fills it as a whole: cpuinfo_isa has 50 bytes, OpenCV's table 512.
FIELDS = 64
WIDE = 512
# A caller of the asking function that keeps the answers is a small function too, and writes few variables.
MOST_KEPT = 24


@dataclass(frozen=True)
class Judgement:
    """Of the instruction sets that one function uses, ``sure`` are met by everybody and ``untold`` perhaps; the others
    are dispatched. ``chain`` are its callers up to where outside code enters, ``entries`` the exported functions that
    lead there, where no other way does. ``guard`` is the guard that it got away from."""

    sure: tuple[str, ...] = ()
    untold: tuple[str, ...] = ()
    chain: tuple[str, ...] = ()
    why: str = ""
    entries: frozenset[str] | None = None
    guard: str | None = None


class Route(NamedTuple):
    """A way from outside to a function: its caller, and the names from that caller up to the entrance."""

    caller: int
    names: tuple[str, ...]


class Edges:
    """From a node to nodes, as two sorted arrays: a million edges cost 16 MB."""

    def __init__(self, source: Ints, target: Ints) -> None:
        order = np.argsort(source, kind="stable")
        self._source, self._target = source[order], target[order]

    def reversed(self) -> "Edges":
        """The same from where each edge leads."""
        return Edges(self._target, self._source)

    def of(self, node: int) -> list[int]:
        """Where a node leads, each once."""
        low, high = np.searchsorted(self._source, [node, node + 1])
        return list(dict.fromkeys(self._target[low:high].tolist()))

    def walk(self, roots: Ints, blocked: Flags) -> Ints:
        """The node that first reached each one: ROOT, UNREACHED. Nothing is reached through a blocked one."""
        parent = np.full(len(blocked), UNREACHED, np.int64)
        parent[roots] = ROOT
        frontier = np.unique(roots)
        while len(frontier):
            open_ = frontier[~blocked[frontier]]
            low, high = np.searchsorted(self._source, open_), np.searchsorted(self._source, open_ + 1)
            count = high - low
            if not count.sum():
                break
            offsets = np.repeat(low - np.concatenate([[0], np.cumsum(count)[:-1]]), count) + np.arange(count.sum())
            target, source = self._target[offsets], np.repeat(open_, count)
            new = parent[target] == UNREACHED
            target, source = target[new], source[new]
            parent[target] = source
            frontier = np.unique(target)
        return parent


def climb(
    start: Iterable[int],
    onward: Callable[[int], Iterable[int]],
    *,
    closed: Callable[[int], bool] = lambda node: False,
    takes: Callable[[int, int], bool] = lambda node, further: True,
) -> Iterator[tuple[int, dict[int, int]]]:
    """Each node that the ones at the start lead to, near ones first, and from where each one met so far was reached;
    closed ones are met and passed over. ``takes`` says whether the way from one to a further one counts."""
    came = dict.fromkeys(start, ROOT)
    queue = list(came)
    for node in queue:
        if closed(node):
            continue
        yield node, came
        for further in onward(node):
            if further not in came and takes(node, further):
                came[further] = node
                queue.append(further)


def way_to(node: int, came: Mapping[int, int]) -> list[int]:
    """From where the climb began to a node."""
    return [node, *chain_to(node, came)][::-1]


def chain_to(node: int, parent: Ints | Mapping[int, int]) -> list[int]:
    """From the node's caller up to the root; empty for roots and for what is not reached."""
    out: list[int] = []
    step = int(parent[node])
    while step >= 0:
        out.append(step)
        step = int(parent[step])
    return out


def pointer_edges(
    library: LibraryScan, caller: Ints, callee: Ints, numbers: Callable[[Ints], Ints], silent: Flags
) -> tuple[Edges, int]:
    """Calls, addresses taken and tables of pointers in one graph, and how many nodes it has; anchors are numbered after
    the functions. Of ``silent`` functions only the calls count."""
    count = len(library.functions)
    slot, target = library.references.pointers[:, 0], library.references.pointers[:, 1]
    touching, touched, _ = unpack(library.scan.touches, library.variables)
    loud = ~silent[touching]
    touching, touched = touching[loud], touched[loud]
    inside = (target >= library.variables.low) & (target < library.variables.high)
    # The slots of the offset table lie side by side, but each is an anchor of its own.
    in_got = np.zeros(len(slot), bool)
    for part in library.binary.sections:
        if part.name.startswith(".got"):
            in_got |= (slot >= part.address) & (slot < part.address + part.size)
    anchors = np.unique(np.concatenate([touched, target[inside], slot[in_got]]))
    takes = library.scan.takes[~silent[library.scan.takes[:, 0]]]
    addressed = numbers(takes[:, 1])
    rows = [(caller, callee), (takes[addressed >= 0, 0], addressed[addressed >= 0])]
    if len(anchors):
        rows.append((touching, np.searchsorted(anchors, touched) + count))
        owner = np.searchsorted(anchors, slot, "right") - 1
        has_anchor = owner >= 0
        function = numbers(target)
        to_function = has_anchor & (function >= 0)
        rows.append((owner[to_function] + count, function[to_function]))
        to_data = has_anchor & inside
        rows.append((owner[to_data] + count, np.searchsorted(anchors, target[to_data]) + count))
    source = np.concatenate([row[0] for row in rows])
    return Edges(source, np.concatenate([row[1] for row in rows])), count + len(anchors)


def find_state(library: LibraryScan, asking: set[int], callers: Callable[[int], list[int]]) -> Ints:
    """Addresses of variables that hold what is known of the CPU, as (low, high) rows: sorted, none touches another."""
    function, address, write = unpack(library.scan.touches, library.variables)
    others = {*library.references.imports, getattr(library.binary, "cookie", None)}
    size, started = library.functions.end - library.functions.start, set(library.references.started.tolist())
    rows: list[tuple[int, int]] = []
    # Variables proper, without tables that are read-only once the loader is done.
    named = (part for part in library.binary.sections if part.name in (".data", ".bss", ".ldata", ".lbss"))
    data = [(part.address, part.address + part.size) for part in named] if isinstance(library.binary, Elf) else []
    pointer_at, pointer_to = library.references.pointers[:, 0], library.references.pointers[:, 1]

    def written(number: int) -> list[int]:
        low, high = np.searchsorted(function, [number, number + 1])
        targets = address[low:high][write[low:high]].tolist()
        # A variable that others may replace is written through its slot in the offset table.
        place = np.searchsorted(pointer_at, address[low:high])
        has_slot = place < len(pointer_at)
        has_slot[has_slot] = pointer_at[place[has_slot]] == address[low:high][has_slot]
        through = pointer_to[place[has_slot]].tolist()
        targets += [start for start in through if any(begin <= start < end for begin, end in data)]
        return [start for start in targets if start not in others]

    for number in asking:
        rows += [(start, start + FIELDS) for start in written(number)]
        for caller in callers(number):
            at_load = int(library.functions.start[caller]) in started
            if caller not in asking and (size[caller] <= SMALL or at_load):
                variables = written(caller)
                if len(variables) <= MOST_KEPT:
                    rows += [(start, start + (WIDE if at_load else FIELDS)) for start in variables]
    state = _join_spans(rows)
    # A pointer to such a variable (OpenCV's currentFeatures, a slot of the offset table) is one as well.
    rows += [(start, start + 8) for start in pointer_at[_in_spans(pointer_to, state)].tolist()]
    # Joined once more: such a slot may lie inside a wider variable, or at its end.
    return _join_spans(rows)


def _join_spans(rows: list[tuple[int, int]]) -> Ints:
    """The same stretches sorted, with those that overlap or touch made one."""
    out: list[list[int]] = []
    for low, high in sorted(rows):
        if out and low <= out[-1][1]:
            out[-1][1] = max(out[-1][1], high)
        else:
            out.append([low, high])
    return np.array(out, np.int64).reshape(-1, 2)


def _in_spans(address: Ints, state: Ints) -> Flags:
    """Which addresses lie in one of the rows; looks only at the nearest row before, so the rows must be joined."""
    if not len(state):
        return np.zeros(len(address), bool)
    place = np.searchsorted(state[:, 0], address, "right") - 1
    return np.asarray((place >= 0) & (address < state[np.maximum(place, 0), 1]))


def readers_of(library: LibraryScan, state: Ints) -> set[int]:
    """Functions with an operand in one of these variables (rows as ``find_state`` gives them)."""
    function, address, _ = unpack(library.scan.touches, library.variables)
    return set(np.unique(function[_in_spans(address, state)]).tolist())
