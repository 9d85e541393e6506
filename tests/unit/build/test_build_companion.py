"""Companions of torch: their words for a plan, the torch they are compiled against, and any other refused."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bare_host import BareHost
from rekindle.build.companion import check_torch, exact_pin, plan_for, torch_requirement, with_settings
from rekindle.errors import BadInput
from rekindle.host.files import sha256_of
from rekindle.host.protocol import Completed
from rekindle.interpreters.environment import TargetPython
from rekindle.model.interpreter import Interpreter
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree

PYTHON = Interpreter(path="/py", version="3.11.7", implementation="CPython")
TARGET = TargetPython(interpreter=PYTHON, python="/env/bin/python")


def plan(**more: Any) -> Plan:
    env = {"USE_CUDA": "1", "TORCH_CUDA_ARCH_LIST": "7.5", "CC": "gcc-12", "USE_NINJA": "1"}
    recipe = BuildRecipe(source="x", env=env, cmake={"A": "1"}, pins={"setuptools": "<82", "cmake": ">=3.27"})
    values: dict[str, Any] = {"answer": "build", "torch": "2.7.1", "cuda": "12.8", "build": recipe, **more}
    return Plan(**values)


def recipe_of(made: Plan) -> BuildRecipe:
    assert made.build is not None
    return made.build


def tree(project: str, version: str) -> SourceTree:
    return SourceTree(project=project, version=version, root=f"/src/{project}")


def test_a_plan_for_torch_in_the_companions_words() -> None:
    said = plan_for(plan(), tree("torchvision", "0.22.1"))
    assert said.project == "torchvision" and said.build is not None
    kept = {"TORCH_CUDA_ARCH_LIST": "7.5", "CC": "gcc-12", "FORCE_CUDA": "1"}
    assert said.build.env == {**kept, "PYTORCH_VERSION": "2.7.1"}, "their metadata names this torch"
    assert (said.build.cmake, said.build.asserts) == ({}, {})
    assert "cmake" not in said.build.pins
    audio = plan_for(plan(cuda=None), tree("torchaudio", "2.7.1"))
    assert audio.build is not None
    assert (audio.build.env["USE_CUDA"], audio.build.env["USE_ROCM"]) == ("0", "0")
    assert plan_for(plan(), tree("torch", "2.7.1")) == plan()


def test_their_own_switches_reach_them_and_torchs_do_not() -> None:
    env = {"BUILD_SOX": "1", "TORCHVISION_USE_FFMPEG": "0", "USE_MKLDNN": "0"}
    recipe = BuildRecipe(source="x", env=env)
    audio = recipe_of(plan_for(plan(cuda=None, build=recipe), tree("torchaudio", "2.7.1"))).env
    assert (audio["BUILD_SOX"], audio["USE_FFMPEG"]) == ("1", "0"), "what would be downloaded is off unless asked for"
    assert not {"USE_MKLDNN", "TORCHVISION_USE_FFMPEG"} & audio.keys()
    vision = recipe_of(plan_for(plan(cuda=None, build=recipe), tree("torchvision", "0.22.1"))).env
    assert vision["TORCHVISION_USE_FFMPEG"] == "0"
    by_hand = with_settings(plan(), {"USE_CUDA": "0"})
    assert recipe_of(by_hand).env["USE_CUDA"] == "0"


def test_what_it_is_compiled_against_can_be_given(tmp_path: Path) -> None:
    assert torch_requirement(plan(), tmp_path, PYTHON, "torch==2.7.1") == "torch==2.7.1"
    with pytest.raises(BadInput, match="there is no wheel"):
        torch_requirement(plan(), tmp_path, PYTHON, str(tmp_path / "torch-2.7.1.whl"))


def test_another_build_of_the_same_version_is_another_torch(tmp_path: Path) -> None:
    wheel = tmp_path / "torch-2.7.1-cp311-cp311-linux_x86_64.whl"
    wheel.write_bytes(b"one")
    one = torch_requirement(plan(), tmp_path, PYTHON, str(wheel))
    assert one == f"torch @ {wheel.as_uri()}#sha256={sha256_of(wheel)}"
    assert torch_requirement(plan(), tmp_path, PYTHON) == one, "that of the workspace is named by its digest as well"
    wheel.write_bytes(b"two")
    assert torch_requirement(plan(), tmp_path, PYTHON, str(wheel)) != one


def test_each_release_has_its_companion() -> None:
    with pytest.raises(BadInput, match=r"whose torchvision is 0.22.1, but /src/torchvision is 0.21.0") as refused:
        plan_for(plan(), tree("torchvision", "0.21.0"))
    assert (refused.value.remedy or "").startswith("rekindle source fetch --project torchvision --release 0.22.1 ")
    assert plan_for(plan(torch="99.0"), tree("torchvision", "0.21.0")), "of an unknown release nothing is claimed"


def test_the_torch_of_the_workspace(tmp_path: Path) -> None:
    for project, named in (("torchvision", "--project torchvision"), ("torch-scatter", "torch-scatter")):
        with pytest.raises(BadInput, match=r"no wheel of it for Python 3.11.7") as refused:
            torch_requirement(plan(project=project), tmp_path, PYTHON)
        line = (refused.value.remedy or "").partition("   # ")[0]
        assert line == f"rekindle build {named} --against torch==2.7.1", "as build takes it"
    for name in ("torch-2.7.1+rekindle.cu128-cp310-cp310", "torch-2.6.0-cp311-cp311"):
        (tmp_path / f"{name}-linux_x86_64.whl").touch()
    with pytest.raises(BadInput):
        torch_requirement(plan(), tmp_path, PYTHON)
    wheel = tmp_path / "torch-2.7.1+rekindle.cu128-cp311-cp311-linux_x86_64.whl"
    wheel.touch()
    assert torch_requirement(plan(), tmp_path, PYTHON) == f"torch @ {wheel.as_uri()}#sha256={sha256_of(wheel)}"


def test_a_plan_that_names_no_torch_takes_any_wheel_of_it(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"no wheel of it"):
        torch_requirement(plan(torch=None), tmp_path, PYTHON)
    wheel = tmp_path / "torch-2.6.0-cp311-cp311-linux_x86_64.whl"
    wheel.touch()
    named = f"torch @ {wheel.as_uri()}#sha256={sha256_of(wheel)}"
    assert torch_requirement(plan(torch=None), tmp_path, PYTHON) == named


def test_a_pin_wins(tmp_path: Path) -> None:
    pinned = plan(build=BuildRecipe(source="x", pins={"torch": "2.7.1"}))
    assert torch_requirement(pinned, tmp_path, PYTHON) == "torch==2.7.1"


class Answering(BareHost):
    def __init__(self, **told: object) -> None:
        super().__init__()
        self.told = told

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        if self.told:
            return Completed(argv=tuple(argv), code=0, out=json.dumps(self.told))
        return Completed(argv=tuple(argv), code=1, err="ImportError: libcudart.so.12")


def test_the_planned_torch_is_there() -> None:
    host = Answering(version="2.7.1+rekindle.cu128.sm75", cuda="12.8", rocm=None)
    assert check_torch(host, TARGET, plan()).ok


@pytest.mark.parametrize("told", [{"cuda": "12.8", "rocm": None}, {"cuda": None, "rocm": "6.4.4"}])
def test_one_without_gpu_code_loads_beside_a_torch_that_has_some(told: dict[str, str | None]) -> None:
    """PyPI's torch for Linux is one with CUDA; a CPU build of torchvision works with it, and it is said."""
    said: list[str] = []
    host = Answering(version="2.7.1+x", **told)
    assert check_torch(host, TARGET, plan(cuda=None), said.append).ok
    assert len(said) == 1 and "no GPU code" in said[0] and (told["cuda"] or told["rocm"] or "") in said[0]
    assert check_torch(Answering(version="2.7.1", cuda=None, rocm=None), TARGET, plan(cuda=None), said.append).ok
    assert len(said) == 1, "nothing is said where there is nothing to lose"
    with pytest.raises(BadInput, match=r"planned for torch 2.7.1 \(CPU\), but .* is 2.8.0 \("):
        check_torch(Answering(version="2.8.0", **told), TARGET, plan(cuda=None))


@pytest.mark.parametrize(
    ("version", "exact"),
    [
        ("2.7.1+rekindle.cpu", True), ("2.7.1+debian", True), ("2.7.1+cpu.ours", True),
        ("2.7.1+cpu", False), ("2.7.1+cu128", False), ("2.7.1+rocm6.4", False), ("2.7.1", False),
    ],
)  # fmt: skip
def test_one_that_nobody_published_is_named_exactly(version: str, exact: bool) -> None:
    """The published torch of the same number may have another C++ ABI; what was compiled here must not meet it."""
    fact = check_torch(Answering(version=version, cuda=None, rocm=None), TARGET, plan(cuda=None))
    assert exact_pin(fact) == (version if exact else None)


def test_the_way_on_plans_for_the_torch_that_is_there() -> None:
    for told, flavour in (
        ({"cuda": "12.8", "rocm": None}, "cu128"),
        ({"cuda": None, "rocm": "6.4.43482"}, "rocm6.4"),
        ({"cuda": None, "rocm": None}, "cpu"),
    ):
        with pytest.raises(BadInput) as refused:
            check_torch(Answering(version="2.8.0+local", **told), TARGET, plan())
        start = f"rekindle plan --build --torch 2.8.0 --variant {flavour} --json > plan.json"
        assert (refused.value.remedy or "").startswith(start)


@pytest.mark.parametrize(
    ("told", "words"),
    [
        (
            {"version": "2.8.0", "cuda": "12.8", "rocm": None},
            r"torch 2.7.1 \(CUDA 12.8\), but .* is 2.8.0 \(CUDA 12.8\)",
        ),
        ({"version": "2.7.1+cpu", "cuda": None, "rocm": None}, r"is 2.7.1\+cpu \(CPU\)"),
        ({"version": "2.7.1", "cuda": None, "rocm": "6.4.4"}, r"is 2.7.1 \(ROCm 6.4.4\)"),
        ({}, "cannot be imported: ImportError: libcudart.so.12"),
    ],
)
def test_any_other_torch_is_refused(told: dict[str, object], words: str) -> None:
    with pytest.raises(BadInput, match=words):
        check_torch(Answering(**told), TARGET, plan())


def test_architectures_are_told_where_there_are_cards_and_nowhere_else() -> None:
    bare = {"build": BuildRecipe(source="x"), "arch_list": ("7.5", "8.6")}

    def told(**more: object) -> str | None:
        return recipe_of(plan_for(plan(**{**bare, **more}), tree("torchvision", "0.22.1"))).env.get(
            "TORCH_CUDA_ARCH_LIST"
        )

    assert told() == "7.5;8.6"
    assert told(cuda=None) is None and told(arch_list=()) is None
