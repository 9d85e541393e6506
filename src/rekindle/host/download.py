"""One file from the network, resumed where it stopped, and only kept if it is whole and the right one. The bytes grow
in ``NAME.part``; ``NAME.part.json`` remembers which file they belong to (address, ETag, length). A server that has
another file by now, or cannot resume, makes it start over."""

import http.client
import json
import re
import socket
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from rekindle.errors import BadInput, Interrupted, StageFailed
from rekindle.host.files import sha256_of, write_atomically
from rekindle.model.document import load_kept
from rekindle.model.progress import Progress, Silent

ASK_SECONDS = 8.0
CHUNK = 1 << 18
TIMEOUT_SECONDS = 30.0
ATTEMPTS = 5
MAX_BYTES = 32 << 30


def download(
    url: str,
    target: Path,
    *,
    sha256: str | None = None,
    progress: Progress | None = None,
    attempts: int | None = None,
    context: ssl.SSLContext | None = None,
) -> Path:
    """Fetch ``url`` into ``target``; what is there already, and right, is kept. ``context``: whom to trust."""
    progress = progress or Silent()
    if sha256 is not None and not re.fullmatch(r"[0-9a-fA-F]{64}", sha256):
        raise BadInput(f"{sha256!r} is no SHA-256", remedy="64 hexadecimal digits, as 'sha256sum' prints them")
    if target.is_file() and (sha256 is None or sha256_of(target) == sha256.lower()):
        return target
    if not url.startswith(("https://", "http://", "file://")):
        raise BadInput(f"cannot download from {url!r}", remedy="give an http(s) address")
    target.parent.mkdir(parents=True, exist_ok=True)
    part, notes = target.with_name(target.name + ".part"), target.with_name(target.name + ".part.json")
    reason: object = "the server closed the connection"
    for attempt in range(ATTEMPTS if attempts is None else attempts):
        if attempt:
            time.sleep(min(2.0**attempt, 20.0) / 4)
        try:
            if _continue(url, part, notes, progress, context):
                break
        except urllib.error.HTTPError as error:
            if error.code in (404, 410, 401, 403):
                raise StageFailed(f"{url} answers {error.code} {error.reason}", remedy="check the address") from error
            reason = error.reason or error
        except (urllib.error.URLError, http.client.HTTPException, ConnectionError, TimeoutError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
        except OSError as error:
            if error.errno is not None:
                raise BadInput(f"cannot write {part}: {error.strerror or error}", remedy="free some space") from error
            reason = getattr(error, "reason", None) or error
    else:
        text = f"the download of {url} was cut short at {_size(part) >> 20} MiB ({reason})"
        raise Interrupted(text, remedy="the same command continues there")
    if sha256 is not None and (got := sha256_of(part)) != sha256.lower():
        part.unlink()
        notes.unlink(missing_ok=True)
        raise StageFailed(f"{url} has SHA-256 {got}, not {sha256.lower()}; it was thrown away")
    part.replace(target)
    notes.unlink(missing_ok=True)
    return target


def _continue(url: str, part: Path, notes: Path, progress: Progress, context: ssl.SSLContext | None) -> bool:
    """One connection: from where the part ends to the end. False where it was cut."""
    have = _size(part)
    note = load_kept(notes, dict[str, Any]) or {}
    known = note if have and note.get("url") == url else {}
    validator = known.get("etag") or known.get("modified")
    have = have if validator else 0
    headers = {"User-Agent": "rekindle"}
    if have:
        headers |= {"Range": f"bytes={have}-", "If-Range": str(validator)}
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 (the scheme was checked)
    try:
        answer = urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS, context=context)  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == 416 and have and known.get("length") == have:
            return True
        if error.code == 416:
            part.unlink(missing_ok=True)
        raise
    with answer:
        resumed = answer.status == 206
        start = have if resumed else 0
        length = answer.headers.get("Content-Length")
        total = start + int(length[:16]) if length and length.isdecimal() else None
        if total and total > MAX_BYTES:
            raise BadInput(f"{url} is {total >> 30} GiB large; that is no source archive")
        etag, modified = answer.headers.get("ETag"), answer.headers.get("Last-Modified")
        # A weak validator may not be used for ranges.
        note = {"url": url, "etag": etag if etag and not etag.startswith("W/") else None, "modified": modified}
        write_atomically(notes, json.dumps(note | {"length": total}))
        done = start
        begun = time.monotonic()
        with part.open("ab" if resumed else "wb") as file:
            while chunk := answer.read(CHUNK):
                file.write(chunk)
                done += len(chunk)
                if done > MAX_BYTES:
                    raise BadInput(f"{url} does not end; stopped after {MAX_BYTES >> 30} GiB")
                progress.step(done, total, _speed(done - start, total and total - done, time.monotonic() - begun))
    return total is None or done == total


def _speed(done: int, left: int | None, seconds: float) -> str:
    if seconds < 0.5 or not done:
        return f"{done >> 20} MiB"
    rate = done / seconds
    rest = f", {left / rate:.0f} s left" if left is not None else ""
    return f"{rate / (1 << 20):.1f} MiB/s{rest}"


def _size(part: Path) -> int:
    return part.stat().st_size if part.is_file() else 0


def why_unreachable(url: str, *, timeout: float = ASK_SECONDS) -> str | None:
    """None where the place answers at all, be it with a refusal; else the reason, in words. Only http(s) is asked."""
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        return None
    request = urllib.request.Request(url, method="HEAD")  # noqa: S310 (the scheme is checked above)
    try:
        with urllib.request.urlopen(request, timeout=timeout):  # noqa: S310
            return None
    except urllib.error.HTTPError as error:
        # A proxy in between answers for a place it cannot reach itself.
        return f"a gateway on the way says {error.code}" if error.code in (502, 504) else None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
    known = (
        # Somebody answers; whether to believe them is the installer's to decide and to say.
        (ssl.SSLCertVerificationError, None),
        (socket.gaierror, "its name cannot be resolved"),
        (TimeoutError, f"no answer within {timeout:g} s"),
        (ConnectionRefusedError, "the connection is refused"),
        (OSError, getattr(reason, "strerror", None) or str(reason)),
    )
    return next((words for kind, words in known if isinstance(reason, kind)), str(reason))
