"""Sizes and durations as people say them, at the edges of each unit."""

from __future__ import annotations

import pytest

from rekindle.model.spoken import (
    capital,
    sentence,
    spoken_age,
    spoken_bytes,
    spoken_left,
    spoken_minutes,
    spoken_months,
    spoken_seconds,
)


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1 kB"), (999_499, "999 kB"), (999_500, "1.0 MB"),
     (9_940_000, "9.9 MB"), (9_950_000, "10 MB"), (999_500_000, "1.0 GB"), (9_940, "10 kB"),
     (9_960_000, "10 MB"), (205_300_000, "205 MB"), (999_400_000, "999 MB"),
     (999_600_000, "1.0 GB"), (2_540_000_000, "2.5 GB"), (12_300_000_000, "12 GB")],
)  # fmt: skip
def test_bytes(count: float, text: str) -> None:
    assert spoken_bytes(count) == text


@pytest.mark.parametrize(
    ("low", "high", "text"),
    [(40, 90, "40 to 90 minutes"), (1, 1, "1 minute"), (60, 119, "60 to 119 minutes"), (60, 120, "1 to 2 hours"),
     (204, 402, "3.4 to 6.7 hours"), (600, 1300, "10 to 22 hours"), (1440, 2880, "1 to 2 days")],
)  # fmt: skip
def test_a_range_is_in_one_unit(low: float, high: float, text: str) -> None:
    assert spoken_minutes(low, high) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (9.95, "10 s"), (9.96, "10 s"), (59.4, "59 s"), (59.6, "1 min"),
     (120, "2 min"), (200, "3 min 20 s"),
     (599, "9 min 59 s"), (600, "10 min"), (615, "10 min"),
     (3599, "60 min"), (3600, "1 h 00 min"), (18240, "5 h 04 min"), (172800, "2 days")],
)  # fmt: skip
def test_one_duration(seconds: float, text: str) -> None:
    assert spoken_seconds(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "almost done"), (9.9, "almost done"), (10, "about 10 s left"), (85, "about 80 s left"),
     (90, "about 2 minutes left"), (5399, "about 90 minutes left"), (5400, "about 1.5 hours left"),
     (35_784, "about 9.9 hours left"), (35_820, "about 10 hours left"), (37_440, "about 10 hours left"),
     (129_599, "about 36 hours left"), (129_600, "about 2 days left"), (131_400, "about 2 days left"),
     (200_000, "about 2 days left")],
)  # fmt: skip
def test_a_time_left_is_no_finer_than_it_can_be_known(seconds: float, text: str) -> None:
    assert spoken_left(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(59, "just now"), (60, "1 minute ago"), (7199, "119 minutes ago"), (7200, "2 hours ago"), (172_800, "2 days ago")],
)
def test_ages(seconds: float, text: str) -> None:
    assert spoken_age(seconds) == text


@pytest.mark.parametrize(
    ("text", "begun", "whole"),
    [
        ("the driver is too old", "The driver is too old", "The driver is too old."),
        ("Do not.", "Do not.", "Do not."),
        ("torch 2.6 is newer", "torch 2.6 is newer", "torch 2.6 is newer."),
        ("torchvision has none", "Torchvision has none", "Torchvision has none."),
        ("gcc 15.", "gcc 15.", "gcc 15."),
        ("", "", "."),
    ],
)
def test_sentences(text: str, begun: str, whole: str) -> None:
    assert (capital(text), sentence(text)) == (begun, whole)


@pytest.mark.parametrize(
    ("first", "last", "text"),
    [
        ("2025-06-04", "2026-10-28", "17 months"),
        ("2026-09-30", "2026-10-28", "1 month"),
        ("2024-11-01", "2026-10-28", "2 years"),
        ("2024-12-01", "2026-10-28", "23 months"),
        ("2024-06-05", "2026-10-28", "2.4 years"),
    ],
)
def test_months_from_one_day_to_another(first: str, last: str, text: str) -> None:
    assert spoken_months(first, last) == text
