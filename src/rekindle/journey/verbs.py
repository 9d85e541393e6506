"""What the library offers of this room, under its names in :mod:`rekindle.api`: ``up``, ``demo``, ``bring_torch``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rekindle.model.card import Card
    from rekindle.model.choice import TorchReady
    from rekindle.model.journey import Journey
    from rekindle.model.plan import Plan, Wish
    from rekindle.model.progress import Progress
    from rekindle.model.verify import Level


def up(
    wish: Wish | None = None,
    *,
    gpu: Sequence[str] = (),
    cpu: str | None = None,
    workspace: Path | None = None,
    python: str | None = None,
    venv: Path | None = None,
    installer: str | None = None,
    find_links: Sequence[str] = (),
    offline: bool = False,
    index: str | None = None,
    torch_only: bool = False,
    source: Path | None = None,
    wheel: Path | None = None,
    level: Level = "smoke",
    memory: str | None = None,
    jobs: int | None = None,
    launcher: str | None = None,
    target: str | None = None,
    bundle: bool = True,
    clean: bool = False,
    dry_run: bool = False,
    confirm: Callable[[Plan, Callable[[], Card]], bool] | None = None,
    progress: Progress | None = None,
) -> Journey:
    """Probe this machine, plan, install an official wheel or build one, and prove the result.

    ``gpu`` and ``cpu`` are what a built torch is for (``["sm_35", "sm_90"]``, ``"ivybridge"``) where that is not what
    this machine has; it is proved on what this machine has.
    ``python`` is an interpreter that gets torch itself, or a release (``3.12``) for the environment that is made: at
    ``venv``, or in the workspace. ``installer`` is ``pip`` (default) or ``uv``; ``find_links`` are folders or pages of
    wheels looked through besides, ``offline`` asks no index at all.
    ``index`` replaces the plan's package index (a mirror, or ``default`` for pip's own). ``source`` is a tree to
    build instead of fetching one. ``wheel`` is a torch that is built already: it is taken as it is, and only
    torchvision and torchaudio are built, against it. ``bundle`` puts libraries of this machine that a built wheel
    needs into it.
    ``confirm`` sees the plan before anything long is done and may say no; without it the answer is yes. Its second
    argument makes the card (what comes, from where, how much, where to) when it is called.
    ``target`` builds only that CMake target and stops; ``clean`` removes what another plan left in the build tree
    (without it, such a tree is refused); ``dry_run`` stops after the card and writes nothing.

    A build that fails is no exception: the journey has not ``arrived``, and its ``failure`` says why. What is
    already there is kept: a second call is quick, an interrupted one continues.

    >>> journey = up(workspace=folder, dry_run=True)
    >>> journey.arrived, [leg.name for leg in journey.legs]
    (True, ['probe', 'plan'])
    """
    from rekindle.build.options import most_jobs
    from rekindle.host.workspace import workspace_at
    from rekindle.journey.options import UpOptions
    from rekindle.journey.up import run_up
    from rekindle.model.plan import Wish
    from rekindle.model.progress import Silent

    options = UpOptions(
        wish=wish or Wish(),
        gpu=tuple(gpu),
        cpu=cpu,
        python=python,
        venv=venv,
        installer=installer,
        find_links=tuple(find_links),
        offline=offline,
        index=index,
        torch_only=torch_only,
        source=source,
        wheel=wheel,
        level=level,
        memory=memory,
        jobs=most_jobs(jobs, wish.settings if wish else ()),
        launcher=launcher,
        target=target,
        bundle=bundle,
        clean=clean,
        dry_run=dry_run,
    )
    return run_up(workspace_at(workspace), options, progress or Silent(), confirm or (lambda *_: True))


def demo(
    *,
    workspace: Path | None = None,
    cmake: str | None = None,
    use_cuda: bool = True,
    clean: bool = False,
    progress: Progress | None = None,
) -> Journey:
    """Probe, plan, unpack, patch, build, inspect, install, verify and report; under a minute, with real tools.

    ``cmake`` is the one to use instead of the one on PATH; ``use_cuda`` False leaves the CUDA part out; ``clean``
    forgets what earlier runs left in the workspace.
    """
    from rekindle.host.workspace import workspace_at
    from rekindle.journey.demo import run_demo
    from rekindle.journey.options import DemoOptions
    from rekindle.model.progress import Silent

    options = DemoOptions(cmake=cmake, use_cuda=use_cuda, clean=clean)
    return run_demo(workspace_at(workspace, "demo"), options, progress or Silent())


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
    from rekindle.errors import BadInput
    from rekindle.model.choice import TorchReady

    refused: list[str] = []

    def confirm(plan: object, card: Callable[[], object]) -> bool:
        if getattr(plan, "answer", None) == "build" and not allow_build:
            refused.append(f"torch {getattr(plan, 'torch', None)} would have to be built, which was not allowed")
        return not refused

    try:
        journey = up(
            wish,
            workspace=workspace,
            python=python,
            venv=venv,
            installer=installer,
            index=index,
            find_links=find_links,
            offline=offline,
            torch_only=torch_only,
            confirm=confirm,
            progress=progress,
        )
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
