"""A torch together with what is wanted beside it: one set of versions that fits, or what each torch would cost; and
what was found about each companion, said for people and for installers."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from rekindle.compat.companions import (
    CompanionFinding,
    No,
    TorchSurroundings,
    accepted_arch,
    find_package,
    judge,
    near_packages,
)
from rekindle.compat.driver import driver_side, toolkit_driver
from rekindle.compat.libc import libc_of
from rekindle.errors import BadInput
from rekindle.facts import PAIRED_PACKAGES, Facts, paired_companions
from rekindle.model.arch import Gfx, Sm
from rekindle.model.companion import CompanionFork, CompanionPackageWheel, CompanionSource
from rekindle.model.machine import Machine
from rekindle.model.plan import Companion, CompanionChoice, Plan, Request, Step, Wish
from rekindle.model.version import matches
from rekindle.plan.question import Question
from rekindle.plan.steps import interpreter_words
from rekindle.scripts.spell import Shell, spell

MAX_NAMES = 40
# How many other torches are tried for one set that fits.
_TRIED = 8
_WANTED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*?)\s*(?P<version>(?:[=<>!~]=?[^,]+)?)")
_GOOD = ("runs", "last", "build", "alternative")
Planner = Callable[[Wish], Plan]


class WantedCompanion(NamedTuple):
    """A package of our tables, and a condition on its version ("" for none)."""

    package: str
    version: str


def read_wanted(names: Sequence[str], facts: Facts) -> tuple[WantedCompanion, ...]:
    """Names as people write them. One that nobody knows is refused with those that look like it."""
    found: dict[str, WantedCompanion] = {}
    if len(names) > MAX_NAMES:
        raise BadInput(f"{len(names)} companions are more than {MAX_NAMES}", remedy="ask for fewer at once")
    for text in names:
        match = _WANTED.fullmatch(text.strip())
        if match is None:
            raise BadInput(
                f"--with {text!r} is no package", remedy="for example --with xformers,triton or xformers==0.0.30"
            )
        package = find_package(match["name"], facts)
        if package is None:
            near = near_packages(match["name"], facts)
            known = ", ".join(sorted(facts.beside.package))
            hint = f"did you mean {' or '.join(near)}?" if near else f"our tables know {known}"
            raise BadInput(f"nothing is known here about {match['name']}", remedy=hint)
        version = match["version"].replace(" ", "")
        before = found.get(package)
        if before is not None and before.version != version:
            raise BadInput(
                f"{package} is wanted as {before.version or 'any version'} and as {version or 'any version'}",
                remedy="name it once",
            )
        found[package] = WantedCompanion(package, version)
    return tuple(found.values())


def plan_companions(machine: Machine, wish: Wish, facts: Facts, planner: Planner) -> Plan:
    """The plan for ``wish`` with its companions judged; where the torch is free, one that serves most of them."""
    wanted = read_wanted(wish.beside, facts)
    alone = msgspec.structs.replace(wish, beside=())
    first = planner(alone)
    tried = [(first, _together(_judged(first, machine, wish, wanted, facts), wanted, facts))]
    for torch in _worth_trying(tried[0][1], first, wish, facts):
        try:
            other = planner(msgspec.structs.replace(alone, torch=torch))
        except BadInput:
            continue  # the tree to build from is of another release
        if other.answer != "none" and other.as_asked:
            tried.append((other, _together(_judged(other, machine, wish, wanted, facts), wanted, facts)))
    best, found = max(tried, key=lambda one: _worth(one[1])) if wish.torch is None else tried[0]
    # A torch from source instead of a wheel is no price to pay for a companion.
    if first.answer == "install" and best.answer != "install":
        best, found = tried[0]
    choices = tuple(_choice(plan, judged, plan is best) for plan, judged in tried)
    if len({choice.gives for choice in choices}) < 2:
        choices = ()
    companions = tuple(describe(one, best, machine, facts) for one in found)
    return msgspec.structs.replace(best, companions=companions, choices=choices)


def _together(
    found: Sequence[CompanionFinding], wanted: Sequence[WantedCompanion], facts: Facts
) -> tuple[CompanionFinding, ...]:
    """Each in the version that another of them asks for, where one does: else the installer refuses the set. Of two
    that ask for different ones, the first named stays: no environment holds both."""
    asked = {
        one.package: (one.version.removeprefix("=="), "the wish") for one in wanted if one.version.startswith("==")
    }
    goes: list[CompanionFinding] = []
    for one in found:
        brings = _brings(one, facts)
        clash = next((name for name, version in brings.items() if asked.get(name, (version,))[0] != version), None)
        if clash is None or one.row is None:
            asked |= {name: (version, one.package) for name, version in brings.items()}
        else:
            text = (
                f"{one.package} {one.version} asks for {clash} {brings[clash]}, and {asked[clash][1]} for"
                f" {asked[clash][0]}: no environment holds both, so make one for each."
            )
            one = CompanionFinding(one.package, "none", nos=(No("version", text, one.row.source[0]),))
        goes.append(one)
    return tuple(
        one._replace(
            version=asked[one.package][0], notes=(*one.notes, f"In the version that {asked[one.package][1]} asks for.")
        )
        if one.version and asked.get(one.package, ("", "the wish"))[1] != "the wish"
        else one
        for one in goes
    )


def _brings(found: CompanionFinding, facts: Facts) -> dict[str, str]:
    """What it asks for in one version; its sources ask for what the wheel made of them does."""
    if isinstance(found.row, CompanionPackageWheel):
        return found.row.brings
    wheels = facts.beside.wheel if isinstance(found.row, CompanionSource) else ()
    return next((row.brings for row in wheels if (row.package, row.version) == (found.package, found.version)), {})


def with_all_companions(plan: Plan, machine: Machine, wish: Wish, facts: Facts) -> Plan:
    """The plan as it is, with every package of the tables judged beside its torch."""
    wanted = tuple(WantedCompanion(package, "") for package in facts.beside.package)
    found = _judged(plan, machine, wish, wanted, facts)
    return msgspec.structs.replace(plan, companions=tuple(describe(one, plan, machine, facts) for one in found))


def surroundings(plan: Plan, machine: Machine, wish: Wish, facts: Facts) -> TorchSurroundings:
    """What a companion meets beside the torch of a plan."""
    question = Question(machine, wish, facts)
    backend = "cuda" if plan.cuda else "rocm" if plan.rocm else "cpu" if plan.variant == "cpu" else question.backend
    libc = libc_of(machine.os, facts)
    return TorchSurroundings(
        torch=plan.torch,
        cuda=plan.cuda,
        rocm=plan.rocm,
        python=plan.python,
        platform=question.platform,
        system=machine.os.system or "linux",
        glibc=libc.version if libc is not None and libc.kind == "glibc" else None,
        backend=backend,
        cards=tuple(gpu.arch for gpu in question.usable_gpus or machine.gpus if gpu.arch is not None),
        driver=machine.drivers.nvidia,
        side=driver_side(machine.os),
    )


def _judged(
    plan: Plan, machine: Machine, wish: Wish, wanted: Sequence[WantedCompanion], facts: Facts
) -> list[CompanionFinding]:
    at = surroundings(plan, machine, wish, facts)
    return [
        _pair(one.package, plan, at, facts)
        if one.package in PAIRED_PACKAGES and not one.version
        else judge(one.package, at, facts, version=one.version)
        for one in wanted
    ]


def _pair(package: str, plan: Plan, at: TorchSurroundings, facts: Facts) -> CompanionFinding:
    """torchvision and torchaudio belong to one torch each; a torch from source gets them from source."""
    release = (plan.torch or "").partition("+")[0]
    torch = next((one for one in plan.requests if one.name == "torch"), None)
    pypi = torch is not None and torch.index is None
    answers = paired_companions(facts, release, plan.variant or "cpu", at.platform, plan.python or "", pypi=pypi)
    one = next(each for each in answers if each.package == package)
    source = one.source[0] if one.source else "the tables of torch releases"
    if plan.answer == "none" or one.version is None:
        why = one.why or f"There is no torch for this machine that {package} could stand beside."
        return CompanionFinding(package, "none" if one.exists is False else "unknown", nos=(No("torch", why, source),))
    said = f"{package} {one.version} is the one made for torch {release}."
    if plan.answer == "build":
        return CompanionFinding(package, "build", one.version, nos=(No("torch", said, source),))
    if one.exists:
        return CompanionFinding(package, "runs", one.version, nos=(No("torch", said, source),))
    why = one.why or f"Whether {package} {one.version} has a wheel is not known."
    return CompanionFinding(package, "none" if one.exists is False else "unknown", nos=(No("torch", why, source),))


def _worth_trying(found: Sequence[CompanionFinding], first: Plan, wish: Wish, facts: Facts) -> list[str]:
    """Torch releases that a companion asks for: the newest that satisfies each of their conditions."""
    pulls = [pull for one in found if one.kind not in ("runs",) for pull in one.pulls]
    chosen: list[str] = []
    for pull in dict.fromkeys(pulls):
        fitting = [version for version in facts.releases if matches(version, pull)]
        fitting = [version for version in fitting if wish.torch is None or not matches(version, wish.torch)]
        chosen += [version for version in fitting[:1] if version != first.torch and version not in chosen]
    return chosen[:_TRIED]


def _worth(found: Sequence[CompanionFinding]) -> tuple[int, int]:
    return sum(one.kind in _GOOD for one in found), sum(one.kind in ("runs", "last") for one in found)


def _choice(plan: Plan, found: Sequence[CompanionFinding], taken: bool) -> CompanionChoice:
    gives = [f"{one.package} {one.version}" if one.version else one.package for one in found if one.kind in _GOOD]
    costs = [f"no {one.package}" for one in found if one.kind not in _GOOD]
    costs += [f"{one.package} from source" for one in found if one.kind == "build"]
    if plan.answer in ("build", "graft"):
        costs.append("torch from source" if plan.answer == "build" else "torch grafted")
    return CompanionChoice(
        answer=plan.answer, torch=plan.torch, variant=plan.variant, gives=tuple(gives), costs=tuple(costs), taken=taken
    )


CONSTRAINTS = "torch-constraints.txt"
_KEPT = ("torch", "torchvision", "torchaudio")


def describe(found: CompanionFinding, plan: Plan, machine: Machine, facts: Facts) -> Companion:
    """The answer with its reason, its command and its cost."""
    row = found.row
    env: dict[str, str] = {}
    requests: tuple[Request, ...] = ()
    comes_along = isinstance(row, CompanionPackageWheel) and row.with_torch
    if isinstance(row, CompanionPackageWheel) and not comes_along:
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
        version=None if comes_along else found.version,
        why=_why(found, plan),
        source=row.source[0] if row is not None else found.nos[0].source if found.nos else None,
        requests=requests,
        commands=() if comes_along else _commands(found, plan, machine, env),
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


def _place(row: CompanionPackageWheel, plan: Plan) -> str | None:
    """An index or page; one per flavour of torch names it."""
    return row.place.replace("{variant}", plan.variant or "cpu") if row.place else None


def _why(found: CompanionFinding, plan: Plan) -> str:
    row = found.row
    nos = [no.text for no in found.nos]
    if row is None and found.version:
        return f"{nos[0]} " + ("It is built with it." if found.kind == "build" else "The line for torch brings it.")
    if found.kind == "runs" and isinstance(row, CompanionPackageWheel):
        if row.with_torch:
            return f"{found.package} comes with torch {plan.torch}, made for it."
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


def build_env(row: CompanionSource, plan: Plan, machine: Machine, facts: Facts) -> dict[str, str]:
    """What the sources of a companion are told: the cards, and what its own build needs."""
    env = dict(row.env)
    archs = [gpu.arch for gpu in machine.gpus]
    sms = sorted({arch for arch in archs if isinstance(arch, Sm)})
    gfxs = sorted({arch.name for arch in archs if isinstance(arch, Gfx)})
    if row.arch_env and plan.cuda and sms:
        chosen = sorted({accepted_arch(sm, row, facts) for sm in sms})
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


def _fork_words(row: CompanionFork, plan: Plan) -> tuple[str, ...]:
    """What pip is told to install; the name of a ready wheel takes the torch, CUDA and Python of the plan."""
    abi = (plan.python or "").replace(".", "")
    torch = ".".join((plan.torch or "").split(".")[:2])
    cuda = (plan.cuda or "").replace(".", "")
    return tuple(word.format(torch=torch, cuda=cuda, python=abi.removesuffix("t"), abi=abi) for word in row.install)


def _commands(found: CompanionFinding, plan: Plan, machine: Machine, env: dict[str, str]) -> tuple[str, ...]:
    """Lines to paste; torch is named by a file of constraints, so that no dependency can replace it."""
    row = found.row
    if row is None:
        return ()
    system = machine.os.system or "linux"
    shell: Shell = "cmd" if system == "windows" else "sh"
    python = (*interpreter_words(plan.python, system), "-m", "pip", "install")
    words: tuple[str, ...]
    if isinstance(row, CompanionFork):
        words = _fork_words(row, plan)
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
