"""A virtual environment: where its programs lie, how one is made, and what stands for one where Python has no venv.

Windows' embeddable Python has neither venv nor pip. It is some 20 MB in one folder, and its ``._pth`` file is all it
knows about paths, so a copy of it is an environment.
"""

from __future__ import annotations

import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from rekindle.errors import BadInput
from rekindle.interpreters.installer import InstallerRun
from rekindle.model.interpreter import Interpreter

_MOST_COPIED_BYTES = 512 << 20


def bin_of(folder: Path, *, windows: bool | None = None) -> Path:
    """The environment's programs (``bin`` or ``Scripts``); ``windows`` says for which system (default: this one)."""
    return folder / ("Scripts" if _is_windows(windows) else "bin")


def python_of(folder: Path, *, windows: bool | None = None) -> Path:
    """The environment's interpreter."""
    return bin_of(folder, windows=windows) / ("python.exe" if _is_windows(windows) else "python")


def _is_windows(given: bool | None) -> bool:
    return os.name == "nt" if given is None else given


def make_environment(
    python: str,
    folder: Path,
    run: Callable[[Sequence[str]], InstallerRun],
    *,
    uv: str | None = None,
    with_pip: bool = True,
) -> InstallerRun:
    """Make one of ``python`` in ``folder``; the last thing that was run, which says whether it is there.

    Debian's Python comes without ensurepip: then it gets none of its own, and our pip installs into it.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    if uv:
        return run([uv, "venv", "--no-progress", "--python", python, str(folder)])
    bare = [python, "-I", "-m", "venv", "--without-pip", str(folder)]
    made = run([python, "-I", "-m", "venv", str(folder)] if with_pip else bare)
    if made.ok or not with_pip:
        return made
    shutil.rmtree(folder, ignore_errors=True)
    return run(bare)


def is_embedded(interpreter: Interpreter) -> bool:
    """Is it the embeddable one: a zipped library, and no venv beside it?"""
    home = Path(interpreter.path).parent
    return interpreter.system == "win32" and _library(home, interpreter).is_file() and not (home / "Lib/venv").is_dir()


def copy_embedded(interpreter: Interpreter, folder: Path) -> tuple[Path, Path]:
    """(its interpreter, the folder that packages go into)."""
    home = Path(interpreter.path).parent
    size = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    if size > _MOST_COPIED_BYTES:
        raise BadInput(f"{home} holds {size >> 20} MiB; that is more than an embeddable Python", remedy="--python EXE")
    shutil.copytree(home, folder, ignore=shutil.ignore_patterns("*._pth", "__pycache__"))
    site = folder / "Lib" / "site-packages"
    site.mkdir(parents=True, exist_ok=True)
    library = _library(folder, interpreter)
    paths = (library.name, ".", r"Lib\site-packages", "import site")
    library.with_suffix("._pth").write_text("".join(f"{line}\n" for line in paths), encoding="utf-8")
    return folder / Path(interpreter.path).name, site


def our_pip_fills(interpreter: Interpreter) -> bool:
    """Can the pip that runs beside us fill a folder for that Python? Only one of its own kind."""
    return sys.platform == interpreter.system and sys.version_info[:2] == interpreter.release


def unpack_wheel(wheel: Path, site: Path, on_file: Callable[[int, str], None] = lambda done, name: None) -> None:
    """The wheel alone, as an installer lays it out; scripts and headers are left out. ``on_file`` hears of the bytes so
    far and of each file."""
    done = 0
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
                raise BadInput(f"{wheel.name} holds {info.filename!a}, which leads outside its folder")
            goal = site.joinpath(*parts)
            goal.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(info) as reading, goal.open("wb") as writing:
                shutil.copyfileobj(reading, writing, 1 << 20)
            done += info.file_size
            on_file(done, info.filename)


def _library(home: Path, interpreter: Interpreter) -> Path:
    return home / f"python{interpreter.release[0]}{interpreter.release[1]}.zip"
