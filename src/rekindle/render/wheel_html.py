"""The inspect document as one HTML page that stands alone: no scripts, nothing loaded from elsewhere."""

from __future__ import annotations

import html
from collections.abc import Sequence

from rekindle.model.wheel import WheelReport
from rekindle.render.wheel import arch_table, headline, judged_headline

_STYLE = """
body{font:15px/1.45 system-ui,sans-serif;margin:2rem auto;max-width:70rem;padding:0 1rem;color:#1a1a1a;background:#fff}
h1{font-size:1.4rem}h2{font-size:1.1rem;margin-top:2rem}table{border-collapse:collapse}
td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid #ddd}td:first-child,th:first-child{text-align:left}
td.some{background:#d7f0d7}td.none{color:#bbb}.no{color:#a00}.partly{color:#a60}.yes{color:#070}.unknown{color:#666}
code{background:#f3f3f3;padding:0 .2rem}.wide{overflow-x:auto}
@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}td,th{border-color:#333}td.some{background:#143a14}
code{background:#222}.no{color:#f77}.partly{color:#fb5}.yes{color:#7d7}.unknown{color:#999}}
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
    if report.gpu.libraries:
        parts.append("<h2>Containers with code for each architecture</h2>")
        parts.append(_table(arch_table(report.gpu.libraries)))
        parts.append("<h2>Kernels by origin</h2>")
        rows = [["library", "containers", "origin", "architectures"]]
        for library in report.gpu.libraries:
            rows += [[library.file, str(one.count), one.origin or "", " ".join(one.archs)] for one in library.sets]
        parts.append(_table(rows, mark=False))
    parts.append(_cpu(report))
    if report.links.sources:
        parts.append("<h2>Libraries from elsewhere</h2>")
        rows = [["library", "comes from", "needed by"]]
        rows += [[s.library, s.package or "unknown", ", ".join(s.needed_by[:6])] for s in report.links.sources]
        parts.append(_table(rows, mark=False))
    if report.findings:
        parts.append("<h2>Found in the wheel itself</h2><ul>")
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


def _cpu(report: WheelReport) -> str:
    cpu = report.cpu
    if cpu.functions is None:
        return ""
    out = [f"<h2>CPU</h2><p>Runs from <b>{_e(cpu.runs_from or 'unknown')}</b> ({cpu.functions} functions read).</p>"]
    rows = [["instruction set", "unguarded", "perhaps", "chosen at run time"]]
    names = dict.fromkeys(use.isa for uses in (cpu.unconditional, cpu.suspects, cpu.dispatched) for use in uses)
    for name in names:
        cells = [next((str(use.functions) for use in uses if use.isa == name), "·")
                 for uses in (cpu.unconditional, cpu.suspects, cpu.dispatched)]  # fmt: skip
        rows.append([name, *cells])
    out.append(_table(rows))
    out.append("<ul>")
    out += [
        f"<li><code>{_e(e.function)}</code> [{_e(' '.join(e.isa))}] in {_e(e.file)}: {_e(e.why)}</li>"
        for e in cpu.evidence
    ]
    out += [f"<li>{_e(note)}</li>" for note in cpu.notes]
    return "".join(out) + "</ul>"


def _table(rows: Sequence[Sequence[str]], *, mark: bool = True) -> str:
    head = "".join(f"<th>{_e(cell)}</th>" for cell in rows[0])
    body = []
    for row in rows[1:]:
        cells = [f"<td>{_e(row[0])}</td>"]
        for cell in row[1:]:
            kind = "" if not mark else ' class="none"' if cell == "·" else ' class="some"'
            cells.append(f"<td{kind}>{_e(cell)}</td>")
        body.append("<tr>" + "".join(cells) + "</tr>")
    return f'<div class="wide"><table><tr>{head}</tr>{"".join(body)}</table></div>'


def _e(text: str) -> str:
    return html.escape(text, quote=True)
