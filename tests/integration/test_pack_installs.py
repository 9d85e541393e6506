"""Packs installed without a network: under ``unshare -n``, by wine's cmd, by a Windows Python under wine."""

from __future__ import annotations

import hashlib
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
from rekindle.journey.pack_folder import pack_check
from rekindle.model.pack import PackOptions
from rekindle.model.plan import Wish
from rekindle.plan.describe import machine_from_flags
from rekindle.scripts.pack_install import SUMS
from small_disks import small_disk_at
from tiny_packs import make_pack, pip_wheel, plan_for, shelf
from tiny_wheels import make_wheel
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


# As the index of torch and its wheels for Windows say it (torch 2.7.0+cu126, METADATA shortened to what is resolved).
OFFICIAL = {
    ("torch", "2.7.0+cu126", "cp312-cp312-win_amd64"): """Requires-Dist: filelock
Requires-Dist: typing-extensions>=4.10.0
Requires-Dist: setuptools; python_version >= "3.12"
Requires-Dist: sympy>=1.13.3
Requires-Dist: networkx
Requires-Dist: jinja2
Requires-Dist: fsspec
Requires-Dist: opt-einsum>=3.3; extra == "opt-einsum"
Provides-Extra: opt-einsum
""",
    ("torchvision", "0.22.0+cu126", "cp312-cp312-win_amd64"): """Requires-Dist: numpy
Requires-Dist: torch==2.7.0+cu126
Requires-Dist: pillow!=8.3.*,>=5.3.0
""",
    ("torchaudio", "2.7.0+cu126", "cp312-cp312-win_amd64"): "Requires-Dist: torch==2.7.0+cu126\n",
    ("jinja2", "3.1.4", "py3-none-any"): "Requires-Dist: MarkupSafe>=2.0\n",
    ("sympy", "1.13.3", "py3-none-any"): "Requires-Dist: mpmath<1.4,>=1.1.0\n",
    ("typing_extensions", "4.12.2", "py3-none-any"): "",
    ("numpy", "2.1.2", "cp312-cp312-win_amd64"): "",
    ("mpmath", "1.3.0", "py3-none-any"): "",
    **{
        (name, "11.0", "py3-none-any"): ""
        for name in ("filelock", "setuptools", "networkx", "fsspec", "markupsafe", "pillow")
    },
}
OF_PIP = {
    ("xformers", "0.0.30", "cp312-cp312-win_amd64"): "Requires-Dist: torch==2.7.0\nRequires-Dist: numpy\n",
    ("torch", "2.7.0", "cp312-cp312-win_amd64"): "",
    ("numpy", "2.2.6", "cp312-cp312-win_amd64"): "",
}


def recorded_index(folder: Path, wheels: dict[tuple[str, str, str], str]) -> str:
    """Pages of links with digests, a plus in a version written as the official index writes it."""
    for (name, version, tag), metadata in wheels.items():
        made = make_wheel(folder / "files", name, version, tag=tag, metadata=metadata)
        digest = hashlib.sha256(made.read_bytes()).hexdigest()
        page = folder / name.replace("_", "-") / "index.html"
        page.parent.mkdir(exist_ok=True)
        link = f"../files/{made.name.replace('+', '%2B')}#sha256={digest}"
        page.write_text(f'<!DOCTYPE html><html><body><a href="{link}">{made.name}</a><br/></body></html>')
    return folder.as_uri()


def test_a_windows_machine_with_a_gtx_1080(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first example of the guide, against a recorded index: which files go in, by whose say."""
    official = recorded_index(tmp_path / "cu126", OFFICIAL)
    own = recorded_index(tmp_path / "pypi", OF_PIP)
    pip_wheel(tmp_path / "pypi" / "files")
    pip = next((tmp_path / "pypi/files").glob("pip-*"))
    (tmp_path / "pypi/pip").mkdir()
    (tmp_path / "pypi/pip/index.html").write_text(f'<a href="../files/{pip.name}">{pip.name}</a>')
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", own)
    target = machine_from_flags(gpu=["GTX 1080"], os="windows", python="3.12")
    options = PackOptions(out=tmp_path / "pack", index=official, python_too=False)
    made = packing.pack(target, Wish(companions=("xformers",), python="3.12"), options)
    chosen = {package.name: package.version for package in made.packages}
    assert (made.torch, made.variant, made.system, made.arch) == ("2.7.0", "cu126", "windows", "x86_64")
    assert chosen["torch"] == "2.7.0+cu126" and chosen["xformers"] == "0.0.30", "not the torch that xformers' index has"
    assert {"torchvision", "torchaudio", "numpy", "setuptools", "markupsafe", "mpmath", "pip"} <= set(chosen)
    assert "opt-einsum" not in chosen and not made.left_out
    assert pack_check(tmp_path / "pack").good
    assert "install.bat" in {path.name for path in (tmp_path / "pack").iterdir()}
    readme = (tmp_path / "pack/README.txt").read_text("utf-8")
    assert "windows on x86_64, Python 3.12" in readme and "driver" in readme
