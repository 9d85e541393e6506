"""The set-up of ./rekindle: pinned packages by their digests; others are refused, for missing ones the pinned version
before is tried, and nothing goes without digests unless a person says so. The index is a small one of our own that can
withhold files."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import os
import re
import subprocess
import sys
import tarfile
import threading
import venv
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import pytest

from tiny_wheels import make_wheel

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.integration
# A project that builds itself: no backend to fetch, and one dependency.
BACKEND = """
import zipfile
def get_requires_for_build_editable(settings=None): return []
def get_requires_for_build_wheel(settings=None): return []
def build_editable(folder, settings=None, metadata=None):
    name = "own-1.0-py3-none-any.whl"
    with zipfile.ZipFile(folder + "/" + name, "w") as out:
        out.writestr("own.py", "")
        about = "Metadata-Version: 2.1\\nName: own\\nVersion: 1.0\\nRequires-Dist: tiny\\n"
        out.writestr("own-1.0.dist-info/METADATA", about)
        out.writestr("own-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        out.writestr("own-1.0.dist-info/RECORD", "")
    return name
build_wheel = build_editable
"""


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("set up") / "venv"
    venv.create(folder, with_pip=True)
    return folder / "bin" / "python"


class Index:
    """A simple index (PEP 503) over a folder of files. ``unlisted`` are left off its pages, ``lost`` are listed and
    answer 404, ``swapped`` answer with another file's bytes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unlisted: set[str] = set()
        self.lost: set[str] = set()
        self.swapped: dict[str, str] = {}
        self.url = ""

    def answer(self, path: str) -> bytes | None:
        *_, kind, name = path.strip("/").split("/")
        if kind == "files":
            held = self.folder / self.swapped.get(name, name)
            return None if name in self.lost else held.read_bytes()
        files = sorted(file.name for file in self.folder.iterdir() if file.name.startswith(f"{name}-"))
        links = (f'<a href="/files/{file}">{file}</a>' for file in files if file not in self.unlisted)
        return f"<!DOCTYPE html><html><body>{''.join(links)}</body></html>".encode()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    for name in ("tiny", "other"):
        for version in ("1.0", "2.0"):
            make_wheel(tmp_path / "files", name, version)
    held = Index(tmp_path / "files")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = held.answer(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Type", "text/html" if "/simple/" in self.path else "application/octet-stream")
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        held.url = f"http://127.0.0.1:{server.server_address[1]}/simple"
        yield held
        server.shutdown()


@pytest.fixture
def bootstrap(environment: Path, index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("bootstrap_under_test", ROOT / "tools" / "bootstrap.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    project = tmp_path / "my clone"
    (project / "tools" / "locked").mkdir(parents=True)
    (project / "backend.py").write_text(BACKEND)
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
        '[project]\nname = "own"\nversion = "1.0"\ndynamic = ["dependencies"]\n'
    )
    for name in ("REKINDLE_UNPINNED", "REKINDLE_PINNED", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_INDEX_URL", index.url)
    monkeypatch.setenv("PIP_NO_CACHE_DIR", "1")
    monkeypatch.setenv("PIP_RETRIES", "0")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setattr(module, "ROOT", project)
    monkeypatch.setattr(module, "PYTHON", environment)
    gone = ("-m", "pip", "uninstall", "-q", "-y", "own", "tiny", "other")
    subprocess.run([environment, *gone], check=True, capture_output=True)
    return module


def _pin(module: ModuleType, *pins: str, older: tuple[str, ...] = ()) -> None:
    """Each pin is ``name version digest``."""
    for file, rows in (("use.txt", pins), ("older.txt", older)):
        words = (row.split() for row in rows)
        lines = (f"{name}=={version} \\\n    --hash=sha256:{digest}\n" for name, version, digest in words)
        (module.ROOT / "tools" / "locked" / file).write_text("# a list\n" + "".join(lines))


def _row(index: Index, name: str, version: str) -> str:
    file = index.folder / f"{name}-{version}-py3-none-any.whl"
    return f"{name} {version} {hashlib.sha256(file.read_bytes()).hexdigest()}"


def _installed(module: ModuleType) -> str:
    words = "import importlib.metadata as m; print(*(d.name + d.version for d in m.distributions()))"
    done = subprocess.run([module.PYTHON, "-c", words], capture_output=True, text=True, check=True)
    return " ".join(name for name in sorted(done.stdout.split()) if name.startswith(("other", "own", "tiny")))


def _refused(module: ModuleType, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as end:
        module.install(False)
    assert end.value.code == 2
    assert _installed(module) == "", "nothing goes in without its digest"
    return capsys.readouterr().err


def test_the_pinned_version_is_installed_not_the_newest(bootstrap: ModuleType, index: Index) -> None:
    _pin(bootstrap, _row(index, "tiny", "1.0"))
    bootstrap.install(False)
    assert _installed(bootstrap) == "own1.0 tiny1.0"


def test_another_file_under_the_pinned_name_is_refused(
    bootstrap: ModuleType, index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    _pin(bootstrap, f"tiny 1.0 {'0' * 64}", older=(_row(index, "tiny", "2.0"),))
    said = _refused(bootstrap, capsys)
    assert "not the one that was pinned" in said and "tiny" in said


@pytest.mark.parametrize("how", ["unlisted", "lost"])
def test_for_a_file_that_is_withheld_the_pinned_version_before_is_taken(
    bootstrap: ModuleType, index: Index, capsys: pytest.CaptureFixture[str], how: str
) -> None:
    _pin(bootstrap, _row(index, "tiny", "2.0"), _row(index, "other", "2.0"), older=(_row(index, "tiny", "1.0"),))
    getattr(index, how).add("tiny-2.0-py3-none-any.whl")
    bootstrap.install(False)
    said = capsys.readouterr().err
    assert "tiny" in said and "trying the version before" in said and "without digests" not in said
    assert _installed(bootstrap) == "other2.0 own1.0 tiny1.0"


def test_the_digests_of_all_others_are_kept(
    bootstrap: ModuleType, index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    """The attack: withhold one file, then serve what one likes for the others."""
    _pin(bootstrap, _row(index, "tiny", "2.0"), _row(index, "other", "2.0"), older=(_row(index, "tiny", "1.0"),))
    index.unlisted.add("tiny-2.0-py3-none-any.whl")
    index.swapped["other-2.0-py3-none-any.whl"] = "other-1.0-py3-none-any.whl"
    assert "not the one that was pinned" in _refused(bootstrap, capsys)


def test_the_version_before_must_have_its_digest_too(
    bootstrap: ModuleType, index: Index, capsys: pytest.CaptureFixture[str]
) -> None:
    _pin(bootstrap, _row(index, "tiny", "2.0"), older=(f"tiny 1.0 {'0' * 64}",))
    index.unlisted.add("tiny-2.0-py3-none-any.whl")
    assert "not the one that was pinned" in _refused(bootstrap, capsys)


def test_a_package_that_cannot_be_had_stops_and_names_the_switch(
    bootstrap: ModuleType, index: Index, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _pin(bootstrap, f"tiny 9.9 {'0' * 64}", _row(index, "other", "2.0"), older=(f"tiny 9.8 {'0' * 64}",))
    said = _refused(bootstrap, capsys)
    assert "tiny" in said and "REKINDLE_UNPINNED=1" in said
    monkeypatch.setenv("REKINDLE_UNPINNED", "1")
    bootstrap.install(False)
    assert "without pinned versions and digests" in capsys.readouterr().err
    assert _installed(bootstrap) == "own1.0 tiny2.0"


def test_a_source_archive_in_the_place_of_a_wheel_is_not_built(
    bootstrap: ModuleType, index: Index, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Building it would fetch its build tools from the index, and those have no digests."""
    setup = f"open({str(tmp_path / 'ran')!r}, 'w').close()\nraise SystemExit('built')\n"
    with tarfile.open(index.folder / "tiny-3.0.tar.gz", "w:gz") as archive:
        for name, text in (("setup.py", setup), ("PKG-INFO", "Metadata-Version: 2.1\nName: tiny\nVersion: 3.0\n")):
            member = tarfile.TarInfo(f"tiny-3.0/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    digest = hashlib.sha256((index.folder / "tiny-3.0.tar.gz").read_bytes()).hexdigest()
    _pin(bootstrap, f"tiny 3.0 {digest}")
    assert "REKINDLE_UNPINNED=1" in _refused(bootstrap, capsys)
    assert not (tmp_path / "ran").exists()


def test_every_package_that_users_get_has_a_version_before() -> None:
    spec = importlib.util.spec_from_file_location("bootstrap_of_the_lists", ROOT / "tools" / "bootstrap.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    use, older = (module.read_pins(ROOT / "tools" / "locked" / name) for name in ("use.txt", "older.txt"))
    noted = re.findall(r"(?m)^# (\S+) has no older version", (ROOT / "tools/locked/older.txt").read_text())
    assert set(use) - set(older) == set(use) & set(noted)
    assert len(set(use) - set(older)) <= 2, "more than that, and a mirror that lags breaks the first minute"
    assert not {line for lines in use.values() for line in lines} & {line for lines in older.values() for line in lines}


def test_the_lists_fit_the_project() -> None:
    """Stale after a change in pyproject.toml: tools/refresh_locks.py."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "refresh_locks.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for name in ("use.txt", "dev.txt", "older.txt"):
        lines = (ROOT / "tools" / "locked" / name).read_text().replace("\\\n", " ").splitlines()
        unpinned = [line for line in lines if line[0] != "#" and ("==" not in line or "--hash=sha256:" not in line)]
        assert unpinned == []


def test_the_audit_says_what_is_known_and_what_was_not_asked(capsys: pytest.CaptureFixture[str]) -> None:
    spec = importlib.util.spec_from_file_location("audit_under_test", ROOT / "tools" / "audit.py")
    assert spec is not None and spec.loader is not None
    audit = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(audit)
    hole = {"name": "jinja2", "version": "3.1.0", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1.6"]}]}
    clean = {"name": "rich", "version": "14", "vulns": []}
    unknown = {"name": "x", "skip_reason": "not found"}
    assert audit.judge({"dependencies": [hole, clean, unknown]}) == 1
    assert "jinja2 3.1.0: PYSEC-1, fixed in 3.1.6" in capsys.readouterr().out
    assert audit.judge({"dependencies": [clean, unknown]}) == 0
    assert "1 of 2 packages asked about, 0 known holes" in capsys.readouterr().out
    assert audit.judge({"dependencies": [unknown]}) == 0
    assert "skipped" in capsys.readouterr().out
