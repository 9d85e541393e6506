"""Dispatched, unconditional or cannot be told: the statistics, the walk and the sums behind the three answers."""

from __future__ import annotations

import numpy as np
import pytest

from binaries import make_elf, make_pe
from rekindle.compat.processor import beyond, runs_from
from rekindle.formats import x86
from rekindle.formats.elf import Elf
from rekindle.formats.pe import Pe
from rekindle.inspect.baseline import FEW, FEWEST_WINDOWS, LEAST_BYTES, MANY, PER_WINDOW, WINDOWS, spread_of
from rekindle.inspect.branches import Roads, arm64_roads, x86_roads
from rekindle.inspect.cpu import CpuSurvey, join_cpu, survey_cpu
from rekindle.inspect.isa_exposure import ExposedCode, Exposure
from rekindle.inspect.reach import ROOT, UNREACHED, Edges, chain_to

COUNT = WINDOWS * PER_WINDOW
SIZE = np.full(COUNT, LEAST_BYTES, np.int64)
NONE = np.zeros(0, np.int64)


def in_windows(count: int, *isa: str) -> dict[int, list[str]]:
    """One function with these sets in each of the first ``count`` windows."""
    return {window * PER_WINDOW + 1: list(isa) for window in range(count)}


@pytest.mark.parametrize(
    ("windows", "everywhere", "few"),
    [
        (int(WINDOWS * MANY) + 1, True, False),
        (int(WINDOWS * MANY), False, False),
        (int(WINDOWS * FEW), False, True),
        (int(WINDOWS * FEW) + 1, False, False),
    ],
)
def test_how_far_it_is_spread(windows: int, everywhere: bool, few: bool) -> None:
    found = spread_of(in_windows(windows, "sse4.1"), SIZE, NONE)
    assert ("sse4.1" in found.everywhere, "sse4.1" in found.few) == (everywhere, few)


def test_avx_beside_the_older_encoding_is_not_everywhere() -> None:
    uses = in_windows(WINDOWS, "avx", "avx2")
    assert spread_of(uses, SIZE, NONE).everywhere == {"avx", "avx2"}
    plain = np.array([number + 1 for number in uses], np.int64)
    assert not spread_of(uses, SIZE, plain).everywhere
    # The same function may have both encodings: that is no sign of other files.
    assert spread_of(uses, SIZE, np.array(sorted(uses), np.int64)).everywhere == {"avx", "avx2"}


def test_bit_instructions_go_with_avx() -> None:
    """ducc0 has its code four times over, once for CPUs with BMI2: that is met no more than their AVX2 is."""
    uses = in_windows(WINDOWS, "avx", "bmi2", "popcnt")
    assert spread_of(uses, SIZE, NONE).everywhere == {"avx", "bmi2", "popcnt"}
    plain = np.array([number + 1 for number in uses], np.int64)
    found = spread_of(uses, SIZE, plain)
    assert found.everywhere == {"popcnt"}
    assert not found.few, "whether it is met is for the calls to tell"
    # A few stretches of the older kind (imagecodecs' libcpcodec) take it from AVX, whose copies they may be, alone.
    few = {number: names for number, names in uses.items() if number > PER_WINDOW * int(WINDOWS * FEW + 1)}
    more = few | {number + extra: names for number, names in few.items() for extra in (2, 3)}
    plain = np.arange(1, PER_WINDOW * int(WINDOWS * FEW + 1), PER_WINDOW)
    assert spread_of(more, SIZE, plain).everywhere == {"bmi2", "popcnt"}


def test_a_library_with_stretches_of_the_older_encoding_has_copies() -> None:
    """Four of five functions with vectors are AVX's, but a part of the code is all of the older kind."""
    uses = {number: ["avx"] for number in range(COUNT) if number % 2}
    few = int(WINDOWS * FEW)
    for stretches, everywhere in ((few, {"avx"}), (few + 1, set())):
        old = np.arange(stretches * PER_WINDOW)
        kept = {number: names for number, names in uses.items() if number >= len(old)}
        assert spread_of(kept, SIZE, old[::4]).everywhere == everywhere


def test_of_other_machines_the_spread_alone_is_known() -> None:
    found = spread_of(in_windows(WINDOWS // 2, "lse"), SIZE, None)
    assert (found.everywhere, found.few) == (frozenset({"lse"}), frozenset[str]())
    found = spread_of(in_windows(int(WINDOWS * FEW), "sve"), SIZE, None)
    assert (found.everywhere, found.few) == (frozenset[str](), frozenset({"sve"}))


def test_bit_instructions_without_avx_are_copies_wherever_they_lie() -> None:
    uses = in_windows(WINDOWS // 2, "bmi2")
    assert spread_of(uses, SIZE, NONE).few == {"bmi2"}
    more = {number + 2: ["avx"] for number in in_windows(int(WINDOWS * FEW) + 1, "avx")}
    assert "bmi2" not in spread_of(uses | more, SIZE, NONE).few


def test_little_code_says_nothing() -> None:
    found = spread_of({1: ["sse4.1"]}, SIZE[: PER_WINDOW * FEWEST_WINDOWS - 1], NONE)
    assert not found.everywhere
    assert not found.few
    assert spread_of({}, SIZE[:0], NONE).few == frozenset()


def edges(*pairs: tuple[int, int]) -> Edges:
    rows = np.array(pairs, np.int64).reshape(-1, 2)
    return Edges(rows[:, 0], rows[:, 1])


def test_a_question_on_the_way_stops_the_walk() -> None:
    graph = edges((0, 1), (1, 2), (0, 3), (3, 4), (4, 0))
    blocked = np.array([False, True, False, False, False])
    parent = graph.walk(np.array([0]), blocked)
    assert parent.tolist() == [ROOT, 0, UNREACHED, 0, 3]
    assert chain_to(4, parent) == [3, 0]
    assert chain_to(2, parent) == []
    assert graph.of(0) == [1, 3]


def roads(code: str) -> Roads:
    """A function at 0x1000 from its bytes in hexadecimal."""
    raw = np.frombuffer(bytes.fromhex(code), np.uint8)
    length, _ = x86.decode(raw)
    at, out = 0, []
    while at < len(raw):
        out.append(at)
        at += int(length[at])
    padded = np.concatenate([raw, np.zeros(32, np.uint8)])
    return x86_roads(padded, np.array(out, np.int64), 0x1000, 0x1000 + len(raw))


# test edi, edi; je +5; call 0x2000; ret | call 0x3000; ret
CHOICE = "85ff 7406 e8f70f0000 c3 e8f11f0000 c3"


def test_a_test_between_two_calls() -> None:
    found = roads(CHOICE)
    [(one, [other]), (_, [back])] = found.rivals.items()
    assert {one, other} == {0x2000, 0x3000}
    assert back == one
    assert not found.unavoidable(0x2000)
    assert not found.unavoidable(0x3000)


def test_a_call_on_every_road() -> None:
    # test edi, edi; je over a nop; call 0x2000; ret
    found = roads("85ff 7401 90 e8f60f0000 c3")
    assert found.unavoidable(0x2000)
    assert not found.rivals
    # The same with a return before the call.
    assert not roads("85ff 7401 c3 e8f60f0000 c3").unavoidable(0x2000)
    # A jump out of the function is a call as well.
    assert roads("e9fb0f0000").unavoidable(0x2000)
    assert not roads("ffe0").unavoidable(0x2000)


def arm(*words: int) -> Roads:
    code = np.frombuffer(b"".join(word.to_bytes(4, "little") for word in words), np.uint8)
    return arm64_roads(code, 0x1000, 0x1000 + len(code))


NOP, RET, BLR = 0xD503201F, 0xD65F03C0, 0xD63F0000


def test_roads_of_arm_code() -> None:
    call = 0x94000000 | (0x1000 >> 2)  # bl +0x1000
    # cbz x0, over the return; return; call 0x2008; return
    skips = arm(0xB4000000 | 2 << 5, RET, call, RET)
    assert not skips.unavoidable(0x2008)
    # b.eq over a nop; call; return
    always = arm(0x54000000 | 2 << 5, NOP, call, RET)
    assert always.unavoidable(0x2008)
    assert not always.unavoidable(0x200C)
    # tbz w0, #3, one back; a call through a register comes back; a jump out is a call
    assert arm(NOP, NOP, 0x36180000 | 0x3FFF << 5, BLR, 0x14000400).unavoidable(0x2010)
    assert not arm(0xD61F0000, call, RET).unavoidable(0x2004)


def test_an_instruction_on_every_road() -> None:
    found = arm(0xB4000000 | 3 << 5, NOP, 0x14000002, NOP, RET)
    assert [found.passes(0x1000 + 4 * place) for place in range(5)] == [True, False, False, False, True]


def test_two_copies_that_a_test_chooses_between() -> None:
    # cbz over (bl 0x2004; ret) to (bl 0x300C; ret)
    found = arm(0xB4000000 | 3 << 5, 0x94000400, RET, 0x94000800, RET)
    assert found.rivals == {0x2004: {0x300C}, 0x300C: {0x2004}}


def test_what_runs_at_load_is_kept_apart() -> None:
    early = ExposedCode(1, "f", "", 0x10, ("lse",), (), "runs", at_load=True)
    cpu = join_cpu([CpuSurvey("a.so", "aarch64", Exposure(functions=9, unconditional=[early]))], ["aarch64"])
    assert (cpu.required, cpu.at_load) == (("lse",), ("lse",))
    late = join_cpu([CpuSurvey("a.so", "aarch64", Exposure(functions=9, unconditional=[exposed("lse")]))], ["aarch64"])
    assert (late.required, late.at_load) == (("lse",), ())


def survey(**lists: list[ExposedCode]) -> CpuSurvey:
    return CpuSurvey("a.so", "x86_64", Exposure(functions=9, **lists))  # type: ignore[arg-type]


def exposed(*isa: str) -> ExposedCode:
    return ExposedCode(1, "f", "", 0x10, isa, (), "called")


def test_what_cannot_be_told_takes_the_verdict_away() -> None:
    cpu = join_cpu([survey(unconditional=[exposed("sse4.1")], untold=[exposed("avx2")])], ["x86_64"])
    assert cpu.runs_from is None
    assert cpu.at_least == "x86-64-v2"
    assert [use.isa for use in cpu.untold] == ["avx2"]


def test_a_doubt_below_what_is_required_anyway_is_none() -> None:
    cpu = join_cpu([survey(unconditional=[exposed("sse4.1")], untold=[exposed("popcnt", "ssse3")])], ["x86_64"])
    assert cpu.runs_from == "x86-64-v2"
    assert not cpu.untold


def test_less_than_a_level_is_named_by_its_first_processor() -> None:
    assert runs_from(["sse3"], "x86_64") == "nocona"
    assert runs_from(["ssse3"], "x86_64") == "core2"
    assert runs_from(["sse4.1"], "x86_64") == "x86-64-v2"
    assert runs_from([], "x86_64") == "x86-64"
    assert beyond(["ssse3", "avx"], "core2", "x86_64") == {"avx"}
    assert beyond(["lse"], "armv8-a+lse", "aarch64") == frozenset()


@pytest.mark.parametrize(
    ("beside", "asks", "level"),
    [("fuzz.cpython-311.so", False, "x86-64"), ("_cpuid.so", True, "x86-64"), ("other.so", False, None)],
)
def test_a_library_chosen_by_its_name(beside: str, asks: bool, level: str | None) -> None:
    copy = CpuSurvey("a/fuzz_avx2.cpython-311.so", "x86_64", Exposure(unconditional=[exposed("avx2")]))
    cpu = join_cpu([copy, CpuSurvey("a/" + beside, "x86_64", Exposure(asks=asks))], ["x86_64"])
    assert cpu.runs_from == level
    assert bool(cpu.dispatched) == (level == "x86-64")


def test_what_nothing_in_the_wheel_calls() -> None:
    entries = frozenset({"aes"})
    one = ExposedCode(1, "f", "", 0x10, ("avx",), (), "exported", entries=entries)
    for taken, soname, level in ((["aes"], "libs.so", "sandybridge"), (["sum"], "libs.so", "x86-64"),
                                 (["sum"], "other.so", "sandybridge")):  # fmt: skip
        library = CpuSurvey("l/libs.so", "x86_64", Exposure(unconditional=[one]), soname="libs.so")
        user = CpuSurvey("u.so", "x86_64", Exposure(), needed=(soname,), imports=frozenset(taken))
        assert join_cpu([library, user], ["x86_64"]).runs_from == level


@pytest.mark.parametrize(
    ("functions", "takers", "at_load", "part"),
    [(24, 1, False, True), (25, 1, False, False), (24, 2, False, False), (24, 0, False, False), (24, 1, True, False)],
)
def test_what_a_part_of_the_wheel_needs(functions: int, takers: int, at_load: bool, part: bool) -> None:
    """As libhighs in OR-Tools: every library links it, one calls it, and the others run without popcnt."""
    need = ExposedCode(1, "solve", "", 0x10, ("popcnt",), (), "nothing asks", at_load=at_load)
    doubt = ExposedCode(2, "maybe", "", 0x20, ("avx",), (), "called on one road")
    solver = CpuSurvey("l/libhighs.so", "x86_64", Exposure(functions=functions, unconditional=[need], untold=[doubt]))
    solver.soname, solver.exports = "libhighs.so", frozenset({"Highs_run"})
    rest = 100 - functions
    others = [CpuSurvey(f"u{n}.so", "x86_64", Exposure(functions=rest if n == 0 else 0)) for n in range(3)]
    for n, other in enumerate(others):
        other.needed, other.imports = ("libhighs.so",), frozenset({"Highs_run"} if n < takers else {"memcpy"})
    cpu = join_cpu([solver, *others], ["x86_64"])
    assert (cpu.runs_from, cpu.at_least) == (("x86-64", "x86-64") if part else (None, "x86-64-v2"))
    assert [use.isa for use in cpu.unconditional] == ["popcnt"], "it is told all the same"
    assert [use.isa for use in cpu.suspects] == (["avx"] if part else [])


def test_where_a_function_was_written() -> None:
    one = ExposedCode(1, "f", "kernel.cpp", 0x10, ("avx",), (), "called")
    two = ExposedCode(2, "g", "", 0x20, ("avx",), (), "called")
    cpu = join_cpu([survey(unconditional=[one, two])], ["x86_64"])
    assert [row.file for row in cpu.evidence] == ["a.so (kernel.cpp)", "a.so"]


def test_only_a_doubt_that_counts_is_told() -> None:
    """Beyond what is needed anyway: with the functions behind it, and how to settle it."""
    cpu = join_cpu([survey(unconditional=[exposed("sse4.1")], untold=[exposed("popcnt")])], ["x86_64"])
    assert not any("verify --cpu" in note for note in cpu.notes)
    assert [row.isa for row in cpu.evidence] == [("sse4.1",)]
    cpu = join_cpu([survey(unconditional=[exposed("sse4.1")], untold=[exposed("avx2")])], ["x86_64"])
    assert any("verify --cpu" in note for note in cpu.notes)
    assert [row.isa for row in cpu.evidence] == [("sse4.1",), ("avx2",)]


def test_guards_and_dispatched_functions_that_are_left() -> None:
    """Calls from other libraries take functions away again: none left is not told."""
    audited = Exposure(functions=9)
    audited.guards.update({"FBGEMM": 1, "oneDNN": 0, "MKL": 2})
    audited.dispatched.update({"avx": 1, "avx2": 0})
    cpu = join_cpu([CpuSurvey("a.so", "x86_64", audited)], ["x86_64"])
    assert [(row.guard, row.functions) for row in cpu.guards] == [("MKL", 2), ("FBGEMM", 1)]
    assert [(row.isa, row.functions) for row in cpu.dispatched] == [("avx", 1)]


def test_the_oldest_processors_that_have_it_all() -> None:
    assert join_cpu([survey(unconditional=[exposed("avx2")])], ["x86_64"]).oldest
    assert join_cpu([survey(unconditional=[exposed("avx2")])], ["x86_64", "aarch64"]).oldest == ()


def test_a_copy_and_what_is_not_called_are_counted_once_each() -> None:
    copy = CpuSurvey("a/fuzz_avx2.so", "x86_64", Exposure(unconditional=[exposed("avx2")], untold=[exposed("avx")]))
    cpu = join_cpu([copy, CpuSurvey("a/fuzz.so", "x86_64", Exposure())], ["x86_64"])
    assert [row.functions for row in cpu.guards] == [2]
    rows = [ExposedCode(n, f"f{n}", "", 0x10 * n, ("avx",), (), "exported", entries=frozenset({"aes"})) for n in (1, 2)]
    library = CpuSurvey("l/libs.so", "x86_64", Exposure(unconditional=rows), soname="libs.so")
    user = CpuSurvey("u.so", "x86_64", Exposure(), needed=("libs.so",), imports=frozenset({"sum"}))
    cpu = join_cpu([library, user], ["x86_64"])
    assert [(row.guard, row.functions) for row in cpu.guards] == [("exported, but nothing in the wheel calls it", 2)]


def test_the_audit_of_one_library_keeps_who_it_is() -> None:
    """Windows names nothing that others could need it by; of other machines nothing is said."""
    code = bytes.fromhex("c5fc58c0c3")
    heard: list[tuple[int, int]] = []

    def step(done: int, total: int) -> None:
        heard.append((done, total))

    dll = survey_cpu(Pe(make_pe({".text": code}), "a.dll"), "a.dll", step)
    assert dll is not None and (dll.file, dll.machine, dll.soname, dll.needed) == ("a.dll", "x86_64", None, ())
    elf = survey_cpu(Elf(make_elf({".text": code}, soname="liba.so", needed=("libc.so.6",))), "a.so", step)
    assert elf is not None and (elf.file, elf.soname, elf.needed) == ("a.so", "liba.so", ("libc.so.6",))
    assert survey_cpu(Elf(make_elf({".text": code}, machine=243)), "a.so", step) is None
