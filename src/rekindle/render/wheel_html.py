"""The inspect document as one HTML page that stands alone: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Sequence

from rekindle.inspect.cover import cards_of, cover, families
from rekindle.model.arch import Gfx, Sm
from rekindle.model.page import header, page
from rekindle.model.wheel import ArchSet, IsaUse, WheelReport
from rekindle.render.wheel import arch_table, headline, judged_headline

_OPEN_ROWS = 12
_LONG = 18  # characters; a longer value gets a row of its own


def wheel_page(report: WheelReport) -> str:
    title = " ".join(part for part in (report.name or report.target, report.version) if part)
    good = None if report.verdict is None else report.verdict.runs
    judged = judged_headline(report)
    parts = [header(f"{title}: {judged}" if judged else title, headline(report), good=good), _facts(report)]
    if report.verdict:
        axes = [
            f'<li><b class="{axis.runs}">{_e(axis.axis)}: {axis.runs}</b> {_e(axis.text)}'
            + (f" → {_e(axis.remedy)}" if axis.remedy else "")
            for axis in report.verdict.axes
        ]
        parts.append(_section(f"On {_e(report.verdict.machine)}", "<ul>" + "</li>".join(axes) + "</li></ul>"))
    parts += [_gpu(report), _cpu(report)]
    if report.links.sources:
        rows = [["library", "comes from", "needed by"]]
        rows += [[s.library, s.package or "unknown", ", ".join(s.needed_by[:6])] for s in report.links.sources]
        told = "<p>The wheel does not bring these; they must be there first.</p>"
        parts.append(_section("Libraries from elsewhere", told + _folded("libraries", rows)))
    if report.findings:
        found = "".join(f"<li>{_e(finding.text)}</li>" for finding in report.findings)
        parts.append(_section("Worth knowing", f"<ul>{found}</ul>"))
    return page(title, "\n".join(part for part in parts if part))


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{title}</h2>\n{body}\n</section>"


def _folded(what: str, rows: Sequence[Sequence[str]]) -> str:
    """A long table folds away behind its count."""
    if len(rows) - 1 <= _OPEN_ROWS:
        return _table(rows)
    return f"<details><summary>All {len(rows) - 1} {what}</summary>{_table(rows)}</details>"


def _facts(report: WheelReport) -> str:
    rows = [
        ("tags", " ".join(report.tags)), ("size", f"{report.bytes / 1e6:.1f} MB"), ("CUDA", report.cuda),
        ("ROCm", report.rocm), ("declared", " ".join(report.gpu.declared)), ("glibc", report.links.glibc),
        ("GLIBCXX", report.links.glibcxx), ("C++ ABI", report.links.cxx_abi),
    ]  # fmt: skip
    cards = "".join(
        f'<div class="card{" wide" if len(value) > _LONG else ""}"><b>{_e(value)}</b>{key}</div>'
        for key, value in sorted(rows, key=lambda row: len(row[1] or "") > _LONG)
        if value
    )
    return f'<div class="cards">{cards}</div>'


def _gpu(report: WheelReport) -> str:
    libraries = report.gpu.libraries
    if not libraries:
        return ""
    cards = cards_of(report)
    head = [""] + [_card(card) for card in cards]
    rows = []
    for library in libraries:
        cells = [f"<td>{_e(library.file.rsplit('/', 1)[-1])}</td>"]
        for card in cards:
            found = cover(library, card, report.cuda)
            words = {"yes": "✓", "no": "✗", "partly": f"{found.runs} of {found.total}"} if found else {}
            cells.append(f'<td class="{found.word}">{words[found.word]}</td>' if found else '<td class="none">·</td>')
        rows.append("".join(cells))
    out = [
        "<p>✓: every kernel of the library has code such a card can run. Amber: only some have, the others fail when "
        "they are called. Code for a card also runs on later ones of the same generation (sm_80 code on sm_86).</p>",
        '<div class="scroll" tabindex="0"><table class="grid"><tr>'
        + "".join(f"<th>{cell}</th>" for cell in head)
        + "</tr>",
        *(f"<tr>{row}</tr>" for row in rows),
        "</table></div>",
        "<h3>Whose kernels they are</h3><p>A container is one compiled source file. <b>own</b>: the project's kernels, "
        "for all it declares. <b>specialised</b>: for one chip, beside general ones. <b>static</b>: from a vendor's "
        "library linked in, whose list of cards may be shorter.</p>",
    ]
    table = [["library", "containers", "whose", "which", "architectures"]]
    for library in libraries:
        name = library.file.rsplit("/", 1)[-1]
        table += [[name, str(one.count), one.origin or "", _who(one), " ".join(one.archs)] for one in library.sets]
    out += [
        _folded("groups of kernels", table),
        "<details><summary>Containers with code for each architecture, counted</summary>",
    ]
    counts = arch_table(libraries)
    marks = [["none" if cell == "·" else "some" for cell in row[1:]] for row in counts[1:]]
    return _section("Which cards it has code for", "".join([*out, _table(counts, marks), "</details>"]))


def _who(one: ArchSet) -> str:
    """A few kernels were looked at: that tells whose library it is, and nothing of hundreds of the project's own."""
    return "" if one.origin == "own" else ", ".join(one.kernels)


def _card(card: Sm | Gfx) -> str:
    family, product = families().get(str(card), ("", ""))
    return f'{_e(str(card))}<br><span class="small" title="{_e(product)}">{_e(family)}</span>'


def _cpu(report: WheelReport) -> str:
    cpu = report.cpu
    if cpu.functions is None:
        return ""
    first = f", for example {_e(', '.join(cpu.oldest[:3]))}" if cpu.oldest else ""
    starts = f"Starts on any CPU from <b>{_e(cpu.runs_from or '')}</b> on{first}"
    if cpu.runs_from is None:
        starts = f"Needs at least <b>{_e(cpu.at_least or 'unknown')}</b>{first}; whether it needs more cannot be told"
    out = [f"<p>{starts} ({cpu.functions:,} functions read).</p>"]
    kinds = (("would crash", cpu.unconditional), ("may crash", (*cpu.untold, *cpu.suspects)))
    bad = [e for e in cpu.evidence if not set(e.isa) <= {"lzcnt"}]
    if any(uses for _, uses in kinds):
        out.append("<p>On a CPU that lacks the instruction set, these functions "
                   + " and ".join(f"<b>{word}</b>: {_counted(uses)}" for word, uses in kinds if uses)
                   + ". The rest asks the CPU first.</p><ul>")  # fmt: skip
        out += [
            f"<li><code>{_e(e.function)}</code> ({_e(' '.join(e.isa))}), in {_e(e.file.rsplit('/', 1)[-1])}: "
            f"{_e(e.why)}</li>"
            for e in bad
        ]
        out.append("</ul>")
    rows = [["instruction set", "would crash", "may crash", "chosen at run time"]]
    marks = []
    for name in dict.fromkeys(use.isa for uses in (cpu.unconditional, cpu.suspects, cpu.dispatched) for use in uses):
        cells = [next((f"{use.functions:,}" for use in uses if use.isa == name), "·")
                 for uses in (cpu.unconditional, cpu.suspects, cpu.dispatched)]  # fmt: skip
        rows.append([name, *cells])
        marks.append(["none" if c == "·" else kind for c, kind in zip(cells, ("bad", "partly", "plain"), strict=True)])
    out.append("<details><summary>Functions by instruction set</summary>" + _table(rows, marks) + "</details>")
    notes = "".join(f"<li>{_e(note)}</li>" for note in cpu.notes)
    out.append(f"<details><summary>What cannot be told from the file</summary><ul>{notes}</ul></details>")
    return _section("Which CPUs it runs on", "".join(out))


def _counted(uses: Sequence[IsaUse]) -> str:
    return ", ".join(f"{use.functions:,} with {_e(use.isa)}" for use in uses)


def _table(rows: Sequence[Sequence[str]], marks: Sequence[Sequence[str]] | None = None) -> str:
    """``marks`` are the classes of the cells after the first; without them the table is text, aligned to the left."""
    head = "".join(f"<th>{_e(cell)}</th>" for cell in rows[0])
    body = []
    for number, row in enumerate(rows[1:]):
        kinds = marks[number] if marks else [""] * (len(row) - 1)
        cells = [f"<td>{_e(row[0])}</td>"]
        cells += [f'<td class="{kind}">{_e(cell)}</td>' for cell, kind in zip(row[1:], kinds, strict=True)]
        body.append("<tr>" + "".join(cells) + "</tr>")
    kind = "grid" if marks else "rows"
    inside = f'<tr class="head">{head}</tr>{"".join(body)}'
    return f'<div class="scroll" tabindex="0"><table class="{kind}">{inside}</table></div>'


def _e(text: str) -> str:
    return html.escape(text, quote=True)
