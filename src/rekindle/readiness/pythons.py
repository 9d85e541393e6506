"""The Python: one that torch is published for, its headers, and what a build with it links by."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.live import ask_python
from rekindle.host.protocol import Host
from rekindle.host.text import version_key
from rekindle.interpreters.search import find_interpreter
from rekindle.model.interpreter import Interpreter
from rekindle.model.machine import Check
from rekindle.model.plan import Plan
from rekindle.model.version import key, matches, minor
from rekindle.readiness.case import TO_BOTH, Checks, ExaminedMachine, PlannedBuild, build_check, wheel_name
from rekindle.toolkits.programs import bring_packages, manager_here

_ASK_TOOLS = (
    "import json,sysconfig;v=sysconfig.get_config_var;"
    "print(json.dumps({n:v(n) for n in ('CC','CXX','LDSHARED','LDCXXSHARED')}))"
)


def python_of_machine(case: ExaminedMachine) -> Checks:
    """A Python for which some torch is published; best one that the newest torch takes."""
    platform = {"linux": f"linux_{case.machine.os.arch}"}.get(case.machine.os.system, case.machine.os.system)
    newest_first = [(version, _pythons_of(version, platform)) for version in load_facts().releases]
    own = [python for python in case.machine.pythons if (python.abi or "cp").startswith("cp")]
    usable = [python for python in own if "32 bit" not in (python.note or "")]
    newest = next((pythons for _, pythons in newest_first if pythons), ())
    want = f"{newest[0]} to {newest[-1]}" if newest else None
    for python in usable:
        if minor(python.version) in newest:
            yield Check(id="python", status="ok", needed_for=TO_BOTH, found=python.version, want=want)
            return
    for version, pythons in newest_first:
        if old := next((python for python in usable if minor(python.version) in pythons), None):
            why = f"for Python {minor(old.version)} the newest torch is {version}"
            fix = case.fix("python-newer")
            yield Check(id="python", status="warn", needed_for=TO_BOTH, found=old.version, want=want, why=why, fix=fix)
            return
    here = case.machine.pythons[0].version if case.machine.pythons else None
    fix = case.fix("python-newer" if here else "python")
    yield Check(id="python", status="fail", needed_for=TO_BOTH, found=here, want=want, fix=fix)


def _pythons_of(version: str, platform: str) -> tuple[str, ...]:
    row = load_facts().release(version)
    published = row.pythons.get(platform, ()) if row else ()  # type: ignore[call-overload]
    return tuple(sorted({name.rstrip("t") for name in published}, key=version_key))


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
    if not interpreter.headers:
        raise BadInput(
            f"Python {interpreter.version} at {interpreter.path} has no headers"
            f" ({interpreter.include}/Python.h is missing)",
            remedy=_bring_headers(host, interpreter.version),
        )
    return interpreter


def _bring_headers(host: Host, version: str) -> str:
    """The line that installs them here."""
    if host.system == "windows":
        return "name a Python of python.org, winget or conda with --python; an embeddable one has no headers"
    manager = manager_here(host)
    if manager is None or manager.python_headers is None:
        return "install its development package (python3-dev or alike)"
    return bring_packages(host, [manager.python_headers.format(version=minor(version))], manager)


def python_for_build(host: Host, build: PlannedBuild) -> Checks:
    """The Python that builds: does it fit the release, are the compiler and linker it was made with here, and what
    will the wheel be called?"""
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
        raise BadInput(
            f"torch {plan.torch} needs Python {row.requires_python}, and {interpreter.path} is {interpreter.version}",
            remedy=f"uv python install {plan.python or '3.11'}",
        )
    published = [key(version) for versions in row.pythons.values() for version in versions] if row else []
    short = interpreter.short
    if published and key(short) > max(published):
        told = f"torch {plan.torch} was never published for Python {short}; its sources may not compile with it"
        yield build_check("python-release", "warn", told)
    if plan.python and plan.python != short:
        told = f"the plan is for Python {plan.python}; the wheel will be for {short}"
        yield build_check("python-version", "warn", told)


@dataclass(frozen=True, kw_only=True)
class PythonTools:
    """What setuptools compiles and links extensions with unless it is told otherwise; ``missing`` are not here."""

    told: dict[str, str]
    missing: dict[str, str]

    def overrides(self, cc: str, cxx: str) -> dict[str, str]:
        """Variables that put the build's compilers in the place of missing ones, with the same arguments."""
        return {
            name: shlex.join([cxx if "CXX" in name else cc, *shlex.split(self.told[name])[1:]]) for name in self.missing
        }


def python_tools(host: Host, python: str) -> PythonTools:
    """Ask a Python for its compiler and linker, and look for them here."""
    answer, _ = ask_python(host, python, _ASK_TOOLS)
    told = {name: value for name, value in (answer or {}).items() if isinstance(value, str) and value.strip()}
    programs = {name: shlex.split(value)[0] for name, value in told.items()}
    missing = {name: path for name, path in programs.items() if host.which(path) is None and not host.glob(path)}
    return PythonTools(told=told, missing=missing)


def check_linker(host: Host, interpreter: Interpreter) -> Checks:
    """Python's own linker: a wheel's last step fails after everything is compiled where it is not here."""
    tools = python_tools(host, interpreter.path) if host.system != "windows" else None
    if tools is None or not tools.told:
        return
    if not tools.missing:
        yield build_check("python-linker", "ok", tools.told.get("LDSHARED"))
        return
    words = ", ".join(f"{name} names {program}" for name, program in sorted(tools.missing.items()))
    told = f"{words}, which is not on this machine; the build's own compiler is used instead"
    yield build_check("python-linker", "warn", told)
