"""Bytes in, diagnosis out: joins reading, watching and judging.

``diagnose(chunks)`` is what other stages reach through the api; it never holds more than a few megabytes.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable

from rekindle.explain.advice import unexplained
from rekindle.explain.events import Watcher
from rekindle.explain.form import load_forms
from rekindle.explain.last_words import add_last_words
from rekindle.explain.lookups import FILLS
from rekindle.explain.proof import Proof, load_proofs
from rekindle.explain.ranking import Finding, findings
from rekindle.explain.reading import plain_lines
from rekindle.explain.rule import Rule, load_rules, load_signals
from rekindle.explain.scene import Scene
from rekindle.explain.setting import facts_of
from rekindle.explain.template import render_all, render_whole
from rekindle.explain.values import surroundings
from rekindle.model.diagnosis import Diagnosis, Match
from rekindle.model.machine import Machine
from rekindle.model.plan import Plan
from rekindle.model.wheel import WheelReport

MAX_MATCHES = 8


@functools.cache
def _watcher() -> Watcher:
    return Watcher(load_rules(), load_signals(), load_forms())


def scene_of(
    chunks: Iterable[bytes],
    *,
    machine: Machine | None = None,
    plan: Plan | None = None,
    wheel: WheelReport | None = None,
) -> Scene:
    """What the log yielded, before anything is judged."""
    reading = _watcher().read(plain_lines(chunks))
    add_last_words(reading)
    return Scene(reading=reading, machine=machine, plan=plan, wheel=wheel, values=surroundings(reading))


def diagnose(
    chunks: Iterable[bytes],
    *,
    machine: Machine | None = None,
    plan: Plan | None = None,
    wheel: WheelReport | None = None,
    rules: tuple[Rule, ...] | None = None,
    proofs: dict[str, Proof] | None = None,
) -> Diagnosis:
    """Causes found in a log, best first; none where nothing is known.

    ``rules`` and ``proofs`` replace ours where the rules themselves are measured.
    """
    scene = scene_of(chunks, machine=machine, plan=plan, wheel=wheel)
    asked = {rule.key: rule for rule in (load_rules() if rules is None else rules)}
    matches: list[Match] = []
    for finding in findings(asked, scene, load_proofs() if proofs is None else proofs):
        if finding.rule.id not in {match.id for match in matches}:
            matches.append(_match(finding, scene))
        if len(matches) == MAX_MATCHES:
            break
    known = {rule.id for rule in asked.values() if not rule.general}
    nothing = not matches or matches[0].id not in known
    return Diagnosis(
        matches=tuple(matches),
        lines=scene.reading.lines,
        facts=facts_of(scene),
        unexplained=unexplained(scene) if nothing else None,
    )


def _match(finding: Finding, scene: Scene) -> Match:
    rule, event = finding.rule, finding.event
    values = {**scene.values, **event.values}
    for name in rule.fill:
        values.update(FILLS[name](event, scene))
    return Match(
        id=rule.id,
        confidence=finding.confidence,
        title=render_whole(rule.title, values),
        stage=rule.stage,
        cause=render_whole(rule.cause, values),
        fix=render_all(rule.windows if rule.windows and scene.saw("windows") else rule.fix, values),
        line=event.line,
        evidence=event.evidence,
        source=rule.source,
    )
