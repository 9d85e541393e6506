"""The examples in the API's docstrings and in docs/python.md, run as they stand."""

from __future__ import annotations

import doctest
import importlib
import pkgutil
import platform
import re
from pathlib import Path
from typing import Any

import pytest

import needs
from binaries import make_elf, make_entry, make_fatbin
from rekindle import api
from rekindle.model.machine import Machine, Os
from rekindle.plan.spark import plan_spark
from rekindle.spark import unpack as spark
from tiny_wheels import make_wheel

GUIDE = Path(__file__).parents[3] / "docs" / "python.md"
# Why a function has no example that could run here.
WITHOUT = {
    "bring_torch": "installs a torch: tests/integration/test_up_first_hour.py",
    "compare_verifications": "takes two saved reports",
    "demo": "a build with real compilers: tests/integration/test_demo.py",
    "export_table": "asks the planner for every card, which takes minutes: tests/integration",
    "facts_check": "reads wheels from a package index",
    **dict.fromkeys(("graft", "graft_apply"), "needs a toolkit, or a wheel with room: tests/unit/graft"),
    "index_page": "asks the planner for every card, which takes a minute",
    "index_serve": "serves until it is interrupted",
    "installed_torch": "needs a torch",
    "build_checks": "looks at this machine's compilers: tests/unit/build",
    "index_check": "needs a signed list: tests/unit/index",
    **dict.fromkeys(("key_list", "key_new", "key_sign", "key_trust", "sign_results"), "writes keys of the user's"),
    "remember_plan": "writes into the user's workspace",
    "verify_claims": "needs a signed statement",
    **dict.fromkeys(("explain_command", "explain_watch"), "runs or follows another program: tests/unit/explain"),
    "adopt": "changes the environment of another program: tests/unit/journey",
    "pack": "resolves with pip: tests/unit/journey/test_pack.py",
    "rebuild": "repeats a whole build",
    "bundle": "needs a wheel with libraries and patchelf: tests/integration/test_bundle_alone.py",
    "explain_report": "writes the names of this machine out of a log: tests/unit/explain",
    "save_bug_report": "needs a build that failed",
    "save_patches": "needs a tree with commits",
    "source_fetch": "needs a package index or git",
    "source_fill": "needs a torch tree without its submodules: tests/unit/source",
    "source_hipify": "needs a torch tree",
    "verify": "installs into a new environment: tests/integration/test_verify_wheel.py",
    **{f"matrix_{name}": "tests/unit/matrix" for name in (
        "cancel", "cell", "plan", "propose", "publish", "run", "simulate", "slurm", "status", "watch"
    )},
}  # fmt: skip
COMPILES = {"build.build"}
# Public functions whose home is another room.
OUTSIDE = (
    "rekindle.explain.rule",
    "rekindle.facts.browse",
    "rekindle.journey.matrix",
    "rekindle.journey.pack_folder",
    "rekindle.journey.up",
    "rekindle.farm.scheduler",
    "rekindle.farm.worker",
    "rekindle.plan.describe",
    "rekindle.plan.solve",
    "rekindle.inspect.targets",
    "rekindle.source.rewrite",
)


def examples() -> list[Any]:
    found = []
    names = [f"rekindle.api.{info.name}" for info in pkgutil.iter_modules(api.__path__)]
    for module in map(importlib.import_module, [*names, *OUTSIDE]):
        for test in doctest.DocTestFinder(exclude_empty=True).find(module, module.__name__):
            if test.examples:
                name = test.name.removeprefix("rekindle.").removeprefix("api.")
                marks = [pytest.mark.integration, needs.tool("c++")] if name in COMPILES else []
                found.append(pytest.param(test, id=name, marks=marks))
    return found


@pytest.fixture
def namespace(tmp_path: Path) -> dict[str, object]:
    """What the examples speak of: an empty folder, a small wheel, the miniature tree and its plan."""
    tree = tmp_path / "spark"
    spark.unpack(tree)
    library = make_elf({".nv_fatbin": make_fatbin([make_entry(2, 50), make_entry(2, 90)])}, soname="libtorch_cuda.so")
    folder = tmp_path / "folder"
    folder.mkdir()
    return {
        "folder": folder,
        "wheel": make_wheel(
            tmp_path, "torch", "2.6.0", tag="cp311-cp311-linux_x86_64", files={"torch/lib/libtorch_cuda.so": library}
        ),
        "spark_tree": tree,
        "spark_plan": plan_spark(
            Machine(os=Os(system="linux")), version=spark.tree_version(), python=platform.python_version()
        ),
    }


@pytest.mark.parametrize("test", examples())
def test_example(test: doctest.DocTest, namespace: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REKINDLE_WHEELHOUSES", raising=False)
    test.globs.update(namespace)
    said: list[str] = []
    result = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE).run(test, out=said.append)
    assert result.failed == 0 and result.attempted > 0, "".join(said)


def test_every_function_has_an_example_or_a_reason() -> None:
    shown = {param.id.split(".")[-1] for param in examples()}
    assert set(api.__all__) - shown == set(WITHOUT), "give it an example, or say here why it cannot have one"
    assert all(getattr(api, name).__doc__ for name in api.__all__)


def guide_pieces() -> list[str]:
    return re.findall(r"```python\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)


def test_the_guide_runs(namespace: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> None:
    """Every piece of code in docs/python.md, in order, in one namespace: as a script or a notebook would."""
    monkeypatch.chdir(namespace["folder"])  # type: ignore[arg-type]
    monkeypatch.delenv("REKINDLE_WHEELHOUSES", raising=False)
    (Path("torch-2.6.0-cp311-cp311-linux_x86_64.whl")).write_bytes(Path(str(namespace["wheel"])).read_bytes())
    Path("build.log").write_text("nvcc fatal   : Unsupported gpu architecture 'compute_120'\n")
    pieces = guide_pieces()
    assert len(pieces) >= 5
    shared: dict[str, object] = {}
    for number, piece in enumerate(pieces):
        exec(compile(piece, f"docs/python.md, piece {number + 1}", "exec"), shared)
    assert "plan" in shared and "report" in shared
