"""The pages installers read: PEP 503 (HTML) and PEP 691 (JSON), with hashes, yanks and PEP 658 metadata.

Links are relative, so the same files work over HTTP from any prefix and from a directory by ``file://``.
"""

from collections.abc import Iterable
from html import escape
from pathlib import Path, PurePosixPath
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


def project_html(project: str, links: Iterable[str]) -> bytes:
    """``links`` are :func:`file_link` of the project's wheels."""
    return _page(f"Links for {project}", "\n".join(f"    {link}<br>" for link in links))


def project_json(project: str, versions: Iterable[str], files: Iterable[bytes]) -> bytes:
    """``files`` are :func:`file_json` of the project's wheels."""
    head = msgspec.json.encode({"meta": {"api-version": "1.1"}, "name": project, "versions": sorted(set(versions))})
    return head[:-1] + b',"files":[' + b",".join(files) + b"]}"


def file_json(row: WheelRow | VariantRow) -> bytes:
    return msgspec.json.encode(
        {
            "filename": row.file,
            "url": _href(row),
            "hashes": {"sha256": row.sha256},
            "core-metadata": {"sha256": row.metadata_sha256},
            # The older spelling, which some installers still look for (PEP 714).
            "dist-info-metadata": {"sha256": row.metadata_sha256},
            **({"requires-python": row.requires_python} if row.requires_python else {}),
            "yanked": (row.yanked or True) if row.yanked is not None else False,
            "size": row.bytes,
            **({"provenance": f"{_href(row)}.provenance"} if row.provenance else {}),
            "upload-time": row.added,
        }
    )


def extra_json(name: str, url: str, sha256: str, size: int) -> bytes:
    """A file that is no wheel (a release's variants)."""
    return msgspec.json.encode(
        {"filename": name, "url": f"../../{quote(url)}", "hashes": {"sha256": sha256}, "size": size, "yanked": False}
    )


def extra_link(name: str, url: str, sha256: str) -> str:
    return f'<a href="../../{quote(url)}#sha256={sha256}">{escape(name)}</a>'


def root_html(projects: Iterable[str]) -> bytes:
    links = "\n".join(f'    <a href="{quote(name)}/">{escape(name)}</a><br>' for name in projects)
    return _page("Simple index", links)


def root_json(projects: Iterable[str]) -> bytes:
    return msgspec.json.encode(
        {"meta": {"api-version": API_VERSION}, "projects": [{"name": name} for name in projects]}
    )


def _href(row: WheelRow | VariantRow) -> str:
    return f"../../{quote(row.url)}"


def file_link(row: WheelRow | VariantRow) -> str:
    attributes = [f'href="{_href(row)}#sha256={row.sha256}"']
    if row.requires_python:
        attributes.append(f'data-requires-python="{escape(row.requires_python)}"')
    attributes += [f'{key}="sha256={row.metadata_sha256}"' for key in ("data-core-metadata", "data-dist-info-metadata")]
    if row.provenance:
        attributes.append(f'data-provenance="{_href(row)}.provenance"')
    if row.yanked is not None:
        attributes.append(f'data-yanked="{escape(row.yanked)}"')
    return f"<a {' '.join(attributes)}>{escape(row.file)}</a>"


def _page(title: str, links: str) -> bytes:
    return _PAGE.format(version=API_VERSION, title=escape(title), links=links).encode()
