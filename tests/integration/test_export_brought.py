"""The program that fetches CUDA for a Windows workflow, run against a server of our own."""

from __future__ import annotations

import hashlib
import http.server
import io
import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from rekindle.scripts.formats import carried_program

pytestmark = pytest.mark.integration
COMPONENTS = ("cuda_nvcc", "cuda_cudart", "libcublas", "libcufft", "libcurand", "libcusolver", "libcusparse")


def archive(root: Path, kind: str, name: str, files: dict[str, bytes]) -> dict[str, str]:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as zipped:
        for inside, data in files.items():
            zipped.writestr(f"{name}-archive/{inside}", data)
    path = f"{name}/windows-x86_64/{name}-archive.zip"
    target = root / kind / "redist" / path
    target.parent.mkdir(parents=True)
    target.write_bytes(content.getvalue())
    return {"relative_path": path, "sha256": hashlib.sha256(content.getvalue()).hexdigest()}


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def redist(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    root = tmp_path / "redist"
    rows = {name: {"windows-x86_64": archive(root, "cuda", name, {f"bin/{name}.txt": b"x"})} for name in COMPONENTS}
    (root / "cuda" / "redist" / "redistrib_11.8.0.json").write_text(json.dumps({"release_date": "x", **rows}))
    eleven = archive(root, "cudnn", "cudnn11", {"include/cudnn_version.h": b"#define CUDNN_MAJOR 8"})
    twelve = archive(root, "cudnn", "cudnn12", {"include/cudnn_version.h": b"wrong"})
    manifest = {"cudnn": {"windows-x86_64": {"cuda11": eleven, "cuda12": twelve}}}
    (root / "cudnn" / "redist" / "redistrib_8.7.0.84.json").write_text(json.dumps(manifest))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield root, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def fetch(address: str, folder: Path, cuda: str = "11.8.0", cudnn: str = "8.7.0") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", carried_program("fetch_cuda.py.txt"), cuda, cudnn, str(folder)],
        capture_output=True, text=True, timeout=60, env={**os.environ, "REDIST": address, "NO_PROXY": "127.0.0.1"},
    )  # fmt: skip


def test_cuda_and_cudnn_come_from_the_archive(redist: tuple[Path, str], tmp_path: Path) -> None:
    done = fetch(redist[1], tmp_path / "cuda")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "cuda/include/cudnn_version.h").read_bytes() == b"#define CUDNN_MAJOR 8"
    assert sorted(path.stem for path in (tmp_path / "cuda/bin").iterdir()) == sorted(COMPONENTS)


def test_what_is_not_what_the_manifest_says_is_refused(redist: tuple[Path, str], tmp_path: Path) -> None:
    next(redist[0].rglob("libcufft-archive.zip")).write_bytes(b"PK something else")
    done = fetch(redist[1], tmp_path / "cuda")
    assert done.returncode != 0 and "not what its manifest says" in done.stderr


def test_a_release_the_archive_does_not_have(redist: tuple[Path, str], tmp_path: Path) -> None:
    for given in ({"cuda": "11.9.0"}, {"cudnn": "8.8.0"}):
        done = fetch(redist[1], tmp_path / "cuda", **given)
        assert done.returncode != 0 and "has no cu" in done.stderr, done
