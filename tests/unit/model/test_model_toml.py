"""What is written as TOML is read back unchanged by another reader: the canonical form and the readable one."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.model.toml import render_table, toml_key, toml_value

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
VALUES = st.recursive(
    st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=8,
)


@given(TEXT, VALUES)
def test_written_is_read(key: str, value: Any) -> None:
    assert tomllib.loads(f"{toml_key(key)} = {toml_value(value)}\n") == {key: value}


@given(st.dictionaries(TEXT, VALUES, max_size=4))
def test_the_readable_form_is_read_back_too(table: dict[str, Any]) -> None:
    assert tomllib.loads(render_table(table)) == table


def test_bare_where_it_can_be() -> None:
    assert toml_key("sm_35-x") == "sm_35-x" and toml_key("a.b") == '"a.b"' and toml_key("") == '""'
    assert toml_value({"a": [1, True], "b": {}}) == "{ a = [1, true], b = {} }"


def test_nothing_is_left_out_of_the_readable_form() -> None:
    assert render_table({"a": None, "b": [1, None], "c": {"d": None}}) == "b = [1]\nc = {}\n"
    assert render_table({"p": "C:\\x"}) == "p = 'C:\\x'\n"


def test_what_has_no_form_is_refused() -> None:
    with pytest.raises(TypeError, match="no TOML form for bytes"):
        toml_value(b"x")
