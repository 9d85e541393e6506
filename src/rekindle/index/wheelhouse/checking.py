"""A wheelhouse (a directory or a URL) against its signed list: removed, replaced, added, changed, older, expired.

Nothing in it is believed but the list that a known key signed. Pages are read link by link in both forms, as pip and uv
read them, so that what is told is what would be installed; then every public file must have the digest that was signed.
"""

import hashlib
import json
import posixpath
import urllib.parse
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from rekindle.errors import BadInput
from rekindle.formats.ranges import Unreachable, read_pieces, read_whole, request
from rekindle.formats.simple_index import ACCEPT, IndexFile, read_links
from rekindle.formats.statement import Check, read_envelope, signed_by
from rekindle.index.wheelhouse import listing
from rekindle.index.wheelhouse.catalogue import GONE, is_url
from rekindle.model.claims import IndexCheck, IndexProblem, ProblemKind, WheelList
from rekindle.model.progress import Progress
from rekindle.model.toml import read_beside

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
        self.remote = is_url(root)
        # The same text for the same house, however its address is written.
        self.place = root.rstrip("/") if self.remote else str(Path(root).resolve())

    def open(self, *parts: str, accept: str | None = None) -> IO[bytes] | None:
        """None where there is no such file. With ``accept`` a remote folder is asked as an installer asks."""
        if any(part in ("", ".", "..") or "/" in part or "\\" in part for part in parts):
            return None
        if not self.remote:
            path = Path(self.root).joinpath(*parts)
            return path.open("rb") if path.is_file() else None
        url = "/".join([self.place, *(quote(part) for part in parts)]) + ("/" if accept else "")
        try:
            opened: IO[bytes] = request(url, {"Accept": accept} if accept else {}, None, TIMEOUT_SECONDS)[2]
        except Unreachable as error:
            if error.status in GONE:
                return None
            raise BadInput(error.message, remedy="is the wheelhouse served there?") from error
        return opened

    def read(self, *parts: str, accept: str | None = None) -> bytes | None:
        """A page, within bounds."""
        if (file := self.open(*parts, accept=accept)) is None:
            return None
        with file:
            return read_whole(file, "/".join([self.root, *parts]))


def check_house(
    root: str, check: Check, *, keys_known: bool, seen: Path, now: datetime, progress: Progress, new_house: bool = False
) -> IndexCheck:
    """Everything that is not as it was signed. A list that cannot be believed ends the check. ``new_house``: the owner
    began anew, so another house at this place is taken for the one to know."""
    house = House(root)
    if not house.remote and not Path(root).is_dir():
        raise BadInput(f"{root} is no directory", remedy="give the wheelhouse with --root DIR or URL")
    file = house.open(listing.LIST_FILE)
    if file is None:
        return _make_check(root, [_problem("unsigned", f"there is no signed list ({listing.LIST_FILE})")])
    with file:
        envelope = read_envelope(read_whole(file, listing.LIST_FILE, listing.MAX_LIST_BYTES), listing.LIST_FILE)
    name = signed_by(envelope, check)
    if name is None:
        words = "no key is known to check its list with" if not keys_known else "a key that is not believed signed it"
        return _make_check(root, [_problem("wrong-key", f"{words}, or the list was changed after signing")])
    listed = listing.list_in(envelope, listing.LIST_FILE)
    checking = _HouseCheck(house, listed)
    problems = [
        *_check_age(listed, envelope.payload, listing.load_seen(seen), name, "" if new_house else house.place, now),
        *checking.wheels(progress),
        *checking.pages(),
    ]
    problems = list(dict.fromkeys(problems))
    if not any(problem.kind in ("older-list", "clock", "other-house") for problem in problems):
        listing.remember_list(seen, name, listed, envelope.payload, house.place)
    times = {"serial": listed.serial, "made": listed.made, "expires": listed.expires}
    return _make_check(root, problems, signed_by=name, wheels=len(listed.wheels), **times)


def _make_check(root: str, problems: list[IndexProblem], **known: Any) -> IndexCheck:
    kinds = {problem.kind for problem in problems}
    table = read_beside(__file__, "next_steps.toml", dict[str, frozenset[ProblemKind]])
    steps = tuple(step for step, of in table.items() if kinds & of)
    return IndexCheck(root=root, good=not problems, problems=tuple(problems), next=steps, **known)


def _check_age(
    listed: WheelList, payload: bytes, seen: listing.SeenLists, signer: str, place: str, now: datetime
) -> Iterator[IndexProblem]:
    """Does it count today, is it the newest list of its house, and the house that lay at ``place`` before?"""
    if listing.parse_time(listed.made) > now + CLOCK_SLACK:
        clock = f"{now:%Y-%m-%dT%H:%M:%SZ}"
        yield _problem("clock", f"the list was made at {listed.made}, this machine's clock says {clock}")
    elif now >= listing.parse_time(listed.expires):
        yield _problem("expired", f"the list expired at {listed.expires}; nobody signed a newer one")
    which = listing.house_key(signer, listed)
    newest, known = seen.lists.get(which, listed.serial), seen.digests.get(which)
    if listed.serial < newest:
        text = f"this is list number {listed.serial}, but number {newest} was seen here before: it was set back"
        yield _problem("older-list", text)
    elif listed.serial == newest and known not in (None, _sha256(payload)):
        text = f"another list of the same number {listed.serial} was seen here before: one of the two is no successor"
        yield _problem("older-list", text)
    before = seen.places.get(place)
    # The older form of lists knew a house by its name.
    if before is not None and before not in (which, f"{signer}/{listed.name}"):
        owner = before.partition("/")[0]
        text = f"another wheelhouse of {owner} lay here when it was checked last; this is {listed.name}"
        yield _problem("other-house", text)


class _HouseCheck:
    """What lies in a house against its list: ``listed`` wheels by their place, ``signed`` the digest of every file."""

    def __init__(self, house: House, signed_list: WheelList) -> None:
        self.house, self.listing = house, signed_list
        self.listed = {f"wheels/{wheel.project}/{wheel.file}": wheel for wheel in signed_list.wheels}
        self.signed = {**signed_list.files, **{place: wheel.sha256 for place, wheel in self.listed.items()}}

    def wheels(self, progress: Progress) -> Iterator[IndexProblem]:
        for number, wheel in enumerate(self.listing.wheels):
            progress.step(number, len(self.listed), wheel.file)
            digest = self._digest(wheel.bytes, "wheels", wheel.project, wheel.file)
            if digest is None:
                yield _problem("removed", f"{wheel.file} is gone", wheel.file)
            elif digest != wheel.sha256:
                digests = f"sha256 {digest[:12]}…, not {wheel.sha256[:12]}…"
                yield _problem("replaced", f"{wheel.file} is another file than was signed ({digests})", wheel.file)

    def _digest(self, most: int, *parts: str) -> str | None:
        """Of a file, piece by piece; a little more than ``most`` is enough to know that it is another."""
        if (file := self.house.open(*parts)) is None:
            return None
        digest, size = hashlib.sha256(), 0
        with file:
            for chunk in read_pieces(file, parts[-1], most):
                digest.update(chunk)
                if (size := size + len(chunk)) > most:
                    break
        return digest.hexdigest()

    def pages(self) -> Iterator[IndexProblem]:
        """Every public file besides the wheels: what was signed, what an installer is given, what nobody signed."""
        if self.listed and not self.listing.files:
            text = "its list is of an older form, which covers the wheels and none of the pages that installers read"
            yield _problem("page", text)
        faulty: set[str] = set()
        for project in sorted({wheel.project for wheel in self.listing.wheels}):
            for name, form in (("index.html", "the page"), ("index.json", "the JSON page")):
                raw = self.house.read("simple", project, name)
                faults = [_page_gone(form, project)] if raw is None else list(self._check_links(raw, project))
                yield from faults
                faulty |= {f"simple/{project}/{name}"} if faults else set()
            if self.house.remote:
                yield from self._as_installers_ask(project)
        yield from self._check_files(faulty)
        if not self.house.remote:
            for place in sorted(listing.public_files(Path(self.house.root)).keys() - self.signed.keys()):
                yield _problem("unlisted", f"{place} is there, but nobody signed for it", place.rpartition("/")[2])

    def _as_installers_ask(self, project: str) -> Iterator[IndexProblem]:
        """A server may answer pip and uv (which ask for the folder) otherwise than who asks for the file."""
        pages = [self.signed.get(f"simple/{project}/{name}") for name in ("index.html", "index.json")]
        for accept in (ACCEPT, _AS_HTML):
            raw = self.house.read("simple", project, accept=accept)
            if raw is None:
                yield _page_gone("the page", project)
            elif _sha256(raw) not in pages:
                other = _problem("page", f"installers are given another page of {project} than was signed")
                yield from list(self._check_links(raw, project)) or [other]

    def _check_links(self, raw: bytes, project: str) -> Iterator[IndexProblem]:
        """What installers read on one page: it must offer the signed files, under their digests, and nothing else."""

        def problem(text: str, file: str | None = None) -> IndexProblem:
            return _problem("page", f"the page of {project} {text}", file)

        try:
            links = read_links(raw, f"{_HERE}simple/{project}/")
        except BadInput as error:
            yield problem(f"cannot be read: {error.message}")
            return
        own = {place: wheel for place, wheel in self.listed.items() if wheel.project == project}
        placed = [(_place_of(link.url), link) for link in links]
        counts = Counter(place for place, _ in placed)
        for place in sorted(own.keys() - counts.keys()):
            yield problem(f"does not offer {own[place].file} any more", own[place].file)
        for file, count in ((posixpath.basename(place), counts[place]) for place in sorted(counts)):
            if count > 1:
                yield problem(f"offers {file} {count} times", file)
        for place, link in placed:
            if (wrong := self._fault_of_link(place, link)) is not None:
                yield problem(wrong, link.name)
        yield from map(problem, _faults_in_json(raw, project, {wheel.version for wheel in own.values()}))

    def _fault_of_link(self, place: str, link: IndexFile) -> str | None:
        """The first thing a link says that was not signed."""
        signed = self.signed
        if place not in signed:
            return f"offers {link.name}, which nobody signed for ({place[:200]})"
        if link.name != posixpath.basename(place):
            return f"offers {posixpath.basename(place)} under another name ({link.name[:200]})"
        if link.sha256 is None:
            return f"gives no digest for {link.name}"
        if link.sha256 != signed[place]:
            return f"gives another digest for {link.name}"
        wheel, metadata = self.listed.get(place), signed.get(f"{place}.metadata")
        if wheel is not None and link.yanked != wheel.yanked:
            return f"offers {link.name}, which was withdrawn" if wheel.yanked else f"says {link.name} was withdrawn"
        if wheel is not None and metadata is not None:
            if link.metadata_sha256 != metadata:
                return f"gives another digest for the metadata of {link.name}"
            if (link.requires_python or None) != wheel.requires_python:
                return f"says {link.name} needs Python {link.requires_python}, signed is {wheel.requires_python}"
        return None

    def _check_files(self, faulty: set[str]) -> Iterator[IndexProblem]:
        """Each signed page, statement, graft and metadata file, byte by byte, but the ``faulty``: those were named."""
        for place, expected in self.listing.files.items():
            if place in faulty:
                continue
            graft, parts = place.endswith(".graft"), place.split("/")
            kind: ProblemKind = "metadata" if place.endswith((".metadata", ".provenance")) else "page"
            if graft:  # larger than any page
                actual = self._digest(MAX_GRAFT, *parts)
            else:
                raw = self.house.read(*parts)
                digest = listing.catalogue_digest if place == listing.CATALOGUE else _sha256
                actual = None if raw is None else digest(raw)
            if actual is None:
                yield _problem("removed" if graft else kind, f"{place} is gone", parts[-1])
            elif actual != expected:
                yield _problem("replaced" if graft else kind, f"{place} is another file than was signed", parts[-1])


def _sha256(raw: bytes) -> str:
    return hashlib.sha256(raw).hexdigest()


def _problem(kind: ProblemKind, text: str, file: str | None = None) -> IndexProblem:
    return IndexProblem(kind=kind, file=file, text=text)


def _page_gone(form: str, project: str) -> IndexProblem:
    return _problem("page", f"{form} of {project} is gone: installers find none of its wheels")


def _place_of(url: str) -> str:
    """Where in the house an address leads, as it is stored; the address itself where it leads elsewhere."""
    path = urllib.parse.unquote(url.removeprefix(_HERE))
    return path if url.startswith(_HERE) and "?" not in url and posixpath.normpath(path) == path else url


def _faults_in_json(raw: bytes, project: str, versions: set[str]) -> Iterator[str]:
    """What the JSON form says besides its files."""
    if raw.lstrip()[:1] != b"{":
        return
    page = json.loads(raw)
    if page.get("name") != project:
        yield f"says it is about {str(page.get('name'))[:200]}"
    listed = page.get("versions")
    extra = [str(version) for version in listed if version not in versions] if isinstance(listed, list) else []
    if extra:
        yield f"names version {extra[0][:200]}, which nobody signed for"
