"""What the planner says, by code: ``sentences.toml`` holds the words, the rules only fill them in.

A name is the code of what is said; where a code has several sentences, a slash and a word tell them apart. In braces
stand values by their names; ``{c.torch}`` and its like are fields of the candidate (any value will do).
"""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec

from rekindle.facts.tables import parse_toml
from rekindle.model.document import Part
from rekindle.model.plan import Change, Reason, Refusal

_FILE = Path(__file__).with_name("sentences.toml")


class Sentence(Part, frozen=True, kw_only=True):
    """``what`` is refused (the candidate where nothing is said), ``remedy`` what would help, ``certain`` as in
    :class:`Refusal`; ``source`` stands here where it is always the same."""

    text: str
    what: str = "{c.name}"
    remedy: str | None = None
    source: str | None = None
    certain: bool = True


@functools.cache
def load_sentences() -> dict[str, Sentence]:
    """Every sentence by its name."""
    return msgspec.convert(parse_toml(_FILE.read_bytes(), "plan-sentences"), dict[str, Sentence])


def say(
    name: str,
    candidate: object = None,
    /,
    *,
    source: str | None = None,
    handled: bool = False,
    **values: object,
) -> Reason:
    """The sentence of that name as a reason."""
    found = load_sentences()[name]
    text = found.text.format(c=candidate, **values)
    return Reason(code=name.partition("/")[0], text=text, source=source or found.source, handled=handled)


def refuse(
    name: str,
    candidate: object,
    /,
    *,
    source: str | None = None,
    remedy: str | None = None,
    rule: str | None = None,
    change: Change | tuple[str, str | None, str | None] | None = None,
    departure: bool = False,
    **values: object,
) -> Refusal:
    """The sentence of that name as a "no". ``change``: what would have to change, from what, to what; the sentence is
    its reason. ``remedy`` where it depends on more than values."""
    found = load_sentences()[name]
    reason = found.text.format(c=candidate, **values)
    if isinstance(change, tuple):
        change = Change(what=change[0], from_=change[1], to=change[2], why=reason)
    return Refusal(
        code=name.partition("/")[0],
        what=found.what.format(c=candidate, **values),
        reason=reason,
        remedy=remedy or (found.remedy.format(c=candidate, **values) if found.remedy else None),
        source=source or found.source,
        rule=rule,
        change=change,
        certain=found.certain,
        departure=departure,
    )
