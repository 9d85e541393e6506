"""Calls between libraries: what only callers guard is exposed by a caller elsewhere that asks nothing."""

from __future__ import annotations

from rekindle.inspect.cpu import CpuSurvey, follow_calls, readable
from rekindle.inspect.isa_exposure import ExposedCode, Exposure, ForeignCall, Offer

MIN_MAX = "?FindMinMax@fbgemm@@YAXPEBMPEAM1_J@Z"


def wheel(*foreign_calls: ForeignCall, named: bool = False, through: tuple[str, ...] = ()) -> list[CpuSurvey]:
    exposed = ExposedCode(7, MIN_MAX, "", 0x1000, ("avx", "avx2"), through, "", "FBGEMM")
    offering = Exposure(offers=[Offer(through[-1] if through else MIN_MAX, exposed, named)])
    offering.dispatched.update({"avx": 3, "avx2": 2})
    offering.guards["FBGEMM"] = 3
    calling = Exposure(foreign_calls=list(foreign_calls))
    return [CpuSurvey("lib/fbgemm.dll", "x86_64", offering), CpuSurvey("lib/torch_cpu.dll", "x86_64", calling)]


def names(found: list[ExposedCode]) -> list[str]:
    return [readable(one.name) for one in found]


def test_reached_for_certain() -> None:
    surveys = wheel(ForeignCall(MIN_MAX, ("apply", "entry"), True))
    follow_calls(surveys)
    exposure = surveys[0].exposure
    assert names(exposure.unconditional) == ["fbgemm::FindMinMax"]
    assert exposure.unconditional[0].why == "called by apply in torch_cpu.dll, which asks nothing of the CPU"
    assert exposure.unconditional[0].guard == "FBGEMM"  # a corner of a library that dispatches otherwise
    assert exposure.dispatched == {"avx": 2, "avx2": 1}
    assert exposure.guards["FBGEMM"] == 2


def test_what_cannot_be_told_is_a_suspect() -> None:
    surveys = wheel(ForeignCall(MIN_MAX, ("function at 0x10",), False))
    follow_calls(surveys)
    assert names(surveys[0].exposure.suspects) == ["fbgemm::FindMinMax"]
    assert "cannot be told" in surveys[0].exposure.suspects[0].why
    assert not surveys[0].exposure.unconditional


def test_a_function_in_between_may_have_asked() -> None:
    uncertain = wheel(ForeignCall("wrapper", ("function at 0x10",), False), through=("wrapper",))
    certain = wheel(ForeignCall("wrapper", ("entry",), True), through=("wrapper",))
    for surveys in (uncertain, certain):
        follow_calls(surveys)
        assert not surveys[0].exposure.unconditional
    assert not uncertain[0].exposure.suspects
    assert certain[0].exposure.suspects[0].chain == ("wrapper", "entry")


def test_a_name_that_says_avx2_is_a_suspect_only() -> None:
    surveys = wheel(ForeignCall(MIN_MAX, ("entry",), True), named=True)
    follow_calls(surveys)
    assert not surveys[0].exposure.unconditional
    assert surveys[0].exposure.suspects


def test_nobody_calls_it_and_the_certain_caller_wins() -> None:
    surveys = wheel()
    follow_calls(surveys)
    assert not surveys[0].exposure.unconditional + surveys[0].exposure.suspects
    surveys = wheel(ForeignCall(MIN_MAX, ("maybe",), False), ForeignCall(MIN_MAX, ("sure",), True))
    follow_calls(surveys)
    assert [one.chain for one in surveys[0].exposure.unconditional] == [("sure",)]
    assert not surveys[0].exposure.suspects


def test_microsofts_names() -> None:
    assert readable("??0PackedDepthWiseConvMatrix@fbgemm@@QEAA@HHPEBC@Z") == (
        "fbgemm::PackedDepthWiseConvMatrix::PackedDepthWiseConvMatrix"
    )
    assert readable("?prepack@?$PackedConvWeight@$01@@SA?AV") == "PackedConvWeight<…>::prepack"
    assert readable("?x@@YAXXZ") == "x"
    assert readable("??_7Type@@6B@") == "??_7Type@@6B@"


def test_a_library_that_calls_itself_is_no_other_one() -> None:
    surveys = wheel()
    surveys[0].exposure.foreign_calls.append(ForeignCall(MIN_MAX, ("inside",), True))
    follow_calls(surveys)
    assert not surveys[0].exposure.unconditional + surveys[0].exposure.suspects


def test_the_first_of_equally_good_callers_is_told() -> None:
    for sure in (True, False):
        surveys = wheel(ForeignCall(MIN_MAX, ("first",), sure), ForeignCall(MIN_MAX, ("second",), sure))
        follow_calls(surveys)
        (found,) = surveys[0].exposure.unconditional + surveys[0].exposure.suspects
        assert found.chain == ("first",)
    surveys = wheel(ForeignCall(MIN_MAX, ("sure",), True), ForeignCall(MIN_MAX, ("maybe",), False))
    follow_calls(surveys)
    assert [one.chain for one in surveys[0].exposure.unconditional] == [("sure",)]
