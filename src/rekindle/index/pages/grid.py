"""The page's knowledge: the planner's answer for every card, system, CPU and Python, stored once each.

A ``Grid`` is asked for by its axes and holds indexes into a pool of parts; the same reason or command line
occurs thousands of times and is stored once. A card's own name is left open (``NAME``) in the texts, because
the answer depends on its architecture only; the page puts the name the reader chose.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rekindle.compat.processor import choosing
from rekindle.facts import Facts
from rekindle.model.arch import Gfx, Sm, Xe, parse_gpu_arch
from rekindle.model.document import _to_json
from rekindle.model.facts import ChipRow
from rekindle.model.plan import Plan

# A name no product has; printable, so that it can be seen if it ever leaks.
NAME = "⟦card⟧"
PYTHONS = ("", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
FIELDS = (
    "answer", "torch", "variant", "cuda", "rocm", "cudnn", "python", "numpy", "commands", "because", "warnings",
    "alternatives", "changes", "losses", "minutes", "disk_gib", "memory_gib",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Place:
    """An operating system and processor family that the page offers; ``cpus`` are the choices that matter there."""

    id: str
    label: str
    system: str
    arch: str
    cpus: tuple[str, ...] = ("",)


# CPUs with AVX2 and FMA all get the same answer; of the older ones each kind that differs is asked for.
OLD_CPUS = ("ivybridge", "sandybridge", "nehalem", "piledriver", "x86_64")
PLACES = (
    Place(id="linux", label="Linux x86-64", system="linux", arch="x86_64", cpus=("", *OLD_CPUS)),
    Place(id="windows", label="Windows x86-64", system="windows", arch="x86_64", cpus=("", *OLD_CPUS)),
    Place(id="linux-arm", label="Linux ARM64", system="linux", arch="aarch64"),
)


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One question to the planner. ``gpu`` is an architecture or "none"; "" means unknown or any."""

    gpu: str
    place: str
    cpu: str
    python: str


@dataclass
class Grid:
    gpus: tuple[str, ...]
    parts: list[Any] = field(default_factory=list)
    answers: list[list[int]] = field(default_factory=list)
    cells: dict[str, dict[str, list[list[int]]]] = field(default_factory=dict)
    # Per place and card: what becomes of each companion beside the torch of a usual CPU and Python.
    beside: dict[str, list[int]] = field(default_factory=dict)
    _part_of: dict[bytes, int] = field(default_factory=dict, repr=False)
    _answer_of: dict[tuple[int, ...], int] = field(default_factory=dict, repr=False)

    def put(self, ask: Ask, plan: Plan) -> None:
        row = self.cells.setdefault(ask.place, {}).setdefault(ask.cpu, [[] for _ in PYTHONS])[PYTHONS.index(ask.python)]
        if len(row) != self.gpus.index(ask.gpu):
            raise ValueError("a grid is filled card by card, in order")
        row.append(self._answer(plan))
        if not ask.cpu and not ask.python:
            told = [[one.name, one.answer, one.instead or one.version or ""] for one in plan.companions]
            self.beside.setdefault(ask.place, []).append(self._part(told))

    def find(self, ask: Ask) -> dict[str, Any]:
        """What the page shows for a question: the fields of the plan, as its JSON has them."""
        index = self.cells[ask.place][ask.cpu][PYTHONS.index(ask.python)][self.gpus.index(ask.gpu)]
        return {name: self.read(part) for name, part in zip(FIELDS, self.answers[index], strict=True)}

    def _answer(self, plan: Plan) -> int:
        build = plan.build
        values: dict[str, Any] = {
            name: getattr(plan, name, None)
            for name in FIELDS
            if name not in ("losses", "minutes", "disk_gib", "memory_gib")
        }
        for name in ("losses", "minutes", "disk_gib", "memory_gib"):
            values[name] = getattr(build, name) if build else None
        built = msgspec.to_builtins(values, enc_hook=_to_json)
        key = tuple(self._part(built[name]) for name in FIELDS)
        if key not in self._answer_of:
            self._answer_of[key] = len(self.answers)
            self.answers.append(list(key))
        return self._answer_of[key]

    def _part(self, value: Any) -> int:
        """Lists are kept as lists of parts (marked by being lists), everything else as it is."""
        if isinstance(value, (list, tuple)):
            value = [self._part(item) for item in value]
        encoded = msgspec.json.encode(value)
        if encoded not in self._part_of:
            self._part_of[encoded] = len(self.parts)
            self.parts.append(value)
        return self._part_of[encoded]

    def read(self, part: int) -> Any:
        """A part with the parts it is made of."""
        value = self.parts[part]
        return [self.read(item) for item in value] if isinstance(value, list) else value


def questions(gpus: Iterable[str]) -> list[Ask]:
    """All of them, in the order a grid wants."""
    return [
        Ask(gpu=gpu, place=place.id, cpu=cpu, python=python)
        for place in PLACES
        for cpu in place.cpus
        for python in PYTHONS
        for gpu in gpus
    ]


def fill(gpus: tuple[str, ...], answers: Iterable[tuple[Ask, Plan]]) -> Grid:
    """A grid of these answers, which come in the order of :func:`questions`."""
    grid = Grid(gpus)
    for ask, plan in answers:
        grid.put(ask, plan)
    return grid


def nearest_cpu(features: Iterable[str], known: Mapping[str, Iterable[str]]) -> str:
    """The choice that stands for a CPU: "" if it has AVX2 and FMA, else the one that shares most and adds nothing."""
    have = choosing(features)
    if {"avx2", "fma"} <= have:
        return ""
    fitting = {name: kinds for name, other in known.items() if (kinds := choosing(other)) <= have}
    return max(fitting, key=lambda name: len(fitting[name]), default="x86_64")


def architectures(facts: Facts) -> tuple[str, ...]:
    """NVIDIA by number, then AMD, then Intel; "none" stands for a machine without a GPU."""
    names = {chip.arch for chips in _chips(facts) for chip in chips.values()}
    names |= {str(row.arch) for row in facts.nvidia.jetson}
    archs = [parse_gpu_arch(name) for name in names]
    return ("none", *(str(arch) for kind in (Sm, Gfx, Xe) for arch in sorted(a for a in archs if isinstance(a, kind))))


def _chips(facts: Facts) -> tuple[Mapping[str, ChipRow], ...]:
    return facts.nvidia.chip, facts.amd.chip, facts.intel.chip


def products(facts: Facts, archs: tuple[str, ...]) -> list[list[Any]]:
    """[name, index of the architecture, chip and family], one row for each architecture a name was sold with."""
    seen: dict[tuple[str, str], str] = {}
    for chips in _chips(facts):
        for chip_name, chip in chips.items():
            for product in chip.products:
                seen.setdefault((product, chip.arch), f"{chip_name}, {chip.family}")
    place = {arch: number for number, arch in enumerate(archs)}
    return [[name, place[arch], detail] for (name, arch), detail in sorted(seen.items()) if arch in place]


def processors(facts: Facts) -> list[list[str]]:
    """[name, products, the choice it stands for] for every microarchitecture of x86-64."""
    table = facts.cpu.microarchitecture
    known = {name: table[name].features for name in OLD_CPUS}
    return [
        [name, row.products or "", nearest_cpu(row.features, known) if name not in OLD_CPUS else name]
        for name, row in table.items()
        if row.family == "x86_64"
    ]
