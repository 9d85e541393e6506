"""Dispatched, unconditional or not told: each road to the answer in a library of a few functions made by hand."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
import pytest

from rekindle.inspect import routes_by_calls as rules
from rekindle.inspect.baseline import FEWEST_WINDOWS, LEAST_BYTES, PER_WINDOW, Spread
from rekindle.inspect.code_graph import CodeGraph
from rekindle.inspect.guards import QuestionNames
from rekindle.inspect.reach import SMALL, Judgement
from rekindle.inspect.routes_by_calls import MOST_RATIO, RoutesByCalls
from small_code import DATA, Made

RET, NOP, CPUID, XGETBV = "c3", "90", "0fa2", "0f01d0"
# je over the next five bytes: a call or a jump
OVER = "7405"
CHECK = QuestionNames(re.compile("^(?:cpuinfo|__cpu)_"), ("cpu",))
AVX = ("avx2",)
ASKER = {"ask": [CPUID, RET]}
NOTHING = "nothing in this library asks the CPU"
OPEN = "exported, and asks nothing of the CPU"
FAR = "used all over the library"


def judge(made: Made, copies: Sequence[str] = (), **uses: str) -> RoutesByCalls:
    """``uses``: function -> what it uses beyond the baseline; ``fast`` uses AVX2 where nothing is said."""
    library = made.scan()
    graph = CodeGraph(library, CHECK)
    rows = {made.number(name): dict.fromkeys(isa.split(), 1) for name, isa in (uses or {"fast": "avx2"}).items()}
    names = list(made.code)
    return RoutesByCalls(graph, rows, lambda number: names[number] in copies, lambda name: name in copies)


def answer(made: Made, copies: Sequence[str] = (), **uses: str) -> Judgement:
    return judge(made, copies, **uses).judge(made.number("fast"), AVX)


def test_nothing_asks() -> None:
    found = answer(Made({"fast": [RET]}, exported=["fast"]))
    assert (found.sure, found.why) == (AVX, NOTHING)
    # A resolver asks by what it is.
    assert answer(Made({"fast": [RET], "choose": [RET]}, resolvers=["choose"])).why != NOTHING
    assert answer(Made({"fast": [RET]}, state=[DATA])).why != NOTHING
    assert answer(Made({"fast": [RET]}, imports={DATA: "__cpu_indicator_init"})).why != NOTHING
    assert answer(Made({"fast": [RET]}, imports={DATA: "memcpy"})).why == NOTHING


def test_bytes_that_only_look_like_the_question() -> None:
    # mov eax, imm32 with the bytes of CPUID in its number
    assert answer(Made({"fast": [RET], "odd": ["b80fa20000", RET]})).why == NOTHING
    assert answer(Made({"fast": [RET], "odd": ["b80f01d000", RET]})).why == NOTHING
    assert answer(Made({"fast": [RET], "ask": [XGETBV, RET]})).why != NOTHING


def test_code_without_a_function_that_asks() -> None:
    made = Made({"fast": [NOP, RET], "last": [RET]})
    library = made.scan()
    for text, asks in ((CPUID, True), ("b80fa20000", False)):
        raw = bytearray(library.binary.view.data)
        raw[0x10 : 0x10 + len(text) // 2] = bytes.fromhex(text)
        library.binary.view.data = bytes(raw)
        assert CodeGraph(library, CHECK).asks_at_all is asks


def test_an_exported_function() -> None:
    found = answer(Made(ASKER | {"fast": [RET]}, exported=["fast"]))
    assert (found.sure, found.untold, found.why, found.entries) == (AVX, (), OPEN, frozenset({"fast"}))
    weak = answer(Made(ASKER | {"fast": [RET]}, weak=["fast"]))
    assert (weak.sure, weak.untold) == ((), ())
    assert answer(Made(ASKER | {"fast": [RET]}, exported=["fast"]), ["fast"]) == Judgement()
    asks = answer(Made({"fast": [CPUID, RET]}, exported=["fast"]))
    assert asks == Judgement()


def test_what_the_loader_calls() -> None:
    found = answer(Made(ASKER | {"fast": [RET]}, started=["fast"]))
    assert (found.sure, found.why, found.entries) == (AVX, "runs when the library is loaded", None)
    asking = answer(Made({"fast": [CPUID, RET]}, started=["fast"]))
    assert asking.sure == AVX


def test_a_call_on_every_road() -> None:
    sure = answer(Made(ASKER | {"door": ["call fast", RET], "fast": [RET]}, exported=["door"]))
    assert (sure.sure, sure.chain, sure.entries) == (AVX, ("door",), frozenset({"door"}))
    assert sure.why == "called by door, which asks nothing of the CPU"
    deep = {"door": ["call mid", RET], "mid": ["call low", RET], "low": ["jmp fast"], "fast": [RET]}
    assert answer(Made(ASKER | deep, exported=["door"])).chain == ("low", "mid", "door")


def test_a_call_on_one_road() -> None:
    made = Made(ASKER | {"door": [OVER, "call fast", RET], "fast": [RET]}, exported=["door"])
    found = answer(made)
    assert (found.sure, found.untold, found.chain) == ((), AVX, ("door",))
    assert found.why == "called by door, but not on every road through it"
    assert found.entries == frozenset({"door"})
    two = {"door": [OVER, "call mid", RET], "mid": ["call fast", RET], "fast": [RET]}
    assert answer(Made(ASKER | two, exported=["door"])).untold == AVX


def test_a_caller_that_asks() -> None:
    itself = {"door": [CPUID, "call fast", RET], "fast": [RET]}
    assert answer(Made(itself, exported=["door"])) == Judgement(why=FAR)
    through = {"door": ["call ask", "call fast", RET], "fast": [RET]}
    assert answer(Made(ASKER | through, exported=["door"])).sure == ()
    known = {"door": ["call cpuinfo_initialize", "call fast", RET], "fast": [RET], "cpuinfo_initialize": [RET]}
    assert answer(Made(ASKER | known, exported=["door"])).sure == ()
    reads = Made(ASKER | {"door": ["call fast", RET], "fast": [RET]}, exported=["door"], state=[DATA])
    assert answer(reads).sure == AVX
    reads.reads = [("door", DATA)]
    assert answer(reads).sure == ()
    resolver = Made({"door": ["call fast", RET], "fast": [RET]}, exported=["door"], resolvers=["door"])
    assert answer(resolver).sure == ()


@pytest.mark.parametrize(("size", "guarded"), [(SMALL, True), (SMALL + 1, False)])
def test_a_small_function_between(size: int, guarded: bool) -> None:
    middle = ["call ask", "90" * (size - 6), RET]
    made = Made(ASKER | {"door": ["call mid", "call fast", RET], "mid": middle, "fast": [RET]}, exported=["door"])
    assert (answer(made).sure == ()) is guarded


def test_only_a_pointer_leads_there() -> None:
    rest = {"door": [RET], "fast": [RET]}
    taken = answer(Made(ASKER | rest, exported=["door"], takes=[("door", "fast")]))
    assert (taken.sure, taken.untold, taken.chain) == ((), AVX, ("door",))
    assert taken.why == "a pointer to it lies where code gets that asks nothing of the CPU"
    table = Made(ASKER | rest, exported=["door"], pointers={DATA + 8: "fast"}, touches=[("door", DATA, False)])
    assert answer(table).untold == AVX
    before = Made(ASKER | rest, exported=["door"], pointers={DATA: "fast"}, touches=[("door", DATA + 8, False)])
    assert answer(before).why == FAR
    assert answer(Made(ASKER | rest, exported=["door"])) == Judgement(why=FAR)
    nobody = Made(ASKER | rest, takes=[("door", "fast")])
    assert answer(nobody) == Judgement(why=FAR)


def test_one_of_two_copies() -> None:
    def door(size: int, other: int, **uses: str) -> Judgement:
        code = {"door": ["je slow", "jmp fast"], "fast": ["90" * (size - 1), RET], "slow": ["90" * (other - 1), RET]}
        return answer(Made(ASKER | code, exported=["door"]), (), **{"fast": "avx2", **uses})

    assert door(20, 20).untold == ()
    assert door(20 * MOST_RATIO, 20).untold == ()
    assert door(20 * MOST_RATIO + 1, 20).untold == AVX
    assert door(20, 20 * MOST_RATIO).untold == ()
    assert door(20, 20 * MOST_RATIO + 1).untold == AVX
    # The other needs the same: it is no copy for older CPUs.
    assert door(20, 20, slow="avx2 fma").untold == AVX
    assert door(20, 20, slow="avx2").untold == AVX
    assert door(20, 20, slow="fma").untold == ()


def test_a_python_extension_is_entered_at_one_place() -> None:
    code = {"PyInit_x": ["call setup", RET], "setup": [RET], "fast": [RET], "odd": ["call fast", RET]}
    made = Made(ASKER | code, exported=["PyInit_x", "odd", "fast"])
    one = judge(made)
    assert not one.offers
    assert one.roots == {made.number("PyInit_x")}
    assert one.judge(made.number("fast"), AVX).sure == ()
    plain = Made(ASKER | {"init": [RET], "fast": [RET]}, exported=["init", "fast"])
    assert judge(plain).offers
    called = Made(ASKER | {"PyInit_x": ["call fast", RET], "fast": [RET]}, exported=["PyInit_x"])
    assert (answer(called).sure, answer(called).entries) == (AVX, None)


def test_where_it_is_entered_from() -> None:
    code = {"one": ["call fast", RET], "two": ["call mid", RET], "mid": ["call fast", RET], "fast": [RET]}
    guarded = {"three": [CPUID, "call fast", RET]}
    made = Made(ASKER | code | guarded, exported=["one", "two", "three"])
    assert answer(made).entries == frozenset({"one", "two"})
    made.started = ["two"]
    assert answer(made).entries is None


def test_too_much_to_follow(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(ASKER | {"door": ["call mid", RET], "mid": ["call fast", RET], "fast": [RET]}, exported=["door"])
    monkeypatch.setattr(rules, "MOST_ASKED", 2)
    one = judge(made)
    assert [one.judge(made.number("fast"), AVX).entries for _ in range(3)] == [{"door"}, {"door"}, None]
    monkeypatch.setattr(rules, "MOST_BACK", 3)
    assert answer(made).entries == frozenset({"door"})
    monkeypatch.setattr(rules, "MOST_BACK", 2)
    assert answer(made).entries is None
    monkeypatch.setattr(rules, "MOST_CHAIN", 1)
    assert answer(made).chain == ("mid",)


def test_what_runs_at_load() -> None:
    code = {"init": ["call mid", OVER, "call rare", RET], "mid": [NOP, "7401", NOP, RET], "rare": [RET], "x": [NOP]}
    made = Made(ASKER | code, started=["init"])
    one = judge(made, (), mid="avx2")
    start = made.at("mid")
    assert one.runs_at_load(made.number("mid"), [start])
    assert not one.runs_at_load(made.number("mid"), [start + 3])
    assert one.runs_at_load(made.number("mid"), [start + 3, start + 4])
    assert not one.runs_at_load(made.number("mid"), [])
    assert not one.runs_at_load(made.number("rare"), [made.at("rare")])
    assert not one.runs_at_load(made.number("x"), [made.at("x")])


def test_a_level_in_a_template_tells_copies_apart() -> None:
    fast, slow = "_Z4workILNS_5LevelE2EEvv", "_Z4workILNS_5LevelE1EEvv"
    made = Made(ASKER | {fast: [RET], slow: [RET]}, exported=[fast, slow])
    number = made.number(fast)
    assert judge(made, (), **{fast: "avx2"}).judge(number, AVX) == Judgement(why=FAR)
    assert judge(made, (), **{fast: "avx2", slow: "avx2"}).judge(number, AVX).sure == AVX
    assert judge(made, (), **{fast: "avx2", slow: "fma"}).judge(number, AVX).sure == ()
    plain = Made(ASKER | {"work2": [RET], "work1": [RET]}, exported=["work2"])
    assert judge(plain, (), work2="avx2").judge(plain.number("work2"), AVX).sure == AVX


@pytest.mark.parametrize(("offered", "everywhere"), [(rules.MANY_OFFERED, True), (rules.MANY_OFFERED - 1, False)])
def test_what_many_doors_use_is_everywhere(offered: int, everywhere: bool) -> None:
    doors = {f"door{n}": [RET] for n in range(offered)}
    made = Made(ASKER | doors, exported=list(doors))
    second = judge(made, (), **dict.fromkeys(doors, "sse4.1"))
    assert ("sse4.1" in second.spread.everywhere) is everywhere
    later = judge(made, (), **dict.fromkeys(doors, "avx2"))
    assert "avx2" not in later.spread.everywhere
    asking = Made({name: [CPUID, RET] for name in doors}, exported=list(doors))
    assert "sse4.1" not in judge(asking, (), **dict.fromkeys(doors, "sse4.1")).spread.everywhere
    copies = judge(made, list(doors), **dict.fromkeys(doors, "sse4.1"))
    assert "sse4.1" not in copies.spread.everywhere


def test_what_is_everywhere_is_needed_by_everybody() -> None:
    doors = {f"door{n}": [RET] for n in range(rules.MANY_OFFERED)}
    code = {"way": [OVER, "call fast", RET], "fast": [RET]}
    made = Made(ASKER | doors | code, exported=[*doors, "way"])
    one = judge(made, (), **dict.fromkeys(doors, "sse4.1"), fast="sse4.1 avx2")
    both = one.judge(made.number("fast"), ("sse4.1", "avx2"))
    assert (both.sure, both.untold, both.entries) == (("sse4.1",), ("avx2",), None)
    alone = one.judge(made.number("fast"), ("sse4.1",))
    assert (alone.sure, alone.untold, alone.why, alone.chain) == (("sse4.1",), (), FAR, ("way",))


def test_who_reads_what_an_asker_wrote() -> None:
    code = {"ask": [CPUID, RET], "door": ["call fast", RET], "fast": [RET]}
    kept = ("ask", DATA + 0x100, True)
    for place, guarded in ((0x100, True), (0x0FF, False), (0x140, False)):
        made = Made(code, exported=["door"], touches=[kept, ("door", DATA + place, False)])
        assert (answer(made).sure == ()) is guarded
    # A small function between that reads it
    for size, guarded in ((SMALL, True), (SMALL + 1, False)):
        between = code | {"door": ["call mid", "call fast", RET], "mid": ["90" * (size - 1), RET]}
        made = Made(between, exported=["door"], touches=[kept, ("mid", DATA + 0x100, False)])
        assert (answer(made).sure == ()) is guarded


def test_what_fills_the_tables_at_loading_is_no_guard() -> None:
    code = {"init": [CPUID, "call fast", RET], "fast": [RET]}
    assert answer(Made(code, started=["init"])).sure == AVX
    # The pointers it hands out lead nowhere by themselves: it asks before it does.
    chooses = {"init": [CPUID, RET], "fast": [RET]}
    assert answer(Made(chooses, started=["init"], takes=[("init", "fast")])) == Judgement(why=FAR)
    plain = ASKER | {"init": [RET], "fast": [RET]}
    assert answer(Made(plain, started=["init"], takes=[("init", "fast")])).untold == AVX
    # One that others call does guard.
    assert answer(Made(chooses, exported=["init"], takes=[("init", "fast")])) == Judgement(why=FAR)


def test_copies_by_name_let_nobody_through() -> None:
    code = ASKER | {"door": ["call fast_avx", RET], "fast_avx": ["call fast", RET], "fast": [RET]}
    made = Made(code, exported=["door"])
    assert answer(made).sure == AVX
    assert answer(made, ["fast_avx"]).sure == ()
    # One that says nothing of it, and neither uses it nor calls what does, is not even asked.
    far = {"door": ["call mid", RET], "mid": ["call low", RET], "low": ["call fast", RET], "fast": [RET]}
    library = Made(ASKER | far, exported=["door"]).scan()
    names = list(ASKER | far)
    one = RoutesByCalls(
        CodeGraph(library, CHECK),
        {names.index("fast"): {"avx2": 1}},
        lambda number: names[number] == "mid",
        lambda name: False,
    )
    assert one.judge(names.index("fast"), AVX).sure == AVX


def test_a_corner_to_which_only_pointers_lead_is_chosen_at_run_time() -> None:
    made = Made(ASKER | {"door": [RET], "fast": [RET]}, exported=["door"], takes=[("door", "fast")])
    for few, untold in ((frozenset({"avx2"}), ()), (frozenset({"fma"}), AVX)):
        one = judge(made)
        one.__dict__["spread"] = Spread(frozenset(), few)
        assert one.judge(made.number("fast"), AVX).untold == untold


def test_what_is_not_named_is_exported_for_all_that() -> None:
    weak = Made(ASKER | {"fast": [RET]}, weak=["fast"])
    assert judge(weak).roots == frozenset()
    weak.stripped = ["fast"]
    assert judge(weak).roots == {1}


def test_a_long_chain() -> None:
    def long(steps: int) -> Judgement:
        code = {f"s{n}": [f"call s{n + 1}", RET] for n in range(steps - 1)}
        code |= {f"s{steps - 1}": ["call fast", RET], "fast": [RET]}
        return answer(Made(ASKER | code, exported=["s0"]))

    # Twelve names are shown; sixty-four callers are followed for certain.
    assert long(13).chain == tuple(f"s{n}" for n in range(12, 0, -1))
    assert (long(64).sure, long(64).untold) == (AVX, ())
    assert (long(65).sure, long(65).untold) == ((), AVX)


@pytest.mark.parametrize(("size", "sure"), [(1 << 18, AVX), ((1 << 18) + 1, ())])
def test_a_huge_function_is_not_followed(size: int, sure: tuple[str, ...]) -> None:
    code = ASKER | {"fast": [RET], "door": ["call fast", "90" * (size - 6), RET]}
    assert answer(Made(code, exported=["door"])).sure == sure


def test_sixteen_doors_and_eight_times_the_size() -> None:
    """The two numbers that were found over wheels of which is known where they run."""
    for count, everywhere in ((16, {"sse4.1"}), (15, set())):
        doors = {f"door{n}": [RET] for n in range(count)}
        one = judge(Made(ASKER | doors, exported=list(doors)), (), **dict.fromkeys(doors, "sse4.1"))
        assert one.spread.everywhere == everywhere
    for size, untold in ((160, ()), (161, AVX)):
        code = {"door": ["je slow", "jmp fast"], "fast": ["90" * (size - 1), RET], "slow": ["90" * 19, RET]}
        assert answer(Made(ASKER | code, exported=["door"])).untold == untold


def test_a_choice_between_copies_behind_stubs() -> None:
    slot, stub = DATA + 0x800, 0x700000
    made = Made(
        ASKER | {"door": [f"je {stub + 16:#x}", f"jmp {stub:#x}"], "fast": [NOP, RET], "slow": [NOP, RET]},
        exported=["door"],
        stubs={stub: slot, stub + 16: slot + 8},
        pointers={slot: "fast", slot + 8: "slow"},
    )
    assert answer(made).untold == ()
    # The other side leads out of the library: no copy of this one.
    made.pointers, made.imports = {slot: "fast"}, {slot + 8: "memcpy"}
    assert answer(made).untold == AVX


def test_only_a_choice_that_outside_code_gets_to_is_one() -> None:
    # The chooser is asked by a guard before: whoever gets there got the answer.
    code = ASKER | {
        "door": [CPUID, "call choose", RET],
        "choose": ["je slow", "jmp fast"],
        "fast": [NOP, RET],
        "slow": [NOP, RET],
    }
    assert answer(Made(code, exported=["door"])) == Judgement(why=FAR)


def test_what_loading_leads_to_and_no_further(monkeypatch: pytest.MonkeyPatch) -> None:
    code = {"init": ["call a", RET], "a": ["call b", "call init", RET], "b": [RET]}
    made = Made(ASKER | code, started=["init"])
    at = {name: made.at(name) for name in code}
    for most, reached in ((4000, ["init", "a", "b"]), (1, ["init", "a"]), (0, ["init"])):
        monkeypatch.setattr(rules, "MOST_BACK", most)
        one = judge(made, (), b="avx2")
        assert [name for name in code if one.runs_at_load(made.number(name), [at[name]])] == reached


def test_arm_code_is_followed_too() -> None:
    ret, nop = "c0035fd6", "1f2003d5"
    # bl to the next page (0x400 words on); cbz over it
    call, over = "00040094", "400000b4"
    for door, sure, untold in (([call, ret], AVX, ()), ([over, "ff030094", ret], (), AVX)):
        made = Made({"door": door, "fast": [nop, ret], "ask": [ret]}, exported=["door"], machine="aarch64")
        library = made.scan()
        library.scan.calls = np.array([[0, made.at("fast")]], np.int64)
        library.scan.asks = np.array([2], np.int64)
        one = RoutesByCalls(CodeGraph(library, CHECK), {1: {"avx2": 1}}, lambda number: False, lambda name: False)
        found = one.judge(1, AVX)
        assert (found.sure, found.untold) == (sure, untold)


def test_a_table_of_pointers_is_a_way_in_too() -> None:
    code = {"door": [OVER, "call fast", RET], "fast": [RET], "table": [RET]}
    made = Made(ASKER | code, exported=["door", "table"], pointers={DATA + 8: "fast"})
    assert answer(made).entries == frozenset({"door"})
    made.touches = [("table", DATA + 8, False)]
    assert answer(made).entries == frozenset({"door", "table"})


@pytest.mark.parametrize(
    ("size", "legacy", "machine", "everywhere"),
    [
        (LEAST_BYTES, False, "x86_64", True),
        (LEAST_BYTES - 1, False, "x86_64", False),
        # Most functions with vectors have the older encoding: it was not all built for AVX. Arm has no such thing.
        (LEAST_BYTES, True, "x86_64", False),
        (LEAST_BYTES, True, "aarch64", True),
    ],
)
def test_a_library_compiled_for_it_as_a_whole(size: int, legacy: bool, machine: str, everywhere: bool) -> None:
    count = FEWEST_WINDOWS * PER_WINDOW
    code = {f"f{n}": ["90" * (size - 1), RET] for n in range(count)}
    made = Made(code, machine=machine)
    library = made.scan()
    if legacy:
        library.scan.legacy = np.arange(1, count, 2, dtype=np.int64)
    uses = {number: {"avx2": 1} for number in range(0, count, PER_WINDOW)}
    one = RoutesByCalls(CodeGraph(library, CHECK), uses, lambda number: False, lambda name: False)
    assert ("avx2" in one.spread.everywhere) is everywhere


@pytest.mark.parametrize(("copies", "lone"), [(6, True), (5, False)])
def test_one_function_left_open_beside_many_copies(copies: int, lone: bool) -> None:
    """As parasail_memset___m256i in parasail 1.3.4: whoever calls it by name must ask, and nobody else meets it."""
    fast = {f"copy{n}": [RET] for n in range(copies)}
    code, uses = ASKER | fast | {"fast": [RET]}, dict.fromkeys([*fast, "fast"], "avx2")
    found = answer(Made(code, exported=["fast"]), (), **uses)
    assert (found.sure, found.why) == (AVX, OPEN)
    assert found.guard == (rules.LONE_EXPORT if lone else None)
    at_load = answer(
        Made(ASKER | fast | {"fast": [RET]}, started=["fast"]), (), **dict.fromkeys([*fast, "fast"], "avx2")
    )
    assert at_load.guard is None
