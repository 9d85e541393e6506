"""One line about each document: what ``up`` and ``demo`` say of a leg."""

from __future__ import annotations

from typing import Any

import pytest

from rekindle.model.build import Brought, BuildResult, BundleReport, Left
from rekindle.model.graft import GraftReport, UnitOutcome
from rekindle.model.journey import Installation
from rekindle.model.machine import Check, Cpu, Examination, Gpu, Os
from rekindle.model.plan import BuildRecipe, GraftOutline, Plan, Reason
from rekindle.model.source import AppliedPatch, SourceTree
from rekindle.model.verify import Missing, VerifyCheck, VerifyReport
from rekindle.model.wheel import OperatorTrial
from rekindle.render import summary
from rekindle.render.summary import summarise


@pytest.mark.parametrize(
    ("plan", "line"),
    [
        ({"answer": "none"}, "nothing fits: a; b"),
        ({"answer": "none", "project": "spark"}, "a b"),
        ({"answer": "install", "variant": "cu126"}, "install the official torch 2.6.0+cu126 for Python 3.12"),
        ({"answer": "install", "python": None}, "install the official torch 2.6.0"),
        ({"answer": "build"}, "build torch 2.6.0 for Python 3.12 from source"),
        (
            {"answer": "build", "build": BuildRecipe(source="x", minutes=(40, 90), disk_gib=40.0)},
            "build torch 2.6.0 for Python 3.12 from source (about 40 to 90 minutes, 40 GiB of disk)",
        ),
        (
            {"answer": "build", "build": BuildRecipe(source="x", minutes=(40, 90))},
            "build torch 2.6.0 for Python 3.12 from source (about 40 to 90 minutes)",
        ),
        (
            {"answer": "build", "build": BuildRecipe(source="x", taken="a.whl (built before)")},
            "take a.whl for Python 3.12, and build what goes beside it",
        ),
        (
            {"answer": "graft", "graft": GraftOutline(wheel="w", archs=("sm_120", "sm_61"), minutes=(3, 5))},
            "graft the official torch 2.6.0 for Python 3.12 for sm_120, sm_61, about 3 to 5 minutes",
        ),
    ],
)
def test_a_plan(plan: dict[str, Any], line: str) -> None:
    because = tuple(Reason(code="x", text=text) for text in "ab")
    assert summarise(Plan(**{"torch": "2.6.0", "python": "3.12", "because": because, **plan})) == line


def test_a_machine() -> None:
    whole = Examination(
        os=Os(system="linux", distro="debian 12", arch="x86_64"),
        cpu=Cpu(name="Xeon", microarchitecture="ivybridge"),
        gpus=(Gpu(vendor="nvidia", name="K80"), Gpu(vendor="amd")),
        memory_gib=63.6,
    )
    assert summarise(whole) == "debian 12, Xeon, 64 GiB, K80, amd"
    assert summarise(Examination(os=Os(system="linux", arch="x86_64"))) == "linux, x86_64, no GPU"
    zen = Examination(os=Os(system="linux"), cpu=Cpu(microarchitecture="zen"))
    assert summarise(zen) == "linux, zen, no GPU"
    assert summarise(Examination(os=Os(system="macos"))) == "macos, unknown CPU, no GPU"


def test_a_tree_and_its_patches() -> None:
    tree = SourceTree(project="torch", version="2.6.0", root="/t")
    assert summarise(tree) == "torch 2.6.0 in /t"
    at = SourceTree(project="torch", version="2.6.0", root="/t", commit="0123456789abcdef")
    assert summarise(at) == "torch 2.6.0 at 0123456789ab in /t"
    assert summary.summarise_patches(tree) == "none needed with these tools"
    states = (("a", "applied", "title"), ("b", "not-needed", None), ("c", "applied", None))
    patches = tuple(AppliedPatch(id=name, state=state, title=title) for name, state, title in states)  # type: ignore[arg-type]
    patched = SourceTree(project="torch", version="2.6.0", root="/t", patches=patches)
    assert summary.summarise_patches(patched) == "a (title); c"


def test_a_build() -> None:
    plan = Plan(answer="build", torch="2.6.0")
    built = BuildResult(project="torch", wheel="/d/a.whl", wheel_sha256="0123456789abcdef", plan=plan, plan_digest="1")
    assert summarise(built) == "a.whl (sha256 0123456789ab…)"
    target = BuildResult(project="torch", wheel="", wheel_sha256="", plan=plan, plan_digest="1", target="c10", steps=7)
    assert summarise(target).endswith("7 steps, no wheel") and "c10" in summarise(target)


def test_a_bundle() -> None:
    def line(count: int, out: str | None = "/d/fat.whl", **more: Any) -> str:
        brought = tuple(Brought(file=f"/l/lib{n}.so", origin="/l", bytes=1, why="x") for n in range(count))
        return summarise(BundleReport(wheel="a.whl", system="linux", out=out, bytes_before=1, brought=brought, **more))

    assert line(4) == "lib0.so, lib1.so, lib2.so, lib3.so now inside fat.whl"
    assert line(5) == "lib0.so, lib1.so, lib2.so, lib3.so and 1 more now inside fat.whl"
    assert line(0, None) == "nothing to bring along: it needs only what every machine has"
    missing = (Left(name="libx.so", why="gone", needed_by="x"),)
    assert line(1, missing=missing) == "lib0.so now inside fat.whl; not found here: libx.so"


def test_a_graft() -> None:
    def line(*states: str) -> str:
        units = tuple(UnitOutcome(container=1, library="l", state=state) for state in states)  # type: ignore[arg-type]
        report = GraftReport(wheel="w", wheel_sha256="0", bytes_before=1, card="RTX 5090", arch="sm_120", units=units)
        return summarise(report)

    assert line("added", "added") == "2 of 2 units got code for sm_120"
    assert line("added", "left-out", "refused") == "1 of 3 units got code for sm_120; 2 stay without"


def test_a_proof() -> None:
    def line(**fields: Any) -> str:
        return summarise(VerifyReport(passed=3, failed=0, skipped=1, **fields))

    assert line(verdict="proven") == "proven: 3 passed, 0 failed, 1 skipped"
    checks = tuple(VerifyCheck(id=name, status="failed") for name in "abcd")
    assert line(verdict="failed", checks=checks[:3]) == "failed: 3 passed, 0 failed (a, b, c), 1 skipped"
    assert "(a, b, c, …)" in line(verdict="failed", checks=checks)
    assert line() == "not proven: 3 passed, 0 failed, 1 skipped; required checks did not run"
    missing = (Missing(id="gpu", why="did not run"), Missing(id="gpu", why="no card"))
    assert line(missing=missing).endswith("; no card")
    trial = OperatorTrial(operator="aten::add", outcome="crashes")
    assert line(verdict="proven", operators=(trial,)).endswith("on this CPU these operators crash: aten::add")


def test_an_installation_and_what_was_asked_of_the_machine() -> None:
    done = Installation(python="/e/python", packages={"torch": "2.6.0", "numpy": "2", "sympy": "1"})
    assert summarise(done) == "torch 2.6.0 and 2 other packages in /e/python"
    assert summarise(Installation(python="/e/python")) == "torch ? and 0 other packages in /e/python"
    checks = [Check(id="a", status="ok"), Check(id="b", status="warn", found="little"), Check(id="c", status="fail")]
    assert summary.summarise_checks(checks) == "1 of 3 are missing: c"
    assert summary.summarise_checks(checks[:2]) == "2 asked, all there; note: little"
