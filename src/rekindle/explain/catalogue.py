"""The rules as a catalogue: for ``--list``, for ``--rule ID``, and as the page ``docs/diagnoses.md``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from rekindle.errors import BadInput
from rekindle.explain.rule import Rule, load_files
from rekindle.model.diagnosis import Catalogue, RulePage, readable

_STAGES = {
    "source": "getting the sources",
    "configure": "configuring",
    "compile": "compiling",
    "link": "linking",
    "install": "installing",
    "import": "importing",
    "runtime": "running",
}


def catalogue() -> Catalogue:
    files = {name: file for name, file in load_files().items() if file.rule}
    return Catalogue(
        rules=tuple(_page(rule, name) for name, file in files.items() for rule in file.rule),
        families={name: file.about for name, file in files.items()},
    )


def find_pages(rule_id: str) -> Catalogue:
    """The page of one id (with all its variants); an unknown id is answered with its neighbours."""
    whole = catalogue()
    pages = tuple(page for page in whole.rules if page.id == rule_id)
    if not pages:
        near = difflib.get_close_matches(rule_id, {page.id for page in whole.rules}, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "'rekindle explain --list' names them all"
        raise BadInput(f"there is no diagnosis {rule_id!r}", remedy=hint)
    return Catalogue(rules=pages, families={page.family: whole.families[page.family] for page in pages})


def render_markdown() -> str:
    """``docs/diagnoses.md``; tools/catalogue.py writes it and a test holds it to the rules."""
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


def _page(rule: Rule, family: str) -> RulePage:
    alike = {name: getattr(rule, name) for name in RulePage.__struct_fields__ if hasattr(rule, name)}
    words = tuple(dict.fromkeys(word for pattern in rule.match for word in pattern.has))
    return RulePage(**alike, family=family, words=words, asks=rule.when)
