"""What is asked about: a machine that the doctor has examined, or a build that is planned on this one, with its wheel's
name; and the command that fixes what is not ready (fixes.toml). ``2.0.1+rekindle.cu118.sm35``: a wheel carries the
tree's own version, plus who built it for what: our name, the variant, and the architectures where they are few."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec
from packaging.utils import parse_wheel_filename

from rekindle.compat.resources import from_index, is_planned_cudnn, parts_for
from rekindle.facts import load_facts
from rekindle.host.protocol import Host
from rekindle.model.machine import Check, CheckStatus, Drivers, Gap, Gpu, Machine, Purpose
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree
from rekindle.model.supply import DiskPhase, ThirdParty
from rekindle.model.toml import read_beside
from rekindle.model.version import flavour_name
from rekindle.toolkits.programs import is_root

TO_BUILD: tuple[Purpose, ...] = ("build",)
TO_USE: tuple[Purpose, ...] = ("use",)
TO_BOTH: tuple[Purpose, ...] = ("build", "use")
MAX_ARCHS_IN_NAME = 3
Checks = Iterator[Check]  # empty where the question does not arise


def load_fixes() -> Mapping[str, dict[str, str]]:
    """The table: topic → package manager → command."""
    return read_beside(__file__, "fixes.toml", dict[str, dict[str, str]])


def find_managers(host: Host) -> tuple[str, ...]:
    """The package managers this system has, the system's own first."""
    rows = [row for row in load_facts().supply.manager if row.system == host.system]
    names = [row.name for row in rows if host.which(row.install.split()[0])]
    if host.env.get("CONDA_PREFIX") or host.which("conda"):
        # An activated environment is where the user wants things.
        names.insert(0 if host.env.get("CONDA_PREFIX") else len(names), "conda")
    if "ID=ubuntu" in (host.read("/etc/os-release") or b"").decode("utf-8", "replace").splitlines():
        names.insert(0, "ubuntu")
    if host.system == "windows":
        # Not every Windows has winget; what is said then must still be about Windows.
        names.append("windows")
    return ("root", *names) if is_root(host) else tuple(names)


def fix_for(topic: str, managers: tuple[str, ...]) -> str | None:
    """The command for the first manager that has one."""
    commands = load_fixes().get(topic, {})
    command = next((commands[manager] for manager in (*managers, "any") if manager in commands), None)
    return command and command.replace("{sudo}", "" if "root" in managers else "sudo ")


class Cards(msgspec.Struct, frozen=True, kw_only=True):
    """One vendor's cards, its driver, and what is wrong with it in one sentence."""

    gpus: tuple[Gpu, ...] = ()
    driver: str | None = None
    l4t: str | None = None
    trouble: str | None = None


class Graphics(msgspec.Struct, frozen=True, kw_only=True):
    """The cards of a machine by their makers."""

    nvidia: Cards = Cards()
    amd: Cards = Cards()
    intel: Cards = Cards()

    @property
    def gpus(self) -> tuple[Gpu, ...]:
        return self.nvidia.gpus + self.amd.gpus + self.intel.gpus

    @property
    def drivers(self) -> Drivers:
        return Drivers(nvidia=self.nvidia.driver, amdgpu=self.amd.driver, intel=self.intel.driver, l4t=self.nvidia.l4t)


class ExaminedMachine(msgspec.Struct, frozen=True, kw_only=True):
    """A finished machine, its cards with their troubles, and how this system installs things."""

    machine: Machine
    graphics: Graphics
    managers: tuple[str, ...]
    workspace: str
    torch_users: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def fix(self, topic: str) -> str | None:
        return fix_for(topic, self.managers)

    def verdict(
        self,
        name: str,
        good: object,
        found: str | None,
        *,
        want: str,
        topic: str | None = None,
        why: str | None = None,
        bad: CheckStatus = "fail",
        needed_for: tuple[Purpose, ...] = TO_BUILD,
    ) -> Check:
        """Good needs no more words; what is not good says what is wanted, why, and what fixes it (``topic``)."""
        if good:
            return Check(id=name, status="ok", needed_for=needed_for, found=found)
        fix = self.fix(topic or name)
        return Check(id=name, status=bad, needed_for=needed_for, found=found, want=want, fix=fix, why=why)

    @property
    def windows(self) -> bool:
        return self.machine.os.system == "windows"


class PlannedBuild(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be built. ``tree`` is None before there is one; ``place`` is where it will lie. ``packages`` are what
    pip must bring where other things come first (in ``build`` making the environment is the first thing, so nothing is
    asked). ``workspace`` is where all but the build tree goes (default: there), ``places`` where later phases write."""

    plan: Plan
    python: str
    place: Path
    tree: SourceTree | None = None
    cmake: str | None = None
    ninja: str | None = None
    packages: tuple[str, ...] = ()
    workspace: Path | None = None
    places: Mapping[DiskPhase, Path] = {}

    @property
    def recipe(self) -> BuildRecipe:
        """How it is built; only plans that build are asked about."""
        assert self.plan.build is not None
        return self.plan.build

    @property
    def settings(self) -> dict[str, str]:
        """What the plan tells CMake and the environment, and where the tree has libraries."""
        return {**self.roots, **self.recipe.cmake, **self.recipe.env}

    @property
    def from_index(self) -> tuple[ThirdParty, ...]:
        """What the tree has, or will have once it is fetched, from the package index."""
        recipe, plan = self.recipe, self.plan
        supplied = bool(recipe.packages) and recipe.origin not in ("git", "tarball")
        if self.release is None or plan.project != "torch" or (self.tree is None and not supplied):
            return ()
        folders = {part.path for part in self.tree.parts if part.way == "index"} if self.tree else None
        rows = from_index(parts_for(self.release, cuda=plan.cuda), plan.backend)
        present = (row for row in rows if folders is None or row.folder in folders)
        return tuple(row for row in present if is_planned_cudnn(row, plan.cudnn))

    @property
    def roots(self) -> dict[str, str]:
        """The settings that name to the build where in the tree its libraries from the package index lie."""
        place = self.tree.root if self.tree else str(self.place)
        return {row.index.root: f"{place}/{row.folder}" for row in self.from_index if row.index and row.index.root}

    @property
    def release(self) -> str | None:
        """The torch release, without its local part."""
        return self.plan.torch.split("+")[0] if self.plan.torch else None


def build_check(
    name: str, status: CheckStatus, found: str | None = None, *, want: str | None = None, fix: str | None = None
) -> Check:
    """A check of what a build alone needs."""
    return Check(id=name, status=status, needed_for=TO_BUILD, found=found, want=want, fix=fix)


def wheel_version(plan: Plan, tree: SourceTree) -> str:
    """PEP 440: the local part is letters, digits and dots. For torch the plan's version counts: version.txt of a tag
    still says 1.13.0a0. What follows a hyphen in the recipe's (``+cpu-ivybridge``) tells like wheels apart."""
    public = (plan.torch if plan.project == "torch" and plan.torch else tree.version).split("+")[0]
    numbers = [arch.replace("+PTX", "ptx").removeprefix("sm_").replace(".", "") for arch in plan.arch_list]
    archs = [text if text.startswith("gfx") else f"sm{text}" for text in numbers]
    env = plan.build.env if plan.build else {}
    version = next((value for name, value in env.items() if name.endswith("BUILD_VERSION")), "")
    parts = ["rekindle", plan.variant or flavour_name(plan.cuda, plan.rocm)]
    parts += archs if len(archs) <= MAX_ARCHS_IN_NAME else []
    parts.append(version.partition("+")[2].partition("-")[2])
    local = ".".join(re.sub(r"[^a-z0-9.]+", ".", part.lower()).strip(".") for part in parts if part)
    return f"{public}+{local}"


def wheel_name(plan: Plan, tree: SourceTree | None, tag: str, host: Host) -> str | None:
    """What the wheel will be called; None before there is a tree whose version counts."""
    if plan.project != "torch" and tree is None:
        return None
    version = wheel_version(plan, tree or SourceTree(project=plan.project, version=plan.torch or "0", root=""))
    platform = {"linux": f"linux_{host.machine}", "windows": "win_amd64", "macos": f"macosx_{host.machine}"}
    inside = plan.project.replace("-", "_")
    name = f"{inside}-{version}-{tag.removesuffix('t')}-{tag}-{platform.get(host.system, host.system)}.whl"
    parse_wheel_filename(name)
    return name
