"""``matrix propose``: from a list of machines to the fewest wheels that serve all of them, as a table ready to run. A
machine that an official wheel serves needs none. Others with one system and Python share a wheel where one release with
one toolkit can be built for all their cards: of what each would get alone, the one that serves most comes first."""

import csv
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rekindle.api.plan_torch import find_machine, plan, plan_build
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.files import write_for_user
from rekindle.matrix.table import MAX_TABLE_BYTES
from rekindle.model.document import read_bounded
from rekindle.model.machine import Machine
from rekindle.model.matrix import Proposal, ProposedWheel
from rekindle.model.plan import Plan, Wish
from rekindle.model.version import flavour_name, key, minor
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.question import Question

_COLUMNS = ("name", "gpu", "driver", "os", "python", "cpu", "arch", "distro", "glibc")
_MAX_MACHINES = 1000
_Build = tuple[str, str | None, str | None]  # torch, CUDA, ROCm


class _Machine(msgspec.Struct, frozen=True):
    """A machine of the list; ``wish`` says which Python its wheel is for."""

    name: str
    machine: Machine
    wish: Wish


def matrix_propose(machines: Sequence[str], *, python: str | None = None, out: Path | None = None) -> Proposal:
    """The fewest wheels for these machines: names of cards or profiles, doctor's files, CSV files with a header of
    gpu, driver, os, python and more. ``python`` counts where a machine does not say which.

    >>> proposal = matrix_propose(["GTX 1080", "Tesla K40c"])
    >>> list(proposal.official), [wheel.serves for wheel in proposal.wheels]
    (['GTX 1080'], [('Tesla K40c',)])
    """
    official: dict[str, str] = {}
    unserved: dict[str, str] = {}
    groups: dict[tuple[str, str], dict[str, tuple[_Machine, Plan]]] = {}
    for entry in _read_machines(machines, python):
        official_plan = plan(entry.machine, entry.wish, wheelhouses=())
        if official_plan.answer == "install":
            official[entry.name] = official_plan.commands[-1]
            continue
        built = plan_build(entry.machine, msgspec.structs.replace(entry.wish, build=True))
        if built.answer != "build" or built.python is None:
            unserved[entry.name] = next((reason.text for reason in official_plan.because), "no torch is known for it")
            continue
        system = f"{entry.machine.os.system}-{Question(entry.machine, entry.wish, load_facts()).arch}"
        groups.setdefault((system, entry.wish.python or built.python), {})[entry.name] = (entry, built)
    wheels = [wheel for place, members in groups.items() for wheel in _fewest_wheels(*place, members)]
    table = table_text(wheels)
    path = str(out) if wheels and out is not None else None
    if path is not None:
        write_for_user(Path(path), table)
    return Proposal(table=table, wheels=tuple(wheels), official=official, unserved=unserved, path=path)


def _fewest_wheels(system: str, python: str, members: dict[str, tuple[_Machine, Plan]]) -> Iterator[ProposedWheel]:
    """Wheels until every machine has one; each is the build that serves most of those left, of these the newest."""
    served: dict[_Build, list[str]] = {}
    for build in dict.fromkeys((built.torch or "", built.cuda, built.rocm) for _, built in members.values()):
        # Those for which exactly this build can be made, and whose driver runs it.
        made = {name: _plan_as_build(entry, build, python) for name, (entry, _) in members.items()}
        same = {name: plan for name, plan in made.items() if (plan.torch, plan.cuda, plan.rocm) == build}
        served[build] = [name for name, plan in same.items() if plan.answer == "build" and not plan.changes]
    table = load_facts().cpu.microarchitecture
    left = set(members)
    while left:
        build = max(served, key=lambda each: (len(left & {*served[each]}), key(each[0])))
        names = [name for name in served[build] if name in left] or sorted(left)[:1]
        left -= set(names)
        archs = {arch for name in names for arch in _plan_as_build(members[name][0], build, python).arch_list}
        # What is compiled for the CPU that can do least runs on the others.
        cpus = [cpu for name in names if (cpu := members[name][0].machine.cpu.microarchitecture) in table]
        yield ProposedWheel(
            torch=build[0],
            variant=flavour_name(*build[1:]),
            python=python,
            system=system,
            archs=tuple(sorted(archs, key=lambda arch: (0, *key(arch)) if arch[:1].isdecimal() else (1, arch))),
            serves=tuple(names),
            cpu=min(cpus, key=lambda cpu: len(table[cpu].features), default=None),
        )


def _plan_as_build(entry: _Machine, build: _Build, python: str) -> Plan:
    torch, cuda, rocm = build
    return plan_build(entry.machine, Wish(torch=torch, cuda=cuda, rocm=rocm, python=python, build=True))


def table_text(wheels: Sequence[ProposedWheel]) -> str:
    """As ``matrix plan`` reads it: the first wheel spans the axes, each other one is a row of its own."""
    lines = ["# Written by rekindle matrix propose"]
    for number, wheel in enumerate(wheels):
        lines += ["", f"# serves {', '.join(wheel.serves)}".replace("\n", " "), "[[include]]" if number else "[axes]"]
        values = {axis: getattr(wheel, axis) for axis in ("torch", "python", "variant", "archs", "cpu", "system")}
        told = {axis: value if number else [value] for axis, value in values.items() if value}
        lines += [f"{axis} = {msgspec.json.encode(value).decode()}" for axis, value in told.items()]
    return "\n".join(lines) + "\n"


def _read_machines(words: Sequence[str], python: str | None) -> list[_Machine]:
    entries: dict[str, _Machine] = {}
    for entry in itertools.chain.from_iterable(_read_word(word, python) for word in words):
        # Three machines of one kind are three machines.
        names = itertools.chain([entry.name], (f"{entry.name} ({number})" for number in itertools.count(2)))
        name = next(name for name in names if name not in entries)
        entries[name] = msgspec.structs.replace(entry, name=name)
        if len(entries) > _MAX_MACHINES:
            raise BadInput(f"more than {_MAX_MACHINES} machines", remedy="propose for one kind of them at a time")
    if not entries:
        raise BadInput("no machine is named", remedy='rekindle matrix propose "GTX 1080" lab.csv machine.json')
    return list(entries.values())


def _read_word(word: str, python: str | None) -> Iterable[_Machine]:
    path = Path(word)
    if path.suffix.lower() == ".csv":
        yield from _csv_machines(path, python)
    elif path.suffix.lower() == ".json" or word in load_facts().machines.machine:
        machine, wish = find_machine(word)
        had = max((each.version for each in machine.pythons), key=key, default=None)
        release = wish.python or python or (minor(had) if had else None)
        yield _Machine(path.stem, machine, Wish(python=release))
    else:
        yield _Machine(word, machine_from_flags(gpu=[word], python=python), Wish(python=python))


def _csv_machines(path: Path, python: str | None) -> Iterator[_Machine]:
    remedy = f"a CSV file with a header of {', '.join(_COLUMNS[1:5])}, one machine in each line"
    text = read_bounded(path, MAX_TABLE_BYTES, "list of machines", remedy=remedy).decode("utf-8-sig", "replace")
    rows = csv.DictReader(text.splitlines(), dialect=csv.excel, restkey="more")
    heads = {head: head.strip().lower() for head in rows.fieldnames or ()}
    if unknown := [head for head in heads.values() if head not in _COLUMNS]:
        raise BadInput(f"{path}: no column is called {unknown[0]!r}", remedy=f"columns are {', '.join(_COLUMNS)}")
    for number, row in enumerate(rows, 2):
        cells = {heads[head]: text.strip() for head, text in row.items() if head in heads and text}
        flags: dict[str, Any] = {head: text for head, text in cells.items() if text}
        name = flags.pop("name", None) or flags.get("gpu") or f"line {number}"
        cards = [card.strip() for card in flags.pop("gpu", "none").split("+")]
        flags.setdefault("python", python)
        try:
            machine = machine_from_flags(gpu=cards, **flags)
        except BadInput as error:
            raise BadInput(f"{path}, line {number}: {error.message}", remedy=error.remedy) from error
        yield _Machine(name, machine, Wish(python=flags["python"]))
