"""Who calls whom, who asks the CPU and who reads its answer: each rule in a library of a few functions by hand."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rekindle.formats.functions import Code
from rekindle.inspect.code_graph import MOST_BETWEEN, CodeGraph
from rekindle.inspect.guards import QuestionNames
from rekindle.inspect.reach import FIELDS, SMALL
from small_code import DATA, FIRST, PAGE, Made, section

RET, NOP, CPUID, XGETBV = "c3", "90", "0fa2", "0f01d0"
CHECK = QuestionNames(re.compile("^(?:cpuinfo|__cpu)_"), ("cpu",))
ASK = "cpuinfo_initialize"
SLOT, STUB = DATA + 0x800, 0x700000


def graph(made: Made) -> CodeGraph:
    return CodeGraph(made.scan(), CHECK)


def called(made: Made, name: str) -> list[str]:
    """Those who really call it."""
    names = list(made.code)
    return [names[caller] for caller in graph(made).callers(made.number(name))]


def test_the_function_that_starts_at_an_address() -> None:
    found = graph(Made({"a": [NOP, RET], "b": [RET]}))
    asked = [FIRST - 1, FIRST, FIRST + 1, FIRST + PAGE, FIRST + PAGE + 1, 0]
    assert found.numbers(np.array(asked, np.int64)).tolist() == [-1, 0, -1, 1, -1, -1]
    assert graph(Made({})).numbers(np.array([0, FIRST], np.int64)).tolist() == [-1, -1]


@pytest.mark.parametrize("how", ["e8", "e9", "0f84", "0f80", "0f8f", "f2e8", "3e0f85", "2e0f84", "66e9"])
def test_calls_jumps_and_tests_are_calls(how: str) -> None:
    made = Made({"a": [f"{how} @b", RET], "b": [RET], "c": ["call b", RET]})
    assert called(made, "b") == ["a", "c"]
    assert called(made, "a") == []


@pytest.mark.parametrize("how", ["ea", "e7", "0f94", "0f74", "0f24", "f3e8", "0e84"])
def test_other_instructions_are_no_calls(how: str) -> None:
    made = Made({"a": [f"{how} @b", RET], "b": [RET]}, takes=[("a", "b")])
    assert called(made, "b") == []


def test_bytes_that_look_like_a_call_inside_another_instruction() -> None:
    # mov rax, imm64 that holds the bytes of a call
    made = Made({"a": ["48b8 e8", "90" * 7, RET], "b": [RET]}, takes=[("a", "b")])
    distance = made.at("b") - made.at("a") - 2 - 5
    made.code = {"a": ["48b8e8" + distance.to_bytes(4, "little").hex() + "909090", RET], "b": [RET]}
    assert called(made, "b") == []
    # Of Arm code the candidates of the scan are right as they are: instructions have one size.
    made.machine = "aarch64"
    assert called(made, "b") == ["a"]
    assert graph(made).calls(0, 1)


def test_a_call_of_the_function_itself_is_no_edge() -> None:
    made = Made({"a": ["call a", RET], "b": ["call a", RET]})
    assert called(made, "a") == ["b"]
    caller, callee = graph(made).edges
    assert (caller.tolist(), callee.tolist()) == ([1], [0])


def test_a_call_behind_a_stub_and_through_a_slot() -> None:
    behind = Made(
        {"a": [f"call {STUB:#x}", RET], "b": [RET], "c": [f"call {STUB + 16:#x}", RET]},
        stubs={STUB: SLOT, STUB + 16: SLOT + 8},
        pointers={SLOT: "b", SLOT + 8: DATA},
    )
    assert called(behind, "b") == ["a"]
    found = graph(behind)
    assert found.calls(0, 1)
    assert not found.calls(2, 1)
    assert (found.edges[0].tolist(), found.edges[1].tolist()) == ([0], [1])
    slot = Made({"a": [f"ff15 @{SLOT:#x}", RET], "b": [RET]}, pointers={SLOT: "b"}, takes=[("a", "b")])
    assert called(slot, "b") == ["a"]
    # The last instruction of a function
    last = Made({"a": [f"ff25 @{SLOT:#x}"], "b": [RET]}, pointers={SLOT: "b"}, takes=[("a", "b")])
    assert called(last, "b") == ["a"]
    slot.pointers = {SLOT - 8: "b"}
    assert called(slot, "b") == []


def test_where_a_call_may_go() -> None:
    made = Made(
        {"a": [RET], "b": [RET]},
        stubs={STUB: SLOT, STUB + 16: SLOT + 8, STUB + 32: SLOT + 16},
        pointers={SLOT: "b", SLOT + 16: "b"},
        imports={SLOT + 8: "memcpy"},
    )
    found = graph(made)
    assert found.stubs_to(0) == [FIRST]
    assert found.stubs_to(1) == [FIRST + PAGE, STUB, STUB + 32]
    places = [FIRST, FIRST + 1, FIRST + PAGE, STUB, STUB + 16, STUB + 32, STUB + 48]
    assert [found.number_at(place) for place in places] == [0, None, 1, 1, None, 1, None]


def test_calls_of_imported_functions_that_ask() -> None:
    made = Made(
        {"a": [f"call {STUB:#x}", RET], "b": [f"call {STUB + 16:#x}", RET], "c": [f"call {STUB:#x}", RET]},
        stubs={STUB: SLOT, STUB + 16: SLOT + 8},
        imports={SLOT: ASK, SLOT + 8: "memcpy"},
    )
    found = graph(made)
    assert dict(found.import_askers) == {0: [ASK], 2: [ASK]}
    assert [found.checks(number) for number in range(3)] == [True, False, True]
    assert found.asks_at_all
    assert found.by_slot.of(SLOT) == [0, 2]
    assert found.by_slot.of(SLOT + 8) == [1]


def test_who_takes_an_imported_function() -> None:
    read = Made({"a": [RET], "b": [RET]}, imports={SLOT: ASK, SLOT + 8: "x"}, reads=[("b", SLOT)])
    assert graph(read).by_slot.of(SLOT) == [1]
    assert graph(read).by_slot.of(SLOT + 8) == []
    # A call of something that is no stub, before, between and after the stubs
    made = Made(
        {"a": [f"call {STUB - 16:#x}", f"call {STUB + 8:#x}", f"call {STUB + 64:#x}", RET]},
        stubs={STUB: SLOT, STUB + 16: SLOT + 8},
    )
    assert [graph(made).by_slot.of(SLOT), graph(made).by_slot.of(SLOT + 8)] == [[], []]


def test_who_reads_what_is_known_by_name() -> None:
    made = Made(
        {"a": [RET], "b": [RET], "c": [RET], "d": [RET]},
        imports={SLOT: ASK, SLOT + 8: "memcpy"},
        state=[DATA + 4],
        reads=[("a", SLOT), ("b", SLOT + 8), ("c", DATA + 4), ("d", DATA + 5)],
    )
    found = graph(made)
    assert found.state_readers == {0, 2}
    assert [found.checks(number) for number in range(4)] == [True, False, True, False]


def test_a_question_by_what_it_does_or_by_its_name() -> None:
    near, far = "x" * 237 + "ask", "x" * 238 + "ask"
    made = Made({"a": [CPUID, RET], "ask": [RET], "b": [RET], near: [RET], far: [RET]})
    found = CodeGraph(made.scan(), QuestionNames(re.compile("ask"), ("ask",)))
    assert [found.is_question(number) for number in range(5)] == [True, True, False, True, False]
    assert found.asking == {0}


def test_what_pointers_lead_to() -> None:
    made = Made({"a": [RET], "b": [RET], "c": [RET]}, pointers={SLOT: "b", SLOT + 8: FIRST + 1}, started=["c"])
    found = graph(made)
    assert [(number in found.pointed_to) for number in range(3)] == [False, True, False]
    assert found.started == {2}
    assert found.resolvers == set()
    made.resolvers = ["a", FIRST + 1]
    made.started = [FIRST + PAGE, FIRST + 1]
    assert graph(made).resolvers == {0}
    assert graph(made).started == {1}
    assert -1 not in found.pointed_to


def test_a_library_with_names_of_its_own_functions() -> None:
    assert graph(Made({"a": [RET]})).named
    made = Made({"a": [RET], "b": [RET]}, stripped=["a"])
    assert graph(made).named
    made.files = 0
    assert not graph(made).named
    assert not graph(Made({"a": [RET], "b": [RET]}, stripped=["a", "b"])).named


# Bytes of the two questions; what stands around them; the same bytes apart; the start of them at the very end.
@pytest.mark.parametrize(
    ("code", "asks"),
    [
        ([CPUID, RET], True),
        ([NOP, CPUID], True),
        ([XGETBV, RET], True),
        (["b80fa20000", RET], False),
        (["0f01d1", "b80f01d000", RET], False),
        (["b80fa20000", "0fa3c0", RET], False),
    ],
)
def test_functions_that_really_ask(code: list[str], asks: bool) -> None:
    made = Made({"a": code})
    assert graph(made).asking == ({0} if asks else set())
    # The scan says it of Arm code for certain.
    made.machine = "aarch64"
    assert graph(made).asking == ({0} if any(text in "".join(code) for text in (CPUID, XGETBV)) else set())


def test_asking_through_one_function_between() -> None:
    for size, asks in ((SMALL, True), (SMALL + 1, False)):
        made = Made({"ask": [CPUID, RET], "mid": ["call ask", "90" * (size - 6), RET], "a": ["call mid", RET]})
        found = graph(made)
        assert [found.checks(number) for number in range(3)] == [True, True, asks]
    # Two between are too many.
    made = Made({"ask": [CPUID, RET], "low": ["call ask", RET], "mid": ["call low", RET], "a": ["call mid", RET]})
    assert not graph(made).checks(made.number("a"))
    # Only a function that asks by what it does counts behind the one between.
    made = Made({ASK: [RET], "mid": [f"call {ASK}", RET], "a": ["call mid", RET]})
    assert [graph(made).checks(number) for number in range(3)] == [False, True, False]


def between(made: Made) -> bool:
    return graph(made).asks_at_all


@pytest.mark.parametrize("place", [FIRST + 1, FIRST + PAGE - 2, FIRST + PAGE + 3, FIRST + 2 * PAGE - 2])
def test_code_that_belongs_to_no_function(place: int) -> None:
    code = {"a": [RET], "b": ["9090", RET]}
    # int3 fills the gaps: every byte of them is an instruction.
    fill = {FIRST + 1: "cc" * (PAGE - 1), FIRST + PAGE + 3: "cc" * (PAGE - 3)}
    assert not between(Made(code, between=fill))
    assert between(Made(code, between=fill | {place: CPUID}))
    assert between(Made(code, between=fill | {place: CPUID}, machine="aarch64")) is False


def test_a_question_that_only_seems_to_stand_between() -> None:
    assert not between(Made({"a": [RET]}, between={FIRST + 1: "b80fa20000"}))
    assert between(Made({"a": [RET]}, between={FIRST + 1: "b80fa20000" + CPUID}))
    # Half of it lies in the function.
    made = Made({"a": [RET, "0f"], "b": [RET]}, between={FIRST + 2: "a2"})
    assert not between(made)


def test_the_first_stretch_of_code_and_the_next() -> None:
    made = Made({"a": [RET], "b": [RET]}, between={FIRST + 1: "cc" * 15 + CPUID})
    library = made.scan()
    raw = library.binary.view.data

    def asks(*parts: Code) -> bool:
        library.code = list(parts)
        return CodeGraph(library, CHECK).asks_at_all

    assert asks(Code(FIRST, 0, PAGE))
    assert not asks(Code(FIRST + PAGE, PAGE, PAGE))
    assert asks(Code(FIRST + PAGE, PAGE, PAGE), Code(FIRST, 0, PAGE))
    # It lies elsewhere in the file than in memory.
    library.binary.view.data = bytes(0x30) + raw
    assert asks(Code(FIRST, 0x30, PAGE))
    assert not asks(Code(FIRST, 0x30, 0x10))
    assert asks(Code(FIRST, 0x30, 0x12))


def test_code_before_the_first_function() -> None:
    made = Made({"a": ["cc" * 0x40, RET]}, between={FIRST: CPUID})
    library = made.scan()
    library.functions.start[0] += 0x20
    assert CodeGraph(library, CHECK).asks_at_all


def test_a_function_inside_another_leaves_no_gap() -> None:
    made = Made({"outer": [NOP, RET], "inner": [RET]}, between={FIRST + PAGE + 0x10: CPUID})
    library = made.scan()
    library.functions.end[0] = FIRST + PAGE + 0x20
    library.code = [Code(FIRST, 0, PAGE + 0x20)]
    assert not CodeGraph(library, CHECK).asks_at_all
    library.functions.end[0] = FIRST + PAGE + 0x10
    assert CodeGraph(library, CHECK).asks_at_all


@pytest.mark.parametrize(("more", "asks"), [(-2, True), (0, False)])
def test_so_much_of_a_gap_is_read(more: int, asks: bool) -> None:
    # 8 MB of code without functions; decoding them takes a second, so here all of it is one instruction of 15 bytes.
    place = FIRST + 1 + MOST_BETWEEN + more
    made = Made({"a": [RET]}, room=MOST_BETWEEN + PAGE, between={place: CPUID})
    library = made.scan()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rekindle.inspect.code_graph._executes_cpuid", lambda raw: True)
        assert CodeGraph(library, CHECK).asks_at_all is asks
    assert 1 << 20 <= MOST_BETWEEN <= 8 << 20, "a gap must not cost more than seconds and a few times its bytes"


def reader(how: str, writes: str = f"8905 @{DATA + 0x40:#x}", **more: object) -> bool:
    """Does a function with this instruction know what the asking one, which writes there, found out?"""
    code = {"ask": [CPUID, writes, RET], "a": [how, RET]}
    made = Made(code, stripped=list(code), **more)  # type: ignore[arg-type]
    return graph(made).checks(1)


def load(address: int) -> str:
    return f"8b05 @{address:#x}"


def test_reading_what_an_asker_wrote() -> None:
    kept = DATA + 0x40
    reads = [reader(load(place)) for place in (kept - 1, kept, kept + 1, kept + FIELDS - 1, kept + FIELDS)]
    assert reads == [False, True, True, True, False]
    # Where functions have names, so have the variables: those are known by their names.
    code = {"ask": [CPUID, f"8905 @{kept:#x}", RET], "a": [load(kept), RET]}
    assert not graph(Made(code)).checks(1)
    # Nobody asks.
    assert not graph(Made({"ask": [f"8905 @{kept:#x}", RET], "a": [load(kept), RET]}, stripped=["ask", "a"])).checks(1)


def test_the_nearest_variable_before_counts() -> None:
    both = f"8905 @{DATA:#x}", f"8905 @{DATA + 0x100:#x}"
    for place, knows in ((DATA + FIELDS, False), (DATA + 0x100, True), (DATA + 0xFF, False), (DATA, True)):
        made = Made({"ask": [CPUID, *both, RET], "a": [load(place), RET]}, stripped=["ask", "a"])
        assert graph(made).checks(1) is knows


def test_what_is_no_variable_tells_nothing() -> None:
    kept = DATA + 0x40
    # a constant, an imported function's slot, the value that guards the stack
    for place, knows in ((DATA - 1, False), (DATA, True), (DATA + 0xFFF, True), (DATA + 0x1000, False)):
        assert reader(load(place), f"8905 @{place:#x}") is knows
    assert not reader(load(kept), imports={kept: "memcpy"})
    assert not reader(load(kept), cookie=kept)
    assert reader(load(kept), cookie=kept + 8)
    # What lies behind an imported function's slot that the asker calls through is not the asker's.
    code = {"ask": [CPUID, f"ff15 @{kept:#x}", RET], "a": [load(kept + 8), RET]}
    assert graph(Made(code, stripped=list(code))).checks(1)
    assert not graph(Made(code, stripped=list(code), imports={kept: "memcpy"})).checks(1)
    read_only = section(".rodata", 0x200000, 0x100, 2)
    assert not reader(load(0x200000), f"8905 @{0x200000:#x}", sections=[read_only])
    assert reader(load(0x200000), f"8905 @{0x200000:#x}", sections=[section(".bss", 0x200000, 0x100, 1)])


def test_variables_of_a_windows_library() -> None:
    kept = DATA + 0x40
    assert reader(load(kept), windows=True)
    constant = section(".rdata", 0x200000, 0x100, 0x40000000)
    assert not reader(load(0x200000), f"8905 @{0x200000:#x}", windows=True, sections=[constant])
    part = section(".more", 0x200000, 0x100, 0x80000000)
    part.size = 0
    assert [
        reader(load(place), f"8905 @{place:#x}", windows=True, sections=[part])
        for place in (0x1FFFFF, 0x200000, 0x2000FF, 0x200100)
    ] == [False, True, True, False]


# One to five bytes before ModRM, with and without a number after the address
@pytest.mark.parametrize(
    ("head", "tail"),
    [
        ("8b05", ""),
        ("488b05", ""),
        ("440fb605", ""),
        ("660f6f05", ""),
        ("66440f6f05", ""),
        ("c5fc2805", ""),
        ("c4e27d1805", ""),
        ("62f17c482805", ""),
        ("803d", "00"),
        ("66c705", "0100"),
        ("c705", "01000000"),
        ("48c705", "01000000"),
    ],
)
def test_operands_relative_to_the_next_instruction(head: str, tail: str) -> None:
    kept = DATA + 0x40
    assert reader(f"{head} @{kept:#x} {tail}".strip())
    assert not reader(f"{head} @{kept + FIELDS:#x} {tail}".strip())


def test_operands_of_other_forms() -> None:
    kept = DATA + 0x40
    # mov eax, [rax + distance]: the same distance, but not from the next instruction
    assert not reader(f"8b80 @{kept:#x}")
    # mov eax, imm32
    assert not reader(f"b8 @{kept:#x}")
    # add al, 5: the byte after the first looks like it, and the next instruction like a distance to 0x10006a
    short = ["0405", "68e00f0000", RET]
    code = {"ask": [CPUID, "8905 @0x10006a", RET], "a": short}
    assert not graph(Made(code, stripped=["ask", "a"])).checks(1)
    # mov qword ptr [far away], number: the number would be the distance if the operand stood a byte later.
    number = (kept - FIRST - PAGE - 11).to_bytes(4, "little").hex()
    assert not reader(f"48c705 @0x5100000 {number}")


def test_functions_decoded_together() -> None:
    made = Made({"a": ["b80fa20000", RET], "b": ["eb00", "488b05 @0x1000", RET], "c": ["48"], "d": [NOP]})
    found = graph(made)
    together = found.decode_many([0, 1, 2, 3, 1])
    places = [at.tolist() for _, at in together]
    assert places == [[0, 5], [0, 2, 9], [0], [0], [0, 2, 9]]
    for number, (code, at) in zip([0, 1, 2, 3, 1], together, strict=True):
        alone = found.decoded(number)
        assert (alone[0].tolist(), alone[1].tolist()) == (code.tolist(), at.tolist())
        raw = found.raw(number).tolist()
        assert code.tolist() == [*raw, *[0] * 32]
    assert found.raw(3).tobytes() == b"\x90"


def test_bytes_of_a_function_in_the_second_stretch_of_code() -> None:
    library = Made({"a": [NOP, RET], "b": [RET]}).scan()
    raw = library.binary.view.data
    library.binary.view.data = raw[:PAGE] + bytes(0x40) + raw[PAGE:]
    library.code = [Code(FIRST, 0, PAGE), Code(FIRST + PAGE, PAGE + 0x40, PAGE)]
    found = CodeGraph(library, CHECK)
    assert [found.raw(number).tobytes() for number in (0, 1)] == [b"\x90\xc3", b"\xc3"]
