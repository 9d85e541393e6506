"""Sizes: the same words mean the same in every verb."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import BadInput
from rekindle.model.spoken import GIB, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("16", 16 * GIB), ("16G", 16 * GIB), ("16g", 16 * GIB), ("16GB", 16 * GIB), ("16 GiB", 16 * GIB),
        (" 1.5T ", 3 << 39), ("1500M", 1500 << 20), ("8k", 8192), ("512b", 512), ("512 B", 512), ("0", 0),
        ("0.5", GIB // 2),
    ],
)  # fmt: skip
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", " ", "G", "-1", "1e9", "1,5G", "16 P", "16GG", "16ibb", "٣G x", "9" * 40, "1.G"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(BadInput, match="is no size"):
        parse_size(text)


@given(st.integers(0, 10**6), st.sampled_from(["k", "m", "g", "t"]))
def test_units_are_powers_of_1024(number: int, unit: str) -> None:
    assert parse_size(f"{number}{unit}") == number * 1024 ** ("kmgt".index(unit) + 1)
