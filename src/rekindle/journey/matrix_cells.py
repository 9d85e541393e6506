"""``matrix plan``: every combination of the table planned and frozen, or refused with its reason."""

import functools
import hashlib
import platform
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rekindle import __version__
from rekindle.api.plan_torch import plan_build, this_machine
from rekindle.api.source import source_status
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.journey.from_source import want_companion
from rekindle.matrix.run import chain_costs
from rekindle.matrix.table import cell_id, cell_name, combinations, read_table
from rekindle.model.arch import parse_sm
from rekindle.model.machine import Machine
from rekindle.model.matrix import Cell, Defaults, MatrixCost, MatrixLock, RefusedCell, Table
from rekindle.model.plan import Plan, Reason, Wish
from rekindle.model.progress import Progress
from rekindle.model.spoken import sentence
from rekindle.model.version import flavour_name
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.spark import plan_spark
from rekindle.spark.unpack import tree_digest, tree_version
from rekindle.toolkits.cuda import UsableCuda, find_usable_cuda


def freeze(table_file: Path, root: Path, *, machine: Machine | None = None, progress: Progress) -> MatrixLock:
    """Plan every cell. ``machine`` is what builds (default: this one)."""
    table = read_table(table_file)
    rows = combinations(table, table_file)
    defaults = _resolve_paths(table, table_file)
    progress.stage("plan", f"{len(rows)} combinations")
    planner = _Planner(table, defaults, machine or this_machine())
    cells: dict[str, Cell] = {}
    refused: list[RefusedCell] = []
    for number, axes in enumerate(rows):
        progress.step(number, len(rows), cell_name(axes, table.project))
        for cell in planner.cells(axes):
            if isinstance(cell, RefusedCell):
                refused.append(cell)
            else:
                cells.setdefault(cell.id, cell)
    frozen = tuple(cells.values())
    trees = {cell.tree: cell for cell in frozen}
    return MatrixLock(
        rekindle=__version__,
        table=str(table_file),
        table_sha256=hashlib.sha256(table_file.read_bytes()).hexdigest(),
        root=str(root),
        cells=frozen,
        refused=tuple(refused),
        cost=MatrixCost(
            serial_hours=round(sum(chain_costs(frozen, ()).values()) / 60, 2),
            cold_hours=round(sum(cell.minutes for cell in frozen) / 60, 2),
            disk_gib=round(sum(cell.disk_gib for cell in trees.values()), 1),
            trees=len(trees),
        ),
        defaults=defaults,
    )


def _resolve_paths(table: Table, file: Path) -> Defaults:
    """Paths in a table are relative to the table."""
    defaults = table.defaults or Defaults()
    source = defaults.source or ("spark" if table.project == "spark" else "git")
    if source not in ("spark", "git", "debian"):
        place = (file.parent / source).absolute()
        if not place.is_dir():
            raise BadInput(f"{file}: there is no source tree at {place}", remedy="write git, debian or a directory")
        source = str(place)
    cache = str((file.parent / defaults.cache).absolute()) if defaults.cache else None
    return replace(defaults, source=source, cache=cache)


class _Planner:
    """Plans one cell after another; what is the same for all of them is asked once."""

    def __init__(self, table: Table, defaults: Defaults, machine: Machine) -> None:
        self._table, self._defaults, self._machine = table, defaults, machine
        self._here = f"{machine.os.system}-{machine.os.arch or platform.machine()}"
        self._compiler = next((f"{c.kind} {c.version}" for c in machine.compilers), "")

    def cells(self, axes: dict[str, str]) -> Iterator[Cell | RefusedCell]:
        """A combination's cell and those of its companions, which are compiled against its wheel, by its plan."""
        plan = self._plan_spark(axes) if self._table.project == "spark" else self._plan_torch(axes)
        if isinstance(plan, tuple):
            yield RefusedCell(name=cell_name(axes, self._table.project), axes=axes, because=plan)
            return
        yield (torch := self._freeze_cell(plan, axes, self._table.project, plan.torch))
        for companion in (want_companion(project, plan) for project in self._table.companions):
            if companion.why:
                why = Reason(code="no-companion", text=sentence(companion.why))
                yield RefusedCell(name=cell_name(axes, companion.name), axes=axes, because=(why,))
            else:
                cell = self._freeze_cell(plan, axes, companion.name, companion.version)
                yield replace(cell, after=(torch.id,), minutes=max(1.0, torch.minutes / 10))

    def _freeze_cell(self, plan: Plan, axes: dict[str, str], project: str, release: str | None) -> Cell:
        recipe, target = plan.build, self._defaults.target
        assert recipe is not None and plan.python is not None
        made_of: dict[str, Any] = {
            "identity": self._identity(project, release),
            "toolchain": {"compiler": recipe.compiler or self._compiler},
            "system": axes.get("system", self._here),
        }
        return Cell(
            **made_of,
            id=cell_id(plan, **made_of, python=plan.python, target=target),
            name=cell_name(axes, project),
            project=project,
            axes=axes,
            plan=plan,
            tree=cell_id(plan, **made_of),
            source=self._defaults.source or "git",
            python=plan.python,
            target=target,
            prove="none" if target else self._defaults.prove,
            minutes=sum(recipe.minutes) / 2 if recipe.minutes else 60.0,  # usual ones where the plan does not say
            memory_gib=recipe.memory_gib or 2.0,
            disk_gib=recipe.disk_gib or 1.0,
            cuda=plan.cuda,
        )

    def _identity(self, project: str, release: str | None) -> str:
        """Which sources: spark's own digest, a directory's commit or digest, a release."""
        source = self._defaults.source or "git"
        if source == "spark":
            return f"spark {tree_digest()}"
        if source in ("git", "debian"):
            return f"{source} {project} {release}"
        tree = source_status(Path(source))
        return f"{tree.project} {tree.version} {tree.commit or tree.digest or source}"

    def _plan_spark(self, axes: Mapping[str, str]) -> Plan | tuple[Reason, ...]:
        variant = axes.get("variant", "cpu")
        cuda = self._cuda if variant != "cpu" else None
        archs: tuple[str, ...] = ()
        if cuda is not None:
            why = _spark_refusal(variant, axes.get("archs", ""), cuda)
            if why:
                return (Reason(code="spark-toolkit", text=why),)
            archs = tuple(axes["archs"].split(";"))
        baseline = {"SPARK_BASELINE_FLAGS": f"-march={axes['cpu']}"} if "cpu" in axes else {}
        kit, release, settings = cuda.toolkit if cuda else None, tree_version(), baseline | self._defaults.settings
        plan = plan_spark(
            self._machine, version=release, python=axes["python"], cuda=kit, archs=archs, settings=settings
        )
        return _name_for_cpu(plan, f"{release}+{variant}", "SPARK_BUILD_VERSION", axes)

    @functools.cached_property
    def _cuda(self) -> UsableCuda:
        return find_usable_cuda(LiveHost())

    def _plan_torch(self, axes: Mapping[str, str]) -> Plan | tuple[Reason, ...]:
        """One wheel for cards that never meet in one machine: each of them must have such a plan; the first is it."""
        archs = axes.get("archs", "").split(";")
        short = {arch: f"sm_{arch.removesuffix('+PTX').replace('.', '')}" for arch in archs}  # 3.5 means sm_35
        named = [arch if arch.startswith(("gfx", "sm_")) else short[arch] for arch in archs]
        cards = [""] if axes.get("variant") == "cpu" else [axes["card"]] if "card" in axes else named
        plans = [self._plan_for_card(card, axes) for card in cards]
        return next((plan for plan in plans if isinstance(plan, tuple)), plans[0])

    def _plan_for_card(self, card: str, axes: Mapping[str, str]) -> Plan | tuple[Reason, ...]:
        toolkit, settings = _toolkit(axes.get("variant")), tuple(self._defaults.settings.items())
        origin, release, python = self._defaults.source, axes["torch"], axes["python"]
        asked = Wish(torch=release, python=python, build=True, origin=origin, settings=settings, **toolkit)
        code = "unknown-name"
        try:
            machine = self._target_machine(card, axes)
            code = "no-source"
            plan = plan_build(machine, asked, arch_list=tuple(axes["archs"].split(";")) if axes.get("archs") else ())
        except BadInput as error:
            return (Reason(code=code, text=error.message),)
        if why := _astray(plan, axes, toolkit):
            return why
        assert plan.build is not None
        return _name_for_cpu(plan, plan.build.env["PYTORCH_BUILD_VERSION"], "PYTORCH_BUILD_VERSION", axes)

    def _target_machine(self, card: str, axes: Mapping[str, str]) -> Machine:
        """The machine the wheel is for, with the compilers and toolkits of the one that builds it."""
        named = axes.get("system", self._here)
        system, _, arch = named.partition("-")
        gpu, cpu, python = [card or "none"], axes.get("cpu"), axes["python"]
        target = machine_from_flags(gpu=gpu, cpu=cpu, os=system, arch=arch or None, python=python)
        if named != self._here:
            return target
        own = ("os", "memory_gib", "toolkits", "compilers", "pythons", "tools")
        return replace(target, **{name: getattr(self._machine, name) for name in own})


def _name_for_cpu(plan: Plan, version: str, variable: str, axes: Mapping[str, str]) -> Plan:
    """Wheels for several CPUs need names of their own: the version says which CPU it is for."""
    if "cpu" not in axes or plan.build is None:
        return plan
    part = re.sub("[^a-z0-9]+", ".", axes["cpu"].lower()).strip(".")
    recipe = replace(plan.build, env=plan.build.env | {variable: f"{version}-{part}"})
    return replace(plan, build=recipe)


def _toolkit(variant: str | None) -> dict[str, Any]:
    """``cu118`` → CUDA 11.8, ``rocm6.2`` → ROCm 6.2; what else a build is made with needs no toolkit."""
    if match := re.fullmatch(r"cu(\d+)(\d)", variant or ""):
        return {"cuda": f"{match[1]}.{match[2]}"}
    match = re.fullmatch(r"rocm(\d+(?:\.\d+)+)", variant or "")
    return {"rocm": match[1]} if match else {}


def _astray(plan: Plan, axes: Mapping[str, str], toolkit: Mapping[str, str]) -> tuple[Reason, ...]:
    """The reasons, where the planner would do something else than the table asks."""
    if plan.answer != "build" or plan.build is None:
        return plan.because or (Reason(code="no-plan", text="No plan builds this."),)
    rows = (
        ("torch", "torch", axes["torch"], plan.torch, plan.torch),
        ("cuda", "variant", toolkit.get("cuda"), plan.cuda, flavour_name(plan.cuda, None)),
        ("rocm", "variant", toolkit.get("rocm"), plan.rocm, flavour_name(None, plan.rocm)),
        ("python", "python", axes["python"], plan.python, plan.python),
    )
    for name, axis, want, got, value in rows:
        if want is not None and not f"{got}.".startswith(f"{want}."):
            why = next((sentence(change.why) for change in plan.changes if change.what == name), "")
            text = (
                f'{why} Write {axis} = ["{value}"], which the planner would take instead of {want}, or leave the'
                " combination out with [[exclude]]."
            )
            return (Reason(code="other-plan", text=text.strip()), *plan.because)
    return ()


def _spark_refusal(variant: str, archs: str, cuda: UsableCuda) -> str | None:
    toolkit = cuda.toolkit
    if toolkit is None:
        return cuda.why_not or "No CUDA toolkit with nvcc was found."
    have = flavour_name(toolkit.version or "0", None)
    if have != variant:
        return f"This machine's toolkit is {have}, the table asks for {variant}."
    if not archs:
        return f"{variant} needs the axis 'archs'."
    for arch in archs.split(";"):
        try:
            compiles = parse_sm(arch.removesuffix("+PTX")) in cuda.emits
        except (BadInput, ValueError):
            return f"{arch!r} is no architecture."
        if not compiles:
            return f"CUDA {toolkit.version} does not compile for {arch}."
    return None
