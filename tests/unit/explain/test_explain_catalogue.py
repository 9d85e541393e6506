"""The catalogue: complete, fresh, and helpful about ids that do not exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.explain.catalogue import catalogue, find_pages, render_markdown
from rekindle.explain.rule import load_rules
from rekindle.model.diagnosis import readable

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_in_docs_is_fresh() -> None:
    page = (ROOT / "docs" / "diagnoses.md").read_text(encoding="utf-8")
    assert page == render_markdown(), "run: python tools/catalogue.py"


def test_every_rule_is_in_it() -> None:
    assert len(catalogue().rules) == len(load_rules())


def test_a_page_has_all_variants() -> None:
    assert {page.variant for page in find_pages("oom-killed").rules} == {"", "shell"}


def test_an_unknown_id_names_its_neighbours() -> None:
    with pytest.raises(BadInput) as caught:
        find_pages("glibcx-not-found")
    assert "glibcxx-not-found" in str(caught.value.remedy)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("needs {arch|a newer one}.", "needs a newer one."),
        ("{have_gcc} is {x_in_brackets|}.", "<have gcc> is."),
        ("Killed. {memory_sentence}", "Killed."),
    ],
)
def test_texts_read_without_their_values(template: str, text: str) -> None:
    assert readable(template) == text


def test_no_page_shows_a_placeholder() -> None:
    assert "{" not in render_markdown().replace("{libcudnn", "")
