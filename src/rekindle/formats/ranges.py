"""A file on a web server as a seekable stream that reads only the ranges asked for: the directory of a wheel of 900 MB
costs 1.4 MB. Without ranges it is :class:`NoRanges`. Requests are retried; every byte is counted. Whatever a server
answers, however slowly, it ends in the bytes asked for or in :class:`Unreachable`."""

import http.client
import io
import os
import re
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any, BinaryIO

from rekindle.errors import BadInput

BLOCK = 1 << 16
KEEP_BLOCKS = 256
MOST_AHEAD = 64
TAIL = 1 << 16
TRIES = 4
PAGE_SECONDS = 120.0
SLOWEST_BYTES_A_SECOND = 1 << 14
MAX_PAGE = 64 << 20
Context = ssl.SSLContext | None
_CONTENT_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15})")
# What an answer can make the library raise; ValueError is for addresses that no host could have.
NO_ANSWER = (OSError, http.client.HTTPException, ValueError)


class NoRanges(BadInput):
    """The server sends whole files only."""


class Unreachable(BadInput):
    """Nobody answers, or the answer is no (``status``)."""

    status: int | None = None


def tls_context(certificates: str | None = None) -> ssl.SSLContext:
    """Trust what pip trusts: its ``cert`` setting, then the usual variables, then the system's store."""
    chosen = certificates or os.environ.get("SSL_CERT_FILE") or os.environ.get("REQUESTS_CA_BUNDLE")
    try:
        return ssl.create_default_context(cafile=chosen if chosen and os.path.isfile(chosen) else None)  # noqa: PTH113
    except (ssl.SSLError, OSError) as error:
        raise Unreachable(f"the certificates in {chosen} cannot be read: {error}") from error


def request(url: str, headers: dict[str, str], context: Context, timeout: float) -> tuple[int, Any, Any]:
    """(status, headers, body stream) of a GET, retried with growing pauses. Only http, https and file URLs."""
    scheme = urllib.parse.urlsplit(url).scheme
    if scheme not in ("http", "https", "file"):
        raise BadInput(f"{url} is neither a web nor a file address")
    ask = urllib.request.Request(url, headers={"Accept-Encoding": "identity", **headers})  # noqa: S310 (checked above)
    # A file that is not there will not come; a server may.
    tries = 1 if scheme == "file" else TRIES
    for attempt in range(tries):
        try:
            answer = urllib.request.urlopen(ask, timeout=timeout, context=context)  # noqa: S310
            return getattr(answer, "status", 200) or 200, answer.headers, answer
        except urllib.error.HTTPError as error:
            error.close()
            if error.code < 500 or attempt == tries - 1:
                refusal = Unreachable(f"{url} answers {error.code} {error.reason}")
                refusal.status = error.code
                raise refusal from error
        except NO_ANSWER as error:
            if attempt == tries - 1:
                raise Unreachable(f"{url} cannot be reached: {getattr(error, 'reason', error)}") from error
        time.sleep(0.5 * 2**attempt)
    raise AssertionError("unreachable")


def read_pieces(body: Any, url: str, expected: int = 0) -> Iterator[bytes]:
    """An answer's body as it comes, to its end and in bounded time; ``expected`` bytes of it get their time."""
    seconds = PAGE_SECONDS + expected / SLOWEST_BYTES_A_SECOND
    end = time.monotonic() + seconds
    read = getattr(body, "read1", body.read)
    try:
        while piece := read(BLOCK):
            yield piece
            if time.monotonic() > end:
                raise Unreachable(f"{url} is too slow: its answer was not whole after {seconds:.0f} s")
    except NO_ANSWER as error:
        raise Unreachable(f"{url} breaks off in the middle of an answer: {error}") from error
    if getattr(body, "length", None):
        raise Unreachable(f"{url} breaks off in the middle of an answer")


def read_whole(body: Any, url: str, most: int | None = None) -> bytes:
    """A body of at most so many bytes."""
    page, most = bytearray(), MAX_PAGE if most is None else most
    for piece in read_pieces(body, url):
        page += piece
        if len(page) > most:
            raise BadInput(f"{url} is larger than {most >> 20} MiB")
    return bytes(page)


def read_page(
    url: str, *, accept: str = "*/*", context: Context = None, timeout: float = 60, most: int | None = None
) -> bytes:
    """A whole page."""
    _, _, body = request(url, {"Accept": accept}, context, timeout)
    with body:
        return read_whole(body, url, most)


class RangeFile:
    """A remote file of known length, safe to share between threads. ``fetched`` and ``requests`` count the cost."""

    def __init__(self, url: str, *, context: Context = None, timeout: float = 60) -> None:
        self.url, self._context, self._timeout = url, context, timeout
        self.fetched = self.requests = 0
        self._lock = threading.Lock()
        self._blocks: OrderedDict[int, bytes] = OrderedDict()
        # Who reads on where the last answer ended gets more each time: a request costs as much as many blocks.
        self._next: int | None = None
        self._ahead = 1
        self._tail, self.length = self._get(None, TAIL)
        self._tail_at = self.length - len(self._tail)

    def stream(self) -> BinaryIO:
        """A seekable stream with its own position."""
        return io.BufferedReader(RangeStream(self), buffer_size=BLOCK)

    def _get(self, start: int | None, size: int) -> tuple[bytes, int]:
        """So many bytes from ``start``, or the last ones, and the file's length; never others than were asked for."""
        span = f"bytes=-{size}" if start is None else f"bytes={start}-{start + size - 1}"
        for attempt in range(TRIES):
            status, headers, body = request(self.url, {"Range": span}, self._context, self._timeout)
            with body:
                match = _CONTENT_RANGE.fullmatch((headers.get("Content-Range") or "").strip())
                if status != 206 or not match:
                    raise NoRanges(f"the server of {self.url} does not send parts of files")
                first, last, total = map(int, match.groups())
                begin = max(0, total - size) if start is None else start
                if (first, last) != (begin, min(begin + size, total) - 1):
                    raise NoRanges(f"the server of {self.url} sends other parts of files than it is asked for")
                wanted, data = last - first + 1, bytearray()
                try:
                    for piece in read_pieces(body, self.url, wanted):
                        data += piece
                        if len(data) >= wanted:
                            break
                except Unreachable:
                    data.clear()
            self.requests += 1
            self.fetched += min(len(data), wanted)
            if len(data) >= wanted:
                return bytes(data[:wanted]), total
            time.sleep(0.5 * 2**attempt)
        raise Unreachable(f"{self.url} breaks off in the middle of an answer")

    def read_at(self, start: int, size: int) -> bytes:
        """Bytes from ``start``; short only at the end of the file. Neighbouring blocks come in one request."""
        end = min(start + size, self.length)
        if start >= end:
            return b""
        if start >= self._tail_at:
            return self._tail[start - self._tail_at : end - self._tail_at]
        with self._lock:
            first, last = start // BLOCK, (end - 1) // BLOCK
            if wanted := [number for number in range(first, last + 1) if number not in self._blocks]:
                self._ahead = min(4 * self._ahead, MOST_AHEAD) if wanted[0] == self._next else 1
                self._next = max(wanted[-1] + 1, min(wanted[0] + self._ahead, self._tail_at // BLOCK + 1))
                low, high = wanted[0] * BLOCK, min(self._next * BLOCK, self.length)
                data, _ = self._get(low, high - low)
                for number in range(wanted[0], self._next):
                    self._blocks[number] = data[number * BLOCK - low : (number + 1) * BLOCK - low]
            out = b"".join(self._blocks[number] for number in range(first, last + 1))
            while len(self._blocks) > KEEP_BLOCKS:
                self._blocks.popitem(last=False)
        return out[start - first * BLOCK : end - first * BLOCK]


class RangeStream(io.RawIOBase):
    """One position in a :class:`RangeFile`; closing it leaves the file open."""

    def __init__(self, file: RangeFile) -> None:
        self._file, self._position = file, 0

    def readable(self) -> bool:
        return True

    seekable = readable

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._file.length}[whence]
        self._position = max(0, base + offset)
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        view = memoryview(buffer).cast("B")
        data = self._file.read_at(self._position, len(view))
        view[: len(data)] = data
        self._position += len(data)
        return len(data)
