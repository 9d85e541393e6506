"""Any document as a piece of HTML, for notebooks; walks, matrices, proofs and wheels as pages that need no network. No
name of a stranger's becomes markup there, and no secret stays."""

import html
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rekindle.host.files import write_for_user
from rekindle.host.redact import all_without_secrets, fill_template, without_secrets
from rekindle.inspect.cover import cards_of, cover, families
from rekindle.model.document import encode
from rekindle.model.journey import Journey
from rekindle.model.matrix import CellRow, CellState, MatrixStatus
from rekindle.model.page import header, page
from rekindle.model.spoken import spoken_seconds
from rekindle.model.verify import VerifyReport
from rekindle.model.wheel import LibraryGpu, WheelReport
from rekindle.render.build import size
from rekindle.render.matrix import cost_figures, count_stages
from rekindle.render.screen import Screen, find_view
from rekindle.render.summary import summarise_proof
from rekindle.render.wheel import arch_table, full_name, headline, judged_headline

_TEMPLATES = Path(__file__).with_name("templates")


def render_journey_html(journey: Journey) -> str:
    """A walk as a page: its legs as bars, and the whole document for programs."""
    body = fill_template(
        _TEMPLATES / "journey.html.j2",
        journey=journey,
        longest=max((leg.seconds for leg in journey.legs), default=0.0) or 1.0,
        total=sum(leg.seconds for leg in journey.legs),
        # Before it is written as JSON: behind escapes nothing is recognised.
        document=encode(all_without_secrets(json.loads(encode(journey)))).decode("utf-8"),
        spoken=spoken_seconds,
        build_page="build.html" if journey.report and Path(journey.report).with_name("build.html").is_file() else None,
    )
    verdict = str(without_secrets(journey.verdict))
    top = header(verdict, str(without_secrets(journey.machine or "")), good=journey.arrived)
    return page(verdict, f"{top}\n{body}")


def render_matrix_html(status: MatrixStatus) -> str:
    """The cells as a grid: everything but the Python down, Pythons across."""
    grid: dict[str, dict[str, CellRow]] = {}
    for row in status.rows:
        python = _python(row)
        grid.setdefault(row.name.replace(f"-py{python}", ""), {})[python] = row
    body = fill_template(
        _TEMPLATES / "matrix.html.j2",
        first_failed=sorted(status.rows, key=lambda row: row.state.stage != "failed"),
        status=status,
        pythons=sorted(set(map(_python, status.rows)), key=lambda text: [int(p) for p in text.split(".") if p]),
        grid=grid,
        duration=spoken_seconds,
        size=size,
        figures=_figures,
    )
    verdict = count_stages(status) or "no cells"
    failed, proven = status.counts.get("failed", 0), status.counts.get("proven", 0)
    good = False if failed else True if proven == len(status.rows) and status.rows else None
    top = header(verdict, str(without_secrets(status.root)), good=good)
    return page(verdict, f"{top}\n{body}", more_style="\n" + (_TEMPLATES / "matrix.css").read_text(encoding="utf-8"))


def write_report(status: MatrixStatus, out: Path) -> None:
    """The grid of a matrix where the user wants it."""
    write_for_user(out, render_matrix_html(status))


def _figures(state: CellState) -> list[str]:
    """What the grid shows of a cell; a space inside a figure does not break."""
    return [text.replace(" ", "\u00a0") for text in (*cost_figures(state), state.proof.split(",")[0]) if text]


def _python(row: CellRow) -> str:
    return next((part[2:] for part in row.name.split("-") if part.startswith("py")), "")


def verify_page(report: VerifyReport) -> str:
    """A verification: what failed or is missing first, then every check."""
    good = True if report.good else False if report.verdict == "failed" else None
    missing = {need.id for need in report.missing}
    untried = [check for check in report.checks if check.status == "skipped" and check.id not in missing]
    body = fill_template(_TEMPLATES / "verify.html.j2", report=report, untried=untried, spoken=spoken_seconds)
    top = header(summarise_proof(report), str(without_secrets(report.subject)), good=good)
    return page(summarise_proof(report), f"{top}\n{body}")


_OPEN_ROWS = 12
_LONG = 18  # characters; a longer value gets a row of its own


def wheel_page(report: WheelReport) -> str:
    """What a wheel contains: for which cards and CPUs it has code, whose it is, and what it needs from elsewhere."""
    title, judged = full_name(report), judged_headline(report)
    good = None if report.verdict is None else report.verdict.runs
    cpu = report.cpu
    harmful = (("would crash", cpu.unconditional), ("may crash", (*cpu.untold, *cpu.suspects)))
    # A few kernels of a group were looked at: that tells whose library it is, and nothing of the project's own.
    kernels = [["library", "containers", "whose", "which", "architectures"]]
    for library in report.gpu.libraries:
        for group in library.sets:
            whose, which = group.origin or "", "" if group.origin == "own" else ", ".join(group.kernels)
            kernels.append([Path(library.file).name, str(group.count), whose, which, " ".join(group.archs)])
    counts = arch_table(report.gpu.libraries)
    sources = report.links.sources
    body = fill_template(
        _TEMPLATES / "wheel.html.j2",
        report=report,
        open_rows=_OPEN_ROWS,
        long=_LONG,
        facts=_facts(report),
        cards=[(str(card), *families().get(str(card), ("", ""))) for card in cards_of(report)],
        grid=[(Path(library.file).name, _cover_cells(report, library)) for library in report.gpu.libraries],
        kernels=kernels,
        counts=counts,
        count_marks=[["none" if cell == "·" else "some" for cell in row[1:]] for row in counts[1:]],
        harmful=[(word, uses) for word, uses in harmful if uses],
        evidence=[entry for entry in cpu.evidence if not set(entry.isa) <= {"lzcnt"}],
        **_instruction_sets(report),
        elsewhere=[
            ["library", "comes from", "needed by"],
            *([source.library, source.package or "unknown", ", ".join(source.needed_by[:6])] for source in sources),
        ],
    )
    top = header(f"{title}: {judged}" if judged else title, headline(report), good=good)
    return page(title, f"{top}\n{body}")


def _facts(report: WheelReport) -> list[tuple[str, str]]:
    """What there is to say in a few words, the long ones last."""
    facts = {
        "tags": " ".join(report.tags),
        "size": f"{report.bytes / 1e6:.1f} MB",
        "CUDA": report.cuda,
        "ROCm": report.rocm,
        "declared": " ".join(report.gpu.declared),
        "glibc": report.links.glibc,
        "GLIBCXX": report.links.glibcxx,
        "C++ ABI": report.links.cxx_abi,
    }
    return sorted(((key, value) for key, value in facts.items() if value), key=lambda row: len(row[1]) > _LONG)


def _cover_cells(report: WheelReport, library: LibraryGpu) -> list[tuple[str, str]]:
    """For each card how much of the library runs on it: the class of the cell, and its text."""
    cells = []
    for card in cards_of(report):
        share = cover(library, card, report.cuda)
        words = {"yes": "✓", "no": "✗", "partly": f"{share.runs} of {share.total}"} if share else {}
        cells.append((share.word, words[share.word]) if share else ("none", "·"))
    return cells


def _instruction_sets(report: WheelReport) -> dict[str, list[list[str]]]:
    """Functions by instruction set, and the classes of the cells."""
    kinds = (report.cpu.unconditional, report.cpu.suspects, report.cpu.dispatched)
    rows = [["instruction set", "would crash", "may crash", "chosen at run time"]]
    marks = []
    for name in dict.fromkeys(use.isa for uses in kinds for use in uses):
        cells = [next((f"{use.functions:,}" for use in uses if use.isa == name), "·") for uses in kinds]
        rows.append([name, *cells])
        marks.append(["none" if c == "·" else kind for c, kind in zip(cells, ("bad", "partly", "plain"), strict=True)])
    return {"sets": rows, "set_marks": marks}


_PAGES: dict[type, Callable[[Any], str]] = {
    WheelReport: wheel_page,
    VerifyReport: verify_page,
    Journey: render_journey_html,
    MatrixStatus: render_matrix_html,
}
_ESCAPE = re.compile(r"\x1b\[([0-9;]*)m")
_STYLES = {
    "1": "font-weight:bold",
    "2": "opacity:.6",
    "31": "color:#c0392b",
    "32": "color:#1e8449",
    "33": "color:#b7791f",
    "36": "color:#117a8b",
}


def render_html(document: object) -> str:
    """The text of a terminal in a ``<pre>`` with its colours (JSON, where nobody shows the document to people); folded
    below it the page with tables and bars, where there is one. Neither wants a stylesheet or runs a script."""
    view = find_view(type(document))
    if view is None:
        text = html.escape(encode(document).decode("utf-8"))
    else:
        stream = io.StringIO()
        view(document, Screen(stream, color="always"))
        text = _spans(stream.getvalue())
    shown = f'<pre style="line-height:1.4">{text}</pre>'
    if (make_page := _PAGES.get(type(document))) is None:
        return shown
    page_text = html.escape(make_page(document))
    frame = f'<iframe sandbox srcdoc="{page_text}" style="width:100%;height:36rem;border:0"></iframe>'
    return f"{shown}<details><summary>As a page</summary>{frame}</details>"


def _spans(text: str) -> str:
    """Terminal colours as spans; everything else escaped."""
    first, *rest = _ESCAPE.split(text)
    out = [html.escape(first)]
    for codes, piece in zip(rest[::2], rest[1::2], strict=True):
        style = ";".join(_STYLES[code] for code in codes.split(";") if code in _STYLES)
        out.append(f'<span style="{style}">{html.escape(piece)}</span>' if style else html.escape(piece))
    return "".join(out)
