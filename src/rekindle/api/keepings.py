"""``list`` and ``clean``: what Rekindle keeps on this machine, and removing some of it."""

from collections.abc import Callable, Sequence
from pathlib import Path

from rekindle.errors import BadInput, Declined
from rekindle.host import made
from rekindle.host.workspace import find_holdings, remove
from rekindle.model.holdings import Cleaning, Holding, Holdings, Kept

# What goes without being named: it costs time to make again, and nothing else.
AGAIN = ("build", "cache", "logs")
EVERYTHING = ("workspace", "source", "build", "environment", "wheels", "cache", "logs", "reports")


def holdings() -> Holdings:
    """Everything Rekindle made here: workspaces, environments, trees, caches, wheels, with sizes and ages.

    >>> all(item.bytes >= 0 for item in holdings().items)
    True
    """
    items = sorted(find_holdings(), key=lambda item: (item.workspace or item.path, item.workspace is not None))
    return Holdings(items=tuple(items), places=tuple(str(folder) for folder in made.own_directories()))


def clean(
    what: Sequence[str] = (),
    *,
    everything: bool = False,
    older_than_days: float = 0.0,
    dry_run: bool = False,
    confirm: Callable[[Sequence[Holding]], bool] | None = None,
) -> Cleaning:
    """Remove some of it: kinds or paths in ``what``; without any, build trees, caches and logs.

    Only what Rekindle made is ever removed, and nothing that another run holds. ``confirm`` sees what would go and
    may say no; without it the answer is yes.

    >>> clean(["logs"], dry_run=True).dry_run
    True
    """
    chosen = _choose_items(what, everything)
    to_remove = [holding for holding in chosen if holding.age_seconds >= older_than_days * 86400]
    if dry_run or not to_remove:
        return Cleaning(removed=tuple(to_remove), dry_run=dry_run)
    if confirm is not None and not confirm(to_remove):
        raise Declined("nothing was removed")
    removed: list[Holding] = []
    kept: list[Kept] = []
    # The innermost first: what a workspace counts as its own is what its parts do not.
    for holding in sorted(to_remove, key=lambda each: -len(each.path)):
        why = remove(holding) if Path(holding.path).exists() else None
        if why is None:
            removed.append(holding)
        else:
            kept.append(Kept(path=holding.path, why=why))
    return Cleaning(removed=tuple(removed), kept=tuple(kept))


def _choose_items(words: Sequence[str], everything: bool) -> list[Holding]:
    items = holdings().items
    if everything and words:
        raise BadInput("--all leaves nothing to name", remedy="name kinds or paths, or give --all alone")
    if not words:
        kinds = EVERYTHING if everything else AGAIN
        return [item for item in items if item.kind in kinds]
    chosen: dict[str, Holding] = {}
    for word in words:
        place, is_kind = str(Path(word).expanduser().absolute()), word in (*EVERYTHING, "wheelhouse")
        matches = [item for item in items if (item.kind == word if is_kind else place in (item.path, item.workspace))]
        if not (matches or is_kind):
            remedy = f"'rekindle list' shows them; kinds are {', '.join(EVERYTHING)}"
            raise BadInput(f"{word} is not among the things Rekindle made, so it is not touched", remedy=remedy)
        chosen.update({item.path: item for item in matches})
    return list(chosen.values())
