"""Bytes of any origin into plain UTF-8 lines, in bounded memory.

Every chunk comes out as UTF-8 bytes whose lines end in ``\\n``, without colours or other terminal sequences; UTF-16
(PowerShell's ``>``) is understood with and without a byte order mark; invalid bytes pass through; nothing is held back
but a few bytes that may belong to the next chunk. And a copy of a log for strangers, without names and secrets.
"""

import codecs
import collections
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

from rekindle import __version__
from rekindle.errors import BadInput, reading
from rekindle.facts.tables import read_own
from rekindle.host.redact import Redactor
from rekindle.model.diagnosis import Diagnosis

HEAD_LINES = 40
TAIL_LINES = 200
AROUND_LINES = 4
MAX_TROUBLE = 150
MAX_LINE = 400
_TROUBLE = re.compile(
    r"error|fatal|failed|undefined|cannot|could not|not found|no such|abort|killed|illegal", re.IGNORECASE
)
CHUNK_BYTES = 1 << 20
LINE_BYTES = 8 << 20
LINE_TAIL_BYTES = 64 << 10
_SNIFF_BYTES = 4096
_SAMPLE_BYTES = 32 * 1024

# CSI sequences (colours, cursor), OSC sequences (titles, links), and the two-byte escapes.
_ANSI = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)|[@-Z\\^_()][0-9A-B]?)")
_BOMS = {codecs.BOM_UTF8: "utf-8", codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}
_BINARIES = read_own(__file__, "binaries.toml", dict[str, str])


def read_chunks(file: BinaryIO) -> Iterator[bytes]:
    """What the file holds now; a log that is still being written is read as far as it goes."""
    while chunk := file.read(CHUNK_BYTES):
        yield chunk


def open_log(path: Path) -> BinaryIO:
    """The file, for reading bytes."""
    with reading(path):
        if path.is_dir():
            raise BadInput(f"{path} is a directory", remedy="name the log file in it")
        return path.open("rb")


def plain_lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Normalised blocks of the same text; blocks may end in the middle of a line."""
    stream = iter(chunks)
    head = b""
    for chunk in stream:
        head += chunk
        if len(head) >= _SNIFF_BYTES:
            break
    encoding, skip = _encoding_of(head)
    pieces: Iterable[bytes] = itertools.chain([head[skip:]], stream)
    if encoding == "utf-8":
        _refuse_binary(head)
    else:
        decoded = codecs.iterdecode(pieces, encoding, "replace")
        pieces = (text.encode("utf-8", "replace") for text in decoded)
    yield from _shorten_lines(_strip_styles(pieces))


def _shorten_lines(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Without the middle of lines longer than any log's: of each the first megabytes and the end are kept."""
    used, tail = 0, b""
    for block in blocks:
        if used + len(block) <= LINE_BYTES:
            last = block.rfind(b"\n")
            used = used + len(block) if last < 0 else len(block) - last - 1
            yield block
            continue
        kept: list[bytes] = []
        for piece in re.findall(rb"[^\n]*\n|[^\n]+", block) if b"\n" in block else (block,):
            room = max(0, LINE_BYTES - used)
            used += len(piece)
            kept.append(piece[:room])
            tail = (tail + piece[room:])[-LINE_TAIL_BYTES:]
            if piece.endswith(b"\n"):
                kept.append(tail)
                used, tail = 0, b""
        yield b"".join(kept)
    if tail:
        yield tail


def _encoding_of(head: bytes) -> tuple[str, int]:
    for bom, name in _BOMS.items():
        if head.startswith(bom):
            return name, len(bom)
    sample = head[:_SNIFF_BYTES]
    # Text in UTF-16 without a mark: nearly every second byte is zero, always on the same side.
    if len(sample) >= 8:
        half = len(sample) // 2
        if sample[1::2].count(0) > 0.7 * half and sample[0::2].count(0) < 0.05 * half:
            return "utf-16-le", 0
        if sample[0::2].count(0) > 0.7 * half and sample[1::2].count(0) < 0.05 * half:
            return "utf-16-be", 0
    return "utf-8", 0


def _refuse_binary(head: bytes) -> None:
    for magic, name in _BINARIES.items():
        if head.startswith(magic.encode("latin-1")) and b"\0" in head[:_SNIFF_BYTES]:
            raise BadInput(f"this is {name}, not a log", remedy="'rekindle inspect' reads wheels and libraries")
    if head[:_SNIFF_BYTES].count(0) > len(head[:_SNIFF_BYTES]) // 10:
        raise BadInput("this is binary data, not a log", remedy="give a text file, '-' or the error message itself")


def _strip_styles(pieces: Iterable[bytes]) -> Iterator[bytes]:
    carry = b""
    for piece in pieces:
        block = carry + piece
        carry = b""
        # A sequence (or a CR LF pair) cut in two by the chunk's end waits for the rest.
        cut = block.rfind(b"\x1b", max(0, len(block) - 64))
        if cut >= 0 and not _ANSI.match(block, cut):
            block, carry = block[:cut], block[cut:]
        elif block.endswith(b"\r"):
            block, carry = block[:-1], b"\r"
        if block:
            yield _clean(block)
    if carry:
        yield _clean(carry)


def _clean(block: bytes) -> bytes:
    if b"\x1b" in block:
        # Logs repeat a handful of sequences thousands of times; replacing those is many times faster than a regex.
        for sequence in set(_ANSI.findall(block[:_SAMPLE_BYTES])):
            block = block.replace(sequence, b"")
        block = _ANSI.sub(b"", block)
    if b"\r" in block:
        # A lone CR redraws a progress line: for a reader each state is a line of its own.
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return block


def make_report(chunks: Iterable[bytes], diagnosis: Diagnosis, redactor: Redactor, *, machine: str = "") -> str:
    """The report as text, bounded whatever the log's size."""
    ids = ", ".join(f"{match.id} (line {match.line}, {match.confidence})" for match in diagnosis.matches) or "nothing"
    head = [f"rekindle {__version__} explain report", f"lines: {diagnosis.lines}", f"recognised: {ids}"]
    head += [f"machine: {machine}"] if machine else []
    kept: dict[int, str] = {}
    tail: collections.deque[tuple[int, str]] = collections.deque(maxlen=TAIL_LINES)
    trouble, until = 0, HEAD_LINES
    for number, line in enumerate(_lines(chunks), start=1):
        if trouble < MAX_TROUBLE and _TROUBLE.search(line):
            trouble += 1
            kept.update(list(tail)[-AROUND_LINES:])
            until = max(until, number + AROUND_LINES)
        if number <= until:
            kept[number] = line
        tail.append((number, line))
    kept.update(tail)
    body = "\n".join(f"{number:>8}  {line}" for number, line in sorted(kept.items()))
    return redactor.text("\n".join(head)) + "\n\n" + redactor.text(body) + "\n"


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    rest = b""
    for block in plain_lines(chunks):
        *whole, rest = (rest + block).split(b"\n")
        for line in whole:
            yield line[:MAX_LINE].decode("utf-8", "replace")
        rest = rest[:MAX_LINE]
    if rest:
        yield rest[:MAX_LINE].decode("utf-8", "replace")
