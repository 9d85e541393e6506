"""The legs of a graft: an official wheel gets code for the card, or a graft file made before is applied to it."""

from pathlib import Path
from typing import Any

from rekindle.api.graft import graft, graft_apply
from rekindle.errors import StageFailed
from rekindle.graft.order import find_tools
from rekindle.host.live import LiveHost
from rekindle.journey.walk import Walk, digest
from rekindle.model.arch import parse_sm
from rekindle.model.graft import GraftReport
from rekindle.model.journey import UpOptions
from rekindle.model.plan import GraftOutline, Plan, Request
from rekindle.model.spoken import spoken_minutes
from rekindle.render.summary import summarise_graft


def check_graft(outline: GraftOutline, cuda: str | None) -> None:
    """Is there a toolkit for it? Asked before anything is fetched; a graft made before needs none."""
    if not outline.file:
        find_tools(LiveHost(), tuple(map(parse_sm, outline.archs)), None, cuda)


def graft_requests(
    walk: Walk, plan: Plan, requests: tuple[Request, ...], options: UpOptions
) -> tuple[Path, tuple[Request, ...]]:
    """The grafted wheel, and the requests with it in the place of the official one."""
    official = next(request for request in requests if request.name == "torch")
    wheel = graft_torch(walk, plan, official, options)
    grafted = Request(name="torch", url=str(wheel), why="the official wheel, grafted")
    return wheel, (grafted, *(request for request in requests if request.name != "torch"))


def graft_torch(walk: Walk, plan: Plan, torch: Request, options: UpOptions) -> Path:
    """The grafted wheel. Units that cannot be made stay without code: the proof says what that means."""
    outline = plan.graft
    assert outline is not None

    def make() -> GraftReport:
        places: dict[str, Any] = {
            "out": walk.workspace.wheels,
            "workspace": walk.workspace.root / "graft",
            "python": plan.python,
            "index": torch.index,
            "links": options.find_links,
            "offline": options.offline,
            "progress": walk.inner,
        }
        if outline.file:
            return graft_apply(torch.requirement, outline.file, **places)
        return graft(
            torch.requirement,
            gpu=outline.archs,
            jobs=options.jobs,
            memory=options.memory,
            sources=str(options.source) if options.source else None,
            leave_out=True,
            **places,
        )

    what = f"{outline.wheel} for {', '.join(outline.archs)}"
    time = f"about {spoken_minutes(*outline.minutes)}; Ctrl-C is safe" if outline.minutes else "nothing is compiled"
    # What the wheel is made of, not the plan: its minutes and jobs follow the memory that is free at the moment.
    inputs = digest(outline.wheel, outline.archs, outline.file, torch.requirement, torch.index, plan.python)
    report = walk.kept_leg("graft", f"{what}: {time}", GraftReport, inputs, make)
    if report.out is None:
        why = next((unit.why for unit in report.units if unit.state in ("refused", "left-out") and unit.why), None)
        raise StageFailed(
            f"{what} could not be grafted: {summarise_graft(report)}" + (f" ({why})" if why else ""),
            remedy="rekindle up --build builds it from source instead",
        )
    return Path(report.out)
