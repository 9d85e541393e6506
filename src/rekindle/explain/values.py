"""Values for the texts that stand elsewhere: in the rest of the log, the machine, the plan, the facts.

``surroundings`` gathers what signals captured anywhere in the log; ``FILLS`` are the named look-ups rules ask for.
"""

from __future__ import annotations

from collections.abc import Callable

from rekindle.explain.conditions import Scene
from rekindle.explain.events import Event, Reading

Fill = Callable[[Event, Scene], dict[str, str]]
FILLS: dict[str, Fill] = {}


def fill(function: Fill) -> Fill:
    FILLS[function.__name__.replace("_", "-")] = function
    return function


def surroundings(reading: Reading) -> dict[str, str]:
    """Captured by signals; what the log said last counts."""
    values: dict[str, str] = {}
    for seen in reading.signals.values():
        for event in seen.all:
            values.update(event.values)
    return values
