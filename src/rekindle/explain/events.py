"""Where patterns fired in a stream: the events the judge weighs, and the text around them.

Memory is bounded whatever the log says: of each pattern the first few events and the last one are kept. The text is
freed from framing (``lines.toml``), so that one regex serves however the line was carried; quotes become plain ones;
white space collapses, which also repairs messages that a terminal or a compiler wrapped.
"""

import collections
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rekindle.explain.rule import Form, Pattern, Rule, Signal, compiled, either, kind_of, load_lines
from rekindle.explain.scan import Words, newlines

LOOK_BYTES = 16 * 1024
BLOCK_BYTES = 1 << 20
_KEPT = 12
# In one block a word that stands there more often than this is sampled at both ends.
_CROWD = 24
_CROWD_LIMIT = 300
# A word that was looked at this often in the whole log is from then on looked at only at both ends of a block: a log of
# nothing but errors (or made to be slow) costs no more than any other.
_TIRED = 1200
# And after so many only at the very ends.
_EXHAUSTED = 5000
_VERY_ENDS = 2
# A rule or signal that has fired this often is only asked now and then: the log repeats itself.
_ENOUGH = 40
_NOW_AND_THEN = 50
_TROUBLE = tuple(word.encode() for word in load_lines()["trouble_words"])
_PLACEHOLDER = re.compile(r"\{[\w.!:()\[\]]*\}|%[sdrif](?!\w)|%\(")
_FRAME = re.compile(rf"^\s*(?:{either('frame')})+")
MAX_LINE_BYTES = 2000
# Words beyond this length (mangled names, encoded data) lose their middle: a pattern that looks for the beginning
# of a word would otherwise try every place in it.
_LONG_WORD = re.compile(r"(\S{200})\S{40,}(\S{120})")
_QUOTES = str.maketrans("‘’`´「」‚“”«»„", "'" * 7 + '"' * 5)


@dataclass(frozen=True, kw_only=True)
class Event:
    """One firing: the line from 1, captured values, the line itself, its ``head``, the flat text of the match, of the
    lines around it and from it on. ``way``: what fired, the words of a rule, or ``@`` and the kind of a typed event."""

    line: int
    values: dict[str, str]
    evidence: str
    text: str
    around: str
    after: str
    way: str = ""
    head: str = ""


@dataclass(kw_only=True)
class Seen:
    """The events of one rule or signal."""

    count: int = 0
    passed_over: int = 0
    kept: list[Event] = field(default_factory=list)
    last: Event | None = None

    def pass_over(self) -> bool:
        """May this one be left unread? Of many, one in fifty is looked at; the call is counted."""
        if self.count < _ENOUGH:
            return False
        self.passed_over += 1
        return self.passed_over % _NOW_AND_THEN != 0

    def add(self, event: Event) -> None:
        """Count one more, and keep it while there are few."""
        self.count += 1
        if len(self.kept) < _KEPT:
            self.kept.append(event)
        self.last = event

    @property
    def all(self) -> list[Event]:
        """Those that were kept, and the last one."""
        if self.last is None or self.last is self.kept[-1]:
            return list(self.kept)
        return [*self.kept, self.last]


@dataclass(kw_only=True)
class Reading:
    """Everything a log yielded, by rule key, signal id and form key."""

    rules: dict[str, Seen] = field(default_factory=dict)
    signals: dict[str, Seen] = field(default_factory=dict)
    forms: dict[str, Seen] = field(default_factory=dict)
    lines: int = 0
    bytes: int = 0
    tail: str = ""


class Watcher:
    """Rules, signals and forms, made ready to run over blocks of plain lines."""

    def __init__(self, rules: Iterable[Rule], signals: Iterable[Signal], forms: Iterable[Form] = ()) -> None:
        users: dict[bytes, list[tuple[Pattern, str, str]]] = {}
        owners = [(rule.key, "rules", rule.match) for rule in rules]
        owners += [(signal.id, "signals", signal.match) for signal in signals]
        owners += [(form.key, "forms", form.match) for form in forms]
        for key, shelf, patterns in owners:
            for pattern in patterns:
                for word in pattern.words:
                    users.setdefault(word, []).append((pattern, shelf, key))
        self._users = list(users.values())
        self._words = Words(list(users))

    def read(self, blocks: Iterable[bytes]) -> Reading:
        """All that a log yields."""
        reading = Reading()
        looked: collections.Counter[int] = collections.Counter()
        line = 1
        for block, start, stop in _windows(blocks, reading):
            page = _Page(block)
            for position, index in _thin_out(block, self._words.find(block, start, stop), looked):
                line += newlines(block, start, position)
                start = position
                page.turn(position)
                self._add_event(reading, page, position, line, index)
            line += newlines(block, start, stop)
        reading.lines = line - (1 if reading.tail.endswith("\n") or not reading.bytes else 0)
        return reading

    def _add_event(self, reading: Reading, page: "_Page", position: int, line: int, index: int) -> None:
        for pattern, shelf, key in self._users[index]:
            if page.was_asked(pattern, key):
                continue
            around = page.around
            place: dict[str, Seen] = getattr(reading, shelf)
            if key in place and place[key].pass_over():
                continue
            text = around(pattern.before, pattern.lines)
            test = pattern.test
            match = compiled(test).search(text) if test else None
            if test and not match:
                continue
            if pattern.unless and compiled(pattern.unless).search(text):
                continue
            # One regex may capture the same thing in several branches: name, name2, name3. A traceback also shows the
            # source line that made the message, with its placeholders.
            captured = (match.groupdict() if match else {}).items()
            groups = {name: value for name, value in captured if value and not _PLACEHOLDER.search(value)}
            values = {name.rstrip("234567"): value.strip() for name, value in groups.items()}
            event = Event(
                line=line,
                values=values,
                evidence=evidence(page.block, position),
                head=head(page.block, position),
                text=text,
                around=around(6, 3) if shelf != "signals" else "",
                after=around(0, 3) if shelf != "signals" else "",
                way=f"@{kind_of(key)}" if shelf == "forms" else self._words.words[index].decode(),
            )
            place.setdefault(key, Seen()).add(event)


class _Page:
    """The line that is looked at now: its flat texts are made once, and each pattern is asked once, however many words
    stand in it. (Of an overlong line only the part around the word is seen, so there each word is asked.)"""

    def __init__(self, block: bytes) -> None:
        self.block = block
        self._bounds: tuple[int, int] | None = None
        self._texts: dict[tuple[int, int], str] = {}
        self._asked: set[tuple[int, str]] = set()

    def turn(self, position: int) -> None:
        bounds = line_bounds(self.block, position)
        if bounds != self._bounds:
            self._bounds = bounds
            self._position = position
            self._texts = {}
            self._asked = set()

    def was_asked(self, pattern: Pattern, key: str) -> bool:
        mark = (id(pattern), key)
        was_asked = mark in self._asked
        self._asked.add(mark)
        return was_asked

    def around(self, before: int, lines: int) -> str:
        if (before, lines) not in self._texts:
            self._texts[before, lines] = window(self.block, self._position, before=before, lines=lines)
        return self._texts[before, lines]


def _windows(blocks: Iterable[bytes], reading: Reading) -> Iterator[tuple[bytes, int, int]]:
    """``(buffer, first, end)``: every byte is in exactly one ``[first, end)``, up to ``LOOK_BYTES`` stand around it."""
    buffer = b""
    done = 0
    for block in blocks:
        reading.bytes += len(block)
        buffer += block
        if len(buffer) < BLOCK_BYTES:
            continue
        stop = len(buffer) - LOOK_BYTES
        yield buffer, done, stop
        keep = stop - LOOK_BYTES
        buffer, done = buffer[keep:], stop - keep
    yield buffer, done, len(buffer)
    reading.tail = buffer[-4000:].decode("utf-8", "replace")


def _thin_out(block: bytes, hits: list[tuple[int, int]], looked: collections.Counter[int]) -> list[tuple[int, int]]:
    """Of a word that crowds a block: its first and last places, and those in lines that speak of trouble."""
    counts = collections.Counter(index for _, index in hits)
    crowds = {index for index, count in counts.items() if count > _CROWD}
    if not crowds:
        looked.update(counts)
        return hits
    seen: collections.Counter[int] = collections.Counter()
    kept = []
    for position, index in hits:
        if index in crowds:
            seen[index] += 1
            ends = _VERY_ENDS if looked[index] > _EXHAUSTED else _CROWD // 2
            at_end = seen[index] <= ends or seen[index] > counts[index] - ends
            is_over = seen[index] > _CROWD_LIMIT or looked[index] > _TIRED
            if not at_end and (is_over or not _speaks_of_trouble(block, position)):
                continue
        looked[index] += 1
        kept.append((position, index))
    return kept


def _speaks_of_trouble(block: bytes, position: int) -> bool:
    line = block[slice(*line_bounds(block, position))]
    return any(word in line for word in _TROUBLE)


def line_bounds(block: bytes, position: int) -> tuple[int, int]:
    """Begin and end of the line at a position; overlong lines are cut around it."""
    begin = block.rfind(b"\n", max(0, position - MAX_LINE_BYTES), position) + 1
    begin = begin or max(0, position - MAX_LINE_BYTES)
    end = block.find(b"\n", position, position + 2 * MAX_LINE_BYTES)
    return begin, end if end >= 0 else min(len(block), position + 2 * MAX_LINE_BYTES)


def window(block: bytes, position: int, *, before: int, lines: int) -> str:
    """The flat text of ``before`` lines, the line at ``position`` and ``lines - 1`` more."""
    begin, end = line_bounds(block, position)
    for _ in range(before):
        if begin == 0:
            break
        begin, _end = line_bounds(block, begin - 1)
    for _ in range(lines - 1):
        _begin, end = line_bounds(block, end + 1)
    return flatten(block[begin:end].decode("utf-8", "replace"))


def flatten(text: str) -> str:
    """On one line, without framing, quotes made plain."""
    # Most text needs neither of the two slow ways.
    text = text.replace("`", "'") if text.isascii() else text.translate(_QUOTES)
    parts = (_FRAME.sub("", _LONG_WORD.sub(r"\1…\2", line) if len(line) > 359 else line) for line in text.split("\n"))
    return " ".join(" ".join(parts).split())


def head(block: bytes, position: int) -> str:
    """How the line begins: what a logger puts there, which the evidence of a long line leaves out."""
    begin, end = line_bounds(block, position)
    return block[begin : min(end, begin + 60)].decode("utf-8", "replace").strip()


def evidence(block: bytes, position: int) -> str:
    """The line itself, for people: trimmed, at most 300 characters around the word."""
    begin, end = line_bounds(block, position)
    line = block[begin:end].decode("utf-8", "replace")
    at = len(block[begin:position].decode("utf-8", "replace"))
    cut = max(0, min(at - 60, len(line) - 300))
    line = ("…" if cut else "") + line[cut : cut + 300] + ("…" if cut + 300 < len(line) else "")
    return line.strip()
