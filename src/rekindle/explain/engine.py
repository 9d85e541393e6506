"""Bytes in, diagnosis out: joins reading, watching and judging, and fills causes and fixes with what was captured.

It never holds more than a few megabytes. Where no cause is known it says what is known nevertheless: the first real
error with its place and kind, things to try, or at least the last line that speaks of trouble.

In a cause or fix ``{arch}`` is a value, ``{arch|this one}`` a value that may be unknown, ``{flag,name|text}`` the first
that is known, ``{arch_in_brackets|}`` the value as " (value)". A sentence whose value is unknown and has no default is
left out: better silent than "CUDA None".
"""

import functools
import json
import re
from collections.abc import Iterable, Mapping

import msgspec

from rekindle.explain import rule as book
from rekindle.explain.conditions import facts_of
from rekindle.explain.events import Event, Reading, Seen, Watcher, flatten
from rekindle.explain.ranking import FILLS, Finding, findings, is_harmless
from rekindle.explain.reading import plain_lines
from rekindle.explain.rule import Proof, Rule, either, kind_of
from rekindle.explain.scene import Scene
from rekindle.explain.values import surroundings
from rekindle.facts.names import owner_of
from rekindle.model.diagnosis import Action, Diagnosis, Match, Unexplained
from rekindle.model.machine import Machine
from rekindle.model.plan import Plan
from rekindle.model.toml import read_beside
from rekindle.model.wheel import WheelReport

MAX_MATCHES = 8
_LATE = ("exception", "gpu-error", "gpu-library-error", "crashed", "killed", "wrong-use")
_FIELD = re.compile(r"\{([\w,]+)(?:\|([^{}]*))?\}")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z({'\"/\0-])")
_BRACKETS = "_in_brackets"
_MISSING = "\0"
# How far from the end the last line that speaks of trouble may stand.
_LINES = 20
# So many lines are a quotation, no log.
_QUOTED = 6
_KEY = "plain/plain-error/last"
_TROUBLE = re.compile(rf"\b(?:{either('trouble')})\b", re.IGNORECASE)
_NO_TROUBLE = re.compile(either("no_trouble"), re.IGNORECASE)
_MILESTONES = ("configured", "built", "installed", "went-on")


def unexplained(scene: Scene) -> Unexplained | None:
    """None where the log holds no error at all."""
    error = _first_error(scene)
    if error is None:
        return None
    kind, event = error
    words = book.load_kinds()[kind].words
    facts = facts_of(scene)
    file, at = event.values.get("file"), event.values.get("at")
    place = f"{file}:{at}" if file and at else file
    advice = read_beside(__file__, "advice.toml", dict[str, str])
    steps = [advice.get(kind, advice["otherwise"]), advice["otherwise"], advice["fresh"], advice["whole"]]
    known = ", ".join(f"{name} {value}" for name, value in facts.items()) or "not said"
    return Unexplained(
        kind=kind,
        words=words,
        quote=event.evidence,
        line=event.line,
        place=place,
        facts=facts,
        steps=tuple(dict.fromkeys(steps))[:3],
        post=f"{words[:1].upper()}{words[1:]}:\n\n    {event.evidence}\n\nWhat the log says of the machine: {known}.",
    )


def _first_error(scene: Scene) -> tuple[str, Event] | None:
    """The first error of a build, the last of a run; what drivers say afterwards only where there is nothing else."""
    seen = [(kind_of(key), event) for key, seen in scene.reading.forms.items() for event in seen.all]
    errors = [(kind, event) for kind, event in seen if kind != "waiting" and not is_harmless(event)]
    pool = [error for error in errors if not book.load_kinds()[error[0]].outer] or errors
    if early := [error for error in pool if error[0] not in _LATE]:
        return min(early, key=lambda error: (error[1].line, error[0]))
    return max(pool, key=lambda error: error[1].line, default=None)


def render_whole(template: str, values: Mapping[str, str]) -> str:
    """As :func:`render`, but never nothing: where no sentence would be left, what is unknown is called "it"."""
    text = render(template, values) or render(template, values, unknown="it")
    return text[:1].upper() + text[1:] if text.startswith("it ") else text


def render(template: str, values: Mapping[str, str], *, unknown: str = _MISSING) -> str:
    """A template with its values, without the sentences of which one is missing."""
    filled, end, is_alone = "", 0, True
    for field in _FIELD.finditer(template):
        text, rest = template[end : field.start()], template[field.end() :]
        # A field that is a sentence of its own stands where one begins: behind a sentence's end, or behind a field that
        # was a whole one. Behind it stands nothing, or the beginning of another.
        begins = text.strip().endswith((".", "!", "?")) if text.strip() else is_alone
        is_alone = begins and (not rest.strip() or bool(re.match(r"\s+[A-Z({'\"/-]", rest)))
        missing = "" if is_alone or field[2] == "" else unknown
        filled += text + (_first_value(field[1], values) or field[2] or missing)
        end = field.end()
    filled += template[end:]
    return " ".join(" ".join(part for part in _SENTENCE.split(filled) if _MISSING not in part).split())


def _first_value(names: str, values: Mapping[str, str]) -> str | None:
    for name in names.split(","):
        if value := values.get(name):
            return value
        if value := values.get(name.removesuffix(_BRACKETS)):
            return f" ({value})"
    return None


def add_last_words(reading: Reading) -> None:
    """Adds the event of that line where nothing else was seen."""
    # Did a rule see more than something worth a note, such as a version?
    is_told = any((rule := _our_rules().get(key)) is None or rule.kind != "note" for key in reading.rules)
    if reading.forms or (is_told and reading.lines > _QUOTED):
        return
    good = max((seen.last.line for name in _MILESTONES if (seen := reading.signals.get(name)) and seen.last), default=0)
    lines = reading.tail.splitlines()
    for back, line in enumerate(reversed(lines[-_LINES:])):
        number = reading.lines - back
        text = flatten(line)
        if number <= good:
            return
        # In a few lines the message itself is the question, whatever its words are.
        is_asked = reading.lines <= _QUOTED and owner_of("messages", text[:240])
        if not _NO_TROUBLE.search(text) and (is_asked or (not is_told and _TROUBLE.search(text))):
            quote = line.strip()[:300]
            whole = dict.fromkeys(("text", "around", "after"), text)
            values = {"message": text[:240]}
            event = Event(line=number, values=values, evidence=quote, way="@plain-error", head=quote[:60], **whole)
            reading.forms[_KEY] = Seen(count=1, kept=[event], last=event)
            return


@functools.cache
def _watcher() -> Watcher:
    return Watcher(book.load_rules(), book.load_signals(), book.load_forms())


def scene_of(
    chunks: Iterable[bytes],
    *,
    machine: Machine | None = None,
    plan: Plan | None = None,
    wheel: WheelReport | None = None,
    watcher: Watcher | None = None,
) -> Scene:
    """What the log yielded, before anything is judged. ``watcher`` looks for other rules than ours."""
    reading = (watcher or _watcher()).read(plain_lines(chunks))
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
    """Causes found in a log, best first. ``rules`` and ``proofs`` replace ours where the rules are measured."""
    scene = scene_of(chunks, machine=machine, plan=plan, wheel=wheel)
    asked = _our_rules() if rules is None else {rule.key: rule for rule in rules}
    best: dict[str, Finding] = {}
    for finding in findings(asked, scene, book.load_proofs() if proofs is None else proofs):
        best.setdefault(finding.rule.id, finding)
    matches = [_make_match(finding, scene) for finding in list(best.values())[:MAX_MATCHES]]
    if matches and (more := _known_beyond(matches[0], list(best.values())[1:], scene)):
        matches[0] = msgspec.structs.replace(matches[0], fix=(*more, *matches[0].fix))
    known = best and any(not rule.general for rule in asked.values() if rule.id == next(iter(best)))
    return Diagnosis(
        matches=tuple(matches),
        lines=scene.reading.lines,
        facts=facts_of(scene),
        unexplained=None if known else unexplained(scene),
    )


@functools.cache
def _our_rules() -> dict[str, Rule]:
    return {rule.key: rule for rule in book.load_rules()}


def _known_beyond(best: Match, others: Iterable[Finding], scene: Scene) -> tuple[str, ...]:
    """What others measured of the line that the best answer speaks of, unless it says so itself."""
    same = (finding for finding in others if finding.rule.adds and finding.event.line == best.line)
    known = ((render(finding.rule.adds, values), values) for finding in same if (values := _values(finding, scene)))
    said = " ".join((best.cause, *best.fix)).replace("_", "-")
    return tuple(text for text, values in known if text and values.get("wanted_release", "") not in said)


def _values(finding: Finding, scene: Scene) -> dict[str, str]:
    values = {**scene.values, **finding.event.values}
    for name in finding.rule.fill:
        values.update(FILLS[name](finding.event, scene))
    return values


def _make_match(finding: Finding, scene: Scene) -> Match:
    rule, event, values = finding.rule, finding.event, _values(finding, scene)
    steps = rule.windows if rule.windows and scene.saw("windows") else rule.fix
    return Match(
        id=rule.id,
        confidence=finding.confidence,
        title=render_whole(rule.title, values),
        stage=rule.stage,
        cause=render_whole(rule.cause, values),
        fix=tuple(text for step in steps if (text := render(step, values))),
        line=event.line,
        evidence=event.evidence,
        source=values.get("row_source", rule.source),
        actions=tuple(filled for action in rule.action if (filled := _fill_action(action, values))),
    )


def _fill_action(action: Action, values: Mapping[str, str]) -> Action | None:
    """The action with its values; None where one of them is unknown."""

    def fill(part: object) -> object:
        if isinstance(part, str):
            return render(part, values) if "{" in part else part
        if isinstance(part, (list, tuple)):
            return [fill(item) for item in part]
        return {name: fill(item) for name, item in part.items()} if isinstance(part, dict) else part

    plain = msgspec.to_builtins(action)
    made = fill(plain)
    whole = json.dumps(made).count('""') == json.dumps(plain).count('""')
    return msgspec.convert(made, Action) if whole else None
