"""Trees that are neither torch nor its pair but compile against it: flash-attn, torch-scatter, anybody's own.

One is known by what it says: a setup.py that uses ``torch.utils.cpp_extension``, or CMake that finds Torch. Its own
switches come from the tables of companions; one that is not in them gets what every such build understands.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from packaging.utils import canonicalize_name, parse_wheel_filename

from rekindle.compat.images import GpuCode, covers
from rekindle.errors import BadInput
from rekindle.facts import Facts, load_facts
from rekindle.host.protocol import Host
from rekindle.interpreters.packages import ask_contents
from rekindle.interpreters.search import ask_interpreter
from rekindle.model.arch import parse_sm
from rekindle.model.companion import CompanionSource
from rekindle.model.plan import Plan
from rekindle.model.version import compare

_READ = 1 << 20
_USES_TORCH = re.compile(r"cpp_extension|CUDAExtension|CppExtension")
_FINDS_TORCH = re.compile(r"find_package\s*\(\s*Torch\b", re.IGNORECASE)
# What torch.utils.cpp_extension and the setup.py of most extensions understand.
SWITCHES = {"cpu": {"FORCE_CUDA": "0"}, "cuda": {"FORCE_CUDA": "1"}, "rocm": {"FORCE_CUDA": "1"}}


class Extension(NamedTuple):
    """What a tree calls itself."""

    name: str
    version: str


def find_extension(root: Path) -> Extension | None:
    """Name and version of a tree that compiles against torch; None for any other."""
    setup, project = _text(root / "setup.py"), _text(root / "pyproject.toml")
    by_cmake = bool(_FINDS_TORCH.search(_text(root / "CMakeLists.txt"))) and bool(setup or project)
    if not _USES_TORCH.search(setup) and not by_cmake:
        return None
    told = _text(root / "PKG-INFO")
    name = _field(told, "Name") or _quoted(setup, "name") or _quoted(project, "name") or root.name
    version = _field(told, "Version") or _quoted(setup, "__version__") or _quoted(setup, "version")
    version = version or _quoted(project, "version") or "0"
    plain = str(canonicalize_name(re.sub(r"[^A-Za-z0-9._-]", "-", name)[:80]))
    return Extension(plain, version if version[:1].isdigit() else "0")


def finds_torch(root: Path) -> bool:
    """Does its build read torch's own CMake files? A setup.py that uses cpp_extension leaves CMake alone."""
    if _USES_TORCH.search(_text(root / "setup.py")):
        return False
    files = [root / "CMakeLists.txt", *sorted(root.glob("cmake/*.cmake"))[:100]]
    return any(_FINDS_TORCH.search(_text(path)) for path in files)


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(_READ).decode("utf-8", "replace")
    except OSError:
        return ""


def _field(text: str, name: str) -> str | None:
    match = re.search(rf"^{name}:[ \t]*(\S+)[ \t\r]*$", text, re.MULTILINE)
    return match[1] if match else None


def _quoted(text: str, name: str) -> str | None:
    match = re.search(rf"(?<!\w){name}\s*=\s*['\"]([A-Za-z0-9][A-Za-z0-9._+-]*)['\"]", text)
    return match[1] if match else None


class Torch(NamedTuple):
    """What is known of a torch: release, flavour and the Python it is for."""

    release: str | None = None
    flavour: str | None = None
    python: str | None = None


def torch_in(against: str | None) -> Torch:
    """What an extension is compiled against: a wheel's path, or ``torch==2.6.0+cpu``."""
    if not against:
        return Torch()
    python = None
    try:
        if against.endswith(".whl"):
            _, version, _, tags = parse_wheel_filename(Path(against).name)
            text = str(version)
            match = re.fullmatch(r"cp(\d)(\d+)", next(iter(tags)).interpreter)
            python = f"{match[1]}.{match[2]}" if match else None
        else:
            text = against.partition("==")[2]
    except ValueError:
        return Torch()
    return _torch(text, python)


def torch_of(host: Host, python: str) -> Torch:
    """The torch that a Python has, by its metadata; nothing is imported."""
    interpreter = ask_interpreter(host, python)
    held = ask_contents(host, python)
    version = held.versions.get("torch")
    if version is None:
        raise BadInput(f"{python} has no torch", remedy=f"{python} -m pip install torch, or --against torch==2.6.0")
    # The wheels of PyPI leave the flavour out of their name, and tell it in their version.py.
    return _torch((held.torch or {}).get("__version__") or version, interpreter.short)


def _torch(text: str, python: str | None) -> Torch:
    release, _, flavour = text.partition("+")
    known = flavour == "cpu" or flavour.startswith(("cu", "rocm"))
    return Torch(release or None, flavour if known else None, python)


class Own(NamedTuple):
    """What a known package is told, and the architectures its wheel will hold for this plan's cards."""

    env: dict[str, str]
    archs: tuple[str, ...]


def own_settings(project: str, version: str, plan: Plan, platform: str) -> Own:
    """The switches of a known package for this plan's cards, from the tables; nothing for a stranger's."""
    facts = load_facts()
    kind = plan.backend
    for row in facts.beside.source:
        if row.package != project or kind not in row.backends or platform not in row.platforms:
            continue
        known = version == "0" or compare(row.since or row.version, version) <= 0 <= compare(row.version, version)
        if not known:
            continue
        env = {name: value for name, value in row.env.items() if name != "FORCE_CUDA"}
        archs = plan.arch_list
        if plan.cuda and row.targets:
            archs = tuple(dict.fromkeys(_accepted(arch, row, facts) for arch in plan.arch_list))
        if row.arch_env and plan.cuda and archs and row.arch_form == "number":
            env[row.arch_env] = ";".join(str(parse_sm(arch).number) for arch in archs)
        return Own(env, archs)
    return Own({}, plan.arch_list)


def _accepted(arch: str, row: CompanionSource, facts: Facts) -> str:
    """``8.6`` as a build that knows only a few architectures makes it: ``8.0``."""
    sm = parse_sm(arch.removesuffix("+PTX"))
    target = covers(GpuCode(row.targets.get("any", ())), sm, None, facts).target
    return (parse_sm(target) if target else sm).dotted
