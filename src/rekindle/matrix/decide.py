"""Shall this cell be built now? The answer, always with its reason, from its state alone.

Failures are remembered with their class, and the class decides about another try: what was lost is tried again,
what ran out of memory is tried again with fewer jobs, what does not compile is left alone until something changes.
"""

from __future__ import annotations

from typing import NamedTuple

from rekindle.model.matrix import Cell, CellState, FailureClass

# How often a cell may fail in one class before it is left alone. 0: not again by itself.
_ONCE: tuple[FailureClass, ...] = ("disk", "setup", "compile", "proof", "bug")
TRIES: dict[FailureClass, int] = {"lost": 6, "memory": 3, "hang": 2, "network": 3, **dict.fromkeys(_ONCE, 1)}
_WORDS: dict[FailureClass, str] = {
    "lost": "its worker was lost",
    "memory": "it ran out of memory",
    "hang": "it hung",
    "network": "the network failed",
    "disk": "the disk was full",
    "setup": "it could not be prepared",
    "compile": "it does not compile",
    "proof": "it was built but failed its proof",
    "bug": "rekindle itself failed",
}
# A new `matrix run` tries these again: what was in the way may be gone. The others need a change (a new cell id).
_WORLDLY: frozenset[FailureClass] = frozenset(("lost", "memory", "hang", "network", "disk", "setup", "bug"))


class Decision(NamedTuple):
    """``jobs_divisor`` is by how much the number of parallel jobs is to be cut."""

    build: bool
    because: str
    jobs_divisor: int = 1


def decide(cell: Cell, state: CellState, *, wheel_there: bool, fresh_run: bool, force: bool = False) -> Decision:
    """``fresh_run``: this is the first look of a new ``matrix run``, so worldly failures get another chance."""
    if force:
        return Decision(True, "asked for again")
    if state.stage == "cancelled":
        return Decision(fresh_run, "it was cancelled" + ("" if fresh_run else "; the next run builds it"))
    if state.stage in ("built", "proven"):
        if cell.target is None and not wheel_there:
            return Decision(True, "its wheel is gone or changed")
        return Decision(False, f"already {state.stage}")
    if not state.attempts:
        return Decision(True, "never built")
    failure = state.failure
    if failure is None:
        # Running, but nobody holds it: its owner died before it could write.
        return Decision(True, "its last worker died; it continues where that one stopped")
    tried = sum(1 for attempt in state.attempts if attempt.failure == failure)
    if tried < TRIES[failure]:
        return Decision(True, f"{_WORDS[failure]}; try {tried + 1} of {TRIES[failure]}", _divisor(state))
    if fresh_run and failure in _WORLDLY:
        return Decision(True, f"{_WORDS[failure]} last time; tried again in a new run", _divisor(state))
    return Decision(False, f"{_WORDS[failure]}: {state.message or 'no message'} (change something, or --force)")


def _divisor(state: CellState) -> int:
    """Half the jobs for each time the memory ran out."""
    times = sum(1 for attempt in state.attempts if attempt.failure == "memory")
    return 1 << min(4, times)


# Diagnoses of explain, and what in a message means which class.
BY_DIAGNOSIS: dict[str, FailureClass] = {
    "oom-killed": "memory",
    "pip-memory-error": "memory",
    "msvc-out-of-heap": "memory",
    "disk-full": "disk",
    "download-interrupted": "network",
}
_BY_WORDS: tuple[tuple[str, FailureClass], ...] = (
    ("no space left", "disk"),
    ("disk is full", "disk"),
    ("disk is nearly full", "disk"),
    ("disk quota", "disk"),
    ("gib are free where", "disk"),
    ("b are free there", "disk"),
    ("killed for memory", "memory"),
    ("out of memory", "memory"),
    ("cannot allocate memory", "memory"),
    ("temporary failure in name resolution", "network"),
    ("connection reset", "network"),
    ("timed out", "network"),
)


def classify(message: str, diagnoses: tuple[str, ...] = (), *, default: FailureClass = "compile") -> FailureClass:
    """The class of a failure, from what explain found and from the message itself."""
    for name in diagnoses:
        if name in BY_DIAGNOSIS:
            return BY_DIAGNOSIS[name]
    low = message.lower()
    return next((kind for words, kind in _BY_WORDS if words in low), default)
