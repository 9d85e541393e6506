"""``guide``: pages that start from the person, as they lie in ``docs/guides``."""

import difflib
from pathlib import Path

import rekindle
from rekindle.errors import BadInput, RekindleError
from rekindle.facts import load_facts
from rekindle.model.toml import read_beside
from rekindle.model.words import Text

_CALLED = read_beside(__file__, "guide_pages.toml", dict[str, tuple[str, ...]])


def guide(name: str | None = None) -> Text:
    """One page, or the list of them.

    >>> guide("v100").text.splitlines()[0]
    '# I have a GTX 9xx, a GTX 10xx or a V100, and torch 2.15 left it'
    >>> "rekindle guide kepler" in guide().text
    True
    >>> guide("Arc B580").text.splitlines()[0]
    '# I have an Intel Arc card, or a Core Ultra with Arc graphics'
    """
    if name is None:
        rows = [f"  rekindle guide {page:<13} {_read_page(page).splitlines()[0].lstrip('# ')}" for page in _CALLED]
        return Text(text="# Guides\n\n" + "\n".join(rows) + "\n")
    word = name.lower().replace(" ", "")
    pages = {called.replace(" ", ""): page for page, others in _CALLED.items() for called in (page, *others)}
    if page := pages.get(word) or _page_for(name):
        return Text(text=_read_page(page))
    near = difflib.get_close_matches(word, pages, n=1, cutoff=0.7)
    hint = f"did you mean 'rekindle guide {pages[near[0]]}'?" if near else f"there are {', '.join(_CALLED)}"
    raise BadInput(f"there is no guide {name!r}", remedy=hint)


def _page_for(card: str) -> str | None:
    """The page of a card by its name; None where it is no card's name, or the card needs no page."""
    from rekindle.facts.gpus import find_gpu

    facts = load_facts()
    try:
        gpu = find_gpu(card, facts)
    except RekindleError:
        return None
    if gpu.vendor != "nvidia":
        return {"amd": "amd", "intel": "arc"}.get(gpu.vendor)
    families = {facts.nvidia.chip[chip].family.lower() for chip in gpu.chips if chip in facts.nvidia.chip}
    return next((page for page, called in _CALLED.items() if families & {page, *called}), None)


def _read_page(page: str) -> str:
    package = Path(rekindle.__file__).parent
    # Beside the package where it was installed; in docs/ where it runs from a clone.
    for folder in (package / "guides", package.parents[1] / "docs" / "guides"):
        if (folder / f"{page}.md").is_file():
            return (folder / f"{page}.md").read_text(encoding="utf-8")
    return f"# {page}\n\nThis installation has no guides; they are in docs/guides of the source.\n"
