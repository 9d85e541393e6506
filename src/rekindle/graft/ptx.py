"""The PTX way: what a wheel's own PTX can become for a card, and the jobs for ptxas that make it.

PTX is what the compiler made of the sources before it chose a card; the driver would compile it at each first start.
ptxas compiles it once. No source is needed, and the options the wheel's makers gave stand beside the PTX.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from rekindle.compat.toolkit import ptx_runs, sass_runs
from rekindle.facts import Facts
from rekindle.formats.fatbin import Entry
from rekindle.graft.compile import Job
from rekindle.graft.library import GpuLibrary, GraftCandidate, Way
from rekindle.host.files import write_if_changed
from rekindle.model.arch import Sm
from rekindle.model.graft import UnitOutcome, WayKind
from rekindle.model.toml import read_beside


@dataclass(frozen=True)
class PtxUnit(GraftCandidate):
    """A container that has PTX for the card: the ``entry`` to compile."""

    entry: Entry

    @property
    def like(self) -> Sm:
        """Code from the very same PTX."""
        return self.entry.arch


@dataclass(frozen=True, kw_only=True)
class PtxWay(Way):
    """Code from the wheel's own PTX for ``card``, as ``arch``."""

    card: Sm
    arch: Sm
    ptxas: str
    facts: Facts
    kind: ClassVar[WayKind] = "ptx"

    @property
    def flags(self) -> tuple[str, ...]:
        return (f"ptxas -arch={self.arch}",)

    def judge(self, library: GpuLibrary) -> Iterator[GraftCandidate | UnitOutcome]:
        for unit in library.units:
            module = library.module(unit)
            name = module.source if module else None
            runs = [entry for entry in unit.sass if sass_runs(entry.arch, self.card, None, self.facts) is not False]
            ptx = [entry for entry in unit.ptx if ptx_runs(entry.arch, self.card)]
            if runs or any(entry.arch == self.arch for entry in unit.sass):
                yield library.outcome(unit, "has", f"{runs[-1].name if runs else self.arch} runs there", name)
            elif not unit.targets:
                yield library.outcome(unit, "has", "it is empty", name)
            elif not ptx:
                have = ", ".join(dict.fromkeys(unit.targets))
                yield library.outcome(unit, "left-out", f"it has {have} and no PTX that {self.card} can use", name)
            else:
                entry = max(ptx, key=lambda entry: entry.arch)
                yield PtxUnit(library.name, unit, name, self.arch, f"its {entry.name} PTX", entry)

    def jobs(self, folder: Path, number: int, library: GpuLibrary, units: Sequence[PtxUnit]) -> list[Job]:
        """The PTX of ``units`` is written as files."""
        jobs: list[Job] = []
        for each in units:
            ptx, cubin = f"ptx/{number}-{each.unit.number}.ptx", each.output(number)
            write_if_changed(folder / ptx, library.image(each.entry) + b"\n")
            options = ptxas_options(library.options(each.entry))
            first = (self.ptxas, f"-arch={each.arch}", "-m64", *options, ptx, "-o", cubin)
            title = f"object {cubin} ({each.name or 'unnamed unit'})"
            jobs.append(Job(output=cubin, command=first, inputs=(ptx,), title=title))
        return jobs


def ptxas_options(options: Sequence[str]) -> tuple[str, ...]:
    """The wheel's own options for ptxas, without those that are ours to say and those nobody knows."""
    taken = read_beside(__file__, "ptxas_options.toml", dict[str, frozenset[str]])["taken"]
    return tuple(word for word in options if word.split("=", 1)[0] in taken)
