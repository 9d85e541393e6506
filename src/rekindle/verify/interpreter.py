"""Target interpreters: asked what they are by a few lines of standard Python, found by version."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.host.protocol import Completed, Host
from rekindle.host.venv import usual_python

QUESTION = (
    "import json,platform,sys,sysconfig;"
    "print(json.dumps(dict(version=list(sys.version_info[:3]),machine=platform.machine(),"
    "system=sys.platform,implementation=platform.python_implementation(),executable=sys.executable,"
    "free=bool(sysconfig.get_config_var('Py_GIL_DISABLED')))))"
)


@dataclass(frozen=True, kw_only=True)
class Interpreter:
    path: str
    version: tuple[int, int, int]
    machine: str
    system: str
    implementation: str

    @property
    def short(self) -> str:
        return f"{self.version[0]}.{self.version[1]}"


def probe_interpreter(host: Host, path: str) -> Interpreter:
    """Ask an interpreter what it is."""
    return read_answer(path, host.run([path, "-I", "-c", QUESTION], timeout=60.0))


def read_answer(path: str, done: Completed) -> Interpreter:
    """What an interpreter said to :data:`QUESTION`."""
    try:
        said = json.loads(done.out.strip().splitlines()[-1])
        return Interpreter(
            path=path,
            version=tuple(said["version"]),
            machine=said["machine"],
            system=said["system"],
            implementation=said["implementation"],
        )
    except (ValueError, KeyError, IndexError) as error:
        words = (done.err.strip().splitlines() or [""])[-1]
        if not words or QUESTION[:24] in words:
            words = "it said nothing a Python says"  # another program, which took the question for a file or an option
        raise BadInput(f"{path} is not a Python that starts: {words}", remedy="give one with --python EXE") from error


def default_python(host: Host) -> str:
    """The Python people mean where they name none."""
    found = usual_python(host)
    if found is None:
        raise BadInput("there is no python3 on PATH", remedy="give one with --python EXE")
    return found


def find_interpreter(host: Host, versions: set[tuple[int, int]]) -> Interpreter:
    """A Python of one of these versions (any, where there are none) on this machine."""
    if not versions or sys.version_info[:2] in versions:
        return probe_interpreter(host, sys.executable)
    tried = []
    for major, minor in sorted(versions, reverse=True):
        name = f"{major}.{minor}"
        tried.append(name)
        for candidate in _candidates(host, name):
            try:
                found = probe_interpreter(host, candidate)
            except BadInput:
                # A version manager's shim that has no such version behind it; the next place may have one.
                continue
            if found.version[:2] == (major, minor):
                return found
    wanted = " or ".join(tried)
    raise BadInput(
        f"the wheel is for Python {wanted}, and there is none on this machine",
        remedy=f"give one with --python EXE, or install one: uv python install {tried[0]}",
    )


def _candidates(host: Host, version: str) -> list[str]:
    found = [path for path in (host.which(f"python{version}"),) if path]
    home = str(Path.home())
    for pattern in (
        f"{home}/.pyenv/versions/{version}.*/bin/python{version}",
        f"{home}/.local/share/uv/python/cpython-{version}.*/bin/python{version}",
        f"/opt/python/cp{version.replace('.', '')}-*/bin/python",
        f"{home}/*conda*/bin/python{version}",
        f"{home}/*conda*/envs/*/bin/python{version}",
        f"{home}/miniforge3/envs/*/bin/python{version}",
        f"/opt/*conda*/bin/python{version}",
        f"C:/Program Files/Python{version.replace('.', '')}/python.exe",
        f"{home}/AppData/Local/Programs/Python/Python{version.replace('.', '')}/python.exe",
    ):
        found.extend(host.glob(pattern))
    return found
