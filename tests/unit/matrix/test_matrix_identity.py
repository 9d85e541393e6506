"""A cell's id changes with what decides its bytes, and with nothing else."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from matrix_mini import plan

from rekindle.matrix.table import cell_id, cell_name
from rekindle.model.plan import Plan, Reason

BASE = {"identity": "spark 1", "toolchain": {"compiler": "gcc 12"}, "system": "linux-x86_64"}


def ids(made: Plan, python: str = "3.11", target: str | None = None, **more: object) -> tuple[str, str]:
    values = {**BASE, **more}
    return (
        cell_id(made, python=python, target=target, **values),  # type: ignore[arg-type]
        cell_id(made, **values),  # type: ignore[arg-type]
    )


def test_words_do_not_matter() -> None:
    wordy = msgspec.structs.replace(plan(), because=(Reason(code="x", text="y"),), commands=("z",))
    assert ids(wordy) == ids(plan())


def test_the_order_of_patches_does_not_matter() -> None:
    made = plan()
    assert made.build is not None
    turned = msgspec.structs.replace(made, build=msgspec.structs.replace(made.build, patches=("a", "b")))
    assert ids(turned) == ids(made)


def test_another_python_is_another_cell_of_the_same_tree() -> None:
    one, other = ids(plan(), "3.11"), ids(plan(), "3.12")
    assert one[0] != other[0]
    assert one[1] == other[1]


@pytest.mark.parametrize(
    "change",
    [
        {"identity": "spark 2"},
        {"toolchain": {"compiler": "gcc 13"}},
        {"system": "linux-aarch64"},
    ],
)
def test_other_sources_tools_or_systems_are_other_trees(change: dict[str, Any]) -> None:
    one, other = ids(plan()), ids(plan(), **change)
    assert one[0] != other[0]
    assert one[1] != other[1]


def test_every_setting_matters() -> None:
    made = plan()
    assert made.build is not None
    changes = [
        msgspec.structs.replace(made, arch_list=("9.0",)),
        msgspec.structs.replace(made, torch="2.6.0"),
        msgspec.structs.replace(made, variant="cu130"),
        msgspec.structs.replace(made, build=msgspec.structs.replace(made.build, env={"USE_CUDA": "1"})),
        msgspec.structs.replace(made, build=msgspec.structs.replace(made.build, cmake={"A": "1"})),
        msgspec.structs.replace(made, build=msgspec.structs.replace(made.build, patches=("a",))),
        msgspec.structs.replace(made, build=msgspec.structs.replace(made.build, pins={"numpy": "2"})),
        msgspec.structs.replace(made, build=msgspec.structs.replace(made.build, compiler="gcc-11")),
    ]
    found = {ids(each) for each in (made, *changes)}
    assert len(found) == len(changes) + 1


def test_a_pin_of_python_itself_is_its_axis_not_its_tree() -> None:
    made = plan()
    assert made.build is not None
    pinned = [
        msgspec.structs.replace(made, build=msgspec.structs.replace(made.build, pins={"numpy": "2", **pin}))
        for pin in ({}, {"python": "3.11"}, {"python": "3.12"})
    ]
    assert len({ids(each) for each in pinned}) == 1


def test_names_are_for_people() -> None:
    assert cell_name({"torch": "2.6.0", "python": "3.11", "archs": "5.0;6.1"}, "torch") == "torch-2.6.0-py3.11-5.0;6.1"
    assert cell_name({"python": "3.11", "card": "GTX 1080"}, "spark") == "spark-py3.11-GTX_1080"
    assert cell_name({"torch": "2.6.0", "python": "3.11"}, "torchvision") == "torchvision-for-2.6.0-py3.11"
