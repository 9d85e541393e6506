"""``index page`` joined: the planner asked for every card, system, CPU and Python; the facts; a wheelhouse's wheels."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rekindle.api.plan import plan_by_cpu
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.files import write_for_user
from rekindle.index.pages.grid import NAME, PLACES, PYTHONS, Ask, Grid, architectures, fill, questions
from rekindle.index.pages.page import render_page
from rekindle.index.wheelhouse.catalogue import is_url, load_wheels
from rekindle.model.plan import Plan, Wish
from rekindle.model.progress import Progress, Silent
from rekindle.model.wheelhouse import PageWritten
from rekindle.plan.companions import with_all_companions
from rekindle.plan.describe import machine_from_flags

_CHUNK = len(PLACES) * len(PYTHONS)


def index_page(*, root: str | None, out: str | None, progress: Progress | None = None) -> PageWritten:
    """Write the page that finds the torch for a card: one file that works offline, with or without a wheelhouse."""
    if root is None and out is None:
        raise BadInput("where should the page go?", remedy="give --out FILE, or a wheelhouse with --root DIR")
    rows = load_wheels(root) if root else ()
    target = Path(out) if out else Path(root or ".") / "index.html"
    if target.is_dir():
        target = target / "index.html"
    facts = load_facts()
    grid = plan_grid(architectures(facts), progress or Silent())
    text, cards = render_page(facts, grid, rows, base="" if out is None else _base(root))
    write_for_user(target, text)
    return PageWritten(
        path=str(target.resolve()), bytes=len(text.encode()), gpus=cards, answers=len(grid.answers), wheels=len(rows)
    )


def plan_grid(gpus: tuple[str, ...], progress: Progress) -> Grid:
    """The planner's answers. It is asked once for all CPUs of a card, a system and a Python, and all cores help."""
    asks = questions(gpus)
    alike: dict[tuple[str, str, str], list[Ask]] = {}
    # Card by card: what was worked out for one is of use for its other questions.
    for ask in sorted(asks, key=lambda ask: gpus.index(ask.gpu)):
        alike.setdefault((ask.gpu, ask.place, ask.python), []).append(ask)
    progress.stage("plan", f"{len(asks)} combinations of card, system, CPU and Python")
    told: dict[Ask, Plan] = {}
    for group, plans in _answered(list(alike.values())):
        told.update(zip(group, plans, strict=True))
        progress.step(len(told), len(asks), group[0].gpu)
    return fill(gpus, ((ask, told[ask]) for ask in asks))


def ask_planner(asks: Sequence[Ask]) -> list[Plan]:
    """What ``plan`` says, for questions of the page that differ in their CPU alone; the card's name is left open."""
    facts, first = load_facts(), asks[0]
    place = next(place for place in PLACES if place.id == first.place)
    # As the command line does it: a Python that is named is both there and wished for.
    wish = Wish(python=first.python) if first.python else Wish()
    machines = []
    for ask in asks:
        machine = machine_from_flags(
            facts, gpu=[ask.gpu], os=place.system, arch=place.arch, cpu=ask.cpu or None, python=ask.python or None
        )
        cards = tuple(msgspec.structs.replace(gpu, name=NAME) for gpu in machine.gpus)
        machines.append(msgspec.structs.replace(machine, gpus=cards))
    return [
        made if ask.cpu or ask.python else with_all_companions(made, machine, wish, facts)
        for ask, machine, made in zip(asks, machines, plan_by_cpu(machines, wish), strict=True)
    ]


def _answered(groups: Sequence[list[Ask]]) -> Iterator[tuple[list[Ask], list[Plan]]]:
    from concurrent.futures import ProcessPoolExecutor

    workers = min(8, os.cpu_count() or 1)
    if workers == 1:
        yield from ((group, ask_planner(group)) for group in groups)
        return
    import multiprocessing

    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from zip(groups, pool.map(ask_planner, groups, chunksize=_CHUNK), strict=True)


def _base(root: str | None) -> str:
    """Where a page outside the wheelhouse finds its wheels."""
    if root is None:
        return ""
    return root.rstrip("/") + "/" if is_url(root) else Path(root).resolve().as_uri() + "/"
