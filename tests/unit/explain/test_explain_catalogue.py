"""The catalogue: complete, fresh, and helpful about ids that do not exist."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest

import catalogue as pages
from catalogue import render_pages
from rekindle.errors import BadInput
from rekindle.explain.rule import explain_list, explain_rule, load_rules
from rekindle.model.diagnosis import Catalogue, readable

ROOT = Path(__file__).resolve().parents[3]


def test_the_pages_in_docs_are_fresh() -> None:
    made, docs = render_pages(), ROOT / "docs"
    there = {path.relative_to(docs).as_posix() for path in docs.glob("diagnoses/*.md")} | {"diagnoses.md"}
    assert there == set(made), "run: python tools/catalogue.py"
    for name, page in made.items():
        assert (docs / name).read_text(encoding="utf-8") == page, f"{name}: run python tools/catalogue.py"


def test_the_front_page_leads_to_every_heading() -> None:
    made = render_pages()
    links = set(re.findall(r"\((diagnoses/\w+\.md)#([\w-]+)\)", made.pop("diagnoses.md")))
    headings = {
        (name, heading.lower().replace(".", "").replace(" (", "-").rstrip(")"))
        for name, page in made.items()
        for heading in re.findall(r"^## (.+)$", page, re.MULTILINE)
    }
    assert links == headings and len(links) > 700


def test_every_rule_is_in_it() -> None:
    assert len(explain_list().rules) == len(load_rules())


def test_a_page_has_all_variants() -> None:
    variants = {
        "",
        "shell",
        "conda-solver",
        "wsl",
        "pip",
        "jetson",
        "slurm",
        "dataloader",
        "run",
        "training",
        "extension",
        "loading",
        "linker",
        "jetson-vllm",
    }
    assert {page.variant for page in explain_rule("oom-killed").rules} == variants


def test_an_unknown_id_names_its_neighbours() -> None:
    with pytest.raises(BadInput) as caught:
        explain_rule("glibcx-not-found")
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
    assert not [name for name, page in render_pages().items() if "{" in page.replace("{libcudnn", "")]


def test_a_step_of_which_nothing_is_left_is_no_step(monkeypatch: pytest.MonkeyPatch) -> None:
    page = msgspec.structs.replace(explain_rule("oom-killed").rules[0], fix=("", "Do it."))
    whole = Catalogue(rules=(page,), families={page.family: "About."})
    monkeypatch.setattr(pages, "explain_list", lambda: whole)
    made = render_pages()[f"diagnoses/{page.family}.md"]
    assert [line for line in made.splitlines() if line.startswith("-")] == ["- Do it."]
