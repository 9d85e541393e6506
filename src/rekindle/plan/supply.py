"""Where the libraries of a build come from: linear algebra, and the third parties of a tree without its submodules."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rekindle.compat import resources
from rekindle.model.machine import Machine
from rekindle.model.plan import Reason, Step, Wish
from rekindle.model.supply import ThirdParty
from rekindle.plan.candidates import Candidate
from rekindle.plan.question import Question
from rekindle.plan.rules import say


@dataclass(kw_only=True)
class RecipeDraft:
    """The settings of a build while they are decided, by their names in the recipe."""

    env: dict[str, str] = field(default_factory=dict)
    cmake: dict[str, str] = field(default_factory=dict)
    asserts: dict[str, str] = field(default_factory=dict)
    toolchain: dict[str, str] = field(default_factory=dict)
    pins: dict[str, str] = field(default_factory=dict)
    losses: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()


def drop_names(settings: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """What is left once these are decided otherwise."""
    gone = set(names)
    return {name: value for name, value in settings.items() if name not in gone}


def settle_third_parties(
    draft: RecipeDraft, rows: Sequence[ThirdParty], candidate: Candidate, machine: Machine
) -> None:
    """The settings, packages and losses that these ``rows`` mean: the third parties that are no submodules."""
    every = (*resources.needs_for(candidate.torch), *rows)
    if machine.os.system == "linux":
        draft.packages = resources.packages_of(every, resources.manager_of(machine.os.distro))
    if not rows:
        return
    settings = resources.settings_of(every, candidate.backend)
    # What a card or a board rules out stays out.
    settings = {name: value for name, value in settings.items() if (draft.env.get(name), value) != ("0", "1")}
    draft.env |= settings
    draft.asserts = drop_names(draft.asserts, settings)
    for row in resources.from_index(rows, candidate.backend):
        if (index := row.index) is not None:
            page = f"https://pypi.org/project/{index.package}/{index.version}"
            text = f"{index.version}: {page} ({index.file} sha256:{index.sha256}), fetched with the sources"
            draft.toolchain[row.name] = text
    if "BLAS" in settings:
        # Which LAPACK it was follows from the BLAS; that there is one is asserted of every build.
        draft.asserts = drop_names(draft.asserts, ("LAPACK",))
        draft.toolchain = drop_names(draft.toolchain, ("blas",))
        # MKL comes by pip; a BLAS of the system makes that superfluous.
        draft.pins = drop_names(draft.pins, [name for name in draft.pins if name.startswith("mkl")])
    draft.pins |= {name: pin for row in rows for name, pin in row.pins.items()}
    draft.losses = tuple(dict.fromkeys((*draft.losses, *resources.losses_of(rows, candidate.backend))))


def third_party_reason(rows: Sequence[ThirdParty], candidate: Candidate, origin: str) -> Reason:
    """How many come from where."""
    fetched = resources.from_index(rows, candidate.backend)
    left = sum(row.way == "off" or (row.way == "index" and row not in fetched) for row in rows)
    pins = ", ".join(row.index.pin for row in fetched if row.index)
    which = fetched[0].name if len(fetched) == 1 else len(fetched)
    by_pip = f", {which} {'comes' if len(fetched) == 1 else 'come'} from the package index ({pins})" if fetched else ""
    ours = sum(row.way == "system" for row in rows)
    return say("third-parties-from-system", ours=ours, by_pip=by_pip, left=left, origin=origin)


def supplied_steps(candidate: Candidate, packages: Sequence[str], question: Question) -> list[Step]:
    """Packages of the system, then ``up``: filling such a tree by hand is not for people."""
    machine, wish = question.machine, question.wish
    words = ["rekindle", "up", "--build", "--from", question.inputs.origin, "--torch", candidate.torch]
    words += asked_by_hand(machine, wish, candidate)
    words += [word for name, value in dict(wish.settings).items() for word in ("--set", f"{name}={value}")]
    lines = [words]
    manager = resources.manager_of(machine.os.distro) if machine.os.system == "linux" else None
    if manager and packages:
        lines.insert(0, resources.install_line(packages, manager, root=False).split())
    return [Step(kind="run", argv=tuple(line)) for line in lines]


def asked_by_hand(machine: Machine, wish: Wish, candidate: Candidate) -> list[str]:
    """The words of ``up`` for hardware that was described and is not looked up, and for what the wish names: without
    them ``up`` would plan for the machine it runs on. A toolkit gets the version that the plan chose."""
    given = [str(gpu.arch or gpu.name or "") for gpu in machine.gpus if gpu.how == "given"]
    words = [word for name in filter(None, given) for word in ("--gpu", name)]
    if machine.cpu.cores is None:  # nobody looked: it was described
        words += ["--gpu", "none"] if machine.no_gpu else []
        words += ["--cpu", machine.cpu.microarchitecture] if machine.cpu.microarchitecture else []
    words += ["--cuda", candidate.cuda] if wish.cuda and candidate.cuda else []
    words += ["--rocm", candidate.rocm] if wish.rocm and candidate.rocm else []
    words += ["--python", wish.python] if wish.python else []
    return words


class Blas(NamedTuple):
    """``name`` steers the build and is checked after configure, ``pins`` come from pip, ``where`` is for people.
    ``prefix`` is a folder below the environment that CMake must search; None where the library is the system's."""

    name: str
    pins: dict[str, str]
    where: str
    prefix: str | None = None


def plan_blas(question: Question) -> Blas:
    """Which library this build takes."""
    own_mkl, own_openblas = question.has_toolkit("mkl"), question.has_toolkit("openblas")
    if question.arch == "x86_64" and own_mkl:
        return Blas("MKL", {}, "MKL, found on the machine")
    if question.arch == "x86_64" and not own_openblas:
        pins, prefix = {"mkl-static": "", "mkl-include": ""}, "Library" if question.platform == "windows" else "."
        return Blas("MKL", pins, "MKL: pip install mkl-static mkl-include", prefix)
    where = "OpenBLAS, found on the machine" if own_openblas else "OpenBLAS"
    if not own_openblas and question.manager is not None:
        blas = next(row for row in question.facts.supply.need if row.settings.get("BLAS") == "OpenBLAS")
        install = "apt install" if question.manager.name == "apt" else question.manager.install
        where += f": {install} {' '.join(resources.packages_of((blas,), question.manager)) or 'openblas'}"
    return Blas("OpenBLAS", {}, where)
