"""The Python, the compiler and the programs of a build: whether the machine has them, and whether they are what the
plan means. The Python must be one that torch is published for and have its headers; what linked it may be gone."""

import re
import shlex
from typing import NamedTuple

from rekindle.compat.backends import platform_of
from rekindle.compat.hazards import Combination, Surroundings, machine_meets, torch_meets
from rekindle.errors import BadInput, MissingTool
from rekindle.facts import load_facts
from rekindle.host.live import ask_python
from rekindle.host.protocol import Host
from rekindle.host.text import version_key
from rekindle.interpreters.search import find_interpreter
from rekindle.model.facts import Hazard
from rekindle.model.interpreter import Interpreter
from rekindle.model.machine import Check, cpu_arch
from rekindle.model.plan import Plan
from rekindle.model.source import compiles_against_torch
from rekindle.model.version import at_least, compare, key, matches, minor
from rekindle.readiness.case import (
    TO_BOTH,
    Checks,
    ExaminedMachine,
    PlannedBuild,
    build_check,
    find_managers,
    fix_for,
    wheel_name,
)
from rekindle.readiness.cuda import find_toolkit
from rekindle.toolkits.compilers import build_compilers, find_compilers
from rekindle.toolkits.cuda import cuda_home, every_nvcc
from rekindle.toolkits.libraries import find_libc
from rekindle.toolkits.programs import Tool, bring_packages, find_cmake, find_ninja, manager_here

_ASK_TOOLS = (
    "import json,sysconfig;v=sysconfig.get_config_var;"
    "print(json.dumps({n:v(n) for n in ('CC','CXX','LDSHARED','LDCXXSHARED')}))"
)


def python_of_machine(case: ExaminedMachine) -> Checks:
    """A Python for which some torch is published; best one that the newest torch takes."""
    # Windows on Arm runs Pythons and wheels of x86-64, too.
    platform = "windows" if case.windows else platform_of(case.machine.os)
    rows = load_facts().torch.release
    pythons_of = ((version, rows[version].pythons.get(platform, ())) for version in load_facts().releases)  # type: ignore[arg-type]
    newest_first = [(version, {name.rstrip("t") for name in names}) for version, names in pythons_of if names]
    cpythons = [python for python in case.machine.pythons if (python.abi or "cp").startswith("cp")]
    usable = [python.version for python in cpythons if "32 bit" not in (python.note or "")]
    newest = sorted(newest_first[0][1], key=version_key) if newest_first else []
    want = f"{newest[0]} to {newest[-1]}" if newest else None
    fitting = ((torch, python) for torch, pythons in newest_first for python in usable if minor(python) in pythons)
    torch, python = next(fitting, (None, None))
    if python is None:
        found = next((python.version for python in case.machine.pythons), None)
        fix = case.fix("python-newer" if found else "python")
        yield Check(id="python", status="fail", needed_for=TO_BOTH, found=found, want=want, fix=fix)
    elif minor(python) in newest:
        yield Check(id="python", status="ok", needed_for=TO_BOTH, found=python, want=want)
    else:
        why, fix = f"for Python {minor(python)} the newest torch is {torch}", case.fix("python-newer")
        yield Check(id="python", status="warn", needed_for=TO_BOTH, found=python, want=want, why=why, fix=fix)


def headers_of_machine(case: ExaminedMachine) -> Checks:
    """Python.h of any Python here; Windows' installers always bring it."""
    if case.windows or not case.machine.pythons:
        return
    with_headers = [python for python in case.machine.pythons if python.note is None]
    here = f"for {with_headers[0].version}" if with_headers else None
    yield case.verdict("python-headers", here, here, want="Python.h")


def find_build_python(host: Host, python: str) -> Interpreter:
    """The Python that ``python`` (a path, a name or a version such as 3.10) means, with the headers a build needs."""
    interpreter = find_interpreter(host, python, with_headers=True)
    if interpreter.headers:
        return interpreter
    remedy = "install its development package (python3-dev or alike)"
    if host.system == "windows":
        remedy = "name a Python of python.org, winget or conda with --python; an embeddable one has no headers"
    elif (manager := manager_here(host)) is not None and manager.python_headers is not None:
        package = manager.python_headers.format(version=minor(interpreter.version))
        remedy = bring_packages(host, [package], manager)
    lacks = f"has no headers ({interpreter.include}/Python.h is missing)"
    raise BadInput(f"Python {interpreter.version} at {interpreter.path} {lacks}", remedy=remedy)


def python_for_build(host: Host, build: PlannedBuild) -> Checks:
    """The Python that builds: does it fit the release, is its linker here, and what will the wheel be called?"""
    plan = build.plan
    interpreter = find_build_python(host, build.python)
    yield build_check("python", "ok", f"{interpreter.path} {interpreter.version}, with Python.h", want=plan.python)
    yield from check_release(plan, interpreter)
    yield from check_linker(host, interpreter)
    if name := wheel_name(plan, build.tree, interpreter.tag, host):
        yield build_check("wheel", "ok", name)


def check_release(plan: Plan, interpreter: Interpreter) -> Checks:
    """``--python`` against the plan, and against what the release knows."""
    row = load_facts().release(plan.torch.split("+")[0]) if plan.project == "torch" and plan.torch else None
    if row is not None and row.requires_python and not matches(interpreter.version, row.requires_python):
        needs = f"torch {plan.torch} needs Python {row.requires_python}"
        remedy = f"uv python install {plan.python or '3.11'}"
        raise BadInput(f"{needs}, and {interpreter.path} is {interpreter.version}", remedy=remedy)
    published = [key(version) for versions in row.pythons.values() for version in versions] if row else []
    short = interpreter.short
    if published and key(short) > max(published):
        text = f"torch {plan.torch} was never published for Python {short}; its sources may not compile with it"
        yield build_check("python-release", "warn", text)
    if plan.python and plan.python != short:
        text = f"the plan is for Python {plan.python}; the wheel will be for {short}"
        yield build_check("python-version", "warn", text)


class PythonTools(NamedTuple):
    """What setuptools compiles and links extensions with unless it is told otherwise; ``missing`` are not here."""

    commands: dict[str, str]
    missing: dict[str, str]

    def overrides(self, cc: str, cxx: str) -> dict[str, str]:
        """Variables that put the build's compilers in the place of missing ones, with the same arguments."""
        words = {name: shlex.split(self.commands[name])[1:] for name in self.missing}
        return {name: shlex.join([cxx if "CXX" in name else cc, *rest]) for name, rest in words.items()}


def python_tools(host: Host, python: str) -> PythonTools:
    """Ask a Python for its compiler and linker, and look for them here."""
    answer, _ = ask_python(host, python, _ASK_TOOLS)
    commands = {name: value for name, value in (answer or {}).items() if isinstance(value, str) and value.strip()}
    programs = {name: shlex.split(value)[0] for name, value in commands.items()}
    missing = {name: path for name, path in programs.items() if host.which(path) is None and not host.glob(path)}
    return PythonTools(commands=commands, missing=missing)


def check_linker(host: Host, interpreter: Interpreter) -> Checks:
    """Python's own linker: a wheel's last step fails after everything is compiled where it is not here."""
    tools = python_tools(host, interpreter.path) if host.system != "windows" else None
    if tools is None or not tools.commands:
        return
    if not tools.missing:
        yield build_check("python-linker", "ok", tools.commands.get("LDSHARED"))
        return
    words = ", ".join(f"{name} names {program}" for name, program in sorted(tools.missing.items()))
    text = f"{words}, which is not on this machine; the build's own compiler is used instead"
    yield build_check("python-linker", "warn", text)


def compiler_of_machine(case: ExaminedMachine) -> Checks:
    """Any C++ compiler that torch is built with here."""
    kinds = "msvc" if case.windows else "gcc or clang"
    if good := build_compilers(case.machine.compilers, case.machine.os.system):
        yield build_check("compiler", "ok", f"{good[0].kind} {good[0].version}", want=kinds)
    else:
        yield build_check("compiler", "fail", want=f"a C++ compiler ({kinds})", fix=case.fix("compiler"))


def compiler_for_build(host: Host, build: PlannedBuild) -> Checks:
    """The compiler that the build will take, against the plan, its toolkit and what is known to go wrong with it."""
    plan, settings = build.plan, build.settings
    try:
        _, cxx = find_compilers(host, settings)
    except MissingTool as error:
        is_planned = "the plan's" in error.message
        fix = error.remedy if is_planned else fix_for("compiler", find_managers(host))
        yield build_check("compiler", "fail", error.message, fix=fix)
        return
    yield build_check("compiler", "ok", f"{cxx.path} {cxx.version}", want=build.recipe.compiler)
    yield from judge_compiler(host, plan, cxx)
    if "nvcc" in (toolkit := find_toolkit(host, plan, settings, cxx.path)):
        others = len(every_nvcc(host)) - 1
        which = f", the one that the plan names of {others + 1} toolkits here" if others > 0 else ""
        yield build_check("nvcc", "ok", toolkit["nvcc"] + which, want=plan.cuda)


def judge_compiler(host: Host, plan: Plan, compiler: Tool) -> Checks:
    """What is known of the compiler; nothing of one that does not tell its version (cl)."""
    assert plan.build is not None
    kind, version, path = compiler.kind, compiler.version, compiler.path
    if kind not in ("gcc", "clang"):
        return
    planned, _, number = (plan.build.compiler or "").partition("-")
    same = planned == kind and number.split(".")[0] == version.split(".")[0]
    if planned in ("gcc", "clang") and number and not same:
        text = f"the plan is for {plan.build.compiler}; {path} is {kind} {version}"
        yield build_check("compiler-version", "warn", text, want=plan.build.compiler)
    if plan.project != "torch" or not plan.torch:
        return
    # Nobody asks for the CPU's features and the cards here: what is known of those was the planner's to judge.
    machine = Surroundings(system=host.system, arch=cpu_arch(host.machine), glibc=find_libc(host)[1])
    home = cuda_home(host, {**plan.build.cmake, **plan.build.env}, plan.cuda) if plan.cuda else None
    planned_torch = Combination(
        torch=plan.torch.split("+")[0],
        backend=plan.backend,
        cuda=plan.cuda,
        rocm=plan.rocm,
        python=plan.python,
        compiler=f"{kind}-{version}",
        toolkit_folders=(home,) if home else (),
    )
    for hazard in load_facts().hazards.hazard:
        if hazard.concerns not in ("build", "both") or not (hazard.compiler or hazard.glibc):
            continue  # neither the compiler nor the C library: the planner has judged it
        # What the planned compiler is known for was the planner's to judge; here it may be another, or another machine.
        if (hazard.compiler and same) or _is_cured(hazard, plan):
            continue
        if machine_meets(hazard, machine) and torch_meets(hazard, planned_torch):
            fix = f"rekindle plan --build --torch {planned_torch.torch} --json > plan.json   # {hazard.remedy}"
            yield build_check(hazard.id, "fail" if hazard.effect == "breaks" else "warn", hazard.text, fix=fix)


def _is_cured(hazard: Hazard, plan: Plan) -> bool:
    """Has the plan done something about it?"""
    assert plan.build is not None
    settings, cure = {**plan.build.env, **plan.build.cmake}, {**hazard.env, **hazard.cmake}
    is_set = bool(cure) and all(value in settings.get(name, "") for name, value in cure.items())
    return is_set or (hazard.patch is not None and hazard.patch in plan.build.patches)


def program_of_machine(case: ExaminedMachine, *, name: str) -> Checks:
    """A program that every build starts; no CMake older than any torch 2 takes (a plan may want a newer one)."""
    minimum = load_facts().era("2.0.0").cmake_min if name == "cmake" else None
    version = case.machine.tools.get(name)
    good = version is not None and not _too_old(version, minimum)
    want = f"{minimum} or newer" if minimum else None
    yield build_check(name, "ok" if good else "fail", version, want=want, fix=None if good else case.fix(name))


def _too_old(version: str, least: str | None) -> bool:
    """One that does not say its version is given the benefit of the doubt."""
    return least is not None and version != "?" and version_key(version) < version_key(least)


def cmake_for_build(host: Host, build: PlannedBuild) -> Checks:
    """The CMake that configures: new enough for the release, and not too new for its files."""
    pins, plan = build.recipe.pins, build.plan
    if "cmake" in pins and not build.cmake:
        yield build_check("cmake", "ok", f"cmake{pins['cmake']} from the index, for this build alone")
        return
    cmake = find_cmake(host, build.cmake)
    # An extension has a build of its own: what torch's CMake wants is not asked of it.
    torch = None if compiles_against_torch(plan.project) else plan.torch
    least = load_facts().era(torch).cmake_min if torch else None
    if _too_old(cmake.version, least):
        text = f"CMake {cmake.version} is too old: torch {plan.torch} wants {least}"
        raise BadInput(text, remedy="pip install -U cmake")
    policy = "CMAKE_POLICY_VERSION_MINIMUM" in build.settings
    if torch and compare(torch, "2.8") < 0 and at_least(cmake.version, "4.0") and not policy:
        text = f"CMake {cmake.version} refuses the CMake files of torch {plan.torch}"
        raise BadInput(text, remedy="pip install 'cmake<4'")
    yield build_check("cmake", "ok", f"{cmake.path} {cmake.version}", want=least)


def ninja_for_build(host: Host, build: PlannedBuild) -> Checks:
    ninja = find_ninja(host, build.ninja)
    yield build_check("ninja", "ok", f"{ninja.path} {ninja.version}")


def ccache_of_machine(case: ExaminedMachine) -> Checks:
    """A compiler cache: nothing fails without it."""
    tools = case.machine.tools
    cache = next((f"{name} {tools[name]}" for name in ("ccache", "sccache") if tools.get(name)), None)
    why = "a second build would take as long as the first"
    yield case.verdict("ccache", cache, cache, want="ccache or sccache", why=why, bad="warn")


def msvc_environment_of_machine(case: ExaminedMachine) -> Checks:
    """Every build starts Visual Studio's batch file; it must run and find a Windows SDK."""
    newest = next((c for c in case.machine.compilers if c.kind == "msvc"), None)
    if not case.windows or newest is None:
        return
    sdk = re.search(r"Windows SDK (\d[\d.]*)", newest.note or "")
    why = next((gap.why for gap in case.gaps if gap.what in ("Visual Studio's environment", "Windows SDK")), None)
    want = "vcvars64.bat that runs and finds a Windows SDK"
    yield case.verdict("msvc-environment", sdk, f"Windows SDK {sdk[1]}" if sdk else None, want=want, why=why)
