"""A torch for an application: its bounds are part of the question, and so is its version.

Where the card's torch is none that the application of today takes, an older version of the application may; both
ways are told in so many words.
"""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from rekindle.errors import BadInput
from rekindle.facts import Facts
from rekindle.model.companion import AppTorch, AppUse
from rekindle.model.plan import Alternative, Change, Plan, Reason, Wish
from rekindle.model.version import compare, key, matches


class AppAge(NamedTuple):
    """A span of an application's versions: ``row`` holds from its ``since`` on, before ``until`` (None: to today), or
    for that version alone."""

    row: AppTorch
    until: str | None
    alone: bool = False

    @property
    def words(self) -> str:
        """The span, for a sentence after the application's name."""
        if self.alone:
            return self.row.since
        return f"from {self.row.since} on" if self.until is None else f"before {self.until}"


def app_ages(name: str, facts: Facts) -> tuple[AppAge, ...]:
    """What is known of an application's versions, newest first."""
    rows = sorted((row for row in facts.apps.torch if row.app == name), key=lambda row: key(row.since), reverse=True)
    return tuple(AppAge(row, newer.since if newer else None) for newer, row in zip((None, *rows), rows, strict=False))


def age_of(use: AppUse, facts: Facts) -> AppAge | None:
    """The span that a version falls into, the newest where it is not known; None where nothing is known of it. What
    the installed version itself asks for goes before what is known of its neighbours."""
    if use.torch is not None and use.version is not None:
        said = ("the metadata of the installed package",)
        row = AppTorch(app=use.name, since=use.version, torch=use.torch, source=said, date="", how="measured")
        return AppAge(row, None, alone=True)
    ages = app_ages(use.name, facts)
    if use.version is None:
        return next(iter(ages), None)
    return next((age for age in ages if compare(age.row.since, use.version) <= 0), None)


def plan_app(use: AppUse, wish: Wish, facts: Facts, planner: Callable[[Wish], Plan]) -> Plan:
    """The plan for ``wish`` inside the bounds of an application, or the newest version of it that fits the card."""
    wish = msgspec.structs.replace(wish, python=wish.python or use.python)
    age = age_of(use, facts)
    bounds = age.row.torch if age else None
    if wish.torch is not None or age is None or bounds is None:
        made = planner(wish)
        return _told(_without_outsiders(made, bounds) if bounds else made, use, age, facts)
    made = _within(bounds, wish, planner)
    if _keeps(made, bounds) and made.answer == "install":
        return _told(made, use, age, facts)
    older = _older(use, age, wish, facts, planner)
    spared = _within(bounds, msgspec.structs.replace(wish, without_cudnn=True), planner)
    # A wheel with cuDNN switched off is nearer than hours of compiling.
    spares = _keeps(spared, bounds) and spared.answer == "install"
    if spares or _keeps(made, bounds):
        others = [_alternative(made, "with a cuDNN that has code for the card: faster convolutions")] if spares else []
        chosen = spared if spares else made
        if older and (older[1].answer == "install" or chosen.evidence == "untried"):
            span, plan = older
            title = facts.apps.app[use.name].title
            way = "an official wheel" if plan.answer == "install" else f"a source build, evidence: {plan.evidence}"
            others.append(_alternative(plan, f"with {title} {span.words}, which {_takes(span.row)}: {way}"))
        return _told(msgspec.structs.replace(chosen, alternatives=(*others, *chosen.alternatives)), use, age, facts)
    if older is None or older[1].answer != "install":  # whether an old version starts with a torch so old is not known
        return _told(planner(wish), use, age, facts)
    fitting, plan = older
    title = facts.apps.app[use.name].title
    why = (
        f"No torch that runs here is one that {title} {age.words} takes (torch {bounds}); {title} {fitting.words}"
        f" {_takes(fitting.row)}, and is the newest of its versions that fits this machine."
    )
    change = Change(what=use.name, from_=use.version or age.row.since, to=f"before {fitting.until}", why=why)
    plan = msgspec.structs.replace(plan, as_asked=False, changes=(change, *plan.changes))
    return _told(plan, use, fitting, facts)


def _within(bounds: str, wish: Wish, planner: Callable[[Wish], Plan]) -> Plan:
    try:
        return _without_outsiders(planner(msgspec.structs.replace(wish, torch=bounds)), bounds)
    except BadInput as error:
        if wish.variant or wish.cuda or wish.rocm:
            raise
        return Plan(answer="none", because=(Reason(code="app-torch-unknown", text=error.message),))


def _without_outsiders(made: Plan, bounds: str) -> Plan:
    """The plan without other choices that the application cannot use."""
    kept = tuple(other for other in made.alternatives if other.torch is None or matches(other.torch, bounds))
    return msgspec.structs.replace(made, alternatives=kept)


def _keeps(made: Plan, bounds: str) -> bool:
    return made.answer != "none" and made.torch is not None and matches(made.torch, bounds)


def _older(
    use: AppUse, age: AppAge, wish: Wish, facts: Facts, planner: Callable[[Wish], Plan]
) -> tuple[AppAge, Plan] | None:
    """The newest older span whose torch installs as a wheel, else one whose build somebody compiled; a span that
    states no bounds takes any torch."""
    built: tuple[AppAge, Plan] | None = None
    for older in app_ages(use.name, facts):
        if compare(older.row.since, age.row.since) >= 0:
            continue
        made = _within(older.row.torch, wish, planner) if older.row.torch else planner(wish)
        if older.row.torch is not None and not _keeps(made, older.row.torch):
            continue
        if made.answer == "install":
            return older, made
        if built is None and made.answer == "build" and made.evidence not in (None, "untried"):
            built = older, made
    return built


def _takes(row: AppTorch) -> str:
    return f"takes torch {row.torch}" if row.torch else "states no bounds for torch"


def _alternative(made: Plan, why: str) -> Alternative:
    return Alternative(
        answer=made.answer,
        torch=made.torch,
        variant=made.variant,
        cuda=made.cuda,
        rocm=made.rocm,
        python=made.python,
        why=why,
    )


def _told(made: Plan, use: AppUse, age: AppAge | None, facts: Facts) -> Plan:
    """The plan with what the application asks for, and a warning where the torch is not one of those."""
    title = facts.apps.app[use.name].title
    if age is None:
        text = f"Nothing is known here about the torch that {' '.join(filter(None, (title, use.version)))} takes."
        reason = Reason(code="app-torch-unknown", text=text)
        return msgspec.structs.replace(made, because=(*made.because, reason))
    row = age.row
    brings = f"; its own installer brings {row.installs}" if row.installs and not row.torch else ""
    text = f"{title} {age.words} {_takes(row)}{brings}."
    reason = Reason(code="app-torch", text=text, source=row.source[0])
    made = msgspec.structs.replace(made, because=(reason, *made.because))
    if row.torch is None or made.torch is None or matches(made.torch, row.torch):
        return made
    misses = (
        f"{title} {age.words} takes torch {row.torch}, and {made.torch} is not one: it will not start, or not work."
    )
    warning = Reason(code="app-torch-outside", text=misses, source=row.source[0])
    return msgspec.structs.replace(made, as_asked=False, warnings=(warning, *made.warnings))
