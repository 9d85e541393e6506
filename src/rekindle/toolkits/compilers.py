"""Host compilers: every gcc, clang and MSVC on this machine, and the pair that a build takes.

Visual Studio's toolsets are found by vswhere (which ships with every installer since 2017); the environment that its
batch file gives is read as values instead of a shell.
"""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rekindle.errors import MissingTool
from rekindle.host.asking import Asking, ask_each
from rekindle.host.protocol import Host
from rekindle.host.text import text_of, version_key
from rekindle.model.machine import Compiler
from rekindle.model.toml import read_beside
from rekindle.toolkits.programs import Tool, bring_packages, manager_here, probe_program

# -ffile-prefix-map: gcc 8, clang 10; MSVC has no such flag, and a compiler of unknown version counts as too old.
PREFIX_MAP_COMPILER = (10,)
_NAMED = re.compile(r"(g\+\+|gcc|clang|clang\+\+)(-\d+(?:\.\d+)?)?(\.exe)?$")
_PLAIN_NAMES = {"CC": ("cc", "gcc", "clang", "cl"), "CXX": ("c++", "g++", "clang++", "cl")}
_LANGUAGES = {"CC": "C", "CXX": "C++"}
_CMAKE_NAMES = {"CC": "CMAKE_C_COMPILER", "CXX": "CMAKE_CXX_COMPILER"}
_KNOWN = read_beside(__file__, "compilers.toml", dict[str, Any])
_MAX_COMPILERS = 16
_AT_ONCE = 4


def read_banner(text: str) -> tuple[str, str] | None:
    """A compiler's kind (gcc, clang, icx, msvc) and version, by what it says to ``--version`` (MSVC: called bare)."""
    matches = ((kind, re.search(pattern, text)) for kind, pattern in _KNOWN["banners"].items())
    return next(((kind, next(filter(None, match.groups()))) for kind, match in matches if match), None)


def list_compilers(host: Asking) -> tuple[Compiler, ...]:
    """Every gcc and clang under each name distributions give them, and every MSVC; once per real file, newest first."""
    settings = filter(None, (host.env.get(variable) for variable in ("CC", "CXX")))
    listed = [path for setting in settings if (path := host.which(setting.split()[0]))]
    listed += [path for name in ("gcc", "clang", "cc", "g++", "clang++", "c++") for path in host.which_all(name)]
    names = ("gcc-*", "clang-*", "gcc", "clang") if host.system != "windows" else ()
    patterns = [f"{place}/{name}" for place in _KNOWN["places"] for name in names]
    listed += [path for pattern in patterns for path in host.glob(pattern) if _NAMED.match(_file_name(path))]
    by_file: dict[str, str] = {}
    for path in dict.fromkeys(listed):
        # The C driver names the C++ one beside it; asking both would only cost time.
        if "++" not in _file_name(path) or c_compiler_of(path) not in listed:
            by_file.setdefault(host.realpath(path), path)
    paths = list(by_file.values())[:_MAX_COMPILERS]
    answers = ask_each(host, paths, lambda path: _describe_compiler(host, path), at_once=_AT_ONCE)
    for path in paths:
        if path not in answers:
            host.gap(f"compiler {path}", "it did not answer in time")
    found = [*filter(None, map(answers.get, paths)), *(find_msvc(host) if host.system == "windows" else ())]
    return tuple(sorted(found, key=lambda c: (c.kind, version_key(c.version)), reverse=True))


def build_compilers(compilers: Sequence[Compiler], system: str) -> tuple[Compiler, ...]:
    """Those that torch is built with on this system."""
    fitting = (compiler for compiler in compilers if (compiler.kind == "msvc") == (system == "windows"))
    return tuple(compiler for compiler in fitting if not (compiler.note or "").startswith("C only"))


def _file_name(path: str) -> str:
    return re.split(r"[/\\]", path)[-1]


def c_compiler_of(cxx: str) -> str:
    """``/usr/bin/gcc-11`` for ``/usr/bin/g++-11``."""
    name = _file_name(cxx)
    plain = "cc" if name == "c++" else name.replace("clang++", "clang").replace("g++", "gcc")
    return cxx[: -len(name)] + plain


def cxx_compiler_of(c: str) -> str:
    """``/usr/bin/g++-11`` for ``/usr/bin/gcc-11``."""
    name = _file_name(c)
    plain = "c++" if name == "cc" else name if "++" in name else name.replace("clang", "clang++").replace("gcc", "g++")
    return c[: -len(name)] + plain


def _describe_compiler(host: Asking, path: str) -> Compiler | None:
    done = host.run([path, "--version"], timeout=host.left(3))
    banner = read_banner(done.out) if done.ok else None
    if banner is None or banner[0] not in ("gcc", "clang"):
        why = f"it said {done.out.strip()[:120]!r}" if done.ok else f"exit code {done.code}"
        host.gap(f"compiler {path}", "it did not answer in time" if done.timed_out else why)
        return None
    note, cxx = None, cxx_compiler_of(path)
    if "apple" in done.out.lower():
        note = "Apple's clang"
    elif "ccache" in host.realpath(path):
        note = "through ccache"
    elif cxx != path and not host.glob(cxx):
        note = "C only: its C++ compiler is not installed"
    return Compiler(kind=banner[0], version=banner[1], path=path, note=note)  # type: ignore[arg-type]


def find_compilers(host: Host, settings: Mapping[str, str]) -> tuple[Tool, Tool]:
    """The C and C++ compilers a build will use: the plan's CC and CXX, else the system's, else the newest that is here
    under a name of its own (g++-11 alone, Visual Studio's outside its prompt)."""
    paths: dict[str, str | None] = {}
    for name, choices in _PLAIN_NAMES.items():
        if asked := settings.get(name) or settings.get(_CMAKE_NAMES[name]):
            path = asked if Path(asked).is_absolute() and os.access(asked, os.X_OK) else host.which(asked)
            paths[name] = path or _find_unnumbered(host, asked)
            if not paths[name]:
                message = f"the plan's {_LANGUAGES[name]} compiler {asked} is not on this machine"
                raise MissingTool(message, remedy=bring_compiler(host, asked))
        else:
            paths[name] = next(filter(None, map(host.which, choices)), None)
    if not all(paths.values()) and (newest := newest_compiler(host)):
        found = newest.path or ""
        own = {"CC": c_compiler_of(found), "CXX": cxx_compiler_of(found)}
        paths = {name: path or (found if newest.kind == "msvc" else own[name]) for name, path in paths.items()}
    for name, path in paths.items():
        if not path:
            remedy = "'rekindle doctor' says how to install one here"
            raise MissingTool(f"there is no {_LANGUAGES[name]} compiler on this machine", remedy=remedy)
    cc, cxx_tool = (_ask_compiler(host, name, str(path)) for name, path in paths.items())
    return cc, cxx_tool


def newest_compiler(host: Host) -> Compiler | None:
    """The one a build takes where none has a plain name on PATH: gcc before clang, the newest of them."""
    usable = build_compilers(list_compilers(Asking(host)), host.system)
    return next((c for c in usable if c.kind != "clang"), usable[0] if usable else None)


def compilers_to_name(compilers: tuple[Tool, Tool], settings: Mapping[str, str]) -> dict[str, str]:
    """CC and CXX, where CMake would not find these compilers by itself."""
    return {
        tool.name: tool.path
        for tool in compilers
        if tool.kind in ("gcc", "clang")
        and not (settings.get(tool.name) or settings.get(_CMAKE_NAMES[tool.name]))
        and _file_name(tool.path) not in _PLAIN_NAMES[tool.name]
    }


def _ask_compiler(host: Host, name: str, path: str) -> Tool:
    # cl has no --version; it prints its banner to stderr when called bare, and nobody needs its number here.
    done = host.run([path, "--version"], timeout=20.0)
    banner = read_banner(done.out) if done.ok else None
    if banner is None:
        return probe_program(host, name, path) or Tool(name=name, path=path, version="unknown")
    return Tool(name=name, path=path, kind=banner[0], version=banner[1])


def keep_place_out(host: Host, compilers: Sequence[Tool], build_tree: Path) -> bool:
    """Can these compilers keep the tree's place out of what they make? The flag ends its first path at an "=": gcc at
    the last one, clang up to 15 at the first. Where the place has one, each compiler is asked to write down where a
    file lies."""
    if not all(compiler.release >= PREFIX_MAP_COMPILER for compiler in compilers):
        return False
    if "=" not in str(build_tree):
        return True
    probe = build_tree / "rekindle-where.c"
    build_tree.mkdir(parents=True, exist_ok=True)
    probe.write_text("__FILE__\n", encoding="utf-8")
    flag = f"-ffile-prefix-map={build_tree}=there"
    answers = [host.run([tool.path, flag, "-E", "-P", "-x", "c", str(probe)], timeout=20.0) for tool in compilers]
    probe.unlink()
    return all(done.ok and done.out.strip() == f'"there/{probe.name}"' for done in answers)


def _find_unnumbered(host: Host, asked: str) -> str | None:
    """``gcc`` where the plan says gcc-12 and that is what it is: not every system links the numbered name."""
    plain, _, number = asked.rpartition("-")
    path = host.which(plain) if plain and number.split(".")[0].isdigit() else None
    tool = _ask_compiler(host, plain, path) if path else None
    return path if tool and tool.release[:1] == (int(number.split(".")[0]),) else None


def bring_compiler(host: Host, compiler: str) -> str:
    """The line that installs it here."""
    name, manager = Path(compiler).name, manager_here(host)
    plain, _, number = name.rpartition("-")
    family = "g++" if plain in ("gcc", "g++") else "clang"
    packages = {"apt": f"{family}-{number}", "dnf": f"gcc-toolset-{number}-gcc-c++" if family == "g++" else "clang"}
    if manager and manager.name in packages and plain and number.isdigit():
        return bring_packages(host, [packages[manager.name]], manager)
    return f"install {name}"


def find_msvc(host: Asking) -> tuple[Compiler, ...]:
    """Every toolset of every instance, as the version ``cl`` reports (19.xx), with the toolset in the note."""
    program_files = host.env.get("ProgramFiles(x86)") or r"C:\Program Files (x86)"
    vswhere = rf"{program_files}\Microsoft Visual Studio\Installer\vswhere.exe"
    if not host.glob(vswhere):
        return ()
    done = host.run([vswhere, "-all", "-products", "*", "-format", "json", "-utf8"], timeout=host.left(5))
    try:
        instances = json.loads(done.out)
    except ValueError:
        host.gap("Visual Studio", f"vswhere gave no JSON ({'timed out' if done.timed_out else f'exit {done.code}'})")
        return ()
    rows = (row for row in (instances if isinstance(instances, list) else ()) if isinstance(row, dict))
    found = (compiler for row in rows for compiler in _list_toolsets(host, row))
    compilers = sorted(found, key=lambda compiler: version_key(compiler.version), reverse=True)
    return (*(_note_sdk(host, newest) for newest in compilers[:1]), *compilers[1:])


def _note_sdk(host: Asking, compiler: Compiler) -> Compiler:
    """The Windows SDK that the newest toolset's vcvars64.bat finds: it proves that batch files run here."""
    root, _, tail = str(compiler.path).partition("\\VC\\Tools\\MSVC\\")
    toolset = tail.partition("\\")[0]
    answer = read_vcvars(host, rf"{root}\VC\Auxiliary\Build\vcvars64.bat", toolset, timeout=host.left(6))
    if isinstance(answer, str):
        host.gap("Visual Studio's environment", f"vcvars64.bat: {answer}")
        return compiler
    if not (sdk := answer.get("WindowsSDKVersion", "").strip("\\")):
        host.gap("Windows SDK", "vcvars64.bat found none (add 'Windows SDK' in the Visual Studio Installer)")
    return replace(compiler, note=f"{compiler.note}, Windows SDK {sdk or 'missing'}")


def _list_toolsets(host: Asking, instance: dict[str, Any]) -> Iterator[Compiler]:
    root = str(instance.get("installationPath", ""))
    name = str(instance.get("displayName") or instance.get("productId") or "Visual Studio")
    if instance.get("isComplete") is False:
        host.gap(name, "its installation is not complete (open the Visual Studio Installer and repair it)")
    if not (directories := host.glob(rf"{root}\VC\Tools\MSVC\*")):
        host.gap(name, "it has no C++ toolset (the workload 'Desktop development with C++' is not installed)")
    default = text_of(host.read(rf"{root}\VC\Auxiliary\Build\Microsoft.VCToolsVersion.default.txt")).strip()
    for directory in directories:
        toolset = directory.rsplit("\\", 1)[-1]
        if (version := cl_version(toolset)) is not None:
            cl = rf"{directory}\bin\Hostx64\x64\cl.exe"
            note = f"{name}, toolset {toolset}" + (" (default)" if toolset == default else "")
            yield Compiler(kind="msvc", version=version, path=cl, note=note)


def cl_version(toolset: str) -> str | None:
    """Toolset 14.40.33807 holds cl 19.40.33807: the minor and build numbers are the same, since 14.0 = 19.00."""
    match = re.fullmatch(r"14\.(\d+)\.(\d+)(?:\.\d+)?", toolset)
    return f"19.{int(match[1]):02d}.{match[2]}" if match else None


def read_vcvars(host: Host, batch: str, toolset: str | None = None, *, timeout: float = 20.0) -> dict[str, str] | str:
    """Run ``vcvars64.bat`` and read what it leaves in the environment; where it did not run, why."""
    # "call" first: then cmd keeps the quotes around a path with spaces (cmd /?).
    chosen = [f"-vcvars_ver={toolset}"] if toolset else []
    done = host.run(["cmd", "/d", "/c", "call", batch, *chosen, ">nul", "&&", "set"], timeout=timeout)
    if done.timed_out:
        return "it did not end in time"
    lines = (line.partition("=") for line in done.out.splitlines())
    values = {name.upper(): value for name, mark, value in lines if mark}
    env = {name: values[name.upper()] for name in _KNOWN["vcvars"] if name.upper() in values}
    if not done.ok or "INCLUDE" not in env:
        words = (done.err.strip() or done.out.strip()).splitlines()
        return words[0] if words else f"exit code {done.code}"
    return env
