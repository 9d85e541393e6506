"""Tiny wheels for tests, made on the spot; each fault can be asked for by name."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from pathlib import Path


def hash_row(name: str, data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def make_wheel(
    folder: Path,
    project: str = "tiny",
    version: str = "1.0",
    *,
    tag: str = "py3-none-any",
    files: dict[str, bytes] | None = None,
    requires_python: str | None = ">=3.8",
    metadata: str = "",
    file: str | None = None,
    record: str | None = None,
    unlisted: dict[str, bytes] | None = None,
    compression: int = zipfile.ZIP_DEFLATED,
) -> Path:
    """A valid wheel unless ``record``, ``unlisted`` or ``file`` say otherwise."""
    inside = project.replace("-", "_")
    info = f"{inside}-{version}.dist-info"
    members = dict(files if files is not None else {f"{inside}/__init__.py": f"version = {version!r}\n".encode()})
    requires = f"Requires-Python: {requires_python}\n" if requires_python else ""
    members[f"{info}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n{requires}{metadata}\n".encode()
    )
    root_is_purelib = "true" if tag.endswith("any") else "false"
    members[f"{info}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: {root_is_purelib}\nTag: {tag}\n".encode()
    )
    rows = "".join(hash_row(name, data) for name, data in members.items()) + f"{info}/RECORD,,\n"
    members[f"{info}/RECORD"] = (record if record is not None else rows).encode()
    members.update(unlisted or {})
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (file or f"{inside}-{version}-{tag}.whl")
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in members.items():
            # A fixed date: the same call makes the same bytes.
            archive.writestr(zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0)), data, compress_type=compression)
    return path
