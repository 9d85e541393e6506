"""A wheel made the same from the same content: order, times, modes, record; plus what we add to it.

``finish_wheel`` writes the wheel anew: entries sorted, one time stamp, plain modes, our additions in the
``.dist-info`` folder, and a fresh RECORD. Building the same tree twice then gives the same bytes.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import os
import time
import zipfile
from collections.abc import Mapping
from pathlib import Path

from rekindle.errors import StageFailed

_CHUNK = 1 << 20


def dist_info_of(names: list[str]) -> str:
    folders = {name.split("/", 1)[0] for name in names if name.split("/", 1)[0].endswith(".dist-info")}
    if len(folders) != 1:
        raise StageFailed(f"the wheel has {len(folders)} .dist-info folders instead of one")
    return folders.pop()


def finish_wheel(source: Path, target: Path, *, epoch: int, add: Mapping[str, bytes]) -> None:
    """``add`` maps names inside ``.dist-info`` to contents. ``target`` appears whole or not at all."""
    stamp = time.gmtime(max(epoch, 315532800))[:6]
    beside = target.with_name(f".{target.name}.new")
    rows: list[tuple[str, str, str]] = []
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(beside, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as new:
        infos = {info.filename: info for info in old.infolist() if not info.is_dir()}
        folder = dist_info_of(list(infos))
        record = f"{folder}/RECORD"
        extra = {f"{folder}/{name}": content for name, content in add.items()}
        # Metadata last, as PEP 427 recommends: readers find it near the end.
        for name in sorted(infos.keys() | extra.keys(), key=lambda n: (n.startswith(folder), n)):
            if name in (record, f"{folder}/RECORD.jws", f"{folder}/RECORD.p7s"):
                continue
            mode = (infos[name].external_attr >> 16) & 0o777 if name in infos else 0o644
            info = _entry(name, stamp, 0o755 if mode & 0o100 else 0o644)
            digest, size = hashlib.sha256(), 0
            large = name in infos and infos[name].file_size > 1 << 31
            with (
                io.BytesIO(extra[name]) if name in extra else old.open(name) as data,
                new.open(info, "w", force_zip64=large) as out,
            ):
                while chunk := data.read(_CHUNK):
                    digest.update(chunk)
                    size += len(chunk)
                    out.write(chunk)
            coded = base64.urlsafe_b64encode(digest.digest()).rstrip(b"=").decode()
            rows.append((name, f"sha256={coded}", str(size)))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*rows, (record, "", "")])
        new.writestr(_entry(record, stamp, 0o644), text.getvalue())
    # Opened for writing: Windows refuses to flush what may only be read.
    with beside.open("r+b") as file:
        os.fsync(file.fileno())
    beside.replace(target)


def _entry(name: str, stamp: tuple[int, ...], mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, date_time=stamp)  # type: ignore[arg-type]
    info.compress_type = zipfile.ZIP_DEFLATED
    info.external_attr = (0o100000 | mode) << 16
    info.create_system = 3
    return info
