"""A plan for people, on one screen: verdict, command to paste, why, what else there is."""

import os
from collections.abc import Sequence

from rekindle.model.plan import (
    Alternative,
    Companion,
    CompanionChoice,
    GraftOutline,
    Plan,
    Reason,
    TorchChoice,
    TorchReady,
    WhyNot,
)
from rekindle.model.spoken import spoken_minutes
from rekindle.render.screen import Screen
from rekindle.scripts.quoting import paste_line

_SHOWN_REASONS = 5
_SHOWN_WARNINGS = 4
# What is said to be unsure of a build itself, not of the machine's size.
_BUILD_DOUBTS = ("rocm-math-gap", "rocm-pair-unproven", "cuda-pair-unproven")
# What no line to paste does, and without which they fail.
_STANDS_IN_THE_WAY = ("cudnn-by-hand",)
_HINT = "-v shows everything, with sources; --why-not torch=… tells why something is not proposed"


def plan_view(plan: Plan, screen: Screen, *, assumed: Sequence[str] = ()) -> None:
    status, text = _verdict(plan)
    screen.verdict(status, text)
    if plan.changes:
        screen.section("What changes")
        for change in plan.changes:
            why = change.why if screen.verbosity else change.why.split(";")[0]
            inside = plan.answer in ("install", "graft") and change.what in ("cuda", "rocm")
            aside = "; it comes inside the wheel, nothing to install" if inside else ""
            screen.bullet(f"{change.what}: {change.from_} → {change.to} ({why.rstrip('.')}{aside})")
    first = [note for note in plan.warnings if note.code in _STANDS_IN_THE_WAY]
    screen.bullets((note.text for note in first), status="warn", title="First, by hand: without it nothing below works")
    _commands(plan, screen)
    if plan.companions:
        companions_view(plan, screen)
    screen.section("Why")
    for reason in plan.because if screen.verbosity else plan.because[:_SHOWN_REASONS]:
        screen.bullet(reason.text)
        if screen.verbosity and reason.source:
            screen.paragraph(f"[{reason.source}]", indent=6)
    if plan.build is not None:
        _recipe(plan, screen)
    if plan.graft is not None:
        _graft(plan.graft, screen)
    _warnings("Know this", [note for note in plan.warnings if not note.handled and note not in first], "warn", screen)
    _warnings("Known problems that this build's settings avoid", [w for w in plan.warnings if w.handled], None, screen)
    rows = []
    for other in plan.alternatives:
        kit = f" CUDA {other.cuda}" if other.answer == "build" and other.cuda else ""
        rows.append((other.answer, f"{_name(other)}{kit}", other.why))
    screen.rows(rows, title="What else was considered")
    if assumed:
        screen.section("Assumed, since nothing else was said")
        screen.paragraph(", ".join(assumed))
    if not screen.verbosity:
        screen.line()
        screen.hint(_HINT)


def _name(torch: Plan | Alternative | CompanionChoice | TorchChoice) -> str:
    return f"torch {torch.torch}" + (f"+{torch.variant}" if torch.variant else "")


def _verdict(plan: Plan) -> tuple[str, str]:
    name = _name(plan)
    python = f" for Python {plan.python}" if plan.python else ""
    told = {warning.code for warning in plan.warnings}
    has_gpu = any(reason.code == "wheel-has-code" for reason in plan.because)
    if plan.answer == "none":
        if any(reason.code == "gpu-unsupported" for reason in plan.because):
            return "fail", "No torch of our tables can use this GPU"
        return "fail", "Nothing fits as asked" if plan.asked else "No torch runs on this machine as it is"
    if plan.answer == "build":
        kit = f" with CUDA {plan.cuda}" if plan.cuda else f" with ROCm {plan.rocm}" if plan.rocm else ""
        asked = ", as asked" if plan.as_asked and plan.asked else "" if plan.as_asked else ", with changes"
        grade = f" (evidence: {plan.evidence})" if plan.evidence else ""
        good = plan.as_asked and plan.evidence != "untried" and told.isdisjoint(_BUILD_DOUBTS)
        return ("ok" if good else "warn"), f"Build {name} from source{kit}{python}{asked}{grade}"
    if plan.graft is not None:
        asked = "" if plan.as_asked else "; not quite as asked" if plan.asked else ", with changes"
        minutes = f" in about {spoken_minutes(*plan.graft.minutes)}" if plan.graft.minutes else ""
        text = f"Graft {name}{python}: the official wheel gets code for {', '.join(plan.graft.archs)}{minutes}{asked}"
        return ("ok" if plan.as_asked and plan.evidence != "untried" else "warn"), f"{text} (evidence: {plan.evidence})"
    if "gpu-only-ptx" in told:
        return "warn", f"Install {name}{python}; cannot tell whether it runs on this card"
    if plan.as_asked and "cpu-not-seen" in told:
        return "warn", f"Install {name}{python}; cannot tell whether it starts on this CPU"
    if plan.as_asked and "cpu-seen-crashing" in told:
        return "warn", f"Install {name}{python}: it starts, but not all of it works on this CPU"
    if plan.as_asked:
        fits = "a published wheel with code for this GPU" if has_gpu else "a published wheel for this system"
        return "ok", f"Install {name}{python}: {fits}"
    if not plan.changes and not has_gpu and "gpu-unsupported" in told:
        return "warn", f"Install {name}{python}: it runs on the CPU, since nothing can use this GPU"
    if "gpu-not-served" in told:
        return "warn", f"Install {name}{python}: it serves a part of the cards"
    return "warn", f"Install {name}{python}{'; not quite as asked' if plan.asked else ', with changes'}"


def _commands(plan: Plan, screen: Screen) -> None:
    by_hand = "The way by hand (rekindle up does it for you)"
    # Lines for Windows are pasted there: ./rekindle is how this machine calls it.
    elsewhere = plan.os is not None and (plan.os.system == "windows") != (os.name == "nt")
    title = by_hand if plan.build or plan.graft else "Paste this"
    screen.commands(title, plan.commands, as_called=not elsewhere)
    if plan.commands and plan.build and plan.powershell:
        screen.paragraph("These lines are for cmd. In PowerShell:" if screen.verbosity else "(cmd; -v adds PowerShell)")
        for command in plan.powershell if screen.verbosity else ():
            screen.command(command)


def _recipe(plan: Plan, screen: Screen) -> None:
    recipe = plan.build
    assert recipe is not None
    screen.section("Toolchain")
    toolchain = recipe.toolchain.items()
    screen.rows([(name, text if screen.verbosity else text.split(": http")[0]) for name, text in toolchain])
    if recipe.cmake:
        settings = " ".join(f"{name}={value}" for name, value in recipe.cmake.items())
        screen.paragraph(f"CMake cache (setup.py does not pass these on; CMAKE_PROJECT_INCLUDE does): {settings}")
    if recipe.minutes:
        room = f"{recipe.disk_gib:g} GiB of disk, {recipe.memory_gib:g} GiB of memory"
        screen.line(f"  about {spoken_minutes(*recipe.minutes)}, {room}")
    if recipe.losses:
        screen.paragraph("Lost: " + "; ".join(recipe.losses) + ".")


def _graft(graft: GraftOutline, screen: Screen) -> None:
    screen.section("The graft")
    if graft.file:
        screen.bullet(f"made before, nothing is compiled: {graft.file}")
    elif graft.minutes:
        time = f"about {spoken_minutes(*graft.minutes)} on {graft.jobs} cores ({graft.cpu_minutes} CPU-minutes)"
        screen.bullet(f"{graft.units} units of {graft.wheel}, {time}, {graft.disk_gib:g} GiB of disk")
    if graft.toolkit:
        enough = "its compiler is enough (pip install nvidia-cuda-nvcc)"
        screen.bullet(f"nvcc of CUDA {graft.toolkit}: {f'in {graft.toolkit_here}' if graft.toolkit_here else enough}")
    screen.bullets([f"stays: {kept}" for kept in graft.keeps])
    screen.bullets([f"will not work: {loss}" for loss in graft.losses], status="warn")


def _warnings(title: str, warnings: Sequence[Reason], status: str | None, screen: Screen) -> None:
    if not warnings:
        return
    screen.section(title)
    for warning in warnings if screen.verbosity else warnings[:_SHOWN_WARNINGS]:
        screen.bullet(warning.text, status=status)
        if screen.verbosity and warning.source:
            screen.paragraph(f"[{warning.source}]", indent=6)
    if not screen.verbosity:
        screen.rest(len(warnings) - _SHOWN_WARNINGS)


def why_not_view(answer: WhyNot, screen: Screen) -> None:
    if answer.proposed:
        screen.verdict("ok", f"{answer.asked} is what the plan proposes")
    elif answer.way == "graft":
        screen.verdict("warn", f"{answer.asked} works as a graft: an official wheel that gets code for the card")
    elif answer.way == "build":
        screen.verdict("warn", f"{answer.asked} works only as a source build; no published wheel of it will do")
    elif answer.possible:
        screen.verdict("ok", f"{answer.asked} works; it was not asked for, and something else came first")
    else:
        screen.verdict("fail", f"{answer.asked} does not work here as it stands")
    if answer.instead:
        screen.paragraph(f"Proposed: {answer.instead}")
    for candidate in answer.considered:
        screen.section(f"{candidate.name} ({candidate.answer})")
        if not candidate.refusals:
            screen.bullet("nothing is in its way", status="ok")
        for refusal in candidate.refusals:
            mark = "warn" if refusal.change or not refusal.certain else "fail"
            screen.bullet(f"{refusal.rule} {refusal.reason}", status=mark)
            if refusal.remedy:
                screen.paragraph(f"→ {refusal.remedy}", indent=6)
            if screen.verbosity and refusal.source:
                screen.paragraph(f"[{refusal.source}]", indent=6)


_MARK = {"runs": "ok", "last": "ok", "build": "warn", "alternative": "warn", "none": "fail", "unknown": "skip"}
_WORDS = {
    "runs": "runs",
    "last": "last that runs",
    "build": "from source",
    "alternative": "another's build",
    "none": "does not run",
    "unknown": "not known",
}


def companions_view(plan: Plan, screen: Screen) -> None:
    screen.section(f"Beside torch {plan.torch}" if plan.torch else "Beside torch")
    for companion in plan.companions:
        _companion(companion, screen)
    commands = dict.fromkeys(line for companion in plan.companions for line in companion.commands)
    if commands:
        screen.line()
    for line in commands:
        screen.command(line)
    rows = []
    for choice in plan.choices:
        gives = ", ".join(choice.gives) or "nothing of it"
        rows.append((_name(choice), "taken" if choice.taken else "", gives, "; ".join(choice.costs)))
    screen.rows(rows, title="What each torch gives and costs")


def _companion(companion: Companion, screen: Screen) -> None:
    answer = companion.answer
    version = f" {companion.version}" if companion.version and answer != "alternative" else ""
    screen.bullet(f"{companion.name}{version}: {_WORDS[answer]}. {companion.why}", status=_MARK[answer])
    if companion.cost:
        screen.paragraph(f"Cost: {companion.cost}.", indent=6)
    for note in companion.notes:
        screen.paragraph(note, indent=6)
    if companion.instead:
        lead, state = ("From", "") if answer == "alternative" else ("Does the same work:", f": {companion.state}")
        screen.paragraph(f"{lead} {companion.instead}{state} ({companion.url})", indent=6)
    if companion.wants and answer != "runs":
        screen.paragraph(f"A torch {companion.wants} would serve it.", indent=6)
    if screen.verbosity and companion.source:
        screen.paragraph(f"[{companion.source}]", indent=6)


def show_choice(choice: TorchChoice, screen: Screen) -> None:
    if choice.answer == "none":
        screen.verdict("fail", "No torch runs on this machine")
    else:
        screen.verdict("ok", f"{choice.answer.capitalize()} {_name(choice)} for Python {choice.python}")
    for words in choice.pip:
        screen.command(paste_line(["pip", "install", *words]))
    screen.bullets(choice.why)
    screen.bullets(choice.beware, status="warn")


def show_ready(ready: TorchReady, screen: Screen) -> None:
    screen.verdict("ok" if ready.ready else "fail", ready.verdict)
    screen.facts([("python", ready.python), ("activate", ready.activate), ("constraints", ready.constraints)])
