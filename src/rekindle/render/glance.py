"""The doctor's first screen: the machine at one glance, what is missing, and the torch for it with its command."""

from __future__ import annotations

from collections.abc import Iterable

from rekindle.model.machine import Examination
from rekindle.model.plan import Plan
from rekindle.model.spoken import sentence
from rekindle.render.machine import machine_rows, private, readiness
from rekindle.render.screen import Screen
from rekindle.render.summary import summarise_plan

_SHORT = ("system", "processor", "memory", "disk", "gpu", "driver")
_SHOWN_VERSIONS = 5


def show_glance(document: Examination, plan: Plan | None, screen: Screen) -> None:
    screen.verdict(*readiness(document.ready))
    screen.line()
    rows = _rows(document)
    width = max(len(name) for name, _ in rows)
    for name, text in rows:
        screen.hanging(name.ljust(width), text)
    wrong = [check for check in document.checks if check.status in ("warn", "fail")]
    if wrong:
        screen.section("Missing, or to know")
        wide = max(len(check.id) for check in wrong)
        for check in wrong:
            said = private(check.why or f"{check.found or 'missing'}" + (f", want {check.want}" if check.want else ""))
            screen.entry(check.id.ljust(wide), f"{said} (to {' and '.join(check.needed_for)})", status=check.status)
            if check.fix:
                screen.line(" " * (wide + 5) + screen.style(f"→ {check.fix}", "cyan"))
    if plan is not None:
        _torch(document, plan, screen)
    screen.line()
    screen.hint("--details shows every path, check and gap; --json is for scripts")


def _torch(document: Examination, plan: Plan, screen: Screen) -> None:
    screen.section("The torch for it")
    if plan.answer == "none":
        for reason in plan.because[:2]:
            screen.bullet(reason.text, status="fail")
        screen.command("rekindle plan -v")
        return
    screen.paragraph(sentence(summarise_plan(plan)))
    for warning in [one for one in plan.warnings if not one.handled][:2]:
        screen.bullet(warning.text, status="warn")
    screen.command("rekindle up")
    there = [torch for torch in document.torches if torch.version.partition("+")[0] == plan.torch]
    if there:
        screen.paragraph(f"(one of that release is here: {private(there[0].path or there[0].python or '')})")


def _rows(document: Examination) -> list[tuple[str, str]]:
    merged: dict[str, list[str]] = {}
    label = ""
    for name, value in machine_rows(document):
        label = name or label
        merged.setdefault(label, []).append(value)
    rows = [(name, "; ".join(merged[name])) for name in _SHORT if name in merged]
    if document.toolkits:
        rows.append(("toolkits", _few(f"{kit.kind} {kit.version or '?'}" for kit in document.toolkits)))
    if document.compilers:
        rows.append(("compilers", _few(f"{one.kind} {one.version}" for one in document.compilers)))
    rows.append(("pythons", _few(one.version for one in document.pythons) or "none found"))
    if document.torches:
        rows.append(("torch", _few(one.version for one in document.torches)))
    return rows


def _few(values: Iterable[str]) -> str:
    each = list(dict.fromkeys(values))
    more = f" and {len(each) - _SHOWN_VERSIONS} more" if len(each) > _SHOWN_VERSIONS else ""
    return ", ".join(each[:_SHOWN_VERSIONS]) + more
