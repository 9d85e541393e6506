"""Tables planned for real: what the planner takes is frozen, what it refuses says why."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from rekindle.api import machine_from_flags, plan
from rekindle.errors import BadInput
from rekindle.journey.matrix import load_lock, lock_file, matrix_plan, this_worker
from rekindle.journey.matrix_work import matrix_cell
from rekindle.matrix.ledger import CellFolder
from rekindle.model.build import BuildFailure
from rekindle.model.build_options import BuildOptions
from rekindle.model.document import load
from rekindle.model.machine import Machine, Os, Toolkit
from rekindle.model.matrix import CellState
from rekindle.model.plan import Plan, Wish
from rekindle.model.source import SourceTree

HERE = machine_from_flags(os="linux", arch="x86_64", compiler="gcc-11", cuda="11.8", python="3.10", memory="64")


TREE = SourceTree(project="torchvision", version="0.21.0", root="vision")


def table(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "matrix.toml"
    file.write_text(text, encoding="utf-8")
    return file


def freeze(tmp_path: Path, text: str, machine: Machine = HERE):  # type: ignore[no-untyped-def]
    return matrix_plan(table(tmp_path, text), machine=machine)


def test_one_wheel_for_cards_that_no_driver_serves_together(tmp_path: Path) -> None:
    lock = freeze(
        tmp_path, '[axes]\ntorch = ["1.13.1"]\npython = ["3.10"]\nvariant = ["cu118"]\narchs = [["3.5", "9.0"]]\n'
    )
    assert [cell.plan.arch_list for cell in lock.cells] == [("3.5", "9.0")]
    build = lock.cells[0].plan.build
    assert build is not None
    assert build.env["TORCH_CUDA_ARCH_LIST"] == "3.5;9.0"
    assert lock.cells[0].plan.cuda == "11.8"
    assert "export TORCH_CUDA_ARCH_LIST='3.5;9.0'" in lock.cells[0].plan.commands, "by hand it is the same build"


def test_pythons_share_a_tree_and_archs_do_not(tmp_path: Path) -> None:
    text = '[axes]\ntorch = ["2.6.0"]\npython = ["3.10", "3.11"]\nvariant = ["cu118"]\narchs = ["6.1", "7.0"]\n'
    lock = freeze(tmp_path, text)
    assert len(lock.cells) == 4
    assert len({cell.id for cell in lock.cells}) == 4
    assert lock.cost.trees == 2
    assert lock.cost.serial_hours < lock.cost.cold_hours


def test_what_the_planner_would_not_do_is_refused_with_its_reason(tmp_path: Path) -> None:
    text = '[axes]\ntorch = ["2.6.0"]\npython = ["3.8", "3.11"]\nvariant = ["cu118"]\narchs = ["6.1", "9.9"]\n'
    lock = freeze(tmp_path, text)
    assert [cell.name for cell in lock.cells] == ["torch-2.6.0-py3.11-cu118-6.1"]
    assert len(lock.refused) == 3
    assert all(cell.because and cell.because[0].text for cell in lock.refused)


def test_settings_and_paths_are_part_of_the_cell(tmp_path: Path) -> None:
    base = '[axes]\ntorch = ["2.6.0"]\npython = ["3.11"]\nvariant = ["cpu"]\n'
    plain = freeze(tmp_path, base).cells[0]
    other = freeze(tmp_path, base + '[defaults]\nsettings = { USE_DISTRIBUTED = "0" }\n').cells[0]
    assert plain.id != other.id
    assert other.plan.build is not None
    assert other.plan.build.env["USE_DISTRIBUTED"] == "0"


def test_a_companion_comes_after_its_torch(tmp_path: Path) -> None:
    text = 'companions = ["torchvision"]\n[axes]\ntorch = ["2.6.0"]\npython = ["3.11"]\nvariant = ["cpu"]\n'
    torch, vision = freeze(tmp_path, text).cells
    assert vision.project == "torchvision"
    assert vision.after == (torch.id,)
    assert vision.identity == "git torchvision 0.21.0", "its own release, not torch's"
    assert vision.plan == torch.plan, "the build says a torch's plan in the words of its companion's setup.py"


def test_a_companion_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    text = 'companions = ["torchvison"]\n[axes]\ntorch = ["2.6.0"]\npython = ["3.11"]\nvariant = ["cpu"]\n'
    lock = freeze(tmp_path, text)
    assert [cell.project for cell in lock.cells] == ["torch"]
    assert lock.refused[0].because[0].text == "Which torchvison belongs to torch 2.6.0 is not known."


def test_a_companion_is_fetched_by_its_own_release_and_built_against_its_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'companions = ["torchvision"]\n[axes]\ntorch = ["2.6.0"]\npython = ["3.11"]\nvariant = ["cpu"]\n'
    lock = freeze(tmp_path, text)
    torch, vision = lock.cells
    root = Path(lock.root)
    CellFolder(root, torch.id).save(CellState(id=torch.id, stage="built", wheel="/w/torch.whl"))
    CellFolder(root, vision.id).freeze(vision)
    seen: dict[str, Any] = {}

    def fetch(root: Path, **asked: Any) -> None:
        root.mkdir(parents=True)
        seen.update(asked)

    def build(options: BuildOptions, *_: object, **__: object) -> BuildFailure:
        seen["against"] = options.against
        return BuildFailure(project="torchvision", phase="compile", message="enough")

    monkeypatch.setattr("rekindle.journey.matrix_work.source_fetch", fetch)
    monkeypatch.setattr("rekindle.journey.matrix_work.source_patch", lambda *_, **__: TREE)
    monkeypatch.setattr("rekindle.journey.matrix_work.build_one", build)
    state = matrix_cell(root, vision.id)
    assert state.message == "enough" and seen["against"] == "/w/torch.whl"
    assert "release" not in seen and load(seen["plan"], Plan) == vision.plan, "the plan's torch says which"


def test_the_lock_belongs_to_its_table(tmp_path: Path) -> None:
    file = table(tmp_path, '[axes]\ntorch = ["2.6.0"]\npython = ["3.11"]\nvariant = ["cpu"]\n')
    with pytest.raises(BadInput, match="there is no"):
        load_lock(file)
    made = matrix_plan(file, machine=HERE)
    assert load_lock(file) == made
    file.write_text(file.read_text() + "# another word\n", encoding="utf-8")
    with pytest.raises(BadInput, match="has changed"):
        load_lock(file)


def test_a_lock_of_another_form_is_refused_in_one_line(tmp_path: Path) -> None:
    file = table(tmp_path, '[axes]\ntorch = ["2.6.0"]\npython = ["3.11"]\nvariant = ["cpu"]\n')
    lock_file(file).write_text('{"schema": 9, "cells": 3}')
    with pytest.raises(BadInput) as caught:
        load_lock(file)
    assert "\n" not in caught.value.message


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    file = table(tmp_path, '[axes]\ntorch = ["2.6.0"]\npython = ["3.11"]\nvariant = ["cpu"]\n')
    matrix_plan(file, machine=HERE, dry_run=True)
    assert not lock_file(file).exists()


def test_a_missing_source_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no source tree"):
        freeze(tmp_path, '[axes]\ntorch = ["2.6.0"]\npython = ["3.11"]\n[defaults]\nsource = "nowhere"\n')


@pytest.mark.parametrize("source", ["git", "debian"])
def test_a_cell_is_planned_as_plan_itself_would(tmp_path: Path, source: str) -> None:
    text = f'[axes]\ntorch = ["2.6.0"]\npython = ["3.11"]\nvariant = ["cpu"]\n[defaults]\nsource = "{source}"\n'
    cell = freeze(tmp_path, text).cells[0]
    alone = machine_from_flags(
        gpu=["none"], os="linux", arch="x86_64", compiler="gcc-11", cuda="11.8", python="3.11", memory="64"
    )
    asked = plan(alone, Wish(torch="2.6.0", python="3.11", build=True, origin=source), wheelhouses=())
    assert cell.plan.build is not None and asked.build is not None
    assert (cell.plan.build.origin, cell.plan.build.env) == (source, asked.build.env)
    assert cell.plan.build.patches == asked.build.patches


def test_a_release_the_source_does_not_have_is_refused(tmp_path: Path) -> None:
    text = '[axes]\ntorch = ["2.7.1"]\npython = ["3.11"]\nvariant = ["cpu"]\n[defaults]\nsource = "debian"\n'
    lock = freeze(tmp_path, text)
    assert (lock.cells, lock.refused[0].because[0].code) == ((), "no-source")


def test_a_worker_offers_what_its_doctor_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    kits = (
        Toolkit(kind="cuda", version="12.4"),
        Toolkit(kind="cudnn", version="9.1"),
        Toolkit(kind="cuda", version=None),
    )
    here = msgspec.structs.replace(HERE, toolkits=kits, memory_gib=64.0)
    monkeypatch.setattr(sys.modules["rekindle.api.plan_torch"], "this_machine", lambda: here)
    monkeypatch.setattr("platform.node", lambda: "box")
    worker = this_worker()
    assert (worker.name, worker.system, worker.memory_gib) == ("box", "linux-x86_64", 64.0)
    assert worker.cuda == ("12.4",) and worker.pythons == ("3.10",)
    monkeypatch.setattr("platform.node", lambda: "")
    bare = msgspec.structs.replace(here, os=Os(system="linux"))
    monkeypatch.setattr(sys.modules["rekindle.api.plan_torch"], "this_machine", lambda: bare)
    assert this_worker().name == "here" and this_worker().system == f"linux-{platform.machine()}"


def test_wheels_for_several_cpus_are_told_apart_by_their_version(tmp_path: Path) -> None:
    text = '[axes]\ntorch = ["2.6.0"]\npython = ["3.10"]\nvariant = ["cpu"]\ncpu = ["Ivy Bridge", "haswell"]\n'
    versions = [
        cell.plan.build.env["PYTORCH_BUILD_VERSION"] for cell in freeze(tmp_path, text).cells if cell.plan.build
    ]
    assert sorted(versions) == ["2.6.0+cpu-haswell", "2.6.0+cpu-ivy.bridge"]


def test_another_system_is_planned_without_the_compilers_of_this_machine(tmp_path: Path) -> None:
    axes = '[axes]\ntorch = ["2.6.0"]\npython = ["3.10"]\nvariant = ["cpu"]\n'
    (own,) = freeze(tmp_path, axes).cells
    (other,) = freeze(tmp_path, f'{axes}system = ["linux-aarch64"]\n').cells
    assert own.plan.build and own.plan.build.compiler == "gcc-11"
    assert other.plan.build and other.plan.build.compiler != "gcc-11" and other.plan.os
    assert (own.plan.os and own.plan.os.arch, other.plan.os.arch) == ("x86_64", "aarch64")
