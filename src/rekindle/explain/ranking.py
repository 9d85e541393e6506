"""Which finding is the root, which are consequences, and which are noise.

Each finding starts with its rule's rank. It sinks when it stands in a test that CMake does on purpose, when it is
only a warning, when the log shows that the step got past it, or when another finding explains it. Among equals the
first error of a build and the last of a run is the root: a build stops at its first error, a traceback ends with it.
"""

import functools
import itertools
import re
from dataclasses import dataclass, replace
from pathlib import Path

from rekindle.explain import conditions, owners, values
from rekindle.explain.conditions import is_contradicted
from rekindle.explain.events import Event, Seen
from rekindle.explain.rule import Proof, Rule, capped, compiled, either, kind_of, load_kinds, load_lines, read_file
from rekindle.explain.scene import Scene
from rekindle.model.diagnosis import Confidence
from rekindle.model.document import Part
from rekindle.model.version import compare

CONDITIONS = conditions.CONDITIONS | owners.CONDITIONS
FILLS = values.FILLS | owners.FILLS
OPPOSITES = Path(__file__).with_name("opposites.toml")

_LOWER: dict[Confidence, Confidence] = {"high": "medium", "medium": "low", "low": "low"}
_PROBE = re.compile(either("probe"))
_WARNING = re.compile(either("warning"), re.IGNORECASE)
_PYTHON_WARNING = re.compile(either("python_warning"))
_ABOUT_GPU = re.compile(either("about_gpu"))
_HANDLED = re.compile(either("handled"))
_HANDLED_BEFORE = re.compile(either("handled_before"))
_INFORMATION = re.compile(either("information"))
_ERROR = re.compile(r"\b(?:fatal|error|failed|abort)", re.IGNORECASE)
# A message and what it goes on to say stand within so many lines.
_NEAR = 4
# Two findings whose ranks differ by less are rivals.
_RIVAL = 3
_GPU_KINDS = ("no-gpu", "gpu-error", "gpu-library-error", "exception")
_BUILD = ("source", "configure", "compile", "link", "install")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A rule that fired at an event. ``reasons`` says in words what changed its rank and confidence, in order."""

    rule: Rule
    event: Event
    count: int
    confidence: Confidence
    rank: float
    noise: bool = False
    reasons: tuple[str, ...] = ()

    def lower(self, why: str, by: int, *, still_sure: bool = False, noise: bool = False) -> "Finding":
        """The same with a lower rank and, unless it stays as sure, a lower confidence."""
        return replace(
            self,
            rank=self.rank - by,
            confidence=self.confidence if still_sure else _LOWER[self.confidence],
            noise=self.noise or noise,
            reasons=(*self.reasons, f"{why}: rank -{by}"),
        )


def findings(rules: dict[str, Rule], scene: Scene, proofs: dict[str, Proof]) -> list[Finding]:
    """Best first, each as certain as its proof and its rivals allow."""
    ranked = []
    kinds = {kind_of(key) for key in scene.reading.forms}
    for key, rule in rules.items():
        # Most rules saw nothing at all.
        if key not in scene.reading.rules and kinds.isdisjoint(rule.on):
            continue
        seen = _events_of(rule, scene)
        is_silenced = not all(map(scene.saw, rule.needs)) or any(map(scene.saw, rule.forbids))
        if seen is None or is_silenced or is_contradicted(rule, scene):
            continue
        weighed = [finding for event in seen.all if (finding := _weigh(rule, event, seen, scene, proofs))]
        # The first event stays unless a later one is better: the same error repeats, its first place is the cause.
        if weighed:
            ranked.append(max(weighed, key=lambda finding: (finding.rank, len(finding.event.values))))
    ranked = _add_alternatives(_lower_explained(_drop_general(ranked)), rules, scene)
    ranked.sort(key=_sort_key)
    return _weigh_rival(_drop_opposites(ranked))


def _drop_opposites(ranked: list[Finding]) -> list[Finding]:
    """Of answers that exclude each other the better one; what a rule names as its alternatives stays a possibility."""
    kept: list[Finding] = []
    for finding in ranked:
        rivals = (better.rule for better in kept if excludes(better.rule.id, finding.rule.id))
        if all(finding.rule.id in rival.alternatives for rival in rivals):
            kept.append(finding)
    return kept


def _weigh_rival(ranked: list[Finding]) -> list[Finding]:
    """The first one is not certain where another explains something else just as well."""
    if len(ranked) > 1 and ranked[0].confidence == "high":
        first, second = ranked[:2]
        related = second.rule.id in (first.rule.id, *first.rule.explains, *first.rule.alternatives)
        apart = abs(first.event.line - second.event.line) > _NEAR
        if second.rank > first.rank - _RIVAL and apart and not related and not second.rule.general:
            ranked[0] = replace(first, confidence="medium")
    return ranked


def _events_of(rule: Rule, scene: Scene) -> Seen | None:
    """What fired for a rule: its own patterns and the typed events it speaks of."""
    seen = scene.reading.rules.get(rule.key)
    if not rule.on:
        return seen
    events = seen.all if seen else []
    for key, typed in scene.reading.forms.items():
        if kind_of(key) in rule.on:
            events += [
                event
                for event in typed.all
                if all(compiled(regex).search(event.values.get(name, "")) for name, regex in rule.where.items())
            ]
    events.sort(key=lambda event: event.line)
    return Seen(count=len(events), kept=events, last=events[-1]) if events else None


def _drop_general(weighed: list[Finding]) -> list[Finding]:
    """Without the general answers to what a specific one already answers, and with one general answer at most."""
    lines = [finding.event.line for finding in weighed if not finding.rule.general and not _is_set_aside(finding)]
    general = (
        finding
        for finding in weighed
        if finding.rule.general and not any(abs(finding.event.line - line) <= _NEAR for line in lines)
    )
    return [finding for finding in weighed if not finding.rule.general] + sorted(general, key=_sort_key)[:1]


def _weigh(rule: Rule, event: Event, seen: Seen, scene: Scene, proofs: dict[str, Proof]) -> Finding | None:
    way = None if rule.when and scene.wheel is not None else event.way + scene.place
    confidence = capped(rule.id, way, rule.confidence, proofs)
    finding = Finding(rule=rule, event=event, count=seen.count, confidence=confidence, rank=float(rule.rank))
    for name in rule.when:
        answer = CONDITIONS[name](event, scene)
        if answer is False:
            return None
        if answer is None:
            finding = finding.lower(f"whether {name} holds cannot be told", 8)
    torch = scene.values.get("torch_version")
    if torch and ((rule.since and compare(torch, rule.since) < 0) or (rule.until and compare(torch, rule.until) > 0)):
        finding = finding.lower("the log is of a torch release the rule is not known for", 15)
    if rule.kind != "note" and rule.stage in ("configure", "compile", "link") and _PROBE.search(event.around):
        check = scene.reading.signals.get("compiler-checked")
        # The test of the compiler itself is none on purpose: it must pass.
        if not (check and event.line >= check.kept[0].line - _NEAR):
            finding = finding.lower("it stands in a test that CMake does on purpose", 45, noise=True)
            finding = replace(finding, confidence="low")
    if rule.kind == "error" and _WARNING.search(event.evidence) and not _ERROR.search(event.evidence):
        finding = finding.lower("the line is a warning", 25)
    if rule.kind == "error" and _PYTHON_WARNING.search(event.evidence):
        finding = finding.lower("a Python warning", 16, still_sure=bool(_ABOUT_GPU.search(event.evidence)))
        if _failed_later(rule, event, scene):
            finding = finding.lower("something failed after this warning", 30)
    if _is_information(event):
        finding = finding.lower("the line is information", 25)
    if rule.stage in ("import", "runtime") and _is_handled(event):
        finding = finding.lower("the program says that it goes on without", 25)
    # One package that was installed says nothing of another; a connection that came back does.
    if rule.kind == ("warning" if rule.stage == "install" else "error") and any(
        (mark := scene.reading.signals.get(name)) and mark.last and mark.last.line > (seen.last or event).line
        for name in load_lines().get(f"passed_{rule.stage}", ())
    ):
        finding = finding.lower("the log shows that this step was passed later", 30, noise=True)
    return finding


def _failed_later(rule: Rule, event: Event, scene: Scene) -> bool:
    """Did something end in an error after this warning? A warning about the GPU is the reason of a GPU error."""
    about_gpu = rule.stage in ("import", "runtime") and bool(_ABOUT_GPU.search(event.evidence))
    forms = ((kind_of(key), seen) for key, seen in scene.reading.forms.items())
    return any(
        any(later.line > event.line and not is_harmless(later) for later in seen.all)
        for kind, seen in forms
        if not (load_kinds()[kind].outer or (about_gpu and kind in _GPU_KINDS))
    )


def is_harmless(event: Event) -> bool:
    """A warning, information, or something the program says it goes on without."""
    return bool(_PYTHON_WARNING.search(event.evidence) or _is_information(event) or _is_handled(event))


def _is_information(event: Event) -> bool:
    return bool(_INFORMATION.search(event.evidence) or _INFORMATION.search(event.head))


def _is_handled(event: Event) -> bool:
    """Does the program say, right after the message or right before it, that it goes on without?"""
    before = event.after and event.around.partition(event.after[:60])[0]
    return bool(_HANDLED.search(event.after) or _HANDLED_BEFORE.search(before or event.around))


def _is_set_aside(finding: Finding) -> bool:
    """A handled warning, a step the build got past, a test on purpose."""
    return finding.noise or finding.rank <= finding.rule.rank - 10


def _lower_explained(weighed: list[Finding]) -> list[Finding]:
    # What was itself set aside (a handled warning, a step the build got past) explains nothing.
    roots = [(finding, finding.rule.explains) for finding in weighed if not _is_set_aside(finding)]
    result = []
    for finding in weighed:
        above = [root for root, ids in roots if finding.rule.id in ids and root.rule.id != finding.rule.id]
        if above:
            root = max(above, key=lambda each: each.rank)
            why = (*finding.reasons, f"{root.rule.key} explains it: no higher than {root.rank - 1:g}")
            finding = replace(finding, rank=min(finding.rank, root.rank - 1), reasons=why)
        result.append(finding)
    return result


def _add_alternatives(weighed: list[Finding], rules: dict[str, Rule], scene: Scene) -> list[Finding]:
    """Other causes of the same words follow their finding, as possibilities; not what the machine rules out."""
    ids = {finding.rule.id for finding in weighed}
    more = []
    for finding in weighed:
        for place, other in enumerate(finding.rule.alternatives, start=1):
            variants = [rule for rule in rules.values() if rule.id == other] if other not in ids else []
            if not variants:
                continue
            rule = min(variants, key=lambda variant: variant.variant)
            if all(CONDITIONS[name](finding.event, scene) is not False for name in rule.when):
                ids.add(other)
                more.append(replace(finding, rule=rule, confidence="low", rank=finding.rank - 4 - place))
    return weighed + more


def _sort_key(finding: Finding) -> tuple[bool, float, int]:
    first = finding.event.line if finding.rule.stage in _BUILD else -finding.event.line
    return finding.noise, -finding.rank, first


class Opposite(Part, frozen=True, kw_only=True):
    """No answer of ``one`` goes with an answer of ``other``."""

    one: tuple[str, ...]
    other: tuple[str, ...]
    why: str


class _OppositesFile(Part, frozen=True, kw_only=True):
    opposite: tuple[Opposite, ...]


@functools.cache
def load_opposites() -> frozenset[tuple[str, str]]:
    """The pairs of answers that exclude each other, both ways."""
    rows = read_file(OPPOSITES, "explain-opposites", _OppositesFile).opposite
    pairs = {pair for row in rows for pair in itertools.product(row.one, row.other)}
    return frozenset(pairs | {(other, one) for one, other in pairs})


def excludes(answer: str, other: str) -> bool:
    """Can the two not both be right?"""
    return (answer, other) in load_opposites()
