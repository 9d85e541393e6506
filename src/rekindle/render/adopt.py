"""An application's torch for people: the verdict, what changes, what conflicts, what keeps it, how it is undone."""

from rekindle.model.adopt import Adoption
from rekindle.render.journey import show_card
from rekindle.render.screen import Screen

_STATUS = {"adopted": "ok", "already": "ok", "planned": "skip", "undone": "ok", "not-proven": "fail", "no": "fail"}


def show_adoption(adoption: Adoption, screen: Screen) -> None:
    screen.verdict(_STATUS[adoption.state], adoption.verdict)
    if adoption.state == "undone" or adoption.plan is None:
        return
    planned = adoption.state == "planned"
    rows = [("folder", adoption.folder), ("python", adoption.python), ("torch there", adoption.before or "none")]
    screen.labels(rows, title="Where")
    if adoption.changes:
        changes = []
        for change in adoption.changes:
            gone = f"{change.from_} is taken out: {change.why}"
            changes.append((change.name, gone if change.to is None else f"{change.from_ or 'not there'} → {change.to}"))
        screen.rows(changes, title="What changes" if planned else "What changed")
    elif planned or adoption.state == "adopted":
        screen.paragraph("\nThe torch there is the right one: it is proved and kept.")
    if planned and adoption.card is not None:
        screen.section("What a yes brings")
        show_card(adoption.card, screen)
    screen.bullets(adoption.conflicts, status="warn", title="Wants something else")
    screen.rows(adoption.env.items(), title="Set whenever its Python starts")
    screen.bullets(adoption.files, title="What keeps it so" if planned else "Written to keep it so")
    if planned:
        screen.section("How it is undone")
        screen.paragraph(
            "The whole environment as it is now is kept beside it; rekindle adopt FOLDER --undo puts it back, byte for"
            " byte, without fetching anything."
        )
    if adoption.state != "already" or screen.verbosity:
        screen.bullets(adoption.beware, status="warn", title="What of its own may replace torch")
    reasons = adoption.plan.because[: 8 if screen.verbosity else 2]
    screen.bullets([reason.text for reason in reasons], title="Why this torch")
    screen.commands("Next", adoption.next)
