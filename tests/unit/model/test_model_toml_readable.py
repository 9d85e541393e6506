"""TOML for people: which texts stand as they are, which are quoted, and when a list gets a line for each entry."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rekindle.model.toml import render_table, render_value, toml_text, toml_value

AWKWARD = st.text(st.sampled_from("ab'\"\\\n\t\r\x00\x1f\x7f "), max_size=12)


@given(AWKWARD)
@example("'''")
@example("one\n'''two")
@example("one\ntwo'")
@example("\n")
@example("one\r\ntwo")
def test_any_text_is_read_back_whichever_way_it_is_written(text: str) -> None:
    for written in (render_value(text), render_value([text])[1:-1], toml_text(text)):
        assert tomllib.loads(f"text = {written}\n") == {"text": text}


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("plain", '"plain"'),
        ("it's", '"it\'s"'),
        (r"C:\x", r"'C:\x'"),
        ('say "yes"', "'say \"yes\"'"),
        (r"C:\it's", r'"C:\\it' + "'s\""),
        ("C:\\\x1b", '"C:\\\\\\u001b"'),
        ("one\ntwo\n", "'''\none\ntwo\n'''"),
        ('one\n"two"\\', "'''\none\n\"two\"\\'''"),
        ("one\ntwo'", '"one\\ntwo\'"'),
        ("one\n'''two", "\"one\\n'''two\""),
        ("one\ntwo\x7f", '"one\\ntwo\\u007f"'),
    ],
)
def test_a_text_stands_as_it_is_where_that_reads_better(text: str, written: str) -> None:
    assert render_value(text) == written


def test_in_a_list_or_a_row_every_text_stays_on_its_line() -> None:
    assert render_value(["one\ntwo", "C:\\x"]) == r"""["one\ntwo", 'C:\x']"""
    assert render_value({"a": "C:\\x", "b": None}) == r"{ a = 'C:\x' }"


@pytest.mark.parametrize(("width", "lines"), [(90, 1), (91, 4)])
def test_a_list_that_is_too_wide_has_a_line_for_each_entry(width: int, lines: int) -> None:
    entries = ["x" * 40, "y" * (width - 40 - 4)]  # with their quotes: as wide as said
    written = render_value(entries)
    assert len(written.splitlines()) == lines
    assert tomllib.loads(f"a = {written}\n") == {"a": entries}
    assert len(render_value({"a": entries}).splitlines()) == 1, "a row is never broken"


def test_what_is_unknown_is_left_out_at_every_depth() -> None:
    table = {"a": None, "b": {"c": None, "d": [None, {"e": None, "f": 0}]}, "g": (1, None, False), "h": ""}
    assert tomllib.loads(render_table(table)) == {"b": {"d": [{"f": 0}]}, "g": [1, False], "h": ""}


def test_yes_and_no_are_no_numbers_and_numbers_no_texts() -> None:
    values = [True, False, 1, 0, 2.5, -3, "true", (), {}]
    assert toml_value(values) == '[true, false, 1, 0, 2.5, -3, "true", [], {}]'
    assert tomllib.loads(f"a = {toml_value(values)}") == {"a": [*values[:-2], [], {}]}
