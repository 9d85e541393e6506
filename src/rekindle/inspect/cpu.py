"""The CPU axis of a whole wheel: every library's audit added up, with the functions as evidence."""

from __future__ import annotations

import functools
import posixpath
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rekindle.formats.elf import Elf
from rekindle.formats.pe import Pe
from rekindle.model.toml import read_beside
from rekindle.model.wheel import CodeEvidence, GuardUse, IsaUse, WheelCpu

if TYPE_CHECKING:
    from rekindle.inspect.isa_exposure import Exposure, ForeignCall, Offer

# For each combination of instruction sets: a frequent combination must not hide the others.
MOST_EVIDENCE = 40
# The guard of what one part of a wheel needs, and how much of the functions such a part may have.
ONE_PART = "a part of the wheel that one library alone uses"
MOST_OF_A_PART = 0.25
# C++'s own library, of which every library brings pieces.
_STANDARD = ("_ZSt", "_ZNSt", "_ZNKSt", "_ZTI", "_ZTS", "_ZTV")
_ITANIUM = re.compile(r"_Z(N?)K?(St)?(.*)", re.DOTALL)
_PIECE = re.compile(r"L?(\d+)")
# ?FindMinMax@fbgemm@@YAX…: innermost name first; ??0 is a constructor; ?$Name@… a template, of which the name is kept.
_MICROSOFT = re.compile(r"\?(\?0)?(\w+(?:@\w+)*)(?:@@|@\?\$(\w+)@)")
_SUFFIX = re.compile(r"(?:\.(?:isra|constprop|part|cold|lto_priv|localalias|resolver)(?:\.\d+)?)+$")
_COPY = re.compile(
    r"(?i)[_-](?:avx(?:2|512\w*?)?|sse[234]\w*?|fma|aes_?ni|p?clmul(?:qdq)?|sha_?ni|bmi2|haswell|skylake\w*?|x86_64_v[234])(?=[._-])"
)


@dataclass
class CpuSurvey:
    """One library's audit, without the bytes it came from; ``imports`` are the names it takes from other libraries,
    ``exports`` those it has for them, filled only where it needs more than every CPU has."""

    file: str
    machine: str
    exposure: Exposure
    soname: str | None = None
    needed: tuple[str, ...] = ()
    imports: frozenset[str] = frozenset()
    exports: frozenset[str] = frozenset()


def survey_cpu(binary: Elf | Pe, file: str, step: Callable[[int, int], None]) -> CpuSurvey | None:
    """None where the machine is none we can read."""
    import numpy as np

    from rekindle.inspect.guards import load_guards
    from rekindle.inspect.isa_exposure import classify
    from rekindle.inspect.isa_scan import can_scan, scan_code

    if not can_scan(binary):
        return None
    guards = load_guards()
    watch = functools.cache(lambda name: guards.check_variable.search(name) is not None)
    library = scan_code(binary, watch, step, guards.marks_copies)
    exposure = classify(library, guards)
    if not isinstance(binary, Elf):
        return CpuSurvey(file, binary.machine, exposure)
    imports = frozenset(library.references.imports.values())
    exported = np.flatnonzero(library.functions.exported).tolist() if exposure.unconditional else ()
    exports = frozenset(name for name in map(library.functions.name, exported) if not name.startswith(_STANDARD))
    return CpuSurvey(file, binary.machine, exposure, binary.soname, binary.needed, imports, exports)


def join_cpu(surveys: Sequence[CpuSurvey], machines: Sequence[str]) -> WheelCpu:
    """What the libraries of a wheel need together; ``machines`` of all of them: with several no level fits."""
    machine = machines[0] if len(machines) == 1 else None
    if not surveys:
        return WheelCpu(arch=machine)
    from rekindle.compat.processor import beyond, oldest, runs_from

    follow_calls(surveys)
    _set_aside_copies(surveys)
    _set_aside_uncalled(surveys)
    _set_aside_parts(surveys)
    lists = {kind: [*_evidence(surveys, kind)] for kind in ("unconditional", "untold", "suspects", "silent")}
    # A library with its own dispatch that is entered unguarded in one place crashes there, and only there: seen in
    # torch 1.13 to 2.15, which run on CPUs without AVX all the same. So what has a guard is not needed.
    met = [code for survey in surveys for code in survey.exposure.unconditional if code.guard is None]
    early = {isa for code in met if code.at_load for isa in code.isa}
    untold = {isa for row in lists["untold"] for isa in row.isa}
    # SSE3 alone leaves out no more than the first 64-bit CPUs of 2003: a doubt about it is taken for a need.
    needed = {isa for code in met for isa in code.isa} | untold & {"sse3"}
    level = runs_from(needed, machine) if machine else None
    doubt = beyond(untold, level, machine) if machine else frozenset()
    doubtful = [row for row in lists["untold"] if doubt.intersection(row.isa)]
    nameless = any(not survey.exposure.named for survey in surveys)
    notes = {"jit": True, "tzcnt": machine != "aarch64", "nameless": nameless, "untold": bool(doubt)}
    texts = read_beside(__file__, "guards.toml", dict[str, Any])["notes"]
    dispatched = sum((survey.exposure.dispatched for survey in surveys), Counter[str]())
    guards = sum((survey.exposure.guards for survey in surveys), Counter[str]())
    return WheelCpu(
        arch=machine,
        unconditional=_count_uses(lists["unconditional"]),
        dispatched=tuple(IsaUse(isa=isa, functions=count) for isa, count in dispatched.most_common() if count > 0),
        suspects=_count_uses(lists["suspects"]),
        silent=_count_uses(lists["silent"]),
        untold=tuple(use for use in _count_uses(lists["untold"]) if use.isa in doubt),
        guards=tuple(GuardUse(guard=title, functions=count) for title, count in guards.most_common() if count > 0),
        evidence=_limit_evidence([*lists["unconditional"], *doubtful, *lists["suspects"], *lists["silent"]]),
        required=tuple(sorted(needed)),
        runs_from=None if doubt else level,
        at_least=level,
        oldest=oldest(needed, machine) if machine else (),
        functions=sum(survey.exposure.functions for survey in surveys),
        notes=tuple(texts[name] for name, holds in notes.items() if holds),
        at_load=tuple(sorted(early)),
    )


def _evidence(surveys: Sequence[CpuSurvey], kind: str) -> Iterator[CodeEvidence]:
    """The functions of one kind, as a person reads them."""
    for survey in surveys:
        for row in getattr(survey.exposure, kind):
            why, callers = row.why, tuple(map(readable, row.chain[:4]))
            for name in row.chain:
                why = why.replace(name, readable(name))
            file, at = survey.file + (f" ({row.file})" if row.file else ""), f"{row.address:#x}"
            name = readable(row.name)
            yield CodeEvidence(function=name, file=file, isa=row.isa, why=why, address=at, callers=callers)


def _set_aside_copies(surveys: Sequence[CpuSurvey]) -> None:
    """``fuzz_cpp_avx2.so`` beside ``fuzz_cpp.so``, ``_raw_aesni.so`` beside ``_cpuid_c.so``: a whole library that is
    loaded by name on CPUs that have it. Where nothing else in the wheel asks, who loads it cannot be told."""
    named = [(posixpath.basename(survey.file), survey.exposure) for survey in surveys]
    names = {base for base, _ in named}
    has_asker = any(exposure.asks for base, exposure in named if not _COPY.search(base))
    for base, exposure in named:
        if (match := _COPY.search(base)) is None:
            continue
        if has_asker or base[: match.start()] + base[match.end() :] in names:
            _set_aside(exposure, "a copy of a library for newer CPUs, chosen by name")
        else:
            exposure.untold += exposure.unconditional
            exposure.unconditional = []


def _set_aside_uncalled(surveys: Sequence[CpuSurvey]) -> None:
    """A library that another library of the wheel needs is entered through the functions that the other imports. What
    only further exported functions lead to is not called in this wheel (libsodium's AES, beside pyzmq)."""
    for survey in surveys:
        if users := [other for other in surveys if survey.soname and survey.soname in other.needed]:
            imported = frozenset[str]().union(*(user.imports for user in users))
            _set_aside(survey.exposure, "exported, but nothing in the wheel calls it", imported)


def _set_aside(exposure: Exposure, guard: str, called: frozenset[str] | None = None) -> None:
    """What is entered by none of the ``called`` functions alone (None: nothing is entered) counts as dispatched."""
    for kind in ("unconditional", "untold"):
        kept = []
        for row in getattr(exposure, kind):
            if called is not None and (row.entries is None or row.entries & called):
                kept.append(row)
            else:
                exposure.dispatched.update(row.isa)
                exposure.guards[guard] += 1
        setattr(exposure, kind, kept)


def _set_aside_parts(surveys: Sequence[CpuSurvey]) -> None:
    """A small library that only one other library calls is a part of the wheel that not everybody uses: only its users
    need what it needs (OR-Tools runs on a CPU without popcnt, except for the HiGHS solver)."""
    most = MOST_OF_A_PART * sum(survey.exposure.functions for survey in surveys)
    for survey in surveys:
        exposure = survey.exposure
        users = [other for other in surveys if other is not survey and not survey.exports.isdisjoint(other.imports)]
        at_load = any(exposed.at_load for exposed in exposure.unconditional)
        if len(users) == 1 and exposure.functions < most and not at_load:
            exposure.unconditional = [replace(row, guard=row.guard or ONE_PART) for row in exposure.unconditional]
            exposure.suspects += exposure.untold
            exposure.untold = []


def _limit_evidence(evidence: Sequence[CodeEvidence]) -> tuple[CodeEvidence, ...]:
    """One row per function and instruction sets (templates share a name), and not too many of one combination."""
    count: Counter[tuple[str, ...]] = Counter()
    rows = []
    for row in reversed({(row.function, row.isa, row.file): row for row in reversed(evidence)}.values()):
        count[row.isa] += 1
        if count[row.isa] <= MOST_EVIDENCE:
            rows.append(row)
    return tuple(rows)


def _count_uses(evidence: Sequence[CodeEvidence]) -> tuple[IsaUse, ...]:
    by_isa: dict[str, list[str]] = defaultdict(list)
    for row in evidence:
        for isa in row.isa:
            by_isa[isa].append(row.function)
    return tuple(
        IsaUse(isa=isa, functions=len(names), examples=tuple(dict.fromkeys(names))[:5])
        for isa, names in sorted(by_isa.items(), key=lambda item: -len(item[1]))
    )


def follow_calls(surveys: Sequence[CpuSurvey]) -> None:
    """Move functions that another library reaches from *dispatched* to where they belong. ``fbgemm.dll`` offers
    ``FindMinMax`` with AVX2 inside and leaves the asking to its callers, which are in ``torch_cpu.dll``. Each library's
    audit keeps its end of such calls; here they meet."""
    foreign_calls: dict[str, list[tuple[str, ForeignCall]]] = {}
    for survey in surveys:
        for call in survey.exposure.foreign_calls:
            foreign_calls.setdefault(call.symbol, []).append((survey.file, call))
    for survey in surveys:
        best: dict[int, tuple[Offer, str, ForeignCall]] = {}
        for offer in survey.exposure.offers:
            for file, call in foreign_calls.get(offer.symbol, ()):
                # A function in between is where the library would ask; without symbols that is not seen.
                if offer.exposed.chain and not call.certain:
                    continue
                best_yet = best.get(offer.exposed.number)
                if file != survey.file and (best_yet is None or (call.certain and not best_yet[2].certain)):
                    best[offer.exposed.number] = (offer, file, call)
        for offer, file, call in best.values():
            exposure, exposed = survey.exposure, offer.exposed
            exposure.dispatched.subtract(exposed.isa)
            if exposed.guard:
                exposure.guards[exposed.guard] -= 1
            untold = "; whether the CPU is asked on the way there cannot be told"
            rest = ", which asks nothing of the CPU" if call.certain else untold
            why = f"called by {call.chain[0]} in {posixpath.basename(file)}{rest}"
            reached = replace(exposed, chain=(*exposed.chain, *call.chain), why=why)
            certain = call.certain and not offer.named and not exposed.chain
            (exposure.unconditional if certain else exposure.suspects).append(reached)


def readable(symbol: str) -> str:
    """``_ZN6fbgemm10FindMinMaxEPKfPfS2_l`` → ``fbgemm::FindMinMax``; what is not understood stays as it is."""
    if microsoft := _MICROSOFT.match(symbol):
        names = [microsoft[3] + "<…>"] if microsoft[3] else []
        names += reversed(microsoft[2].split("@"))
        return "::".join([*names, names[-1]] if microsoft[1] else names)
    if (match := _ITANIUM.match(_SUFFIX.sub("", symbol))) is None:
        return symbol
    pieces, tail = ["std"] if match[2] else [], match[3]
    while piece := _PIECE.match(tail):
        size = int(piece[1])
        name, tail = tail[piece.end() : piece.end() + size], tail[piece.end() + size :]
        if len(name) < size:
            return symbol
        pieces.append("(anonymous)" if name.startswith("_GLOBAL__N") else name)
        if not match[1]:
            break
    if not pieces:
        return symbol
    if tail[:2] in ("C1", "C2", "D0", "D1", "D2"):
        pieces.append(("~" if tail[0] == "D" else "") + pieces[-1])
    return "::".join(pieces) + ("<…>" if tail.startswith("I") else "")
