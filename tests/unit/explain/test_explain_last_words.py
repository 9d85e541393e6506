"""Where no pattern knows anything, the last line that speaks of trouble is quoted, and nothing is claimed."""

from __future__ import annotations

import pytest

from rekindle.explain.engine import add_last_words, diagnose
from rekindle.explain.events import Reading
from rekindle.model.diagnosis import Diagnosis
from scenes import event, seen


def explain(*lines: str) -> Diagnosis:
    return diagnose(["\n".join([*lines, ""]).encode()])


@pytest.mark.parametrize(
    "line",
    [
        "frobnicator: the widget could not be aligned",
        "frob 2.1 is not installable with blort 3",
        "The licence of this compiler expired yesterday",
        "blort: unresolved grumble in section 7",
        "widget table is corrupted",
    ],
)
def test_what_nobody_knows_is_quoted_with_low_confidence(line: str) -> None:
    found = explain("starting", line, "bye")
    assert [(match.id, match.confidence, match.line) for match in found.matches] == [("plain-error", "low", 2)]
    assert line in found.matches[0].evidence and line in found.matches[0].cause
    assert found.unexplained is not None and found.unexplained.quote == line and len(found.unexplained.steps) == 3


@pytest.mark.parametrize(
    "line",
    [
        "all done, 0 errors",
        "finished without errors",
        "212 passed, failed: 0",
        "-- Looking for grumble - not found",
        "checking for blort... not found",
        "warning: the widget could not be aligned",
        "everything is fine",
    ],
)
def test_a_healthy_end_stays_unanswered(line: str) -> None:
    found = explain("starting", line)
    assert found.matches == () and found.unexplained is None


def test_only_the_end_of_the_log_is_looked_at() -> None:
    trouble = "the widget could not be aligned"
    assert explain(trouble, *["fine"] * 19).matches[0].line == 1
    assert explain(trouble, *["fine"] * 20).matches == ()


def test_trouble_before_a_good_step_is_over() -> None:
    trouble = "the widget could not be aligned"
    assert explain(trouble, "Successfully installed frob-1.0").matches == ()
    assert explain("Successfully installed frob-1.0", trouble).matches[0].line == 2


def test_the_last_of_several_is_quoted() -> None:
    assert explain("the widget could not be aligned", "nor could the blort: it cannot turn", "bye").matches[0].line == 2


def test_a_known_error_is_not_joined_by_last_words() -> None:
    found = explain("c++: fatal error: Killed signal terminated program cc1plus", "the widget could not be aligned")
    assert [match.id for match in found.matches] == ["oom-killed"]


def test_a_good_step_in_the_very_line_ends_the_search() -> None:
    said = event(evidence="x")
    for line, found in ((1, True), (2, False)):
        reading = Reading(lines=2, tail="fine\nit could not be aligned\n")
        reading.signals["installed"] = seen(event(line))
        add_last_words(reading)
        assert bool(reading.forms) is found
    reading = Reading(lines=1, tail="it failed\n", rules={"r": seen(said)})
    add_last_words(reading)
    assert not reading.forms


def test_how_much_of_the_line_is_kept() -> None:
    line = "it failed " + "x y " * 100
    reading = Reading(lines=7, tail=f"fine\n  {line}\n")
    add_last_words(reading)
    [found] = reading.forms.values()
    [said] = found.all
    assert (found.count, said.line, said.way) == (1, 7, "@plain-error")
    assert (said.evidence, said.head, said.values) == (line[:300], line[:60], {"message": line[:240]})
