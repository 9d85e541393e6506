"""The wheelhouse verbs: joins the index with what inspects, plans and knows the GPUs."""

import contextlib
import functools
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.facts.gpus import find_gpu
from rekindle.host.keys import believed_keys, checker, read_private, trusted_keys
from rekindle.host.made import own_directories
from rekindle.index.wheelhouse import store
from rekindle.index.wheelhouse.catalogue import admit_graft, load_wheels, location, receive_graft
from rekindle.index.wheelhouse.search import search, wanted_from
from rekindle.model.claims import IndexCheck
from rekindle.model.document import load
from rekindle.model.progress import Progress, Silent
from rekindle.model.verify import VerifyReport
from rekindle.model.wheel import WheelReport
from rekindle.model.wheelhouse import Added, Found, SearchOptions, Served, SiteBuilt, Synced, WheelMatch, Yanked
from rekindle.scripts.quoting import paste_line, pasted


def index_add(
    root: str,
    wheels: Sequence[str],
    *,
    report: str | None = None,
    proofs: Sequence[str] = (),
    look_inside: bool = True,
    progress: Progress | None = None,
) -> Added:
    """Check wheels and graft files, store them in the wheelhouse ``root`` with their evidence.

    >>> [each.state for each in index_add(str(folder / "house"), [str(wheel)]).wheels]
    ['added']
    """
    if len(wheels) > 1 and (report or proofs):
        raise BadInput("a report speaks about one wheel, but several were given", remedy="add them one by one")
    house, listener = store.Wheelhouse(Path(root)), progress or Silent()
    given = load(Path(report), WheelReport) if report else None
    given_records, given_proofs = store.split_proofs(proofs)
    proven = tuple(load(proof, VerifyReport) for proof in given_proofs)
    done = []
    for wheel in map(Path, wheels):
        if wheel.suffix == ".graft":
            from rekindle.graft.pack import read_graft

            # Checked whole; it needs none of the wheels here.
            with receive_graft(house, wheel, listener) as (copy, sha256, _):
                done.append(admit_graft(house, copy, sha256, read_graft(copy)[0]))
            continue
        with store.receive(house, wheel, listener) as incoming:
            store.check_about(incoming.sha256, wheel.name, proven)
            # The copy is what will be served, so the copy is what is looked into.
            seen = given
            if given is not None:
                store.check_report(given, incoming.read.name, incoming.bytes)
            elif look_inside:
                from rekindle.api.inspect_wheel import inspect

                listener.stage("inspect", wheel.name)
                # The report speaks of the wheel, not of the copy it was read from.
                read = inspect(str(incoming.path), progress=listener)
                seen = replace(read, target=wheel.name)
            statement, why_not = store.find_provenance(wheel, incoming.sha256, checker(trusted_keys()))
            evidence = store.Evidence(
                report=seen,
                proofs=proven,
                origin=store.find_origin(wheel, incoming.sha256),
                records=tuple(
                    store.take_record(raw, path.name, incoming.sha256, seen, checker(trusted_keys()))
                    for path, raw in given_records
                ),
                provenance=statement,
                warnings=(*store.broken_claims(seen), *([why_not] if why_not else [])),
            )
            done.append(store.admit(house, incoming, evidence))
    return Added(root=str(house.root), wheels=tuple(done), next=f"rekindle index build --root {pasted(str(root))}")


def index_build(
    root: str,
    *,
    variants: bool = False,
    sign: str | None = None,
    days: int = 90,
    seen: Path | None = None,
    progress: Progress | None = None,
) -> SiteBuilt:
    """Write the wheelhouse's static site; ``sign`` names a key for its dated list, which is good for ``days``.

    A list that is there already must be signed by that key or a believed one: only such a list has a successor.
    ``variants`` adds an index of wheels that installers choose by the card.

    >>> _ = index_add(str(folder / "site"), [str(wheel)])
    >>> built = index_build(str(folder / "site"))
    >>> (folder / "site" / "simple" / "torch" / "index.html").is_file()
    True
    """
    from rekindle.index.pages.site import build_site
    from rekindle.index.wheelhouse.listing import write_list

    house, listener = _existing_house(root), progress or Silent()
    facts, now = load_facts() if variants else None, datetime.now(UTC)
    if sign is None:
        return build_site(house, variants=facts, progress=listener)
    key, believed, place = read_private(sign), checker(trusted_keys()), seen or _lists_seen()
    write = functools.partial(write_list, house, key=key, days=days, now=now, believed=believed, seen=place)
    return build_site(house, variants=facts, signer=key, progress=listener, then=write)


def _existing_house(root: str) -> store.Wheelhouse:
    house = store.Wheelhouse(Path(root))
    if not house.exists():
        raise BadInput(f"{root} is no wheelhouse yet", remedy=f"rekindle index add WHEEL --root {root}")
    return house


def _lists_seen() -> Path:
    """Where the newest edition of every list that was met is remembered."""
    return own_directories()[1] / "lists-seen.json"


def index_check(
    root: str,
    *,
    keys: Sequence[str] = (),
    seen: Path | None = None,
    new_house: bool = False,
    progress: Progress | None = None,
) -> IndexCheck:
    """Is everything in a wheelhouse (directory or URL) as its signed, dated list says?

    ``keys`` are public keys to believe (default: those of ``key list``); ``seen`` is where the newest edition that
    was met is remembered, so that an older one, or another house in its place, is noticed; ``new_house`` takes that.
    """
    from rekindle.index.wheelhouse.checking import check_house

    believed, place, now = believed_keys(map(Path, keys)), seen or _lists_seen(), datetime.now(UTC)
    listener = progress or Silent()
    return check_house(
        root, checker(believed), keys_known=bool(believed), seen=place, new_house=new_house, now=now, progress=listener
    )


def index_sync(root: str, target: str, *, endpoint: str | None = None, progress: Progress | None = None) -> Synced:
    """Copy the built wheelhouse to ``target``: wheels before pages, each file whole, resumable.

    ``target`` is a directory, or ``s3://BUCKET/PREFIX`` in any S3-like store (``endpoint`` says which; keys:
    environment).

    >>> _ = index_add(str(folder / "ours"), [str(wheel)])
    >>> _ = index_build(str(folder / "ours"))
    >>> index_sync(str(folder / "ours"), str(folder / "mirror")).sent > 0
    True
    """
    from rekindle.host.object_store import ObjectStore, read_credentials, read_place
    from rekindle.index.publishing import FolderTarget, StoreTarget, send_house

    house = _existing_house(root)
    if not target.startswith("s3:"):
        return send_house(house, FolderTarget(Path(target), house), progress or Silent())
    store = ObjectStore(read_place(target, endpoint), read_credentials())
    return send_house(house, StoreTarget(store, house), progress or Silent())


def index_yank(root: str, file: str, reason: str | None) -> Yanked:
    """Withdraw a wheel (or, with None, offer it again).

    >>> _ = index_add(str(folder / "yanked"), [str(wheel)])
    >>> index_yank(str(folder / "yanked"), wheel.name, "made by mistake").yanked
    'made by mistake'
    """
    entry = store.yank(store.Wheelhouse(Path(root)), file, reason)
    return Yanked(root=root, file=entry.file, yanked=entry.yanked)


def index_serve(root: str, *, host: str, port: int, say: Callable[[str], None]) -> Served:
    """Serve the wheelhouse until interrupted."""
    from rekindle.index.server import open_server

    with open_server(store.Wheelhouse(Path(root)), host, port) as server:
        url = server.url
        say(f"serving {root} at {url} (stop with Ctrl-C)")
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever(poll_interval=0.2)
        return Served(root=root, url=url, requests=server.requests)


def index_search(root: str, options: SearchOptions | None = None, **choices: Any) -> Found:
    """Which wheels of a wheelhouse (directory or URL) run on the described machine: a
    :class:`~rekindle.model.wheelhouse.SearchOptions`, or its fields by name.

    >>> _ = index_add(str(folder / "searched"), [str(wheel)])
    >>> _ = index_build(str(folder / "searched"))
    >>> index_search(str(folder / "searched"), gpus=["sm_35"]).matches
    ()
    """
    chosen = replace(options or SearchOptions(), **choices)
    cards = [find_gpu(text, load_facts()) for text in chosen.gpus]
    if several := [gpu for gpu in cards if len(gpu.archs) != 1]:
        names = ", ".join(map(str, several[0].archs))
        raise BadInput(f"{several[0].name} was sold with several chips ({names})", remedy="name the one: --gpu sm_35")
    query = wanted_from(chosen, [gpu.archs[0] for gpu in cards])
    rows = load_wheels(root)
    hits, refused = search(rows, query)
    return Found(
        root=root,
        wanted=query.describe(),
        matches=tuple(
            WheelMatch(wheel=row, verdict=verdict, command=paste_line(["pip", "install", location(root, row)]))
            for row, verdict in hits
        ),
        refused=tuple(refused),
        looked_at=len(rows),
    )
