"""What outside code gets to without meeting a question to the CPU: by plain calls, or through pointers as well.

Nodes are functions and *anchors*, the places in data that code or another pointer names; a table of pointers belongs
to the anchor before it. So a method table leads from the function that hands it to Python to every method in it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rekindle.formats.code_scan import Flags, Ints, unpack
from rekindle.inspect.isa_scan import LibraryScan

UNREACHED, ROOT = -2, -1


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
        return Edges(self._target, self._source)

    def of(self, node: int) -> list[int]:
        low, high = np.searchsorted(self._source, [node, node + 1])
        return list(dict.fromkeys(self._target[low:high].tolist()))

    def walk(self, roots: Ints, blocked: Flags) -> Ints:
        """For each node the node that first reached it; ROOT for roots, UNREACHED for the others. A blocked node is
        reached, but nothing is reached through it."""
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
