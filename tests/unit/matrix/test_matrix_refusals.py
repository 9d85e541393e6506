"""What a table asks for and cannot have, in words; and what its short names mean."""

from __future__ import annotations

import pytest
from matrix_mini import plan

from rekindle.journey import matrix_cells
from rekindle.model.arch import parse_sm
from rekindle.model.machine import Machine, Os, Toolkit
from rekindle.model.matrix import Defaults, RefusedCell, Table
from rekindle.model.plan import Change, Plan, Reason
from rekindle.toolkits.cuda import UsableCuda

CUDA = UsableCuda(Toolkit(kind="cuda", path="/cuda", version="11.8"), tuple(map(parse_sm, ("3.5", "6.1"))))


@pytest.mark.parametrize(
    ("variant", "archs", "found", "words"),
    [
        ("cu118", "3.5;6.1+PTX", CUDA, None),
        ("cu118", "3.5;9.0", CUDA, "CUDA 11.8 does not compile for 9.0"),
        ("cu118", "turing", CUDA, "'turing' is no architecture"),
        ("cu118", "", CUDA, "needs the axis 'archs'"),
        ("cu126", "6.1", CUDA, "toolkit is cu118, the table asks for cu126"),
        ("cu118", "6.1", UsableCuda(), "No CUDA toolkit with nvcc was found"),
        ("cu118", "6.1", UsableCuda(why_not="Its nvcc is broken."), "Its nvcc is broken."),
    ],
)
def test_the_miniature_is_refused_what_the_toolkit_here_cannot_compile(
    variant: str, archs: str, found: UsableCuda, words: str | None
) -> None:
    refusal = matrix_cells._spark_refusal(variant, archs, found)
    assert refusal is None if words is None else words in (refusal or "")


def test_a_variant_names_its_toolkit() -> None:
    names = ("cu118", "cu130", "rocm6.2.4", "cpu", "xpu", None)
    told = [matrix_cells._toolkit(name) for name in names]
    assert told == [{"cuda": "11.8"}, {"cuda": "13.0"}, {"rocm": "6.2.4"}, {}, {}, {}]


def test_a_plan_that_goes_another_way_says_why_and_what_to_write() -> None:
    axes = {"torch": "2.6.0", "python": "3.11"}
    reason = Reason(code="x", text="The card is too new.")
    assert matrix_cells._astray(Plan(answer="none", because=(reason,)), axes, {}) == (reason,)
    (unknown,) = matrix_cells._astray(Plan(answer="none"), axes, {})
    assert unknown.text == "No plan builds this."
    changes = (Change(what="torch", why="of no matter"), Change(what="cuda", why="the driver is old"))
    other = Plan(answer="build", torch="2.6.0", cuda="11.8", python="3.11", build=plan().build, changes=changes)
    assert matrix_cells._astray(other, axes, {"cuda": "11.8"}) == ()
    (told,) = matrix_cells._astray(other, axes, {"cuda": "12.6"})
    assert told.text.startswith('The driver is old. Write variant = ["cu118"]') and "instead of 12.6" in told.text


@pytest.mark.parametrize("archs", ["gfx90a+PTX", "gfx9.0.6", "sm_35+PTX", "sm_3.5"])
def test_what_is_no_name_of_a_card_is_refused_and_not_read_as_one(archs: str) -> None:
    planner = matrix_cells._Planner(Table(axes={}), Defaults(), Machine(os=Os(system="linux", arch="x86_64")))
    axes = {"torch": "2.6.0", "python": "3.12", "variant": "cu118", "archs": f"9.0;{archs}"}
    (refused,) = planner.cells(axes)
    assert isinstance(refused, RefusedCell) and refused.because[0].code == "unknown-name"
