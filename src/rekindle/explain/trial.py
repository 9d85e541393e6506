"""Why did a rule win or lose on a log? For whoever writes one: ``rekindle explain --try RULE LOG``.

A *trial* goes the way a rule goes: its words and events are looked for, what it needs is asked, its rank is weighed,
and the answer above it is named. A rule is named by its id, by ``id/variant``, or by a TOML file that holds new ones.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path

from rekindle.errors import BadInput
from rekindle.explain import rule as book
from rekindle.explain.conditions import is_contradicted
from rekindle.explain.engine import scene_of
from rekindle.explain.events import Event, Watcher, flatten
from rekindle.explain.ranking import CONDITIONS, FILLS, Finding, excludes, findings
from rekindle.explain.reading import plain_lines
from rekindle.explain.rule import Pattern, Rule, RuleFile, capped, compiled, kind_of
from rekindle.explain.scene import Scene
from rekindle.model.diagnosis import RuleTrial, Trials

# Of a log so much is looked at when words are searched for by hand.
MAX_TRIAL_BYTES = 64 << 20
_SHOWN = 160


def try_rules(name: str, chunks: Iterable[bytes]) -> Trials:
    """What became of each rule of that name on this log."""
    tried, rules = _choose_rules(name)
    log = b"".join(plain_lines(chunks))[:MAX_TRIAL_BYTES]
    watcher = Watcher(rules.values(), book.load_signals(), book.load_forms())
    scene = scene_of([log], watcher=watcher)
    ranked = findings(rules, scene, book.load_proofs())
    return Trials(trials=tuple(_try_rule(rule, log, scene, ranked) for rule in tried))


def _choose_rules(name: str) -> tuple[list[Rule], dict[str, Rule]]:
    """The rules that are tried, and all that compete."""
    rules = {rule.key: rule for rule in book.load_rules()}
    path = Path(name)
    if name.endswith(".toml"):
        if not path.is_file():
            raise BadInput(f"there is no file {name}", remedy="name a diagnosis or a TOML file with rules")
        tried = list(book.read_file(path, f"trial-{path.stem}", RuleFile).rule)
        for rule in tried:
            _refuse_unknown_names(rule)
        return tried, rules | {rule.key: rule for rule in tried}
    tried = [rule for rule in rules.values() if name in (rule.id, rule.key)]
    return tried or [rules[page.id] for page in book.explain_rule(name).rules], rules


def _refuse_unknown_names(rule: Rule) -> None:
    for regex in filter(None, (regex for pattern in rule.match for regex in (pattern.regex, pattern.unless))):
        compiled(regex, f"rule {rule.key}")
    signals, kinds = {signal.id for signal in book.load_signals()}, set(book.load_kinds())
    asked = {"on": kinds, "when": set(CONDITIONS), "fill": set(FILLS), "needs": signals, "forbids": signals}
    for field, allowed in asked.items():
        if unknown := set(getattr(rule, field)) - allowed:
            text = f"rule {rule.key}: {field} names {', '.join(sorted(unknown))}, which does not exist"
            raise BadInput(text, remedy=f"allowed: {', '.join(sorted(allowed))}")


def _try_rule(rule: Rule, log: bytes, scene: Scene, ranked: list[Finding]) -> RuleTrial:
    place = next((number for number, each in enumerate(ranked, start=1) if each.rule.key == rule.key), None)
    steps = [*_search_steps(rule, log, scene), *_condition_steps(rule, scene)]
    alone = next(iter(findings({rule.key: rule}, scene, book.load_proofs())), None)
    finding = ranked[place - 1] if place else alone
    if finding is not None:
        if capped(rule.id, finding.event.way + scene.place, "high", book.load_proofs()) != "high":
            steps.append("no confirmed case proves these words here: 'medium' at most (benchmarks/explain_score.py)")
        steps += [f"starts with rank {rule.rank}", *finding.reasons]
        steps.append(f"ends with rank {finding.rank:g}, confidence {finding.confidence}, at line {finding.event.line}")
    if finding is not None and place != 1:
        steps += lost_to(finding, place, ranked)
    return RuleTrial(
        rule=rule.key,
        outcome="did not fire" if finding is None else "won" if place == 1 else "lost",
        place=place,
        winner=ranked[0].rule.key if ranked else None,
        steps=tuple(steps),
    )


def _search_steps(rule: Rule, log: bytes, scene: Scene) -> Iterator[str]:
    """What of the rule's words and events stands in the log."""
    seen = scene.reading.rules.get(rule.key)
    if seen:
        yield f"its words fired {seen.count} times, first in line {seen.kept[0].line}: {_clip(seen.kept[0].evidence)}"
    else:
        for pattern in rule.match:
            yield from _why_silent(pattern, log)
    if rule.on:
        events = [event for key, typed in scene.reading.forms.items() if kind_of(key) in rule.on for event in typed.all]
        if not events:
            yield f"the log holds no event {' or '.join(rule.on)}"
        for event in events[:4]:
            yield _event_step(rule, event)


def _why_silent(pattern: Pattern, log: bytes) -> Iterator[str]:
    words = [(word, at) for word in pattern.words if (at := log.find(word)) >= 0]
    if not words:
        yield f"none of its words stands in the log: {', '.join(map(repr, pattern.has))}"
        return
    for word, at in words:
        line = log.count(b"\n", 0, at) + 1
        lines = log.split(b"\n")[max(0, line - 1 - pattern.before) : line - 1 + pattern.lines]
        text = flatten(b"\n".join(lines).decode("utf-8", "replace"))
        yield f"{word.decode()!r} stands in line {line}"
        if pattern.test and not compiled(pattern.test).search(text):
            yield f"but the text there does not match {pattern.test!r}: {_clip(text)}"
        elif pattern.unless and (hit := compiled(pattern.unless).search(text)):
            yield f"but 'unless' matches there: {_clip(hit[0])}"


def _event_step(rule: Rule, event: Event) -> str:
    for name, regex in rule.where.items():
        if not compiled(regex).search(event.values.get(name, "")):
            return f"line {event.line}: {name} is {event.values.get(name, '')!r}, which {regex!r} does not match"
    return f"line {event.line}: the event fits: {_clip(event.evidence)}"


def _condition_steps(rule: Rule, scene: Scene) -> Iterator[str]:
    """Answers that silence a rule whatever it found."""
    yield from (f"it needs the signal {name}, which the log lacks" for name in rule.needs if not scene.saw(name))
    yield from (f"it forbids the signal {name}, which the log has" for name in rule.forbids if scene.saw(name))
    if is_contradicted(rule, scene):
        yield f"the log contradicts what it takes for granted ({rule.requires})"
    seen = scene.reading.rules.get(rule.key)
    for name in rule.when if seen else ():
        if seen and all(CONDITIONS[name](event, scene) is False for event in seen.all):
            yield f"the condition {name} is answered with no"


def lost_to(finding: Finding, place: int | None, ranked: list[Finding]) -> Iterator[str]:
    """Who stood above it, or why it is not among the answers."""
    if place is not None:
        above = ranked[0]
        yield f"place {place}: {above.rule.key} stands first with rank {above.rank:g} (line {above.event.line})"
        return
    rivals = [each.rule.key for each in ranked if excludes(each.rule.id, finding.rule.id)]
    if rivals:
        yield f"left out: {rivals[0]} excludes it (explain/opposites.toml)"
    elif finding.rule.general:
        yield "left out: it is general, and a more specific or better general answer is given"


def _clip(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"
