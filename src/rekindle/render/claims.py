"""Keys, a wheel's claims and a wheelhouse's check, for people."""

from pathlib import Path

from rekindle.model.claims import ClaimsReport, IndexCheck, Rebuilt, SigningKeys
from rekindle.render.screen import Screen

_MARKS = {"passed": "ok", "failed": "fail", "skipped": "skip"}


def view_keys(answer: SigningKeys, screen: Screen) -> None:
    if answer.signed:
        screen.verdict("ok", f"signed: {answer.signed}")
    elif not answer.keys:
        screen.verdict("warn", f"there are no keys in {answer.folder}: rekindle key new makes one")
    else:
        screen.verdict("ok", f"{len(answer.keys)} keys in {answer.folder}")
        screen.rows([(key.name, key.id, "can sign" if key.private else "believed") for key in answer.keys])
    if answer.note:
        screen.paragraph(answer.note)


def view_claims(report: ClaimsReport, screen: Screen) -> None:
    name = Path(report.wheel).name
    if report.verdict == "proven":
        screen.verdict("ok", f"{name} is what it claims to be, signed by {report.signed_by}")
    elif report.verdict == "failed":
        screen.verdict("fail", f"{name} is not what it claims to be")
    else:
        screen.verdict("warn", f"{name}: nothing it claims is wrong, but nobody known answers for it")
    screen.rows([("sha256", report.sha256), ("SLSA build level", str(report.slsa_build_level))])
    for check in report.checks:
        if check.status == "skipped" and check.skip == "absent":
            words = f"nothing claimed ({check.detail})" + (f"; found {check.found}" if check.found else "")
        elif check.status == "passed":
            words = check.claimed or check.found or "right"
        else:
            words = check.detail or f"claimed {check.claimed}, found {check.found}"
        screen.bullet(f"{check.id}: {words}", status=_MARKS[check.status])
        if check.status == "failed" and check.claimed:
            screen.paragraph(f"claimed {check.claimed}; found {check.found}", indent=4)
    for step in report.next:
        screen.paragraph(f"→ {step}")


def view_index_check(answer: IndexCheck, screen: Screen) -> None:
    if answer.good:
        screen.verdict("ok", f"{answer.wheels} wheels, all as {answer.signed_by} listed them")
    else:
        many = f"{count} things in {answer.root} are" if (count := len(answer.problems)) > 1 else ""
        screen.verdict("fail", f"{many or f'one thing in {answer.root} is'} not as signed")
    rows = [("list", f"number {answer.serial}" if answer.serial is not None else "none"), ("made", answer.made or "–")]
    screen.rows([*rows, ("expires", answer.expires or "–")])
    screen.bullets((f"{problem.kind}: {problem.text}" for problem in answer.problems), status="fail")
    for step in answer.next:
        screen.paragraph(f"→ {step}")


def view_rebuilt(answer: Rebuilt, screen: Screen) -> None:
    name = Path(answer.wheel).name
    if answer.verdict == "identical":
        screen.verdict("ok", f"{name} is identical, byte for byte")
    elif answer.verdict == "normalised":
        screen.verdict("ok", f"{name} is the same after normalising: {answer.rule}")
    else:
        screen.verdict("fail", f"{name} is not the same: {answer.difference}")
    screen.rows([("rebuilt", answer.sha256), ("original", answer.claimed), ("wheel", answer.wheel)])
