"""A farm for people: what runs, the lines for others to paste, who compiled what, and what failed."""

from rekindle.model.farm import FarmDown, FarmJoin, FarmReport, FarmUp
from rekindle.render.screen import Screen, widest
from rekindle.scripts.quoting import pasted
from rekindle.toolkits.sccache import farm_at

_WORKER = {"up": "ok", "silent": "warn", "lost": "fail", "expected": "skip"}
_MEANING = {"silent": "its port does not answer", "lost": "not heard of for 90 s", "expected": "invited, not seen yet"}
_SHOWN = 12


def _show_up(document: FarmUp, screen: Screen) -> None:
    planned = document.state == "planned"
    if planned:
        screen.verdict("ok", f"A scheduler would run at {document.scheduler} (dry run: nothing was written)")
        screen.bullet(f"{document.folder}: {', '.join(document.written)}")
    else:
        words = "runs already" if document.state == "running" else "is up"
        screen.verdict("ok", f"The farm's scheduler {words} at {document.scheduler}")
        screen.places([("folder", document.folder)])
    screen.bullets(document.notes, status="warn")
    if document.worker:
        screen.section("The worker on this machine")
        _show_join_checks(document.worker, screen)
    for invitation in document.invitations:
        who = f"On {invitation.address}" if invitation.address else "On a machine that builds"
        screen.section(f"{who} (a secret line: it lets in whoever has it)")
        screen.command(f"echo {invitation.line} | rekindle farm join")
    option = _farm_option(document.folder)
    lines = [f"rekindle farm status{option}", f"rekindle up --build{option or ' --farm'}"]
    if document.state == "started" and not document.worker and not document.invitations:
        lines = [f"rekindle farm up{option} --invite ADDRESS", f"rekindle farm join{option} --ssh HOST"]
    screen.commands("Next", [] if planned else lines)


def _farm_option(folder: str) -> str:
    """The option that names a folder which is not the user's own."""
    return "" if folder == str(farm_at(None).root) else f" --farm {pasted(folder)}"


def _show_join(document: FarmJoin, screen: Screen) -> None:
    if document.script is not None:
        for line in document.script.splitlines():
            screen.line(line)
        return
    who, farm = document.address, document.scheduler
    words = {
        "joined": f"{who} works for {farm}",
        "running": f"{who} works for {farm} already",
        "client": f"this machine may build with the farm at {farm}",
        "checked": f"{who} could work for {farm} (dry run: nothing was started)",
        "refused": f"{who} cannot work for {farm} yet",
        "ended": f"{who} worked for {farm} and has ended",
    }
    screen.verdict("fail" if document.state == "refused" else "ok", words[document.state])
    _show_join_checks(document, screen)


def _show_join_checks(document: FarmJoin, screen: Screen) -> None:
    width = widest(check.id for check in document.checks)
    for check in document.checks:
        if check.status == "ok" and not screen.verbosity and document.state != "checked":
            continue
        want = f", want {check.want}" if check.want and check.status != "ok" else ""
        screen.entry(check.id.ljust(width), f"{check.found or 'missing'}{want}", status=check.status)
        if check.fix:
            screen.paragraph(f"→ {check.fix}", indent=width + 5)
    if document.state in ("joined", "running"):
        screen.bullet(f"{document.address} is up (process {document.pid})", status="ok")


def _show_report(document: FarmReport, screen: Screen) -> None:
    status = document.status
    if status.why:
        screen.verdict("fail", status.why)
        screen.commands("Next", [f"rekindle farm up{_farm_option(document.folder)}"])
    else:
        words = f"{status.servers} machines with {status.slots} slots, {status.in_progress} compilations now"
        screen.verdict("ok" if document.works else "warn", f"{status.scheduler}: {words}")
    rows = []
    for each in document.machines:
        counts = f"{each.compiled} compiled, {each.running} now" + (f", {each.lost} lost" if each.lost else "")
        slots = f"{each.slots} slots" if each.slots else ""
        rows.append((each.address, each.state, slots, counts, _MEANING.get(each.state, "")))
    screen.rows(rows, title="Machines", statuses=[_WORKER[machine.state] for machine in document.machines])
    screen.bullets(filter(None, [document.cache]), title="Cache")
    shown = document.failures if screen.verbosity else document.failures[:_SHOWN]
    if shown:
        screen.section("What failed")
    for failure in shown:
        times = f"{failure.count} times, last {failure.when}" if failure.count > 1 else failure.when
        what = f": {failure.what}" if screen.verbosity or not failure.why else ""
        screen.bullet(f"{failure.where}: {failure.why or 'said'}{what} ({times})", status="warn")
        if failure.fix:
            screen.paragraph(f"→ {failure.fix}", indent=4)
    screen.rest(len(document.failures) - len(shown))


def _show_down(document: FarmDown, screen: Screen) -> None:
    words = f"ended: {', '.join(document.ended)}" if document.ended else "nothing of this farm runs here"
    screen.verdict("warn" if document.left else "ok", words)
    screen.bullets(document.left, status="warn", title="Not reached")
    if document.forgotten:
        screen.bullet(f"the farm in {document.folder} and its tokens are gone")
