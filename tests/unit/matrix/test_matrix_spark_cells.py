"""Tables of the miniature, and of a tree of one's own: what is planned from which sources, and by which toolkit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rekindle.spark
from rekindle.api import machine_from_flags
from rekindle.api.plan_torch import plan_build
from rekindle.journey import matrix_cells
from rekindle.journey.matrix import matrix_plan
from rekindle.model.arch import parse_sm
from rekindle.model.machine import Toolkit
from rekindle.model.matrix import MatrixLock
from rekindle.model.plan import Plan
from rekindle.spark.unpack import tree_digest, tree_version
from rekindle.toolkits.cuda import UsableCuda

HERE = machine_from_flags(os="linux", arch="x86_64", compiler="gcc-11", python="3.10", memory="64")
CUDA = UsableCuda(Toolkit(kind="cuda", path="/cuda", version="11.8"), tuple(map(parse_sm, ("3.5", "6.1"))))


def freeze(folder: Path, text: str) -> MatrixLock:
    table = folder / "matrix.toml"
    table.write_text(text, encoding="utf-8")
    return matrix_plan(table, machine=HERE, dry_run=True)


def test_the_miniature_is_planned_for_each_flavour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[object] = []

    def find(host: object) -> UsableCuda:
        asked.append(host)
        return CUDA

    monkeypatch.setattr(matrix_cells, "find_usable_cuda", find)
    text = (
        'project = "spark"\n[axes]\npython = ["3.10", "3.11"]\nvariant = ["cu118"]\narchs = [["3.5", "6.1"], "9.0"]\n'
    )
    lock = freeze(tmp_path, text)
    assert [cell.plan.arch_list for cell in lock.cells] == [("3.5", "6.1")] * 2
    assert [(cell.plan.cuda, cell.cuda, cell.source) for cell in lock.cells] == [("11.8", "11.8", "spark")] * 2
    assert {cell.identity for cell in lock.cells} == {f"spark {tree_digest()}"}
    assert [row.because[0].code for row in lock.refused] == ["spark-toolkit"] * 2
    assert len(asked) == 1, "the toolkit is tried once for the whole table"


def test_without_a_variant_the_miniature_is_for_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_cells, "find_usable_cuda", lambda _: pytest.fail("no toolkit is needed"))
    (plain,) = freeze(tmp_path, 'project = "spark"\n[axes]\npython = ["3.10"]\n').cells
    assert plain.plan.cuda is None and plain.plan.arch_list == () and plain.plan.build is not None
    assert "SPARK_BASELINE_FLAGS" not in plain.plan.build.env
    cells = freeze(
        tmp_path,
        'project = "spark"\n[axes]\npython = ["3.10"]\nvariant = ["cpu"]\ncpu = ["haswell", "Ivy Bridge"]\n'
        '[defaults.settings]\nSPARK_SIMD = "0"\n',
    ).cells
    builds = [cell.plan.build for cell in cells if cell.plan.build]
    assert [build.env["SPARK_BASELINE_FLAGS"] for build in builds] == ["-march=haswell", "-march=Ivy Bridge"]
    assert [build.env["SPARK_SIMD"] for build in builds] == ["0", "0"]
    versions = [build.env["SPARK_BUILD_VERSION"] for build in builds]
    assert versions == [f"{tree_version()}+cpu-haswell", f"{tree_version()}+cpu-ivy.bridge"]


def test_a_tree_of_ones_own_is_named_by_what_is_in_it(tmp_path: Path) -> None:
    tree = tmp_path / "my tree"
    shutil.copytree(Path(rekindle.spark.__path__[0]) / "tree", tree)
    text = 'project = "spark"\n[axes]\npython = ["3.10"]\n[defaults]\nsource = "my tree"\n'
    (first,) = freeze(tmp_path, text).cells
    assert first.source == str(tree) and first.identity.startswith(f"spark {tree_version()} ")
    (again,) = freeze(tmp_path, text).cells
    (tree / "README.md").write_text("changed", encoding="utf-8")
    (other,) = freeze(tmp_path, text).cells
    assert again.id == first.id and other.identity != first.identity and other.id != first.id


@pytest.mark.parametrize(("minutes", "companion"), [((1, 3), 1.0), ((10, 20), 1.5), ((20, 40), 3.0)])
def test_a_companion_costs_a_tenth_of_its_torch_and_a_minute_at_least(
    minutes: tuple[int, int], companion: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual = plan_build

    def plan(*words: Any, **more: Any) -> Plan:
        made = usual(*words, **more)
        assert made.build is not None
        return msgspec.structs.replace(made, build=msgspec.structs.replace(made.build, minutes=minutes))

    monkeypatch.setattr(matrix_cells, "plan_build", plan)
    text = 'companions = ["torchvision"]\n[axes]\ntorch = ["2.6.0"]\npython = ["3.11"]\nvariant = ["cpu"]\n'
    torch, vision = freeze(tmp_path, text).cells
    assert (torch.minutes, vision.minutes) == (sum(minutes) / 2, companion)
