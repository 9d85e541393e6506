"""``plan`` joined: a machine from the doctor, a file, a profile or flags; a wish; the planner."""

import functools
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from rekindle.compat.backends import PLATFORMS
from rekindle.compat.resources import parts_for
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.arch import parse_sm
from rekindle.model.companion import AppUse
from rekindle.model.document import load, shared_fields
from rekindle.model.graft import GraftRow
from rekindle.model.machine import Examination, Machine, cpu_arch
from rekindle.model.plan import Plan, Reason, TorchChoice, Wish, pip_arguments
from rekindle.model.supply import ThirdParty
from rekindle.plan.candidates import HouseWheel
from rekindle.plan.describe import machine_profile
from rekindle.plan.question import BuildInputs, PlanMemory, Question
from rekindle.plan.solve import make_plan, make_plans


def plan(
    machine: Machine | None = None,
    wish: Wish | None = None,
    *,
    wheelhouses: Sequence[str] | None = None,
    taken: str | None = None,
    app: str | AppUse | None = None,
    proofs: Sequence[str] | None = None,
) -> Plan:
    """Which torch runs on a machine (default: this one), how to get it, and why.

    ``wheelhouses`` are directories or addresses of wheels built before; one that fits is preferred to a build. Without
    any, those configured in ``REKINDLE_WHEELHOUSES`` are asked; one that does not answer is a warning.
    ``wish.companions`` names packages (``("xformers", "triton")``): the plan's ``companions`` says what becomes of
    each. ``taken`` names a torch that is built already: of a build, nothing of torch's own is left to do. ``app`` is an
    application (``"comfyui"``) or its folder: the torch that its version takes, or the version of it that takes the
    machine's torch. ``proofs`` are folders, files or addresses of records that people shared (without any:
    ``REKINDLE_PROOFS``); what they say of the plan is told with it, and never decides it.

    >>> from rekindle.plan.describe import machine_from_flags
    >>> made = plan(machine_from_flags(gpu=["Tesla K40c"], os="windows"))
    >>> made.answer, made.cuda
    ('build', '11.4')
    >>> bool(made.because[0].text)
    True
    """
    target, asked = machine or this_machine(), wish or Wish()
    wheels, silent = _house_supply(wheelhouses)
    inputs = _inputs_for(target, asked, taken=taken)

    def make(wanted: Wish) -> Plan:
        return make_plan(target, wanted, wheelhouse=wheels, inputs=inputs, notices=silent)

    def make_beside(wanted: Wish) -> Plan:
        if not wanted.companions:
            return make(wanted)
        from rekindle.plan.companions import plan_companions

        return plan_companions(target, wanted, load_facts(), make)

    if app is None:
        return _add_proofs(make_beside(asked), target, proofs)
    from rekindle.interpreters.app_folder import read_app_use
    from rekindle.plan.apps import plan_app

    use = read_app_use(app, load_facts()) if isinstance(app, str) else app
    return _add_proofs(plan_app(use, asked, load_facts(), make_beside), target, proofs)


def _add_proofs(made: Plan, machine: Machine, named: Sequence[str] | None) -> Plan:
    """What shared records say of it; a configured list that does not answer is a warning."""
    archs = [str(gpu.arch) for gpu in machine.gpus if gpu.arch is not None]
    for place in configured_places("REKINDLE_PROOFS") if named is None else named:
        from rekindle.api.proofs import weighed_from
        from rekindle.compat.proofs import speak_of_plan

        try:
            made = speak_of_plan(made, archs, weighed_from(place), place)
        except BadInput as error:
            if named is not None:
                raise
            silent = Reason(code="proofs-silent", text=f"The records at {place} were not read: {error.message}")
            made = replace(made, warnings=(*made.warnings, silent))
    return made


def assumed_for(machine: Machine, wish: Wish, made: Plan) -> tuple[str, ...]:
    """What a plan for a machine described by hand took for granted, in words, with the flag that says otherwise."""
    guesses = []
    if machine.os.arch is None and machine.cpu.microarchitecture is None:
        arch = Question(machine=machine, wish=wish, facts=load_facts()).arch
        guesses.append(f"{'x86-64' if arch == 'x86_64' else arch} (--arch)")
    if wish.python is None and not machine.pythons and made.python:
        guesses.append(f"Python {made.python} (--python)")
    return tuple(guesses)


def plan_many(asked: Iterable[tuple[Machine, Wish]], memory: PlanMemory | None = None) -> Iterator[Plan]:
    """The plan of each machine and wish, for who has thousands: what was found for one serves the next, most where
    alike ones follow each other. No wheelhouse is asked. ``memory`` keeps it for further calls."""
    yield from make_plans(asked, load_facts(), _inputs_for, {} if memory is None else memory)


def plan_build(machine: Machine, wish: Wish, *, arch_list: tuple[str, ...] = ()) -> Plan:
    """A source build, judged without looking at any wheel. ``arch_list``: compiled for more than the machine's own
    cards."""
    return make_plan(machine, wish, builds_only=True, inputs=_inputs_for(machine, wish, arch_list=arch_list))


def remember_plan(plan: Plan, *, other_machine: bool = False) -> None:
    """Note that this plan was made here: ``build`` then takes its file without asking. A plan for ``other_machine`` (a
    file, which may be a stranger's) is only that where it names no program or place."""
    from rekindle.build.request import names_places
    from rekindle.host.made import mark_made

    if not (other_machine and names_places(plan)):
        mark_made(plan)


def configured_places(variable: str) -> list[str]:
    """Directories and addresses in a variable, separated by spaces, quoted as in a shell."""
    try:
        # Backslashes are part of a Windows path, not quoting.
        return [word.strip("\"'") for word in shlex.split(os.environ.get(variable, ""), posix=os.name != "nt")]
    except ValueError as error:
        raise BadInput(f"{variable} is not readable: {error}") from error


def _house_supply(named: Sequence[str] | None) -> tuple[list[HouseWheel | GraftRow], list[Reason]]:
    """What wheelhouses hold for the planner, and which did not answer: of those that were named that is an error."""
    wheels: list[HouseWheel | GraftRow] = []
    silent: list[Reason] = []
    for place in configured_places("REKINDLE_WHEELHOUSES") if named is None else named:
        try:
            wheels += [*house_wheels(place), *house_grafts(place)]
        except BadInput as error:
            if named is not None:
                raise
            text = f"The wheelhouse {place} was not asked: {error.message}"
            silent.append(Reason(code="wheelhouse-silent", text=text))
    return wheels, silent


def house_wheels(place: str) -> list[HouseWheel]:
    """The torch wheels of a wheelhouse that were looked into, as the planner wants them."""
    from rekindle.index.wheelhouse.catalogue import load_wheels, location

    wheels: list[HouseWheel] = []
    for row in load_wheels(place):
        if row.project != "torch" or row.yanked or not row.inspected:
            continue
        ptx = {parse_sm(text) for text in row.ptx}
        archs = [sm.dotted + ("+PTX" if sm in ptx else "") for sm in map(parse_sm, row.sass) if not sm.suffix]
        systems = [PLATFORMS.get((system, cpu_arch(cpu))) for system in row.systems for cpu in row.machines]
        wheels += [
            HouseWheel(
                torch=row.version,
                python=python,
                platform=platform,
                location=location(place, row),
                cuda=row.cuda,
                rocm=row.rocm,
                archs=tuple(archs) if row.cuda else row.gfx,
                glibc=row.glibc,
            )
            for platform in systems
            if platform
            for python in row.pythons
        ]
    return wheels


def house_grafts(place: str) -> list[GraftRow]:
    """The graft files for torch that a wheelhouse carries, each with the address where it lies."""
    from rekindle.index.wheelhouse.catalogue import graft_location, load_grafts

    rows = [row for row in load_grafts(place) if row.project == "torch"]
    return [replace(row, url=graft_location(place, row)) for row in rows]


def _inputs_for(
    machine: Machine, wish: Wish, *, arch_list: tuple[str, ...] = (), taken: str | None = None
) -> BuildInputs:
    """What the source stage knows about the tree a build would start from, for the planner to ask."""

    def patches(build: Plan) -> tuple[str, ...]:
        from rekindle.source.context import forecast

        os = machine.os
        return forecast(build, system=os.system, arch=os.arch, glibc=os.glibc)

    origin = wish.origin or "git"
    third_parties = functools.partial(_third_parties, origin, machine.os.arch)
    if origin not in ("git", "tarball", "debian"):
        origin = str(Path(origin).absolute())
    return BuildInputs(origin=origin, third_parties=third_parties, patches=patches, arch_list=arch_list, taken=taken)


def _third_parties(origin: str, processor: str | None, release: str, cuda: str | None) -> tuple[ThirdParty, ...]:
    """For a release and its CUDA: the third parties that are no submodules in the tree of ``origin``."""
    if origin in ("git", "tarball"):
        return ()
    if origin == "debian":
        from rekindle.source.origins import debian_package

        rows = parts_for(release, cuda=cuda, processor=processor)
        return rows if debian_package("torch", release).stripped else ()
    from rekindle.source.supply import survey, without_submodules
    from rekindle.source.tree import check_wanted, tree_version

    root = Path(origin)
    _, version = tree_version(root)
    check_wanted(root, version, release)
    return without_submodules(survey(root, version), parts_for(version, cuda=cuda, processor=processor))


def this_machine() -> Machine:
    """What the doctor finds here.

    >>> this_machine().os.system in ("linux", "windows")
    True
    """
    from rekindle.doctor.examine import examine
    from rekindle.host.live import LiveHost

    return examine(LiveHost()).examination.machine


def find_machine(where: str) -> tuple[Machine, Wish]:
    """A machine.json, what ``doctor --json`` printed, or the name of a profile.

    >>> from rekindle.model.document import encode
    >>> from rekindle.plan.describe import machine_from_flags
    >>> _ = (folder / "machine.json").write_bytes(encode(machine_from_flags(gpu=["gfx1031"])))
    >>> machine, wish = find_machine(str(folder / "machine.json"))
    >>> str(machine.gpus[0].arch)
    'gfx1031'
    """
    path = Path(where)
    if not path.is_file():
        if path.suffix == ".json" or "/" in where or "\\" in where:
            remedy = "rekindle doctor --save machine.json writes one"
            raise BadInput(f"cannot read {where}: no such file", remedy=remedy)
        return machine_profile(where)
    try:
        return load(path, Machine), Wish()
    except BadInput:
        return load(path, Examination).machine, Wish()


def choose_torch(
    machine: Machine | None = None, wish: Wish | None = None, *, wheelhouses: Sequence[str] | None = None
) -> TorchChoice:
    """Which torch for a machine (default: this one), as a small document of stable form; ``wheelhouses`` as for
    :func:`plan`.

    >>> from rekindle.plan.describe import machine_from_flags
    >>> choice = choose_torch(machine_from_flags(gpu=["GTX 1080"], os="linux", arch="x86_64"))
    >>> choice.answer, choice.backend, choice.pip[0][0].startswith("torch==")
    ('install', 'cuda', True)
    """
    target = machine or this_machine()
    made = plan(target, wish, wheelhouses=wheelhouses)
    build = made.build if made.answer == "build" else None
    disk = None if made.answer == "none" else load_facts().costs.use[made.backend].disk_gib
    return TorchChoice(
        **shared_fields(made, TorchChoice),
        packages=made.requests,
        pip=pip_arguments(made.requests) if made.answer == "install" else (),
        cpu=pip_without_card(target, wish) if made.answer != "install" else (),
        disk_gib=build.disk_gib if build else disk,
        minutes=build.minutes if build else None,
        why=tuple(reason.text for reason in made.because),
        beware=tuple(warning.text for warning in made.warnings if not warning.handled),
    )


def pip_without_card(machine: Machine, wish: Wish | None) -> tuple[tuple[str, ...], ...]:
    """What follows ``pip install`` for the CPU alone; empty where that is no wheel either."""
    python = wish.python if wish else None
    made = plan(replace(machine, gpus=()), Wish(python=python, variant="cpu"), wheelhouses=())
    return pip_arguments(made.requests) if made.answer == "install" else ()
