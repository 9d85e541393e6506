"""Graft files beside the wheels: ``grafts/<project>/<file>`` and one list of them, ``grafts/index.json``.

A graft belongs to an official wheel, by its digest, and holds only the new code, so a house may carry it where it may
not carry the wheel. The list is written last: a graft exists for readers exactly when it is listed.
"""

import contextlib
import re
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import quote

from packaging.utils import canonicalize_name

from rekindle.errors import BadInput, StageFailed
from rekindle.host.files import write_atomically
from rekindle.index.wheelhouse.catalogue import fetch_document, house_address, is_url
from rekindle.index.wheelhouse.names import MAX_NAME
from rekindle.index.wheelhouse.store import Wheelhouse, copied_in, disk_errors
from rekindle.model.document import encode, load, shared_fields
from rekindle.model.graft import GraftFile, GraftRow
from rekindle.model.progress import Progress
from rekindle.model.wheelhouse import AddedWheel, GraftList

FOLDER = "grafts"
LIST = f"{FOLDER}/index.json"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*\.graft")


def receive_graft(
    house: Wheelhouse, source: Path, progress: Progress
) -> contextlib.AbstractContextManager[tuple[Path, str, int]]:
    """A copy of a graft file inside the wheelhouse, its digest and its size."""
    if len(source.name) > MAX_NAME or not _NAME.fullmatch(source.name):
        raise BadInput(f"{ascii(source.name)[:120]} is no graft file's name", remedy="rekindle graft make writes them")
    return copied_in(house, source, progress)


def admit_graft(house: Wheelhouse, copy: Path, sha256: str, graft: GraftFile) -> AddedWheel:
    """Make a received and checked graft file part of the wheelhouse."""
    project = canonicalize_name(graft.name)
    row = GraftRow(
        **shared_fields(graft, GraftRow),
        file=copy.name,
        url=f"{FOLDER}/{project}/{copy.name}",
        project=project,
        archs=graft.made.archs,
        bytes=copy.stat().st_size,
        sha256=sha256,
        added=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    with house.lock(f"index add {copy.name}"), disk_errors(house.root):
        rows = {old.url: old for old in load_grafts(str(house.root))}
        old, target = rows.get(row.url), house.root / row.url
        if old is not None and old.sha256 != sha256:
            raise StageFailed(
                f"the wheelhouse already has another {copy.name} (sha256 {old.sha256[:12]}…)",
                remedy="give the new one another name",
            )
        state = "already" if old is not None and target.is_file() else "added"
        if state == "added":
            target.parent.mkdir(parents=True, exist_ok=True)
            copy.replace(target)
            rows[row.url] = row
            write_atomically(house.root / LIST, encode(GraftList(grafts=tuple(rows[url] for url in sorted(rows)))))
    return AddedWheel(file=row.file, state=state, sha256=sha256, bytes=row.bytes)


def load_grafts(place: str) -> tuple[GraftRow, ...]:
    """The graft files that a wheelhouse (a directory or an address) lists; none where it has no such list."""
    if is_url(place):
        listing = fetch_document(house_address(place) + LIST, GraftList)
        return listing.grafts if listing is not None else ()
    path = Path(place) / LIST
    return load(path, GraftList).grafts if path.is_file() else ()


def graft_location(place: str, row: GraftRow) -> str:
    """What ``graft apply`` takes: a path, or an address with the digest that the file must have."""
    if is_url(place):
        return f"{house_address(place)}{quote(row.url)}#sha256={row.sha256}"
    return str(Path(place).resolve() / row.url)
