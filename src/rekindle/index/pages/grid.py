"""The page's knowledge: the planner's answer for every card, system, CPU and Python, and for every driver of NVIDIA's
that makes a difference; stored once each.

A ``Grid`` is asked for by its axes and holds indexes into a pool of parts, since the same line occurs thousands of
times. A card's name is left open in the texts (``NAME``), because the answer depends on its architecture only; so is
the driver (``DRIVER``), which stands for all up to the next one that makes a difference: the page puts what the reader
chose. A driver is asked for with any Python and a usual CPU; with others the answer without a driver holds where
:func:`driver_spans` says that the driver runs its CUDA.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from rekindle.compat.driver import Side, card_drivers, distinct_drivers, toolkit_driver
from rekindle.compat.processor import choosing
from rekindle.facts import Facts
from rekindle.model.arch import Gfx, Sm, Xe, parse_gpu_arch, parse_sm
from rekindle.model.document import json_form
from rekindle.model.facts import ChipRow
from rekindle.model.plan import Plan

# Names no product and no driver has; printable, so that they can be seen if they ever leak.
NAME = "⟦card⟧"
DRIVER = "⟦driver⟧"
PYTHONS = ("", "3.9", "3.10", "3.11", "3.12", "3.13", "3.14")
FIELDS = (
    *("answer", "torch", "variant", "cuda", "rocm", "cudnn", "python", "numpy", "commands", "because", "warnings"),
    *("alternatives", "changes", "losses", "minutes", "disk_gib", "memory_gib"),
)
# CPUs with AVX2 and FMA all get the same answer; of the older ones each kind that differs is asked for.
OLD_CPUS = ("ivybridge", "sandybridge", "nehalem", "piledriver", "penryn", "core2", "k8")


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """An operating system and processor family that the page offers; ``cpus`` are the choices that matter there."""

    id: str
    label: str
    system: str
    machine: str
    cpus: tuple[str, ...] = ("",)

    @property
    def side(self) -> Side:
        """Whose drivers count."""
        return "windows" if self.system == "windows" else "linux"


PLACES = (
    Place(id="linux", label="Linux x86-64", system="linux", machine="x86_64", cpus=("", *OLD_CPUS)),
    Place(id="windows", label="Windows x86-64", system="windows", machine="x86_64", cpus=("", *OLD_CPUS)),
    Place(id="linux-arm", label="Linux ARM64", system="linux", machine="aarch64"),
)


@dataclass(frozen=True, kw_only=True)
class Ask:
    """One question to the planner. ``gpu`` is an architecture or "none"; "" means unknown or any."""

    gpu: str
    place: str
    cpu: str
    python: str
    driver: str = ""

    @property
    def spoken_driver(self) -> str | None:
        """As the planner is told it: a zero at the end changes no version, and marks it among the tables' numbers."""
        return f"{self.driver}.0" if self.driver else None


@dataclass(frozen=True)
class PageAnswer:
    """A plan as the page shows it: JSON of each of ``FIELDS``; ``companions``, where they were asked."""

    fields: tuple[bytes, ...]
    companions: bytes


@dataclass
class Grid:
    """All answers, each part of them once."""

    gpus: tuple[str, ...]
    parts: list[Any] = field(default_factory=list)
    answers: list[list[int]] = field(default_factory=list)
    cells: dict[str, dict[str, list[list[int]]]] = field(default_factory=dict)
    # Per place and card: what becomes of each companion beside the torch of a usual CPU and Python.
    companions: dict[str, list[int]] = field(default_factory=dict)
    # Per place and card: [driver, answer], each from that driver on, oldest first.
    drivers: dict[str, dict[str, list[tuple[str, int]]]] = field(default_factory=dict)
    _part_of: dict[bytes, int] = field(default_factory=dict)
    _field_of: dict[bytes, int] = field(default_factory=dict)
    _answer_of: dict[tuple[int, ...], int] = field(default_factory=dict)

    def put(self, ask: Ask, answer: PageAnswer) -> None:
        """The answer to the next question; those with a driver oldest first."""
        if ask.driver:
            steps = self.drivers.setdefault(ask.place, {}).setdefault(ask.gpu, [])
            if (number := self._answer(answer)) != (steps[-1][1] if steps else None):
                steps.append((ask.driver, number))
            return
        row = self.cells.setdefault(ask.place, {}).setdefault(ask.cpu, [[] for _ in PYTHONS])[PYTHONS.index(ask.python)]
        if len(row) != self.gpus.index(ask.gpu):
            raise ValueError("a grid is filled card by card, in order")
        row.append(self._answer(answer))
        if not ask.cpu and not ask.python:
            self.companions.setdefault(ask.place, []).append(self._field(answer.companions))

    def _answer(self, answer: PageAnswer) -> int:
        parts = tuple(map(self._field, answer.fields))
        if parts not in self._answer_of:
            self._answer_of[parts] = len(self.answers)
            self.answers.append(list(parts))
        return self._answer_of[parts]

    def _field(self, raw: bytes) -> int:
        if raw not in self._field_of:
            self._field_of[raw] = self._part(msgspec.json.decode(raw))
        return self._field_of[raw]

    def _part(self, value: Any) -> int:
        """Lists are kept as lists of parts (marked by being lists), everything else as it is."""
        if isinstance(value, (list, tuple)):
            value = [self._part(item) for item in value]
        encoded = msgspec.json.encode(value)
        if encoded not in self._part_of:
            self._part_of[encoded] = len(self.parts)
            self.parts.append(value)
        return self._part_of[encoded]


def questions(gpus: Iterable[str]) -> list[Ask]:
    """All of them, in the order a grid wants."""
    choices = ((place.id, cpu, python) for place in PLACES for cpu in place.cpus for python in PYTHONS)
    return [Ask(gpu=gpu, place=place, cpu=cpu, python=python) for place, cpu, python in choices for gpu in gpus]


def driver_questions(gpus: Iterable[str], facts: Facts) -> list[Ask]:
    """For NVIDIA's cards: one for each driver from which on a card may get another answer."""
    return [
        Ask(gpu=gpu, place=place.id, cpu="", python="", driver=driver)
        for place in PLACES
        for gpu in gpus
        if gpu.startswith("sm_")
        for driver in distinct_drivers(parse_sm(gpu), place.side, facts)
    ]


def driver_spans(gpus: Iterable[str], facts: Facts) -> dict[str, dict[str, Any]]:
    """Per place: the driver that came with each CUDA, and for each of NVIDIA's cards the first driver and the branch
    from which on none drives it. A driver inside both changes nothing in a plan with that CUDA but its words."""
    spans: dict[str, dict[str, Any]] = {}
    for place in PLACES:
        cards = {gpu: card_drivers(parse_sm(gpu), place.side, facts) for gpu in gpus if gpu.startswith("sm_")}
        # A bare branch would mean the newest of it.
        own = {kit: f"{toolkit_driver(kit, place.side, facts).own or 999999}.0" for kit in facts.toolkits}
        first_and_below = {gpu: [f"{row.first or 0}.0", row.below] for gpu, row in cards.items()}
        spans[place.id] = {"kits": own, "cards": first_and_below}
    return spans


def page_answer(plan: Plan, ask: Ask) -> PageAnswer:
    """What the page shows of a plan."""
    of_build = ("losses", "minutes", "disk_gib", "memory_gib")
    values = [getattr(plan.build if name in of_build else plan, name, None) for name in FIELDS]
    fields = [msgspec.json.encode(value, enc_hook=json_form) for value in values]
    if ask.spoken_driver:
        driver, left_open = ask.spoken_driver.encode(), DRIVER.encode()
        fields = [raw.replace(driver, left_open) for raw in fields]
    companions = [[row.name, row.answer, row.instead or row.version or ""] for row in plan.companions]
    return PageAnswer(tuple(fields), msgspec.json.encode(companions))


def fill(gpus: tuple[str, ...], answers: Iterable[tuple[Ask, PageAnswer]]) -> Grid:
    """A grid of these answers, which come in the order of :func:`questions` and :func:`driver_questions`."""
    grid = Grid(gpus)
    for ask, answer in answers:
        grid.put(ask, answer)
    return grid


def nearest_cpu(features: Iterable[str], known: Mapping[str, Iterable[str]]) -> str:
    """The choice that stands for a CPU: "" if it has AVX2 and FMA, else the one that shares most and adds nothing."""
    have = choosing(features)
    if {"avx2", "fma"} <= have:
        return ""
    fitting = {name: kinds for name, other in known.items() if (kinds := choosing(other)) <= have}
    return max(fitting, key=lambda name: len(fitting[name]), default="k8")


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
    for chip_name, chip in (pair for chips in _chips(facts) for pair in chips.items()):
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
        if row.family == "x86_64" != name  # "x86_64" is a kind of machine, not a CPU
    ]


def grid_data(grid: Grid, facts: Facts) -> dict[str, Any]:
    """What the page's script reads of a grid."""
    axes = {"places": PLACES, "cpus": processors(facts), "oldCpus": OLD_CPUS, "pythons": PYTHONS, "archs": grid.gpus}
    open_names = {"name": NAME, "driver": DRIVER, "fields": FIELDS}
    held = {name: getattr(grid, name) for name in ("parts", "answers", "cells", "companions", "drivers")}
    return axes | open_names | held | {"spans": driver_spans(grid.gpus, facts)}
