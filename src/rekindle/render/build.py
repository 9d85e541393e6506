"""A finished or failed build for people: the answer first, then what was done, then what to do next."""

from pathlib import Path

from rekindle.interpreters.environment import python_of
from rekindle.model.build import BuildFailure, BuildResult, BuildResults, BundleReport, ForeignPlan, spoken_targets
from rekindle.model.spoken import spoken_bytes, spoken_seconds
from rekindle.render.screen import Screen, printable
from rekindle.scripts.quoting import pasted


def size(count: float) -> str:
    """Memory and files as compilers count them: ``812 MiB``, ``3.4 GiB``."""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def render_results(results: BuildResults, screen: Screen) -> None:
    """What was built, how long each phase took, and how it is proven."""
    for result in results.results:
        seconds = sum(phase.seconds for phase in result.phases)
        target = result.target or ""
        product = f"{'' if ',' in target else 'target '}{spoken_targets(target)}"
        if result.wheel:
            product = result.wheel.replace("\\", "/").rpartition("/")[2]
        screen.verdict("ok", f"built {product} in {spoken_seconds(seconds)}")
        if result.wheel:
            screen.rows([("wheel", result.wheel), ("sha256", result.wheel_sha256)])
        screen.facts(
            [
                *((phase.name, spoken_seconds(phase.seconds)) for phase in result.phases),
                ("peak memory", size(result.peak_memory_bytes) if result.peak_memory_bytes else ""),
                ("paused for memory", f"{result.paused} times" if result.paused else ""),
                ("retried alone", ", ".join(result.retried)),
                ("report", result.report),
                ("log", result.log),
            ]
        )
        screen.bullets(result.notes)
    if any(result.wheel for result in results.results):
        screen.commands("Next", _next_steps(results.results[-1]))


def _next_steps(result: BuildResult) -> tuple[str, ...]:
    """How it is proven. A companion of a torch that is on no index (a distribution's) is proven where that torch is."""
    wheel = pasted(result.wheel)
    local = result.environment.get("PYTORCH_VERSION", "").partition("+")[2]
    python = result.toolchain.get("python", "").partition("(")[2].rstrip(")")
    if not local or local.startswith("rekindle") or not python:
        return (f"rekindle verify --wheel {wheel}",)
    inside = str(python_of(Path("proof")))
    return (
        f"{pasted(python)} -m venv --system-site-packages proof",
        f"{inside} -m pip install --no-deps {wheel}",
        f"rekindle verify --python {inside} --with {result.project}",
    )


def _render_failure(failure: BuildFailure, screen: Screen) -> None:
    screen.verdict("fail", f"{failure.project}: {failure.phase} failed: {failure.message}")
    wrong = [fact for fact in failure.facts if fact.ok is False]
    screen.bullets((f"{fact.name}: planned {fact.wanted}, configured {fact.found}" for fact in wrong), status="fail")
    screen.commands("Command", filter(None, [failure.command]))
    show_error(failure, screen, lines=12, causes=3)
    screen.section("Next")
    for words, log in (("the whole log", failure.log), ("only the failed command", failure.failed_log)):
        if log:
            screen.line(f"  {words}: {log}")
    screen.line("  after fixing it, the same command continues where this one stopped")


def show_error(failure: BuildFailure, screen: Screen, *, lines: int, causes: int) -> None:
    """The first lines of the compiler's own words, and the likely causes."""
    if failure.error:
        screen.section("First error")
    for line in failure.error[:lines]:
        screen.line("  " + printable(line))
    screen.causes(failure.diagnosis.matches[:causes])


def render_foreign(account: object, screen: Screen) -> None:
    """What a plan from elsewhere would do, before it is asked about."""
    assert isinstance(account, ForeignPlan)
    screen.verdict("warn", f"a plan from elsewhere: {account.title}")
    signed = (account.signed,) if account.signed else ()
    parts = {"signed": signed, "runs": account.runs, "fetches": account.fetches, "sets": account.sets}
    for label, lines in (*parts.items(), ("not found here", account.unknown)):
        screen.rows([(label if number == 0 else "", line) for number, line in enumerate(lines)])


def _render_bundle(document: BundleReport, screen: Screen) -> None:
    count = len(document.brought)
    if document.out is None:
        screen.verdict("ok", f"{count} libraries would go in")
    else:
        sizes = f"{spoken_bytes(document.bytes_before)} became {spoken_bytes(document.bytes_after or 0)}"
        screen.verdict("ok", f"{count} libraries inside: {sizes}")
        screen.bullet(document.out)
    brought = [[spoken_bytes(b.bytes), b.file, b.why, b.licence or "licence unknown"] for b in document.brought]
    screen.rows(brought, title="Brought along")
    if document.trimmed:
        screen.section("Device code taken out")
        for item in document.trimmed:
            if item.kept_whole:
                screen.bullet(f"{item.file} is left whole: {item.kept_whole}", status="warn")
            else:
                screen.bullet(f"{item.file}: {spoken_bytes(item.bytes)} of {', '.join(item.archs)}", status="ok")
        screen.paragraph("The files keep their size on disk; the wheel is smaller because zeros take no room in it.")
    missing = [f"{left.name} (needed by {left.needed_by})" for left in document.missing]
    screen.bullets(missing, status="fail", title="Not found, and left out as you asked")
    if screen.verbosity:
        screen.rows([[left.name, left.why] for left in document.left], title="Left to the machine")
        parts = [[spoken_bytes(part.bytes), part.file] for part in document.biggest]
        screen.rows(parts, title="Biggest parts of the wheel")
    screen.bullets(document.notes, status="warn")
    if document.out:
        screen.commands("Next", [f"rekindle verify --wheel {pasted(document.out)}"])
