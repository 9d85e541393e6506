"""The inspect document for people: what it is, a table of libraries × architectures, links, verdict."""

from __future__ import annotations

from rekindle.model.wheel import LibraryGpu, WheelCpu, WheelGpu, WheelReport
from rekindle.render.screen import Screen


def render_wheel(report: WheelReport, screen: Screen) -> None:
    name = " ".join(part for part in (report.name or report.target, report.version) if part)
    screen.verdict("ok", f"{name}: {headline(report)}")
    screen.rows(_facts(report))
    _gpu(report.gpu, screen)
    _cpu(report.cpu, screen)
    _links(report, screen)
    if report.findings:
        screen.section("Found in the wheel itself")
        for finding in report.findings:
            screen.bullet(finding.text, status={"error": "fail", "warning": "warn", "note": "skip"}[finding.severity])


def headline(report: WheelReport) -> str:
    """One line that tells what the target is for."""
    kernels = report.gpu.torch_kernels
    archs = [*kernels.sass, *kernels.ptx, *kernels.gfx] or list(report.gpu.declared)
    if archs:
        return "GPU code for " + " ".join(archs)
    if report.gpu.libraries:
        found = dict.fromkeys(arch for library in report.gpu.libraries for arch in (*library.sass, *library.gfx))
        return "GPU code for " + " ".join(found)
    return "not read (quick)" if report.quick else "no GPU code"


def _facts(report: WheelReport) -> list[tuple[str, str]]:
    rows = [
        ("tags", " ".join(report.tags)),
        (
            "size",
            f"{report.bytes / 1e6:.1f} MB" + (f", {report.read_bytes / 1e6:.1f} MB read" if report.read_bytes else ""),
        ),
        ("CUDA", report.cuda or ""),
        ("ROCm", report.rocm or ""),
        ("Python", report.requires_python or ""),
        ("CPU", report.cpu.arch or ""),
    ]
    return [row for row in rows if row[1]]


def _gpu(gpu: WheelGpu, screen: Screen) -> None:
    if gpu.declared:
        screen.section("Declared by the build")
        screen.paragraph(" ".join(gpu.declared))
    if not gpu.libraries:
        return
    screen.section("Containers with code for each architecture")
    screen.rows(arch_table(gpu.libraries))
    screen.section("Kernels by origin")
    for library in gpu.libraries:
        for one in library.sets:
            who = f" ({', '.join(one.kernels)})" if one.kernels else ""
            screen.bullet(f"{library.file.rsplit('/', 1)[-1]}: {one.count} × {one.origin}{who}: {' '.join(one.archs)}")


def arch_table(libraries: tuple[LibraryGpu, ...]) -> list[list[str]]:
    """Rows are libraries, columns architectures; a cell counts containers, a dot means none."""
    columns = list(
        dict.fromkeys(arch for kind in ("sass", "ptx", "gfx") for lib in libraries for arch in getattr(lib, kind))
    )
    columns.sort(key=lambda arch: (arch.startswith("compute"), arch.startswith("gfx"), _number(arch)))
    rows = [["", *(short(arch) for arch in columns)]]
    for library in libraries:
        counts = {use.arch: use.entries for use in library.uses}
        rows.append([library.file.rsplit("/", 1)[-1], *(str(counts.get(arch, "·")) for arch in columns)])
    return rows


def short(arch: str) -> str:
    return arch.replace("sm_", "").replace("compute_", "ptx")


def _number(arch: str) -> tuple[int, str]:
    digits = "".join(c for c in arch.split(":")[0] if c.isdigit())
    return int(digits or 0), arch


def _cpu(cpu: WheelCpu, screen: Screen) -> None:
    if cpu.functions is None:
        return
    screen.section("CPU")
    first = f" (oldest: {', '.join(cpu.oldest)})" if cpu.oldest else ""
    screen.bullet(f"runs from {cpu.runs_from}{first}", status="ok")
    for title, uses, status in (
        ("reached without asking the CPU", cpu.unconditional, "fail"),
        ("perhaps reached without asking the CPU; 'rekindle verify --cpu' proves it", cpu.suspects, "warn"),
        ("would silently compute wrong numbers on an older CPU", cpu.silent, "warn"),
    ):
        if uses:
            each = "; ".join(f"{use.isa}: {use.functions} ({', '.join(use.examples[:3])})" for use in uses)
            screen.bullet(f"{title}: {each}", status=status)
    for evidence in cpu.evidence[: 5 if screen.verbosity == 0 else None]:
        screen.paragraph(f"{evidence.function} [{' '.join(evidence.isa)}] in {evidence.file}: {evidence.why}", indent=6)
    if cpu.dispatched:
        screen.bullet("chosen at run time: " + ", ".join(f"{use.isa} {use.functions}" for use in cpu.dispatched))
    if screen.verbosity:
        for guard in cpu.guards:
            screen.bullet(f"{guard.functions} functions: {guard.guard}", indent=4)
        for note in cpu.notes:
            screen.bullet(note, status="skip")


def _links(report: WheelReport, screen: Screen) -> None:
    links = report.links
    if not links.needed:
        return
    screen.section("Links")
    rows = [
        ("glibc", f">= {links.glibc}" if links.glibc else ""),
        ("libstdc++", f">= GLIBCXX_{links.glibcxx}" if links.glibcxx else ""),
        ("brought along", " ".join(links.bundled)),
        ("from elsewhere", " ".join(links.external)),
    ]
    for title, text in rows:
        if text:
            screen.bullet(f"{title}: {text}")
