"""Text for old code pages: our own signs become ASCII, letters the page has stay."""

from __future__ import annotations

import pytest

from rekindle.render.screen import spelled


@pytest.mark.parametrize(
    ("page", "want"),
    [("cp437", "a -> b... ü ?"), ("cp1252", "a -> b… ü ?"), ("cp936", "a → b… ü 中"), ("ascii", "a -> b... ? ?")],
)
def test_signs_and_letters(page: str, want: str) -> None:
    said = spelled("a → b… ü 中", page)
    assert said == want and said.encode(page)


def test_what_the_page_can_say_is_left_alone() -> None:
    assert spelled("→ ü 中", "utf-8") == "→ ü 中"
