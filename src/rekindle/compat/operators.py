"""From a function that uses instructions a CPU lacks to the operator a user would call, by ``operators.toml``.

The table holds Python that is run in the package under test, so it is read from this installation alone: what a
user lays over the facts never reaches it.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

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
        """Does this call reach what the audit found?"""
        return any(re.search(one, name) for one in self.reaches for name in (evidence.function, *evidence.callers))


@dataclass(frozen=True, kw_only=True)
class Suspicion:
    """``call`` is None where the table has none for the function."""

    call: OperatorCall | None
    functions: tuple[str, ...] = ()
    isa: tuple[str, ...] = ()

    def trial(self) -> OperatorTrial:
        """As it stands before anybody tried."""
        if self.call is None:
            return OperatorTrial(
                operator=None,
                functions=self.functions,
                isa=self.isa,
                outcome="not-tried",
                detail="no known call reaches it",
            )
        return OperatorTrial(operator=self.call.operator, functions=self.functions, isa=self.isa, avoid=self.call.avoid)


def load_operators() -> tuple[OperatorCall, ...]:
    """The calls that are known to reach guarded code, from our table."""
    return read_beside(__file__, "operators.toml", dict[str, tuple[OperatorCall, ...]])["operator"]


def suspicions(evidence: Iterable[CodeEvidence], features: Iterable[str]) -> list[Suspicion]:
    """What an audit found and this CPU lacks, as operators; what no call is known for stands at the end."""
    have = frozenset(features)
    known: dict[str, list[CodeEvidence]] = {}
    unknown: dict[str, CodeEvidence] = {}
    for one in evidence:
        if set(missing(one.isa, have)) <= SILENT:
            continue
        rows = [row for row in load_operators() if row.covers(one)]
        for row in rows:
            known.setdefault(row.id, []).append(one)
        if not rows:
            unknown.setdefault(one.function, one)
    found = []
    for row in load_operators():
        if row.id in known:
            functions = dict.fromkeys(one.function for one in known[row.id])
            lacking = dict.fromkeys(isa for one in known[row.id] for isa in missing(one.isa, have))
            found.append(Suspicion(call=row, functions=tuple(functions), isa=tuple(lacking)))
    found += [
        Suspicion(call=None, functions=(name,), isa=tuple(missing(one.isa, have))) for name, one in unknown.items()
    ]
    return found


def usual_suspects(package: str, arch: str, features: Iterable[str]) -> list[Suspicion]:
    """Without an audit: the operators of the table that a CPU with these features may crash in."""
    have = frozenset(features)
    return [
        Suspicion(call=row, isa=tuple(missing(row.isa, have)))
        for row in load_operators()
        if row.package == package and row.arch == arch and missing(row.isa, have)
    ]


def say(trials: Sequence[OperatorTrial]) -> str:
    """The one sentence of both reports; empty where there is nothing to say. Only what was tried is said to run."""
    named = {
        "crashes": "these operators crash",
        "suspected": "these operators should crash",
        "no-answer": "these operators give no answer",
        "refuses": "these operators refuse with an error",
    }
    parts = []
    for outcome, words in named.items():
        if names := [trial.operator for trial in trials if trial.outcome == outcome and trial.operator]:
            parts.append(f"{words}: {_list(names)}")
    if names := [trial.operator for trial in trials if trial.outcome == "runs" and trial.operator]:
        parts.append(f"looked unguarded, tried, and run: {_list(names)}")
    untried = [trial for trial in trials if trial.outcome == "not-tried"]
    if names := [name for trial in untried for name in ([trial.operator] if trial.operator else trial.functions)]:
        parts.append(f"not tried, no known call reaches it: {_list(names)}")
    tried = any(trial.outcome not in ("suspected", "not-tried") for trial in trials)
    return ("runs; " if tried else "should run; ") + "; ".join(parts) if parts else ""


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more
