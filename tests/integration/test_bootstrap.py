"""The set-up of ./rekindle: pinned packages by their digests; others are refused, missing ones told."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import subprocess
import sys
import venv
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


@pytest.fixture
def bootstrap(environment: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
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
    make_wheel(tmp_path / "links", "tiny", "1.0")
    make_wheel(tmp_path / "links", "tiny", "2.0")
    for name in ("REKINDLE_UNPINNED", "REKINDLE_PINNED"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_FIND_LINKS", (tmp_path / "links").as_uri())
    monkeypatch.setattr(module, "ROOT", project)
    monkeypatch.setattr(module, "PYTHON", environment)
    subprocess.run([environment, "-m", "pip", "uninstall", "-q", "-y", "own", "tiny"], check=True, capture_output=True)
    return module


def _pin(module: ModuleType, version: str, digest: str) -> None:
    (module.ROOT / "tools" / "locked" / "use.txt").write_text(f"tiny=={version} --hash=sha256:{digest}\n")


def _digest(tmp_path: Path, version: str) -> str:
    return hashlib.sha256((tmp_path / "links" / f"tiny-{version}-py3-none-any.whl").read_bytes()).hexdigest()


def _installed(module: ModuleType) -> str:
    words = "import importlib.metadata as m; print(*(d.name + d.version for d in m.distributions()))"
    done = subprocess.run([module.PYTHON, "-c", words], capture_output=True, text=True, check=True)
    return " ".join(name for name in sorted(done.stdout.split()) if name.startswith(("own", "tiny")))


def test_the_pinned_version_is_installed_not_the_newest(bootstrap: ModuleType, tmp_path: Path) -> None:
    _pin(bootstrap, "1.0", _digest(tmp_path, "1.0"))
    bootstrap.install(False)
    assert _installed(bootstrap) == "own1.0 tiny1.0"


def test_another_file_under_the_pinned_name_is_refused(
    bootstrap: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _pin(bootstrap, "1.0", "0" * 64)
    with pytest.raises(SystemExit) as end:
        bootstrap.install(False)
    said = capsys.readouterr().err
    assert end.value.code == 2 and "not the one that was pinned" in said and "tiny" in said
    assert _installed(bootstrap) == "", "and there is no going on without digests"


def test_a_pin_that_cannot_be_had_is_said_and_gone_without(
    bootstrap: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _pin(bootstrap, "9.9", "0" * 64)
    bootstrap.install(False)
    said = capsys.readouterr().err
    assert "tiny==9.9" in said and "going on without digests" in said
    assert _installed(bootstrap) == "own1.0 tiny2.0"
    monkeypatch.setenv("REKINDLE_PINNED", "1")
    with pytest.raises(SystemExit):
        bootstrap.install(False)
    assert "cannot be had here" in capsys.readouterr().err


def test_the_lists_fit_the_project() -> None:
    """Stale after a change in pyproject.toml: tools/refresh_locks.py."""
    done = subprocess.run(
        [sys.executable, ROOT / "tools" / "refresh_locks.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    for name in ("use.txt", "dev.txt"):
        lines = (ROOT / "tools" / "locked" / name).read_text().replace("\\\n", " ").splitlines()
        unpinned = [line for line in lines[1:] if "==" not in line or "--hash=sha256:" not in line]
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
