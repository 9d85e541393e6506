"""The signed, dated list of a wheelhouse: what it holds, since when, and until when that may be believed.

A mirror can remove a wheel, put another in its place, change a page, or go on serving last year's state; no single file
shows that. The list names every public file with its digest, counts up with each edition, and expires. It belongs to
one house (a number drawn when it is signed first); each edition succeeds one whose signature was checked.
"""

import contextlib
import hashlib
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec

from rekindle.errors import BadInput
from rekindle.formats.statement import WHEEL_LIST, Check, Envelope, read_envelope, seal, signed_by
from rekindle.host.files import sha256_of, write_atomically
from rekindle.host.keys import PrivateKey, checker
from rekindle.index.wheelhouse.catalogue import load_grafts
from rekindle.index.wheelhouse.rows import Piece, rows_of
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.claims import ListedWheel, WheelList
from rekindle.model.document import decode, encode, load_kept, shared_fields

LIST_FILE = "wheels.dsse.json"
CATALOGUE = "catalogue.json"
MAX_LIST_BYTES = 64 << 20
# What every reader of JSON can hold exactly; a house that signs every second gets there in 285 million years.
MAX_SERIAL = (1 << 53) - 1
# Folders that installers and people read; wheels are listed by themselves.
PUBLIC_FOLDERS = ("wheels", "grafts", "variants", "simple", "variant", "wheel")
_FORM = "%Y-%m-%dT%H:%M:%SZ"


def write_list(
    house: Wheelhouse, pieces: list[Piece], key: PrivateKey, *, days: int, now: datetime, believed: Check, seen: Path
) -> WheelList:
    """The next edition, over the one that was there: only over one that ``key`` or a believed key signed."""
    rows = rows_of(pieces)
    if not 1 <= days <= 3650:
        raise BadInput(f"a list cannot be valid for {days} days", remedy="1 to 3650")
    before = _previous_list(house.root / LIST_FILE, key, believed)
    number = before.house if before and before.house else secrets.token_hex(16)
    wheels = tuple(ListedWheel(**shared_fields(row, ListedWheel) | {"yanked": row.yanked is not None}) for row in rows)
    places, projects = {row.url for row in rows}, {row.project for row in rows}
    grafts = {row.url for row in load_grafts(str(house.root))}
    newest = max(before.serial if before else 0, load_seen(seen).lists.get(f"{key.name}/{number}", 0))
    made = WheelList(
        name=before.name if before else house.root.resolve().name,
        house=number,
        serial=_checked_serial(newest + 1, LIST_FILE),
        made=now.strftime(_FORM),
        expires=(now + timedelta(days=days)).strftime(_FORM),
        wheels=wheels,
        files={
            place: catalogue_digest(path.read_bytes()) if place == CATALOGUE else sha256_of(path)
            for place, path in public_files(house.root).items()
            if place not in places and _is_ours(place, places | grafts, projects)
        },
    )
    payload = encode(made)
    write_atomically(house.root / LIST_FILE, seal(WHEEL_LIST, payload, key.id, key.sign))
    remember_list(seen, key.name, made, payload, str(house.root.resolve()))
    return made


def public_files(root: Path) -> dict[str, Path]:
    """Every file of a house that readers can come by, by its place; of the root also whatever can be installed."""
    paths = [path for name in PUBLIC_FOLDERS for path in sorted((root / name).rglob("*")) if path.is_file()]
    paths += [path for path in (root / CATALOGUE, root / "index.html") if path.is_file()]
    paths += sorted(path for form in ("*.whl", "*.tar.gz", "*.zip") for path in root.glob(form))
    return {path.relative_to(root).as_posix(): path for path in paths}


def _is_ours(place: str, wheels: set[str], projects: set[str]) -> bool:
    """Did a build of the house write it, or is it one of its ``wheels`` or grafts? Nobody signs for anything else."""
    folder, _, rest = place.partition("/")
    if folder == "wheels":
        return place.removesuffix(".metadata").removesuffix(".provenance") in wheels
    if folder in ("grafts", "simple", "wheel"):
        return "/" not in rest or (place in wheels if folder == "grafts" else rest.split("/")[0] in projects)
    return folder in ("variants", "variant", CATALOGUE, "index.html")


def catalogue_digest(raw: bytes) -> str:
    """Of its rows: it notes when it was written, and a build without changes is no change. Empty where it is none."""
    with contextlib.suppress(msgspec.MsgspecError, KeyError):
        wheels = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])["wheels"]
        rows = msgspec.json.decode(wheels, type=list[msgspec.Raw])
        return hashlib.sha256(b",".join(map(bytes, rows))).hexdigest()
    return ""


def _previous_list(path: Path, key: PrivateKey, believed: Check) -> WheelList | None:
    """The list that is there. One that nobody believed signed has no successor: its numbers may be anything."""
    if not path.is_file():
        return None
    envelope = read_envelope(path.read_bytes(), str(path))
    if signed_by(envelope, checker([key])) is None and signed_by(envelope, believed) is None:
        raise BadInput(
            f"{path} was not signed by {key.name} nor by another key that is believed here, or it was changed since",
            remedy="believe its key (rekindle key trust FILE.pub), or move the list away: the next begins a new house",
        )
    return list_in(envelope, str(path))


def list_in(envelope: Envelope, origin: str) -> WheelList:
    """What was signed; a :class:`BadInput` where that is something else than a list."""
    if envelope.payload_type != WHEEL_LIST:
        raise BadInput(f"{origin} is signed, but it is {envelope.payload_type!r}, not a list of wheels")
    read = decode(envelope.payload, WheelList, origin=origin)
    _checked_serial(read.serial, origin)
    return read


def _checked_serial(serial: int, origin: str) -> int:
    if not 1 <= serial <= MAX_SERIAL:
        raise BadInput(f"{origin} says it is list number {str(serial)[:40]}; they count from 1 to {MAX_SERIAL}")
    return serial


def parse_time(text: str) -> datetime:
    """A time as lists write it."""
    try:
        return datetime.strptime(text, _FORM).replace(tzinfo=UTC)
    except ValueError as error:
        raise BadInput(f"{text!r} in the list is no time", remedy="its form is 2026-01-31T12:00:00Z") from error


class SeenLists(msgspec.Struct, frozen=True):
    """The newest edition of each list that was seen here, by signer and house; its digest; which house lay where."""

    lists: dict[str, int] = {}
    digests: dict[str, str] = {}
    places: dict[str, str] = {}


def house_key(signer: str, listed: WheelList) -> str:
    """Lists of the older form have no number of their own: their name stands for it."""
    return f"{signer}/{listed.house or listed.name}"


def remember_list(path: Path, signer: str, listed: WheelList, payload: bytes, place: str) -> None:
    """Note the list as the newest of its house, and that this house lies at ``place``."""
    seen, which = load_seen(path), house_key(signer, listed)
    if listed.serial < seen.lists.get(which, listed.serial):
        return
    now = SeenLists(
        lists={**seen.lists, which: listed.serial},
        digests={**seen.digests, which: hashlib.sha256(payload).hexdigest()},
        places={**seen.places, place: which},
    )
    if now != seen:
        write_atomically(path, msgspec.json.encode(now))


def load_seen(path: Path) -> SeenLists:
    """What was noted there; nothing where nobody did."""
    return load_kept(path, SeenLists) or SeenLists()
