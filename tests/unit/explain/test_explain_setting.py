"""What the log says of the machine, what that contradicts, and what rules and forms are without more words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rekindle.errors import BadInput
from rekindle.explain import engine, ranking
from rekindle.explain import rule as rules
from rekindle.explain.conditions import facts_of, is_contradicted
from rekindle.explain.engine import diagnose, unexplained
from rekindle.explain.events import Event
from rekindle.explain.ranking import CONDITIONS, Finding
from rekindle.explain.rule import EventKind, Form, Pattern, Proof, Rule, capped, explain_rule
from scenes import event, scene, seen


def rule(name: str = "a", **parts: Any) -> Rule:
    return Rule(id=name, title="t", stage="compile", cause="c", fix=(), source="s", **parts)


@pytest.mark.parametrize(
    ("signals", "values", "facts"),
    [
        ([], {}, {}),
        (["windows"], {}, {"system": "windows"}),
        (["wsl"], {}, {"system": "Linux under WSL"}),
        (["jetson"], {}, {"system": "NVIDIA Jetson"}),
        (["arm"], {}, {"architecture": "ARM"}),
        ([], {"python_version": "3.12", "toolkit": "", "other": "x"}, {"python": "3.12"}),
        (["wsl", "arm"], {"gpu_name": "T4"}, {"system": "Linux under WSL", "GPU": "T4", "architecture": "ARM"}),
    ],
)
def test_facts_for_people(signals: list[str], values: dict[str, str], facts: dict[str, str]) -> None:
    assert facts_of(scene(signals, values=values)) == facts


@pytest.mark.parametrize(
    ("spec", "below", "same", "above"),
    [
        (">=3.12", True, False, False), ("<=3.12", False, False, True), ("==3.12", True, False, True),
        ("<3.12", False, True, True), (">3.12", True, True, False), (">=3.12,<3.13", True, False, True),
    ],
)  # fmt: skip
def test_what_contradicts_a_rule(spec: str, below: bool, same: bool, above: bool) -> None:
    given = rule(requires={"python": spec})
    answers = [is_contradicted(given, scene(python_version=version)) for version in ("3.11", "3.12", "3.13")]
    assert answers == [below, same, above]
    assert not is_contradicted(given, scene())


@pytest.mark.parametrize("name", ["python", "toolkit", "numpy", "cmake"])
def test_each_fact_has_its_own_value(name: str) -> None:
    value = {"toolkit": "toolkit"}.get(name, f"{name}_version")
    assert is_contradicted(rule(requires={name: "<2"}), scene(values={value: "2"}))
    assert not is_contradicted(rule(requires={name: "<2"}), scene(values={value: "1"}))


@pytest.mark.parametrize(
    ("values", "answer"),
    [
        ({"toolkit": "12.1", "torch_cuda": "12.4"}, True),
        ({"toolkit": "12.4", "torch_cuda": "12.4"}, False),
        ({"toolkit": "12.6", "torch_cuda": "12.4"}, False),
        ({"toolkit": "12.1"}, False),
        ({"torch_cuda": "12.4"}, False),
    ],
)
def test_an_nvcc_older_than_torch(values: dict[str, str], answer: bool) -> None:
    assert CONDITIONS["nvcc-older-than-torch-cuda"](event(), scene(values=values)) is answer


def test_what_a_pattern_and_a_rule_are_without_more_words() -> None:
    assert (Pattern(has=("word",)).lines, Pattern(has=("word",)).before) == (1, 0)
    assert (rule().rank, rule().general, rule().confidence, rule().kind) == (50, False, "high", "error")
    assert EventKind(words="x").outer is False and Form(event="x", match=()).number == 0


@pytest.mark.parametrize(
    ("has", "regex", "words", "test"),
    [
        (("plain words",), None, (b"plain words",), None),
        (("plain words",), "a+", (b"plain words",), "a+"),
        (("name 'x' is",), None, (b"name ",), "name\\ 'x'\\ is"),
        (("name ‘x’ is",), "a+", (b"name ",), "a+"),
        (("ab 'cdef'",), None, (b"cdef",), "ab\\ 'cdef'"),
        (("ab 'cde'",), None, (b"ab 'cde'",), None),  # no part is long enough to be looked for
        (("plain", "name `x`"), None, (b"plain", b"name "), "plain|name\\ 'x'"),
    ],
)
def test_quotes_of_any_shape(
    has: tuple[str, ...], regex: str | None, words: tuple[bytes, ...], test: str | None
) -> None:
    pattern = Pattern(has=has, regex=regex)
    assert (pattern.words, pattern.test) == (words, test)


def test_the_key_tells_variants_apart() -> None:
    assert (rule().key, rule(variant="x").key) == ("a", "a/x")


@pytest.mark.parametrize(
    ("right", "wrong", "enough"), [(0, 0, False), (1, 0, True), (9, 1, False), (10, 1, True), (19, 2, False)]
)
def test_one_wrong_answer_is_forgiven_in_ten(right: int, wrong: int, enough: bool) -> None:
    given = Proof(right=right, wrong=wrong, ways=("w",))
    assert capped("a", "w", "high", {"a": given}) == ("high" if enough else "medium")
    assert capped("a", "other", "high", {"a": given}) == "medium"
    assert capped("a", "w", "low", {"a": given}) == "low" and capped("b", "w", "high", {"a": given}) == "medium"


def test_without_proofs_nothing_is_proven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(rules, "PROVEN", tmp_path / "none.toml")
    assert rules.load_proofs.__wrapped__() == {}
    assert Proof(right=1).wrong == 0


def test_opposites_exclude_each_other_and_not_themselves(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "opposites.toml"
    path.write_text('[[opposite]]\none = ["a", "b"]\nother = ["c"]\nwhy = "x"\n', encoding="utf-8")
    monkeypatch.setattr(ranking, "OPPOSITES", path)
    monkeypatch.setattr(ranking, "load_opposites", ranking.load_opposites.__wrapped__)
    pairs = {(one, other) for one in "abcd" for other in "abcd" if ranking.excludes(one, other)}
    assert pairs == {("a", "c"), ("b", "c"), ("c", "a"), ("c", "b")}
    assert ranking.excludes("a", "b") is False


def test_eight_answers_at_most_each_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(names: list[str]) -> list[str]:
        given = [Finding(rule=rule(name), event=event(), count=1, confidence="low", rank=50) for name in names]
        monkeypatch.setattr(engine, "findings", lambda rules, scene, proofs: given)
        return [match.id for match in diagnose([b"x\n"]).matches]

    many = [f"r{number}" for number in range(12)]
    assert found(many) == many[:8]
    assert found(["a", "a", "b"]) == ["a", "b"]


def test_an_unknown_id_names_three_neighbours_at_most() -> None:
    with pytest.raises(BadInput) as caught:
        explain_rule("missing")
    assert str(caught.value.remedy).count(",") == 2


def said(**forms: list[Event]) -> tuple[str, int | None, str | None] | None:
    given = {f"tool/{kind.replace('_', '-')}/0": seen(*events) for kind, events in forms.items()}
    found = unexplained(scene(forms=given))
    return (found.kind, found.line, found.place) if found else None


def test_the_first_error_of_a_build_the_last_of_a_run() -> None:
    assert said() is None
    assert said(waiting=[event(1)]) is None
    assert said(compile_refused=[event(7), event(9)]) == ("compile-refused", 7, None)
    assert said(exception=[event(7), event(9)]) == ("exception", 9, None)
    assert said(exception=[event(3)], compile_refused=[event(7)]) == ("compile-refused", 7, None)
    assert said(step_failed=[event(1)], exception=[event(7)]) == ("exception", 7, None)
    assert said(step_failed=[event(5), event(6)]) == ("step-failed", 5, None)
    assert said(compile_refused=[event(3, evidence="UserWarning: x"), event(7)]) == ("compile-refused", 7, None)
    assert said(exception=[event(3), event(5, evidence="UserWarning: x")]) == ("exception", 3, None)


@pytest.mark.parametrize(
    ("values", "place"), [({"file": "a.c", "at": "3"}, "a.c:3"), ({"file": "a.c"}, "a.c"), ({"at": "3"}, None)]
)
def test_the_place(values: dict[str, str], place: str | None) -> None:
    assert said(compile_refused=[event(7, values=values)]) == ("compile-refused", 7, place)


def test_three_different_steps() -> None:
    for kind in ("compile-refused", "missing-header"):
        found = unexplained(scene(forms={f"tool/{kind}/0": seen(event(evidence="oh"))}, python_version="3.12"))
        assert found is not None and len(found.steps) == len(set(found.steps)) == 3
        assert found.facts == {"python": "3.12"} and "python 3.12" in found.post and "oh" in found.post
        assert found.post.startswith(found.words[0].upper() + found.words[1:] + ":")
