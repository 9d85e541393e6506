"""An environment from Windows' embeddable Python, which has neither venv nor pip: a copy of it with the wheel inside.

It is some 20 MB in one folder, and its ``._pth`` file is all it knows about paths, so a copy is an environment.
"""

from __future__ import annotations

import shutil
import sys
import zipfile
from pathlib import Path, PurePosixPath

from rekindle.errors import BadInput
from rekindle.model.interpreter import Interpreter

_MOST = 512 << 20


def is_embedded(interpreter: Interpreter) -> bool:
    """Is it the embeddable one: a zipped library, and no venv beside it?"""
    home = Path(interpreter.path).parent
    return interpreter.system == "win32" and _library(home, interpreter).is_file() and not (home / "Lib/venv").is_dir()


def copy_embedded(interpreter: Interpreter, folder: Path) -> tuple[Path, Path]:
    """(its interpreter, the folder that packages go into)."""
    home = Path(interpreter.path).parent
    size = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    if size > _MOST:
        raise BadInput(f"{home} holds {size >> 20} MiB; that is more than an embeddable Python", remedy="--python EXE")
    shutil.copytree(home, folder, ignore=shutil.ignore_patterns("*._pth", "__pycache__"))
    site = folder / "Lib" / "site-packages"
    site.mkdir(parents=True, exist_ok=True)
    library = _library(folder, interpreter)
    paths = (library.name, ".", r"Lib\site-packages", "import site")
    library.with_suffix("._pth").write_text("".join(f"{line}\n" for line in paths), encoding="utf-8")
    return folder / Path(interpreter.path).name, site


def own_pip_fits(interpreter: Interpreter) -> bool:
    """Can the pip that runs beside us fill a folder for that Python? Only one of its own kind."""
    return sys.platform == interpreter.system and sys.version_info[:2] == interpreter.release


def unpack_wheel(wheel: Path, site: Path) -> None:
    """The wheel alone, as an installer lays it out; scripts and headers are left out."""
    with zipfile.ZipFile(wheel) as archive:
        for info in archive.infolist():
            parts = PurePosixPath(info.filename.replace("\\", "/")).parts
            if info.is_dir() or not parts:
                continue
            if parts[0].endswith(".data"):
                if len(parts) < 3 or parts[1] not in ("purelib", "platlib"):
                    continue
                parts = parts[2:]
            if any(part in ("..", "/") or ":" in part for part in parts):
                raise BadInput(f"{wheel.name} holds {info.filename!a}, which leads out of its folder")
            goal = site.joinpath(*parts)
            goal.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as reading, goal.open("wb") as writing:
                shutil.copyfileobj(reading, writing, 1 << 20)


def _library(home: Path, interpreter: Interpreter) -> Path:
    return home / f"python{interpreter.release[0]}{interpreter.release[1]}.zip"
