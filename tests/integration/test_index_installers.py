"""Real pip and real uv install from a wheelhouse: over HTTP and from the directory itself."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tiny_wheels import make_wheel

pytestmark = pytest.mark.integration

REKINDLE = [sys.executable, "-m", "rekindle"]


def _run(argv: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=120, **options)  # type: ignore[call-overload, no-any-return]


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("ein haus für räder")
    root = base / "house"
    wheels = [
        make_wheel(base, "tiny-dep", "1.0"),
        make_wheel(base, "tiny", "1.0", metadata="Requires-Dist: tiny-dep\n"),
        make_wheel(base, "tiny", "2.0", metadata="Requires-Dist: tiny-dep\n"),
        make_wheel(base, "tiny", "3.0", requires_python=">=4"),
        make_wheel(base, "tiny", "2.5"),
        make_wheel(base, "tiny", "2.0+cu114.1", metadata="Requires-Dist: tiny-dep\n"),
    ]
    assert _run([*REKINDLE, "index", "add", *map(str, wheels), "--root", str(root), "-q"]).returncode == 0
    assert _run([*REKINDLE, "index", "yank", wheels[4].name, "--reason", "wrong", "--root", str(root)]).returncode == 0
    assert _run([*REKINDLE, "index", "build", "--root", str(root), "-q"]).returncode == 0
    return root


@pytest.fixture(scope="module")
def url(house: Path) -> Iterator[str]:
    server = subprocess.Popen(
        [*REKINDLE, "index", "serve", "--root", str(house), "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    assert server.stderr is not None
    found = re.search(r"http://\S+", server.stderr.readline())
    assert found
    yield found[0]
    server.send_signal(2)
    assert server.wait(10) == 0


def _installed(target: Path) -> list[str]:
    return sorted(path.name.removesuffix(".dist-info") for path in target.glob("*.dist-info"))


def _pip(target: Path, index: str, *wanted: str) -> subprocess.CompletedProcess[str]:
    return _run(
        [
            sys.executable, "-m", "pip", "install", "--isolated", "--no-cache-dir", "--disable-pip-version-check", "-v",
            "--target", str(target), "--index-url", index, *wanted,
        ]
    )  # fmt: skip


def _uv(target: Path, index: str, *wanted: str) -> subprocess.CompletedProcess[str]:
    return _run(
        [
            sys.executable, "-m", "uv", "pip", "install", "--no-config", "--no-cache", "--python", sys.executable,
            "--target", str(target), "--default-index", index, *wanted,
        ]
    )  # fmt: skip


@pytest.mark.parametrize("installer", [_pip, _uv])
def test_the_newest_usable_version_with_its_dependency(installer: object, url: str, tmp_path: Path) -> None:
    done = installer(tmp_path / "t", f"{url}simple/", "tiny")  # type: ignore[operator]
    assert done.returncode == 0, done.stdout + done.stderr
    # 3.0 wants a Python nobody has, 2.5 is withdrawn; the local version is the newest 2.0.
    assert _installed(tmp_path / "t") == ["tiny-2.0+cu114.1", "tiny_dep-1.0"]


@pytest.mark.parametrize("installer", [_pip, _uv])
def test_a_withdrawn_version_only_if_pinned(installer: object, url: str, tmp_path: Path) -> None:
    done = installer(tmp_path / "t", f"{url}simple/", "tiny==2.5")  # type: ignore[operator]
    assert done.returncode == 0, done.stdout + done.stderr
    assert _installed(tmp_path / "t") == ["tiny-2.5"]


def test_pip_takes_the_metadata_without_the_wheel(url: str, tmp_path: Path) -> None:
    done = _run(
        [
            sys.executable, "-m", "pip", "install", "--isolated", "--no-cache-dir", "--dry-run", "-v",
            "--ignore-installed",
            "--index-url", f"{url}simple/", "tiny==1.0",
        ]
    )  # fmt: skip
    assert done.returncode == 0 and "tiny-1.0-py3-none-any.whl.metadata" in done.stdout + done.stderr


@pytest.mark.parametrize("installer", [_pip, _uv])
def test_from_the_directory_without_any_server(installer: object, house: Path, tmp_path: Path) -> None:
    done = installer(tmp_path / "t", (house / "simple").as_uri() + "/", "tiny==1.0")  # type: ignore[operator]
    if installer is _uv and done.returncode:
        # uv reads file:// indexes only as flat lists; the static site is for HTTP there.
        pytest.skip(f"this uv does not read a file:// index: {done.stderr.strip().splitlines()[-1][:100]}")
    assert done.returncode == 0, done.stdout + done.stderr
    assert _installed(tmp_path / "t") == ["tiny-1.0", "tiny_dep-1.0"]


@pytest.mark.parametrize("installer", [_pip, _uv])
def test_a_wheel_that_changed_after_the_build_is_refused(installer: object, tmp_path: Path) -> None:
    """The hash in the page protects the reader: swap the file behind it, and nobody installs it."""
    root = tmp_path / "house"
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    assert _run([*REKINDLE, "index", "add", str(wheel), "--root", str(root), "-q"]).returncode == 0
    assert _run([*REKINDLE, "index", "build", "--root", str(root), "-q"]).returncode == 0
    evil = make_wheel(tmp_path / "evil", "tiny", "1.0", files={"tiny/__init__.py": b"evil = True\n"})
    (root / "wheels" / "tiny" / wheel.name).write_bytes(evil.read_bytes())
    server = subprocess.Popen(
        [*REKINDLE, "index", "serve", "--root", str(root), "--port", "0"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert server.stderr is not None
        found = re.search(r"http://\S+", server.stderr.readline())
        assert found
        done = installer(tmp_path / "t", f"{found[0]}simple/", "tiny")  # type: ignore[operator]
    finally:
        server.send_signal(2)
        server.wait(10)
    assert done.returncode != 0 and "hash" in (done.stdout + done.stderr).lower()
    assert not (tmp_path / "t").exists() or not _installed(tmp_path / "t")


def test_a_plain_file_server_is_enough(house: Path, tmp_path: Path) -> None:
    """The site is static: any server that hands out files will do."""
    server = subprocess.Popen(
        [sys.executable, "-u", "-m", "http.server", "0", "--bind", "127.0.0.1", "--directory", str(house)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert server.stdout is not None
        port = re.search(r"port (\d+)", server.stdout.readline())
        assert port
        for number, installer in enumerate((_pip, _uv)):
            done = installer(tmp_path / str(number), f"http://127.0.0.1:{port[1]}/simple/", "tiny==2.0")
            assert done.returncode == 0, done.stdout + done.stderr
    finally:
        server.terminate()
        server.wait(10)


def test_a_list_of_links_is_enough(house: Path, url: str, tmp_path: Path) -> None:
    """``--find-links`` with a page of the site, and with the directory of the wheels."""
    pages = [word for name in ("tiny", "tiny-dep") for word in ("--find-links", f"{url}simple/{name}/")]
    folders = [word for name in ("tiny", "tiny-dep") for word in ("--find-links", str(house / "wheels" / name))]
    pip = [sys.executable, "-m", "pip", "install", "--isolated", "--no-cache-dir", "--no-index"]
    uv = [
        sys.executable,
        "-m",
        "uv",
        "pip",
        "install",
        "--no-config",
        "--no-cache",
        "--no-index",
        "--python",
        sys.executable,
    ]
    for number, (tool, links) in enumerate([(pip, pages), (uv, pages), (pip, folders), (uv, folders)]):
        target = tmp_path / str(number)
        done = _run([*tool, "--target", str(target), *links, "tiny==1.0"])
        assert done.returncode == 0, done.stdout + done.stderr
        assert _installed(target) == ["tiny-1.0", "tiny_dep-1.0"]


def test_html_and_json_say_the_same(url: str) -> None:
    def ask(kind: str) -> bytes:
        request = urllib.request.Request(
            f"{url}simple/tiny/", headers={"Accept": f"application/vnd.pypi.simple.v1+{kind}"}
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            assert kind in answer.headers["Content-Type"]
            return bytes(answer.read())

    listed = json.loads(ask("json"))["files"]
    links = re.findall(r'<a href="([^"#]+)#sha256=([0-9a-f]{64})"([^>]*)>([^<]+)</a>', ask("html").decode())
    assert [(file["url"], file["hashes"]["sha256"], file["filename"]) for file in listed] == [
        (href, sha256, name) for href, sha256, _, name in links
    ]
    assert [bool(file["yanked"]) for file in listed] == ["data-yanked" in more for _, _, more, _ in links]
    for key, name in (("requires-python", "data-requires-python"), ("core-metadata", "data-core-metadata")):
        assert [key in file for file in listed] == [name in more for _, _, more, _ in links]


def test_a_copy_installs_as_the_house_does(house: Path, tmp_path: Path) -> None:
    assert _run([*REKINDLE, "index", "sync", str(tmp_path / "srv"), "--root", str(house), "-q"]).returncode == 0
    done = _pip(tmp_path / "t", (tmp_path / "srv" / "simple").as_uri() + "/", "tiny==1.0")
    assert done.returncode == 0, done.stdout + done.stderr
    assert _installed(tmp_path / "t") == ["tiny-1.0", "tiny_dep-1.0"]
