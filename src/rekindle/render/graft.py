"""A graft for people: what was added, what stays without, and what to do next."""

from collections.abc import Sequence
from pathlib import Path

from rekindle.model.graft import GraftReport, LibraryBeside, State
from rekindle.model.spoken import spoken_bytes, spoken_minutes, spoken_seconds
from rekindle.render.screen import Screen
from rekindle.scripts.quoting import pasted

_SHOWN = 8


def render_graft(document: GraftReport, screen: Screen) -> None:
    """How many units got code for the card, what stays without, and how it is installed."""
    counts = {state: document.count(state) for state in ("has", "added", "planned", "left-out", "refused")}
    total = len(document.units)
    name = Path(document.wheel).name
    if document.out or document.graft:
        screen.verdict("ok", f"{counts['added']} of {total} units got code for {document.arch}")
        _show_result(document, screen)
    elif document.dry_run and counts["planned"]:
        time = f", about {spoken_minutes(*document.minutes)} on {document.jobs} cores" if document.minutes else ""
        screen.verdict("ok", f"{counts['planned']} of {total} units would be compiled for {document.arch}{time}")
    elif document.disproven:
        screen.verdict("fail", "the recipe does not give the wheel's own names; nothing was written")
    elif counts["refused"]:
        screen.verdict("fail", f"{counts['refused']} units differ from the wheel's own code; nothing was written")
    elif counts["left-out"]:
        screen.verdict("fail", f"nothing in {name} can be compiled for {document.card}")
    elif total:
        screen.verdict("ok", f"{name} has code for {document.card} already; there is nothing to do")
    else:
        screen.verdict("ok", f"{name} holds no device code of its own; there is nothing to do")
    if proof := document.proof:
        same = f"{sum(row.same for row in proof)} of {sum(row.functions for row in proof)} functions are the same"
        screen.section(f"Compiled for {proof[0].arch}, which the wheel has: {same}")
    for row in proof:
        outcome = row.why or f"all {row.functions} functions have the wheel's very machine code"
        screen.bullet(f"{row.unit}: {outcome}", status="warn" if row.why else "ok")
    _show_units(document, screen, ("refused",), "Refused", "fail")
    _show_units(document, screen, ("left-out",), f"Stay without code for {document.arch}", "warn")
    if screen.verbosity:
        title = "Compiled" if document.out or document.graft else "Would be compiled"
        _show_units(document, screen, ("added", "planned"), title, "ok")
    _libraries(screen, document.libraries)
    screen.bullets(document.notes, status="warn")
    lines = []
    if document.out:
        exchanged = any(row.exchanged for row in document.libraries)
        lines = [f"pip install {'' if exchanged else '--no-deps '}{pasted(document.out)}"]
        lines.append(f"rekindle inspect {pasted(document.out)} --for {document.arch.split(',')[0]}")
    elif document.graft:
        lines = [f"rekindle graft apply {pasted(document.wheel)} {pasted(document.graft)}"]
    elif counts["refused"]:
        cards = " ".join(f"--gpu {arch}" for arch in document.arch.split(", "))
        lines = [f"rekindle graft {pasted(document.wheel)} {cards} --leave-out"]
    screen.commands("Next", lines)


def _show_result(document: GraftReport, screen: Screen) -> None:
    if document.out:
        after = spoken_bytes(document.bytes_after or 0)
        screen.bullet(f"{document.out} ({after}; the official one has {spoken_bytes(document.bytes_before)})")
    if document.graft:
        screen.bullet(f"{document.graft} ({spoken_bytes(document.graft_bytes or 0)}): the new code alone")
    if document.same_bytes is False:
        why = "another zlib or zstd compressed them, so the file's digest differs"
        screen.bullet(f"its contents are those its maker got; {why}")
    if document.seconds is not None:
        compiled = f", {document.compiled} images compiled" if document.compiled else ""
        screen.bullet(f"{spoken_seconds(document.seconds)}{compiled}")


def _show_units(document: GraftReport, screen: Screen, states: Sequence[State], title: str, status: str) -> None:
    texts = []
    for unit in document.units:
        if unit.state in states:
            name = f"{unit.unit or f'container {unit.container}'} in {Path(unit.library).name}"
            texts.append(f"{name}: {unit.why}" if unit.why else name)
    screen.bullets(texts, status=status, title=f"{title}: {len(texts)}", most=_SHOWN)


def _libraries(screen: Screen, rows: Sequence[LibraryBeside]) -> None:
    """What closed libraries do on the card, and what was done about it."""
    if rows:
        screen.section("Closed libraries that it calls")
    for row in rows:
        text = row.why
        if row.exchanged:
            text += f"; the grafted wheel asks for {row.package} {row.exchanged}"
        elif row.off:
            text += "; it is switched off when CUDA starts"
        elif row.operators:
            text += f"; these will not work: {', '.join(row.operators)}"
        screen.bullet(text, status="ok" if row.code == "native" else "warn")
