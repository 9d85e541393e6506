"""The compiler that was found, against the plan and against what is known to go wrong with it."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.build.tools import Tool, find_compilers
from rekindle.facts import load_facts
from rekindle.host.protocol import Host
from rekindle.model.facts import Hazard
from rekindle.model.machine import Check
from rekindle.model.plan import Plan
from rekindle.model.version import matches


def check_compiler(host: Host, plan: Plan) -> Iterator[Check]:
    """Nothing is known of a compiler that does not tell its version (cl)."""
    assert plan.build is not None
    _, cxx = find_compilers(host, {**plan.build.cmake, **plan.build.env})
    kind = kind_of(host, cxx)
    if kind is None or not cxx.release:
        return
    planned, _, number = (plan.build.compiler or "").partition("-")
    same = planned == kind and number.split(".")[0] == str(cxx.release[0])
    if planned in ("gcc", "clang") and number and not same:
        yield Check(
            id="compiler-version",
            status="warn",
            needed_for=("build",),
            found=f"the plan is for {plan.build.compiler}; {cxx.path} is {kind} {cxx.version}",
            want=plan.build.compiler,
        )
    if plan.project != "torch" or not plan.torch:
        return
    glibc = glibc_of(host)
    for hazard in load_facts().hazards.hazard:
        # What the planned compiler is known for was the planner's to judge; here it may be another, or another machine.
        if not (hazard.compiler and same) and _meets(hazard, plan, kind, cxx.version, glibc, host):
            yield _told(hazard, plan)


def kind_of(host: Host, compiler: Tool) -> str | None:
    """gcc or clang, as its own banner says: ``cc`` may be either."""
    said = host.run([compiler.path, "--version"], timeout=20.0)
    banner = said.out.lower() if said.ok else ""
    if "clang" in banner:
        return "clang"
    return "gcc" if any(word in banner for word in ("gcc", "g++", "free software foundation")) else None


def glibc_of(host: Host) -> str | None:
    """As ``getconf`` says it: "glibc 2.36"."""
    said = host.run(["getconf", "GNU_LIBC_VERSION"], timeout=5.0)
    name, _, version = said.out.strip().partition(" ") if said.ok else ("", "", "")
    return version if name == "glibc" and version else None


def _meets(hazard: Hazard, plan: Plan, kind: str, version: str, glibc: str | None, host: Host) -> bool:
    """Hazards of the compiler or the C library that the plan did nothing about; the rest was the planner's to judge."""
    assert plan.build is not None and plan.torch is not None
    if hazard.concerns not in ("build", "both") or not (hazard.compiler or hazard.glibc):
        return False
    if hazard.compiler and (hazard.compiler != kind or not matches(version, hazard.compiler_version or ">=0")):
        return False
    if hazard.glibc and (glibc is None or not matches(glibc, hazard.glibc)):
        return False
    backend = "cuda" if plan.cuda else "rocm" if plan.rocm else "cpu"
    if hazard.backend and backend not in hazard.backend:
        return False
    if (hazard.os and host.system not in hazard.os) or (hazard.arch and host.machine not in hazard.arch):
        return False
    if hazard.flavour or hazard.cpu_lacks or hazard.sm or hazard.tegra is not None:
        return False
    spans = ((hazard.torch, plan.torch.split("+")[0]), (hazard.cuda, plan.cuda), (hazard.rocm, plan.rocm))
    if any(span is not None and (value is None or not matches(value, span)) for span, value in spans):
        return False
    if hazard.python and not (plan.python and matches(plan.python, hazard.python)):
        return False
    return not _cured(hazard, plan)


def _cured(hazard: Hazard, plan: Plan) -> bool:
    assert plan.build is not None
    if hazard.patch and hazard.patch in plan.build.patches:
        return True
    told = {**plan.build.env, **plan.build.cmake}
    wanted = {**hazard.env, **hazard.cmake}
    return bool(wanted) and all(value in told.get(name, "") for name, value in wanted.items())


def _told(hazard: Hazard, plan: Plan) -> Check:
    torch = (plan.torch or "").split("+")[0]
    return Check(
        id=hazard.id,
        status="fail" if hazard.effect == "breaks" else "warn",
        needed_for=("build",),
        found=hazard.text,
        fix=f"rekindle plan --build --torch {torch} --json > plan.json   # {hazard.remedy}",
    )
