"""Two calls for programs that bring torch along: which torch for this machine, and do it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rekindle.model.choice import TorchChoice, TorchReady
    from rekindle.model.journey import Journey
    from rekindle.model.machine import Machine
    from rekindle.model.plan import Wish
    from rekindle.model.progress import Progress


def choose_torch(machine: Machine | None = None, wish: Wish | None = None) -> TorchChoice:
    """Which torch for a machine (default: this one), as a small document of stable form.

    >>> from rekindle.api.plan import machine_from_flags
    >>> choice = choose_torch(machine_from_flags(gpu=["GTX 1080"], os="linux", arch="x86_64"))
    >>> choice.answer, choice.backend, choice.pip[0][0].startswith("torch==")
    ('install', 'cuda', True)
    """
    from rekindle.api.plan import plan
    from rekindle.compat.resources import use_disk_gib
    from rekindle.facts import load_facts
    from rekindle.model.choice import Kind, TorchChoice
    from rekindle.model.plan import pip_arguments

    made = plan(machine, wish)
    backend: Kind = made.backend
    build = made.build if made.answer == "build" else None
    disk = None if made.answer == "none" else use_disk_gib(backend, load_facts())
    return TorchChoice(
        answer=made.answer,
        torch=made.torch,
        variant=made.variant,
        backend=backend,
        python=made.python,
        packages=made.requests,
        pip=pip_arguments(made.requests) if made.answer == "install" else (),
        env=dict(made.env),
        disk_gib=build.disk_gib if build else disk,
        minutes=build.minutes if build else None,
        why=tuple(reason.text for reason in made.because),
        beware=tuple(warning.text for warning in made.warnings if not warning.handled),
    )


def bring_torch(
    venv: Path | None = None,
    *,
    wish: Wish | None = None,
    python: str | None = None,
    workspace: Path | None = None,
    installer: str | None = None,
    index: str | None = None,
    find_links: Sequence[str] = (),
    offline: bool = False,
    torch_only: bool = False,
    allow_build: bool = False,
    progress: Progress | None = None,
) -> TorchReady:
    """Do it: install that torch into ``venv`` (or ``python``), and prove it. A build of hours only if ``allow_build``.

    Nothing is asked. A machine for which nothing fits, or only a build that was not allowed, is an answer that is not
    ``ready``; a network that does not answer, a full disk or a missing Python raises, with the next step in
    ``remedy``. The same call again is quick where all is there, and continues where it was cut short.
    """
    from rekindle.api.up import up
    from rekindle.errors import BadInput
    from rekindle.model.choice import TorchReady

    refused: list[str] = []

    def confirm(plan: object, card: Callable[[], object]) -> bool:
        if getattr(plan, "answer", None) == "build" and not allow_build:
            refused.append(f"torch {getattr(plan, 'torch', None)} would have to be built, which was not allowed")
        return not refused

    try:
        journey = up(
            wish, workspace=workspace, python=python, venv=venv, installer=installer, index=index,
            find_links=find_links, offline=offline, torch_only=torch_only, confirm=confirm, progress=progress,
        )  # fmt: skip
    except BadInput:
        if not refused:
            raise
        return TorchReady(ready=False, verdict=refused[0])
    return _ready(journey)


def _ready(journey: Journey) -> TorchReady:
    from rekindle.model.choice import TorchReady

    limits = next((place for place in journey.keeps if place.endswith("constraints.txt")), None)
    activate = next((line for line in journey.next if "activate" in line), None)
    return TorchReady(
        ready=journey.arrived,
        verdict=journey.verdict,
        torch=journey.plan.torch if journey.plan else None,
        python=journey.python,
        activate=activate,
        constraints=limits,
        report=journey.report,
    )
