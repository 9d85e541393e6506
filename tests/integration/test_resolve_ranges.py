"""An index without metadata: what `up` asks before it installs is read by ranges, and no wheel is fetched for it."""

from __future__ import annotations

import hashlib
import os
import re
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rekindle.host.live import LiveHost
from rekindle.interpreters.installer import Installer
from rekindle.journey.resolve import resolve
from rekindle.model.plan import Request
from tiny_wheels import make_wheel

pytestmark = pytest.mark.integration
WEIGHT = 3_000_000


class PlainIndex:
    """Pages and wheels, by ranges too; no metadata beside them. ``sent`` counts bytes of wheels."""

    def __init__(self, folder: Path, *, digests: bool = True, ranges: bool = True) -> None:
        index = self
        self.sent = 0

        class Handler(BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                self.do_GET(body=False)

            def do_GET(self, *, body: bool = True) -> None:
                wheels = {path.name: path for path in folder.glob("*.whl")}
                name = self.path.strip("/").split("/")[-1]
                if name in wheels:
                    content = wheels[name].read_bytes()
                else:
                    own = [one for one in wheels if one.startswith(f"{name.replace('-', '_')}-")]
                    sums = {one: hashlib.sha256(wheels[one].read_bytes()).hexdigest() for one in own}
                    page = "".join(
                        f'<a href="/files/{one}{f"#sha256={sums[one]}" if digests else ""}">{one}</a>' for one in own
                    )
                    content = f"<!DOCTYPE html><html><body>{page}</body></html>".encode()
                asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", "")) if ranges else None
                part = content[int(asked[1]) : int(asked[2]) + 1 if asked[2] else None] if asked else content
                self.send_response(206 if asked else 200 if name in wheels or own else 404)
                self.send_header("Content-Type", "application/octet-stream" if name in wheels else "text/html")
                self.send_header("Content-Length", str(len(part)))
                if ranges:
                    self.send_header("Accept-Ranges", "bytes")
                if asked:
                    self.send_header(
                        "Content-Range", f"bytes {asked[1]}-{int(asked[1]) + len(part) - 1}/{len(content)}"
                    )
                self.end_headers()
                if body:
                    self.wfile.write(part)
                    index.sent += len(part) if name in wheels else 0

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/simple/"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    noise = os.urandom(WEIGHT)
    make_wheel(tmp_path, "heavy", "2.0", files={"heavy/data.bin": noise}, metadata="Requires-Dist: other\n")
    make_wheel(tmp_path, "other", "1.5", files={"other/data.bin": noise})
    return tmp_path


@pytest.fixture
def index(wheels: Path, request: pytest.FixtureRequest) -> Iterator[PlainIndex]:
    made = PlainIndex(wheels, **getattr(request, "param", {}))
    yield made
    made.close()


def _asked(index: PlainIndex) -> dict[str, tuple[str, str | None]]:
    wish = [Request(name="heavy", version="2.0", index=index.url, why="")]
    found = resolve(LiveHost(), sys.executable, wish, fresh=True, substituted=True, installer=Installer())
    assert found is not None
    return {one.name: (one.version, one.sha256) for one in found}


def test_no_wheel_is_fetched(index: PlainIndex) -> None:
    found = _asked(index)
    assert {name: version for name, (version, _) in found.items()} == {"heavy": "2.0", "other": "1.5"}
    assert all(digest for _, digest in found.values())
    assert index.sent < WEIGHT / 10


@pytest.mark.parametrize(
    "index", [{"digests": False}, {"ranges": False}], indirect=True, ids=["no digests", "no ranges"]
)
def test_what_ranges_cannot_tell_is_fetched(index: PlainIndex) -> None:
    found = _asked(index)
    assert set(found) == {"heavy", "other"} and all(digest for _, digest in found.values())
    assert index.sent >= 2 * WEIGHT
