"""CPU features against code, with three answers: it starts; it starts but named operators crash; it does not start.
From instruction sets to CPUs: which levels and which oldest microarchitectures have them. And from a function that uses
instructions a CPU lacks to the operator a user would call. ``FEATURES`` translates our names of instruction sets into
those of /proc/cpuinfo and archspec. ``operators.toml`` holds Python that is run in the package under test, so only this
installation's is read, never an overlay of the facts."""

import functools
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from rekindle.compat.answer import CompatAnswer
from rekindle.compat.cpu_names import microarchitecture
from rekindle.facts import Facts
from rekindle.facts.cpus import archspec_microarchitectures
from rekindle.facts.tables import read_own
from rekindle.model.facts import Row
from rekindle.model.machine import Cpu, CpuRun
from rekindle.model.toml import read_beside
from rekindle.model.version import compare, key, matches
from rekindle.model.wheel import CodeEvidence, IsaUse, OperatorTrial

FEATURES = read_own(__file__, "features.toml", dict[str, tuple[str, ...]])
# What torch and its libraries ask the CPU for when they choose kernels.
CHOOSING = ("sse3", "ssse3", "sse4.1", "sse4.2", "popcnt", "avx", "f16c", "avx2", "fma", "bmi2", "avx512")
_LEVELS = ("x86_64", "x86_64_v2", "x86_64_v3", "x86_64_v4")
_VENDORS = ("GenuineIntel", "AuthenticAMD", "ARM", "Cavium", "Fujitsu", "Ampere")
MOST_NAMED = 6
# These give wrong numbers on a CPU without them; they do not crash.
SILENT = frozenset({"lzcnt", "tzcnt"})


def missing(isa: Iterable[str], features: Iterable[str]) -> list[str]:
    """Instruction sets that a CPU with these features lacks; a name we cannot translate is not judged."""
    have = set(features)
    return [name for name in isa if name in FEATURES and not have.intersection(FEATURES[name])]


def features_of(cpu: Cpu, facts: Facts) -> frozenset[str] | None:
    """What a CPU can do: as it says, else as its microarchitecture is known; None if nobody knows."""
    if cpu.features:
        return frozenset(cpu.features)
    row = microarchitecture(cpu.microarchitecture, facts)
    return frozenset(row.features) if row is not None and row.features else None


def code_starts(
    required: Sequence[str], corners: Sequence[IsaUse], features: Iterable[str] | None, who: str = "the CPU"
) -> CompatAnswer:
    """Code that was read: ``required`` is met by everybody, ``corners`` only by who calls those functions."""
    if features is None:
        return CompatAnswer("unknown", "cpu-not-told", f"what {who} can do is not known")
    have = frozenset(features)
    if lacking := missing(required, have):
        text = f"{who} lacks {', '.join(lacking)}, which the code uses without asking"
        return CompatAnswer("no", "cpu-isa", text, want=", ".join(lacking))
    if hit := [corner for corner in corners if missing([corner.isa], have)]:
        names = list(dict.fromkeys(name for corner in hit for name in corner.examples))
        sets = ", ".join(dict.fromkeys(corner.isa for corner in hit))
        text = f"{who} lacks {sets}: the wheel starts, but {', '.join(names[:4]) or 'some functions'} would crash"
        return CompatAnswer("partly", "cpu-corner", text, want=sets)
    return CompatAnswer("yes", "cpu-isa", f"{who} has all that is used without asking")


@functools.lru_cache(maxsize=1024)
def wheel_starts(torch: str, features: Iterable[str] | None, facts: Facts, arch: str | None = "x86_64") -> CompatAnswer:
    """A published wheel by what was seen of it: reported breakages first, then runs on emulated CPUs."""
    if features is None:
        return CompatAnswer("unknown", "cpu-not-told", "what the CPU can do is not known")
    have = frozenset(features)
    for row in facts.hazards.hazard:
        is_met = row.concerns != "build" and row.effect == "breaks" and not have.issuperset(row.cpu_lacks)
        if is_met and (not row.arch or arch in row.arch) and (row.torch is None or matches(torch, row.torch)):
            return CompatAnswer("no", row.id, row.text, row.source[0], row.remedy)
    if arch != "x86_64":
        return CompatAnswer("unknown", "cpu-not-seen", "nobody is known to have tried it on a CPU like this")
    kinds = choosing(have)
    equal_or_less = [row for row in facts.cpu.run if _cpu_kinds(row.cpu, facts) <= kinds]
    equal_or_more = [row for row in facts.cpu.run if _cpu_kinds(row.cpu, facts) >= kinds]
    crashing = [row for row in equal_or_more if row.result == "partly"]
    # A CPU that can do the same says more than one that can do more.
    crash = _nearest_run([row for row in crashing if row in equal_or_less], torch) or _nearest_run(crashing, torch)
    if crash is not None and not any(row.torch == torch and row.result == "passes" for row in equal_or_less):
        more = "" if crash in equal_or_less else ", which can do more"
        text = f"{crash.detail} (torch {crash.torch} on an emulated {crash.cpu}{more})"
        if _nearest_run(equal_or_less, torch) is None:
            # A CPU that can do less crashes there too; that it gets so far was not seen.
            text = f"whether it starts is not known, and where it does, {text}"
            return CompatAnswer("unknown", "cpu-not-seen", text, crash.source[0])
        return CompatAnswer("partly", "cpu-seen-crashing", f"starts, but {text}", crash.source[0])
    if (good := _nearest_run([row for row in equal_or_less if row.result == "passes"], torch)) is not None:
        text = f"seen running on an emulated {good.cpu}, which can do no more: torch {good.torch}"
        return CompatAnswer("yes", "cpu-seen-running", text, good.source[0])
    return CompatAnswer("unknown", "cpu-not-seen", "nobody is known to have tried it on a CPU like this")


@functools.lru_cache(maxsize=256)
def _cpu_kinds(name: str, facts: Facts) -> frozenset[str]:
    return choosing(frozenset(facts.cpu.microarchitecture[name].features))


def choosing(features: Iterable[str]) -> frozenset[str]:
    """The instruction sets of a CPU by which kernels are chosen; two CPUs equal in these behave alike."""
    return frozenset(CHOOSING) - frozenset(missing(CHOOSING, features))


def _nearest_run(rows: Sequence[CpuRun], torch: str) -> CpuRun | None:
    """The row of this release; else the newest older row, if there is a newer row too, so that it lies between."""
    older = [row for row in rows if compare(row.torch, torch) <= 0]
    newer = [row for row in rows if compare(row.torch, torch) >= 0]
    return max(older, key=lambda row: key(row.torch)) if older and newer else None


def oldest(isa: Iterable[str], machine: str) -> tuple[str, ...]:
    """Per vendor, the plainest microarchitecture that has all of these instruction sets. Of those that archspec knows:
    each of them is followed by newer ones that have all it has. The small cores that we add are lines of their own."""
    needed = list(isa)
    family = [(name, row) for name, row in archspec_microarchitectures().items() if row.family == machine]
    fitting = [(name, row) for name, row in family if not missing(needed, row.features)]
    of_vendors = ([(len(row.features), name) for name, row in fitting if row.vendor == who] for who in _VENDORS)
    return tuple(min(rows)[1] for rows in of_vendors if rows)


def runs_from(isa: Iterable[str], machine: str) -> str | None:
    """The lowest x86-64 level with all of it; a microarchitecture's name where a level would ask too much."""
    needed = list(isa)
    if machine == "aarch64":
        return "armv8-a" + "".join(f"+{name}" for name in sorted(needed))
    if machine != "x86_64":
        return None
    table = archspec_microarchitectures()
    intel = _oldest_intel(needed)
    level = next((name for name in _LEVELS if not missing(needed, table[name].features)), None)
    if level is not None:
        have = set(table[level].features)
        of_level = [name for name, features in FEATURES.items() if have.intersection(features)]
        if intel is None or level == "x86_64" or intel == _oldest_intel(of_level):
            return level.replace("_v", "-v").replace("x86_64", "x86-64")
    return intel


def _oldest_intel(isa: Iterable[str]) -> str | None:
    names = oldest(isa, "x86_64")
    return next((name for name in names if archspec_microarchitectures()[name].vendor == "GenuineIntel"), None)


def beyond(isa: Iterable[str], level: str | None, machine: str) -> frozenset[str]:
    """What a CPU of this level need not have."""
    needed = set(isa)
    if machine == "aarch64" or level is None:
        return frozenset(needed - set((level or "").split("+")))
    row = archspec_microarchitectures()[level.replace("x86-64", "x86_64").replace("-v", "_v")]
    return frozenset(missing(needed, row.features))


class OperatorCall(Row, frozen=True, kw_only=True):
    """A call that reaches functions of which the name, or that of a caller, matches one of ``reaches``. ``isa`` is what
    those were seen to use; a CPU that lacks any of it is worth a trial even where no library was read."""

    id: str
    operator: str
    package: str = "torch"
    reaches: tuple[str, ...]
    arch: str
    isa: tuple[str, ...]
    call: str
    avoid: str | None = None

    def covers(self, evidence: CodeEvidence) -> bool:
        """Does this call reach the code that the audit names?"""
        names = (evidence.function, *evidence.callers)
        return any(re.search(pattern, name) for pattern in self.reaches for name in names)


class Suspicion(NamedTuple):
    """``call`` is None where the table has none for the function."""

    call: OperatorCall | None
    functions: tuple[str, ...] = ()
    isa: tuple[str, ...] = ()

    def trial(self) -> OperatorTrial:
        """As it stands before anybody tried."""
        trial = OperatorTrial(operator=None, functions=self.functions, isa=self.isa)
        if self.call is None:
            return replace(trial, outcome="not-tried", detail="no known call reaches it")
        return replace(trial, operator=self.call.operator, avoid=self.call.avoid)


def load_operators() -> tuple[OperatorCall, ...]:
    """The calls that are known to reach guarded code, from our table."""
    return read_beside(__file__, "operators.toml", dict[str, tuple[OperatorCall, ...]])["operator"]


def suspicions(evidence: Iterable[CodeEvidence], features: Iterable[str]) -> list[Suspicion]:
    """Code with instructions that this CPU lacks, as operators; code that no known call reaches stands at the end."""
    have = frozenset(features)
    reached: dict[str, list[CodeEvidence]] = {}
    unreached: dict[str, CodeEvidence] = {}
    for code in evidence:
        if set(missing(code.isa, have)) <= SILENT:
            continue
        rows = [row for row in load_operators() if row.covers(code)]
        for row in rows:
            reached.setdefault(row.id, []).append(code)
        if not rows:
            unreached.setdefault(code.function, code)
    suspects = []
    for row in (row for row in load_operators() if row.id in reached):
        functions = dict.fromkeys(code.function for code in reached[row.id])
        lacking = dict.fromkeys(isa for code in reached[row.id] for isa in missing(code.isa, have))
        suspects.append(Suspicion(call=row, functions=tuple(functions), isa=tuple(lacking)))
    for name, code in unreached.items():
        suspects.append(Suspicion(call=None, functions=(name,), isa=tuple(missing(code.isa, have))))
    return suspects


def usual_suspects(package: str, arch: str, features: Iterable[str]) -> list[Suspicion]:
    """Without an audit: the operators of the table that a CPU with these features may crash in."""
    have = frozenset(features)
    rows = [row for row in load_operators() if (row.package, row.arch) == (package, arch)]
    return [Suspicion(call=row, isa=tuple(lacks)) for row in rows if (lacks := missing(row.isa, have))]


def describe_trials(trials: Sequence[OperatorTrial]) -> str:
    """The sentence of both reports; empty where there is nothing to say. Only what was tried is reported to run."""
    named = {
        "crashes": "these operators crash",
        "suspected": "these operators should crash",
        "no-answer": "these operators give no answer",
        "refuses": "these operators refuse with an error",
        "runs": "looked unguarded, tried, and run",
    }
    parts = []
    for outcome, words in named.items():
        if names := [trial.operator for trial in trials if trial.outcome == outcome and trial.operator]:
            parts.append(f"{words}: {_list_names(names)}")
    untried = [trial for trial in trials if trial.outcome == "not-tried"]
    if names := [name for trial in untried for name in ([trial.operator] if trial.operator else trial.functions)]:
        parts.append(f"not tried, no known call reaches it: {_list_names(names)}")
    tried = any(trial.outcome not in ("suspected", "not-tried") for trial in trials)
    return ("runs; " if tried else "should run; ") + "; ".join(parts) if parts else ""


def _list_names(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
