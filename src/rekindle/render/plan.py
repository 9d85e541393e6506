"""A plan for people, on one screen: verdict, command to paste, why, what else there is."""

import os
from collections.abc import Sequence

from rekindle.model import plan as model
from rekindle.model.plan import Plan, Reason
from rekindle.model.spoken import spoken_minutes
from rekindle.render.screen import Screen, shown_as
from rekindle.scripts.quoting import paste_line

_SHOWN_REASONS = 5
_SHOWN_WARNINGS = 4
# What is said to be unsure of a build itself, not of the machine's size.
_BUILD_DOUBTS = ("rocm-math-gap", "rocm-pair-unproven", "cuda-pair-unproven")
# What no line to paste does, and without which they fail.
_STANDS_IN_THE_WAY = ("cudnn-by-hand",)
_HINT = "-v shows everything, with sources; --why-not torch=… tells why something is not proposed"


def plan_view(plan: Plan, screen: Screen, *, assumed: Sequence[str] = ()) -> None:
    """A plan on one screen; ``assumed`` is what nobody said of the machine."""
    screen.verdict(*_verdict(plan))
    changes = []
    for change in plan.changes:
        why = change.why if screen.verbosity else change.why.split(";")[0]
        inside = plan.answer in ("install", "graft") and change.what in ("cuda", "rocm")
        aside = "; it comes inside the wheel, nothing to install" if inside else ""
        changes.append(f"{change.what}: {change.from_} → {change.to} ({why.rstrip('.')}{aside})")
    screen.bullets(changes, title="What changes")
    first = [note for note in plan.warnings if note.code in _STANDS_IN_THE_WAY]
    screen.bullets((note.text for note in first), status="warn", title="First, by hand: without it nothing below works")
    _commands(plan, screen)
    if plan.companions:
        _companions(plan, screen)
    screen.section("Why")
    for reason in plan.because if screen.verbosity else plan.because[:_SHOWN_REASONS]:
        screen.bullet(reason.text, below=_source(reason, screen))
    if plan.build is not None:
        _recipe(plan, screen)
    if plan.graft is not None:
        _graft(plan.graft, screen)
    _warnings("Know this", [note for note in plan.warnings if not note.handled and note not in first], "warn", screen)
    _warnings("Known problems that this build's settings avoid", [w for w in plan.warnings if w.handled], None, screen)
    kits = [f" CUDA {each.cuda}" if each.answer == "build" and each.cuda else "" for each in plan.alternatives]
    others = zip(plan.alternatives, kits, strict=True)
    rows = ((other.answer, f"{_name(other)}{kit}", other.why) for other, kit in others)
    screen.rows(rows, title="What else was considered")
    if assumed:
        screen.section("Assumed, since nothing else was said")
        screen.paragraph(", ".join(assumed))
    if not screen.verbosity:
        screen.line()
        screen.hint(_HINT)


def _source(said: Reason | model.Refusal | model.Companion, screen: Screen) -> list[str]:
    """Where that is from, with -v."""
    return [f"[{said.source}]"] if screen.verbosity and said.source else []


def _name(torch: Plan | model.Alternative | model.CompanionChoice | model.TorchChoice) -> str:
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
        how = "; cannot tell whether it runs on this card"
    elif plan.as_asked and "cpu-not-seen" in told:
        how = "; cannot tell whether it starts on this CPU"
    elif plan.as_asked and "cpu-seen-crashing" in told:
        how = ": it starts, but not all of it works on this CPU"
    elif plan.as_asked:
        return (
            "ok",
            f"Install {name}{python}: a published wheel {'with code for this GPU' if has_gpu else 'for this system'}",
        )
    elif not plan.changes and not has_gpu and "gpu-unsupported" in told:
        how = ": it runs on the CPU, since nothing can use this GPU"
    elif "gpu-not-served" in told:
        how = ": it serves a part of the cards"
    else:
        how = "; not quite as asked" if plan.asked else ", with changes"
    return "warn", f"Install {name}{python}{how}"


def _commands(plan: Plan, screen: Screen) -> None:
    by_hand = "The way by hand (rekindle up does it for you)"
    # Lines for Windows are pasted there: ./rekindle is how this machine calls it.
    elsewhere = plan.os is not None and (plan.os.system == "windows") != (os.name == "nt")
    screen.commands(by_hand if plan.build or plan.graft else "Paste this", plan.commands, as_called=not elsewhere)
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


def _graft(graft: model.GraftOutline, screen: Screen) -> None:
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
    shown = warnings if screen.verbosity else warnings[:_SHOWN_WARNINGS]
    if shown:
        screen.section(title)
    for warning in shown:
        screen.bullet(warning.text, status=status, below=_source(warning, screen))
    screen.rest(len(warnings) - len(shown))


def _why_not_view(answer: model.WhyNot, screen: Screen) -> None:
    """How a value that is not proposed could be had, and what was found about each way."""
    status, words = shown_as("why-not", "proposed" if answer.proposed else answer.way)
    screen.verdict(status, f"{answer.asked} {words}")
    if answer.instead:
        screen.paragraph(f"Proposed: {answer.instead}")
    for candidate in answer.considered:
        screen.section(f"{candidate.name} ({candidate.answer})")
        if not candidate.refusals:
            screen.bullet("nothing is in its way", status="ok")
        for refusal in candidate.refusals:
            mark = "warn" if refusal.change or not refusal.certain else "fail"
            below = [f"→ {refusal.remedy}" if refusal.remedy else None, *_source(refusal, screen)]
            screen.bullet(f"{refusal.rule} {refusal.reason}", status=mark, below=below)


def _companions(plan: Plan, screen: Screen) -> None:
    screen.section(f"Beside torch {plan.torch}" if plan.torch else "Beside torch")
    for companion in plan.companions:
        answer, instead = companion.answer, companion.instead
        mark, words = shown_as("companion", answer)
        version = f" {companion.version}" if companion.version and answer != "alternative" else ""
        lead, state = ("From", "") if answer == "alternative" else ("Does the same work:", f": {companion.state}")
        below = [
            f"Cost: {companion.cost}." if companion.cost else None,
            *companion.notes,
            f"{lead} {instead}{state} ({companion.url})" if instead else None,
            f"A torch {companion.wants} would serve it." if companion.wants and answer != "runs" else None,
            *_source(companion, screen),
        ]
        screen.bullet(f"{companion.name}{version}: {words}. {companion.why}", status=mark, below=below)
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


def show_choice(choice: model.TorchChoice, screen: Screen) -> None:
    """The torch of ``rekindle.choose``: what to install, why, and what to know."""
    if choice.answer == "none":
        screen.verdict("fail", "No torch runs on this machine")
    else:
        screen.verdict("ok", f"{choice.answer.capitalize()} {_name(choice)} for Python {choice.python}")
    for words in choice.pip:
        screen.command(paste_line(["pip", "install", *words]))
    screen.bullets(choice.why)
    screen.bullets(choice.beware, status="warn")


def _show_ready(ready: model.TorchReady, screen: Screen) -> None:
    """What became of an environment, and how it is entered and kept."""
    screen.verdict("ok" if ready.ready else "fail", ready.verdict)
    screen.facts([("python", ready.python), ("activate", ready.activate), ("constraints", ready.constraints)])
