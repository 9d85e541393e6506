"""A plan for people, on one screen: verdict, command to paste, why, what else there is."""

from __future__ import annotations

from rekindle.model.plan import Plan
from rekindle.render.screen import Screen

_SHOWN_REASONS = 6
_SHOWN_WARNINGS = 6


def plan_view(plan: Plan, screen: Screen) -> None:
    status, text = _verdict(plan)
    screen.verdict(status, text)
    if plan.changes:
        screen.section("What changes")
        for change in plan.changes:
            screen.bullet(f"{change.what}: {change.from_} → {change.to} ({change.why.rstrip('.')})")
    if plan.commands:
        screen.section("Paste this" if plan.answer == "install" else "The way (rekindle up does it for you)")
        for command in plan.commands:
            screen.command(command)
    screen.section("Why")
    shown = plan.because if screen.verbosity else plan.because[:_SHOWN_REASONS]
    for reason in shown:
        screen.bullet(reason.text)
        if screen.verbosity and reason.source:
            screen.paragraph(f"[{reason.source}]", indent=6)
    if plan.build is not None:
        _recipe(plan, screen)
    if plan.warnings:
        screen.section("Know this")
        for warning in plan.warnings if screen.verbosity else plan.warnings[:_SHOWN_WARNINGS]:
            screen.bullet(warning.text, status="warn")
    if plan.alternatives:
        screen.section("What else was considered")
        rows = []
        for other in plan.alternatives:
            what = f"torch {other.torch}" + (f"+{other.variant}" if other.variant else "")
            kit = f"CUDA {other.cuda}" if other.answer == "build" and other.cuda else ""
            rows.append((other.answer, f"{what} {kit}".strip(), other.why))
        screen.rows(rows)
    if not screen.verbosity:
        screen.line()
        screen.line(screen.style("  -v shows the sources", "dim"))


def _verdict(plan: Plan) -> tuple[str, str]:
    name = f"torch {plan.torch}" + (f"+{plan.variant}" if plan.variant else "")
    python = f" for Python {plan.python}" if plan.python else ""
    if plan.answer == "none":
        return "fail", "No torch can use this GPU"
    if plan.answer == "build":
        kit = f" with CUDA {plan.cuda}" if plan.cuda else f" with ROCm {plan.rocm}" if plan.rocm else ""
        asked = "as asked" if plan.as_asked else "with changes"
        return ("ok" if plan.as_asked else "warn"), f"Build {name} from source{kit}{python}, {asked}"
    if plan.as_asked:
        return "ok", f"Install {name}{python}: an official wheel runs here"
    return "warn", f"Install {name}{python}; not quite as asked"


def _recipe(plan: Plan, screen: Screen) -> None:
    recipe = plan.build
    assert recipe is not None
    screen.section("Toolchain")
    screen.rows([(name, text) for name, text in recipe.toolchain.items()])
    if recipe.cmake:
        settings = " ".join(f"{name}={value}" for name, value in recipe.cmake.items())
        screen.line(f"  CMake cache (through CMAKE_PROJECT_INCLUDE): {settings}")
    if recipe.minutes:
        low, high = recipe.minutes
        screen.line(
            f"  about {low}–{high} minutes, {recipe.disk_gib:g} GiB of disk, {recipe.memory_gib:g} GiB of memory"
        )
    for loss in recipe.losses:
        screen.bullet(f"lost: {loss}", status="skip")
