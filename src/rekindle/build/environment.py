"""The environment a build runs in: complete, from the plan, with nothing left over from the user's shell.

setup.py of PyTorch forwards every variable that begins with BUILD_, USE_ or CMAKE_ to CMake, so a stray
``USE_CUDA=0`` of the shell would silently change the build. Those are dropped and named.
"""

from __future__ import annotations

import fnmatch
import functools
import os
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from rekindle.model.plan import Plan
from rekindle.scripts.cmake import cache_line, is_forwarded

# Debian's and Ubuntu's clock for files that should not carry one: the zip format starts in 1980.
ZIP_EPOCH = 315532800
VERSION_VARIABLES = {
    "torch": "PYTORCH_BUILD_VERSION",
    "torchvision": "BUILD_VERSION",
    "torchaudio": "BUILD_VERSION",
    "spark": "SPARK_BUILD_VERSION",
}


class BuildNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``build_names.toml``: patterns of variables, by what they are to a build."""

    environment: tuple[str, ...]
    programs: tuple[str, ...]
    flags: tuple[str, ...]
    dropped: tuple[str, ...]
    shared: tuple[str, ...]


@functools.cache
def build_names() -> BuildNames:
    """The table beside this file."""
    text = Path(__file__).with_name("build_names.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), BuildNames)


def is_among(name: str, patterns: Iterable[str]) -> bool:
    """Does one of the patterns fit the name?"""
    return any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True, kw_only=True)
class BuildEnvironment:
    """``full`` is what processes get; ``chosen`` the part that the plan and this build decided."""

    full: dict[str, str]
    chosen: dict[str, str]
    dropped: tuple[str, ...]
    cache_settings: dict[str, str]
    after_configure: dict[str, str] = field(default_factory=dict)

    @property
    def defines(self) -> dict[str, str]:
        """All settings for CMake, for front ends that take them by name instead of from the environment."""
        return {**{name: value for name, value in self.chosen.items() if is_forwarded(name)}, **self.cache_settings}

    def choose(self, values: Mapping[str, str]) -> None:
        """Decide more, for processes and for the record."""
        self.full.update(values)
        self.chosen.update(values)


def make_environment(
    plan: Plan,
    shell: Mapping[str, str],
    *,
    path_first: Iterable[Path | str],
    extra: Mapping[str, str],
    version: str | None,
    epoch: int,
    project: str,
) -> BuildEnvironment:
    """``extra`` (launcher, jobserver) yields to the plan; CMake settings setup.py would not forward are kept apart."""
    assert plan.build is not None
    dropped = tuple(sorted(name for name in shell if is_among(name, build_names().dropped)))
    settings = {**plan.build.cmake}
    chosen: dict[str, str] = {
        "SOURCE_DATE_EPOCH": str(epoch),
        "PYTHONHASHSEED": "0",
        "PYTHONNOUSERSITE": "1",
        "PYTHONUNBUFFERED": "1",
        "CMAKE_GENERATOR": "Ninja",
        "NINJA_STATUS": "[%f/%t] ",
        **extra,
        **{name: value for name, value in settings.items() if is_forwarded(name)},
        **plan.build.env,
    }
    if version and project in VERSION_VARIABLES:
        # The plan may name the upstream version; what we build must be told apart from an official wheel.
        chosen[VERSION_VARIABLES[project]] = version
        if project == "torch":
            chosen.setdefault("PYTORCH_BUILD_NUMBER", "1")
    full = {name: value for name, value in shell.items() if name not in dropped}
    full.update(chosen)
    entries = [str(entry) for entry in path_first]
    full["PATH"] = os.pathsep.join([*entries, plan.build.env.get("PATH") or shell.get("PATH", os.defpath)])
    apart = {name: value for name, value in settings.items() if not is_forwarded(name)}
    return BuildEnvironment(full=full, chosen=chosen, dropped=dropped, cache_settings=apart)


# nvcc hands on what stands after -Xcompiler in pieces: at commas by its manual, at spaces by its shell. So the flag
# stands in a file beside build.ninja, where Ninja starts compilers, and the command is the same wherever the tree lies.
FLAG_FILE = "rekindle-prefix-map.txt"


def flag_file(flag: str) -> str:
    """The flag as gcc and clang read it from a file: a backslash before what would end the word."""
    return "".join(f"\\{char}" if char in " '" else char for char in flag) + "\n"


def prefix_map(root: Path, name: str = ".") -> str | None:
    """The flag that keeps the tree's place out of what is compiled: elsewhere the same source gives the same bytes.
    ``name`` is what stands in its place.

    None where the place has letters that CMake or its lists give a meaning to. Spaces are none of them (gcc 12 and
    clang 15 take the flag whole); "=" is one for some compilers, which must be asked (tools.keep_place_out).
    """
    if any(not char.isprintable() or char in '"\\$;<>' for char in str(root)):
        return None
    return f"-ffile-prefix-map={root}={name}"


def render_cache_script(
    settings: Mapping[str, str], flag: str | None = None, *, steady_cuda: bool = False, more: Sequence[str] = ()
) -> str:
    """CMake code run at ``project()``: settings that setup.py does not forward, and flags for C and C++.

    ``steady_cuda`` keeps the place out of what nvcc compiles, too; not behind a cache that was not seen to hit then.

    The flag is a compile option, not part of CMAKE_CXX_FLAGS: trees write those into their libraries
    (``torch.__config__.show()``), and the flag names the very path it is to hide.
    """
    lines = ["# Written by rekindle: settings of the plan that the tree's setup.py does not pass on."]
    for name, value in sorted(settings.items()):
        lines.append(cache_line(name, value))
    for one in (*([flag] if flag else ()), *more):
        lines.append(f'add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:{one}>")')
    if flag and steady_cuda:
        lines.append(f'add_compile_options("$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Xcompiler=@{FLAG_FILE}>")')
        names = Path(__file__).with_name("steady_cuda_names.cmake").read_text(encoding="utf-8")
        lines += [line for line in names.splitlines() if not line.startswith("#")]
    return "\n".join(lines) + "\n"
