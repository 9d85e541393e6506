"""What outside code gets to without meeting a question to the CPU: by plain calls, or through pointers as well.

Nodes are functions and *anchors*, the places in data that code or another pointer names; a table of pointers belongs
to the anchor before it. So a method table leads from the function that hands it to Python to every method in it.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable

import numpy as np

from rekindle.formats.code_scan import Ints, unpack
from rekindle.inspect.isa_scan import LibraryScan


class Edges:
    """From a node to nodes, as two sorted arrays: a million edges cost 16 MB."""

    def __init__(self, source: Ints, target: Ints) -> None:
        order = np.argsort(source, kind="stable")
        self._source, self._target = source[order], target[order]

    def of(self, node: int) -> list[int]:
        low, high = np.searchsorted(self._source, [node, node + 1])
        return list(dict.fromkeys(self._target[low:high].tolist()))


def walk(
    roots: Iterable[int], edges: Edges, blocks: Callable[[int], bool], without: Container[tuple[int, int]] = ()
) -> dict[int, int | None]:
    """Every node reached from the roots, with the node it was reached from; nodes that block are not gone through."""
    parents: dict[int, int | None] = dict.fromkeys(roots)
    queue = list(parents)
    for node in queue:
        if blocks(node):
            continue
        for following in edges.of(node):
            if following not in parents and (node, following) not in without:
                parents[following] = node
                queue.append(following)
    return parents


def chain_to(node: int, parents: dict[int, int | None]) -> list[int]:
    """From the node's caller up to the root."""
    out = []
    step = parents.get(node)
    while step is not None:
        out.append(step)
        step = parents[step]
    return out


def pointer_edges(library: LibraryScan, caller: Ints, callee: Ints, numbers: Callable[[Ints], Ints]) -> Edges:
    """Calls, addresses taken and tables of pointers in one graph; anchors are numbered after the functions."""
    count = len(library.functions)
    slot, target = library.references.pointers[:, 0], library.references.pointers[:, 1]
    touching, touched, _ = unpack(library.scan.touches, library.variables)
    inside = (target >= library.variables.low) & (target < library.variables.high)
    anchors = np.unique(np.concatenate([touched, target[inside]]))
    takes = library.scan.takes
    taken = numbers(takes[:, 1])
    rows = [(caller, callee), (takes[taken >= 0, 0], taken[taken >= 0])]
    if len(anchors):
        rows.append((touching, np.searchsorted(anchors, touched) + count))
        owner = np.searchsorted(anchors, slot, "right") - 1
        held = owner >= 0
        function = numbers(target)
        to_function = held & (function >= 0)
        rows.append((owner[to_function] + count, function[to_function]))
        to_data = held & inside
        rows.append((owner[to_data] + count, np.searchsorted(anchors, target[to_data]) + count))
    source = np.concatenate([row[0] for row in rows])
    return Edges(source, np.concatenate([row[1] for row in rows]))
