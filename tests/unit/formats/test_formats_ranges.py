"""Remote wheels: parts of a file, servers that send none, answers that break off, pages of an index."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from binaries import make_elf, make_entry, make_fatbin, make_wheel
from rekindle.errors import BadInput
from rekindle.formats.ranges import NoRanges, RangeFile, Unreachable, request
from rekindle.formats.simple_index import choose_wheels, read_project_page, wheels_of
from rekindle.formats.wheel import WheelZip
from rekindle.inspect.published import Places, find_wheels, open_wheel
from rekindle.inspect.survey import inspect_source
from rekindle.model.progress import Silent

NAME = "demo-1.0-cp311-cp311-linux_x86_64.whl"


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serves a folder; ``mode`` says how well."""

    mode = "ranges"
    log: list[str] = []

    def log_message(self, *_: object) -> None: ...

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file() or "Range" not in self.headers or self.mode == "whole":
            super().do_GET()
            return
        data = path.read_bytes()
        low, _, high = self.headers["Range"].removeprefix("bytes=").partition("-")
        start = int(low) if low else max(0, len(data) - int(high))
        stop = min(int(high) + 1 if low and high else len(data), len(data))
        self.log.append(self.headers["Range"])
        piece = data[start:stop]
        self.send_response(206)
        self.send_header(
            "Content-Range", f"bytes {start}-{stop - 1}/{len(data)}" if self.mode != "liar" else "bytes x/y"
        )
        self.send_header("Content-Length", str(len(piece)))
        self.end_headers()
        self.wfile.write(piece[: len(piece) // 2] if self.mode == "short" else piece)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("rekindle.formats.ranges.time.sleep", lambda _: None)
    Handler.mode, Handler.log = "ranges", []
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path))) as http_server:
        threading.Thread(target=http_server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{http_server.server_port}", tmp_path
        http_server.shutdown()


def wheel(folder: Path, padding: int = 0) -> Path:
    import random

    library = make_elf({".nv_fatbin": make_fatbin([make_entry(2, 86)])})
    noise = random.Random(1).randbytes(padding)
    path = folder / NAME
    path.write_bytes(make_wheel({"demo/big.bin": noise, "demo/k.so": library}))
    return path


def test_only_what_is_needed_is_read(server: tuple[str, Path]) -> None:
    url, folder = server
    path = wheel(folder, padding=4 << 20)
    remote = RangeFile(f"{url}/{NAME}")
    archive = WheelZip(remote.stream, NAME)
    assert archive.read("demo/k.so")[:4] == b"\x7fELF"
    assert remote.length == path.stat().st_size
    assert remote.fetched < path.stat().st_size / 10


@pytest.mark.parametrize("mode", ["whole", "liar"])
def test_no_ranges(server: tuple[str, Path], mode: str) -> None:
    url, folder = server
    wheel(folder)
    Handler.mode = mode
    with pytest.raises(NoRanges):
        RangeFile(f"{url}/{NAME}")


def test_a_server_without_ranges_gets_the_slower_way(server: tuple[str, Path], tmp_path: Path) -> None:
    url, folder = server
    wheel(folder)
    (folder / "simple" / "demo").mkdir(parents=True)
    (folder / "simple" / "demo" / "index.html").write_text(f'<a href="../../{NAME}#sha256=x">{NAME}</a>')
    Handler.mode = "whole"
    places = Places(indexes=(f"{url}/simple",))
    [found] = find_wheels("demo==1.0", places, python="3.11", platform="linux_x86_64")
    down = tmp_path / "down"
    down.mkdir()
    source = open_wheel(found, places, progress=Silent(), folder=down)
    report = inspect_source(source, progress=Silent())
    assert report.gpu.libraries[0].sass == ("sm_86",)


def test_an_answer_that_breaks_off(server: tuple[str, Path]) -> None:
    url, folder = server
    wheel(folder)
    Handler.mode = "short"
    with pytest.raises(Unreachable, match="breaks off"):
        RangeFile(f"{url}/{NAME}", timeout=2)


def test_missing_and_foreign_addresses(server: tuple[str, Path]) -> None:
    url, _ = server
    with pytest.raises(Unreachable, match="404"):
        RangeFile(f"{url}/nothing.whl")
    with pytest.raises(BadInput, match="neither"):
        request("ftp://x/y", {}, None, 1)


HTML = b"""<!DOCTYPE html><html><body>
<a href="../../packages/torch-2.6.0-cp311-cp311-manylinux1_x86_64.whl#sha256=1">torch</a>
<a href="torch-2.6.0-cp311-cp311-win_amd64.whl" data-yanked="bad">t</a>
<a href="https://other/torch-2.7.0rc1-cp311-cp311-manylinux_2_28_x86_64.whl">t</a>
<a href="torch-2.5.0-cp312-cp312-manylinux1_x86_64.whl">t</a>
<a href="not-a-wheel.tar.gz">t</a> <a href="odd-name.whl">t</a></body></html>"""


def test_project_pages() -> None:
    files = read_project_page(HTML, "https://index/simple/torch/")
    wheels = wheels_of(files, "torch")
    assert [str(w.version) for w in wheels] == ["2.7.0rc1", "2.6.0", "2.6.0", "2.5.0"]
    [best] = choose_wheels(wheels, "==2.6.0", python="3.11", platform="manylinux1_x86_64")
    assert best.file.url == "https://index/packages/torch-2.6.0-cp311-cp311-manylinux1_x86_64.whl"
    assert choose_wheels(wheels, "", python="3.11", platform="linux_x86_64")[0].version.base_version == "2.6.0"
    assert choose_wheels(wheels, "==2.6.0", python="3.13", platform=None) == []
    page = b'{"files": [{"filename": "torch-1.0-py3-none-any.whl", "url": "a.whl", "yanked": false}]}'
    assert read_project_page(page, "https://i/simple/torch/")[0].url == "https://i/simple/torch/a.whl"
    with pytest.raises(BadInput):
        read_project_page(b'{"nothing": 1}', "https://i/")


def test_a_name_nobody_has(server: tuple[str, Path]) -> None:
    url, _ = server
    with pytest.raises(BadInput):
        find_wheels("demo==9", Places(indexes=(f"{url}/simple",)))


class Steps(Silent):
    """Remembers how far each step said it was."""

    def __init__(self) -> None:
        self.heard: list[tuple[float, float | None, str]] = []

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        self.heard.append((done, total, detail))


def test_a_whole_download_says_how_far_it_is(server: tuple[str, Path], tmp_path: Path) -> None:
    address, folder = server
    size = wheel(folder, 3 << 20).stat().st_size
    (folder / "links.html").write_text(f'<a href="{NAME}">x</a>', encoding="utf-8")
    places = Places(links=(f"{address}/links.html", "ftp://nowhere/links.html"))
    [found] = find_wheels("demo", places, python="3.11", platform="linux_x86_64")
    parts = open_wheel(found, places, progress=Silent())
    assert (parts.label, parts.size) == (NAME, size)
    assert parts.fetched is not None
    assert 0 < parts.fetched() < size
    Handler.mode = "whole"
    with pytest.raises(NoRanges):
        open_wheel(found, places, progress=Silent())
    down, steps = tmp_path / "down", Steps()
    down.mkdir()
    source = open_wheel(found, places, progress=steps, folder=down)
    assert [total for _, total, _ in steps.heard] == [size] * len(steps.heard)
    assert steps.heard[-1][:2] == (size, size)
    assert source.fetched is not None
    assert source.fetched() == size
    assert (down / NAME).read_bytes() == (folder / NAME).read_bytes()
