"""Short rows from full records, remembered so that a rebuild reads only the records that changed.

A ``Piece`` is a row already written in the forms the site needs (its link, its JSON), so that a rebuild only joins
strings. The memory is a cache, held against each record's inode, size and time: losing it costs nothing but time.
"""

import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import quote

import msgspec

from rekindle.compat.proofs import GivenRecord, read_record
from rekindle.errors import BadInput
from rekindle.host.files import write_atomically
from rekindle.index.pages.fields import file_line
from rekindle.index.pages.simple import entry_of, link_of
from rekindle.index.wheelhouse.reading import parse_name
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.document import load, shared_fields
from rekindle.model.wheel import RowLibrary
from rekindle.model.wheelhouse import RowProof, SharedRecord, StoredWheel, VariantRow, WheelRow

MAX_ENTRIES = 1_000_000
_FORMAT = 8


class Piece(msgspec.Struct, array_like=True):
    """One wheel, ready to be joined into pages. ``stamp`` is inode, size and time of its record, if it has one."""

    stamp: tuple[int, ...]
    project: str
    version: str
    digest: bytes
    link: str
    simple: bytes
    row: bytes
    file: str = ""
    line: str = ""
    proven: bool = False


def rows_of(pieces: Iterable[Piece]) -> list[WheelRow]:
    """Their whole rows."""
    return msgspec.json.decode(b"[" + b",".join(piece.row for piece in pieces if piece.row) + b"]", type=list[WheelRow])


def load_pieces(house: Wheelhouse) -> list[Piece]:
    """Every wheel of the house, by project and file name; what is new is remembered if the house can be written to."""
    place = house.site / "pieces.msgpack"
    memory: dict[str, Piece] = {}
    with contextlib.suppress(OSError, msgspec.MsgspecError):
        form, kept = msgspec.msgpack.decode(place.read_bytes(), type=tuple[int, dict[str, Piece]])
        memory = kept if form == _FORMAT else {}
    known: dict[str, Piece] = {}
    for path in house.records.glob("[!.]*/[!.]*.whl.json"):
        stat = path.lstat()
        stamp = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        old = memory.get(path.name)
        known[path.name] = old if old and old.stamp == stamp else piece_of(row_of(load(path, StoredWheel)), stamp)
        if len(known) > MAX_ENTRIES:
            more = f"{house.root} holds more than {MAX_ENTRIES} wheels"
            raise BadInput(more, remedy="split it into several wheelhouses")
    # A reader without the right to write (a search in someone else's house) just remembers nothing.
    if known != memory and os.access(house.root, os.W_OK):
        write_atomically(place, msgspec.msgpack.encode((_FORMAT, known)))
    return [piece for _, piece in sorted(known.items(), key=lambda item: (item[1].project, item[0]))]


def piece_of(row: WheelRow | VariantRow, stamp: tuple[int, ...] = ()) -> Piece:
    """A row in every form the site needs. A variant wheel is for installers: the catalogue names only the plain one."""
    raw, entry = msgspec.json.encode(row), entry_of(row)
    forms: Any = (raw, row.file, file_line(row), row.proven) if isinstance(row, WheelRow) else (b"",)
    digest = hashlib.sha256(raw).digest()
    return Piece(stamp, row.project, row.version, digest, link_of(entry), msgspec.json.encode(entry), *forms)


def piece_of_file(project: str, version: str, name: str, url: str, body: bytes) -> Piece:
    """A file beside the wheels, such as a release's variants."""
    digest = hashlib.sha256(body)
    entry: dict[str, Any] = {"filename": name, "url": f"../../{quote(url)}", "hashes": {"sha256": digest.hexdigest()}}
    entry |= {"size": len(body), "yanked": False}
    return Piece((), project, version, digest.digest(), link_of(entry), msgspec.json.encode(entry), b"")


def nest_links(piece: Piece) -> Piece:
    """The same for a page one folder further down; links are relative."""
    link = re.sub(r'((?:href|provenance)=")(?=\.\./)', r"\1../", piece.link)
    entry = re.sub(rb'("(?:url|provenance)":")(?=\.\./)', rb"\1../", piece.simple)
    return msgspec.structs.replace(piece, link=link, simple=entry)


def row_of(entry: StoredWheel) -> WheelRow:
    """The short form of an entry."""
    name = parse_name(entry.file)
    report, origin = entry.report, entry.origin
    kernels = report.gpu.kernels if report else None
    libraries = report.gpu.libraries if report else ()
    fields = shared_fields(name, WheelRow) | shared_fields(kernels, WheelRow) | shared_fields(entry, WheelRow)
    fields |= dict(
        url=f"wheels/{entry.project}/{entry.file}",
        inspected=report is not None,
        libraries=tuple(RowLibrary(**shared_fields(library, RowLibrary)) for library in libraries),
        cpu=report.cpu.runs_from if report else None,
        glibc=report.links.glibc if report else None,
        external=report.links.external if report else (),
        cuda=(origin.cuda if origin else None) or (report.cuda if report else None),
        rocm=(origin.rocm if origin else None) or (report.rocm if report else None),
        proofs=(
            *(RowProof(**shared_fields(proof, RowProof)) for proof in entry.proofs),
            *_shared_proofs(shared for shared in entry.records if shared.signer),
        ),
        hearsay=tuple(_shared_proofs(shared for shared in entry.records if not shared.signer)),
        provenance=entry.provenance_sha256 is not None,
    )
    return WheelRow(**fields)


def _shared_proofs(records: Iterable[SharedRecord]) -> Iterator[RowProof]:
    """Records of people as rows like the house's own proofs."""
    for shared in records:
        record = read_record(GivenRecord("", shared.line.encode()), lambda *words: None).record
        if record is not None:
            about = {f"gpu{number}": f"{card.name}, {card.arch}" for number, card in enumerate(record.cards)}
            about |= {"shared": f"signed by {shared.signer}" if shared.signer else "nobody believed here signed it"}
            named = {"system": record.distro or record.system, "driver": record.driver, "python": record.python}
            about |= {name: text for name, text in named.items() if text} | {"tool": record.tool}
            counts = {status: record.count(status) for status in ("passed", "failed", "skipped")}
            yield RowProof(**counts, environment=about)
