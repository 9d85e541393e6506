"""The legs of a graft: an official wheel gets code for the card, or a graft file made before is applied to it. NumPy,
which the other ways do without, is read only where one is made."""

from pathlib import Path

from rekindle import api
from rekindle.errors import StageFailed
from rekindle.host.live import LiveHost
from rekindle.journey.walk import Walk, digest
from rekindle.model.arch import parse_sm
from rekindle.model.graft import GraftOptions, GraftReport
from rekindle.model.journey import UpOptions
from rekindle.model.plan import GraftOutline, Plan, Request
from rekindle.model.spoken import spoken_minutes
from rekindle.render.summary import summarise_graft


def check_graft(outline: GraftOutline, cuda: str | None) -> None:
    """Is there a toolkit for it? Asked before anything is fetched; a graft made before needs none."""
    if not outline.file:
        from rekindle.graft.order import find_tools

        find_tools(LiveHost(), tuple(map(parse_sm, outline.archs)), None, cuda)


def graft_requests(
    walk: Walk, plan: Plan, requests: tuple[Request, ...], options: UpOptions
) -> tuple[Path, tuple[Request, ...]]:
    """The grafted wheel, and the requests with it for the official one. The proof says what units without code mean."""
    torch, outline = next(request for request in requests if request.name == "torch"), plan.graft
    assert outline is not None

    def make() -> GraftReport:
        chosen = GraftOptions(
            out=walk.workspace.wheels,
            workspace=walk.workspace.root / "graft",
            python=plan.python,
            index=torch.index,
            links=options.find_links,
            offline=options.offline,
            jobs=options.jobs,
            memory=options.memory,
            sources=str(options.source) if options.source else None,
            leave_out=True,
        )
        if outline.file:
            return api.graft_apply(torch.requirement, outline.file, chosen, progress=walk.inner)
        return api.graft(torch.requirement, chosen, gpu=outline.archs, progress=walk.inner)

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
    grafted = Request(name="torch", url=report.out, why="the official wheel, grafted")
    return Path(report.out), (grafted, *(request for request in requests if request.name != "torch"))
