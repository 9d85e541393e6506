"""``index page`` joined: the planner asked for every card, system, CPU and Python; the facts; a wheelhouse's wheels."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from rekindle.api.plan import plan
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.files import write_for_user
from rekindle.index.pages.grid import NAME, PLACES, Ask, Grid, architectures, fill, questions
from rekindle.index.pages.page import render_page
from rekindle.index.wheelhouse.catalogue import is_url, load_wheels
from rekindle.model.plan import Plan, Wish
from rekindle.model.progress import Progress, Silent
from rekindle.model.wheelhouse import PageWritten
from rekindle.plan.companions import with_all_companions
from rekindle.plan.describe import machine_from_flags

_CHUNK = 64


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
    """The planner's answers; each is a few milliseconds, and all cores help."""
    asks = questions(gpus)
    progress.stage("plan", f"{len(asks)} combinations of card, system, CPU and Python")
    return fill(gpus, _answered(asks), lambda done: progress.step(done, len(asks), asks[done].gpu))


def ask_planner(ask: Ask) -> Plan:
    """What ``plan`` says, for one question of the page; the card's name is left open."""
    place = next(place for place in PLACES if place.id == ask.place)
    facts = load_facts()
    # As the command line does it: a Python that is named is both there and wished for.
    machine = machine_from_flags(
        facts, gpu=[ask.gpu], os=place.system, arch=place.arch, cpu=ask.cpu or None, python=ask.python or None
    )
    machine = msgspec.structs.replace(
        machine, gpus=tuple(msgspec.structs.replace(gpu, name=NAME) for gpu in machine.gpus)
    )
    wish = Wish(python=ask.python) if ask.python else Wish()
    made = plan(machine, wish, wheelhouses=())
    return made if ask.cpu or ask.python else with_all_companions(made, machine, wish, facts)


def _answered(asks: Sequence[Ask]) -> Iterator[tuple[Ask, Plan]]:
    from concurrent.futures import ProcessPoolExecutor

    workers = min(8, os.cpu_count() or 1)
    if workers == 1:
        yield from ((ask, ask_planner(ask)) for ask in asks)
        return
    import multiprocessing

    with ProcessPoolExecutor(workers, mp_context=multiprocessing.get_context("spawn")) as pool:
        yield from zip(asks, pool.map(ask_planner, asks, chunksize=_CHUNK), strict=True)


def _base(root: str | None) -> str:
    """Where a page outside the wheelhouse finds its wheels."""
    if root is None:
        return ""
    return root.rstrip("/") + "/" if is_url(root) else Path(root).resolve().as_uri() + "/"
