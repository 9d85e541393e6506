"""Texts with values: defaults, brackets, and sentences that are left out when nothing is known."""

from __future__ import annotations

import pytest

from rekindle.explain.engine import render, render_whole


@pytest.mark.parametrize(
    ("template", "values", "text"),
    [
        ("nvcc {v} is old.", {"v": "12.3"}, "nvcc 12.3 is old."),
        ("nvcc {v|here} is old.", {}, "nvcc here is old."),
        ("It is old. The first is {first}. Done.", {}, "It is old. Done."),
        ("Uses {flag,name|something}.", {"name": "x"}, "Uses x."),
        ("nvcc{v_in_brackets|} is old.", {"v": "12.3"}, "nvcc (12.3) is old."),
        ("nvcc{v_in_brackets|} is old.", {}, "nvcc is old."),
        ("Old. {a_sentence} {b_sentence}", {"b_sentence": "Truly."}, "Old. Truly."),
        ("Old. {a_sentence} {b_sentence}", {}, "Old."),
        ("Take another ({hint|e.g. --index-url X}).", {}, "Take another (e.g. --index-url X)."),
        ("{only}", {}, ""),
        ("The instruction {name} belongs to SSE4. The processor lacks it.", {}, "The processor lacks it."),
        ("{a_sentence} The processor lacks it.", {}, "The processor lacks it."),
        ("{a_sentence} and more. Done.", {}, "Done."),
        ("Take {a} or {b} here.", {"a": "x"}, ""),
    ],
)
def test_render(template: str, values: dict[str, str], text: str) -> None:
    assert render(template, values) == text


def test_steps_without_values_disappear() -> None:
    assert [render(step, {}) for step in ("do {this}", "do that")] == ["", "do that"]


def test_fields_of_every_form_are_filled() -> None:
    assert render("{a} {b|x} {c,d}{e_in_brackets|}", dict(zip("abcde", "12345", strict=True))) == "1 2 3 (5)"


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{library} is not where the loader looks.", "It is not where the loader looks."),
        ("It asks for {symbol}, which is older.", "It asks for it, which is older."),
        ("The first is {first}. Done.", "Done."),
        ("{a_sentence}", ""),
    ],
)
def test_a_cause_is_never_left_out_whole(template: str, text: str) -> None:
    assert render_whole(template, {}) == text
