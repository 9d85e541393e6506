"""The catalogue: complete, fresh, and helpful about ids that do not exist."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

import catalogue as pages
from catalogue import render_markdown
from rekindle.errors import BadInput
from rekindle.explain.rule import catalogue, find_pages, load_rules
from rekindle.model.diagnosis import Catalogue, readable

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_in_docs_is_fresh() -> None:
    page = (ROOT / "docs" / "diagnoses.md").read_text(encoding="utf-8")
    assert page == render_markdown(), "run: python tools/catalogue.py"


def test_every_rule_is_in_it() -> None:
    assert len(catalogue().rules) == len(load_rules())


def test_a_page_has_all_variants() -> None:
    assert {page.variant for page in find_pages("oom-killed").rules} == {"", "shell", "conda-solver", "wsl"}


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


def test_a_step_of_which_nothing_is_left_is_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    page = msgspec.structs.replace(find_pages("oom-killed").rules[0], fix=("", "Do it."))
    whole = Catalogue(rules=(page,), families={page.family: "About."})
    monkeypatch.setattr(pages, "catalogue", lambda: whole)
    assert [line for line in render_markdown().splitlines() if line.startswith("-")] == ["- Do it."]
