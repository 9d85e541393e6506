"""Writes a walk's report beside its other results."""

from __future__ import annotations

from pathlib import Path

from rekindle.host.files import write_atomically
from rekindle.model.document import encode
from rekindle.model.journey import Journey
from rekindle.render.journey_html import render_journey_html


def reported(journey: Journey) -> Journey:
    """The journey, with its report written where it says that it lies."""
    if journey.report is not None:
        path = Path(journey.report)
        write_atomically(path, render_journey_html(journey))
        write_atomically(path.with_suffix(".json"), encode(journey))
    return journey
