"""From a function that uses instructions a CPU lacks to the operator a user would call, by ``operators.toml``.

The table holds Python that is run in the package under test, so it is read from this installation alone: what a
user lays over the facts never reaches it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from rekindle.compat.processor import missing
from rekindle.model.facts import Row
from rekindle.model.toml import read_beside
from rekindle.model.wheel import CodeEvidence, OperatorTrial

MOST_NAMED = 6
# These give wrong numbers on a CPU without them; they do not crash.
SILENT = frozenset({"lzcnt", "tzcnt"})


class OperatorCall(Row, frozen=True, kw_only=True):
    """A call that reaches functions of which the name, or that of a caller, matches one of ``reaches``.

    ``isa`` is what those functions were seen to use; a CPU that lacks any of it is worth a trial also where nobody
    has read the library.
    """

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


@dataclass(frozen=True, kw_only=True)
class Suspicion:
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
