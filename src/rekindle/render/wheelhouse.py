"""The wheelhouse's answers for people; keys, and what wheels claim and were found to be."""

from pathlib import Path

from rekindle.model.claims import ClaimsReport, IndexCheck, Rebuilt, SigningKeys
from rekindle.model.spoken import spoken_bytes
from rekindle.model.wheelhouse import Added, Found, PageWritten, Served, SiteBuilt, Synced, Yanked
from rekindle.model.words import UV_WITH_VARIANTS
from rekindle.render.screen import Screen
from rekindle.scripts.quoting import pasted

_SAY = {"added": "added", "already": "is there already", "updated": "has new evidence"}


def _render_added(document: Added, screen: Screen) -> None:
    screen.verdict("ok", f"{len(document.wheels)} wheels in {document.root}")
    for wheel in document.wheels:
        size = f"({spoken_bytes(wheel.bytes)}, sha256 {wheel.sha256[:12]}…)"
        screen.bullet(f"{wheel.file} {_SAY[wheel.state]} {size}", status="ok")
        for warning in wheel.warnings:
            screen.bullet(warning, status="warn", indent=4)
    screen.commands("Next", [document.next])


def render_built(document: SiteBuilt, screen: Screen) -> None:
    """What is listed now, for which installers, and how they are pointed at it."""
    screen.verdict("ok", f"{document.wheels} wheels of {document.projects} projects are listed in {document.simple}")
    screen.bullet(f"{document.pages_written} project pages written, {document.pages_kept} were up to date")
    screen.bullet(f"catalogue: {document.catalogue}")
    if document.page:
        screen.bullet(f"page: {document.page}")
    if document.variants or document.left_out:
        screen.section("Variants")
        screen.bullets((": ".join(filter(None, (row.file, row.note))) for row in document.variants), status="ok")
        screen.bullets(document.left_out, status="skip")
        place = pasted(f"{_address(document.root)}/variant/simple/")
        title = f"Chosen by the card, with uv {UV_WITH_VARIANTS} or newer (an older one takes the CPU wheel silently)"
        screen.commands(title, [f"uv pip install --preview-features wheel-variants --index-url {place} NAME"])
    install = f"pip install --index-url {pasted(_address(document.simple) + '/')} NAME"
    screen.commands("Use it", [install, f"rekindle index serve --root {pasted(document.root)}"])


def render_yanked(document: Yanked, screen: Screen) -> None:
    state = "offered again" if document.yanked is None else "withdrawn: installers take it only if pinned"
    screen.verdict("ok", f"{document.file} is {state}")
    screen.commands("Next", [f"rekindle index build --root {pasted(document.root)}"])


def _render_synced(document: Synced, screen: Screen) -> None:
    counts = f"{document.sent} files sent ({document.bytes / 1e6:.1f} MB), {document.kept} were there"
    gone = f", {len(document.removed)} pages of gone wheels removed" if document.removed else ""
    screen.verdict("ok", f"{document.target} is up to date with {document.root}: {counts}{gone}")


def _render_served(document: Served, screen: Screen) -> None:
    screen.verdict("ok", f"served {document.requests} requests from {document.root}")


def render_found(document: Found, screen: Screen) -> None:
    """The wheels that run on a machine, and why not the others."""
    machine = ", ".join(f"{key} {value}" for key, value in document.wanted.items()) or "anything"
    good = [match for match in document.matches if match.verdict.runs]
    if good:
        screen.verdict("ok", f"{len(good)} of {document.looked_at} wheels run on {machine}")
    elif untold := len(document.matches):
        screen.verdict("warn", f"no wheel here is known to run on {machine}; for {untold} it cannot be told")
    else:
        screen.verdict("fail", f"none of {document.looked_at} wheels here runs on {machine}")
    for match in document.matches[: 100 if screen.verbosity else 10]:
        screen.section(f"{match.wheel.project} {match.wheel.version}")
        code = " ".join((*match.wheel.sass, *(f"PTX {arch}" for arch in match.wheel.ptx), *match.wheel.gfx))
        screen.bullet(f"{match.wheel.file}, {spoken_bytes(match.wheel.bytes)}{f', {code}' if code else ''}")
        screen.bullets((each.text for each in match.verdict.because), status="ok" if match.verdict.runs else "warn")
        screen.command(match.command)
    if document.refused and (screen.verbosity or not document.matches):
        screen.bullets((no.text for no in document.refused[:50]), status="fail", title="Why not the others")


def render_page(document: PageWritten, screen: Screen) -> None:
    screen.verdict("ok", f"the page is {document.path} ({spoken_bytes(document.bytes)})")
    screen.bullet(f"{document.gpus} GPUs, {document.answers} different answers, {document.wheels} wheels")
    screen.commands("Look at it", [_address(document.path)])


def _address(place: str) -> str:
    """A file or folder as browsers and pip take it: absolute, with its odd letters escaped."""
    return Path(place).absolute().as_uri()


_MARKS = {"passed": "ok", "failed": "fail", "skipped": "skip"}


def _view_keys(answer: SigningKeys, screen: Screen) -> None:
    if answer.signed:
        screen.verdict("ok", f"signed: {answer.signed}")
    elif not answer.keys:
        screen.verdict("warn", f"there are no keys in {answer.folder}: rekindle key new makes one")
    else:
        screen.verdict("ok", f"{len(answer.keys)} keys in {answer.folder}")
        screen.rows([(key.name, key.id, "can sign" if key.private else "believed") for key in answer.keys])
    if answer.note:
        screen.paragraph(answer.note)


def _view_claims(report: ClaimsReport, screen: Screen) -> None:
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


def _view_index_check(answer: IndexCheck, screen: Screen) -> None:
    count = len(answer.problems)
    wrong = f"{count} things in {answer.root} are" if count > 1 else f"one thing in {answer.root} is"
    right = f"{answer.wheels} wheels, all as {answer.signed_by} listed them"
    screen.verdict("ok" if answer.good else "fail", right if answer.good else f"{wrong} not as signed")
    rows = [("list", f"number {answer.serial}" if answer.serial is not None else "none"), ("made", answer.made or "–")]
    screen.rows([*rows, ("expires", answer.expires or "–")])
    screen.bullets((f"{problem.kind}: {problem.text}" for problem in answer.problems), status="fail")
    for step in answer.next:
        screen.paragraph(f"→ {step}")


def _view_rebuilt(answer: Rebuilt, screen: Screen) -> None:
    same = {"identical": "identical, byte for byte", "normalised": f"the same after normalising: {answer.rule}"}
    words = same.get(answer.verdict, f"not the same: {answer.difference}")
    screen.verdict("ok" if answer.verdict in same else "fail", f"{Path(answer.wheel).name} is {words}")
    screen.rows([("rebuilt", answer.sha256), ("original", answer.claimed), ("wheel", answer.wheel)])
