"""Events: what each one carries, how many are kept, and what of a crowd is looked at."""

from __future__ import annotations

import collections

import pytest

from rekindle.explain.events import Reading, Seen, Watcher, _Page, _speaks_of_trouble, _thin_out, _windows
from rekindle.explain.rule import Form, Pattern, Rule, Signal, load_signals
from scenes import event, seen

MIB = 1 << 20
LOOK = 16 << 10


def rule(*patterns: Pattern, name: str = "r") -> Rule:
    return Rule(id=name, title="t", stage="compile", cause="c", fix=(), source="s", match=patterns)


def read(text: str, *patterns: Pattern) -> Seen | None:
    return Watcher([rule(*patterns)], []).read([text.encode()]).rules.get("r")


def test_the_first_twelve_and_the_last_are_kept() -> None:
    events = [event(line) for line in range(1, 16)]
    assert seen(*events[:12]).all == events[:12]
    assert seen(*events[:13]).all == events[:13]
    assert seen(*events[:15]).all == [*events[:12], events[14]]
    assert seen(*events).count == 15 and Seen().count == 0 and Seen().all == []


def test_after_forty_one_in_fifty_is_read() -> None:
    found = Seen(count=39)
    assert [found.pass_over() for _ in range(60)] == [False] * 60
    found.count = 40
    assert [at for at in range(1, 151) if not found.pass_over()] == [50, 100, 150]


def windows(*blocks: bytes) -> tuple[list[tuple[int, int, int]], Reading]:
    """The windows, and what is read in them."""
    found = [(len(buffer), first, end) for buffer, first, end in _windows(blocks, Reading())]
    return found, Watcher((), load_signals()).read(blocks)


@pytest.mark.parametrize(
    ("text", "lines"), [(b"", 0), (b"a", 1), (b"a\n", 1), (b"a\nb", 2), (b"a\nb\n", 2), (b"\n", 1), (b"\n\n", 2)]
)
def test_lines_and_bytes_of_a_small_log(text: bytes, lines: int) -> None:
    found, reading = windows(text)
    assert found == [(len(text), 0, len(text))]
    assert (reading.lines, reading.bytes, reading.tail) == (lines, len(text), text.decode())


def test_a_reading_begins_empty() -> None:
    assert (Reading().lines, Reading().bytes, Reading().tail) == (0, 0, "")


def test_a_log_below_a_megabyte_is_one_window() -> None:
    assert windows(b"x" * (MIB - 1))[0] == [(MIB - 1, 0, MIB - 1)]
    assert windows(b"x" * (MIB - 2), b"y")[0] == [(MIB - 1, 0, MIB - 1)]


def test_from_a_megabyte_on_windows_overlap_and_every_byte_is_looked_at_once() -> None:
    block = b"\n" * MIB
    found, reading = windows(block, block)
    assert found == [
        (MIB, 0, MIB - LOOK),
        (MIB + 2 * LOOK, LOOK, MIB + LOOK),
        (2 * LOOK, LOOK, 2 * LOOK),
    ]
    assert (reading.lines, reading.bytes) == (2 * MIB, 2 * MIB)


def test_the_last_line_without_an_end_is_counted_in_a_later_window() -> None:
    assert windows(b"\n" * MIB + b"x")[1].lines == MIB + 1
    assert windows(b"\n" * MIB, b"x")[1].lines == MIB + 1


@pytest.mark.parametrize("gap", [1, 100, 16383, 16384, 100_000, 3 * MIB])
def test_an_event_knows_its_line_however_far_the_last_one_is(gap: int) -> None:
    """Near ones and far ones are counted in two ways."""
    text = b"\n" * 7 + b"[ 2%] it/s]\nEpoch 1\n" + b"\n" * gap + b"Epoch 2\n"
    reading = windows(text)[1]
    assert [event.line for event in reading.signals["went-on"].all] == [9, 10 + gap]
    assert reading.lines == 10 + gap


def test_the_tail_is_the_end_of_the_log() -> None:
    text = b"a" * 10 + b"b" * 4000
    assert windows(text)[1].tail == "b" * 4000
    assert windows(b"a" + text[-3999:])[1].tail == "a" + "b" * 3999


def hits(count: int, word: int = 0) -> list[tuple[int, int]]:
    return [(2 * at, word) for at in range(count)]


def kept(count: int, block: bytes, looked: int = 0) -> list[int]:
    """Which of so many places (from 1) are looked at."""
    counter = collections.Counter({0: looked})
    found = _thin_out(block, hits(count), counter)
    assert counter[0] == looked + len(found)
    return [position // 2 + 1 for position, _ in found]


QUIET = b"x\n" * 1000
TROUBLE = b"x error" * 2000


def test_a_few_are_all_looked_at() -> None:
    assert kept(24, QUIET) == list(range(1, 25))
    assert _thin_out(QUIET, [], collections.Counter()) == []


def test_of_a_crowd_both_ends() -> None:
    assert kept(25, QUIET) == [*range(1, 13), *range(14, 26)]
    assert kept(500, QUIET) == [*range(1, 13), *range(489, 501)]


def test_what_speaks_of_trouble_is_looked_at_up_to_a_limit() -> None:
    assert kept(100, TROUBLE) == list(range(1, 101))
    assert kept(400, TROUBLE) == [*range(1, 301), *range(389, 401)]


def test_only_the_line_of_trouble_itself_counts() -> None:
    block = b"x\n" * 30 + b"y" * 10 + b"rror\n" + b"x\n" * 100  # the line of trouble begins at 60
    places = [*range(0, 62, 2), *range(75, 155, 2)]
    found = _thin_out(block, [(place, 0) for place in places], collections.Counter())
    assert [position for position, _ in found] == [*range(0, 24, 2), 60, *range(131, 155, 2)]


def test_a_tired_word_is_looked_at_only_at_both_ends() -> None:
    assert kept(100, TROUBLE, 1188) == [*range(1, 14), *range(89, 101)]
    assert kept(100, TROUBLE, 1187) == [*range(1, 15), *range(89, 101)]
    assert kept(100, TROUBLE, 4000) == [*range(1, 13), *range(89, 101)]


def test_an_exhausted_word_only_at_the_very_ends() -> None:
    assert kept(100, TROUBLE, 6000) == [1, 2, 99, 100]
    assert kept(100, TROUBLE, 4990) == [*range(1, 12), 99, 100]
    assert kept(100, TROUBLE, 4989) == [*range(1, 13), 99, 100]


def test_a_word_beside_a_crowd_loses_nothing() -> None:
    crowd = sorted([*hits(100), *((2 * at + 1, 7) for at in range(24))])
    counter: collections.Counter[int] = collections.Counter()
    found = _thin_out(QUIET, crowd, counter)
    assert [position for position, word in found if word == 7] == [2 * at + 1 for at in range(24)]
    assert counter == {0: 24, 7: 24}
    tired = _thin_out(QUIET, crowd, collections.Counter({7: 6000}))
    assert len([word for _, word in tired if word == 7]) == 24


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b"fatal error", True), (b"Errno 2", True), (b"Killed", True), (b"undefined reference", True),
        (b"was refused", True), (b"all is well", False), (b"", False),
    ],
)  # fmt: skip
def test_words_of_trouble(line: bytes, answer: bool) -> None:
    block = b"before error\n" + line + b"\nafter error\n"
    assert _speaks_of_trouble(block, 13) is answer


def test_the_place_and_the_lines_around() -> None:
    text = "".join(f"line{number}\n" for number in range(1, 21)).replace("line10", "word10")
    found = read(text, Pattern(has=("word",)))
    assert found is not None and found.count == 1
    here = found.all[0]
    assert (here.line, here.evidence, here.head, here.text, here.way) == (10, "word10", "word10", "word10", "word")
    assert here.around == "line4 line5 line6 line7 line8 line9 word10 line11 line12"
    assert here.after == "word10 line11 line12"


def test_signals_carry_no_surroundings_and_forms_their_kind() -> None:
    pattern = Pattern(has=("word",))
    form = Form(event="missing-header", match=(pattern,), dialect="gcc", number=3)
    reading = Watcher([], [Signal(id="s", match=(pattern,))], [form]).read([b"a\nword\nb\n"])
    signal, typed = reading.signals["s"].all[0], reading.forms["gcc/missing-header/3"].all[0]
    assert (signal.around, signal.after, signal.line, signal.way) == ("", "", 2, "word")
    assert (typed.around, typed.after, typed.line, typed.way) == ("a word b", "word b", 2, "@missing-header")


def test_several_places_have_their_own_lines() -> None:
    found = read("\nword\n\nword word\nword", Pattern(has=("word",)))
    assert found is not None and [each.line for each in found.all] == [2, 4, 5]


def test_one_pattern_is_asked_once_in_a_line_another_too() -> None:
    found = read("first second\nsecond\n", Pattern(has=("first", "second")))
    assert found is not None and [each.line for each in found.all] == [1, 2]
    found = read("first second\n", Pattern(has=("first",)), Pattern(has=("second",)))
    assert found is not None and [each.way for each in found.all] == ["first", "second"]


def test_in_an_overlong_line_each_part_is_asked() -> None:
    found = read("word" + " " * 9000 + "word tail", Pattern(has=("word",), regex="word tail"))
    assert found is not None and found.count == 1


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("word a=  x1 ;", {"name": "x1"}),
        ("word b=y2 ;", {"name": "y2"}),
        ("word a={path} ;", {}),
        ("word a=%s ;", {}),
        ("word c ;", {}),
    ],
)
def test_captured_values_are_clean(text: str, values: dict[str, str]) -> None:
    regex = r"a=(?P<name>[^;]*);|b=(?P<name2>[^;]*);|c ;"
    found = read(text, Pattern(has=("word",), regex=regex))
    assert found is not None and found.all[0].values == values


def test_a_regex_that_does_not_match_and_an_exception_that_does() -> None:
    pattern = Pattern(has=("word",), regex="word [ab]", unless="word b")
    assert read("word a", pattern) is not None
    assert read("word b", pattern) is None
    assert read("word c", pattern) is None
    assert read("word", Pattern(has=("word",), unless="nothing")) is not None


def test_a_pattern_looks_as_far_as_it_says() -> None:
    pattern = Pattern(has=("word",), regex="^before word after$", before=1, lines=2)
    assert read("x\nbefore\nword\nafter\nx", pattern) is not None
    assert read("x\nbefore\nmore\nword\nafter\nx", pattern) is None


def test_a_log_that_repeats_itself_is_read_now_and_then() -> None:
    found = read("word error\n" * 400, Pattern(has=("word",)))
    # 312 places of the crowd are looked at: the first 40, and of the 272 others one in fifty
    assert found is not None and (found.count, found.passed_over) == (45, 272)
    assert len(found.all) == 13 and found.all[-1].line > 200


def test_a_page_makes_its_texts_once_a_line() -> None:
    page, pattern = _Page(b"one two\nthree\n"), Pattern(has=("word",))
    page.turn(0)
    assert page.around(0, 1) == "one two"
    assert page.was_asked(pattern, "k") is False
    assert page.was_asked(pattern, "k") is True
    assert not page.was_asked(pattern, "other")
    page.turn(4)
    assert page.was_asked(pattern, "k")
    page.turn(9)
    assert page.around(0, 1) == "three" and not page.was_asked(pattern, "k")
    assert page.around(1, 1) == "one two three"


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ('raise ValueError(f"no kernel for {arch}")', False),
        ('raise ValueError("no kernel for {}".format(arch))', False),
        ('raise ValueError("no kernel for %s" % arch)', False),
        ("no kernel for {'demo[cpu]', 'demo[cu128]'}", True),
        ("no kernel for 90% of the cards", True),
    ],
)
def test_a_source_line_with_placeholders_says_nothing(text: str, kept: bool) -> None:
    """What a program prints may hold braces and percent signs as well: only placeholders are left out."""
    found = read(text, Pattern(has=("no kernel",), regex="(?P<message>no kernel for .*)"))
    assert found is not None and ("message" in found.all[0].values) is kept
