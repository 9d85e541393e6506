"""Writes docs/diagnoses.md and docs/diagnoses/ from the rules of ``explain``. Run it after changing a rule; a test
compares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from rekindle.explain.rule import explain_list  # noqa: E402
from rekindle.host.files import write_atomically  # noqa: E402
from rekindle.model.diagnosis import Catalogue, RulePage  # noqa: E402
from rekindle.model.diagnosis import readable as _readable  # noqa: E402

_STAGES = {
    "source": "getting the sources",
    "configure": "configuring",
    "compile": "compiling",
    "link": "linking",
    "install": "installing",
    "import": "importing",
    "runtime": "running",
}


def readable(template: str) -> str:
    """``<header>`` is a value here, and a tag for whoever shows the page, which hides all that follows."""
    return _readable(template).replace("<", "&lt;")


def render_pages() -> dict[str, str]:
    """``docs/diagnoses.md`` and a page for each family, by their paths in docs; a test holds them to the rules."""
    whole = explain_list()
    of_family = {name: [page for page in whole.rules if page.family == name] for name in whole.families}
    pages = {f"diagnoses/{name}.md": _family_page(name, whole.families[name], of_family[name]) for name in of_family}
    pages["diagnoses.md"] = _front_page(whole, of_family)
    return {name: "\n".join(lines) + "\n" for name, lines in pages.items()}


def _front_page(whole: Catalogue, of_family: dict[str, list[RulePage]]) -> Iterator[str]:
    yield "# Diagnoses"
    yield ""
    yield "What `rekindle explain` knows. Generated from `src/rekindle/explain/rules/*.toml` by `tools/catalogue.py`;"
    yield f"{len({page.id for page in whole.rules})} causes in {len(whole.rules)} rules. `<names>` stand for values"
    yield "taken from the log."
    for family, pages in of_family.items():
        yield ""
        yield f"## [{_heading(family)}](diagnoses/{family}.md)"
        yield ""
        yield whole.families[family]
        yield ""
        for page in pages:
            anchor = f"{page.id}-{page.variant}".lower().replace(".", "").rstrip("-")
            yield f"- [{readable(page.title)}](diagnoses/{family}.md#{anchor})"


def _family_page(family: str, about: str, pages: list[RulePage]) -> Iterator[str]:
    yield f"# {_heading(family)}"
    yield ""
    yield about
    for page in pages:
        yield ""
        yield f"## {page.id}" + (f" ({page.variant})" if page.variant else "")
        yield ""
        yield f"**{readable(page.title)}.** Seen while {_STAGES[page.stage]}; confidence {page.confidence}."
        yield ""
        yield readable(page.cause)
        yield ""
        yield from (f"- {readable(step)}" for step in page.fix if readable(step))
        yield from (f"- On Windows: {readable(step)}" for step in page.windows if readable(step))
        yield ""
        words = ", ".join(f"`{word}`" for word in page.words)
        yield (f"Looks for: {words}. " if words else "") + f"Source: <{page.source}>"


def _heading(family: str) -> str:
    return family.replace("_", " ").capitalize()


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("no options: it writes; tests/unit/explain/test_explain_catalogue.py says whether a page is stale")
    pages = render_pages()
    for name, text in pages.items():
        write_atomically(ROOT / "docs" / name, text)
    for left in {*(ROOT / "docs" / "diagnoses").glob("*.md")} - {ROOT / "docs" / name for name in pages}:
        left.unlink()
    print(f"docs/diagnoses.md and {len(pages) - 1} pages in docs/diagnoses written")
