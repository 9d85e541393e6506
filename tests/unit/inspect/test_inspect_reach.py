"""Calls, addresses taken and tables of pointers in one graph; and where what is known of the CPU is kept."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from rekindle.inspect.code_graph import CodeGraph
from rekindle.inspect.guards import QuestionNames
from rekindle.inspect.reach import (
    FIELDS,
    MOST_KEPT,
    ROOT,
    SMALL,
    UNREACHED,
    WIDE,
    Edges,
    chain_to,
    find_state,
    pointer_edges,
    readers_of,
)
from small_code import DATA, FIRST, PAGE, Made, section

CHECK = QuestionNames(re.compile("^(?:cpuinfo|__cpu)_"), ("cpu",))
RET = "c3"
THREE = {"a": [RET], "b": [RET], "c": [RET]}


def ints(*numbers: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(numbers, np.int64)


def edges(made: Made, silent: Sequence[int] = ()) -> tuple[dict[int, list[int]], int]:
    """Every node with those it leads to, and how many nodes there are."""
    library = made.scan()
    graph = CodeGraph(library, CHECK)
    quiet = np.zeros(len(library.functions), bool)
    quiet[list(silent)] = True
    found, nodes = pointer_edges(library, *graph.edges, graph.numbers, quiet)
    return {node: aims for node in range(nodes) if (aims := found.of(node))}, nodes


def test_what_a_node_leads_to() -> None:
    found = Edges(ints(4, 1, 1, 1), ints(0, 9, 7, 9))
    assert [found.of(node) for node in (0, 1, 2, 4, 5)] == [[], [9, 7], [], [0], []]
    assert [found.reversed().of(node) for node in (9, 7, 0, 1)] == [[1], [1], [4], []]


def test_a_walk_through_several_nodes_at_once() -> None:
    found = Edges(ints(0, 0, 0, 2, 2, 3, 5, 6), ints(1, 2, 3, 4, 5, 5, 6, 7))
    free = np.zeros(9, bool)
    assert found.walk(ints(0), free).tolist() == [ROOT, 0, 0, 0, 2, 3, 5, 6, UNREACHED]
    blocked = free.copy()
    blocked[3] = True
    assert found.walk(ints(0), blocked).tolist() == [ROOT, 0, 0, 0, 2, 2, 5, 6, UNREACHED]
    blocked[0] = True
    assert found.walk(ints(0), blocked).tolist() == [ROOT, *[UNREACHED] * 8]
    # Two roots, one of which the other leads to; the same root twice
    assert found.walk(ints(5, 2, 5), free).tolist() == [-2, -2, ROOT, -2, 2, ROOT, 5, 6, -2]
    assert chain_to(7, found.walk(ints(0), free)) == [6, 5, 3, 0]


def test_plain_calls_and_addresses_taken() -> None:
    made = Made({"a": ["call b", RET], "b": [RET], "c": [RET]}, takes=[("b", "c")])
    assert edges(made) == ({0: [1], 1: [2]}, 3)
    # Of a silent function the calls alone count.
    assert edges(made, [0, 1]) == ({0: [1]}, 3)
    assert edges(Made(THREE)) == ({}, 3)


def test_the_first_function_is_taken_too() -> None:
    library = Made(THREE).scan()
    library.scan.takes = np.array([[1, FIRST], [1, FIRST + 1], [2, FIRST + PAGE]], np.int64)
    graph = CodeGraph(library, CHECK)
    found, nodes = pointer_edges(library, *graph.edges, graph.numbers, np.zeros(3, bool))
    assert ([found.of(node) for node in range(3)], nodes) == ([[], [0], [1]], 3)


def test_a_table_belongs_to_the_place_before_it() -> None:
    table = {DATA + 0x10: "a", DATA + 0x18: "c", DATA + 0x28: "b", DATA + 8: "b"}
    made = Made(THREE, pointers=table, touches=[("a", DATA + 0x10, False), ("b", DATA + 0x20, True)])
    # Nodes 3 and 4 are the two places; the pointer before the first is nobody's.
    assert edges(made) == ({0: [3], 1: [4], 3: [0, 2], 4: [1]}, 5)
    assert edges(made, [0]) == ({1: [3], 3: [1]}, 4)


def test_a_pointer_to_another_table() -> None:
    made = Made(THREE, pointers={DATA: DATA + 0x40, DATA + 0x48: "c"}, touches=[("a", DATA, False)])
    assert edges(made) == ({0: [3], 3: [4], 4: [2]}, 5)
    # Where the data begin, and where they end
    for place, inside in ((DATA, True), (DATA - 1, False), (DATA + 0xFFF, True), (DATA + 0x1000, False)):
        made = Made(THREE, pointers={DATA + 8: place}, touches=[("a", DATA + 8, False)])
        nodes = edges(made)[1]
        assert nodes == (5 if inside else 4)


def test_slots_of_the_offset_table_are_things_of_their_own() -> None:
    slots = {DATA + 0x100: "a", DATA + 0x108: "b", DATA + 0x110: "c"}
    made = Made(THREE, pointers=slots, touches=[("a", DATA + 0x100, False)])
    assert edges(made)[0] == {0: [3], 3: [0, 1, 2]}
    made.sections = [section(".got.plt", DATA + 0x108, 8)]
    assert edges(made) == ({0: [3], 3: [0], 4: [1, 2]}, 5)
    made.sections = [section(".got", DATA + 0x100, 0x10), section(".got.plt", DATA + 0x110, 8)]
    assert edges(made) == ({0: [3], 3: [0], 4: [1], 5: [2]}, 6)
    made.sections = [section(".data.got", DATA + 0x100, 0x18)]
    assert edges(made)[1] == 4


def kept(made: Made, *asking: str) -> list[tuple[int, int]]:
    """The stretches of data that hold what is known of the CPU, as distances from where the data begin."""
    library = made.scan()
    graph = CodeGraph(library, CHECK)
    callers = Edges(graph.edges[1], graph.edges[0])
    rows = find_state(library, {made.number(name) for name in asking}, callers.of)
    return [(low - DATA, high - DATA) for low, high in rows.tolist()]


ASK = {"ask": [RET], "a": ["call ask", RET], "b": [RET]}


def test_what_an_asker_writes() -> None:
    made = Made(ASK, touches=[("ask", DATA + 0x100, True), ("ask", DATA + 0x400, False), ("b", DATA, True)])
    assert kept(made, "ask") == [(0x100, 0x100 + FIELDS)]
    assert kept(made) == []
    made.imports = {DATA + 0x100: "malloc"}
    assert kept(made, "ask") == []
    made.imports = {}
    made.cookie = DATA + 0x100
    assert kept(made, "ask") == []


def test_stretches_that_touch_are_one() -> None:
    made = Made(
        ASK, touches=[("ask", DATA + place, True) for place in (0, FIELDS, 0x200, 0x210, 0x201 + 0x10 + FIELDS)]
    )
    assert kept(made, "ask") == [(0, 2 * FIELDS), (0x200, 0x210 + FIELDS), (0x211 + FIELDS, 0x211 + 2 * FIELDS)]
    # One that lies inside another changes nothing.
    made = Made(ASK, touches=[("a", DATA, True), ("ask", DATA + 8, True)], started=["a"])
    assert kept(made, "ask") == [(0, WIDE)]


def test_the_one_who_called_the_asker_keeps_it() -> None:
    made = Made(ASK, touches=[("a", DATA + 0x100, True), ("b", DATA + 0x400, True)])
    assert kept(made, "ask") == [(0x100, 0x100 + FIELDS)]
    # Two that ask both, one of which calls the other: each keeps what it writes, once.
    assert kept(made, "ask", "a") == [(0x100, 0x100 + FIELDS)]
    # The loader's own initial function fills a table as a whole.
    made.started = ["a"]
    assert kept(made, "ask") == [(0x100, 0x100 + WIDE)]


@pytest.mark.parametrize(("size", "keeps"), [(SMALL, True), (SMALL + 1, False)])
def test_a_large_caller_keeps_other_things(size: int, keeps: bool) -> None:
    made = Made(ASK | {"a": ["call ask", "90" * (size - 6), RET]}, touches=[("a", DATA, True)])
    assert bool(kept(made, "ask")) is keeps
    # What the loader calls may be large.
    made.started = ["a"]
    assert kept(made, "ask") == [(0, WIDE)]


@pytest.mark.parametrize(("count", "keeps"), [(MOST_KEPT, True), (MOST_KEPT + 1, False)])
def test_a_caller_that_writes_much_keeps_other_things(count: int, keeps: bool) -> None:
    made = Made(ASK, touches=[("a", DATA + 8 * number, True) for number in range(count)])
    assert bool(kept(made, "ask")) is keeps
    # The asker itself may write as much as it likes.
    made.touches = [("ask", DATA + 8 * number, True) for number in range(count)]
    assert kept(made, "ask")


def test_written_through_a_slot_of_the_offset_table() -> None:
    slot = DATA + 0x800
    made = Made(ASK, touches=[("ask", slot, False)], pointers={slot: DATA + 0x100})
    state = [(0x100, 0x100 + FIELDS), (0x800, 0x808)]
    assert kept(made, "ask") == state
    made.pointers = {slot + 8: DATA + 0x100}
    assert kept(made, "ask") == []
    made.pointers = {slot - 8: DATA + 0x100}
    assert kept(made, "ask") == []
    # A table that is read-only once the loader is done holds no variables.
    for name, holds in ((".bss", True), (".ldata", True), (".lbss", True), (".data.rel.ro", False)):
        made = Made(
            ASK, touches=[("ask", DATA, False)], pointers={DATA: 0x300000}, sections=[section(name, 0x300000, 8)]
        )
        assert bool(kept(made, "ask")) is holds
    for place, holds in ((0x2FFFFF, False), (0x300000, True), (0x300007, True), (0x300008, False)):
        made.pointers, made.sections = {DATA: place}, [section(".bss", 0x300000, 8)]
        assert bool(kept(made, "ask")) is holds
    # Of a Windows library the slots are not read.
    made = Made(ASK, touches=[("ask", slot, False)], pointers={slot: DATA + 0x100}, windows=True)
    assert kept(made, "ask") == []


def test_a_pointer_to_such_a_variable_is_one_too() -> None:
    made = Made(ASK, touches=[("ask", DATA + 0x100, True)])
    for place, leads in ((0xFF, False), (0x100, True), (0x100 + FIELDS - 1, True), (0x100 + FIELDS, False)):
        made.pointers = {DATA + 0x800: DATA + place}
        assert ((0x800, 0x808) in kept(made, "ask")) is leads


def test_a_pointer_inside_a_wider_variable_hides_nothing_of_it() -> None:
    """A table may hold a pointer into itself: what lies behind the pointer is still the table."""
    made = Made(
        ASK,
        touches=[("a", DATA, True), ("b", DATA + 0x100, False)],
        pointers={DATA + 0x40: DATA + 0x10, DATA + 0x700: DATA + 0x20},
        started=["a"],
    )
    assert kept(made, "ask") == [(0, WIDE), (0x700, 0x708)]
    library = made.scan()
    callers = Edges(ints(made.number("ask")), ints(made.number("a")))
    state = find_state(library, {made.number("ask")}, callers.of)
    assert readers_of(library, state) == {made.number("a"), made.number("b")}
    # A pointer that begins inside and ends behind makes the stretch longer.
    made.pointers = {DATA + WIDE - 4: DATA}
    assert kept(made, "ask") == [(0, WIDE + 4)]
    # One before the variable stands before it in the list too.
    made.touches, made.pointers = [("a", DATA + 0x100, True)], {DATA + 0x20: DATA + 0x100}
    assert kept(made, "ask") == [(0x20, 0x28), (0x100, 0x100 + WIDE)]


def test_who_has_an_operand_there() -> None:
    places = (0xFF, 0x100, 0x107, 0x108, 0x1FF, 0x200, 0x20F, 0x210)
    names = [f"f{place}" for place in places]
    made = Made({name: [RET] for name in names}, touches=[(f"f{place}", DATA + place, False) for place in places])
    library = made.scan()
    state = np.array([[DATA + 0x100, DATA + 0x108], [DATA + 0x200, DATA + 0x210]], np.int64)
    assert readers_of(library, state) == {1, 2, 5, 6}
    assert readers_of(library, state[:0]) == set()
    assert find_state(library, set(), lambda number: []).shape == (0, 2)


def test_the_sizes_of_what_is_kept() -> None:
    """Structures of real libraries: 64 bytes hold cpuinfo's, 512 OpenCV's table; 1024 bytes of code are small."""
    asks = Made(ASK, touches=[("ask", DATA, True)])
    assert kept(asks, "ask") == [(0, 64)]
    started = Made(ASK, touches=[("a", DATA, True)], started=["a"])
    assert kept(started, "ask") == [(0, 512)]
    for size, keeps in ((1024, True), (1025, False)):
        made = Made(ASK | {"a": ["call ask", "90" * (size - 6), RET]}, touches=[("a", DATA, True)])
        assert bool(kept(made, "ask")) is keeps
    for count, keeps in ((24, True), (25, False)):
        made = Made(ASK, touches=[("a", DATA + 8 * number, True) for number in range(count)])
        assert bool(kept(made, "ask")) is keeps
