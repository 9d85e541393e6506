"""A root file system for another kind of machine with a Python in it, assembled from Debian packages and kept.

apt does the work, in a private state directory, from the sources this machine already uses; nothing is installed and
nothing needs root. A wheel for Python 3.10 proves nothing under Python 3.11, so the emulated system gets the wheel's
Python: the root's own, one the user has, one from apt, or one uv brings.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rekindle.emulate.qemu import X86, EmulatedMachine, Emulator
from rekindle.errors import BadInput, MissingTool, RekindleError, Unprepared
from rekindle.host.live import question_text, read_answer
from rekindle.host.protocol import Host
from rekindle.host.sandbox import parts_of
from rekindle.model.interpreter import read_interpreter
from rekindle.model.machine import cpu_arch
from rekindle.model.progress import Progress

# libgomp and libstdc++ are what a manylinux wheel may expect of the system besides glibc.
PACKAGES = ("libgomp1", "libstdc++6")
DOWNLOAD_SECONDS = 900.0
COMPLETE = ".rekindle-root"
COMPILE_SECONDS = 1200.0
FETCH_SECONDS = 900.0
PROBE_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class EmulatedPython:
    """An interpreter of version ``version``, such as (3, 11). ``home`` is set where it must be told where its library
    lies (Debian's, unpacked elsewhere); ``root`` is None where this machine itself is of that kind."""

    path: Path
    version: tuple[int, int]
    home: Path | None = None
    root: Path | None = None

    def places(self) -> list[Path]:
        """What a sandbox has to show for it to start."""
        root, home = [self.root] if self.root else [], parts_of(self.home) if self.home else []
        return [*root, *parts_of(self.path.parent.parent), *home]


def prepare_root(
    host: Host, cache: Path, progress: Progress, version: tuple[int, int] | None = None, emulated: EmulatedMachine = X86
) -> EmulatedPython:
    """The Python of the cached root, which is made first where there is none. Two runs at once: the second waits.
    ``version`` asks for a Python beside the distribution's own, where apt offers one."""
    import filelock

    number = "{}.{}".format(*version) if version else ""
    name = f"{emulated.debian}-root" + (f"-{number}" if number else "")
    folder = cache / name
    if (python := _read_root(folder)) is not None:
        return python
    if lacking := [tool for tool in ("apt-get", "dpkg-deb") if host.which(tool) is None]:
        remedy = f"run this on Debian or Ubuntu, or on a machine with {emulated.words}, where no root is needed"
        text = f"the root for {emulated.words} is assembled with {lacking[0]}, which this machine lacks"
        raise MissingTool(text, remedy=remedy)
    cache.mkdir(parents=True, exist_ok=True)
    with filelock.FileLock(cache / f"{name}.lock"):
        if (python := _read_root(folder)) is not None:
            return python
        progress.stage(f"{emulated.words} root", "from Debian packages, once (about 18 MB)")
        with tempfile.TemporaryDirectory(prefix="root-", dir=cache, ignore_cleanup_errors=True) as place:
            work = Path(place)
            debs = _download_packages(host, work, f"python{number or 3}", emulated)
            staging = work / "root"
            for done, deb in enumerate(debs):
                progress.step(done, len(debs), deb.name)
                _run_tool(host, ["dpkg-deb", "-x", str(deb), str(staging)], timeout=120.0)
            _repair_links(staging, emulated)
            if (python := _find_python(staging)) is not None:
                progress.note("compiling its Python library")
                compile_ahead(host, staging / "usr/lib" / f"python3.{python.version[1]}", python.version)
            (staging / COMPLETE).write_text(f"{len(debs)}\n", encoding="utf-8")
            shutil.rmtree(folder, ignore_errors=True)
            # Renamed only when complete: a kill leaves the old root or none.
            staging.rename(folder)
    if (python := _read_root(folder)) is None:
        raise Unprepared(["apt-get"], 0, ["the packages it brought hold no Python"])
    return python


def _read_root(folder: Path) -> EmulatedPython | None:
    return _find_python(folder) if (folder / COMPLETE).is_file() else None


def _find_python(root: Path) -> EmulatedPython | None:
    for path in sorted((root / "usr/bin").glob("python3.*")):
        if (minor := path.name.removeprefix("python3.")).isdigit():
            return EmulatedPython(path=path, version=(3, int(minor)), home=root / "usr", root=root)
    return None


def _download_packages(host: Host, work: Path, python: str, emulated: EmulatedMachine) -> list[Path]:
    """The packages and all they depend on, as apt resolves it on an empty system of that kind."""
    state, archive = work / "state", work / "cache"
    (state / "lists" / "partial").mkdir(parents=True)
    (archive / "archives" / "partial").mkdir(parents=True)
    (state / "status").touch()
    config = work / "apt.conf"
    text = Path(__file__).with_name("apt.conf").read_text(encoding="utf-8")
    for mark, value in {"@ARCH@": emulated.debian, "@STATE@": state, "@CACHE@": archive, "@LOG@": work}.items():
        text = text.replace(mark, str(value))
    config.write_text(text, encoding="utf-8")
    env = {"APT_CONFIG": str(config), "DEBIAN_FRONTEND": "noninteractive"}
    for words in (["update"], ["-y", "install", "--download-only", python, *PACKAGES]):
        _run_tool(host, ["apt-get", "-q", *words], env=env, timeout=DOWNLOAD_SECONDS)
    if not (debs := sorted((archive / "archives").glob("*.deb"))):
        remedy = f"does apt offer {emulated.debian} packages here?"
        raise Unprepared(["apt-get"], 0, ["apt brought no packages"], remedy=remedy)
    return debs


def _repair_links(root: Path, emulated: EmulatedMachine = X86) -> None:
    """Make links lead inside the root, and add those a package's installation script would make."""
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(folder) / name
            if path.is_symlink() and (target := path.readlink()).is_absolute():
                path.unlink()
                path.symlink_to(os.path.relpath(root / target.relative_to("/"), path.parent))
    # A merged-/usr Debian leaves these to its base-files package, which is not among ours.
    for name in ("lib", "lib64"):
        if not (root / name).exists() and (root / "usr" / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    link = root / emulated.loader
    if not link.exists():
        places = (folder / link.name for folder in emulated.library_folders(root))
        loader = next((place for place in places if place.exists()), None)
        if loader is not None:
            link.parent.mkdir(exist_ok=True)
            link.unlink(missing_ok=True)
            link.symlink_to(os.path.relpath(loader, link.parent))


def _run_tool(host: Host, argv: Sequence[str], *, timeout: float, env: Mapping[str, str] | None = None) -> None:
    if (done := host.run(argv, timeout=timeout, env=env)).timed_out:
        raise Unprepared(argv, None, [f"no end within {timeout:.0f} s"], remedy="is the mirror reachable?")
    if not done.ok:
        lines = [line for line in (done.out + done.err).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("E:")] or lines
        remedy = "do this machine's apt sources offer packages for that architecture?"
        if any("No space left" in line for line in lines):
            remedy = "free some disk space"
        raise Unprepared(argv, done.code, errors[-5:], remedy=remedy)


def compile_ahead(host: Host, folder: Path, version: tuple[int, int]) -> None:
    """Compile every file under ``folder`` where a Python of that version is here; without one nothing is lost.
    Measured: a bare emulated Python 3.11 starts in 38 s without byte code and in 2 s with it."""
    ours = sys.version_info[:2] == version
    if python := sys.executable if ours else host.which("python{}.{}".format(*version)):
        # unchecked-hash: the emulated Python then need not look at each source file's date. Some packages ship files
        # that do not compile (templates, old syntax): that is no failure.
        argv = [python, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", str(folder)]
        host.run(argv, timeout=COMPILE_SECONDS)


def find_emulated_python(
    host: Host, emulator: Emulator, versions: set[tuple[int, int]], given: str | None, cache: Path, progress: Progress
) -> EmulatedPython:
    """A Python of one of these versions where there is any; else the root's own: the caller compares its version."""
    emulated = emulator.emulated
    root = prepare_root(host, cache, progress, emulated=emulated)
    if given is not None:
        return _ask_named_python(host, emulator, root, Path(given))
    if root.version in versions:
        return root
    for version in sorted(versions, reverse=True):
        places = _uv_pythons(host, version, cache, emulated)
        if not places:
            try:
                return prepare_root(host, cache, progress, version=version, emulated=emulated)
            except RekindleError:
                progress.note(f"apt offers no python{version[0]}.{version[1]} for {emulated.debian}")
            if uv := host.which("uv"):
                # Where it reaches its source, it installs one.
                name = f"cpython-{version[0]}.{version[1]}-linux-{emulated.machine}-gnu"
                progress.stage("python", f"{name} for the emulated system")
                folder = str(cache / "pythons")
                host.run([uv, "python", "install", "--install-dir", folder, name], timeout=FETCH_SECONDS)
            places = _uv_pythons(host, version, cache, emulated)
        if places:
            return EmulatedPython(path=Path(places[0]), version=version, root=root.root)
    return root


def _ask_named_python(host: Host, emulator: Emulator, root: EmulatedPython, path: Path) -> EmulatedPython:
    """An interpreter the user named, asked under the emulator what it is."""
    emulated = emulator.emulated
    if not path.exists():
        raise BadInput(f"there is no file {path}", remedy=f"--python takes an interpreter for {emulated.words} here")
    argv = [emulator.path, "-L", str(root.root), str(path), "-I", "-c", question_text("python")]
    done = host.run(argv, timeout=PROBE_SECONDS)
    answer = read_interpreter(str(path), read_answer(done.out))
    if isinstance(answer, str):
        words = (done.err.strip().splitlines() or [answer])[-1]
        raise BadInput(f"{path} is no Python that runs here: {words}", remedy="give one with --python EXE")
    if cpu_arch(answer.machine) != emulated.machine:
        remedy = f"leave --python out, or give one: uv python install cpython-3.11-linux-{emulated.machine}-gnu"
        text = f"{path} is a Python for {answer.machine}; the emulated CPU runs {emulated.words} code"
        raise BadInput(text, remedy=remedy)
    return EmulatedPython(path=path.resolve(), version=answer.release, root=root.root)


def _uv_pythons(host: Host, version: tuple[int, int], cache: Path, emulated: EmulatedMachine) -> list[str]:
    """Interpreters for that machine that uv installed, for us or for the user."""
    name = "{}.{}".format(*version)
    told = os.environ.get("UV_PYTHON_INSTALL_DIR")
    places = (cache / "pythons", Path.home() / ".local/share/uv/python", *([told] if told else []))
    inside = f"cpython-{name}.*-linux-{emulated.machine}*-gnu/bin/python{name}"
    return [python for place in places for python in host.glob(f"{place}/{inside}")]
