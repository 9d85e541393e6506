"""``up`` and ``bring_torch`` as the library offers them, under these names in :mod:`rekindle.api`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from rekindle.errors import BadInput
from rekindle.host.workspace import workspace_at
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
    return TorchReady(
        ready=journey.arrived,
        verdict=journey.verdict,
        torch=journey.plan.torch if journey.plan else None,
        python=journey.python,
        activate=next((line for line in journey.next if "activate" in line), None),
        constraints=next((place for place in journey.keeps if place.endswith("constraints.txt")), None),
        report=journey.report,
    )
