"""A project's page on a package index (PEP 503 HTML, PEP 691 JSON) or a folder of wheels as a list of files."""

import contextlib
import functools
import html.parser
import json
import re
import urllib.parse
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.tags import Tag
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from packaging.version import Version

from rekindle.errors import BadInput

# The largest projects have tens of thousands.
MAX_LINKS = 200_000
MAX_LABEL = 500
ACCEPT = "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


@dataclass(frozen=True, slots=True)
class IndexFile:
    """``sha256`` where the index says what the file must be, ``metadata_sha256`` what its PEP 658 metadata must be."""

    name: str
    url: str
    yanked: bool = False
    sha256: str | None = None
    metadata_sha256: str | None = None
    requires_python: str | None = None


@dataclass(frozen=True, slots=True)
class IndexWheel:
    """A wheel whose name could be understood."""

    file: IndexFile
    version: Version
    build: tuple[int, str] | tuple[()]
    tags: frozenset[Tag]


class _Anchors(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[tuple[dict[str, str | None], str]] = []
        self.base: str | None = None
        self._open = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "base" and self.base is None:
            # The first one counts, for installers and browsers alike.
            self.base = dict(attrs).get("href")
        if tag == "a":
            if len(self.links) >= MAX_LINKS:
                raise ValueError(f"more than {MAX_LINKS} links")
            self.links.append((dict(attrs), ""))
            self._open = True

    def handle_endtag(self, tag: str) -> None:
        self._open = self._open and tag != "a"

    def handle_data(self, data: str) -> None:
        if self._open and self.links:
            attrs, text = self.links[-1]
            if len(text) < MAX_LABEL:
                self.links[-1] = attrs, text + data[:MAX_LABEL]


def read_project_page(page: bytes, url: str) -> list[IndexFile]:
    """The files a page offers; addresses are made absolute and lose their fragment. What cannot be an address is no
    file, nor is a file of this machine that a page from elsewhere names."""
    own = urllib.parse.urlsplit(url).scheme == "file"
    return [file for file in read_links(page, url) if file.url and (own or not file.url.startswith("file:"))]


def read_links(page: bytes, url: str) -> list[IndexFile]:
    """Every link of a page, whatever it leads to; one that cannot be an address has none."""
    if page.lstrip()[:1] == b"{":
        try:
            out = []
            for row in json.loads(page)["files"]:
                name, address = str(row["filename"]), _absolute_url(url, str(row["url"]))
                metadata = _check_digest(row.get("core-metadata", row.get("dist-info-metadata")))
                python = str(row["requires-python"]) if row.get("requires-python") else None
                yanked, digest = bool(row.get("yanked")), _check_digest(row.get("hashes"))
                out.append(IndexFile(name, address, yanked, digest, metadata, python))
            return out
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadInput(f"{url} answers with JSON that is no project page: {error}") from error
    parser = _Anchors()
    try:
        # Not closed, as pip does not: what is left open is no link; looking for its end again and again takes hours.
        parser.feed(page.decode("utf-8", "replace"))
    except (ValueError, AssertionError) as error:
        raise BadInput(f"{url} answers with HTML that is no project page: {error}") from error
    out = []
    base = _absolute_url(url, parser.base) if parser.base else url
    for attrs, text in parser.links:
        if href := attrs.get("href"):
            address = _absolute_url(base, href)
            name = urllib.parse.unquote(urllib.parse.urlsplit(address).path.rsplit("/", 1)[-1]) or text.strip()
            kind, _, text = urllib.parse.urldefrag(href)[1].partition("=")
            digest = _check_digest(text) if kind == "sha256" else None
            metadata = attrs.get("data-core-metadata", attrs.get("data-dist-info-metadata")) or ""
            metadata, python = _check_digest(metadata.removeprefix("sha256=")), attrs.get("data-requires-python")
            out.append(IndexFile(name, address, "data-yanked" in attrs, digest, metadata, python))
    return out


def _check_digest(given: object) -> str | None:
    """A SHA-256, by itself or among digests by their kinds; None for anything else."""
    text = given.get("sha256") if isinstance(given, dict) else given
    return text.lower() if isinstance(text, str) and re.fullmatch("[0-9a-fA-F]{64}", text) else None


def _absolute_url(base: str, href: str) -> str:
    """Without its fragment; empty where it is none."""
    try:
        return urllib.parse.urldefrag(urllib.parse.urljoin(base, href))[0]
    except ValueError:
        return ""


def files_in_folder(folder: Path) -> list[IndexFile]:
    paths = sorted(path for kind in ("*.whl", "*.tar.gz", "*.zip") for path in folder.glob(kind))
    return [IndexFile(path.name, path.resolve().as_uri()) for path in paths]


def wheels_of(files: Iterable[IndexFile], project: str) -> list[IndexWheel]:
    """The wheels of a project, newest first. Names that break the rules are passed over."""
    return _read_names(files, project, (".whl",), parse_wheel_filename)


def sdists_of(files: Iterable[IndexFile], project: str) -> list[IndexWheel]:
    """The source archives of a project, newest first; they have no tags."""
    return _read_names(files, project, (".tar.gz", ".zip"), lambda name: (*parse_sdist_filename(name), (), frozenset()))


def _read_names(
    files: Iterable[IndexFile], project: str, endings: tuple[str, ...], parse: Callable[[str], tuple[Any, ...]]
) -> list[IndexWheel]:
    out = []
    for file in files:
        with contextlib.suppress(ValueError):
            # Only a name that lies in the folder it is put into, and is what it looks like.
            if file.name.endswith(endings) and file.name.isprintable() and not set(file.name) & set("/\\:"):
                name, *rest = parse(file.name)
                out += [IndexWheel(file, *rest)] if name == canonicalize_name(project) else []
    return sorted(out, key=lambda wheel: (wheel.version, wheel.build), reverse=True)


def choose_wheels(
    wheels: Iterable[IndexWheel], specifier: str, *, python: str | None, platform: str | None
) -> list[IndexWheel]:
    """Wheels that meet a version specifier, a Python (``3.11``) and a platform, best first. ``platform`` is a tag or a
    part of one: ``manylinux1_x86_64``, ``win_amd64``, ``linux_aarch64`` (any manylinux of that architecture),
    ``macosx_arm64``. Yanked files and pre-releases count only if nothing else is left."""
    try:
        wanted = SpecifierSet(specifier)
    except InvalidSpecifier as error:
        raise BadInput(f"{specifier!r} is no version specifier", remedy="write e.g. torch==2.6.0") from error
    fitting = [wheel for wheel in wheels if wanted.contains(wheel.version, prereleases=True)]
    for needed in (python and _python_fits(python), platform and functools.partial(_platform_fits, platform)):
        if needed:
            fitting = [wheel for wheel in fitting if any(map(needed, wheel.tags))]
    stable = [wheel for wheel in fitting if not wheel.version.is_prerelease and not wheel.file.yanked]
    # glibc's before musl's of the same version: both are "linux", and few machines have musl.
    chosen = sorted(stable or fitting, key=lambda wheel: all("musllinux" in tag.platform for tag in wheel.tags))
    return sorted(chosen, key=lambda wheel: wheel.version, reverse=True)


def _python_fits(python: str) -> Callable[[Tag], bool]:
    parts = python.split(".")
    if len(parts) < 2 or not all(part.rstrip("t").isdecimal() for part in parts[:2]):
        raise BadInput(f"{python!r} is no Python version", remedy="write e.g. --python 3.11")
    free_threaded = parts[1].endswith("t")
    major, minor = int(parts[0]), int(parts[1].rstrip("t"))

    def fits(tag: Tag) -> bool:
        since = tag.interpreter.removeprefix(f"py{major}")
        # pip counts py39 as "3.9 or newer" too.
        if since == "" or (since.isdecimal() and int(since) <= minor):
            return True
        if tag.interpreter == f"cp{major}{minor}":
            return (tag.abi.endswith("t") == free_threaded and "cp" in tag.abi) or tag.abi in ("none", "abi3")
        older = tag.interpreter.removeprefix(f"cp{major}")
        return tag.abi == "abi3" and older.isdecimal() and int(older) <= minor and not free_threaded

    return fits


def _platform_fits(platform: str, tag: Tag) -> bool:
    wanted = platform.replace("-", "_").replace(".", "_").lower()
    family, _, arch = wanted.partition("_")
    is_loose = family in ("linux", "macosx") and arch != ""
    return tag.platform in (wanted, "any") or (
        is_loose and tag.platform.endswith(f"_{arch}") and family in tag.platform
    )
