"""Who builds what next."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matrix_mini import cell

from rekindle.matrix.run import SHARED_SHARE, assign, can_build, chain_costs, unplaceable
from rekindle.model.matrix import Cell, Worker

HERE = Worker(name="a", system="linux-x86_64", memory_gib=8.0, cuda=("11.8.89",), pythons=("3.11.7",))


@pytest.mark.parametrize(
    ("more", "able"),
    [
        ({}, True),
        ({"system": "windows-x86_64"}, False),
        ({"memory_gib": 8.0}, True),
        ({"memory_gib": 8.1}, False),
        ({"cuda": "11.8"}, True),
        ({"cuda": "11.8.0"}, True),
        ({"cuda": "11.7"}, False),
        ({"cuda": "11.80"}, False),
        ({"python": "3.11"}, True),
        ({"python": "3.1"}, False),
        ({"python": "3.12"}, False),
    ],
)
def test_a_worker_gets_only_what_it_can_do(more: dict[str, Any], able: bool) -> None:
    assert (can_build(HERE, cell(1, **more)) is None) is able


def test_an_unknown_ability_is_no_refusal() -> None:
    vague = Worker(name="b", system="linux-x86_64")
    assert can_build(vague, cell(1, memory_gib=900.0, cuda="13.0", python="3.15")) is None


def place(cells: list[Cell], free: dict[str, int], **more: object) -> list[tuple[str, str]]:
    workers = {name: msgspec.structs.replace(HERE, name=name) for name in free}
    values: dict[str, object] = {"busy_trees": (), "warm": {}, "done": (), **more}
    return [(one.name, worker) for one, worker in assign(cells, free, workers, **values)]  # type: ignore[arg-type]


def test_the_longest_chain_goes_first() -> None:
    short, long = cell(1, minutes=50), cell(2, tree=9, minutes=40)
    second = cell(3, tree=9, minutes=80)
    assert place([short, long, second], {"a": 1}) == [("cell-2", "a")]


def test_one_cell_of_a_tree_at_a_time() -> None:
    assert place([cell(1, tree=9), cell(2, tree=9)], {"a": 2}) == [("cell-1", "a")]
    assert place([cell(1, tree=9)], {"a": 2}, busy_trees={f"{9:016x}"}) == []


def test_a_warm_tree_goes_back_to_its_worker() -> None:
    assert place([cell(1, tree=9)], {"a": 5, "b": 1}, warm={f"{9:016x}": "b"}) == [("cell-1", "b")]
    assert place([cell(1, tree=9)], {"a": 5, "b": 0}, warm={f"{9:016x}": "b"}) == [("cell-1", "a")]


def test_what_needs_another_cell_waits_for_it() -> None:
    needy = cell(2, after=(f"{1:016x}",))
    assert place([needy], {"a": 1}) == []
    assert place([needy], {"a": 1}, done={f"{1:016x}"}) == [("cell-2", "a")]


def test_slots_are_not_overbooked() -> None:
    cells = [cell(n) for n in range(10)]
    assert len(place(cells, {"a": 2, "b": 1})) == 3
    assert [worker for _, worker in place(cells, {"a": 0, "b": 1, "c": -1})] == ["b"]
    assert place(cells, {"a": 0}) == place(cells, {}) == []


def test_chains_cost_less_after_the_first() -> None:
    cells = [cell(1, tree=9, minutes=100), cell(2, tree=9, minutes=100), cell(3, minutes=10)]
    assert chain_costs(cells, ()) == {f"{9:016x}": 100 * (1 + SHARED_SHARE), f"{3:016x}": 10}
    assert chain_costs(cells[:1], {f"{9:016x}"}) == {f"{9:016x}": 100 * SHARED_SHARE}


def test_cells_nobody_can_build_are_named() -> None:
    found = unplaceable([cell(1), cell(2, python="3.14")], [HERE])
    assert list(found) == [f"{2:016x}"]
    assert "3.14" in found[f"{2:016x}"]
    assert unplaceable([cell(1)], []) == {f"{1:016x}": "there is no worker"}


@given(
    st.lists(st.tuples(st.integers(0, 6), st.floats(1, 1000)), min_size=1, max_size=30),
    st.dictionaries(st.sampled_from("abcde"), st.integers(0, 3), min_size=1),
)
def test_no_tree_twice_no_slot_twice(rows: list[tuple[int, float]], free: dict[str, int]) -> None:
    cells = [cell(n, tree=tree, minutes=minutes) for n, (tree, minutes) in enumerate(rows)]
    workers = {name: msgspec.structs.replace(HERE, name=name) for name in free}
    chosen = assign(cells, free, workers, busy_trees=(), warm={}, done=())
    trees = [one.tree for one, _ in chosen]
    assert len(trees) == len(set(trees))
    for name, slots in free.items():
        assert sum(1 for _, worker in chosen if worker == name) <= slots
    # Nothing idles while a tree is free.
    idle = sum(free.values()) - len(chosen)
    assert idle == 0 or len(trees) == len({one.tree for one in cells})
