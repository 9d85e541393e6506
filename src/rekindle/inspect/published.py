"""A wheel on an index by its name: find the file, then read it by ranges without downloading it whole."""

import platform as this_platform
import sys
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rekindle.errors import BadInput
from rekindle.formats import simple_index
from rekindle.formats.ranges import NoRanges, RangeFile, Unreachable, read_page, tls_context
from rekindle.formats.simple_index import IndexFile, IndexWheel, choose_wheels, sdists_of, wheels_of
from rekindle.host.download import download
from rekindle.inspect.reader import WheelSource, open_local
from rekindle.model.progress import Progress


@dataclass(frozen=True, kw_only=True)
class Places:
    """Where to look, in order: indexes (addresses) and folders or pages of links."""

    indexes: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    certificates: str | None = None


def find_wheels(
    name: str, places: Places, *, python: str | None = None, platform: str | None = None
) -> list[IndexWheel]:
    """Wheels for a requirement such as ``torch==2.6.0``, best first; never empty. A folder of wheels counts only where
    the indexes have nothing that fits: it often holds another flavour of the same version (+cpu)."""
    wish = _parse_wish(name, "neither a file here nor a package name", "torch==2.6.0")
    groups = [wheels_of(files, wish.name) for files in list_files(canonicalize_name(wish.name), places)]
    if not (wheels := [*groups[0], *groups[1]]):
        raise BadInput(f"no index that pip is set up for has wheels of {wish.name}", remedy="python -m pip config list")
    python = python or f"{sys.version_info.major}.{sys.version_info.minor}"
    platform = platform or f"{'win' if sys.platform == 'win32' else 'linux'}_{this_platform.machine().lower()}"
    fitting = (choose_wheels(group, str(wish.specifier), python=python, platform=platform) for group in groups)
    if not (chosen := next((group for group in fitting if group), [])):
        if not (versions := choose_wheels(wheels, str(wish.specifier), python=None, platform=None)):
            offered = ", ".join(dict.fromkeys(str(wheel.version) for wheel in wheels[:200]))
            raise BadInput(f"{wish.name} has no wheel {wish.specifier}; there are {offered[:300]}")
        newest = [wheel for wheel in versions if wheel.version == versions[0].version]
        tags = sorted({str(tag) for wheel in newest for tag in wheel.tags})
        remedy = f"choose with --python and --platform among {', '.join(tags[:40])}"
        wanted = f"{wish.name} {versions[0].version}"
        raise BadInput(f"{wanted} has no wheel for Python {python} on {platform}", remedy=remedy)
    return chosen


def find_sdist(name: str, places: Places) -> IndexWheel:
    """The newest source archive for a requirement such as ``torch-scatter==2.1.2``."""
    wish = _parse_wish(name, "no package name", "torch-scatter==2.1.2")
    files = [file for group in list_files(canonicalize_name(wish.name), places) for file in group]
    if not (sdists := sdists_of(files, wish.name)):
        only = "only wheels" if wheels_of(files, wish.name) else "nothing"
        remedy = f"rekindle plan --with {wish.name} says what else there is; --source DIR takes a tree of your own"
        raise BadInput(f"the package index has {only} of {wish.name}, no sources", remedy=remedy)
    if not (chosen := choose_wheels(sdists, str(wish.specifier), python=None, platform=None)):
        versions = ", ".join(str(sdist.version) for sdist in sdists[:8])
        raise BadInput(f"{wish.name} has no sources {wish.specifier}; the newest are {versions}")
    return chosen[0]


def _parse_wish(name: str, no: str, example: str) -> Requirement:
    try:
        return Requirement(name)
    except InvalidRequirement as error:
        raise BadInput(f"{name!r} is {no}", remedy=f"write e.g. {example}") from error


def is_linked(wheel: IndexWheel, places: Places) -> bool:
    """Does this wheel come from a folder rather than from an index?"""
    folders = [_path_of(link).resolve().as_uri() for link in places.links if _path_of(link).is_dir()]
    return wheel.file.url.startswith("file:") and any(wheel.file.url.startswith(folder + "/") for folder in folders)


def _path_of(link: str) -> Path:
    return Path(urllib.request.url2pathname(urllib.parse.urlsplit(link).path) if link.startswith("file:") else link)


def list_files(project: str, places: Places) -> tuple[list[IndexFile], list[IndexFile]]:
    """What the indexes list, and what folders and pages of links hold."""
    files: list[IndexFile] = []
    folders = [_path_of(link) for link in places.links if _path_of(link).is_dir()]
    linked = [file for folder in folders for file in simple_index.files_in_folder(folder)]
    problems: list[BadInput] = []
    context = tls_context(places.certificates)
    pages = [(f"{index.rstrip('/')}/{project}/", files) for index in places.indexes]
    pages += [(link, linked) for link in places.links if link.startswith(("http:", "https:"))]
    for page, listed in pages:
        try:
            if not page.startswith("file:"):
                answer = read_page(page, accept=simple_index.ACCEPT, context=context)
                listed += simple_index.read_project_page(answer, page)
            elif (listing := _path_of(page) / "index.html").is_file():
                listed += simple_index.read_project_page(listing.read_bytes(), listing.as_uri())
            else:
                raise Unreachable(f"{page} has no index.html")
        except BadInput as error:
            problems.append(error)
    if not files and not linked and problems:
        raise problems[0]
    return files, linked


def open_wheel(wheel: IndexWheel, places: Places, *, progress: Progress, folder: Path | None = None) -> WheelSource:
    """The wheel as a source. A server that sends no ranges gets the slower way: a download to ``folder``."""
    url = wheel.file.url
    if url.startswith("file:"):
        source = open_local(_path_of(url))
        assert isinstance(source, WheelSource)
        return source
    context = tls_context(places.certificates)
    try:
        remote = RangeFile(url, context=context)
    except NoRanges:
        if folder is None:
            raise
        progress.stage("downloading", f"{wheel.file.name} (its server sends whole files only)")
        path = download(url, folder / wheel.file.name, sha256=wheel.file.sha256, progress=progress, context=context)
        return WheelSource(lambda: path.open("rb"), path.name, path.stat().st_size, fetched=lambda: path.stat().st_size)
    return WheelSource(remote.stream, wheel.file.name, remote.length, fetched=lambda: remote.fetched)


def pip_places() -> Places:
    """The indexes and folders pip is set up for."""
    from rekindle.host.live import LiveHost
    from rekindle.interpreters.installer import read_pip_settings

    settings = read_pip_settings(LiveHost())
    indexes = tuple(url for url in (settings.index, *settings.extra) if url)
    return Places(indexes=indexes, links=settings.links, certificates=settings.certificates)
