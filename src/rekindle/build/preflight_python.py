"""The Python that builds: does it fit the release, and are the compiler and linker it was made with here?"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.protocol import Host
from rekindle.model.interpreter import Interpreter
from rekindle.model.machine import Check
from rekindle.model.plan import Plan
from rekindle.model.version import key, matches

_ASK = (
    "import json,sysconfig;v=sysconfig.get_config_var;"
    "print(json.dumps({n:v(n) for n in ('CC','CXX','LDSHARED','LDCXXSHARED')}))"
)


@dataclass(frozen=True, kw_only=True)
class PythonTools:
    """What setuptools compiles and links extensions with unless it is told otherwise; ``missing`` are not here."""

    told: dict[str, str]
    missing: dict[str, str]

    def overrides(self, cc: str, cxx: str) -> dict[str, str]:
        """Variables that put the build's compilers in the place of missing ones, with the same arguments."""
        found = {}
        for name in self.missing:
            words = shlex.split(self.told[name])
            found[name] = shlex.join([cxx if "CXX" in name else cc, *words[1:]])
        return found


def python_tools(host: Host, python: str) -> PythonTools:
    said = host.run([python, "-I", "-c", _ASK], timeout=20.0)
    try:
        answer = json.loads(said.out.strip().splitlines()[-1]) if said.ok else {}
    except (ValueError, IndexError):
        answer = {}
    told = {name: value for name, value in answer.items() if isinstance(value, str) and value.strip()}
    missing = {}
    for name, value in told.items():
        program = shlex.split(value)[0]
        if host.which(program) is None and not host.glob(program):
            missing[name] = program
    return PythonTools(told=told, missing=missing)


def check_linker(host: Host, plan: Plan, interpreter: Interpreter) -> Iterator[Check]:
    """Python's own linker: a wheel's last step fails after everything is compiled where it is not here."""
    if host.system == "windows":
        return
    found = python_tools(host, interpreter.path)
    if not found.told:
        return
    if not found.missing:
        yield Check(id="python-linker", status="ok", needed_for=("build",), found=found.told.get("LDSHARED"))
        return
    words = ", ".join(f"{name} names {program}" for name, program in sorted(found.missing.items()))
    yield Check(
        id="python-linker",
        status="warn",
        needed_for=("build",),
        found=f"{words}, which is not on this machine; the build's own compiler is used instead",
    )


def check_release(plan: Plan, interpreter: Interpreter) -> Iterator[Check]:
    """``--python`` against the plan, and against what the release knows."""
    short = interpreter.short
    row = load_facts().release(plan.torch.split("+")[0]) if plan.project == "torch" and plan.torch else None
    if row is not None and row.requires_python and not matches(interpreter.version, row.requires_python):
        raise BadInput(
            f"torch {plan.torch} needs Python {row.requires_python}, and {interpreter.path} is {interpreter.version}",
            remedy=f"uv python install {plan.python or '3.11'}",
        )
    newest = max((key(one) for ones in row.pythons.values() for one in ones), default=None) if row else None
    if newest and key(short) > newest:
        yield Check(
            id="python-release",
            status="warn",
            needed_for=("build",),
            found=f"torch {plan.torch} was never published for Python {short}; its sources may not compile with it",
        )
    if plan.python and plan.python != short:
        yield Check(
            id="python-version",
            status="warn",
            needed_for=("build",),
            found=f"the plan is for Python {plan.python}; the wheel will be for {short}",
        )
