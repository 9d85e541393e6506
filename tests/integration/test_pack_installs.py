"""Packs installed without a network: under ``unshare -n``, by wine's cmd, by a Windows Python under wine."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

import needs
from batch_world import NOTE, World
from rekindle.errors import NotReady, RekindleError
from rekindle.journey import pack as packing
from rekindle.journey.packed import pack_check
from rekindle.scripts.pack_install import SUMS
from small_disks import small_disk_at
from tiny_packs import make_pack, plan_for, shelf
from under_wine import MARKS, run_python, windows

pytestmark = pytest.mark.integration
ARCH = platform.machine()


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture(scope="module")
def windows_pack(links: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("windows") / "a pack"
    make_pack(plan_for("windows", "x86_64", "3.11"), links, out)
    return out


@needs.tool("unshare")
@pytest.mark.skipif(
    subprocess.run(["unshare", "-rn", "true"], capture_output=True).returncode != 0
    if shutil.which("unshare")
    else True,
    reason="no namespaces of one's own here",
)
def test_without_any_network(links: Path, tmp_path: Path) -> None:
    pack = tmp_path / "päck"
    make_pack(plan_for(arch=ARCH), links, pack)
    place = tmp_path / "env ü"
    env = {"PATH": os.environ["PATH"], "PYTHON": sys.executable, "HOME": str(tmp_path)}
    argv = ["unshare", "-rn", "sh", str(pack / "install.sh"), str(place)]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    code = "import torch, beside; print(torch.__version__)"
    found = subprocess.run([str(place / "bin/python"), "-c", code], capture_output=True, text=True)
    assert found.stdout.strip() == "1.0", found.stderr


def test_a_disk_that_really_fills_up(links: Path, tmp_path: Path) -> None:
    """First it is seen before anything is fetched; then, unseen, in the middle: it is said, and no pack lies there."""
    with small_disk_at(tmp_path / "disk", "1500k") as disk:
        with pytest.raises(NotReady, match="are free at"):
            make_pack(plan_for(arch=ARCH), links, disk / "pack")
        assert not (disk / "pack").exists()
        with (
            mock.patch.object(packing, "free_bytes", lambda place: None),
            pytest.raises((OSError, RekindleError)) as full,
        ):
            make_pack(plan_for(arch=ARCH), links, disk / "pack")
        assert "No space left" in str(full.value) or "full" in str(full.value)
        assert not pack_check(disk / "pack").good and not (disk / "pack" / SUMS).exists()
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        make_pack(plan_for(arch=ARCH), links, disk / "pack")
        assert pack_check(disk / "pack").good and not list(disk.rglob("*.part"))


@needs.tool("wine")
@pytest.mark.flaky(reruns=1)
class TestBatchFile:
    """The script by a real cmd, with a stand-in Python that notes how it was called."""

    PYTHON = (
        'set "CODE=%~3"\r\n'
        'if "%CODE:~0,10%"=="import sys" exit /b {version}\r\n'
        'if "%CODE:~0,14%"=="import hashlib" exit /b {sum}\r\n'
    )

    def run(
        self, pack: Path, folder: Path, *, version: int = 0, sum: int = 0, code: int = 0
    ) -> tuple[int, str, list[str]]:
        world = World(folder)
        for name in ("install.bat", "install.py"):
            shutil.copy(pack / name, world.folder / name)
        body = NOTE.format(name="python") + self.PYTHON.format(version=version, sum=sum) + f"exit /b {code}\r\n"
        (world.tools / "python.bat").write_bytes(body.encode())
        script = world.folder / "go.bat"
        script.write_bytes(b'@call "%~dp0install.bat" "C:\\a b"\r\n@exit /b %ERRORLEVEL%\r\n')
        return world.run_file(script)

    def test_it_hands_on_to_the_program(self, windows_pack: Path, tmp_path: Path) -> None:
        code, text, calls = self.run(windows_pack, tmp_path / "a place")
        assert code == 0, text
        assert "install.py" in calls[-1] and '"C:\\a b"' in calls[-1], calls

    def test_no_python(self, windows_pack: Path, tmp_path: Path) -> None:
        code, text, calls = self.run(windows_pack, tmp_path / "b", version=1)
        assert code != 0 and "there is no Python 3.11 here" in text
        assert not any("install.py" in call for call in calls)

    def test_a_changed_program_is_not_started(self, windows_pack: Path, tmp_path: Path) -> None:
        code, text, calls = self.run(windows_pack, tmp_path / "c", sum=1)
        assert code != 0 and "install.py was changed" in text
        assert "sha256" in calls[-1]

    def test_its_answer_is_handed_back(self, windows_pack: Path, tmp_path: Path) -> None:
        assert self.run(windows_pack, tmp_path / "d", code=1)[0] != 0


@MARKS[1]
@MARKS[2]
@MARKS[3]
def test_by_a_windows_python(windows_pack: Path, tmp_path: Path) -> None:
    place = tmp_path / "into"
    code, text = run_python(windows(windows_pack / "install.py"), windows(place), limit=300)
    assert code == 0, text
    assert (place / "Lib" / "site-packages" / "torch" / "__init__.py").is_file()
    assert (place / "Lib" / "site-packages" / "on_windows").is_dir()
    copy = tmp_path / "copy"
    shutil.copytree(windows_pack, copy)
    wheel = next((copy / "wheels").glob("torch-*"))
    raw = bytearray(wheel.read_bytes())
    raw[len(raw) // 2] ^= 1
    wheel.write_bytes(raw)
    code, text = run_python(windows(copy / "install.py"), windows(tmp_path / "never"), limit=300)
    assert code == 2 and "was changed" in text and not (tmp_path / "never").exists(), text
