"""The two commands and the package, as a newcomer meets them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import needs

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.integration, pytest.mark.skipif(os.name == "nt", reason="shell launchers")]


def copy_of_the_launchers(folder: Path) -> Path:
    """Enough of a clone to start: what ./rekindle reads before there is an environment."""
    for name in (
        "rekindle",
        "check",
        "pyproject.toml",
        "tools/launch.sh",
        "tools/bootstrap.py",
        "tools/locked/use.txt",
    ):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)
    return folder


def start(folder: Path, *, path: str | None = None, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": path or os.environ["PATH"], "HOME": str(folder), **env}
    return subprocess.run(
        ["/bin/sh", str(folder / "rekindle"), "--version"], env=environment, capture_output=True, text=True, timeout=300
    )


def test_no_python_is_one_line_with_the_command(tmp_path: Path) -> None:
    bare = tmp_path / "bin"
    bare.mkdir()
    for tool in ("sh", "dirname", "cmp"):
        (bare / tool).symlink_to(shutil.which(tool) or "")
    done = start(copy_of_the_launchers(tmp_path / "clone"), path=str(bare))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1 and "apt install python3" in done.stderr


def test_no_venv_module_is_one_line_with_the_command(tmp_path: Path) -> None:
    # Debian's python3 without python3-venv: ensurepip cannot be imported.
    (tmp_path / "ensurepip.py").write_text("raise ImportError('No module named ensurepip')\n")
    done = start(copy_of_the_launchers(tmp_path / "my clone"), PYTHONPATH=str(tmp_path), REKINDLE_PYTHON=sys.executable)
    assert done.returncode == 2
    assert done.stderr.count("\n") <= 2 and "-venv" in done.stderr and "Traceback" not in done.stderr


def test_no_index_is_one_line_and_the_next_try_begins_again(tmp_path: Path) -> None:
    clone = copy_of_the_launchers(tmp_path / "clone")
    nowhere = {"PIP_NO_INDEX": "1", "PIP_CONFIG_FILE": os.devnull, "REKINDLE_PYTHON": sys.executable}
    for _ in range(2):
        done = start(clone, **nowhere)
        assert done.returncode == 2
        assert "cannot install" in done.stderr and "Traceback" not in done.stderr


@needs.tool("wine")
def test_on_windows_no_python_is_one_line_with_the_command(tmp_path: Path) -> None:
    clone = tmp_path / "my clone"
    clone.mkdir()
    shutil.copy2(ROOT / "rekindle.cmd", clone)
    env = {**os.environ, "WINEPREFIX": str(tmp_path / "prefix"), "WINEDEBUG": "-all"}
    script = "Z:" + str(clone / "rekindle.cmd").replace("/", "\\")
    done = subprocess.run(["wine", "cmd", "/c", script, "--version"], env=env, capture_output=True, timeout=300)
    assert done.returncode != 0
    assert b"winget install Python" in done.stderr + done.stdout


@needs.tool("git")
def test_the_wheel_brings_all_its_data(tmp_path: Path) -> None:
    """What lies beside the code (tables, rules, patches, templates, spark) must be in the package too."""
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, ROOT]
        if _has_backend()
        else [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("rekindle_torch-*.whl")
    inside = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("rekindle/")}
    listed = subprocess.run(["git", "ls-files", "-z", "src/rekindle"], cwd=ROOT, capture_output=True, check=True)
    tracked = {name.removeprefix("src/") for name in listed.stdout.decode().split("\0") if name}
    assert tracked - inside - {name for name in tracked if name.endswith(".gitignore")} == set()


def _has_backend() -> bool:
    import importlib.util

    return importlib.util.find_spec("hatchling") is not None
