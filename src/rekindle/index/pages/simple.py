"""The pages installers read: PEP 503 (HTML) and PEP 691 (JSON), with hashes, yanks and PEP 658 metadata.

Links are relative, so the same files work over HTTP from any prefix and from a directory by ``file://``.
"""

from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

import msgspec

from rekindle.model.toml import read_beside
from rekindle.model.wheelhouse import VariantRow, WheelRow

API_VERSION = "1.0"
_PAGE = (Path(__file__).parent / "templates" / "simple.html").read_text(encoding="utf-8")


def content_type(name: str) -> str:
    """What a file of a wheelhouse is called over HTTP, by its ending."""
    types = read_beside(__file__, "content_types.toml", dict[str, str])
    return types.get(PurePosixPath(name).suffix, "application/octet-stream")


def project_pages(project: str, wheels: Sequence[tuple[str, str, bytes]]) -> dict[str, bytes]:
    """Both forms of a project's page, by their files; of each wheel version, :func:`link_of`, JSON of the entry."""
    versions = sorted({version for version, _, _ in wheels})
    head = msgspec.json.encode({"meta": {"api-version": "1.1"}, "name": project, "versions": versions})
    links = "\n".join(f"    {link}<br>" for _, link, _ in wheels)
    files = b",".join(entry for _, _, entry in wheels)
    return {"index.html": _page(f"Links for {project}", links), "index.json": head[:-1] + b',"files":[' + files + b"]}"}


def entry_of(row: WheelRow | VariantRow) -> dict[str, Any]:
    """A wheel as PEP 691 lists it."""
    place, metadata = f"../../{quote(row.url)}", {"sha256": row.metadata_sha256}
    return {
        "filename": row.file,
        "url": place,
        "hashes": {"sha256": row.sha256},
        "core-metadata": metadata,
        # The older spelling, which some installers still look for (PEP 714).
        "dist-info-metadata": metadata,
        **({"requires-python": row.requires_python} if row.requires_python else {}),
        "yanked": (row.yanked or True) if row.yanked is not None else False,
        "size": row.bytes,
        **({"provenance": f"{place}.provenance"} if row.provenance else {}),
        "upload-time": row.added,
    }


def link_of(entry: dict[str, Any]) -> str:
    """The same as PEP 503 links it."""
    attributes = [f'href="{entry["url"]}#sha256={entry["hashes"]["sha256"]}"']
    for name in ("requires-python", "core-metadata", "dist-info-metadata", "provenance", "yanked"):
        if (value := entry.get(name, False)) is not False:
            text = f"sha256={value['sha256']}" if isinstance(value, dict) else "" if value is True else value
            attributes.append(f'data-{name}="{escape(text)}"')
    return f"<a {' '.join(attributes)}>{escape(entry['filename'])}</a>"


def root_pages(projects: Iterable[str]) -> dict[str, bytes]:
    """The same of the list of all projects."""
    names = list(projects)
    links = "\n".join(f'    <a href="{quote(name)}/">{escape(name)}</a><br>' for name in names)
    listed = {"meta": {"api-version": API_VERSION}, "projects": [{"name": name} for name in names]}
    return {"index.html": _page("Simple index", links), "index.json": msgspec.json.encode(listed)}


def _page(title: str, links: str) -> bytes:
    return _PAGE.format(version=API_VERSION, title=escape(title), links=links).encode()
