"""The inspect document as one HTML page that stands alone: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Sequence

from rekindle.inspect.cover import cards_of, cover, families
from rekindle.model.arch import Gfx, Sm
from rekindle.model.wheel import ArchSet, IsaUse, WheelReport
from rekindle.render.wheel import arch_table, headline, judged_headline

_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse}
td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}
table.text td,table.text th{text-align:left}.small{font-size:.85em;color:#666;font-weight:normal}
td.some,td.yes{background:#d7f0d7}td.none{color:#bbb}td.partly{background:#fbe6c2}td.no,td.bad{background:#f8d3d3}td.plain{color:inherit}.no{color:#a00}.partly{color:#a60}.yes{color:#070}.unknown{color:#666}
code{background:#f3f3f3;padding:0 .2rem}.wide{overflow-x:auto}
@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}td,th{border-color:#333}td.some,td.yes{background:#143a14}
td.partly{background:#4a3410}td.no,td.bad{background:#4a1616}.small{color:#999}code{background:#222}.no{color:#f77}.partly{color:#fb5}.yes{color:#7d7}.unknown{color:#999}}
"""


def wheel_page(report: WheelReport) -> str:
    title = " ".join(part for part in (report.name or report.target, report.version) if part)
    parts = [f"<h1>{_e(title)}</h1>", f"<p>{_e(judged_headline(report) or headline(report))}</p>", _facts(report)]
    if report.verdict:
        parts.append(f"<h2>On {_e(report.verdict.machine)}</h2>")
        axes = [
            f'<li class="{axis.runs}"><b>{_e(axis.axis)}: {axis.runs}</b> {_e(axis.text)}'
            + (f" → {_e(axis.remedy)}" if axis.remedy else "")
            for axis in report.verdict.axes
        ]
        parts.append("<ul>" + "</li>".join(axes) + "</li></ul>")
    parts.append(_gpu(report))
    parts.append(_cpu(report))
    if report.links.sources:
        parts.append(
            "<h2>Libraries from elsewhere</h2><p>The wheel does not bring these; they must be there first.</p>"
        )
        rows = [["library", "comes from", "needed by"]]
        rows += [[s.library, s.package or "unknown", ", ".join(s.needed_by[:6])] for s in report.links.sources]
        parts.append(_table(rows))
    if report.findings:
        parts.append("<h2>Worth knowing</h2><ul>")
        parts += [f"<li>{_e(finding.text)}</li>" for finding in report.findings]
        parts.append("</ul>")
    body = "\n".join(parts)
    head = f'<meta charset="utf-8"><title>{_e(title)}</title><style>{_STYLE}</style>'
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>\n{body}\n</body></html>\n'


def _facts(report: WheelReport) -> str:
    rows = [
        ("tags", " ".join(report.tags)), ("size", f"{report.bytes / 1e6:.1f} MB"), ("CUDA", report.cuda),
        ("ROCm", report.rocm), ("declared", " ".join(report.gpu.declared)), ("glibc", report.links.glibc),
        ("GLIBCXX", report.links.glibcxx), ("C++ ABI", report.links.cxx_abi),
    ]  # fmt: skip
    return "<ul>" + "".join(f"<li>{key}: <code>{_e(value)}</code></li>" for key, value in rows if value) + "</ul>"


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
        "<h2>Which cards it has code for</h2>",
        "<p>✓: every kernel of the library has code such a card can run. Amber: only some have, the others fail when "
        "they are called. Code for a card also runs on later ones of the same generation (sm_80 code on sm_86).</p>",
        '<div class="wide"><table><tr>' + "".join(f"<th>{cell}</th>" for cell in head) + "</tr>",
        *(f"<tr>{row}</tr>" for row in rows),
        "</table></div>",
        "<h2>Whose kernels they are</h2><p>A container is one compiled source file. <b>own</b>: the project's kernels, "
        "for all it declares. <b>specialised</b>: for one chip, beside general ones. <b>static</b>: from a vendor's "
        "library linked in, whose list of cards may be shorter.</p>",
    ]
    table = [["library", "containers", "whose", "which", "architectures"]]
    for library in libraries:
        name = library.file.rsplit("/", 1)[-1]
        table += [[name, str(one.count), one.origin or "", _who(one), " ".join(one.archs)] for one in library.sets]
    out += [_table(table), "<details><summary>Containers with code for each architecture, counted</summary>"]
    counts = arch_table(libraries)
    marks = [["none" if cell == "·" else "some" for cell in row[1:]] for row in counts[1:]]
    return "".join([*out, _table(counts, marks), "</details>"])


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
    out = [f"<h2>Which CPUs it runs on</h2><p>{starts} ({cpu.functions:,} functions read).</p>"]
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
    return "".join(out) + f"<details><summary>What cannot be told from the file</summary><ul>{notes}</ul></details>"


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
    kind = "" if marks else ' class="text"'
    return f'<div class="wide"><table{kind}><tr>{head}</tr>{"".join(body)}</table></div>'


def _e(text: str) -> str:
    return html.escape(text, quote=True)
