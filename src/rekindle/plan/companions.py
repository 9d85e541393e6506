"""A torch with the packages wanted beside it: one set that fits, or what each torch would cost; words and commands."""

import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from rekindle.compat import companions as known
from rekindle.compat.companions import CompanionFinding, No, TorchSurroundings
from rekindle.compat.driver import toolkit_driver
from rekindle.errors import BadInput
from rekindle.facts import PAIRED_PACKAGES, Facts, paired_companions
from rekindle.model.arch import Gfx, Sm
from rekindle.model.companion import CompanionFork, CompanionPackageWheel, CompanionSource
from rekindle.model.document import shared_fields
from rekindle.model.machine import Machine
from rekindle.model.plan import Companion, CompanionChoice, Plan, Request, Step, Wish
from rekindle.model.version import matches
from rekindle.plan.question import Question
from rekindle.plan.steps import interpreter_words
from rekindle.scripts.quoting import Shell, spell

MAX_NAMES = 40
# How many other torches are tried for one set that fits.
_TRIED = 8
_WANTED = re.compile(r"(?P<name>[A-Za-z0-9][A-Za-z0-9._-]*?)\s*(?P<version>(?:[=<>!~]=?[^,]+)?)")
_GOOD = ("runs", "last", "build", "alternative")
Planner = Callable[[Wish], Plan]


def read_wanted(names: Sequence[str], facts: Facts) -> dict[str, str]:
    """Packages of our tables, each with a condition on its version; an unknown one is refused with its neighbours."""
    wanted: dict[str, str] = {}
    if len(names) > MAX_NAMES:
        raise BadInput(f"{len(names)} companions are more than {MAX_NAMES}", remedy="ask for fewer at once")
    for text in names:
        match = _WANTED.fullmatch(text.strip())
        if match is None:
            example = "for example --with xformers,triton or xformers==0.0.30"
            raise BadInput(f"--with {text!r} is no package", remedy=example)
        package = known.find_package(match["name"], facts)
        if package is None:
            near = known.near_packages(match["name"], facts)
            listed = ", ".join(sorted(facts.packages.package))
            hint = f"did you mean {' or '.join(near)}?" if near else f"our tables know {listed}"
            raise BadInput(f"nothing is known here about {match['name']}", remedy=hint)
        version = match["version"].replace(" ", "")
        before = wanted.get(package)
        if before is not None and before != version:
            first, second = before or "any version", version or "any version"
            raise BadInput(f"{package} is wanted as {first} and as {second}", remedy="name it once")
        wanted[package] = version
    return wanted


def plan_companions(machine: Machine, wish: Wish, facts: Facts, planner: Planner) -> Plan:
    """The plan for ``wish`` with its companions judged; where the torch is free, one that serves most of them."""
    wanted = read_wanted(wish.companions, facts)
    alone = msgspec.structs.replace(wish, companions=())

    def judged(plan: Plan) -> tuple[Plan, tuple[CompanionFinding, ...]]:
        return plan, _align_versions(_judge_all(plan, machine, wish, wanted, facts), wanted, facts)

    first = planner(alone)
    tried = [judged(first)]
    # Without a flavour, which is no condition on a version.
    for torch in _torches_to_try(tried[0][1], first, Question(machine, wish, facts).torch, facts):
        try:
            other = planner(msgspec.structs.replace(alone, torch=torch))
        except BadInput:
            continue  # the tree to build from is of another release
        if other.answer != "none" and other.as_asked:
            tried.append(judged(other))

    def worth(pair: tuple[Plan, Sequence[CompanionFinding]]) -> tuple[int, int]:
        kinds = [finding.kind for finding in pair[1]]
        return sum(kind in _GOOD for kind in kinds), sum(kind in ("runs", "last") for kind in kinds)

    best, findings = max(tried, key=worth) if wish.torch is None else tried[0]
    # A torch from source instead of a wheel is no price to pay for a companion.
    if first.answer == "install" and best.answer != "install":
        best, findings = tried[0]
    choices = tuple(_make_choice(plan, found, plan is best) for plan, found in tried)
    differ = len({choice.gives for choice in choices}) > 1
    companions = tuple(describe(finding, best, machine, facts) for finding in findings)
    return msgspec.structs.replace(best, companions=companions, choices=choices if differ else ())


def _align_versions(
    findings: Sequence[CompanionFinding], wanted: Mapping[str, str], facts: Facts
) -> tuple[CompanionFinding, ...]:
    """Each in the version that another of them asks for, where one does: else the installer refuses the set. Of two
    that ask for different ones, the first named stays: no environment holds both."""
    asked = {name: (text.removeprefix("=="), "the wish") for name, text in wanted.items() if text.startswith("==")}
    fitting: list[CompanionFinding] = []
    for finding in findings:
        # Sources ask for what the wheel made of them does.
        row, same = finding.row, (finding.package, finding.version)
        wheels = facts.packages.wheel if isinstance(row, CompanionSource) else ()
        of_sources = next((wheel.brings for wheel in wheels if (wheel.package, wheel.version) == same), {})
        brings = row.brings if isinstance(row, CompanionPackageWheel) else of_sources
        clash = next((name for name, version in brings.items() if asked.get(name, (version,))[0] != version), None)
        if clash is None or row is None:
            asked |= {name: (version, finding.package) for name, version in brings.items()}
        else:
            text = f"{finding.package} {finding.version} asks for {clash} {brings[clash]}, and {asked[clash][1]} for"
            text += f" {asked[clash][0]}: no environment holds both, so make one for each."
            finding = CompanionFinding(finding.package, "none", nos=(No("version", text, row.source[0]),))
        fitting.append(finding)
    return tuple(
        finding._replace(version=version, notes=(*finding.notes, f"In the version that {who} asks for."))
        if finding.version and who != "the wish"
        else finding
        for finding in fitting
        for version, who in [asked.get(finding.package, ("", "the wish"))]
    )


def with_all_companions(plan: Plan, machine: Machine, wish: Wish, facts: Facts) -> Plan:
    """The plan as it is, with every package of the tables judged beside its torch."""
    findings = _judge_all(plan, machine, wish, dict.fromkeys(facts.packages.package, ""), facts)
    companions = tuple(describe(finding, plan, machine, facts) for finding in findings)
    return msgspec.structs.replace(plan, companions=companions)


def surroundings(plan: Plan, machine: Machine, wish: Wish, facts: Facts) -> TorchSurroundings:
    """What a companion meets beside the torch of a plan."""
    question = Question(machine, wish, facts)
    backend = "cuda" if plan.cuda else "rocm" if plan.rocm else "cpu" if plan.variant == "cpu" else question.backend
    torch = plan.torch, plan.cuda, plan.rocm, plan.python
    system = question.platform, machine.os.system or "linux", question.glibc
    cards = tuple(gpu.arch for gpu in question.usable_gpus or machine.gpus if gpu.arch is not None)
    return TorchSurroundings(*torch, *system, backend, cards, machine.drivers.nvidia, question.side)


def _judge_all(
    plan: Plan, machine: Machine, wish: Wish, wanted: Mapping[str, str], facts: Facts
) -> list[CompanionFinding]:
    at = surroundings(plan, machine, wish, facts)
    return [
        known.judge(package, at, facts, version=version)
        if version or package not in PAIRED_PACKAGES
        else _judge_pair(package, plan, at, facts)
        for package, version in wanted.items()
    ]


def _judge_pair(package: str, plan: Plan, at: TorchSurroundings, facts: Facts) -> CompanionFinding:
    """torchvision and torchaudio belong to one torch each; a torch from source gets them from source."""
    release = (plan.torch or "").partition("+")[0]
    torch = next((request for request in plan.requests if request.name == "torch"), None)
    pypi = torch is not None and torch.index is None
    answers = paired_companions(facts, release, plan.variant or "cpu", at.platform, plan.python or "", pypi=pypi)
    pair = next(each for each in answers if each.package == package)
    source = pair.source[0] if pair.source else "the tables of torch releases"
    if plan.answer != "none" and pair.version and (pair.exists or plan.answer == "build"):
        made_for = No("torch", f"{package} {pair.version} is the one made for torch {release}.", source)
        return CompanionFinding(package, "build" if plan.answer == "build" else "runs", pair.version, nos=(made_for,))
    why = f"Whether {package} {pair.version} has a wheel is not known."
    if plan.answer == "none" or pair.version is None:
        why = f"There is no torch for this machine that {package} could stand beside."
    no = No("torch", pair.why or why, source)
    return CompanionFinding(package, "none" if pair.exists is False else "unknown", nos=(no,))


def _torches_to_try(findings: Sequence[CompanionFinding], first: Plan, asked: str | None, facts: Facts) -> list[str]:
    """Torch releases that a companion asks for: the newest that satisfies each of their conditions."""
    pulls = [pull for finding in findings if finding.kind != "runs" for pull in finding.pulls]
    free = [version for version in facts.releases if asked is None or not matches(version, asked)]
    newest = (next((version for version in free if matches(version, pull)), None) for pull in pulls)
    return [version for version in dict.fromkeys(newest) if version and version != first.torch][:_TRIED]


def _make_choice(plan: Plan, findings: Sequence[CompanionFinding], taken: bool) -> CompanionChoice:
    good = [finding for finding in findings if finding.kind in _GOOD]
    gives = tuple(" ".join(filter(None, (finding.package, finding.version))) for finding in good)
    costs = [f"no {finding.package}" for finding in findings if finding.kind not in _GOOD]
    costs += [f"{finding.package} from source" for finding in findings if finding.kind == "build"]
    costs += {"build": ["torch from source"], "graft": ["torch grafted"]}.get(plan.answer, [])
    return CompanionChoice(**shared_fields(plan, CompanionChoice), gives=gives, costs=tuple(costs), taken=taken)


CONSTRAINTS = "torch-constraints.txt"
_KEPT = ("torch", "torchvision", "torchaudio")


def describe(finding: CompanionFinding, plan: Plan, machine: Machine, facts: Facts) -> Companion:
    """The answer with its reason, its command and its cost."""
    row, cost = finding.row, None
    env: dict[str, str] = {}
    requests: tuple[Request, ...] = ()
    comes_along = isinstance(row, CompanionPackageWheel) and row.with_torch
    if isinstance(row, CompanionPackageWheel) and not comes_along:
        place = _index_or_page(row, plan)
        links = place if place and place.endswith(".html") else None
        name = row.name or finding.package
        why = f"goes with torch {plan.torch}" if row.torch else "does not depend on the torch"
        index = place if place and not links else None
        requests = (Request(name=name, version=finding.version, index=index, links=links, why=why),)
    elif isinstance(row, CompanionSource):
        env = build_env(row, plan, machine, facts)
        minutes = f"about {row.minutes[0]} to {row.minutes[1]} minutes" if row.minutes else ""
        memory = f"{row.job_gib:g} GiB of memory per compiler" if row.job_gib else ""
        cost = ", ".join(filter(None, (minutes, memory))) or None
    stand_in = finding.stand_ins[0] if finding.stand_ins else None
    fork = row if isinstance(row, CompanionFork) else None
    instead = fork or (stand_in if finding.kind in ("none", "unknown") else None)
    notes = finding.notes
    if isinstance(row, CompanionPackageWheel) and row.toolkit and not row.torch and not machine.drivers.nvidia:
        # A package with a toolkit of its own wants a driver of its own.
        driver = toolkit_driver(row.toolkit, "windows" if machine.os.system == "windows" else "linux", facts).floor
        notes += (f"It brings CUDA {row.toolkit}: driver {driver} or newer.",) if driver else ()
    return Companion(
        name=finding.package,
        answer=finding.kind,
        version=None if comes_along else finding.version,
        why=_explain_answer(finding, plan),
        source=row.source[0] if row is not None else finding.nos[0].source if finding.nos else None,
        requests=requests,
        commands=() if comes_along else _install_commands(finding, plan, machine, env),
        env=env,
        cost=cost,
        instead=instead.name if instead else None,
        state=instead.state if instead else None,
        url=instead.url if instead else None,
        wants=finding.pulls[0] if finding.pulls and finding.kind != "runs" else None,
        notes=notes,
    )


def _index_or_page(row: CompanionPackageWheel, plan: Plan) -> str | None:
    """An index or page; one per flavour of torch names it."""
    return row.place.replace("{variant}", plan.variant or "cpu") if row.place else None


def _explain_answer(finding: CompanionFinding, plan: Plan) -> str:
    row = finding.row
    nos = [no.text for no in finding.nos]
    if row is None and finding.version:
        return f"{nos[0]} " + ("It is built with it." if finding.kind == "build" else "The line for torch brings it.")
    if finding.kind == "runs" and isinstance(row, CompanionPackageWheel):
        if row.with_torch:
            return f"{finding.package} comes with torch {plan.torch}, made for it."
        fits = f"its wheel fits torch {plan.torch}" if row.torch else "its wheel does not depend on the torch"
        card = " and has code for this card" if row.targets or row.gfx else ""
        return f"{finding.package} {finding.version}: {fits}{card}."
    first = nos[0] if nos else ""
    if finding.kind == "last":
        way = "" if isinstance(row, CompanionPackageWheel) else " It must be compiled."
        newer = first or "Newer versions do not run here."
        return f"{finding.package} {finding.version} is the last that runs here. {newer}{way}"
    if finding.kind == "build":
        why = first or f"There is no wheel of {finding.package}."
        return f"{finding.package} {finding.version} compiles here. {why}"
    if finding.kind == "alternative" and isinstance(row, CompanionFork):
        return f"{row.name}: {row.state}. {first}".strip()
    return " ".join(nos) or f"Nothing is known about {finding.package} on this machine."


def build_env(row: CompanionSource, plan: Plan, machine: Machine, facts: Facts) -> dict[str, str]:
    """What the sources of a companion are told: the cards, and what its own build needs."""
    env = dict(row.env)
    archs = [gpu.arch for gpu in machine.gpus]
    sms = sorted({arch for arch in archs if isinstance(arch, Sm)})
    gfxs = sorted({arch.name for arch in archs if isinstance(arch, Gfx)})
    if row.arch_env and plan.cuda and sms:
        chosen = sorted({known.accepted_arch(sm, row, facts) for sm in sms})
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


def _install_commands(finding: CompanionFinding, plan: Plan, machine: Machine, env: dict[str, str]) -> tuple[str, ...]:
    """Lines to paste; torch is named by a file of constraints, so that no dependency can replace it."""
    row = finding.row
    if row is None:
        return ()
    system = machine.os.system or "linux"
    shell: Shell = "cmd" if system == "windows" else "sh"
    python = (*interpreter_words(plan.python, system), "-m", "pip", "install")
    words: tuple[str, ...]
    if isinstance(row, CompanionFork):
        # The name of a ready wheel takes the torch, CUDA and Python of the plan.
        abi, cuda = (plan.python or "").replace(".", ""), (plan.cuda or "").replace(".", "")
        values = {"torch": ".".join((plan.torch or "").split(".")[:2]), "cuda": cuda, "abi": abi}
        words = tuple(word.format(python=abi.removesuffix("t"), **values) for word in row.install)
    elif isinstance(row, CompanionPackageWheel):
        name = row.name or finding.package
        where = _index_or_page(row, plan)
        place = (("-f" if where.endswith(".html") else "--extra-index-url"), where) if where else ()
        words = (f"{name}=={finding.version}", *row.flags, *place)
    else:
        origin = f"=={finding.version}" if row.place == "pypi" else f" @ git+{row.place}"
        words = ("--no-build-isolation", finding.package + origin)
    if not words:
        return ()
    pins = tuple(f"{pin.name}=={pin.version}" for pin in plan.requests if pin.name in _KEPT and pin.version)
    pins = pins or ((f"torch=={plan.torch.partition('+')[0]}",) if plan.torch else ())
    steps = [Step(kind="set", env=env)] if env else []
    if isinstance(row, CompanionSource) and row.needs:
        steps.append(Step(kind="run", argv=(*python, *row.needs)))
    if pins:
        steps.insert(0, Step(kind="write", folder=CONSTRAINTS, argv=pins))
        words = ("-c", CONSTRAINTS, *words)
    steps.append(Step(kind="run", argv=(*python, *words)))
    return spell(steps, shell)
