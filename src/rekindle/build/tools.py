"""The tools a build uses and where they come from: compiler, CMake, Ninja.

Ninja: our own first (PyPI's 1.13 knows the jobserver, distributions' often do not). CMake: the given one,
else the one on PATH (old trees want the machine's old CMake rather than the newest), else our own; a plan
that pins CMake gets that one installed into the target environment instead.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rekindle.compat.supply import install_line, managers
from rekindle.errors import BadInput, MissingTool
from rekindle.host.protocol import Host
from rekindle.host.supply import is_root, manager_here

JOBSERVER_NINJA = (1, 13)
# -ffile-prefix-map: gcc 8, clang 10; a compiler of unknown version (cl) counts as too old.
PREFIX_MAP_COMPILER = (10,)
_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.(\d+))?")


@dataclass(frozen=True, kw_only=True)
class Tool:
    name: str
    path: str
    version: str

    @property
    def release(self) -> tuple[int, ...]:
        match = _VERSION.search(self.version)
        return tuple(int(part) for part in match.groups() if part) if match else ()


def probe(host: Host, name: str, path: str) -> Tool | None:
    """Ask a program for its version; None where it is not there or does not answer."""
    said = host.run([path, "--version"], timeout=20.0)
    if not said.ok:
        return None
    match = _VERSION.search(said.out)
    return Tool(name=name, path=path, version=match[0] if match else "unknown")


def _packaged(module: str, attribute: str, name: str) -> str | None:
    import importlib

    try:
        folder = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError):
        return None
    return shutil.which(name, path=str(folder))


def find_ninja(host: Host, given: str | None) -> Tool:
    for path in (given, _packaged("ninja", "BIN_DIR", "ninja"), host.which("ninja")):
        if path and (tool := probe(host, "ninja", path)):
            return tool
        if path and path == given:
            raise BadInput(f"{given} is no Ninja that runs here")
    raise MissingTool("there is no Ninja", remedy="pip install 'ninja>=1.13'")


def find_cmake(host: Host, given: str | None) -> Tool:
    for path in (given, host.which("cmake"), _packaged("cmake", "CMAKE_BIN_DIR", "cmake")):
        if path and (tool := probe(host, "cmake", path)):
            return tool
        if path and path == given:
            raise BadInput(f"{given} is no CMake that runs here")
    raise MissingTool("there is no CMake", remedy="pip install cmake")


def find_compilers(host: Host, env: dict[str, str]) -> tuple[Tool, Tool]:
    """The C and C++ compilers the build will use: the plan's CC and CXX, else the system's."""
    found: list[Tool] = []
    for name, choices in (("CC", ("cc", "gcc", "clang", "cl")), ("CXX", ("c++", "g++", "clang++", "cl"))):
        wanted = env.get(name) or env.get({"CC": "CMAKE_C_COMPILER", "CXX": "CMAKE_CXX_COMPILER"}[name])
        if wanted:
            path = wanted if Path(wanted).is_absolute() and os.access(wanted, os.X_OK) else host.which(wanted)
            path = path or _unnumbered(host, wanted)
            if not path:
                raise MissingTool(
                    f"the plan's {'C' if name == 'CC' else 'C++'} compiler {wanted} is not on this machine",
                    remedy=bring_compiler(host, wanted),
                )
        else:
            path = next(filter(None, map(host.which, choices)), None)
            if not path:
                raise MissingTool(
                    f"there is no {'C' if name == 'CC' else 'C++'} compiler on this machine",
                    remedy="'rekindle doctor' says how to install one here",
                )
        # cl has no --version; it prints its banner to stderr when called bare.
        found.append(probe(host, name, path) or Tool(name=name, path=path, version="unknown"))
    return found[0], found[1]


def keep_place_out(host: Host, compilers: Sequence[Tool], build_tree: Path) -> bool:
    """Can these compilers keep the tree's place out of what they make?

    The flag ends its first path at an "=": gcc at the last one, clang up to 15 at the first. Where the place has one,
    each compiler is asked to write down where a file lies.
    """
    if not all(compiler.release >= PREFIX_MAP_COMPILER for compiler in compilers):
        return False
    if "=" not in str(build_tree):
        return True
    asked = build_tree / "rekindle-where.c"
    build_tree.mkdir(parents=True, exist_ok=True)
    asked.write_text("__FILE__\n", encoding="utf-8")
    flag = f"-ffile-prefix-map={build_tree}=there"
    said = [host.run([one.path, flag, "-E", "-P", "-x", "c", str(asked)], timeout=20.0) for one in compilers]
    asked.unlink()
    return all(one.ok and one.out.strip() == f'"there/{asked.name}"' for one in said)


def _unnumbered(host: Host, wanted: str) -> str | None:
    """``gcc`` where the plan says gcc-12 and that is what it is: not every system links the numbered name."""
    plain, _, number = wanted.rpartition("-")
    path = host.which(plain) if plain and number.split(".")[0].isdigit() else None
    tool = probe(host, plain, path) if path else None
    return path if tool and tool.release[:1] == (int(number.split(".")[0]),) else None


def bring_compiler(host: Host, wanted: str) -> str:
    """The line that installs it here."""
    name = Path(wanted).name
    plain, _, number = name.rpartition("-")
    manager = manager_here(host, managers())
    if manager is None or not plain or not number.isdigit():
        return f"install {name}"
    family = "g++" if plain in ("gcc", "g++") else "clang"
    packages = {"apt": f"{family}-{number}", "dnf": f"gcc-toolset-{number}-gcc-c++" if family == "g++" else "clang"}
    return install_line([packages.get(manager.name, name)], manager, root=is_root(host))


def gather(folder: Path, *chosen: Tool) -> list[Path]:
    """Folders to put first on PATH so that exactly these tools are found, whatever else lies beside them.

    One folder of links; the folder of one tool may hold another version of the next (a virtual environment
    with CMake 4 and Ninja, say). Windows, where links need rights, gets the tools' own folders.
    """
    if os.name == "nt":
        return [Path(tool.path).parent for tool in chosen]
    folder.mkdir(parents=True, exist_ok=True)
    for tool in chosen:
        link = folder / tool.name
        if not (link.is_symlink() and link.readlink() == Path(tool.path)):
            link.unlink(missing_ok=True)
            link.symlink_to(tool.path)
    return [folder]
