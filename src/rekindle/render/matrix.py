"""A matrix for people: the frozen cells, their states, a live view, one HTML page."""

import shutil
import time
from collections.abc import Iterable

from rekindle.model import matrix
from rekindle.model.spoken import spoken_seconds
from rekindle.render.build import size
from rekindle.render.progress import LineProgress
from rekindle.render.screen import Screen, widest
from rekindle.scripts.quoting import pasted

_MARKS = {"proven": "ok", "built": "ok", "failed": "fail", "running": "warn", "waiting": "skip", "cancelled": "skip"}
MAX_ROWS = 200
_ALL = "--json lists all"


def render_lock(lock: matrix.MatrixLock, screen: Screen) -> None:
    """How many cells were planned, what they cost together, and which were refused."""
    count = len(lock.cells)
    screen.verdict("ok" if count else "fail", f"{count} cells planned, {len(lock.refused)} refused")
    cost = lock.cost
    facts = {
        "compiled trees": str(cost.trees),
        "one after another": _hours(cost.serial_hours),
        "without sharing trees": _hours(cost.cold_hours),
        "disk": f"{cost.disk_gib:.0f} GiB" if cost.disk_gib >= 1 else "less than 1 GiB",
    }
    screen.rows(facts.items())
    if lock.defaults.target:
        screen.bullet(f"only {lock.defaults.target} is built; the hours are those of whole wheels", status="warn")
    screen.rows(((cell.id, cell.name) for cell in lock.cells[:MAX_ROWS]), title="Cells")
    screen.rest(len(lock.cells) - MAX_ROWS, _ALL)
    refused = [f"{cell.name}: {cell.because[0].text if cell.because else 'no reason given'}" for cell in lock.refused]
    screen.bullets(refused[:MAX_ROWS], status="fail", title="Refused")
    screen.rest(len(refused) - MAX_ROWS, _ALL)
    if count:
        screen.commands("Next", [f"rekindle matrix {'run' if lock.written else 'plan'} {pasted(lock.table)}"])


def count_stages(status: matrix.MatrixStatus) -> str:
    """``3 built, 1 failed``."""
    return ", ".join(f"{count} {stage}" for stage, count in sorted(status.counts.items()))


def _render_status(status: matrix.MatrixStatus, screen: Screen) -> None:
    screen.verdict("ok" if status.good else "warn", count_stages(status) or "no cells")
    width = min(60, widest(row.name for row in status.rows))
    for row in status.rows[:MAX_ROWS]:
        state, rebuild = row.state, "yes" if row.rebuild else "no"
        phase = state.phase if state.stage == "running" else ""
        parts = filter(None, (state.stage, phase, *cost_figures(state), " ".join(state.targets), state.proof))
        text = f"{' · '.join(parts)}; rebuild: {rebuild}, because {row.because}"
        screen.entry(row.name.ljust(width), text, status=_MARKS[state.stage])
    screen.rest(len(status.rows) - MAX_ROWS, _ALL)
    for cell in status.refused[:20]:
        screen.bullet(f"refused: {cell.name}: {cell.because[0].text if cell.because else ''}")


def cost_figures(state: matrix.CellState) -> tuple[str, str, str]:
    """Time, memory and what the compiler cache gave, as far as they are known."""
    return (
        spoken_seconds(state.seconds) if state.seconds is not None else "",
        size(state.peak_memory_bytes) if state.peak_memory_bytes else "",
        f"cache {state.cache['hit rate']}" if "hit rate" in state.cache else "",
    )


def _render_run(run: matrix.MatrixRun, screen: Screen) -> None:
    _render_status(run.status, screen)
    facts = {
        "engine": run.engine,
        "took": spoken_seconds(run.seconds),
        "started": str(run.started),
        "tried again": str(run.retried),
        "left to other runs": str(run.adopted),
        "report": run.report,
    }
    screen.facts(facts.items(), title="This run")


def _render_cell(state: matrix.CellState, screen: Screen) -> None:
    good = state.stage in ("built", "proven")
    screen.verdict("ok" if good else "fail", f"cell {state.id}: {state.stage}{'' if good else ': ' + state.message}")
    if state.wheel:
        screen.rows([("wheel", state.wheel), ("proof", state.proof or "none")])


def _render_published(published: matrix.Published, screen: Screen) -> None:
    screen.verdict("ok" if published.added else "fail", f"{len(published.added)} wheels in {published.wheelhouse}")
    screen.bullets((f"{name}: published as not proven" for name in published.unproven), status="warn")
    screen.bullets((f"{name}: there is no wheel" for name in published.missing), status="skip")
    alike = "has a wheel of the same name, and a house holds one: --only CELL --wheelhouse ANOTHER-DIR publishes it"
    screen.bullets((f"{name}: another cell {alike}" for name in published.same_name), status="warn")


def render_script(script: matrix.MatrixScript, screen: Screen) -> None:
    """The script itself, to be piped into a file."""
    screen.stream.write(script.text)


def render_proposal(proposal: matrix.Proposal, screen: Screen) -> None:
    """The wheels worth building for these machines, and which have an official one."""
    count, machines = len(proposal.wheels), sum(len(wheel.serves) for wheel in proposal.wheels)
    text = f"{count} wheel{'s' * (count != 1)} to build for {machines} machine{'s' * (machines != 1)}"
    screen.verdict("warn" if proposal.unserved else "ok", f"{text}; official wheels serve {len(proposal.official)}")
    for wheel in proposal.wheels:
        name = f"torch {wheel.torch} {wheel.variant}, Python {wheel.python}, {wheel.system}"
        screen.bullet(f"{name}, for {' '.join(wheel.archs) or wheel.cpu or 'the CPU'}: {', '.join(wheel.serves)}")
    if proposal.official:
        screen.section("Official wheels")
    for name, line in proposal.official.items():
        screen.bullet(name, status="ok")
        screen.command(line, as_called=False)
    screen.bullets((f"{name}: {why}" for name, why in proposal.unserved.items()), status="fail", title="Not served")
    if proposal.wheels and proposal.path:
        screen.commands("Next", [f"rekindle matrix plan {pasted(proposal.path)}"])
    elif proposal.wheels:
        screen.section("The table (--out FILE writes it)")
        screen.stream.write(proposal.table)


def _render_simulation(simulation: matrix.Simulation, screen: Screen) -> None:
    screen.verdict("ok" if not simulation.unbuilt else "warn", f"{simulation.built} of {simulation.cells} cells built")
    facts = {
        "workers": str(simulation.workers),
        "took": _hours(simulation.makespan_hours),
        "at best": _hours(simulation.lower_bound_hours),
        "ratio": f"{simulation.ratio:.2f}",
        "workers that died": str(simulation.failures),
        "work lost by that": _hours(simulation.lost_hours),
        "the scheduler's own time": f"{simulation.scheduler_cpu_seconds:.2f} s",
    }
    screen.rows(facts.items())


def watch(statuses: Iterable[matrix.MatrixStatus], progress: LineProgress) -> matrix.MatrixStatus:
    """The cells in place on a terminal, in a pipe a line for each change; the last status in the end."""
    before: dict[str, str] = {}
    for status in statuses:
        if progress.live:
            progress.draw(_watched_lines(status, *shutil.get_terminal_size()))
            continue
        for row in status.rows:
            now = f"{row.state.stage} {row.state.phase}".strip()
            if before.get(row.cell) != now:
                before[row.cell] = now
                progress.say(f"{row.name}: {now}")
    return status


def _watched_lines(status: matrix.MatrixStatus, columns: int, lines: int) -> list[str]:
    """As many cells as fit, what runs first."""
    order = ("running", "failed", "waiting", "cancelled", "built", "proven")
    text = [count_stages(status)]
    for row in sorted(status.rows, key=lambda row: order.index(row.state.stage))[: max(3, lines - 4)]:
        state = row.state
        words: list[str] = [state.stage]
        if state.stage == "running":
            words += [state.phase, *(spoken_seconds(time.time() - last.started) for last in state.attempts[-1:])]
        text.append(f"{row.name[:50]:<50}  {' '.join(filter(None, words))}")
    return [line[: columns - 1] for line in text]


def _hours(hours: float) -> str:
    return spoken_seconds(hours * 3600)
