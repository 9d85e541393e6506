"""``index page`` joined: the planner asked for every card, system, CPU, Python and driver; the facts; a house's
wheels."""

import contextlib
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from rekindle.api.plan_torch import plan_many
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.files import write_for_user
from rekindle.index.pages import grid
from rekindle.index.pages.page import render_page
from rekindle.index.wheelhouse.catalogue import is_url, load_wheels
from rekindle.model.machine import Machine
from rekindle.model.plan import Wish
from rekindle.model.progress import Progress, Silent
from rekindle.model.wheelhouse import PageWritten
from rekindle.plan.companions import with_all_companions
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.question import PlanMemory


def index_page(*, root: str | None, out: str | None, progress: Progress | None = None) -> PageWritten:
    """Write the page that finds the torch for a card: one file that works offline, with or without a wheelhouse."""
    if root is None and out is None:
        raise BadInput("where should the page go?", remedy="give --out FILE, or a wheelhouse with --root DIR")
    rows = load_wheels(root) if root else ()
    target = Path(out) if out else Path(root or ".") / "index.html"
    if target.is_dir():
        target = target / "index.html"
    facts = load_facts()
    planned = plan_grid(grid.architectures(facts), progress or Silent())
    text, cards = render_page(facts, planned, rows, base="" if out is None else _base(root))
    write_for_user(target, text)
    path, size = str(target.resolve()), len(text.encode())
    return PageWritten(path=path, bytes=size, gpus=cards, answers=len(planned.answers), wheels=len(rows))


def plan_grid(gpus: tuple[str, ...], progress: Progress) -> grid.Grid:
    """The planner's answers. It is asked card by card, and all cores help."""
    asks = [*grid.questions(gpus), *grid.driver_questions(gpus, load_facts())]
    progress.stage("plan", f"{len(asks)} combinations of card, system, CPU, Python and driver")
    of_card: dict[str, list[grid.Ask]] = {}
    # What differs in the CPU alone stands together: it is judged once.
    for ask in sorted(asks, key=lambda ask: (ask.place, ask.python, ask.driver)):
        of_card.setdefault(ask.gpu, []).append(ask)
    answers: dict[grid.Ask, grid.PageAnswer] = {}
    for card, (group, answered) in zip(of_card, _ask_groups(list(of_card.values())), strict=True):
        answers.update(zip(group, answered, strict=True))
        progress.step(len(answers), len(asks), card)
    return grid.fill(gpus, ((ask, answers[ask]) for ask in asks))


# What was found for one card is of use for the next one that a process is given.
_MEMORY: PlanMemory = {}


def ask_planner(asks: Sequence[grid.Ask]) -> list[grid.PageAnswer]:
    """What ``plan`` says to questions of the page; the card's name is left open."""
    facts = load_facts()
    asked = [(_machine(ask), Wish(python=ask.python) if ask.python else Wish()) for ask in asks]
    answers: list[grid.PageAnswer] = []
    for ask, (machine, wish), made in zip(asks, asked, plan_many(asked, _MEMORY), strict=True):
        usual = not (ask.cpu or ask.python or ask.driver)
        answers.append(grid.page_answer(with_all_companions(made, machine, wish, facts) if usual else made, ask))
    return answers


def _machine(ask: grid.Ask) -> Machine:
    """As the command line describes it, which takes a Python that is named for one that is there and wished for."""
    place = next(place for place in grid.PLACES if place.id == ask.place)
    cpu, python, driver = ask.cpu or None, ask.python or None, ask.spoken_driver
    machine = machine_from_flags(
        gpu=[ask.gpu], os=place.system, arch=place.machine, cpu=cpu, python=python, driver=driver
    )
    cards = tuple(replace(gpu, name=grid.NAME) for gpu in machine.gpus)
    return replace(machine, gpus=cards)


def _ask_groups(groups: Sequence[list[grid.Ask]]) -> Iterator[tuple[list[grid.Ask], list[grid.PageAnswer]]]:
    workers = min(8, os.cpu_count() or 1)
    if workers == 1:
        yield from ((group, ask_planner(group)) for group in groups)
        return
    import multiprocessing

    with _interrupt_held_back(), multiprocessing.get_context("spawn").Pool(workers, _begin_worker) as pool:
        _let_interrupt_through()
        yield from zip(groups, pool.imap(ask_planner, groups), strict=True)


@contextlib.contextmanager
def _interrupt_held_back() -> Iterator[None]:
    """Processes started now do not see Ctrl-C, not even while Python still loads in them; it waits for this one."""
    if hasattr(signal, "pthread_sigmask"):
        from multiprocessing import resource_tracker

        resource_tracker.ensure_running()  # later it would let the signal through, as it starts
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        _let_interrupt_through()


def _let_interrupt_through() -> None:
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})


def _begin_worker() -> None:
    """An interrupt is for the one that started it, which ends this one at once. Next to nothing that is made here can
    be thrown away before the end, so that looking for it costs a tenth of the time."""
    import gc

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()


def _base(root: str | None) -> str:
    """Where a page outside the wheelhouse finds its wheels."""
    if root is None:
        return ""
    return root.rstrip("/") + "/" if is_url(root) else Path(root).resolve().as_uri() + "/"
