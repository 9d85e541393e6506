"""What compiles against torch: torchvision, torchaudio, flash-attn, anybody's own; and its torch, the planned one.

An extension is known by what it says: a setup.py that uses ``torch.utils.cpp_extension``, or CMake that finds Torch. A
plan for torch is also a plan for it: the same compiler, toolkit and architectures, in the words of its own setup.py
(from the tables of companions, else what every such build understands). It is compiled against the wheel that the
workspace holds, or what the plan pins; any other torch (pip would take the newest) gives libraries that do not load.
"""

import platform
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import msgspec
from packaging.utils import canonicalize_name, parse_wheel_filename

from rekindle.build.environment import NAMES
from rekindle.compat.companions import accepted_arch
from rekindle.compat.resources import rows_for
from rekindle.errors import BadInput
from rekindle.facts import PAIRED_PACKAGES, load_facts
from rekindle.host.files import read_head, sha256_of
from rekindle.host.live import ask_python
from rekindle.host.protocol import Host
from rekindle.host.text import text_of
from rekindle.interpreters.environment import TargetPython
from rekindle.interpreters.packages import ask_contents
from rekindle.interpreters.search import ask_interpreter
from rekindle.model.arch import parse_sm
from rekindle.model.build import Fact
from rekindle.model.interpreter import Interpreter
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree, compiles_against_torch
from rekindle.model.version import compare, flavour_name, minor, pin_requirement, same_prefix
from rekindle.readiness.cuda import LIBRARY_FOLDERS
from rekindle.scripts.quoting import paste_with, pasted
from rekindle.toolkits.cuda import cuda_home

# A toolkit may be the compiler alone.
_OF_A_WHOLE_TOOLKIT = ("libcudart", "libcublas")
_USES_TORCH = re.compile(r"cpp_extension|CUDAExtension|CppExtension")
_FINDS_TORCH = re.compile(r"find_package\s*\(\s*Torch\b", re.IGNORECASE)
# What torch.utils.cpp_extension and the setup.py of most extensions understand.
SWITCHES = {"cpu": {"FORCE_CUDA": "0"}, "cuda": {"FORCE_CUDA": "1"}, "rocm": {"FORCE_CUDA": "1"}}
# The flavours in the names of pytorch.org's wheels.
_PUBLISHED = re.compile(r"cpu|xpu|cu\d+|rocm[\d.]+")
_PROBE = (
    "import json,torch;print(json.dumps({'version':torch.__version__,'cuda':torch.version.cuda,"
    "'rocm':getattr(torch.version,'hip',None)}))"
)


class Extension(NamedTuple):
    """As its tree calls it."""

    name: str
    version: str


def find_extension(root: Path) -> Extension | None:
    """Name and version of a tree that compiles against torch; None for any other."""
    setup, project = _read_text(root / "setup.py"), _read_text(root / "pyproject.toml")
    by_cmake = bool(_FINDS_TORCH.search(_read_text(root / "CMakeLists.txt"))) and bool(setup or project)
    if not _USES_TORCH.search(setup) and not by_cmake:
        return None
    info = r"(?m)^{}:[ \t]*(\S+)[ \t\r]*$"
    quoted = r"(?<!\w){}\s*=\s*['\"]([A-Za-z0-9][A-Za-z0-9._+-]*)['\"]"

    def first(*ways: tuple[str, str, str]) -> str | None:
        matches = (re.search(form.format(name), text) for text, form, name in ways)
        return next((match[1] for match in matches if match), None)

    pkg_info = _read_text(root / "PKG-INFO")
    name = first((pkg_info, info, "Name"), (setup, quoted, "name"), (project, quoted, "name")) or root.name
    own = ((setup, quoted, "__version__"), (setup, quoted, "version"), (project, quoted, "version"))
    version = first((pkg_info, info, "Version"), *own) or "0"
    plain = str(canonicalize_name(re.sub(r"[^A-Za-z0-9._-]", "-", name)[:80]))
    return Extension(plain, version if version[:1].isdigit() else "0")


def finds_torch(root: Path) -> bool:
    """Does its build read torch's own CMake files? A setup.py that uses cpp_extension leaves CMake alone."""
    if _USES_TORCH.search(_read_text(root / "setup.py")):
        return False
    files = [root / "CMakeLists.txt", *sorted(root.glob("cmake/*.cmake"))[:100]]
    return any(_FINDS_TORCH.search(_read_text(path)) for path in files)


def _read_text(path: Path) -> str:
    return text_of(read_head(path)) if path.is_file() else ""


class Torch(NamedTuple):
    """What is known of a torch: release, flavour and the Python it is for."""

    release: str | None = None
    flavour: str | None = None
    python: str | None = None


def torch_in(against: str | None) -> Torch:
    """What an extension is compiled against: a wheel's path, or ``torch==2.6.0+cpu``."""
    if not against or not against.endswith(".whl"):
        return _read_torch((against or "").partition("==")[2], None)
    try:
        _, version, _, tags = parse_wheel_filename(Path(against).name)
    except ValueError:
        return Torch()
    match = re.fullmatch(r"cp(\d)(\d+)", next(iter(tags)).interpreter)
    return _read_torch(str(version), f"{match[1]}.{match[2]}" if match else None)


def torch_of(host: Host, python: str) -> Torch:
    """The torch that a Python has, by its metadata; nothing is imported."""
    interpreter = ask_interpreter(host, python)
    contents = ask_contents(host, python)
    if (version := contents.versions.get("torch")) is None:
        raise BadInput(f"{python} has no torch", remedy=f"{python} -m pip install torch, or --against torch==2.6.0")
    # The wheels of PyPI leave the flavour out of their name, and tell it in their version.py.
    return _read_torch((contents.torch or {}).get("__version__") or version, interpreter.short)


def _read_torch(text: str, python: str | None) -> Torch:
    release, _, flavour = text.partition("+")
    is_flavour = flavour == "cpu" or flavour.startswith(("cu", "rocm"))
    return Torch(release or None, flavour if is_flavour else None, python)


def package_settings(project: str, version: str, plan: Plan, platform: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """The switches of a known package for this plan's cards, from the tables (none for an unknown package), and the
    architectures its wheel will hold."""
    facts = load_facts()
    kind = plan.backend
    for row in facts.packages.source:
        if row.package != project or kind not in row.backends or platform not in row.platforms:
            continue
        if version != "0" and not compare(row.since or row.version, version) <= 0 <= compare(row.version, version):
            continue
        env = {name: value for name, value in row.env.items() if name != "FORCE_CUDA"}
        archs = plan.arch_list
        if plan.cuda and row.targets:
            # 8.6 as a build that knows only a few architectures makes it: 8.0.
            sms = (parse_sm(arch.removesuffix("+PTX")) for arch in plan.arch_list)
            archs = tuple(dict.fromkeys(accepted_arch(sm, row, facts).dotted for sm in sms))
        if row.arch_env and plan.cuda and archs and row.arch_form == "number":
            env[row.arch_env] = ";".join(str(parse_sm(arch).number) for arch in archs)
        return env, archs
    return {}, plan.arch_list


def plan_for(plan: Plan, tree: SourceTree) -> Plan:
    """The plan rewritten for the tree of a companion or of any extension; other plans as they are."""
    if not compiles_against_torch(tree.project) or plan.project != "torch" or plan.build is None:
        return plan
    _refuse_other_release(plan, tree)
    row = next((row for row in load_facts().supply.switches if row.project == tree.project), None)
    passed_on = (*NAMES.shared, *(row.own if row else ()))
    env = {name: value for name, value in plan.build.env.items() if name in passed_on}
    switches: dict[str, str] = getattr(row, plan.backend) if row else SWITCHES[plan.backend]
    arm = platform.machine().lower() in ("aarch64", "arm64")
    system = "windows" if sys.platform == "win32" else "linux_aarch64" if arm else "linux_x86_64"
    own_env, archs = package_settings(tree.project, tree.version, plan, system)
    release = (plan.torch or load_facts().releases[0]).split("+")[0]
    unfetched = {row.switch: "0" for row in rows_for(tree.project, release, load_facts().supply.download)}
    env = {**unfetched, **env, **switches, **own_env}
    if plan.cuda and plan.arch_list:
        env.setdefault("TORCH_CUDA_ARCH_LIST", ";".join(plan.arch_list))
    if plan.torch:
        # Both write it into their metadata; another torch would not load them.
        env["PYTORCH_VERSION"] = plan.torch.split("+")[0]
    pins = {name: pin for name, pin in plan.build.pins.items() if name in ("setuptools", "wheel", "numpy", "torch")}
    passed = {name: getattr(plan.build, name) for name in ("origin", "compiler", "toolchain", "memory_gib")}
    arch_list = archs if plan.build.arch_list else ()
    recipe = BuildRecipe(source=tree.project, env=env, pins={"ninja": "", **pins}, arch_list=arch_list, **passed)
    return msgspec.structs.replace(plan, project=tree.project, build=recipe, arch_list=archs)


def _refuse_other_release(plan: Plan, tree: SourceTree) -> None:
    row = load_facts().release(plan.torch or "")
    paired = getattr(row, tree.project, None) if row else None
    if paired and tree.version[:1].isdigit() and paired.split(".")[:2] != tree.version.split(".")[:2]:
        why = f"the plan is for torch {plan.torch}, whose {tree.project} is {paired}, but {tree.root} is {tree.version}"
        remedy = f"rekindle source fetch --project {tree.project} --release {paired}"
        raise BadInput(why, remedy=f"{remedy}   # or plan for the torch that {tree.version} belongs to")


def with_settings(plan: Plan, settings: Mapping[str, str]) -> Plan:
    """The plan with switches given by hand, which win over its own and over its asserts."""
    if plan.build is None or not settings:
        return plan
    asserts = {name: value for name, value in plan.build.asserts.items() if name not in settings}
    recipe = msgspec.structs.replace(plan.build, env={**plan.build.env, **settings}, asserts=asserts)
    return msgspec.structs.replace(plan, build=recipe)


def torch_requirement(plan: Plan, wheels: Path, interpreter: Interpreter, against: str | None = None) -> str:
    """What pip installs as torch: what was given, the plan's pin, else the newest fitting wheel of the workspace."""
    assert plan.build is not None
    if against:
        return _pin_wheel(Path(against)) if against.endswith(".whl") else against
    if pin := plan.build.pins.get("torch"):
        return pin_requirement("torch", pin)
    files = wheels.glob(f"torch-{plan.torch or ''}*-{interpreter.tag.removesuffix('t')}-{interpreter.tag}-*.whl")
    newest = max(files, key=lambda path: path.stat().st_mtime, default=None)
    if newest is None:
        named = f"--project {plan.project}" if plan.project in PAIRED_PACKAGES else plan.project
        why = f"{plan.project} is compiled against torch {plan.torch or ''}, and {wheels} has no wheel of it for"
        remedy = f"rekindle build {named} --against torch=={plan.torch or '2.6.0'}"
        remedy += "   # a published one; or build torch first"
        raise BadInput(f"{why} Python {interpreter.version}", remedy=remedy)
    return _pin_wheel(newest)


def _pin_wheel(wheel: Path) -> str:
    """A wheel as a requirement, with its digest: another build of the same version gets a new environment."""
    if not wheel.is_file():
        raise BadInput(f"there is no wheel {wheel}", remedy="--against takes a torch's file, or torch==2.6.0")
    return f"torch @ {wheel.absolute().as_uri()}#sha256={sha256_of(wheel)}"


def exact_pin(torch: Fact) -> str | None:
    """The version that the metadata must name where the torch is no published one (ours, a distribution's): the
    published one of that number may have another C++ ABI (PyPI's up to 2.6 for Linux had), and would not load what was
    compiled against this one."""
    version = torch.found.split(" ")[0] if torch.found else ""
    local = version.partition("+")[2]
    return version if local and not _PUBLISHED.fullmatch(local) else None


def check_torch(host: Host, target: TargetPython, plan: Plan, say: Callable[[str], None] | None = None) -> Fact:
    """The torch that is really there, against the plan; raises where the extension could not load with it. One without
    GPU code loads beside a torch that has some (PyPI's for Linux has); not the reverse."""
    answer, why = ask_python(host, target.python, _PROBE, timeout=120.0)
    if answer is None:
        raise BadInput(f"the torch in {target.python} cannot be imported: {why}", remedy="repair torch first")
    planned = {"version": plan.torch, "cuda": plan.cuda, "rocm": plan.rocm}
    actual = {key: str(value) if value else None for key, value in answer.items()}
    release = (actual["version"] or "").split("+")[0]
    plan_is_for_cpu = not (plan.cuda or plan.rocm)
    # Of a toolkit two numbers count.
    kits, here = ([(torch[kit] or "").split(".")[:2] for kit in ("cuda", "rocm")] for torch in (planned, actual))
    if (plan.torch and plan.torch.split("+")[0] != release) or not (plan_is_for_cpu or kits == here):
        flavour = flavour_name(actual["cuda"], minor(actual["rocm"]) if actual["rocm"] else None)
        why = f"{plan.project} was planned for torch {_words(planned)}, but the torch in {target.python}"
        remedy = (
            f"rekindle plan --build --torch {release} --variant {flavour} --json > plan.json, then the same command"
        )
        remedy += " with --plan plan.json; or build the planned torch first"
        raise BadInput(f"{why} is {_words(actual)}", remedy=remedy)
    if plan_is_for_cpu and (actual["cuda"] or actual["rocm"]) and say:
        say(f"{plan.project} gets no GPU code: the plan is for the CPU, torch is {_words(actual)}")
    return Fact(name="torch", wanted=_words(planned), found=_words(actual), ok=True, where="asked of the target Python")


def _words(torch: dict[str, str | None]) -> str:
    kind = f"CUDA {torch['cuda']}" if torch["cuda"] else f"ROCm {torch['rocm']}" if torch["rocm"] else "CPU"
    return f"{torch['version'] or 'of any version'} ({kind})"


def toolkit_for_cmake(host: Host, plan: Plan, torch: Fact, root: Path) -> str | None:
    """CMake files of a torch with CUDA want a whole toolkit found, even where nothing is compiled for it: its place, so
    that it is named; None where none is wanted, or the plan's own is."""
    found = torch.found or ""
    if plan.build is None or plan.cuda or plan.rocm or "(CUDA " not in found or not finds_torch(root):
        return None
    if (home := cuda_home(host, {**plan.build.cmake, **plan.build.env}, plan.cuda)) and all(
        any(host.glob(str(PurePosixPath(home, folder, f"{name}*"))) for folder in LIBRARY_FOLDERS)
        for name in _OF_A_WHOLE_TOOLKIT
    ):
        return home
    # Of the one that is there: a plan may leave its release open.
    release = found.partition(" ")[0].partition("+")[0]
    rows = load_facts().wheels.flavour
    index = next((row.index for row in rows if row.name == "cpu" and row.index and same_prefix(release, row.torch)), "")
    env = {"PIP_EXTRA_INDEX_URL": index} if index else {}
    line = paste_with(env, f"rekindle build --source {pasted(str(root))} --against torch=={release}+cpu")
    why = f"{plan.project}'s CMake reads torch's own CMake files, and those of torch {found} stop where there is"
    end = "no CUDA toolkit with its libraries, for a CPU build too"
    raise BadInput(f"{why} {end}", remedy=f"install the toolkit, or: {line}")
