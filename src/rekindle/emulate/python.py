"""The Python the emulated system needs: the root's own, one the user has, one from apt, or one uv brings.

A wheel for Python 3.10 proves nothing under Python 3.11, so the emulated system gets the wheel's Python.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from rekindle.emulate.qemu import EmulatedMachine, Emulator
from rekindle.emulate.root import Root, prepare_root
from rekindle.errors import BadInput, RekindleError
from rekindle.host.live import question_text, read_answer
from rekindle.host.protocol import Host
from rekindle.host.sandbox import parts_of
from rekindle.model.interpreter import read_interpreter
from rekindle.model.machine import cpu_arch
from rekindle.model.progress import Progress

FETCH_SECONDS = 900.0
PROBE_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class EmulatedPython:
    """``home`` is set where the interpreter must be told where its library lies (Debian's, unpacked elsewhere);
    ``root`` is None where this machine itself is of that kind."""

    path: Path
    version: tuple[int, int]
    home: Path | None = None
    root: Root | None = None

    def places(self) -> list[Path]:
        """The folders the interpreter lies in."""
        root = [self.root.path] if self.root else []
        return [*root, *parts_of(self.path.parent.parent), *(parts_of(self.home) if self.home else [])]


def find_emulated_python(
    host: Host,
    emulator: Emulator,
    wanted: set[tuple[int, int]],
    *,
    given: str | None,
    cache: Path,
    progress: Progress,
) -> EmulatedPython:
    """One of the wanted versions where any can be had; else the root's own, which the caller must notice."""
    emulated = emulator.emulated
    root = prepare_root(host, cache, progress, emulated=emulated)
    if given is not None:
        return _probed(host, emulator, root, Path(given))
    if not wanted or root.version in wanted:
        return _of_root(root)
    for version in sorted(wanted, reverse=True):
        for place in _kept(host, version, cache, emulated):
            return EmulatedPython(path=Path(place), version=version, root=root)
        try:
            special = prepare_root(host, cache, progress, version=version, emulated=emulated)
        except RekindleError:
            progress.note(f"apt offers no python{version[0]}.{version[1]} for {emulated.debian}")
        else:
            return _of_root(special)
        if _fetched(host, version, cache, emulated, progress):
            for place in _kept(host, version, cache, emulated):
                return EmulatedPython(path=Path(place), version=version, root=root)
    return _of_root(root)


def _of_root(root: Root) -> EmulatedPython:
    return EmulatedPython(path=root.python, version=root.version, home=root.path / "usr", root=root)


def _probed(host: Host, emulator: Emulator, root: Root, path: Path) -> EmulatedPython:
    """An interpreter the user named, asked under the emulator what it is."""
    emulated = emulator.emulated
    if not path.exists():
        raise BadInput(f"there is no file {path}", remedy=f"--python takes an interpreter for {emulated.words} here")
    asked = [emulator.path, "-L", str(root.path), str(path), "-I", "-c", question_text("python")]
    done = host.run(asked, timeout=PROBE_SECONDS)
    found = read_interpreter(str(path), read_answer(done.out))
    if isinstance(found, str):
        words = (done.err.strip().splitlines() or [found])[-1]
        raise BadInput(f"{path} is no Python that runs here: {words}", remedy="give one with --python EXE")
    if cpu_arch(found.machine) != emulated.machine:
        raise BadInput(
            f"{path} is a Python for {found.machine}; the emulated CPU runs {emulated.words} code",
            remedy=f"leave --python out, or give one: uv python install cpython-3.11-linux-{emulated.machine}-gnu",
        )
    return EmulatedPython(path=path.resolve(), version=found.release, root=root)


def _kept(host: Host, version: tuple[int, int], cache: Path, emulated: EmulatedMachine) -> list[str]:
    """Interpreters for that machine that uv installed, for us or for the user."""
    name = f"{version[0]}.{version[1]}"
    places = [str(cache / "pythons"), str(Path.home() / ".local/share/uv/python")]
    if given := os.environ.get("UV_PYTHON_INSTALL_DIR"):
        places.append(given)
    return [
        found
        for place in places
        for found in host.glob(f"{place}/cpython-{name}.*-linux-{emulated.machine}*-gnu/bin/python{name}")
    ]


def _fetched(host: Host, version: tuple[int, int], cache: Path, emulated: EmulatedMachine, progress: Progress) -> bool:
    """Have uv bring one, where there is a uv and it can reach its source."""
    uv = host.which("uv")
    if uv is None:
        return False
    name = f"cpython-{version[0]}.{version[1]}-linux-{emulated.machine}-gnu"
    progress.stage("python", f"{name} for the emulated system")
    done = host.run([uv, "python", "install", "--install-dir", str(cache / "pythons"), name], timeout=FETCH_SECONDS)
    return done.ok
