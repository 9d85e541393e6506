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
    found = sorted(find_holdings(), key=lambda item: (item.workspace or item.path, item.workspace is not None))
    return Holdings(items=tuple(found), places=tuple(str(one) for one in made.own_directories()))


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
    chosen = _chosen(what, everything)
    wanted = [one for one in chosen if one.age_seconds >= older_than_days * 86400]
    if dry_run or not wanted:
        return Cleaning(removed=tuple(wanted), dry_run=dry_run)
    if confirm is not None and not confirm(wanted):
        raise Declined("nothing was removed")
    removed: list[Holding] = []
    kept: list[Kept] = []
    # The innermost first: what a workspace counts as its own is what its parts do not.
    for one in sorted(wanted, key=lambda each: -len(each.path)):
        why = remove(one) if Path(one.path).exists() else None
        if why is None:
            removed.append(one)
        else:
            kept.append(Kept(path=one.path, why=why))
    return Cleaning(removed=tuple(removed), kept=tuple(kept))


def _chosen(what: Sequence[str], everything: bool) -> list[Holding]:
    items = holdings().items
    if everything and what:
        raise BadInput("--all leaves nothing to name", remedy="name kinds or paths, or give --all alone")
    if not what:
        kinds = EVERYTHING if everything else AGAIN
        return [one for one in items if one.kind in kinds]
    chosen: dict[str, Holding] = {}
    for word in what:
        if word in (*EVERYTHING, "wheelhouse"):
            chosen.update({one.path: one for one in items if one.kind == word})
            continue
        place = str(Path(word).expanduser().absolute())
        found = [one for one in items if one.path == place or one.workspace == place]
        if not found:
            raise BadInput(
                f"{word} is not among the things Rekindle made, so it is not touched",
                remedy=f"'rekindle list' shows them; kinds are {', '.join(EVERYTHING)}",
            )
        chosen.update({one.path: one for one in found})
    return list(chosen.values())
