"""A diagnosis for people: the cause first, then what to do, then what else it might be."""

from rekindle.model.diagnosis import Catalogue, Diagnosis, FixReport, Match, Trials, Unexplained, readable
from rekindle.render.screen import Screen

_SURE = {"high": "", "medium": "probably: ", "low": "possibly: "}


def _view_diagnosis(document: Diagnosis, screen: Screen) -> None:
    if not document.matches:
        screen.verdict("warn", f"nothing known in {document.lines or 0} lines")
        screen.paragraph("None of the rules recognises this log, so there is no answer rather than a guess.")
        if document.unexplained:
            _view_unexplained(document.unexplained, screen)
        screen.section("Next")
        screen.paragraph("Save a copy without names, paths and addresses, and attach it to a report:")
        screen.command("rekindle explain LOG --save-report report.txt")
        return
    first, *others = document.matches
    _view_match(first, screen)
    if document.unexplained:
        screen.paragraph("This is the kind of failure, not its cause: no rule knows more about these words.")
        if screen.verbosity:
            _view_unexplained(document.unexplained, screen)
    places = ((match, f" (line {match.line})" if match.line else "") for match in others)
    texts = [f"{match.id}: {match.title}{where}" for match, where in places]
    screen.bullets(texts if screen.verbosity else texts[:4], title="Also found (consequences, or less likely)")
    for match in others if screen.verbosity else ():
        screen.line()
        _view_match(match, screen)


def view_nothing(document: Diagnosis, screen: Screen) -> None:
    """A command that succeeded has said all there is to say."""


def _view_unexplained(document: Unexplained, screen: Screen) -> None:
    screen.section(f"The first real error ({document.words})")
    where = ", ".join(part for part in (f"line {document.line}" if document.line else "", document.place or "") if part)
    screen.paragraph(document.quote + (f"  ({where})" if where else ""), indent=4)
    screen.rows(sorted(document.facts.items()), title="What the log says of the machine")
    screen.bullets(document.steps, title="Three things to try")
    screen.section("To post")
    for line in document.post.splitlines():
        screen.paragraph(line, indent=4)


def _view_match(match: Match, screen: Screen) -> None:
    status = "fail" if match.confidence == "high" else "warn"
    screen.verdict(status, _SURE[match.confidence] + (match.title or match.id))
    screen.paragraph(match.cause)
    if match.evidence:
        screen.section(f"Where (line {match.line})" if match.line else "Where")
        screen.paragraph(match.evidence, indent=4)
    screen.bullets(match.fix, title="What to do")
    screen.line()
    screen.line(screen.style(f"  {match.id} · {match.source or 'no source'}", "dim"))


def _view_catalogue(document: Catalogue, screen: Screen) -> None:
    """``--list``: every cause in a line, by family."""
    screen.verdict("ok", f"{len({page.id for page in document.rules})} causes are known")
    for family, about in document.families.items():
        screen.section(about)
        rows = {page.id: readable(page.title) for page in reversed(document.rules) if page.family == family}
        screen.rows(sorted(rows.items()))
    screen.line()
    screen.command("rekindle explain --rule ID")


def view_fixes(document: FixReport, screen: Screen) -> None:
    """``--fix``: what was tried and how it ended."""
    if not document.exit_code:
        if document.attempts:
            screen.verdict("ok", "fixed: it passes now")
            screen.bullets((f"{trial.title}: {'; '.join(trial.shown)}" for trial in document.attempts), title="Done")
        screen.commands("It passes with these settings; keep them", document.keep)
        return
    screen.verdict("fail", f"it still fails (exit code {document.exit_code}); what was changed is undone")
    screen.bullets(f"{trial.outcome}: {trial.title}: {'; '.join(trial.shown)}" for trial in document.attempts)
    if document.diagnosis is not None:
        screen.line()
        _view_diagnosis(document.diagnosis, screen)


def _view_trials(document: Trials, screen: Screen) -> None:
    """``--try``: why a rule won or lost."""
    for trial in document.trials:
        screen.verdict("ok" if trial.outcome == "won" else "warn", f"{trial.rule}: {trial.outcome}")
        screen.bullets(trial.steps)
        screen.line()


def view_pages(document: Catalogue, screen: Screen) -> None:
    """``--rule``: all that is known about one cause."""
    for page in document.rules:
        screen.verdict("ok", readable(page.title))
        screen.paragraph(readable(page.cause))
        screen.bullets(map(readable, page.fix), title="What to do")
        screen.section("Recognised by")
        for word in page.words:
            screen.paragraph(word, indent=4)
        screen.line()
        screen.line(screen.style(f"  {page.id} · {page.stage} · {page.confidence} · {page.source}", "dim"))
        screen.line()
