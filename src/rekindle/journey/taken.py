"""A torch that is built already: its wheel is taken as it is, and only what goes beside it is built."""

from pathlib import Path

from msgspec.structs import replace

from rekindle.api.inspect_wheel import inspect
from rekindle.api.plan_torch import plan as make_plan
from rekindle.build.companion import torch_in
from rekindle.errors import BadInput
from rekindle.host.files import sha256_of
from rekindle.model.companion import AppUse
from rekindle.model.journey import UpOptions
from rekindle.model.machine import Machine
from rekindle.model.plan import Plan, Wish
from rekindle.model.version import minor, same_prefix
from rekindle.model.wheel import WheelReport


def refuse_two_ways(options: UpOptions) -> None:
    """A wheel, and something that only a build of torch itself could use."""
    given = {"--source": options.source, "--target": options.target, "--clean": options.clean}
    if name := next(filter(given.get, given), None):
        why = f"--wheel takes a torch that is built already, and {name} is about building one"
        raise BadInput(why, remedy="give one of the two")


def read_taken(path: Path) -> WheelReport:
    """What the wheel says of itself; nothing of it runs."""
    if not path.is_file():
        raise BadInput(f"there is no wheel {path}", remedy="--wheel takes the file of a torch that was built")
    report = inspect(str(path), quick=True, cpu=False)
    if report.kind != "wheel" or report.name != "torch" or not report.version:
        raise BadInput(
            f"{path.name} is {report.name or 'no wheel'}, and --wheel takes a torch that was built",
            remedy="its torchvision and torchaudio are built against it; others: rekindle build PACKAGE --against FILE",
        )
    return report


def plan_taken(machine: Machine, wish: Wish, path: Path, app: AppUse | None = None) -> Plan:
    """The plan in which this very torch is taken, and only what goes beside it is made."""
    taken = read_taken(path)
    made = make_plan(machine, wish_for(wish, taken, path, machine), taken=name_taken(path), app=app)
    refuse_other_plan(made, taken, path)
    return made


def wish_for(wish: Wish, taken: WheelReport, path: Path, machine: Machine) -> Wish:
    """The wish that leads to this torch, as far as the user left it open."""
    changes: dict[str, object] = {"build": True}
    if wish.torch is None:
        changes["torch"] = (taken.version or "").split("+")[0]
    python = torch_in(path.name).python
    if wish.python is None and python:
        changes["python"] = python
    elif wish.python is not None and python and wish.python.split(".")[:2] != python.split("."):
        remedy = f"--python {python}, or a wheel for Python {wish.python}"
        raise BadInput(f"{path.name} is for Python {python}, and Python {wish.python} is to get it", remedy=remedy)
    if not (wish.variant or wish.cuda or wish.rocm):
        if not taken.cuda and not taken.rocm:
            changes["variant"] = "cpu"
        elif machine.gpus:
            # Without a card nothing is compiled for one; libraries without GPU code load beside any torch.
            changes["cuda" if taken.cuda else "rocm"] = minor(taken.cuda or taken.rocm or "")
    return replace(wish, **changes)


def name_taken(path: Path) -> str:
    """The file and its digest: another file is another plan."""
    return f"{path.name} sha256:{sha256_of(path)}"


def refuse_other_plan(plan: Plan, taken: WheelReport, path: Path) -> None:
    """The plan must mean this very torch."""
    if plan.build is None:
        return
    release = (taken.version or "").split("+")[0]
    if (plan.torch or "").split("+")[0] != release:
        remedy = f"leave --torch out, or say --torch {release}"
        raise BadInput(f"torch {plan.torch} was asked for, and {path.name} is {taken.version}", remedy=remedy)
    for kind, planned, there in (("CUDA", plan.cuda, taken.cuda), ("ROCm", plan.rocm, taken.rocm)):
        if planned and not (there and same_prefix(minor(there), minor(planned))):
            instead = f"--{kind.lower()} {minor(there)}" if there else "--variant cpu"
            found = f"{kind} {there}" if there else f"no {kind}"
            why = f"the plan is for {kind} {planned}, and {path.name} was built with {found}"
            raise BadInput(why, remedy=f"the same command with {instead}")
