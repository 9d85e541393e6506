"""A torch for an application: its bounds are part of the question, and so is its version. Where the card's torch is
none that the application of today takes, an older version of the application may; both ways are told in so many
words."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec.structs import replace

from rekindle.errors import BadInput
from rekindle.facts import Facts
from rekindle.model.companion import AppTorch, AppUse
from rekindle.model.document import shared_fields
from rekindle.model.plan import Alternative, Change, Plan, Reason, Wish
from rekindle.model.version import compare, key, matches


class AppAge(NamedTuple):
    """``row`` holds from its ``since`` on and before ``until`` (None: to today), or for that version alone."""

    row: AppTorch
    until: str | None
    alone: bool = False

    @property
    def words(self) -> str:
        """The span, for a sentence after the application's name."""
        newest = self.row.since if self.alone else f"from {self.row.since} on"
        return newest if self.until is None else f"before {self.until}"


def app_ages(name: str, facts: Facts) -> tuple[AppAge, ...]:
    """What is known of an application's versions, newest first."""
    rows = sorted((row for row in facts.apps.torch if row.app == name), key=lambda row: key(row.since), reverse=True)
    return tuple(AppAge(row, newer.since if newer else None) for newer, row in zip((None, *rows), rows, strict=False))


def age_of(use: AppUse, facts: Facts) -> AppAge | None:
    """The span of a version (of an unknown one the newest). The installed package's own metadata goes first."""
    if use.torch is not None and use.version is not None:
        source = ("the metadata of the installed package",)
        row = AppTorch(app=use.name, since=use.version, torch=use.torch, source=source, date="", how="measured")
        return AppAge(row, None, alone=True)
    ages = app_ages(use.name, facts)
    return next((age for age in ages if use.version is None or compare(age.row.since, use.version) <= 0), None)


def plan_app(use: AppUse, wish: Wish, facts: Facts, planner: Callable[[Wish], Plan]) -> Plan:
    """The plan for ``wish`` inside the bounds of an application, or the newest version of it that fits the card."""
    wish, age = replace(wish, python=wish.python or use.python), age_of(use, facts)
    bounds, title = age.row.torch if age else None, facts.apps.app[use.name].title
    if wish.torch is not None or age is None or bounds is None:
        plan = planner(wish)
        return _add_app_reasons(_drop_outsiders(plan, bounds) if bounds else plan, use, age, facts)
    plan = _plan_within(bounds, wish, planner)
    if _keeps_bounds(plan, bounds) and plan.answer == "install":
        return _add_app_reasons(plan, use, age, facts)
    older = _find_older(use, age, wish, facts, planner)
    spared = _plan_within(bounds, replace(wish, without_cudnn=True), planner)
    # A wheel with cuDNN switched off is nearer than hours of compiling.
    spares = _keeps_bounds(spared, bounds) and spared.answer == "install"
    if spares or _keeps_bounds(plan, bounds):
        offers = [(plan, "with a cuDNN that has code for the card: faster convolutions")] if spares else []
        chosen = spared if spares else plan
        if older and (older[1].answer == "install" or chosen.evidence == "untried"):
            span, other = older
            way = "an official wheel" if other.answer == "install" else f"a source build, evidence: {other.evidence}"
            offers.append((other, f"with {title} {span.words}, which {_spoken_bounds(span.row)}: {way}"))
        others = [Alternative(**shared_fields(offered, Alternative), why=why) for offered, why in offers]
        return _add_app_reasons(replace(chosen, alternatives=(*others, *chosen.alternatives)), use, age, facts)
    if older is None or older[1].answer != "install":  # whether an old version starts with a torch so old is not known
        return _add_app_reasons(planner(wish), use, age, facts)
    fitting, plan = older
    why = (
        f"No torch that runs here is one that {title} {age.words} takes (torch {bounds}); {title} {fitting.words}"
        f" {_spoken_bounds(fitting.row)}, and is the newest of its versions that fits this machine."
    )
    change = Change(what=use.name, from_=use.version or age.row.since, to=f"before {fitting.until}", why=why)
    plan = replace(plan, as_asked=False, changes=(change, *plan.changes))
    return _add_app_reasons(plan, use, fitting, facts)


def _plan_within(bounds: str, wish: Wish, planner: Callable[[Wish], Plan]) -> Plan:
    try:
        return _drop_outsiders(planner(replace(wish, torch=bounds)), bounds)
    except BadInput as error:
        if wish.variant or wish.cuda or wish.rocm:
            raise
        return Plan(answer="none", because=(Reason(code="app-torch-unknown", text=error.message),))


def _drop_outsiders(plan: Plan, bounds: str) -> Plan:
    inside = tuple(other for other in plan.alternatives if other.torch is None or matches(other.torch, bounds))
    return replace(plan, alternatives=inside)


def _keeps_bounds(plan: Plan, bounds: str) -> bool:
    return plan.answer != "none" and plan.torch is not None and matches(plan.torch, bounds)


def _find_older(
    use: AppUse, age: AppAge, wish: Wish, facts: Facts, planner: Callable[[Wish], Plan]
) -> tuple[AppAge, Plan] | None:
    """The newest older span whose torch installs as a wheel, else one whose build somebody compiled."""
    built: tuple[AppAge, Plan] | None = None
    for older in app_ages(use.name, facts):
        if compare(older.row.since, age.row.since) >= 0:
            continue
        plan = _plan_within(older.row.torch, wish, planner) if older.row.torch else planner(wish)
        if older.row.torch is not None and not _keeps_bounds(plan, older.row.torch):
            continue
        if plan.answer == "install":
            return older, plan
        if built is None and plan.answer == "build" and plan.evidence not in (None, "untried"):
            built = older, plan
    return built


def _spoken_bounds(row: AppTorch) -> str:
    return f"takes torch {row.torch}" if row.torch else "states no bounds for torch"


def _add_app_reasons(plan: Plan, use: AppUse, age: AppAge | None, facts: Facts) -> Plan:
    """The plan with what the application asks for, and a warning where the torch is not one of those."""
    title = facts.apps.app[use.name].title
    if age is None:
        text = f"Nothing is known here about the torch that {' '.join(filter(None, (title, use.version)))} takes."
        reason = Reason(code="app-torch-unknown", text=text)
        return replace(plan, because=(*plan.because, reason))
    row = age.row
    brings = f"; its own installer brings {row.installs}" if row.installs and not row.torch else ""
    text = f"{title} {age.words} {_spoken_bounds(row)}{brings}."
    reason = Reason(code="app-torch", text=text, source=row.source[0])
    plan = replace(plan, because=(reason, *plan.because))
    if row.torch is None or plan.torch is None or matches(plan.torch, row.torch):
        return plan
    takes = f"{title} {age.words} takes torch {row.torch}"
    text = f"{takes}, and {plan.torch} is not one: it will not start, or not work."
    warning = Reason(code="app-torch-outside", text=text, source=row.source[0])
    return replace(plan, as_asked=False, warnings=(warning, *plan.warnings))
