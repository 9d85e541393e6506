"""What the library offers of this room, under its names in :mod:`rekindle.api`: ``up``, ``demo``,
``bring_torch``, ``adopt``."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from rekindle.errors import BadInput
from rekindle.host.workspace import workspace_at
from rekindle.model.adopt import Adoption, AdoptOptions
from rekindle.model.build_options import most_jobs
from rekindle.model.journey import Card, Journey, UpOptions
from rekindle.model.plan import Plan, TorchReady, Wish
from rekindle.model.progress import Progress, Silent


def up(
    options: UpOptions | Wish | None = None,
    *,
    confirm: Callable[[Plan, Callable[[], Card]], bool] | None = None,
    progress: Progress | None = None,
    **choices: Any,
) -> Journey:
    """Probe this machine, plan, install an official wheel or build one, and prove the result.

    What can be chosen are the fields of :class:`~rekindle.model.journey.UpOptions`: given as that value, or each by
    its name; a wish may also come first.
    ``confirm`` sees the plan before anything long is done and may say no; without it the answer is yes. Its second
    argument makes the card (what comes, from where, how much, where to) when it is called.

    A build that fails is no exception: the journey has not ``arrived``, and its ``failure`` says why. What is
    already there is kept: a second call is quick, an interrupted one continues.

    >>> journey = up(workspace=folder, dry_run=True)
    >>> journey.arrived, [leg.name for leg in journey.legs]
    (True, ['probe', 'plan'])
    """
    from rekindle.journey.up import run_up

    given = UpOptions(wish=options) if isinstance(options, Wish) else options or UpOptions()
    if choices.get("wish", given) is None:
        choices.pop("wish")
    for name in {"gpu", "find_links"} & choices.keys():
        choices[name] = tuple(choices[name])
    chosen = msgspec.structs.replace(given, **choices)
    chosen = msgspec.structs.replace(chosen, jobs=most_jobs(chosen.jobs, chosen.wish.settings))
    return run_up(workspace_at(chosen.workspace), chosen, progress or Silent(), confirm or (lambda *_: True))


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
    from rekindle.journey.demo import run_demo

    place = workspace_at(workspace, "demo")
    return run_demo(place, cmake=cmake, use_cuda=use_cuda, clean=clean, progress=progress or Silent())


def bring_torch(
    venv: Path | None = None, *, allow_build: bool = False, progress: Progress | None = None, **choices: Any
) -> TorchReady:
    """Do it: install that torch into ``venv`` (or ``python``), and prove it. A build of hours only if ``allow_build``.

    ``choices`` are fields of :class:`~rekindle.model.journey.UpOptions` by name, such as ``wish``, ``workspace``,
    ``installer``, ``index``, ``find_links`` or ``offline``. Nothing is asked. A machine for which nothing fits, or only
    a build that was not allowed, is an answer that is not ``ready``; a network that does not answer, a full disk or a
    missing Python raises, with the next step in ``remedy``. The same call again is quick where all is there, and
    continues where it was cut short.
    """
    refused: list[str] = []

    def confirm(plan: Plan, card: Callable[[], Card]) -> bool:
        if plan.answer in ("build", "graft") and not allow_build:
            way = "built" if plan.answer == "build" else "grafted (compiled in part)"
            refused.append(f"torch {plan.torch} would have to be {way}, which was not allowed")
        return not refused

    try:
        journey = up(venv=venv, confirm=confirm, progress=progress, **choices)
    except BadInput:
        if not refused:
            raise
        return TorchReady(ready=False, verdict=refused[0])
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


def adopt(
    options: AdoptOptions | Path,
    *,
    confirm: Callable[[Adoption], bool] | None = None,
    progress: Progress | None = None,
    **choices: Any,
) -> Adoption:
    """Give an application its folder names the torch that fits this machine, prove it there and keep it there.

    What can be chosen are the fields of :class:`~rekindle.model.adopt.AdoptOptions`: given as that value, or the folder
    first and each by its name. ``confirm`` sees what is planned before anything is changed and may say no; without it
    the answer is yes. With ``undo=True`` the environment becomes what it was, without fetching anything.
    """
    from rekindle.journey.adopt import run_adopt

    given = options if isinstance(options, AdoptOptions) else AdoptOptions(folder=Path(options))
    for name in {"leave_out", "find_links", "wheel"} & choices.keys():
        choices[name] = tuple(choices[name])
    chosen = msgspec.structs.replace(given, **choices)
    return run_adopt(chosen, progress or Silent(), confirm or (lambda _: True))
