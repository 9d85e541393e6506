"""A matrix for people: the frozen cells, their states, a live view, one HTML page."""

import shutil
import time
from typing import TextIO

from rekindle.model.matrix import (
    CellRow,
    CellState,
    MatrixLock,
    MatrixRun,
    MatrixScript,
    MatrixStatus,
    Proposal,
    Published,
    Simulation,
)
from rekindle.model.spoken import spoken_seconds
from rekindle.render.build import size
from rekindle.render.screen import Screen, widest
from rekindle.scripts.quoting import pasted

_MARKS = {"proven": "ok", "built": "ok", "failed": "fail", "running": "warn", "waiting": "skip", "cancelled": "skip"}
MAX_ROWS = 200
_ALL = "--json lists all"


def render_lock(lock: MatrixLock, screen: Screen) -> None:
    count = len(lock.cells)
    screen.verdict("ok" if count else "fail", f"{count} cells planned, {len(lock.refused)} refused")
    cost = lock.cost
    screen.rows(
        [
            ("compiled trees", str(cost.trees)),
            ("one after another", _hours(cost.serial_hours)),
            ("without sharing trees", _hours(cost.cold_hours)),
            ("disk", f"{cost.disk_gib:.0f} GiB" if cost.disk_gib >= 1 else "less than 1 GiB"),
        ]
    )
    if lock.defaults.target:
        screen.bullet(f"only {lock.defaults.target} is built; the hours are those of whole wheels", status="warn")
    screen.rows(((cell.id, cell.name) for cell in lock.cells[:MAX_ROWS]), title="Cells")
    screen.rest(len(lock.cells) - MAX_ROWS, _ALL)
    refused = [f"{cell.name}: {cell.because[0].text if cell.because else 'no reason given'}" for cell in lock.refused]
    screen.bullets(refused[:MAX_ROWS], status="fail", title="Refused")
    screen.rest(len(refused) - MAX_ROWS, _ALL)
    if count:
        screen.commands("Next", [f"rekindle matrix {'run' if lock.written else 'plan'} {pasted(lock.table)}"])


def render_status(status: MatrixStatus, screen: Screen) -> None:
    words = ", ".join(f"{count} {stage}" for stage, count in sorted(status.counts.items())) or "no cells"
    screen.verdict("ok" if status.good else "warn", words)
    width = min(60, widest(row.name for row in status.rows))
    for row in status.rows[:MAX_ROWS]:
        screen.entry(row.name.ljust(width), _describe_row(row), status=_MARKS[row.state.stage])
    screen.rest(len(status.rows) - MAX_ROWS, _ALL)
    for cell in status.refused[:20]:
        screen.bullet(f"refused: {cell.name}: {cell.because[0].text if cell.because else ''}")


def _describe_row(row: CellRow) -> str:
    state = row.state
    parts = (
        state.stage,
        state.phase if state.stage == "running" else "",
        *cost_figures(state),
        " ".join(state.targets),
        state.proof,
    )
    rebuild = "yes" if row.rebuild else "no"
    return f"{' · '.join(filter(None, parts))}; rebuild: {rebuild}, because {row.because}"


def cost_figures(state: CellState) -> tuple[str, str, str]:
    """Time, memory and what the compiler cache gave, as far as they are known."""
    return (
        spoken_seconds(state.seconds) if state.seconds is not None else "",
        size(state.peak_memory_bytes) if state.peak_memory_bytes else "",
        f"cache {state.cache['hit rate']}" if "hit rate" in state.cache else "",
    )


def render_run(run: MatrixRun, screen: Screen) -> None:
    render_status(run.status, screen)
    screen.facts(
        [
            ("engine", run.engine),
            ("took", spoken_seconds(run.seconds)),
            ("started", str(run.started)),
            ("tried again", str(run.retried)),
            ("left to other runs", str(run.adopted)),
            ("report", run.report),
        ],
        title="This run",
    )


def render_cell(state: CellState, screen: Screen) -> None:
    good = state.stage in ("built", "proven")
    screen.verdict("ok" if good else "fail", f"cell {state.id}: {state.stage}{'' if good else ': ' + state.message}")
    if state.wheel:
        screen.rows([("wheel", state.wheel), ("proof", state.proof or "none")])


def render_published(published: Published, screen: Screen) -> None:
    screen.verdict("ok" if published.added else "fail", f"{len(published.added)} wheels in {published.wheelhouse}")
    screen.bullets((f"{name}: published as not proven" for name in published.unproven), status="warn")
    screen.bullets((f"{name}: there is no wheel" for name in published.missing), status="skip")
    alike = "has a wheel of the same name, and a house holds one: --only CELL --wheelhouse ANOTHER-DIR publishes it"
    screen.bullets((f"{name}: another cell {alike}" for name in published.same_name), status="warn")


def render_script(script: MatrixScript, screen: Screen) -> None:
    """The script itself, to be piped into a file."""
    screen.stream.write(script.text)


def render_proposal(proposal: Proposal, screen: Screen) -> None:
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


def render_simulation(simulation: Simulation, screen: Screen) -> None:
    screen.verdict("ok" if not simulation.unbuilt else "warn", f"{simulation.built} of {simulation.cells} cells built")
    screen.rows(
        [
            ("workers", str(simulation.workers)),
            ("took", _hours(simulation.makespan_hours)),
            ("at best", _hours(simulation.lower_bound_hours)),
            ("ratio", f"{simulation.ratio:.2f}"),
            ("workers that died", str(simulation.failures)),
            ("work lost by that", _hours(simulation.lost_hours)),
            ("the scheduler's own time", f"{simulation.scheduler_cpu_seconds:.2f} s"),
        ]
    )


class Live:
    """``watch``: the cells in place on a terminal; in a pipe a line for each change."""

    def __init__(self, stream: TextIO, *, quiet: bool = False) -> None:
        self._stream = stream
        self._live = stream.isatty() and not quiet
        self._quiet = quiet
        self._height = 0
        self._before: dict[str, str] = {}

    def show(self, status: MatrixStatus) -> None:
        if self._live:
            self._draw(status)
        elif not self._quiet:
            for row in status.rows:
                now = f"{row.state.stage} {row.state.phase}".strip()
                if self._before.get(row.cell) != now:
                    self._before[row.cell] = now
                    self._stream.write(f"{row.name}: {now}\n")
            self._stream.flush()

    def _draw(self, status: MatrixStatus) -> None:
        columns, lines = shutil.get_terminal_size()
        order = ("running", "failed", "waiting", "cancelled", "built", "proven")
        rows = sorted(status.rows, key=lambda row: order.index(row.state.stage))[: max(3, lines - 4)]
        text = [", ".join(f"{count} {stage}" for stage, count in sorted(status.counts.items()))]
        for row in rows:
            state = row.state
            words: list[str] = [state.stage]
            if state.stage == "running":
                words += [state.phase, *(spoken_seconds(time.time() - last.started) for last in state.attempts[-1:])]
            text.append(f"{row.name[:50]:<50}  {' '.join(filter(None, words))}")
        up = f"\x1b[{self._height}A" if self._height else ""
        body = "".join(f"\x1b[K{line[: columns - 1]}\n" for line in text)
        self._stream.write(f"{up}{body}\x1b[J")
        self._stream.flush()
        self._height = len(text)


def _hours(hours: float) -> str:
    return spoken_seconds(hours * 3600)
