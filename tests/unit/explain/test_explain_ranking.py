"""How a finding is weighed, which one is the root, and which are noise: each step with its numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from rekindle.explain import ranking
from rekindle.explain.events import Event, Seen
from rekindle.explain.ranking import CONDITIONS, Finding, findings, is_harmless
from rekindle.explain.rule import Proof, Rule
from rekindle.explain.scene import Scene
from rekindle.model.diagnosis import Confidence
from scenes import event, scene, seen, wheel

PROVEN = Proof(right=1, ways=("w",))
PROOFS = dict.fromkeys(("a", "b", "c", "d"), PROVEN)


def rule(name: str = "a", stage: str = "runtime", **parts: Any) -> Rule:
    return Rule(id=name, title="t", stage=stage, cause="c", fix=(), source="s", **parts)  # type: ignore[arg-type]


def weigh(given: Rule, *events: Event, here: Scene | None = None, **parts: Any) -> Finding | None:
    """The finding of one rule that fired with these events."""
    there = here or scene(**parts)
    there.reading.rules[given.key] = seen(*(events or (event(way="w"),)))
    found = findings({given.key: given}, there, PROOFS)
    assert len(found) <= 1
    return found[0] if found else None


def told(finding: Finding | None) -> tuple[str, float, bool]:
    assert finding is not None
    return finding.confidence, finding.rank, finding.noise


CERTAIN = ("high", 50.0, False)


def reply(answer: bool | None, event: Event, scene: Scene) -> bool | None:
    return answer


@pytest.fixture(autouse=True)
def answers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, answer in (("yes", True), ("no", False), ("unknown", None)):
        monkeypatch.setitem(CONDITIONS, name, partial(reply, answer))


@pytest.mark.parametrize(
    ("when", "result"),
    [
        ((), CERTAIN),
        (("yes",), CERTAIN),
        (("unknown",), ("medium", 42.0, False)),
        (("unknown", "unknown"), ("low", 34.0, False)),
        (("unknown", "unknown", "unknown"), ("low", 26.0, False)),
    ],
)
def test_an_unanswered_question_costs_confidence_and_rank(
    when: tuple[str, ...], result: tuple[str, float, bool]
) -> None:
    assert told(weigh(rule(when=when))) == result


def test_a_question_answered_no_ends_it() -> None:
    assert weigh(rule(when=("yes", "no"))) is None
    assert weigh(rule(when=("no",)), event(way="w"), event(2, way="w")) is None


def test_only_proven_words_are_certain_unless_the_installed_torch_answered() -> None:
    assert told(weigh(rule(), event(way="other"))) == ("medium", 50.0, False)
    assert told(weigh(rule(when=("yes",)), event(way="other"))) == ("medium", 50.0, False)
    assert told(weigh(rule(when=("yes",)), event(way="other"), wheel=wheel("sm_80"))) == CERTAIN
    assert told(weigh(rule(), event(way="other"), wheel=wheel("sm_80"))) == ("medium", 50.0, False)


@pytest.mark.parametrize(
    ("torch", "inside"),
    [(None, True), ("2.0.9", False), ("2.1.0", True), ("2.3.0", True), ("2.5.0", True), ("2.5.1", False)],
)
def test_releases_a_rule_is_known_for(torch: str | None, inside: bool) -> None:
    known = {"torch_version": torch} if torch else {}
    result = told(weigh(rule(since="2.1.0", until="2.5.0"), values=known))
    assert result == (CERTAIN if inside else ("medium", 35.0, False))
    assert told(weigh(rule(), values=known)) == CERTAIN


@pytest.mark.parametrize(
    ("stage", "kind", "probe"),
    [
        ("configure", "error", True), ("compile", "error", True), ("link", "warning", True),
        ("compile", "note", False), ("runtime", "error", False), ("install", "error", False),
    ],
)  # fmt: skip
def test_a_test_of_cmake_is_noise(stage: str, kind: str, probe: bool) -> None:
    here = event(way="w", around="gcc -c CMakeFiles/CMakeTmp/x.c")
    assert told(weigh(rule(stage=stage, kind=kind), here)) == (("low", 5.0, True) if probe else CERTAIN)
    assert told(weigh(rule(stage=stage, kind=kind), event(way="w", around="gcc -c x.c"))) == CERTAIN


@pytest.mark.parametrize(
    ("evidence", "kind", "result"),
    [
        ("x.c:3: warning: unused", "error", ("medium", 25.0, False)),
        ("x.c:3: warning: unused", "warning", CERTAIN),
        ("x.c:3: warning: treated as error", "error", CERTAIN),
        ("x.c:3: unused", "error", CERTAIN),
        ("NCCL WARN Call to connect failed", "error", CERTAIN),
        ("UserWarning: old", "error", ("medium", 34.0, False)),
        ("UserWarning: old", "warning", CERTAIN),
        ("UserWarning: CUDA initialization: no", "error", ("high", 34.0, False)),
        ("INFO: it was so", "error", ("medium", 25.0, False)),
        ("INFO: it was so", "warning", ("medium", 25.0, False)),
        ("INFO: ValueError: it was so", "error", CERTAIN),
    ],
)
def test_warnings_and_information_count_less(evidence: str, kind: str, result: tuple[str, float, bool]) -> None:
    assert told(weigh(rule(kind=kind), event(way="w", evidence=evidence))) == result


def test_the_head_of_the_line_tells_information_too() -> None:
    assert told(weigh(rule(), event(way="w", evidence="far behind", head="INFO: begin"))) == ("medium", 25.0, False)


@pytest.mark.parametrize(
    ("kind", "line", "evidence", "later"),
    [
        ("gcc/compile-refused/0", 6, "error", True),
        ("gcc/compile-refused/0", 5, "error", False),
        ("gcc/compile-refused/0", 6, "UserWarning: again", False),
        ("ninja/step-failed/0", 6, "error", False),  # what a driver says follows from something else
        ("py/exception/0", 6, "error", True),
    ],
)
def test_a_warning_before_an_error_is_not_its_reason(kind: str, line: int, evidence: str, later: bool) -> None:
    forms = {kind: seen(event(line, evidence=evidence))}
    here = event(5, way="w", evidence="UserWarning: old")
    assert told(weigh(rule(), here, forms=forms)) == (("low", 4.0, False) if later else ("medium", 34.0, False))


@pytest.mark.parametrize(
    ("stage", "kind", "counts"),
    [
        ("runtime", "py/exception/0", False), ("import", "cuda/gpu-error/0", False), ("runtime", "x/no-gpu/0", False),
        ("runtime", "gcc/compile-refused/0", True), ("compile", "py/exception/0", True),
    ],
)  # fmt: skip
def test_a_warning_about_the_gpu_may_be_the_reason_of_a_gpu_error(stage: str, kind: str, counts: bool) -> None:
    here = event(5, way="w", evidence="UserWarning: CUDA initialization: no")
    result = told(weigh(rule(stage=stage), here, forms={kind: seen(event(6, evidence="error"))}))
    assert result == (("medium", 4.0, False) if counts else ("high", 34.0, False))


@pytest.mark.parametrize(
    ("stage", "after", "around", "handled"),
    [
        ("runtime", "no x. Falling back to y", "", True),
        ("import", "no x. Falling back to y", "", True),
        ("compile", "no x. Falling back to y", "", False),
        ("runtime", "no x.", "optional dependency no x.", True),
        ("runtime", "no x. trying next", "before no x. trying next", False),  # said of what comes behind
        ("runtime", "no x. trying next", "no x. trying next", True),
        ("runtime", "trying next", ">trying next", False),
        ("runtime", "", "trying next", True),
        ("runtime", "x" * 60 + "B", "start " + "x" * 60 + "A trying next", False),
        ("runtime", "no x.", "no x.", False),
    ],
)
def test_what_the_program_goes_on_without(stage: str, after: str, around: str, handled: bool) -> None:
    here = event(way="w", after=after, around=around)
    assert told(weigh(rule(stage=stage), here)) == (("medium", 25.0, False) if handled else CERTAIN)
    if stage == "runtime":
        assert is_harmless(here) is handled


def test_harmless_is_a_warning_information_or_handled() -> None:
    assert is_harmless(event(evidence="FutureWarning: x"))
    assert is_harmless(event(evidence="INFO: x"))
    assert is_harmless(event(after="defaults used"))
    assert not is_harmless(event(evidence="error: x"))


@pytest.mark.parametrize(
    ("stage", "kind", "milestone", "passed"),
    [
        ("source", "error", "configured", True), ("configure", "error", "configured", True),
        ("compile", "error", "built", True), ("compile", "error", "installed", True), ("link", "error", "built", True),
        ("compile", "error", "configured", False), ("compile", "warning", "built", False),
        ("install", "warning", "installed", True), ("install", "error", "installed", False),
        ("runtime", "error", "installed", False),
    ],
)  # fmt: skip
def test_a_step_the_build_got_past_is_noise(stage: str, kind: str, milestone: str, passed: bool) -> None:
    for line, behind in ((6, True), (5, False), (4, False)):
        here = scene({milestone: seen(event(line))})
        result = told(weigh(rule(stage=stage, kind=kind), event(5, way="w"), here=here))
        assert result == (("medium", 20.0, True) if passed and behind else CERTAIN)


def test_the_last_time_counts_where_the_build_got_past_the_first() -> None:
    given = rule(stage="compile")
    events = (event(5, way="w"), event(20, way="w"))
    between = weigh(given, *events, here=scene({"built": seen(event(10))}))
    assert told(between) == CERTAIN and between is not None and between.event.line == 5
    assert told(weigh(given, *events, here=scene({"built": seen(event(10), event(21))})))[2] is True


def test_signals_that_are_needed_or_forbidden() -> None:
    given = rule(needs=("x", "y"), forbids=("z",))
    assert weigh(given, here=scene(["x", "y"])) is not None
    assert weigh(given, here=scene(["x"])) is None
    assert weigh(given, here=scene(["x", "y", "z"])) is None


def test_what_the_log_contradicts_is_not_said() -> None:
    assert weigh(rule(requires={"python": ">=3.12"}), python_version="3.11") is None
    assert weigh(rule(requires={"python": ">=3.12"}), python_version="3.12") is not None


def test_the_first_event_stays_unless_a_later_one_is_better() -> None:
    plain, again, fuller = event(1, way="w"), event(2, way="w"), event(3, way="w", name="x")
    best = weigh(rule(), plain, again)
    assert best is not None and best.event is plain and best.count == 2
    best = weigh(rule(), plain, fuller)
    assert best is not None and best.event is fuller
    warned = event(1, way="w", evidence="UserWarning: x", name="x")
    best = weigh(rule(), warned, again)
    assert best is not None and best.event is again


def typed(rules: list[Rule], **forms: Seen) -> list[Finding]:
    named = {f"tool/{kind.replace('_', '-')}/0": found for kind, found in forms.items()}
    return findings({each.key: each for each in rules}, scene(forms=named), PROOFS)


def test_a_rule_hears_the_kinds_it_speaks_of() -> None:
    given = rule(on=("exception",), where={"name": "^Value"})
    found = typed([given], exception=seen(event(2, name="KeyError"), event(4, name="ValueError"), event(6)))
    assert [(each.event.line, each.count) for each in found] == [(4, 1)]
    assert typed([given], exception=seen(event(name="KeyError"))) == []
    assert typed([given], gpu_error=seen(event(name="ValueError"))) == []
    assert typed([rule()], exception=seen(event())) == []


def test_its_own_words_and_the_kinds_are_one_row_of_events() -> None:
    given = rule(on=("exception",))
    here = scene(forms={"py/exception/0": seen(event(2), event(9))}, rules={"a": seen(event(5))})
    events = ranking._events_of(given, here)
    assert events is not None and [each.line for each in events.all] == [2, 5, 9]
    assert events.count == 3 and events.last is not None and events.last.line == 9


def finding(
    name: str = "a", line: int = 1, rank: float = 50, confidence: Confidence = "high", noise: bool = False, **parts: Any
) -> Finding:
    return Finding(
        rule=rule(name, **parts),
        event=event(line),
        count=1,
        confidence=confidence,
        rank=rank,
        noise=noise,
    )


@pytest.mark.parametrize(
    ("second", "certain"),
    [
        (finding("b", line=6, rank=48), False),
        (finding("b", line=6, rank=47), True),  # not as good
        (finding("b", line=5, rank=48), True),  # the same place
        (finding("b", line=6, rank=50), False),
        (finding("a", line=6, rank=48), True),
        (finding("c", line=6, rank=48), True),  # a consequence
        (finding("d", line=6, rank=48), True),  # an alternative
        (finding("b", line=6, rank=48, general=True), True),
    ],
)
def test_a_rival_takes_the_certainty(second: Finding, certain: bool) -> None:
    first = finding("a", explains=("c",), alternatives=("d",))
    found = ranking._weigh_rival([first, second])
    assert found[0].confidence == ("high" if certain else "medium") and found[1] is second


def test_what_stands_above_the_first_is_a_rival_too() -> None:
    assert ranking._weigh_rival([finding("a", line=6), finding("b", line=1)])[0].confidence == "medium"
    assert ranking._weigh_rival([finding("a", line=5), finding("b", line=1)])[0].confidence == "high"


def test_only_the_second_is_a_rival() -> None:
    found = [finding("a"), finding("b", line=2), finding("c", line=9)]
    assert [each.confidence for each in ranking._weigh_rival(found)] == ["high"] * 3


def test_questions_are_answered_yes_or_no() -> None:
    assert ranking._failed_later(rule(), event(), scene()) is False
    assert Finding(rule=rule(), event=event(), count=1, confidence="low", rank=1).noise is False


def test_without_a_second_or_certainty_nothing_changes() -> None:
    assert ranking._weigh_rival([]) == []
    alone = [finding()]
    assert ranking._weigh_rival(alone)[0].confidence == "high"
    low = [finding(confidence="low"), finding("b", line=9)]
    assert ranking._weigh_rival(low)[0].confidence == "low"


def test_of_answers_that_exclude_each_other_the_better_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking, "excludes", lambda one, other: {one, other} == {"a", "b"})

    def names(*given: Finding) -> list[str]:
        return [each.rule.id for each in ranking._drop_opposites(list(given))]

    assert names(finding("a"), finding("b"), finding("c")) == ["a", "c"]
    assert names(finding("b"), finding("a"), finding("c")) == ["b", "c"]
    assert names(finding("a", alternatives=("b",)), finding("b")) == ["a", "b"]


@pytest.mark.parametrize(
    ("line", "stays"), [(15, True), (14, False), (10, False), (6, False), (5, True)]
)  # fmt: skip
def test_a_general_answer_beside_a_specific_one(line: int, stays: bool) -> None:
    found = ranking._drop_general([finding("a", line=10), finding("b", line=line, general=True)])
    assert [each.rule.id for each in found] == (["a", "b"] if stays else ["a"])


def test_what_was_set_aside_answers_nothing() -> None:
    for aside in (finding("a", line=10, rank=40), finding("a", line=10, noise=True)):
        assert len(ranking._drop_general([aside, finding("b", line=10, general=True)])) == 2
    assert len(ranking._drop_general([finding("a", line=10, rank=41), finding("b", line=10, general=True)])) == 1


def test_one_general_answer_at_most() -> None:
    found = ranking._drop_general([finding("a", rank=30, general=True), finding("b", rank=35, general=True)])
    assert [each.rule.id for each in found] == ["b"]
    assert ranking._drop_general([]) == []


def test_a_consequence_sinks_below_its_root() -> None:
    root, result = finding("a", rank=50, explains=("b",)), finding("b", rank=60)
    assert [each.rank for each in ranking._lower_explained([root, result])] == [50, 49]
    assert [each.rank for each in ranking._lower_explained([root, replace(result, rank=30)])] == [50, 30]
    aside = replace(root, rank=40)
    assert [each.rank for each in ranking._lower_explained([aside, result])] == [40, 60]
    both = finding("c", rank=55, explains=("b",))
    assert [each.rank for each in ranking._lower_explained([root, both, result])] == [50, 55, 54]
    itself = finding("a", rank=50, explains=("a",))
    assert [each.rank for each in ranking._lower_explained([itself])] == [50]


def test_alternatives_follow_as_possibilities() -> None:
    rules = {
        "a": rule("a"), "b": rule("b"), "b/z": rule("b", variant="z"), "c": rule("c"),
    }  # fmt: skip
    first = finding("a", alternatives=("c", "b", "nobody"))
    found = ranking._add_alternatives([first], {"b/z": rules["b/z"], **rules}, scene())
    assert [(each.rule.id, each.rank, each.confidence) for each in found] == [
        ("a", 50, "high"),
        ("c", 45, "low"),
        ("b", 44, "low"),
    ]
    assert found[2].rule.variant == ""
    assert len(ranking._add_alternatives([first, finding("c"), finding("b")], rules, scene())) == 3
    twice = [finding("a", alternatives=("c",)), finding("b", alternatives=("c",))]
    assert len(ranking._add_alternatives(twice, rules, scene())) == 3
    ruled_out = {**rules, "c": rule("c", when=("cpu-lacks-avx",))}
    knows = scene(values={"cpu_name": "Intel(R) Xeon(R) CPU E5-2670 0 @ 2.60GHz"})
    assert [each.rule.id for each in ranking._add_alternatives([first], ruled_out, knows)] == ["a", "b"]


def test_the_order_of_findings() -> None:
    def order(*given: Finding) -> list[str]:
        return [each.rule.id for each in sorted(given, key=ranking._sort_key)]

    assert order(finding("a", rank=40), finding("b", rank=50)) == ["b", "a"]
    assert order(finding("a", rank=50, noise=True), finding("b", rank=10)) == ["b", "a"]
    assert order(finding("a", line=9, stage="compile"), finding("b", line=3, stage="link")) == ["b", "a"]
    assert order(finding("a", line=3), finding("b", line=9)) == ["b", "a"]


def test_the_best_comes_first_in_the_end() -> None:
    given = [rule("a", rank=40), rule("b", rank=60), rule("c", rank=50, general=True)]
    here = scene(rules={"a": seen(event(1)), "b": seen(event(20)), "c": seen(event(40))})
    assert [each.rule.id for each in findings({each.key: each for each in given}, here, {})] == ["b", "c", "a"]
