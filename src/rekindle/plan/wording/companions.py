"""What was found about a companion, said for people and for installers."""

from __future__ import annotations

from rekindle.compat.companions import CompanionFinding
from rekindle.compat.driver import toolkit_driver
from rekindle.compat.images import GpuCode, covers
from rekindle.facts import Facts
from rekindle.model.arch import Gfx, Sm, parse_sm
from rekindle.model.companion import CompanionFork, CompanionPackageWheel, CompanionSource
from rekindle.model.machine import Machine
from rekindle.model.plan import Companion, Plan, Request, Step
from rekindle.plan.steps import interpreter_words
from rekindle.scripts.spell import Shell, spell

__all__ = ["describe"]

CONSTRAINTS = "torch-constraints.txt"
_KEPT = ("torch", "torchvision", "torchaudio")


def describe(found: CompanionFinding, plan: Plan, machine: Machine, facts: Facts) -> Companion:
    """The answer with its reason, its command and its cost."""
    row = found.row
    env: dict[str, str] = {}
    requests: tuple[Request, ...] = ()
    if isinstance(row, CompanionPackageWheel):
        place = _place(row, plan)
        links = place if place and place.endswith(".html") else None
        name = row.name or found.package
        why = f"goes with torch {plan.torch}" if row.torch else "does not depend on the torch"
        index = place if place and not links else None
        requests = (Request(name=name, version=found.version, index=index, links=links, why=why),)
    elif isinstance(row, CompanionSource):
        env = build_env(row, plan, machine, facts)
    stand_in = found.stand_ins[0] if found.stand_ins else None
    fork = row if isinstance(row, CompanionFork) else None
    instead = fork or (stand_in if found.kind in ("none", "unknown") else None)
    return Companion(
        name=found.package,
        answer=found.kind,
        version=found.version,
        why=_why(found, plan),
        source=row.source[0] if row is not None else found.nos[0].source if found.nos else None,
        requests=requests,
        commands=_commands(found, plan, machine, env),
        env=env,
        cost=_cost(row) if isinstance(row, CompanionSource) else None,
        instead=instead.name if instead else None,
        state=instead.state if instead else None,
        url=instead.url if instead else None,
        wants=found.pulls[0] if found.pulls and found.kind != "runs" else None,
        notes=(*found.notes, *_older_driver(row, machine, facts)),
    )


def _older_driver(row: object, machine: Machine, facts: Facts) -> tuple[str, ...]:
    """A package with a toolkit of its own wants a driver of its own."""
    if not isinstance(row, CompanionPackageWheel) or row.toolkit is None or row.torch or machine.drivers.nvidia:
        return ()
    wanted = toolkit_driver(row.toolkit, "windows" if machine.os.system == "windows" else "linux", facts)
    return (f"It brings CUDA {row.toolkit}: driver {wanted.floor} or newer.",) if wanted.floor else ()


def _why(found: CompanionFinding, plan: Plan) -> str:
    row = found.row
    nos = [no.text for no in found.nos]
    if row is None and found.version:
        return f"{nos[0]} " + ("It is built with it." if found.kind == "build" else "The line for torch brings it.")
    if found.kind == "runs" and isinstance(row, CompanionPackageWheel):
        fits = f"its wheel fits torch {plan.torch}" if row.torch else "its wheel does not depend on the torch"
        card = " and has code for this card" if row.targets or row.gfx else ""
        return f"{found.package} {found.version}: {fits}{card}."
    if found.kind == "last":
        newer = nos[0] if nos else "Newer versions do not run here."
        way = "" if isinstance(row, CompanionPackageWheel) else " It must be compiled."
        return f"{found.package} {found.version} is the last that runs here. {newer}{way}"
    if found.kind == "build":
        lack = nos[0] if nos else f"There is no wheel of {found.package}."
        return f"{found.package} {found.version} compiles here. {lack}"
    if found.kind == "alternative" and isinstance(row, CompanionFork):
        lack = f" {nos[0]}" if nos else ""
        return f"{row.name}: {row.state}.{lack}"
    if not nos:
        return f"Nothing is known about {found.package} on this machine."
    return " ".join(nos)


def _place(row: CompanionPackageWheel, plan: Plan) -> str | None:
    """An index or page; one per flavour of torch names it."""
    return row.place.replace("{variant}", plan.variant or "cpu") if row.place else None


def _accepted(sm: Sm, row: CompanionSource, facts: Facts) -> Sm:
    """The architecture to name for a card: its own, or the one its code comes from where a build knows only a few."""
    targets = row.targets.get("any", ())
    if not targets:
        return sm
    target = covers(GpuCode(targets), sm, None, facts).target
    return parse_sm(target) if target else sm


def build_env(row: CompanionSource, plan: Plan, machine: Machine, facts: Facts) -> dict[str, str]:
    """What the sources of a companion are told: the cards, and what its own build needs."""
    env = dict(row.env)
    archs = [gpu.arch for gpu in machine.gpus]
    sms = sorted({arch for arch in archs if isinstance(arch, Sm)})
    gfxs = sorted({arch.name for arch in archs if isinstance(arch, Gfx)})
    if row.arch_env and plan.cuda and sms:
        chosen = sorted({_accepted(sm, row, facts) for sm in sms})
        if row.arch_form == "dotted":
            env[row.arch_env] = ";".join(sm.dotted for sm in chosen)
        else:
            numbers = ";".join(str(sm.number) for sm in chosen)
            before = f"{env[row.arch_env]} -DCMAKE_CUDA_ARCHITECTURES=" if row.arch_form == "cmake" else ""
            env[row.arch_env] = before + numbers
    elif plan.rocm and gfxs:
        env["PYTORCH_ROCM_ARCH"] = ";".join(gfxs)
    if not plan.cuda:
        env.pop("FORCE_CUDA", None)
    if row.job_gib and machine.memory_gib:
        env["MAX_JOBS"] = str(max(1, int(machine.memory_gib / row.job_gib)))
    return env


def _cost(row: CompanionSource) -> str | None:
    parts = []
    if row.minutes:
        parts.append(f"about {row.minutes[0]} to {row.minutes[1]} minutes")
    if row.job_gib:
        parts.append(f"{row.job_gib:g} GiB of memory per compiler")
    return ", ".join(parts) or None


def _commands(found: CompanionFinding, plan: Plan, machine: Machine, env: dict[str, str]) -> tuple[str, ...]:
    """Lines to paste; torch is named by a file of constraints, so that no dependency can replace it."""
    row = found.row
    if row is None:
        return ()
    system = machine.os.system or "linux"
    shell: Shell = "cmd" if system == "windows" else "sh"
    python = (*interpreter_words(plan.python, system), "-m", "pip", "install")
    if isinstance(row, CompanionFork):
        words: tuple[str, ...] = row.install
    elif isinstance(row, CompanionPackageWheel):
        name = row.name or found.package
        where = _place(row, plan)
        place = (("-f" if where.endswith(".html") else "--extra-index-url"), where) if where else ()
        words = (f"{name}=={found.version}", *row.flags, *place)
    else:
        what = f"{found.package}=={found.version}" if row.place == "pypi" else f"{found.package} @ git+{row.place}"
        words = ("--no-build-isolation", what)
    if not words:
        return ()
    pins = tuple(f"{one.name}=={one.version}" for one in plan.requests if one.name in _KEPT and one.version)
    if not pins and plan.torch:
        pins = (f"torch=={plan.torch.partition('+')[0]}",)
    steps = [Step(kind="set", env=env)] if env else []
    if isinstance(row, CompanionSource) and row.needs:
        steps.append(Step(kind="run", argv=(*python, *row.needs)))
    if pins:
        steps.insert(0, Step(kind="write", folder=CONSTRAINTS, argv=pins))
        words = ("-c", CONSTRAINTS, *words)
    steps.append(Step(kind="run", argv=(*python, *words)))
    return spell(steps, shell)
