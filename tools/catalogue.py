"""Writes docs/diagnoses.md from the rules of ``explain``. Run it after changing a rule; a test compares."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "src"))

from rekindle.explain.rule import catalogue  # noqa: E402
from rekindle.host.files import write_atomically  # noqa: E402
from rekindle.model.diagnosis import readable  # noqa: E402

_STAGES = {
    "source": "getting the sources",
    "configure": "configuring",
    "compile": "compiling",
    "link": "linking",
    "install": "installing",
    "import": "importing",
    "runtime": "running",
}


def render_markdown() -> str:
    """``docs/diagnoses.md``; a test holds it to the rules."""
    return "\n".join(_markdown()) + "\n"


def _markdown() -> Iterator[str]:
    whole = catalogue()
    ids = {page.id for page in whole.rules}
    yield "# Diagnoses"
    yield ""
    yield "What `rekindle explain` knows. Generated from `src/rekindle/explain/rules/*.toml` by `tools/catalogue.py`;"
    yield f"{len(ids)} causes in {len(whole.rules)} rules. `<names>` stand for values taken from the log."
    for family, about in whole.families.items():
        yield ""
        yield f"## {family.replace('_', ' ').capitalize()}"
        yield ""
        yield about
        for page in (page for page in whole.rules if page.family == family):
            yield ""
            variant = f" ({page.variant})" if page.variant else ""
            yield f"### {page.id}{variant}"
            yield ""
            yield f"**{readable(page.title)}.** Seen while {_STAGES[page.stage]}; confidence {page.confidence}."
            yield ""
            yield readable(page.cause)
            yield ""
            yield from (f"- {readable(step)}" for step in page.fix if readable(step))
            yield from (f"- On Windows: {readable(step)}" for step in page.windows if readable(step))
            yield ""
            yield f"Looks for: {', '.join(f'`{word}`' for word in page.words[:4])}. Source: <{page.source}>"


if __name__ == "__main__":
    if sys.argv[1:]:
        sys.exit("no options: it writes; tests/unit/explain/test_explain_catalogue.py says whether the page is stale")
    write_atomically(ROOT / "docs" / "diagnoses.md", render_markdown())
    print("docs/diagnoses.md written")
