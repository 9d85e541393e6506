"""Every gcc and clang on PATH, under each name distributions give them, once per real file."""

from __future__ import annotations

import re

from rekindle.doctor.msvc import find_msvc
from rekindle.host.asking import Asking, ask_each
from rekindle.host.text import version_key
from rekindle.model.machine import Compiler

_NAMED = re.compile(r"(g\+\+|gcc|clang|clang\+\+)(-\d+(?:\.\d+)?)?(\.exe)?$")
_PLACES = ("/usr/bin", "/usr/local/bin", "/opt/rh/*/*/usr/bin", "/usr/lib/llvm-*/bin", "/opt/gcc*/bin")

_MAX_COMPILERS = 16
_AT_ONCE = 4


def probe_compilers(host: Asking) -> tuple[Compiler, ...]:
    by_file: dict[str, str] = {}
    for path in _candidates(host):
        by_file.setdefault(host.realpath(path), path)
    paths = list(by_file.values())[:_MAX_COMPILERS]
    answers = ask_each(host, paths, lambda path: _ask(host, path), at_once=_AT_ONCE)
    for path in paths:
        if path not in answers:
            host.gap(f"compiler {path}", "it did not answer in time")
    found = [compiler for path in paths if (compiler := answers.get(path)) is not None]
    everything = [*found, *(find_msvc(host) if host.system == "windows" else ())]
    return tuple(sorted(everything, key=lambda c: (c.kind, version_key(c.version)), reverse=True))


def _candidates(host: Asking) -> list[str]:
    paths: dict[str, None] = {}
    for variable in ("CC", "CXX"):
        if (named := host.env.get(variable)) and (path := host.which(named.split()[0])):
            paths[path] = None
    for name in ("gcc", "clang", "g++", "clang++"):
        paths.update(dict.fromkeys(host.which_all(name)))
    if host.system != "windows":
        for place in _PLACES:
            for name in ("gcc-*", "clang-*", "gcc", "clang"):
                paths.update(dict.fromkeys(path for path in host.glob(f"{place}/{name}") if _wanted(path)))
    # The C driver names the C++ one beside it; asking both would only cost time.
    return [path for path in paths if not _is_cxx(path) or _c_name(path) not in paths]


def _wanted(path: str) -> bool:
    return _NAMED.match(path.rsplit("/", 1)[-1]) is not None


def _is_cxx(path: str) -> bool:
    return "++" in re.split(r"[/\\]", path)[-1]


def _c_name(path: str) -> str:
    head, name = path[: -len(re.split(r"[/\\]", path)[-1])], re.split(r"[/\\]", path)[-1]
    return head + name.replace("clang++", "clang").replace("g++", "gcc")


def _ask(host: Asking, path: str) -> Compiler | None:
    done = host.run([path, "--version"], timeout=host.left(3))
    said = done.out
    if done.timed_out or not done.ok:
        host.gap(f"compiler {path}", "it did not answer in time" if done.timed_out else f"exit code {done.code}")
        return None
    if match := re.search(r"clang version (\d+\.\d+\.\d+)", said):
        kind, version = "clang", match[1]
    elif match := re.search(r"\) (\d+\.\d+\.\d+)", said) or re.search(
        r"^\S*gcc\S* (\d+\.\d+\.\d+)", said, re.MULTILINE
    ):
        kind, version = "gcc", match[1]
    else:
        host.gap(f"compiler {path}", f"it said {said.strip()[:120]!r}")
        return None
    return Compiler(kind=kind, version=version, path=path, note=_note(host, path, said))  # type: ignore[arg-type]


def _note(host: Asking, path: str, said: str) -> str | None:
    name = re.split(r"[/\\]", path)[-1]
    if "apple" in said.lower():
        return "Apple's clang"
    if "ccache" in host.realpath(path):
        return "through ccache"
    cxx = (path[: -len(name)] + name).replace("clang", "clang++") if "clang" in name else path.replace("gcc", "g++")
    if cxx != path and not host.glob(cxx):
        return "C only: its C++ compiler is not installed"
    return None
