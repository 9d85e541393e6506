"""Ctrl-C under Windows: SIGINT while an archive is downloading, then the same command again.

The signal is raised inside the process, as Windows' own handler does it; a console that sends it is on the checklist.
"""

from __future__ import annotations

import hashlib
import http.server
import subprocess
import sys
import tarfile
import threading
import time
from pathlib import Path
from typing import ClassVar

from winworld import ONLY

from source_mini import make_tree

pytestmark = ONLY
# As soon as bytes lie in the folder.
INTERRUPTED = """
import pathlib, signal, sys, threading, time
def press():
    while not any(path.stat().st_size for path in pathlib.Path(sys.argv[1]).rglob("*.part")):
        time.sleep(0.05)
    signal.raise_signal(signal.SIGINT)
threading.Thread(target=press, daemon=True).start()
from rekindle.cli.main import main
sys.exit(main(sys.argv[2:]))
"""


class Slow(http.server.BaseHTTPRequestHandler):
    """The first answer never gets past its first half, the next ones go on where asked."""

    content: ClassVar[bytes] = b""
    ranges: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        wanted = self.headers.get("Range")
        self.ranges.append(wanted)
        begin = int(wanted.removeprefix("bytes=").split("-")[0]) if wanted else 0
        self.send_response(206 if wanted else 200)
        self.send_header("ETag", '"one"')
        self.send_header("Content-Length", str(len(self.content) - begin))
        if wanted:
            self.send_header("Content-Range", f"bytes {begin}-{len(self.content) - 1}/{len(self.content)}")
        self.end_headers()
        try:
            if len(self.ranges) == 1:
                half = len(self.content) // 2
                self.wfile.write(self.content[:half])
                for at in range(half, half + 600):
                    time.sleep(0.1)
                    self.wfile.write(self.content[at : at + 1])
            else:
                self.wfile.write(self.content[begin:])
        except OSError:
            pass

    def log_message(self, *_: object) -> None:
        pass


def test_ctrl_c_stops_a_download_and_the_next_start_goes_on(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "made")
    (tree / "filler.bin").write_bytes(bytes(range(256)) * (1 << 13))
    with tarfile.open(tmp_path / "x.tar", "w") as tar:
        tar.add(tree, "pytorch-v1.13.0")
    Slow.content = (tmp_path / "x.tar").read_bytes()
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Slow)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    verb = ("source", "fetch", "--workspace", str(tmp_path / "w"), "--no-submodules",
            "--source", str(tmp_path / "tree"), "--from", f"http://127.0.0.1:{server.server_address[1]}/x.tar",
            "--sha256", hashlib.sha256(Slow.content).hexdigest())  # fmt: skip
    try:
        stopped = subprocess.run(
            [sys.executable, "-c", INTERRUPTED, str(tmp_path), *verb], capture_output=True, timeout=120
        )
        assert stopped.returncode == 3 and b"Traceback" not in stopped.stderr, stopped
        assert not (tmp_path / "tree").exists()
        again = subprocess.run([sys.executable, "-m", "rekindle", *verb], capture_output=True, timeout=120)
    finally:
        server.shutdown()
        server.server_close()
    assert again.returncode == 0, again
    assert (tmp_path / "tree" / "filler.bin").stat().st_size == 1 << 21
    assert Slow.ranges[0] is None and Slow.ranges[1] is not None, "the bytes that were there were not fetched again"
