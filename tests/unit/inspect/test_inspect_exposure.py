"""Who would meet code for a newer CPU: guards by name, callers that ask, calls between libraries; made by hand."""

from __future__ import annotations

import re
from collections.abc import Iterable

import pytest

from rekindle.inspect import isa_exposure
from rekindle.inspect.guards import Guard, Guards, QuestionNames
from rekindle.inspect.isa_exposure import LEAKED, TABLES_IN_CODE, ExposedCode, Exposure, ForeignCall, classify
from small_code import DATA, Made

RET, CPUID = "c3", "0fa2"
OVER = "7405"
ASKER = {"ask": [CPUID, RET]}
PLACE = 0x1234
SLOT, STUB = DATA + 0x800, 0x700000
OPEN = "exported, and asks nothing of the CPU"
ONLY = "reached through guarded code or a pointer only"


def guard(ident: str, name: str, trust: str, needs: Iterable[str] = (), library: str | None = None) -> Guard:
    found = re.compile(library) if library else None
    return Guard(ident, f"the {ident} guard", trust, re.compile(name), re.compile(name), found, frozenset(needs))


GUARDS = Guards(
    (
        guard("clones", "^whole", "whole"),
        guard("modest", "^modest", "whole", ["sse4.1"]),
        guard("fbgemm", "^gemm", "callers", library="^kernels"),
        guard("named", "avx", "callers"),
    ),
    QuestionNames(re.compile("ask_by_name"), ("ask",)),
    re.compile("^state$"),
    ("avx", "whole"),
)


def found(made: Made, *uses: str, isa: str = "avx2") -> Exposure:
    """What is said where these functions (``fast`` if none is named) use ``isa``."""
    made.uses = [*made.uses, *((name, one, PLACE, 1) for name in uses or ("fast",) for one in isa.split())]
    return classify(made.scan(), GUARDS)


def names(rows: Iterable[ExposedCode]) -> list[str]:
    return [row.name for row in rows]


def marked(code: dict[str, list[str]], **more: object) -> Made:
    """A library whose source files are named for the copies they hold: there names and plain calls decide."""
    return Made(code, marked=True, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(("times", "counts"), [(TABLES_IN_CODE - 1, False), (TABLES_IN_CODE, True)])
def test_numbers_between_the_code_of_a_windows_library(times: int, counts: bool) -> None:
    made = Made({"fast": [RET]}, exported=["fast"], windows=True, uses=[("fast", "avx2", PLACE, times)])
    made.uses = [*made.uses, ("fast", "bad", PLACE, 9), ("fast", "base", PLACE, 9)]
    assert bool(classify(made.scan(), GUARDS).unconditional) is counts
    split = Made({"fast": [RET]}, exported=["fast"], windows=True)
    split.uses = [("fast", "avx2", PLACE, 1), ("fast", "avx", PLACE, times - 1)]
    assert bool(classify(split.scan(), GUARDS).unconditional) is counts
    linux = Made({"fast": [RET]}, exported=["fast"], uses=[("fast", "avx2", PLACE, 1)])
    assert names(classify(linux.scan(), GUARDS).unconditional) == ["fast"]


def test_what_says_nothing_of_the_cpu() -> None:
    for isa in ("base", "bad", "exclusive", "tzcnt", "lse exclusive"):
        for made in (Made({"fast": [RET]}, exported=["fast"]), marked({"fast": [RET]}, exported=["fast"])):
            said = found(made, isa=isa)
            assert not said.unconditional + said.silent
            assert not said.dispatched
    assert [row.isa for row in found(marked({"fast": [RET]}), isa="lse").unconditional] == [("lse",)]
    assert [row.isa for row in found(marked({"fast": [RET]}), isa="lse exclusive fma").unconditional] == [
        ("lse", "fma")
    ]


def test_an_older_cpu_runs_it_otherwise_and_says_nothing() -> None:
    for made in (Made({"fast": [RET]}, exported=["fast"]), marked({"fast": [RET]}, exported=["fast"])):
        alone = found(made, isa="lzcnt")
        assert (names(alone.silent), alone.unconditional) == (["fast"], [])
    for made in (Made({"fast": [RET]}, exported=["fast"]), marked({"fast": [RET]}, exported=["fast"])):
        both = found(made, isa="lzcnt avx2")
        assert (both.silent, names(both.unconditional)) == ([], ["fast"])
    # Three answers name only what is met; names and calls all that is used.
    assert found(Made({"fast": [RET]}, exported=["fast"]), isa="lzcnt avx2").unconditional[0].isa == ("avx2",)


def test_a_library_that_chooses_its_copies_itself() -> None:
    code = {f"whole_{n}": [RET] for n in range(5)}
    for made in (Made(code, exported=list(code)), marked(code, exported=list(code), started=list(code))):
        said = found(made, *code, isa="avx2 fma")
        assert not said.unconditional
        assert said.dispatched == {"avx2": 5, "fma": 5}
        assert said.guards == {"the clones guard": 5}
        assert said.offers == []


def test_what_even_its_plainest_code_uses_is_not_guarded() -> None:
    code = {"modest_one": [RET]}
    plain = found(Made(code, exported=list(code)), "modest_one", isa="sse4.1")
    assert names(plain.unconditional) == ["modest_one"]
    more = found(Made(code, exported=list(code)), "modest_one", isa="sse4.1 avx2")
    assert (more.unconditional, more.dispatched) == ([], {"sse4.1": 1, "avx2": 1})


def test_where_outside_code_enters() -> None:
    code = ASKER | {"fast": [RET]}
    assert found(marked(code, exported=["fast"])).unconditional[0].why == OPEN
    loaded = found(marked(code, started=["fast"])).unconditional[0]
    assert loaded.at_load is False, "of names the roads are not asked, and the report says no, not null"
    assert (loaded.why, loaded.chain, loaded.address, loaded.guard) == (
        "runs when the library is loaded",
        (),
        PLACE,
        None,
    )
    assert found(marked(code, weak=["fast"])).unconditional == []
    assert found(marked(code)).unconditional == []
    assert found(marked({"fast": [RET]})).unconditional[0].why == "nothing in this library asks the CPU"
    # It asks the CPU itself.
    assert found(marked({"fast": [CPUID, RET]}, exported=["fast"])).dispatched == {"avx2": 1}


def test_one_that_is_not_named_is_no_inline_code() -> None:
    made = marked(ASKER | {"fast": [RET]}, weak=["fast"], stripped=["fast"])
    assert len(found(made).unconditional) == 1


def test_code_is_called_by_one_that_asks_nothing() -> None:
    code = ASKER | {"fast": [RET], "mid": ["call fast", RET], "door": ["call mid", RET]}
    [one] = found(marked(code, exported=["door"])).unconditional
    assert (one.chain, one.why) == (("mid", "door"), "called by mid, which asks nothing of the CPU")
    assert found(marked(code)).guards == {ONLY: 1}
    assert found(marked(code | {"door": [CPUID, "call mid", RET]}, exported=["door"])).unconditional == []
    assert found(marked(code | {"mid": [CPUID, "call fast", RET]}, exported=["door"])).unconditional == []
    # A copy by its name between them lets nobody through.
    whole = ASKER | {"fast": [RET], "whole_mid": ["call fast", RET], "door": ["call whole_mid", RET]}
    assert found(marked(whole, exported=["door"])).unconditional == []


def test_two_ways_lead_there_and_one_is_open() -> None:
    code = ASKER | {
        "fast": [RET],
        "one": [CPUID, "call fast", RET],
        "two": ["call fast", RET],
        "door": ["call two", RET],
    }
    [row] = found(marked(code, exported=["one", "door"])).unconditional
    assert row.chain == ("two", "door")


def test_a_way_that_goes_in_circles() -> None:
    code = ASKER | {"fast": [RET], "a": ["call fast", "call b", RET], "b": ["call a", RET]}
    assert found(marked(code)).unconditional == []


def test_too_many_callers_to_visit(monkeypatch: pytest.MonkeyPatch) -> None:
    code = ASKER | {"fast": [RET], "a": ["call fast", RET], "b": ["call a", RET], "c": ["call b", RET]}
    for most, chains in ((2, [("a",)]), (3, [])):
        monkeypatch.setattr(isa_exposure, "MOST_VISITED", most)
        assert [row.chain for row in found(marked(code)).unconditional] == chains


def test_functions_that_callers_must_guard() -> None:
    code = ASKER | {"gemm_fast": [RET], "door": ["call gemm_fast", RET]}
    sure = found(marked(code, exported=["door"]), "gemm_fast")
    assert (names(sure.unconditional), sure.unconditional[0].guard) == (["gemm_fast"], "the fbgemm guard")
    # Inside the library: its own caller may have asked before.
    inside = ASKER | {"gemm_fast": [RET], "gemm_mid": ["call gemm_fast", RET], "door": ["call gemm_mid", RET]}
    doubt = found(marked(inside, exported=["door"]), "gemm_fast")
    assert (doubt.unconditional, names(doubt.suspects)) == ([], ["gemm_fast"])
    # A name that says it is for AVX is a convention, no more.
    code = ASKER | {"run_avx": [RET], "door": ["call run_avx", RET]}
    doubt = found(marked(code, exported=["door"]), "run_avx")
    assert (doubt.unconditional, names(doubt.suspects)) == ([], ["run_avx"])
    # Exported: who calls it decides. Called at loading: it is met.
    assert found(marked(code, exported=["run_avx"]), "run_avx").unconditional == []
    assert names(found(marked(code, started=["run_avx"]), "run_avx").unconditional) == ["run_avx"]
    assert found(marked({"run_avx": [RET]}), "run_avx").unconditional == []


def test_copies_by_name_in_a_library_without_marked_files() -> None:
    code = ASKER | {"gemm_fast": [RET], "door": ["call gemm_fast", RET]}
    [one] = found(Made(code, exported=["door"]), "gemm_fast").unconditional
    assert (one.chain, one.guard) == (("door",), "the fbgemm guard")
    assert one.why == "called by door, which asks nothing of the CPU"
    code = ASKER | {"run_avx": [RET], "door": ["call run_avx", RET]}
    assert names(found(Made(code, exported=["door"]), "run_avx").suspects) == ["run_avx"]
    assert found(Made(code), "run_avx").suspects == []
    asks = ASKER | {"run_avx": [RET], "door": [CPUID, "call run_avx", RET]}
    assert found(Made(asks, exported=["door"]), "run_avx").suspects == []
    # A pointer is no call.
    taken = Made(ASKER | {"run_avx": [RET], "door": [RET]}, exported=["door"], takes=[("door", "run_avx")])
    assert found(taken, "run_avx").suspects == []
    # The scan saw bytes like a call inside of another instruction.
    false = Made(code | {"door": ["48b8e8", "90" * 7, RET]}, exported=["door"])
    distance = (false.at("run_avx") - false.at("door") - 7).to_bytes(4, "little", signed=True).hex()
    false.code = code | {"door": [f"48b8e8{distance}909090", RET]}
    library = false.scan()
    library.scan.calls = Made(code, exported=["door"]).scan().scan.calls
    false.uses = [("run_avx", "avx2", PLACE, 1)]
    library.scan.uses = false.scan().scan.uses
    assert classify(library, GUARDS).suspects == []


def test_a_chain_of_names_is_cut() -> None:
    steps = {f"s{n}": [f"call s{n + 1}", RET] for n in range(14)} | {"s14": ["call run_avx", RET], "run_avx": [RET]}
    [one] = found(Made(ASKER | steps, exported=["s0"]), "run_avx").suspects
    assert one.chain == tuple(f"s{n}" for n in range(14, 2, -1))


def test_inline_code_that_got_away_from_a_copy() -> None:
    code = ASKER | {"fast": [RET], "whole_one": ["call fast", RET], "door": ["call fast", RET]}

    def label(**more: object) -> str | None:
        [one] = found(marked(code, exported=["door"], **more)).unconditional
        return one.guard

    assert label(local=["fast"]) == LEAKED
    assert label(weak=["fast"]) == LEAKED
    assert label() is None
    assert label(sources={"fast": "plain.cpp"}) is None
    assert label(stripped=["fast"]) is None
    del code["whole_one"]
    code["gemm_one"] = ["call fast", RET]
    assert label(local=["fast"]) is None


def test_a_function_that_a_pointer_leads_to_is_entered() -> None:
    code = ASKER | {"fast": [RET], "method": ["call fast", RET], "gemm_method": ["call fast", RET]}
    table = {DATA: "method"}
    assert found(marked(code, pointers=table)).unconditional[0].chain == ("method",)
    assert found(marked(code)).unconditional == []
    # One that uses it itself may be a copy that a table chooses; a guarded one too.
    assert "fast" not in names(found(marked(code, pointers=table), "fast", "method").unconditional)
    assert found(marked(code, pointers={DATA: "gemm_method"})).unconditional == []
    # Without symbols a pointer tells nothing.
    assert found(marked(code, pointers=table, stripped=list(code))).unconditional == []
    # What the loader calls is entered, guarded or not.
    assert found(marked(code, started=["gemm_method"])).unconditional[0].chain == ("gemm_method",)
    assert found(marked(code, exported=["gemm_method"])).unconditional == []


def test_files_named_for_a_cpu_and_libraries_known_by_name() -> None:
    code = ASKER | {"fast": [RET]}
    made = marked(code, sources={"fast": "whole_thing.cpp"})
    assert found(made).guards == {"the clones guard": 1}
    inside = found(marked(code, exported=["fast"], what="x/y/kernels.so"))
    assert (inside.guards, inside.unconditional) == ({"the fbgemm guard": 1}, [])
    assert found(marked(code, exported=["fast"], what="kernels/y.so")).guards == {}


def test_three_answers() -> None:
    code = ASKER | {"fast": [RET], "door": ["call fast", RET]}
    said = found(Made(code, exported=["door"]))
    [sure] = said.unconditional
    assert not said.dispatched
    assert (sure.number, sure.name, sure.address, sure.isa) == (1, "fast", PLACE, ("avx2",))
    assert (sure.chain, sure.entries, sure.at_load) == (("door",), frozenset({"door"}), False)
    open_ = found(Made(code | {"door": [OVER, "call fast", RET]}, exported=["door"]))
    assert (open_.unconditional, names(open_.untold)) == ([], ["fast"])
    guarded = found(Made(code | {"door": [CPUID, "call fast", RET]}, exported=["door"]))
    assert (guarded.unconditional, guarded.untold) == ([], [])
    assert (guarded.dispatched, guarded.guards) == ({"avx2": 1}, {ONLY: 1})
    doubt = found(Made(code | {"door": [OVER, "call fast", RET]}, exported=["door"]), isa="lzcnt")
    assert (names(doubt.silent), doubt.untold) == (["fast"], [])


def test_what_whoever_loads_it_meets() -> None:
    code = ASKER | {"fast": ["9090", RET], "init": ["call fast", RET]}
    made = Made(code, started=["init"])
    made.uses = [("fast", "avx2", made.at("fast") + 1, 1)]
    assert classify(made.scan(), GUARDS).unconditional[0].at_load
    made.started, made.exported = [], ["init"]
    assert not classify(made.scan(), GUARDS).unconditional[0].at_load
    # The instruction is not on every road.
    made = Made(code | {"fast": ["7401", "90", RET]}, started=["init"])
    made.uses = [("fast", "avx2", made.at("fast") + 2, 1)]
    assert not classify(made.scan(), GUARDS).unconditional[0].at_load
    made.uses = [("fast", "lzcnt", made.at("fast"), 1)]
    assert not classify(made.scan(), GUARDS).silent[0].at_load


def test_the_first_place_is_named() -> None:
    for made in (Made({"fast": [RET]}), marked({"fast": [RET]})):
        made.uses = [("fast", "avx2", 900, 1), ("fast", "fma", 800, 1)]
        assert classify(made.scan(), GUARDS).unconditional[0].address == 800


def offers(made: Made, *uses: str, isa: str = "avx2") -> list[tuple[str, tuple[str, ...], bool]]:
    return [(one.symbol, one.exposed.chain, one.named) for one in found(made, *uses, isa=isa).offers]


@pytest.mark.parametrize("plain", [True, False])
def test_what_other_libraries_may_call(plain: bool) -> None:
    def made(code: dict[str, list[str]], **more: object) -> Made:
        return Made(code, marked=not plain, **more)  # type: ignore[arg-type]

    code = ASKER | {"gemm_fast": [RET], "gemm_mid": ["call gemm_fast", RET], "gemm_door": ["call gemm_mid", RET]}
    assert offers(made(code, exported=["gemm_fast"]), "gemm_fast") == [("gemm_fast", (), False)]
    both = [("gemm_fast", (), False), ("gemm_door", ("gemm_door",), False)]
    assert offers(made(code, exported=["gemm_fast", "gemm_door"]), "gemm_fast") == ([both[0]] if plain else both)
    assert offers(made(code), "gemm_fast") == []
    assert offers(made(code, exported=["gemm_fast"]), "gemm_fast", isa="lzcnt") == []
    assert offers(made(code | {"gemm_fast": [CPUID, RET]}, exported=["gemm_fast"]), "gemm_fast") == []
    shut = code | {"gemm_mid": [CPUID, "call gemm_fast", RET]}
    assert offers(made(shut, exported=["gemm_door", "gemm_mid"]), "gemm_fast") == []
    named = made(ASKER | {"run_avx": [RET]}, exported=["run_avx"])
    assert offers(named, "run_avx") == [("run_avx", (), True)]
    row = found(named, "run_avx").offers[0].exposed
    assert (row.name, row.address, row.isa, row.guard) == ("run_avx", PLACE, ("avx2",), "the named guard")


def test_nobody_calls_the_functions_of_a_python_extension_by_name() -> None:
    code = ASKER | {"run_avx": [RET], "PyInit_x": [RET]}
    assert offers(Made(code, exported=["run_avx", "PyInit_x"]), "run_avx") == []


def test_a_way_in_circles_and_a_long_one_offer_what_they_meet(monkeypatch: pytest.MonkeyPatch) -> None:
    # Inline code that the linker kept one copy of is no door of its own, but others may call it.
    code = ASKER | {
        "run_avx": [RET],
        "a": ["call run_avx", "call b", RET],
        "b": ["call a", RET],
        "c": ["call b", RET],
    }
    made = Made(code, weak=["b", "c"])
    assert offers(made, "run_avx") == [("b", ("b",), True), ("c", ("c",), True)]
    for most, symbols in ((1, []), (2, ["b"]), (3, ["b", "c"])):
        monkeypatch.setattr(isa_exposure, "MOST_VISITED", most)
        made.uses = []
        assert [name for name, _, _ in offers(made, "run_avx")] == symbols


@pytest.mark.parametrize("plain", [True, False])
def test_calls_into_another_library(plain: bool) -> None:
    def foreign_calls(code: dict[str, list[str]], symbol: str = "run_avx", **more: object) -> list[ForeignCall]:
        made = Made(ASKER | code, marked=not plain, stubs={STUB: SLOT}, imports={SLOT: symbol}, **more)  # type: ignore[arg-type]
        return classify(made.scan(), GUARDS).foreign_calls

    code = {"user": [f"call {STUB:#x}", RET], "door": ["call user", RET]}
    assert foreign_calls(code, exported=["door"]) == [ForeignCall("run_avx", ("user", "door"), True)]
    assert foreign_calls(code, exported=["user"]) == [ForeignCall("run_avx", ("user",), True)]
    assert foreign_calls(code, "memcpy", exported=["door"]) == []
    assert foreign_calls(code, "whole_run", exported=["door"]) == []
    assert foreign_calls(code | {"user": [CPUID, f"call {STUB:#x}", RET]}, exported=["door"]) == []
    assert foreign_calls(code) == []
    # Without symbols only pointers may lead there: it cannot be told.
    stripped = foreign_calls(code, stripped=["ask", "user", "door"])
    assert [(one.symbol, one.certain, len(one.chain)) for one in stripped] == [("run_avx", False, 1)]
    guarded = foreign_calls(code | {"user": [CPUID, f"call {STUB:#x}", RET]}, stripped=["ask", "user", "door"])
    assert guarded == []
    # The library it comes from says whose it is, in whatever letters.
    assert foreign_calls(code, "run", exported=["door"], libraries={SLOT: "Kernels.dll"}) == [
        ForeignCall("run", ("user", "door"), True)
    ]


def test_a_long_way_to_a_call_elsewhere_is_cut() -> None:
    steps = {f"s{n}": [f"call s{n + 1}", RET] for n in range(14)} | {"s14": [f"call {STUB:#x}", RET]}
    made = Made(ASKER | steps, exported=["s0"], stubs={STUB: SLOT}, imports={SLOT: "run_avx"})
    [one] = classify(made.scan(), GUARDS).foreign_calls
    assert one.chain == tuple(f"s{n}" for n in range(14, 2, -1))


def test_what_the_whole_says_of_itself() -> None:
    said = found(Made(ASKER | {"fast": [RET]}))
    assert (said.functions, said.named, said.asks) == (2, True, True)
    said = found(Made({"fast": [RET]}, stripped=["fast"]))
    assert (said.functions, said.named, said.asks) == (1, False, False)
