"""What earlier builds taught: how much memory and time an object takes, and what one more build changes in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.build.history import DEFAULT_BYTES, Estimate, History, ObjectCosts, kept_history
from rekindle.formats.ninja import BuildEdge


def learnt(*peaks: int) -> ObjectCosts:
    return ObjectCosts(History(objects={f"{number}.cpp.o": (peak, 1.0) for number, peak in enumerate(peaks)}))


def test_what_is_typical_is_known_from_the_fourth_object_on() -> None:
    assert learnt(10, 20, 30).typical() == DEFAULT_BYTES["cxx"]
    assert learnt(10, 20, 30, 40).typical() == 25
    assert learnt(10, 20, 30, 40).typical("gpu") == DEFAULT_BYTES["gpu"], "of another kind nothing is known"


def test_first_guesses_are_of_the_order_that_was_measured() -> None:
    """Half of torch's C++ files take 0.48 GiB or less and 95 % less than 0.97; CUDA's take several GiB each."""
    gib = 1 << 30
    guess = {kind: ObjectCosts(History()).typical(kind) / gib for kind in DEFAULT_BYTES}
    assert 0.48 < guess["cxx"] < 0.97 and guess["cxx"] == guess["link"]
    assert 2 < guess["gpu"] < 4 and 0.1 < guess["other"] <= guess["c"] < 0.48


def test_a_known_object_is_expected_to_take_a_little_more_than_it_did() -> None:
    costs = learnt(1000)
    assert 1000 < costs.expected("0.cpp.o") < 1200
    assert costs.expected("new.cpp.o") == DEFAULT_BYTES["cxx"]


def test_only_what_took_more_is_larger() -> None:
    assert learnt(10, 20, 30).larger_than(20) == ["2.cpp.o"]


@pytest.mark.parametrize(("seconds", "known"), [(2.5, 2.5), (0.5, 0.5), (0.0, None), (-1.0, None)])
def test_no_time_at_all_is_not_known(seconds: float, known: float | None) -> None:
    assert ObjectCosts(History(objects={"a.o": (1, seconds)})).seconds("a.o") == known
    assert ObjectCosts(History()).seconds("a.o") is None


def test_a_smaller_peak_lowers_what_is_known_by_a_tenth() -> None:
    costs = learnt(1000)
    costs.record("0.cpp.o", 10, 7.0)
    assert costs.history().objects == {"0.cpp.o": (900, 7.0)}
    costs.record("0.cpp.o", 2000, 3.0)
    assert costs.history().objects == {"0.cpp.o": (2000, 3.0)}


def test_a_run_that_took_no_time_leaves_what_is_known() -> None:
    costs = learnt(1000)
    costs.record("0.cpp.o", 1000, 0.0)
    costs.record("new.cpp.o", 5, 0.0)
    assert costs.history().objects == {"0.cpp.o": (1000, 1.0), "new.cpp.o": (5, 0.0)}
    assert costs.peak("new.cpp.o") == 5 and costs.peak("none.cpp.o") is None


def test_what_was_learnt_is_kept_however_the_build_ends(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), kept_history(tmp_path / "h.json") as costs:
        costs.record("a.cpp.o", 5, 2.0)
        raise KeyboardInterrupt
    with kept_history(tmp_path / "h.json") as costs:
        assert (costs.peak("a.cpp.o"), costs.seconds("a.cpp.o")) == (5, 2.0)


def test_a_history_that_cannot_be_written_ends_no_build(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with kept_history(tmp_path / "file" / "h.json") as costs:
        costs.record("a.cpp.o", 5, 2.0)
    assert (tmp_path / "file").read_text() == "" and costs.peak("a.cpp.o") == 5


def test_a_long_chain_is_not_counted_anew_at_each_step() -> None:
    """By steps, not by seconds: twenty more may end before the graph is walked again."""
    edges = [BuildEdge(rule="CXX", outputs=(f"{n}.o",), inputs=()) for n in range(30)]
    costs = ObjectCosts(History(objects={f"{n}.o": (1, 3000.0 - 100 * n) for n in range(30)}))
    estimate = Estimate(edges, costs, {})
    assert estimate.critical_path() == 3000.0
    for number in range(20):
        estimate.finished(f"{number}.o")
        assert estimate.critical_path() == 3000.0
    estimate.finished("20.o")
    assert estimate.critical_path() == 900.0
