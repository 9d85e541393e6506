"""The PTX way: what a wheel's own PTX can become for a card, and the jobs for ptxas that make it.

PTX is what the compiler made of the sources before it chose a card; the driver would compile it at each first start.
ptxas compiles it once. No source is needed, and the options the wheel's makers gave stand beside the PTX.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rekindle.compat.toolkit import ptx_runs, sass_runs
from rekindle.facts import Facts
from rekindle.formats.fatbin import Entry
from rekindle.graft.compile import Job
from rekindle.graft.library import GpuLibrary, Unit, nearest, outcome
from rekindle.host.files import write_if_changed
from rekindle.model.arch import Sm
from rekindle.model.graft import UnitOutcome, WayKind
from rekindle.model.toml import read_beside


@dataclass(frozen=True)
class PtxUnit:
    """A container that lacks code for the card and has PTX for it: the ``entry`` to compile."""

    library: str
    unit: Unit
    name: str | None
    entry: Entry
    arch: Sm

    @property
    def plan(self) -> str:
        """What it is made from, in words."""
        return f"its {self.entry.name} PTX"

    def official(self) -> Entry | None:
        """The wheel's own machine code to hold it against: from the very same PTX where there is some, else the
        nearest. None: PTX alone, of which the driver would take whatever it gives."""
        same = next((entry for entry in self.unit.sass if entry.arch == self.entry.arch), None)
        return same or nearest(self.unit.sass, self.arch)


@dataclass(frozen=True, kw_only=True)
class PtxWay:
    """Code from the wheel's own PTX for ``card``, as ``arch``."""

    card: Sm
    arch: Sm
    ptxas: str
    facts: Facts
    kind: WayKind = "ptx"
    sources: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        """What the compiler is told of every unit."""
        return (f"ptxas -arch={self.arch}",)

    def survey(self, library: GpuLibrary) -> tuple[list[PtxUnit], list[UnitOutcome]]:
        """What can be compiled of a library, and the state of its other units."""
        units: list[PtxUnit] = []
        others: list[UnitOutcome] = []
        for unit in library.units:
            module = library.module(unit)
            name = module.source if module else None
            runs = [entry for entry in unit.sass if sass_runs(entry.arch, self.card, None, self.facts) is not False]
            ptx = [entry for entry in unit.ptx if ptx_runs(entry.arch, self.card)]
            if runs or any(entry.arch == self.arch for entry in unit.sass):
                why = f"{runs[-1].name if runs else self.arch} runs there"
                others.append(outcome(library, unit, module, "has", why))
            elif not unit.container.entries:
                others.append(outcome(library, unit, module, "has", "it is empty"))
            elif not ptx:
                have = ", ".join(dict.fromkeys(entry.name for entry in unit.container.entries))
                why = f"it has {have} and no PTX that {self.card} can use"
                others.append(outcome(library, unit, module, "left-out", why))
            else:
                units.append(PtxUnit(library.name, unit, name, max(ptx, key=lambda entry: entry.arch), self.arch))
        return units, others

    def jobs(self, folder: Path, number: int, library: GpuLibrary, units: Sequence[PtxUnit]) -> list[Job]:
        """The PTX of ``units`` as files in ``folder``, and the jobs that make cubins of them; ``number`` tells
        libraries apart."""
        jobs: list[Job] = []
        for each in units:
            stem = f"{number}-{each.unit.number}"
            write_if_changed(folder / f"ptx/{stem}.ptx", library.image(each.entry) + b"\n")
            cubin = f"cubin/{stem}.{each.arch}.cubin"
            options = ptxas_options(library.options(each.entry))
            first = (self.ptxas, f"-arch={each.arch}", "-m64", *options, f"ptx/{stem}.ptx", "-o", cubin)
            title = f"object {cubin} ({each.name or 'unnamed unit'})"
            jobs.append(Job(output=cubin, command=first, inputs=(f"ptx/{stem}.ptx",), title=title))
        return jobs


def ptxas_options(options: Sequence[str]) -> tuple[str, ...]:
    """The wheel's own options for ptxas, without those that are ours to say and those nobody knows."""
    taken = read_beside(__file__, "ptxas_options.toml", dict[str, frozenset[str]])["taken"]
    return tuple(word for word in options if word.split("=", 1)[0] in taken)
