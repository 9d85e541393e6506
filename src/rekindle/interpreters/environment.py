"""A virtual environment: where its programs lie, how one is made, what stands for one where Python has no venv, and the
one that a build gets.

Windows' embeddable Python has neither venv nor pip, and its ``._pth`` file is all it knows about paths: a copy of its
folder (some 20 MB) is an environment. That of a build holds the plan's pins, is made once per interpreter and kept in
the workspace; a stamp of what was installed says whether it is complete, so a run that was cut short simply goes on.
"""

import functools
import hashlib
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rekindle.errors import BadInput, StageFailed
from rekindle.host.files import write_atomically
from rekindle.host.protocol import Host
from rekindle.interpreters.installer import InstallerRun, pip_of, run_installer
from rekindle.interpreters.packages import ask_contents
from rekindle.model.interpreter import Interpreter
from rekindle.model.version import pin_requirement

_MOST_COPIED_BYTES = 512 << 20
_ALWAYS = ("setuptools", "wheel")
# With --upgrade: the setuptools that venv brings along would satisfy any upper bound and is too old for new trees.
_QUIETLY = ("--disable-pip-version-check", "--no-input", "--prefer-binary")


def bin_of(folder: Path, *, windows: bool = os.name == "nt") -> Path:
    """The environment's programs (``bin`` or ``Scripts``); ``windows`` says for which system (default: this one)."""
    return folder / ("Scripts" if windows else "bin")


def python_of(folder: Path, *, windows: bool = os.name == "nt") -> Path:
    """The environment's interpreter."""
    return bin_of(folder, windows=windows) / ("python.exe" if windows else "python")


def make_environment(
    python: str, folder: Path, run: Callable[[list[str]], InstallerRun], *, uv: str | None = None, with_pip: bool = True
) -> InstallerRun:
    """Make one of ``python`` in ``folder``; the last command's run says whether that worked. Where Python comes without
    ensurepip (Debian's), it gets no pip of its own, and ours installs into it."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    if uv:
        return run([uv, "venv", "--no-progress", "--python", python, str(folder)])
    make = [python, "-I", "-m", "venv"]
    if with_pip:
        if (attempt := run([*make, str(folder)])).ok:
            return attempt
        shutil.rmtree(folder, ignore_errors=True)
    return run([*make, "--without-pip", str(folder)])


def is_embedded(interpreter: Interpreter) -> bool:
    """Is it the embeddable one: a zipped library, and no venv beside it?"""
    home = Path(interpreter.path).parent
    return interpreter.system == "win32" and _lib_zip(home, interpreter).is_file() and not (home / "Lib/venv").is_dir()


def copy_embedded(interpreter: Interpreter, folder: Path) -> tuple[Path, Path]:
    """(its interpreter, the folder that packages go into)."""
    home = Path(interpreter.path).parent
    size = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
    if size > _MOST_COPIED_BYTES:
        raise BadInput(f"{home} holds {size >> 20} MiB; that is more than an embeddable Python", remedy="--python EXE")
    shutil.copytree(home, folder, ignore=shutil.ignore_patterns("*._pth", "__pycache__"))
    site = folder / "Lib" / "site-packages"
    site.mkdir(parents=True, exist_ok=True)
    library = _lib_zip(folder, interpreter)
    paths = (library.name, ".", r"Lib\site-packages", "import site")
    library.with_suffix("._pth").write_text("".join(f"{line}\n" for line in paths), encoding="utf-8")
    return folder / Path(interpreter.path).name, site


def our_pip_fills(interpreter: Interpreter) -> bool:
    """Can the pip that runs beside us fill a folder for that Python? Only one of its own kind."""
    return sys.platform == interpreter.system and sys.version_info[:2] == interpreter.release


def unpack_wheel(wheel: Path, site: Path, on_file: Callable[[int, str], None] = lambda done, name: None) -> None:
    """The wheel as installers lay it out, without scripts and headers; ``on_file`` hears of bytes so far and files."""
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
                shutil.copyfileobj(reading, writing)
            done += info.file_size
            on_file(done, info.filename)


def _lib_zip(home: Path, interpreter: Interpreter) -> Path:
    return home / f"python{interpreter.release[0]}{interpreter.release[1]}.zip"


@dataclass(frozen=True, kw_only=True)
class TargetPython:
    """The environment that builds; ``interpreter`` is what it was made of."""

    interpreter: Interpreter
    python: str

    @property
    def bin(self) -> Path:
        """Where its programs lie."""
        return Path(self.python).parent


def requirements(pins: Mapping[str, str], tree_requires: Sequence[str], *, pep517: bool) -> tuple[str, ...]:
    """What the build environment needs, the plan's pins winning over the tree's own wishes."""
    by_name: dict[str, str] = {name: name for name in (*_ALWAYS, *["build"] * pep517)}
    for requirement in tree_requires:
        try:
            by_name[canonicalize_name(Requirement(requirement).name)] = requirement
        except InvalidRequirement as error:
            raise BadInput(f"the tree requires {requirement!r}, which is no requirement") from error
    for name, pin in pins.items():
        by_name[canonicalize_name(name)] = pin_requirement(name, pin)
    return tuple(by_name[name] for name in sorted(by_name) if name not in ("python", "ninja"))


def take_as_is(host: Host, interpreter: Interpreter, packages: Sequence[str]) -> TargetPython:
    """The interpreter with the packages it already has: nothing is installed, so no index is needed."""
    versions = ask_contents(host, interpreter.path).versions
    has = {wish: versions.get(canonicalize_name(wish.name)) for wish in map(Requirement, packages)}
    lacking = [str(wish) for wish, version in has.items() if not version or not wish.specifier.contains(version, True)]
    if lacking:
        text = f"Python {interpreter.version} at {interpreter.path} lacks {', '.join(lacking)}"
        raise BadInput(text, remedy=f"{interpreter.path} -m pip install {' '.join(lacking)}")
    return TargetPython(interpreter=interpreter, python=interpreter.path)


def prepare_target(
    host: Host, interpreter: Interpreter, folder: Path, packages: Sequence[str], say: Callable[[str], None]
) -> TargetPython:
    """Make or complete the environment in ``folder``."""
    python, stamp = python_of(folder), folder / "rekindle-ready"
    digest = hashlib.sha256("\n".join([interpreter.path, interpreter.version, *packages]).encode()).hexdigest()
    ready = TargetPython(interpreter=interpreter, python=str(python))
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest and python.exists():
        return ready
    # pip leaves a wheel of the same version as it is, whatever is in the file that it is given.
    if folder.exists() and (not stamp.is_file() or any(" @ " in package for package in packages)):
        shutil.rmtree(folder, ignore_errors=True)
    run = functools.partial(run_installer, cwd=folder.parent, env=host.env, on_line=say)
    if not python.exists() and not (venv_run := make_environment(interpreter.path, folder, run)).ok:
        text = f"cannot make an environment for Python {interpreter.version}: {venv_run.reason}"
        raise StageFailed(text, remedy=venv_run.remedy or "install its venv module (python3-venv)")
    done = run([*pip_of(host, str(python)), "install", "--upgrade", *_QUIETLY, *packages])
    if not done.ok:
        text = f"cannot install {' '.join(packages)} for Python {interpreter.version}: {done.reason}"
        raise StageFailed(text, remedy=done.remedy or "see the log; behind a proxy or mirror set PIP_INDEX_URL")
    write_atomically(stamp, digest)
    return ready
