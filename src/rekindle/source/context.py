"""What the machine and the plan say about the build a tree is meant for, and the patches it needs for that.

What the caller gives wins, then the plan, then what the tools on PATH answer. What nobody says stays unknown.
"""

import difflib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from rekindle.compat.resources import parts_for
from rekindle.errors import BadInput
from rekindle.host.protocol import Host
from rekindle.host.text import version_in
from rekindle.interpreters.packages import ask_contents
from rekindle.interpreters.search import ask_interpreter, usual_python
from rekindle.model.plan import Plan
from rekindle.source.patches import Choice, choose, load_patches
from rekindle.source.patches.header import ABSENT, Condition, Context
from rekindle.source.tree import is_ours
from rekindle.toolkits.compilers import newest_compiler, read_banner
from rekindle.toolkits.cuda import nvcc_release
from rekindle.toolkits.libraries import find_libc, system_kind, system_version
from rekindle.toolkits.rocm import hip_release


def gather(
    host: Host,
    root: Path,
    version: str,
    *,
    plan: Plan | None = None,
    python: str | None = None,
    given: Mapping[str, str | None] | None = None,
) -> Context:
    """All that patches may ask about this tree and what will build it."""
    from concurrent.futures import ThreadPoolExecutor

    interpreter = python or usual_python(host)
    # Each question starts a program; together they take as long as the slowest.
    with ThreadPoolExecutor(max_workers=6) as asking:
        answers = {
            "cmake": asking.submit(lambda: version_in(host.run(["cmake", "--version"]).out)),
            "compiler": asking.submit(find_compiler, host),
            "glibc": asking.submit(lambda: find_libc(host)[1] if host.system == "linux" else ABSENT),
        }
        groups = [asking.submit(_accelerators, host), asking.submit(_python, host, interpreter)]
    # Of the system's libraries those count that take the place of a submodule; a submodule fits its tree.
    rows = {row.name: row for row in parts_for(version) if is_ours(root, row.folder)}
    facts: dict[str, str | None] = {
        "version": version,
        "os": host.system,
        "arch": host.machine,
        "policy-minimum": host.env.get("CMAKE_POLICY_VERSION_MINIMUM"),
        "fmt": system_version(host, rows["fmt"]) if "fmt" in rows else ABSENT,
        "cpuinfo": system_kind(host, rows["cpuinfo"]) if "cpuinfo" in rows else ABSENT,
        **{key: answer.result() for key, answer in answers.items()},
    }
    for group in groups:
        facts.update(group.result())
    facts.update({key: value for key, value in from_plan(plan).items() if value is not None})
    facts.update({key: value for key, value in (given or {}).items() if value is not None})
    return Context(facts, root)


def from_plan(plan: Plan | None) -> dict[str, str | None]:
    """The Python of a build brings its own setuptools and NumPy, so those of this machine do not count."""
    if plan is None or plan.answer != "build" or plan.build is None:
        return {"python": plan.python} if plan else {}
    recipe = plan.build
    facts: dict[str, str | None] = {
        "python": plan.python,
        "cuda": plan.cuda or ABSENT,
        "rocm": plan.rocm or ABSENT,
        "cudnn": plan.cudnn,
        "backend": plan.backend,
        "policy-minimum": (recipe.env | recipe.cmake).get("CMAKE_POLICY_VERSION_MINIMUM"),
    }
    if recipe.compiler:
        facts["compiler"] = recipe.compiler.replace("-", " ")
    for name in recipe.pins.keys() & {"setuptools", "numpy", "cmake"}:
        # Only an upper bound says which version it will be; ">=1.26" may bring anything newer.
        if upper := re.search(r"<\s*(\d+(?:\.\d+)*)", recipe.pins[name]):
            facts[name] = _just_below(upper[1])
        elif exact := re.search(r"==\s*(\d+(?:\.\d+)*)", recipe.pins[name]):
            facts[name] = exact[1]
    return facts


def forecast(build: Plan, *, system: str, arch: str | None = None, glibc: str | None = None) -> tuple[str, ...]:
    """The patches that torch's sources will need for this build, before there is a tree: those sure from version and
    tools alone. Patches of submodules hang on what is checked out there; ``source patch`` decides on them later."""
    facts = {"version": str(build.torch).split("+")[0], "os": system, "arch": arch, "glibc": glibc}
    facts |= {"fmt": ABSENT, "cpuinfo": ABSENT, "place": "plain"}
    context = Context(facts | from_plan(build))

    def is_sure(block: tuple[Condition, ...]) -> bool:
        if any(condition.path.startswith("third_party/") for condition in block):
            return False
        return all(condition.holds(context) is True for condition in block if condition.key != "file")

    return tuple(patch.id for patch in load_patches("torch") if any(map(is_sure, patch.applies)))


def find_compiler(host: Host) -> str | None:
    """The C++ compiler a build would take, as "gcc 13.2.0"."""
    name = host.env.get("CXX") or ("cl" if host.system == "windows" else "c++")
    done = host.run([name.split()[0], "--version"] if name != "cl" else ["cl"])
    if banner := read_banner(done.out + done.err):
        kind, version = banner
        return f"clang-cl {version}" if kind == "clang" and "clang-cl" in name else f"{kind} {version}"
    # None under a plain name, but perhaps one under its own: g++-11.
    other = None if host.env.get("CXX") else newest_compiler(host)
    return f"{other.kind} {other.version}" if other else None


def _accelerators(host: Host) -> dict[str, str | None]:
    """Without a compiler for it on PATH a build has no such backend, unless the plan or the caller says so."""
    nvcc = nvcc_release(host, "nvcc") if host.which("nvcc") else None
    hip = hip_release(host, "hipcc") if host.which("hipcc") else None
    return {"cuda": nvcc or ABSENT, "rocm": hip or ABSENT, "backend": "cuda" if nvcc else "rocm" if hip else "cpu"}


def _python(host: Host, python: str | None) -> dict[str, str | None]:
    try:
        interpreter = ask_interpreter(host, python or "")
        held = ask_contents(host, interpreter.path, isolated=False).versions
    except BadInput:
        return {}
    # A package that is not installed now will be whatever pip brings: unknown, not absent.
    return {"python": interpreter.version, "setuptools": held.get("setuptools"), "numpy": held.get("numpy")}


def _just_below(version: str) -> str:
    """A version that "<version" admits: 74 → 73.999."""
    parts = [int(part) for part in version.split(".")]
    while parts and not parts[-1]:
        parts.pop()
    return ".".join(map(str, [*parts[:-1], parts[-1] - 1, 999])) if parts else "0"


def choose_for(
    root: Path, project: str, context: Context, *, only: Sequence[str] = (), folder: Path | None = None
) -> tuple[Choice, ...]:
    """Every patch with its verdict; ``only`` names those to take, whatever their conditions say."""
    patches = load_patches(project)
    if folder is not None:
        if not folder.is_dir():
            raise BadInput(f"{folder} is not a directory of patches", remedy="give it with --patches DIR")
        if not (own := load_patches(project, folder)):
            raise BadInput(f"{folder} holds no *.patch file")
        taken = {patch.id for patch in own}
        patches = (*(patch for patch in patches if patch.id not in taken), *own)
    if not only:
        return choose(patches, context)
    known = {patch.id for patch in patches}
    for name in (name for name in only if name not in known):
        near = difflib.get_close_matches(name, known)
        remedy = f"did you mean {near[0]}?" if near else "'rekindle source status -v' lists them"
        raise BadInput(f"there is no patch {name!r} for {project}", remedy=remedy)
    return tuple(
        Choice(patch, "needed", "named") if patch.id in only else Choice(patch, "not-needed", "not named")
        for patch in patches
    )
