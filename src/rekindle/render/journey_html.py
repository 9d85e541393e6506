"""A walk as one HTML page that needs no network: verdict, legs, plan, wheel, proof."""

from __future__ import annotations

import json
from pathlib import Path

from rekindle.host.redact import all_without_secrets, without_secrets
from rekindle.model.document import encode
from rekindle.model.journey import Journey
from rekindle.model.page import header, page
from rekindle.model.spoken import spoken_seconds
from rekindle.render.templates import filled


def render_journey_html(journey: Journey) -> str:
    longest = max((leg.seconds for leg in journey.legs), default=0.0) or 1.0
    body = filled(
        "journey.html.j2",
        journey=journey,
        longest=longest,
        total=sum(leg.seconds for leg in journey.legs),
        # Before it is written as JSON: behind escapes nothing is recognised.
        document=encode(all_without_secrets(json.loads(encode(journey)))).decode("utf-8"),
        spoken=spoken_seconds,
        build_page=_build_page(journey),
    )
    verdict = str(without_secrets(journey.verdict))
    top = header(verdict, str(without_secrets(journey.machine or "")), good=journey.arrived)
    return page(verdict, f"{top}\n{body}")


def _build_page(journey: Journey) -> str | None:
    """The build's own page, if one lies beside the report."""
    beside = Path(journey.report).with_name("build.html") if journey.report else None
    return beside.name if beside is not None and beside.is_file() else None
