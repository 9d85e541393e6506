"""The rules as a catalogue, for ``--list`` and ``--rule ID``; ``tools/catalogue.py`` writes it as a page."""

from __future__ import annotations

import difflib

from rekindle.errors import BadInput
from rekindle.explain.rule import Rule, load_files
from rekindle.model.diagnosis import Catalogue, RulePage


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


def _page(rule: Rule, family: str) -> RulePage:
    alike = {name: getattr(rule, name) for name in RulePage.__struct_fields__ if hasattr(rule, name)}
    words = tuple(dict.fromkeys(word for pattern in rule.match for word in pattern.has))
    return RulePage(**alike, family=family, words=words, asks=rule.when)
