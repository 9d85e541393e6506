"""The compiler that was found, against the plan and against what is known to go wrong with it."""

from __future__ import annotations

from collections.abc import Iterator

from rekindle.compat.hazards import Combination, Surroundings, machine_meets, torch_meets
from rekindle.facts import load_facts
from rekindle.host.protocol import Host
from rekindle.model.facts import Hazard
from rekindle.model.machine import Check, cpu_arch
from rekindle.model.plan import Plan
from rekindle.toolkits.compilers import find_compilers
from rekindle.toolkits.cuda import cuda_home


def check_compiler(host: Host, plan: Plan) -> Iterator[Check]:
    """Nothing is known of a compiler that does not tell its version (cl)."""
    assert plan.build is not None
    _, cxx = find_compilers(host, {**plan.build.cmake, **plan.build.env})
    kind = cxx.kind
    if kind not in ("gcc", "clang") or not cxx.release:
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
    machine, made = _surroundings(host), _combination(host, plan, f"{kind}-{cxx.version}")
    for hazard in load_facts().hazards.hazard:
        if hazard.concerns not in ("build", "both") or not (hazard.compiler or hazard.glibc):
            continue  # neither the compiler nor the C library: the planner has judged it
        # What the planned compiler is known for was the planner's to judge; here it may be another, or another machine.
        if (hazard.compiler and same) or _cured(hazard, plan):
            continue
        if machine_meets(hazard, machine) and torch_meets(hazard, made):
            yield _told(hazard, plan)


def glibc_of(host: Host) -> str | None:
    """As ``getconf`` says it: "glibc 2.36"."""
    said = host.run(["getconf", "GNU_LIBC_VERSION"], timeout=5.0)
    name, _, version = said.out.strip().partition(" ") if said.ok else ("", "", "")
    return version if name == "glibc" and version else None


def _surroundings(host: Host) -> Surroundings:
    """Nobody asks for the CPU's features and the cards here: what is known of those was the planner's to judge."""
    return Surroundings(system=host.system, arch=cpu_arch(host.machine), glibc=glibc_of(host))


def _combination(host: Host, plan: Plan, compiler: str) -> Combination:
    assert plan.build is not None and plan.torch is not None
    settings = {**plan.build.cmake, **plan.build.env}
    home = cuda_home(host, settings, plan.cuda) if plan.cuda else None
    return Combination(
        torch=plan.torch.split("+")[0],
        backend=plan.backend,
        cuda=plan.cuda,
        rocm=plan.rocm,
        python=plan.python,
        compiler=compiler,
        toolkit_folders=(home,) if home else (),
    )


def _cured(hazard: Hazard, plan: Plan) -> bool:
    """Has the plan done something about it?"""
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
