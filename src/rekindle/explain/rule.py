"""What a rule is, and how the rules are read from ``rules/*.toml``.

A *pattern* fires on text: one of the fixed words in ``has`` stands in a line and, if given, ``regex`` matches the
*flat window* around it (that line and ``lines - 1`` following ones, ``before`` preceding ones, without framing, quotes
made plain, white space collapsed) and ``unless`` does not. A *rule* gives patterns a cause, a fix and a source.
A *signal* is a pattern without a cause: it tells about the surroundings (versions, platform, milestones).
A *form* (``dialects/*.toml``) is one way a tool says one kind of thing: each compiler's sentence for a missing header
becomes the event ``missing-header`` with the value ``header``, and rules speak of kinds and values.

A *proof* (``proven.toml``) says how far a rule may be trusted: to be certain it must have answered five cases of other
people's first and rightly *by the same words* (or kind of typed event) *in the same kind of place* (Windows, WSL, a
Jetson …), and hardly ever first and wrong. Where the installed torch itself was read and answers what the rule asks,
the words need no proof. ``benchmarks/explain_score.py --write`` counts again.
"""

import difflib
import functools
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

import msgspec

from rekindle.errors import BadInput
from rekindle.facts.tables import parse_toml, read_own
from rekindle.model.diagnosis import Action, Catalogue, Confidence, RulePage
from rekindle.model.document import Part, shared_fields

Shape = TypeVar("Shape")
Stage = Literal["source", "configure", "compile", "link", "install", "import", "runtime"]
Kind = Literal["error", "warning", "note"]
# Bytes a word needs to be looked for.
_SHORTEST = 4
_HERE = Path(__file__).parent
_RULES = _HERE / "rules"
PROVEN = _HERE / "proven.toml"
# One wrong answer is forgiven per so many right ones.
_FORGIVEN = 10
_ALLOWED = {"stage": get_args(Stage), "kind": get_args(Kind), "confidence": get_args(Confidence)}
_PLACE = re.compile(r" - at `\$\.(?P<table>\w+)\[(?P<number>\d+)\](?P<rest>[^`]*)`")


def read_file(path: Path, name: str, shape: type[Shape]) -> Shape:
    """The file in its shape; ``name`` is the one it has in the cache of parsed files."""
    parsed: dict[str, Any] = {}
    try:
        parsed = parse_toml(path.read_bytes(), name)
        return msgspec.convert(parsed, shape)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise BadInput(
            f"{'/'.join(path.parts[-2:])} cannot be used: {_spoken_error(str(error), parsed)}",
            remedy="correct it there, take the change to it back, or install Rekindle again",
        ) from error


def _spoken_error(message: str, parsed: dict[str, Any]) -> str:
    """What is wrong in which entry, and what would be allowed there."""
    place = _PLACE.search(message)
    if place is None:
        return message
    table, rest = place["table"], place["rest"].lstrip(".")
    entry = parsed[table][int(place["number"])]
    name = "/".join(filter(None, (entry.get("id") or entry.get("event"), entry.get("variant"))))
    allowed = _ALLOWED.get(rest, ())
    if "unknown field" in message and table == "rule":
        allowed = Pattern.__struct_fields__ if rest.startswith("match") else Rule.__struct_fields__
    where = f" in {rest}" if rest else ""
    hint = f" (allowed: {', '.join(allowed)})" if allowed else ""
    return f"{table} {name or place['number']}{where}: {message[: place.start()]}{hint}"


class Pattern(Part, frozen=True, kw_only=True):
    has: tuple[str, ...]
    regex: str | None = None
    unless: str | None = None
    lines: Annotated[int, msgspec.Meta(ge=1, le=8)] = 1
    before: Annotated[int, msgspec.Meta(ge=0, le=8)] = 0

    def __post_init__(self) -> None:
        if not self.has:
            raise ValueError("has names no word to look for")
        for word in self.has:
            if len(word.encode()) < _SHORTEST:
                raise ValueError(f"the word {word!r} in has is too short to look for: {_SHORTEST} bytes at least")

    @property
    def words(self) -> tuple[bytes, ...]:
        """What is looked for in the raw log: quotes come in many shapes there, so the longest part without one."""
        return tuple(_longest_unquoted(word).encode() for word in self.has)

    @property
    def test(self) -> str | None:
        """What the flat text must match: ``regex``, or the words themselves where they hold a quote."""
        if self.regex is None and any(_longest_unquoted(word) != word for word in self.has):
            return "|".join(re.escape(" ".join(re.sub("[`‘’]", "'", word).split())) for word in self.has)
        return self.regex


def _longest_unquoted(word: str) -> str:
    longest = max(re.split(r"['\"`‘’“”]", word), key=len)
    return longest if len(longest.encode()) >= _SHORTEST else word


class Rule(Part, frozen=True, kw_only=True):
    """``rank`` says how likely this is the root when other rules fire too (1 to 99, 50 is usual); ``explains``
    names rules whose findings are consequences of this one; ``alternatives`` are other causes of the very same words.
    ``variant`` tells rules with the same id apart. ``since`` and ``until`` are the torch releases it is known from and
    to: in a log of another release it is less certain.

    A rule may also speak of typed events: ``on`` names the kinds, ``where`` says what their values look like.
    ``general`` rules know the kind of failure, not its cause; they answer only where nothing more specific does.
    ``requires`` names facts (``python = ">=3.12"``) that a log must not contradict. ``windows`` is the fix in that
    system's words, where it differs; ``action`` what ``explain --fix`` can do, best first. ``adds`` is what it knows
    beyond a better answer about the same line: that answer's first step."""

    id: str
    title: str
    stage: Stage
    cause: str
    fix: tuple[str, ...]
    windows: tuple[str, ...] = ()
    action: tuple[Action, ...] = ()
    adds: str = ""
    source: str
    match: tuple[Pattern, ...] = ()
    on: tuple[str, ...] = ()
    where: dict[str, str] = {}
    general: bool = False
    requires: dict[str, str] = {}
    variant: str = ""
    confidence: Confidence = "high"
    kind: Kind = "error"
    rank: Annotated[int, msgspec.Meta(ge=1, le=99)] = 50
    when: tuple[str, ...] = ()
    fill: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    forbids: tuple[str, ...] = ()
    explains: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None

    @property
    def key(self) -> str:
        return f"{self.id}/{self.variant}" if self.variant else self.id


class Signal(Part, frozen=True, kw_only=True):
    id: str
    match: tuple[Pattern, ...]


class RuleFile(Part, frozen=True, kw_only=True):
    about: str = ""
    rule: tuple[Rule, ...] = ()
    signal: tuple[Signal, ...] = ()


@functools.cache
def load_files() -> dict[str, RuleFile]:
    """Every family (the file's name) with its rules, in a stable order."""
    return {path.stem: read_file(path, f"rules-{path.stem}", RuleFile) for path in sorted(_RULES.glob("*.toml"))}


@functools.cache
def load_rules() -> tuple[Rule, ...]:
    """The rules of all families."""
    return tuple(rule for file in load_files().values() for rule in file.rule)


@functools.cache
def load_signals() -> tuple[Signal, ...]:
    """The signals of all families."""
    return tuple(signal for file in load_files().values() for signal in file.signal)


@functools.cache
def compiled(regex: str, whose: str = "a rule") -> re.Pattern[str]:
    """Compiled on first use: most runs need a handful of several hundred."""
    try:
        return re.compile(regex)
    except re.error as error:
        raise BadInput(f"{whose}: the regular expression {regex!r} is wrong: {error}") from error


@functools.cache
def load_lines() -> dict[str, tuple[str, ...]]:
    """What lines of logs look like: alternatives by the name they have together."""
    return read_own(__file__, "lines.toml", dict[str, tuple[str, ...]])


def either(name: str) -> str:
    """The alternatives of ``lines.toml`` as a regular expression, or part of one."""
    return "|".join(load_lines()[name])


class EventKind(Part, frozen=True, kw_only=True):
    """``words`` is the class in plain words; ``values`` what its forms may capture. An ``outer`` kind is what a driver
    program says after something inside it failed (make, ninja, pip): never a cause, only proof that it ended there."""

    words: str
    values: tuple[str, ...] = ()
    outer: bool = False


class Form(Part, frozen=True, kw_only=True):
    event: str
    match: tuple[Pattern, ...]
    dialect: str = ""
    number: int = 0

    @property
    def key(self) -> str:
        return f"{self.dialect}/{self.event}/{self.number}"


class _DialectFile(Part, frozen=True, kw_only=True):
    about: str
    form: tuple[Form, ...]


class _KindsFile(Part, frozen=True, kw_only=True):
    kind: dict[str, EventKind]


class NamesFile(Part, frozen=True, kw_only=True):
    """``names.toml``: which name a compiler's sentence is about, and the facts that logs tell of a machine."""

    unknown_name: tuple[str, ...]
    fact: dict[str, str]


@functools.cache
def load_names() -> NamesFile:
    """All of ``names.toml``."""
    return read_file(_HERE / "names.toml", "explain-names", NamesFile)


@functools.cache
def load_kinds() -> dict[str, EventKind]:
    """Every kind of event."""
    return read_file(_HERE / "kinds.toml", "explain-kinds", _KindsFile).kind


@functools.cache
def load_forms() -> tuple[Form, ...]:
    """The forms of every dialect, in a stable order."""
    return tuple(
        msgspec.structs.replace(form, dialect=path.stem, number=number)
        for path in sorted((_HERE / "dialects").glob("*.toml"))
        for number, form in enumerate(read_file(path, f"dialect-{path.stem}", _DialectFile).form)
    )


def kind_of(key: str) -> str:
    """The kind of event a form's key stands for."""
    return key.split("/")[1]


class Proof(Part, frozen=True, kw_only=True):
    """``ways``: the words (or kinds of events), with their place, by which it was right often enough."""

    right: int
    wrong: int = 0
    ways: tuple[str, ...] = ()


class _ProvenFile(Part, frozen=True, kw_only=True):
    rule: dict[str, Proof] = {}


@functools.cache
def load_proofs() -> dict[str, Proof]:
    """How often each rule was right, by its id; nothing while they are counted anew."""
    return read_file(PROVEN, "explain-proven", _ProvenFile).rule if PROVEN.is_file() else {}


def capped(rule: str, way: str | None, confidence: Confidence, proofs: dict[str, Proof]) -> Confidence:
    """The confidence a rule claims, no higher than its proof allows for the way it fired (None: any way will do)."""
    proof = proofs.get(rule)
    is_proven = proof and proof.right and proof.wrong * _FORGIVEN <= proof.right and (way is None or way in proof.ways)
    return "medium" if confidence == "high" and not is_proven else confidence


def explain_list() -> Catalogue:
    """Everything ``explain`` knows.

    >>> len(explain_list().rules) > 50
    True
    """
    files = {name: file for name, file in load_files().items() if file.rule}
    pages = []
    for family, rule in ((name, rule) for name, file in files.items() for rule in file.rule):
        words = tuple(dict.fromkeys(word for pattern in rule.match for word in pattern.has))
        pages.append(RulePage(**shared_fields(rule, RulePage), family=family, words=words, asks=rule.when))
    return Catalogue(rules=tuple(pages), families={name: file.about for name, file in files.items()})


def explain_rule(rule_id: str) -> Catalogue:
    """The page of one id (with all its variants); an unknown id is answered with its neighbours.

    >>> [page.id for page in explain_rule("shm-too-small").rules]
    ['shm-too-small']
    """
    whole = explain_list()
    pages = tuple(page for page in whole.rules if page.id == rule_id)
    if not pages:
        near = difflib.get_close_matches(rule_id, {page.id for page in whole.rules}, n=3, cutoff=0.4)
        hint = f"did you mean {', '.join(near)}?" if near else "'rekindle explain --list' names them all"
        raise BadInput(f"there is no diagnosis {rule_id!r}", remedy=hint)
    return Catalogue(rules=pages, families={page.family: whole.families[page.family] for page in pages})
