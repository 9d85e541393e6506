"""A wheelhouse against its signed list: removed, replaced, added, older than before, expired.

The house is a directory or a URL; nothing in it is believed but the list that a known key signed.
"""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from rekindle.errors import BadInput
from rekindle.formats.dsse import read_envelope, signed_by
from rekindle.formats.simple_index import read_project_page
from rekindle.index.listing import LIST_FILE, MAX_LIST_BYTES, last_seen, moment, read_list, remember
from rekindle.model.claims import IndexCheck, IndexProblem, ListedWheel, ProblemKind, WheelList
from rekindle.model.progress import Progress

# Clocks of two machines differ; more than this is no difference of clocks.
CLOCK_SLACK = timedelta(minutes=10)
TIMEOUT_SECONDS = 60.0
MAX_PAGE = 64 << 20
_CHUNK = 1 << 20
Check = Callable[[str, bytes, bytes], str | None]


class House:
    """Opens what lies under the root, local or remote; a name can never lead out of it."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.remote = root.startswith(("http://", "https://"))

    def open(self, *parts: str) -> IO[bytes] | None:
        """None where there is no such file."""
        if any(part in ("", ".", "..") or "/" in part or "\\" in part for part in parts):
            return None
        if not self.remote:
            path = Path(self.root).joinpath(*parts)
            return path.open("rb") if path.is_file() else None
        url = "/".join([self.root.rstrip("/"), *(quote(part) for part in parts)])
        try:
            answer: Any = urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS)  # noqa: S310 (http and https only)
        except urllib.error.HTTPError as error:
            if error.code in (403, 404, 410):
                return None
            raise BadInput(f"cannot read {url}: {error}", remedy="is the wheelhouse served there?") from error
        except (urllib.error.URLError, OSError) as error:
            reason = getattr(error, "reason", error)
            raise BadInput(f"cannot read {url}: {reason}", remedy="is the wheelhouse served there?") from error
        opened: IO[bytes] = answer
        return opened


def check_house(
    root: str, check: Check, *, keys_known: bool, seen: Path, now: datetime, progress: Progress
) -> IndexCheck:
    """Everything that is not as it was signed. A list that cannot be believed ends the check."""
    house = House(root)
    if not house.remote and not Path(root).is_dir():
        raise BadInput(f"{root} is no directory", remedy="give the wheelhouse with --root DIR or URL")
    file = house.open(LIST_FILE)
    if file is None:
        return _refused(root, "unsigned", f"there is no signed list ({LIST_FILE})")
    with file:
        raw = file.read(MAX_LIST_BYTES + 1)
    name = signed_by(read_envelope(raw, LIST_FILE), check)
    if name is None:
        words = "no key is known to check its list with" if not keys_known else "a key that is not believed signed it"
        return _refused(root, "wrong-key", f"{words}, or the list was changed after signing")
    listed = read_list(raw, LIST_FILE)
    problems = [*_times(listed, now), *_edition(listed, seen, name), *_wheels(house, listed, progress)]
    if not any(problem.kind in ("older-list", "clock") for problem in problems):
        remember(seen, name, listed.name, listed.serial)
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


def _edition(listed: WheelList, seen: Path, signer: str) -> list[IndexProblem]:
    newest = last_seen(seen, signer, listed.name)
    if listed.serial >= newest:
        return []
    text = f"this is list number {listed.serial}, but number {newest} was seen here before: it was set back"
    return [IndexProblem(kind="older-list", text=text)]


def _wheels(house: House, listed: WheelList, progress: Progress) -> list[IndexProblem]:
    problems: list[IndexProblem] = []
    for number, wheel in enumerate(listed.wheels):
        progress.step(number, len(listed.wheels), wheel.file)
        problems += _wheel(house, wheel)
    for project in sorted({wheel.project for wheel in listed.wheels}):
        problems += _page(house, project, {w.file: w for w in listed.wheels if w.project == project})
    if not house.remote:
        known = {(wheel.project, wheel.file) for wheel in listed.wheels}
        there = {(path.parent.name, path.name) for path in Path(house.root, "wheels").glob("*/*.whl")}
        problems += [
            IndexProblem(kind="unlisted", file=file, text=f"{file} is there, but nobody signed for it")
            for _, file in sorted(there - known)
        ]
    return problems


def _wheel(house: House, wheel: ListedWheel) -> list[IndexProblem]:
    file = house.open("wheels", wheel.project, wheel.file)
    if file is None:
        return [IndexProblem(kind="removed", file=wheel.file, text=f"{wheel.file} is gone")]
    digest, size = hashlib.sha256(), 0
    with file:
        # One byte more than was signed is enough to know.
        while size <= wheel.bytes and (chunk := file.read(_CHUNK)):
            digest.update(chunk)
            size += len(chunk)
    if digest.hexdigest() != wheel.sha256:
        found = digest.hexdigest()
        text = f"{wheel.file} is another file than was signed (sha256 {found[:12]}…, not {wheel.sha256[:12]}…)"
        return [IndexProblem(kind="replaced", file=wheel.file, text=text)]
    return []


def _page(house: House, project: str, wheels: dict[str, ListedWheel]) -> list[IndexProblem]:
    """What installers read: it must offer the signed files, under their digests, and nothing else."""
    file = house.open("simple", project, "index.html")
    if file is None:
        return [IndexProblem(kind="page", text=f"the page of {project} is gone: installers find none of its wheels")]
    with file:
        raw = file.read(MAX_PAGE)
    text = raw.decode("utf-8", "replace")
    offered = {one.name for one in read_project_page(raw, "https://wheelhouse.invalid/simple/x/")}
    problems = [
        IndexProblem(kind="page", file=name, text=f"the page of {project} does not offer {name} any more")
        for name in sorted(wheels.keys() - offered)
    ]
    problems += [
        IndexProblem(kind="page", file=name, text=f"the page of {project} offers {name}, which nobody signed for")
        for name in sorted(offered - wheels.keys())
    ]
    problems += [
        IndexProblem(kind="page", file=name, text=f"the page of {project} gives another digest for {name}")
        for name, wheel in sorted(wheels.items())
        if name in offered and f"#sha256={wheel.sha256}" not in text
    ]
    return problems


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
    if kinds & {"removed", "replaced", "unlisted", "older-list", "page"}:
        steps.append("install nothing from it until its owner has explained this (the owner: index build --sign KEY)")
    return tuple(steps)
