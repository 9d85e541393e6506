"""The environment a build runs in: complete, from the plan, with nothing left over from the user's shell, and with what
configure must be told of the GPU toolkit that was found, since it would look elsewhere or take another.

setup.py of PyTorch forwards every variable that begins with BUILD_, USE_ or CMAKE_ to CMake, so a stray
``USE_CUDA=0`` of the shell would silently change the build. Those are dropped and named.
"""

import fnmatch
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

import msgspec

from rekindle.host.live import ask_python
from rekindle.host.protocol import Host
from rekindle.model.plan import Plan
from rekindle.model.toml import read_beside
from rekindle.scripts.quoting import cache_line, is_forwarded
from rekindle.toolkits.cuda import CUDA_VARIABLES, cuda_home, every_nvcc, find_nvcc
from rekindle.toolkits.rocm import find_hip_clang, rocm_home

_PLACES = read_beside(__file__, "toolkit_places.toml", dict[str, tuple[str, ...]])
_BESIDE_TORCH = Path(__file__).with_name("headers_beside_torch.py.txt").read_text(encoding="utf-8")
# nvcc hands on what stands after -Xcompiler in pieces: at commas by its manual, at spaces by its shell. So the flag
# stands in a file beside build.ninja, where Ninja starts compilers, and the command is the same wherever the tree lies.
FLAG_FILE = "rekindle-prefix-map.txt"


class BuildNames(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``build_names.toml``: patterns of variables, by what they are to a build."""

    environment: tuple[str, ...]
    programs: tuple[str, ...]
    flags: tuple[str, ...]
    dropped: tuple[str, ...]
    shared: tuple[str, ...]
    how: tuple[str, ...]
    words: tuple[str, ...]
    plain_flag: str
    always: dict[str, str]
    version: dict[str, str]


NAMES = read_beside(__file__, "build_names.toml", BuildNames)


def is_among(name: str, patterns: Iterable[str]) -> bool:
    """Does any of the patterns (``USE_*``) mean this name?"""
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
    plan: Plan, shell: Mapping[str, str], *, path_first: Iterable[Path | str], extra: Mapping[str, str], version: str
) -> BuildEnvironment:
    """``extra`` (launcher, jobserver) yields to the plan; CMake settings setup.py would not forward are kept apart."""
    assert plan.build is not None
    dropped = tuple(sorted(name for name in shell if is_among(name, NAMES.dropped)))
    settings = plan.build.cmake
    chosen: dict[str, str] = {
        **NAMES.always,
        **extra,
        **{name: value for name, value in settings.items() if is_forwarded(name)},
        **plan.build.env,
    }
    if version and plan.project in NAMES.version:
        # The plan may name the upstream version; what we build must be told apart from an official wheel.
        chosen[NAMES.version[plan.project]] = version
        if plan.project == "torch":
            chosen.setdefault("PYTORCH_BUILD_NUMBER", "1")
    full = {name: value for name, value in shell.items() if name not in dropped}
    full.update(chosen)
    entries = [str(entry) for entry in path_first]
    full["PATH"] = os.pathsep.join([*entries, plan.build.env.get("PATH") or shell.get("PATH", os.defpath)])
    apart = {name: value for name, value in settings.items() if not is_forwarded(name)}
    return BuildEnvironment(full=full, chosen=chosen, dropped=dropped, cache_settings=apart)


def flag_file(flag: str) -> str:
    """The flag as gcc and clang read it from a file: a backslash before what would end the word."""
    return "".join(f"\\{char}" if char in " '" else char for char in flag) + "\n"


def prefix_map(root: Path, name: str = ".") -> str | None:
    """The flag that keeps the tree's place out of what is compiled: elsewhere the same source gives the same bytes.
    ``name`` is what stands in its place. None where the place has letters that CMake or its lists give a meaning to.
    Spaces are none of them (gcc 12 and clang 15 take the flag whole); "=" is one for some compilers, which must be
    asked (tools.keep_place_out)."""
    if any(not char.isprintable() or char in '"\\$;<>' for char in str(root)):
        return None
    return f"-ffile-prefix-map={root}={name}"


def render_cache_script(
    settings: Mapping[str, str], flag: str | None = None, *, steady_cuda: bool = False, more: Sequence[str] = ()
) -> str:
    """CMake code run at ``project()``: settings that setup.py does not forward, and flags for C and C++.
    ``steady_cuda`` keeps the place out of what nvcc compiles, too; not behind a cache that was not seen to hit then.
    The flag is a compile option, not part of CMAKE_CXX_FLAGS: trees write those into their libraries
    (``torch.__config__.show()``), and the flag names the very path it is to hide."""
    lines = ["# Written by rekindle: settings of the plan that the tree's setup.py does not pass on."]
    lines += [cache_line(name, value) for name, value in sorted(settings.items())]
    options = (*([flag] if flag else ()), *more)
    lines += [f'add_compile_options("$<$<COMPILE_LANGUAGE:C,CXX>:{option}>")' for option in options]
    if flag and steady_cuda:
        lines.append(f'add_compile_options("$<$<COMPILE_LANG_AND_ID:CUDA,NVIDIA>:-Xcompiler=@{FLAG_FILE}>")')
        names = Path(__file__).with_name("steady_cuda_names.cmake").read_text(encoding="utf-8")
        lines += [line for line in names.splitlines() if not line.startswith("#")]
    return "\n".join(lines) + "\n"


def chosen_cuda(host: Host, plan: Plan, settings: Mapping[str, str]) -> dict[str, str]:
    """What configure is told of the toolkit, where the plan names one or more than one is here: torch's FindCUDA asks
    CUDA_PATH and not CUDA_HOME, CMake asks CUDACXX, and each would else take the first by an order of its own."""
    named = ("CMAKE_CUDA_COMPILER", "CUDACXX", *CUDA_VARIABLES)
    if plan.cuda is None or (len(every_nvcc(host)) < 2 and not any(settings.get(name) for name in named)):
        return {}
    nvcc, home = find_nvcc(host, settings, plan.cuda), cuda_home(host, settings, plan.cuda)
    variables = dict.fromkeys(("CUDA_HOME", "CUDA_PATH", "CUDAToolkit_ROOT"), home) | {"CUDACXX": nvcc}
    if settings.get("CMAKE_CUDA_COMPILER"):
        del variables["CUDACXX"]
    return {name: place for name, place in variables.items() if place and not settings.get(name)}


def toolkit_places(host: Host, plan: Plan, settings: Mapping[str, str]) -> dict[str, str]:
    """What configure must be told to take the toolkit that was found: it looks for ROCm in /opt/rocm alone, and
    without one there it goes on for the CPU. HIP's CMake module it looks for in ``lib/cmake`` alone; Debian's lies one
    folder deeper. HIP's clang is sought in ``llvm/bin`` below ROCm, as AMD's packages have it: configure goes
    through without it, and no kernel compiles."""
    if plan.rocm is None or (home := rocm_home(host, settings)) is None:
        return {}
    variables = {} if "ROCM_PATH" in settings else {"ROCM_PATH": home}
    usual = host.glob(f"{home}/lib/cmake/hip/FindHIP.cmake")
    deeper = [file for place in _PLACES["hip_modules"] for file in host.glob(f"{home}/{place}/cmake/hip/FindHIP.cmake")]
    if deeper and not usual and "CMAKE_MODULE_PATH" not in settings:
        variables["CMAKE_MODULE_PATH"] = str(PurePosixPath(deeper[0]).parent)
    if "HIP_CLANG_PATH" not in settings and (clang := host.env.get("HIP_CLANG_PATH") or find_hip_clang(host, home)):
        variables["HIP_CLANG_PATH"] = clang
    return variables


def driver_stub(host: Host, plan: Plan, settings: Mapping[str, str]) -> dict[str, str]:
    """CMake's own setting for libcuda where configure would not find it: torch looks below the toolkit in ``lib`` and
    ``lib/stubs`` and CMake where the system has its libraries; Debian's stub lies in a folder of neither. Only this one
    file is told, since the folder has stubs of libraries that are here whole."""
    if plan.cuda is None or host.system != "linux" or any(name in settings for name in _PLACES["driver_settings"]):
        return {}
    home = cuda_home(host, settings, plan.cuda)
    if home is None or any(host.glob(f"{home}/{place}/libcuda.so") for place in _PLACES["stubs_found"]):
        return {}
    if any(host.glob(f"{place}/libcuda.so") for place in _PLACES["drivers"]):
        return {}
    stubs = [stub for place in _PLACES["stubs_hidden"] for stub in host.glob(f"{home}/{place}/libcuda.so")]
    return {"CUDA_CUDA_LIB": stubs[0]} if stubs else {}


def headers_beside_torch(host: Host, python: str, home: str) -> tuple[str, ...]:
    """Folders with headers that torch includes and the toolkit lacks (it may be the compiler alone), from the packages
    that pip installed beside torch."""
    lacking = [name for name in _PLACES["library_headers"] if not host.glob(str(Path(home) / "include" / name))]
    if not lacking:
        return ()
    folders, _ = ask_python(host, python, _BESIDE_TORCH, *lacking)
    return tuple(map(str, folders or ()))
