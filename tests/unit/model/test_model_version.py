"""Versions as numbers, held against packaging's own reading of them; and pins, which are nothing but versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from rekindle.errors import BadInput
from rekindle.model.version import (
    NotAVersion,
    at_least,
    compare,
    flavour_name,
    is_version,
    key,
    matches,
    minor,
    pin_requirement,
    reaches,
)

numbers = st.lists(st.integers(0, 12), min_size=1, max_size=4).map(lambda parts: ".".join(map(str, parts)))
operators = st.sampled_from(["==", "!=", ">=", "<=", ">", "<"])


@given(numbers, numbers)
def test_order_is_that_of_packaging(left: str, right: str) -> None:
    a, b = Version(left), Version(right)
    assert compare(left, right) == (a > b) - (a < b) and at_least(left, right) is (a >= b)


@given(numbers, st.lists(st.tuples(operators, numbers), min_size=1, max_size=3))
def test_conditions_hold_where_packaging_says_so(version: str, clauses: list[tuple[str, str]]) -> None:
    spec = ",".join(f"{operator}{number}" for operator, number in clauses)
    assert matches(version, spec) is SpecifierSet(spec).contains(version)


@pytest.mark.parametrize(
    ("left", "right"), [("2.8", "2.8.0"), ("2", "2.0.0"), ("2.8.0.0", "v2.8"), ("12.8+cu1", "12.8")]
)
def test_numbers_that_are_missing_are_zeros_on_either_side(left: str, right: str) -> None:
    assert compare(left, right) == compare(right, left) == 0
    assert at_least(left, right) and at_least(right, left) and matches(left, f">={right.lstrip('v')}")
    assert (
        compare(left, f"{right.partition('+')[0]}.0.0.0.1")
        == -1
        == -compare(f"{left.partition('+')[0]}.0.0.0.1", right)
    )


@pytest.mark.parametrize(
    ("version", "spec", "holds"),
    [
        ("2.6.1", "!=2.6.*", False),
        ("2.60.1", "!=2.6.*", True),
        ("2.6.1", "!=2.6", True),
        ("2.6.1", "==2.6.*", True),
        ("2.6.1", "==2.6", False),
        ("2.6", "==2.6.0", True),
        ("2.6.1", "~=2.6", True),
        ("2.7", "~=2.6.0", False),
        ("2.6.3", "~=2.6.4", False),
        ("3.1", "~=3", True),
        ("4.0", "~=3", False),
    ],
)
def test_each_sign_at_its_border(version: str, spec: str, holds: bool) -> None:
    assert matches(version, spec) is holds


@pytest.mark.parametrize(
    ("version", "floor", "reached"),
    [("9", "9.4", True), ("8", "9.4", False), ("10", "9.4", True), ("9.3", "9.4", False), ("9.4", "9.4", True)],
)
def test_a_bare_number_means_the_newest_of_it(version: str, floor: str, reached: bool) -> None:
    assert reaches(version, floor) is reached


@given(numbers, st.sampled_from(["==", "!="]), numbers)
def test_a_star_stands_for_what_comes_behind(version: str, operator: str, number: str) -> None:
    # packaging fills the shorter one up with zeros; a version here is compared as far as it is written.
    longer = version + ".0.0.0"
    assert matches(longer, f"{operator}{number}.*") is SpecifierSet(f"{operator}{number}.*").contains(longer)


@given(numbers, st.lists(st.integers(0, 12), min_size=2, max_size=3))
def test_about_a_release_means_it_and_what_follows_below_the_next(version: str, parts: list[int]) -> None:
    number = ".".join(map(str, parts))
    longer = version + ".0.0"
    assert matches(longer, f"~={number}") is SpecifierSet(f"~={number}").contains(longer)


@pytest.mark.parametrize(
    ("version", "spec", "holds"),
    [("2.6.1", "2.6", True), ("2.60", "2.6", False), ("2.6", "2.6.1", False), ("v2.6.1", "v2.6", True)],
)
def test_a_bare_number_means_a_release_with_its_patches(version: str, spec: str, holds: bool) -> None:
    assert matches(version, spec) is holds


@pytest.mark.parametrize(("text", "one"), [("2.6", True), ("v2", True), ("2rc1", True), ("", False), ("x2", False)])
def test_a_version_begins_with_a_number(text: str, one: bool) -> None:
    assert is_version(text) is one


@pytest.mark.parametrize("text", ["", "x", ".1", "1" * 19, "1." + "1" * 19])
def test_what_is_no_version_is_refused(text: str) -> None:
    with pytest.raises(NotAVersion):
        key(text)


def test_the_longest_number_that_is_one() -> None:
    assert key("1" * 18) == (int("1" * 18),) and key("v2.8.1rc1") == (2, 8, 1)
    assert minor("2.8.1") == minor("2.8") == "2.8" and minor("2") == "2"


def test_what_wheels_of_a_toolkit_are_called() -> None:
    said = [flavour_name("12.8.1", None), flavour_name(None, "6.4"), flavour_name(None, None)]
    assert said == ["cu128", "rocm6.4", "cpu"]


@pytest.mark.parametrize(
    ("name", "pin", "word"),
    [("setuptools", "<60", "setuptools<60"), ("numpy", "1.24.4", "numpy==1.24.4"), ("a", ">=1,<2", "a>=1,<2")],
)
def test_a_pin_is_a_package_and_its_versions(name: str, pin: str, word: str) -> None:
    assert pin_requirement(name, pin) == word


@pytest.mark.parametrize(
    "pin", [" @ file:///evil", "; python_version > '3'", "[extra]", "<60 -r /etc/passwd", "-more", ">=1\n-r x", "more"]
)
def test_nothing_else_is_a_pin(pin: str) -> None:
    with pytest.raises(BadInput, match="the plan pins"):
        pin_requirement("setuptools", pin)
