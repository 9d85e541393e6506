"""The inspect document for people: what it is, a table of libraries × architectures, links, verdict."""

from collections import Counter
from pathlib import Path

from rekindle.model.arch import parse_gfx_code, parse_sm
from rekindle.model.wheel import LibraryGpu, WheelCpu, WheelDiff, WheelGpu, WheelReport, WheelShelf
from rekindle.render.screen import Screen


def render_wheel(report: WheelReport, screen: Screen) -> None:
    judged = judged_headline(report)
    status = "ok" if report.verdict is None else _RUNS[report.verdict.runs][0]
    if status == "ok" and _runs_partly(report):
        status = "warn"  # a card that stays unused is no plain yes
    screen.verdict(status, f"{full_name(report)}: {judged or headline(report)}")
    if judged:
        screen.paragraph(headline(report))
    read = f", {report.read_bytes / 1e6:.1f} MB read" if report.read_bytes else ""
    facts = {
        "found": report.target if report.kind == "installed" else "",
        "tags": " ".join(report.tags),
        "size": f"{report.bytes / 1e6:.1f} MB{read}",
        "CUDA": report.cuda,
        "ROCm": report.rocm,
        "Python": report.requires_python,
        "CPU": report.cpu.arch,
    }
    screen.facts(facts.items())
    if report.verdict:
        screen.section(f"On {report.verdict.machine}")
        for axis in report.verdict.axes:
            below = [f"→ {axis.remedy}"] if axis.remedy and axis.runs != "yes" else []
            screen.bullet(f"{axis.axis}: {axis.text}", status=_STATUS[axis.runs], below=below)
    _gpu(report.gpu, screen)
    _cpu(report.cpu, screen)
    _links(report, screen)
    if report.findings:
        screen.section("Worth knowing")
    for finding in report.findings:
        screen.bullet(finding.text, status=_SEVERITY[finding.severity])


_FLOOR = ("glibc >= ", "GLIBCXX_", "C++ ABI ", "tag ")
_SEVERITY = {"error": "fail", "warning": "warn", "note": "skip"}
_RUNS = {True: ("ok", "runs on"), False: ("fail", "does not run on"), None: ("warn", "cannot be told for")}
_STATUS = {"yes": "ok", "partly": "warn", "unknown": "skip", "no": "fail"}


def full_name(report: WheelReport) -> str:
    return " ".join(filter(None, (report.name or report.target, report.version)))


def judged_headline(report: WheelReport) -> str | None:
    """Whether it runs on the machine that was asked about."""
    if report.verdict is None:
        return None
    exceptions = ", with exceptions" if _runs_partly(report) else ""
    return f"{_RUNS[report.verdict.runs][1]} {report.verdict.machine}{exceptions}"


def _runs_partly(report: WheelReport) -> bool:
    verdict = report.verdict
    return verdict is not None and bool(verdict.runs) and any(axis.runs == "partly" for axis in verdict.axes)


def headline(report: WheelReport) -> str:
    """For which cards the wheel holds code."""
    if report.name not in (None, "torch") and not report.gpu.declared and report.gpu.libraries:
        return "GPU code for " + " ".join(_all_archs(report.gpu.libraries))
    kernels = report.gpu.kernels
    archs = [*kernels.sass, *kernels.ptx, *kernels.gfx] or list(report.gpu.declared)
    if archs:
        return "GPU code for " + " ".join(archs)
    if report.gpu.libraries:
        codes = dict.fromkeys(arch for library in report.gpu.libraries for arch in (*library.sass, *library.gfx))
        return "GPU code for " + " ".join(codes)
    return "not read (quick)" if report.quick else "no GPU code"


def _all_archs(libraries: tuple[LibraryGpu, ...]) -> list[str]:
    """What any library of a package has code for; PTX and LTO code only where nothing newer is there."""
    archs: list[str] = []
    for kind in ("sass", "ptx", "lto", "gfx"):
        if kind == "sass" or kind == "gfx" or not archs:
            archs += sorted({arch for library in libraries for arch in getattr(library, kind)}, key=_arch_order)
    archs += sorted({f"SYCL ({target})" for library in libraries for target in library.sycl})
    return archs


def _gpu(gpu: WheelGpu, screen: Screen) -> None:
    if gpu.declared:
        screen.section("Declared by the build")
        screen.paragraph(" ".join(gpu.declared))
    for library in gpu.libraries:
        for target, count in library.sycl.items():
            content = "a module" if count == 1 else f"{count} modules"
            if target.endswith("_gen"):
                content = f"code for {', '.join(library.ahead) or 'devices that are not told'}"
            screen.bullet(f"{Path(library.file).name}: SYCL ({target}), {content}")
    filled = tuple(library for library in gpu.libraries if library.sets)
    if not filled:
        return
    screen.rows(arch_table(filled), title="Containers with code for each architecture")
    screen.section("Kernels by origin")
    for library in filled:
        for group in library.sets:
            who = f" ({', '.join(group.kernels)})" if group.kernels and group.origin != "own" else ""
            screen.bullet(f"{Path(library.file).name}: {group.count} × {group.origin}{who}: {' '.join(group.archs)}")


def arch_table(libraries: tuple[LibraryGpu, ...]) -> list[list[str]]:
    """Rows are libraries, columns architectures; a cell counts containers, a dot means none."""
    kinds = ("sass", "ptx", "lto", "gfx")
    columns = sorted({arch for kind in kinds for lib in libraries for arch in getattr(lib, kind)}, key=_arch_order)
    rows = [["", *(arch.replace("sm_", "").replace("compute_", "ptx") for arch in columns)]]
    for library in libraries:
        counts = Counter(arch for group in library.sets for arch in group.archs * group.count)
        rows.append([Path(library.file).name, *(str(counts[arch] or "·") for arch in columns)])
    return rows


def _arch_order(arch: str) -> tuple[int, int, str]:
    """Machine code, PTX, AMD, each from old to new; gfx90a lies between gfx906 and gfx942."""
    if arch.startswith("lto_"):
        return 1, 1000 + parse_sm("sm_" + arch.removeprefix("lto_")).number, arch
    if not arch.startswith(("sm_", "compute_")):
        code = parse_gfx_code(arch)
        return 2, code.order[0], code.order[1] + arch
    sm = parse_sm(arch)
    return int(arch.startswith("compute")), sm.number, sm.suffix


def _cpu(cpu: WheelCpu, screen: Screen) -> None:
    if cpu.functions is None:
        return
    screen.section("CPU")
    first = f" (oldest: {', '.join(cpu.oldest)})" if cpu.oldest else ""
    if cpu.runs_from or not cpu.untold:
        screen.bullet(f"runs from {cpu.runs_from}{first}")
    else:
        screen.bullet(f"needs at least {cpu.at_least}{first}; whether it needs more cannot be told", status="warn")
    for title, uses, status in (
        ("perhaps needed by everybody; 'rekindle verify --cpu' proves it", cpu.untold, "warn"),
        ("reached without asking the CPU", cpu.unconditional, None),
        ("perhaps reached without asking the CPU; 'rekindle verify --cpu' proves it", cpu.suspects, "warn"),
        ("would silently compute wrong numbers on an older CPU", cpu.silent, "warn"),
    ):
        if uses:
            counts = "; ".join(f"{use.isa}: {use.functions} ({', '.join(use.examples[:3])})" for use in uses)
            screen.bullet(f"{title}: {counts}", status=status)
    for evidence in cpu.evidence[: 5 if screen.verbosity == 0 else None]:
        screen.paragraph(f"{evidence.function} [{' '.join(evidence.isa)}] in {evidence.file}: {evidence.why}", indent=6)
    if cpu.dispatched:
        screen.bullet("chosen at run time: " + ", ".join(f"{use.isa} {use.functions}" for use in cpu.dispatched))
    if screen.verbosity:
        for guard in cpu.guards:
            screen.bullet(f"{guard.functions} functions: {guard.guard}", indent=4)
        screen.bullets(cpu.notes, status="skip")


def _links(report: WheelReport, screen: Screen) -> None:
    links = report.links
    if not links.needed:
        return
    screen.section("Links")
    texts = (links.glibc, links.glibcxx, links.cxx_abi, links.manylinux_claim)
    floor = ", ".join(f"{name}{text}" for name, text in zip(_FLOOR, texts, strict=True) if text)
    screen.bullets(filter(None, [floor]))
    if links.bundled:
        screen.bullet(f"brought along: {' '.join(links.bundled)}")
    groups: dict[str, list[str]] = {}
    for source in links.sources:
        if not source.system or screen.verbosity:
            groups.setdefault(source.package or "unknown", []).append(source.library)
    for package, names in groups.items():
        screen.bullet(f"from {package}: {' '.join(names)}")


def _render_shelf(shelf: WheelShelf, screen: Screen) -> None:
    good = bool(shelf.wheels) and not shelf.findings
    screen.verdict("ok" if good else "warn", f"{shelf.place}: {len(shelf.wheels)} wheels")
    for report in shelf.wheels:
        parts = [judged_headline(report), headline(report)]
        if report.cpu.runs_from:
            parts.append(f"CPU from {report.cpu.runs_from}")
        elif report.cpu.untold:
            parts.append(f"CPU from {report.cpu.at_least} or newer, which cannot be told")
        status = _RUNS[report.verdict.runs][0] if report.verdict else "ok"
        screen.bullet(f"{full_name(report)}: {'; '.join(filter(None, parts))}", status=status)
    screen.bullets((finding.text for finding in shelf.findings), status="fail")


def render_diff(diff: WheelDiff, screen: Screen) -> None:
    if not diff.differences:
        screen.verdict("ok", f"{diff.before} and {diff.after} do not differ in anything read here")
        return
    screen.verdict("ok", f"{diff.before} → {diff.after}: {len(diff.differences)} differences")
    for row in diff.differences:
        changes = [f"{sign} {' '.join(names)}" for sign, names in (("-", row.gone), ("+", row.come)) if names]
        screen.bullet(f"{row.what}: {'  '.join(changes) or f'{row.before} → {row.after}'}")
