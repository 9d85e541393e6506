"""A wheelhouse against its signed list: removed, replaced, added, changed pages, older than before, expired.

The house is a directory or a URL; nothing in it is believed but the list that a known key signed. Pages are read link
by link in both forms, as pip and uv read them, so that what is told is what would be installed; then every public file
must have the digest that was signed.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import urllib.parse
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO
from urllib.parse import quote

from rekindle.errors import BadInput
from rekindle.formats.dsse import read_envelope, signed_by
from rekindle.formats.ranges import Unreachable, read_pieces, read_whole, request
from rekindle.formats.simple_index import ACCEPT, IndexFile, read_links
from rekindle.index.wheelhouse.listing import (
    CATALOGUE,
    LIST_FILE,
    MAX_LIST_BYTES,
    Check,
    catalogue_digest,
    house_at,
    house_key,
    last_seen,
    moment,
    other_content,
    payload_of,
    public_files,
    read_list,
    remember,
)
from rekindle.model.claims import IndexCheck, IndexProblem, ListedWheel, ProblemKind, WheelList
from rekindle.model.progress import Progress

# Clocks of two machines differ; more than this is no difference of clocks.
CLOCK_SLACK = timedelta(minutes=10)
TIMEOUT_SECONDS = 60.0
MAX_GRAFT = 4 << 30
# Where a page's relative links are followed from; nothing is fetched there.
_HERE = "https://wheelhouse.invalid/house/"
_AS_HTML = "text/html"


class House:
    """Opens what lies under the root, local or remote; a name can never lead out of it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.remote = root.startswith(("http://", "https://"))

    @property
    def place(self) -> str:
        """The same text for the same house, however its address is written."""
        return self.root.rstrip("/") if self.remote else str(Path(self.root).resolve())

    def open(self, *parts: str, accept: str | None = None) -> IO[bytes] | None:
        """None where there is no such file. With ``accept`` a remote folder is asked as an installer asks."""
        if any(part in ("", ".", "..") or "/" in part or "\\" in part for part in parts):
            return None
        if not self.remote:
            path = Path(self.root).joinpath(*parts)
            return path.open("rb") if path.is_file() else None
        url = "/".join([self.root.rstrip("/"), *(quote(part) for part in parts)]) + ("/" if accept else "")
        try:
            opened: IO[bytes] = request(url, {"Accept": accept} if accept else {}, None, TIMEOUT_SECONDS)[2]
        except Unreachable as error:
            if error.status in (403, 404, 410):
                return None
            raise BadInput(error.message, remedy="is the wheelhouse served there?") from error
        return opened

    def read(self, *parts: str, accept: str | None = None) -> bytes | None:
        """A page, within bounds."""
        file = self.open(*parts, accept=accept)
        if file is None:
            return None
        with file:
            return read_whole(file, "/".join([self.root, *parts]))


def check_house(
    root: str,
    check: Check,
    *,
    keys_known: bool,
    seen: Path,
    now: datetime,
    progress: Progress,
    new_house: bool = False,
) -> IndexCheck:
    """Everything that is not as it was signed. A list that cannot be believed ends the check.

    ``new_house``: the owner began anew, so another house at this place is taken for the one to know.
    """
    house = House(root)
    if not house.remote and not Path(root).is_dir():
        raise BadInput(f"{root} is no directory", remedy="give the wheelhouse with --root DIR or URL")
    file = house.open(LIST_FILE)
    if file is None:
        return _refused(root, "unsigned", f"there is no signed list ({LIST_FILE})")
    with file:
        raw = read_whole(file, LIST_FILE, MAX_LIST_BYTES)
    name = signed_by(read_envelope(raw, LIST_FILE), check)
    if name is None:
        words = "no key is known to check its list with" if not keys_known else "a key that is not believed signed it"
        return _refused(root, "wrong-key", f"{words}, or the list was changed after signing")
    listed, payload = read_list(raw, LIST_FILE), payload_of(raw, LIST_FILE)
    problems = [
        *_times(listed, now),
        *_edition(listed, payload, seen, name),
        *([] if new_house else _identity(listed, house, seen, name)),
        *_wheels(house, listed, progress),
        *_pages(house, listed),
    ]
    problems = list(dict.fromkeys(problems))
    if not any(problem.kind in ("older-list", "clock", "other-house") for problem in problems):
        remember(seen, name, listed, payload, house.place)
    return IndexCheck(
        root=root,
        good=not problems,
        signed_by=name,
        serial=listed.serial,
        made=listed.made,
        expires=listed.expires,
        wheels=len(listed.wheels),
        problems=tuple(problems),
        next=_next(problems),
    )


def _refused(root: str, kind: ProblemKind, text: str) -> IndexCheck:
    problem = IndexProblem(kind=kind, text=text)
    return IndexCheck(root=root, good=False, problems=(problem,), next=_next([problem]))


def _times(listed: WheelList, now: datetime) -> list[IndexProblem]:
    if moment(listed.made) > now + CLOCK_SLACK:
        text = f"the list was made at {listed.made}, this machine's clock says {now:%Y-%m-%dT%H:%M:%SZ}"
        return [IndexProblem(kind="clock", text=text)]
    if now >= moment(listed.expires):
        return [IndexProblem(kind="expired", text=f"the list expired at {listed.expires}; nobody signed a newer one")]
    return []


def _edition(listed: WheelList, payload: bytes, seen: Path, signer: str) -> list[IndexProblem]:
    newest = last_seen(seen, signer, listed.house or listed.name)
    if listed.serial < newest:
        text = f"this is list number {listed.serial}, but number {newest} was seen here before: it was set back"
        return [IndexProblem(kind="older-list", text=text)]
    if other_content(seen, signer, listed, payload):
        text = f"another list of the same number {listed.serial} was seen here before: one of the two is no successor"
        return [IndexProblem(kind="older-list", text=text)]
    return []


def _identity(listed: WheelList, house: House, seen: Path, signer: str) -> list[IndexProblem]:
    before = house_at(seen, house.place)
    # The older form of lists knew a house by its name.
    if before in (None, house_key(signer, listed), f"{signer}/{listed.name}"):
        return []
    assert before is not None
    text = f"another wheelhouse of {before.partition('/')[0]} lay here when it was checked last; this is {listed.name}"
    return [IndexProblem(kind="other-house", text=text)]


def _wheels(house: House, listed: WheelList, progress: Progress) -> Iterator[IndexProblem]:
    for number, wheel in enumerate(listed.wheels):
        progress.step(number, len(listed.wheels), wheel.file)
        yield from _wheel(house, wheel)


def _wheel(house: House, wheel: ListedWheel) -> list[IndexProblem]:
    file = house.open("wheels", wheel.project, wheel.file)
    if file is None:
        return [IndexProblem(kind="removed", file=wheel.file, text=f"{wheel.file} is gone")]
    if (found := _digest(file, wheel.file, wheel.bytes)) != wheel.sha256:
        text = f"{wheel.file} is another file than was signed (sha256 {found[:12]}…, not {wheel.sha256[:12]}…)"
        return [IndexProblem(kind="replaced", file=wheel.file, text=text)]
    return []


def _digest(file: IO[bytes], name: str, most: int) -> str:
    """Of a file; one byte more than ``most`` is enough to know that it is another."""
    digest, size = hashlib.sha256(), 0
    with file:
        for chunk in read_pieces(file, name, most):
            digest.update(chunk)
            size += len(chunk)
            if size > most:
                break
    return digest.hexdigest()


def _pages(house: House, listed: WheelList) -> Iterator[IndexProblem]:
    """Every public file besides the wheels: those that were signed, that an installer is given, that nobody signed."""
    wheels = {f"wheels/{wheel.project}/{wheel.file}": wheel for wheel in listed.wheels}
    if wheels and not listed.files:
        text = "its list is of an older form, which covers the wheels and none of the pages that installers read"
        yield IndexProblem(kind="page", text=text)
    signed = {**listed.files, **{place: wheel.sha256 for place, wheel in wheels.items()}}
    told: set[str] = set()
    for project in sorted({wheel.project for wheel in listed.wheels}):
        own = {place for place, wheel in wheels.items() if wheel.project == project}
        for name in ("index.html", "index.json"):
            raw = house.read("simple", project, name)
            if raw is None:
                form = "the page" if name == "index.html" else "the JSON page"
                yield IndexProblem(kind="page", text=f"{form} of {project} is gone: installers find none of its wheels")
                told.add(f"simple/{project}/{name}")
                continue
            faults = list(_links(raw, project, signed, wheels, own))
            yield from faults
            told |= {f"simple/{project}/{name}"} if faults else set()
        if house.remote:
            yield from _as_installers_ask(house, project, signed, wheels, own)
    yield from _other_files(house, listed, told)
    if not house.remote:
        for place in sorted(set(public_files(Path(house.root))) - signed.keys()):
            file = place.rpartition("/")[2]
            yield IndexProblem(kind="unlisted", file=file, text=f"{place} is there, but nobody signed for it")


def _as_installers_ask(
    house: House, project: str, signed: Mapping[str, str], wheels: Mapping[str, ListedWheel], own: set[str]
) -> Iterator[IndexProblem]:
    """A server may answer pip and uv (which ask for the folder) otherwise than who asks for the file."""
    for accept in (ACCEPT, _AS_HTML):
        raw = house.read("simple", project, accept=accept)
        if raw is None:
            yield IndexProblem(kind="page", text=f"the page of {project} is gone: installers find none of its wheels")
        elif hashlib.sha256(raw).hexdigest() not in (
            signed.get(f"simple/{project}/index.html"),
            signed.get(f"simple/{project}/index.json"),
        ):
            faults = list(_links(raw, project, signed, wheels, own))
            yield from faults
            if not faults:
                text = f"installers are given another page of {project} than was signed"
                yield IndexProblem(kind="page", text=text)


def _links(
    raw: bytes, project: str, signed: Mapping[str, str], wheels: Mapping[str, ListedWheel], own: set[str]
) -> Iterator[IndexProblem]:
    """What installers read on one page: it must offer the signed files, under their digests, and nothing else."""

    def problem(text: str, file: str | None = None) -> IndexProblem:
        return IndexProblem(kind="page", file=file, text=f"the page of {project} {text}")

    try:
        links = read_links(raw, f"{_HERE}simple/{project}/")
    except BadInput as error:
        yield problem(f"cannot be read: {error.message}")
        return
    placed = [(_place_of(link.url), link) for link in links]
    for place in sorted(own - {place for place, _ in placed}):
        file = wheels[place].file
        yield problem(f"does not offer {file} any more", file)
    for place, count in sorted(Counter(place for place, _ in placed).items()):
        if count > 1:
            yield problem(f"offers {posixpath.basename(place)} {count} times", posixpath.basename(place))
    for place, link in placed:
        if (wrong := _wrong_with(place, link, signed, wheels)) is not None:
            yield problem(wrong, link.name)
    yield from (problem(text) for text in _wrong_in_json(raw, project, {wheels[place].version for place in own}))


def _place_of(url: str) -> str:
    """Where in the house an address leads, as it is stored; the address itself where it leads elsewhere."""
    path = urllib.parse.unquote(url.removeprefix(_HERE))
    return path if url.startswith(_HERE) and "?" not in url and posixpath.normpath(path) == path else url


def _wrong_with(
    place: str, link: IndexFile, signed: Mapping[str, str], wheels: Mapping[str, ListedWheel]
) -> str | None:
    """The first thing a link says that was not signed."""
    if place not in signed:
        return f"offers {link.name}, which nobody signed for ({place[:200]})"
    if link.name != posixpath.basename(place):
        return f"offers {posixpath.basename(place)} under another name ({link.name[:200]})"
    if link.sha256 is None:
        return f"gives no digest for {link.name}"
    if link.sha256 != signed[place]:
        return f"gives another digest for {link.name}"
    if (wheel := wheels.get(place)) is None:
        return None
    if link.yanked != wheel.yanked:
        return f"offers {link.name}, which was withdrawn" if wheel.yanked else f"says {link.name} was withdrawn"
    if link.metadata_sha256 != signed.get(f"{place}.metadata", link.metadata_sha256):
        return f"gives another digest for the metadata of {link.name}"
    if (link.requires_python or None) != wheel.requires_python and f"{place}.metadata" in signed:
        return f"says {link.name} needs Python {link.requires_python}, signed is {wheel.requires_python}"
    return None


def _wrong_in_json(raw: bytes, project: str, versions: set[str]) -> Iterator[str]:
    """What the JSON form says besides its files."""
    if raw.lstrip()[:1] != b"{":
        return
    read = json.loads(raw)
    if read.get("name") != project:
        yield f"says it is about {str(read.get('name'))[:200]}"
    told = read.get("versions")
    extra = [str(version) for version in told if version not in versions] if isinstance(told, list) else []
    if extra:
        yield f"names version {extra[0][:200]}, which nobody signed for"


def _other_files(house: House, listed: WheelList, told: set[str]) -> Iterator[IndexProblem]:
    """Each signed page, statement and metadata file, byte by byte; ``told`` are those whose faults were named."""
    for place, wanted in listed.files.items():
        if place in told:
            continue
        file = place.rpartition("/")[2]
        if place.endswith(".graft"):
            yield from _graft(house, place, wanted)
            continue
        kind: ProblemKind = "metadata" if place.endswith((".metadata", ".provenance")) else "page"
        raw = house.read(*place.split("/"))
        if raw is None:
            yield IndexProblem(kind=kind, file=file, text=f"{place} is gone")
            continue
        found = catalogue_digest(raw) if place == CATALOGUE else hashlib.sha256(raw).hexdigest()
        if found != wanted:
            yield IndexProblem(kind=kind, file=file, text=f"{place} is another file than was signed")


def _graft(house: House, place: str, wanted: str) -> Iterator[IndexProblem]:
    """A graft file is larger than any page: it is read piece by piece."""
    name = place.rpartition("/")[2]
    file = house.open(*place.split("/"))
    if file is None:
        yield IndexProblem(kind="removed", file=name, text=f"{place} is gone")
    elif _digest(file, name, MAX_GRAFT) != wanted:
        yield IndexProblem(kind="replaced", file=name, text=f"{place} is another file than was signed")


def _next(problems: list[IndexProblem]) -> tuple[str, ...]:
    kinds = {problem.kind for problem in problems}
    steps = []
    if "unsigned" in kinds:
        steps.append("its owner signs it with: rekindle index build --root DIR --sign KEY")
    if "wrong-key" in kinds:
        steps.append("get the owner's public key from a place you trust: rekindle key trust FILE.pub")
    if "expired" in kinds:
        steps.append("ask the owner for a new edition: rekindle index build --root DIR --sign KEY")
    if "clock" in kinds:
        steps.append("set this machine's clock, then check again")
    if "other-house" in kinds:
        steps.append("if its owner says that it was begun anew: rekindle index check --new-house")
    if kinds & {"removed", "replaced", "unlisted", "older-list", "page", "metadata"}:
        steps.append("install nothing from it until its owner has explained this (the owner: index build --sign KEY)")
    return tuple(steps)
