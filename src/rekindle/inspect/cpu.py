"""The CPU axis of a whole wheel: every library's audit added up, with the functions as evidence."""

from __future__ import annotations

import functools
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

from rekindle.formats.elf import Elf
from rekindle.formats.pe import Pe
from rekindle.inspect.cpu_survey import CpuSurvey
from rekindle.inspect.cpus import oldest, runs_from
from rekindle.inspect.cross import follow_calls
from rekindle.inspect.guards import load_guards
from rekindle.inspect.names import readable
from rekindle.model.wheel import Evidence, GuardUse, IsaUse, WheelCpu

# For each combination of instruction sets: one that many functions use must not hide the others.
MOST_EVIDENCE = 40
_JIT = "code that a library writes at run time (oneDNN, FBGEMM, XNNPACK) is not in the file and not judged"
_NAMELESS = (
    "without symbols, what is reached only through pointers counts as chosen at run time if its library asks the CPU"
)
_TZCNT = "tzcnt is not counted: compilers write it for any CPU, as rep bsf, where the operand is not zero"


def survey_cpu(binary: Elf | Pe, file: str, step: Callable[[int, int], None]) -> CpuSurvey | None:
    """None where the machine is none we can read."""
    from rekindle.inspect.isa_exposure import classify
    from rekindle.inspect.isa_scan import can_scan, scan_code

    if not can_scan(binary):
        return None
    guards = load_guards()
    watch = functools.cache(lambda name: guards.check_variable.search(name) is not None)
    library = scan_code(binary, watch, step)
    return CpuSurvey(file, binary.machine, classify(library, guards))


def join_cpu(surveys: Sequence[CpuSurvey], machines: Sequence[str]) -> WheelCpu:
    machine = machines[0] if len(machines) == 1 else None
    if not surveys:
        return WheelCpu(arch=machine)
    follow_calls(surveys)
    lists: dict[str, list[Evidence]] = defaultdict(list)
    needed: set[str] = set()
    for survey in surveys:
        for kind in ("unconditional", "suspects", "silent"):
            for exposed in getattr(survey.exposure, kind):
                lists[kind].append(
                    Evidence(
                        function=readable(exposed.name),
                        file=survey.file + (f" ({exposed.file})" if exposed.file else ""),
                        isa=exposed.isa,
                        why=_why(exposed.why, exposed.chain),
                        address=f"{exposed.address:#x}",
                        callers=tuple(map(readable, exposed.chain[:4])),
                    )
                )
                # A library with its own dispatch that is entered unguarded in one place crashes there, and only
                # there: seen in torch 1.13 to 2.15, which run on CPUs without AVX all the same.
                if kind == "unconditional" and exposed.guard is None:
                    needed.update(exposed.isa)
    dispatched: Counter[str] = Counter()
    guards: Counter[str] = Counter()
    for survey in surveys:
        dispatched.update(survey.exposure.dispatched)
        guards.update(survey.exposure.guards)
    notes = [_JIT, _TZCNT] if machine != "aarch64" else [_JIT]
    if any(not survey.exposure.named for survey in surveys):
        notes.append(_NAMELESS)
    return WheelCpu(
        arch=machine,
        unconditional=_uses(lists["unconditional"]),
        dispatched=tuple(IsaUse(isa=isa, functions=count) for isa, count in dispatched.most_common() if count > 0),
        suspects=_uses(lists["suspects"]),
        silent=_uses(lists["silent"]),
        guards=tuple(GuardUse(guard=title, functions=count) for title, count in guards.most_common() if count > 0),
        evidence=_shared_out(_distinct(lists["unconditional"] + lists["suspects"] + lists["silent"])),
        required=tuple(sorted(needed)),
        runs_from=runs_from(needed, machine) if machine else None,
        oldest=oldest(needed, machine) if machine else (),
        functions=sum(survey.exposure.functions for survey in surveys),
        notes=tuple(notes),
    )


def _distinct(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    """One row per function and instruction sets: templates share a name."""
    return tuple({(one.function, one.isa, one.file): one for one in reversed(evidence)}.values())[::-1]


def _shared_out(evidence: Sequence[Evidence]) -> tuple[Evidence, ...]:
    count: Counter[tuple[str, ...]] = Counter()
    kept = []
    for one in evidence:
        count[one.isa] += 1
        if count[one.isa] <= MOST_EVIDENCE:
            kept.append(one)
    return tuple(kept)


def _why(reason: str, chain: Sequence[str]) -> str:
    for name in chain:
        reason = reason.replace(name, readable(name))
    return reason


def _uses(evidence: Sequence[Evidence]) -> tuple[IsaUse, ...]:
    by_isa: dict[str, list[str]] = defaultdict(list)
    for one in evidence:
        for isa in one.isa:
            by_isa[isa].append(one.function)
    return tuple(
        IsaUse(isa=isa, functions=len(names), examples=tuple(dict.fromkeys(names))[:5])
        for isa, names in sorted(by_isa.items(), key=lambda item: -len(item[1]))
    )
