"""What a walk tells while a leg is at work, when it is still true what a leg made, and where its report lies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rekindle.host.files import sha256_of
from rekindle.host.workspace import Workspace
from rekindle.journey.walk import Walk, Within, digest, is_still_true, is_whole, write_report
from rekindle.model.build import BuildFailure, BuildResult, BundleReport
from rekindle.model.document import load
from rekindle.model.graft import GraftReport
from rekindle.model.journey import Journey
from rekindle.model.plan import Plan
from rekindle.model.progress import BuildView, Progress, Silent
from rekindle.model.verify import VerifyReport


class Heard(Progress):
    """Everything that is told, in order."""

    def __init__(self) -> None:
        self.said: list[tuple[Any, ...]] = []

    def stage(self, name: str, detail: str = "") -> None:
        self.said.append(("stage", name, detail))

    def step(self, done: float, total: float | None, detail: str = "") -> None:
        self.said.append(("step", done, total, detail))

    def note(self, text: str) -> None:
        self.said.append(("note", text))


class WithPanel(Heard):
    def panel(self, view: BuildView) -> None:
        self.said.append(("panel", view))


def test_the_stages_of_a_leg_are_lines_under_it() -> None:
    heard = Heard()
    inner = Within(heard)
    inner.stage("fetch", "torch")
    inner.stage("configure")
    inner.note("a hint")
    inner.step(1, 4, "a.cpp")
    assert heard.said == [
        ("note", "fetch: torch"), ("note", "configure"), ("note", "  a hint"), ("step", 1, 4, "a.cpp"),
    ]  # fmt: skip


def test_a_build_is_shown_on_the_panel_where_there_is_one() -> None:
    view = BuildView(done=3, total=10)
    plain, panel = Heard(), WithPanel()
    Within(plain).panel(view)
    Within(panel).panel(view)
    assert plain.said == [("step", 3, 10, view.line)] and panel.said == [("panel", view)]


def test_a_leg_is_announced_and_what_came_of_it_is_told_once(tmp_path: Path) -> None:
    heard = Heard()
    walk = Walk(Workspace(tmp_path), heard)
    for _ in range(2):
        walk.kept_leg("plan", "which torch runs here", Plan, "inputs", lambda: Plan(answer="none"))
    stages = [said for said in heard.said if said[0] == "stage"]
    assert stages == [("stage", "plan", "which torch runs here"), ("stage", "plan", "already there")]
    assert [("note", leg.detail) for leg in walk.legs] == [said for said in heard.said if said[0] == "note"]
    assert [leg.file for leg in walk.legs] == [str(tmp_path / "reports" / "plan.json")] * 2


@pytest.mark.parametrize(("verdict", "status"), [("proven", "done"), ("failed", "failed")])
def test_a_proof_that_does_not_hold_is_a_leg_that_failed_and_is_walked_again(
    verdict: Any, status: str, tmp_path: Path
) -> None:
    walk = Walk(Workspace(tmp_path), Silent())
    made: list[int] = []

    def prove() -> VerifyReport:
        made.append(1)
        return VerifyReport(verdict=verdict)

    for _ in range(2):
        walk.kept_leg("verify", "is it good?", VerifyReport, "inputs", prove)
    assert walk.legs[0].status == status and len(made) == (1 if status == "done" else 2)


def test_a_build_that_failed_is_not_kept_and_names_no_document(tmp_path: Path) -> None:
    walk = Walk(Workspace(tmp_path), Silent())
    failure = BuildFailure(project="torch", phase="compile", message="cc1plus was killed")
    assert walk.kept_leg("build", "this takes a while", BuildResult, "inputs", lambda: failure) == failure
    assert [(leg.status, leg.detail, leg.file) for leg in walk.legs] == [("failed", "cc1plus was killed", None)]
    assert not (tmp_path / "reports" / "build.json").exists()


def test_what_a_document_is_about_must_lie_there_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "torch.whl"
    file.write_bytes(b"torch")
    whole, name = sha256_of(file), str(file)

    def documents(out: str | None, sha256: str) -> list[object]:
        return [
            BuildResult(
                project="torch", wheel=out or "", wheel_sha256=sha256, plan=Plan(answer="build"), plan_digest="p"
            ),
            GraftReport(
                wheel="w", wheel_sha256="0", bytes_before=1, card="c", arch="sm_75", units=(), out=out, sha256=sha256
            ),
            BundleReport(wheel="w", system="linux", bytes_before=1, out=out, sha256=sha256),
        ]

    assert [is_still_true(each) for each in documents(name, whole)] == [True, True, True]
    assert [is_still_true(each) for each in documents(name, "0" * 64)] == [False, False, False]
    assert [is_still_true(each) for each in documents(None, whole)] == [False, False, True], "a bundle may add nothing"
    assert is_still_true(Plan(answer="none")) and not is_whole(None, whole)
    file.unlink()
    assert [is_still_true(each) for each in documents(name, whole)] == [False, False, False]


def test_inputs_have_one_name_in_their_order() -> None:
    plan = Plan(answer="none")
    assert digest(plan, "a") == digest(plan, "a") != digest("a", plan)
    assert digest("a") != digest("b") and digest("a", "b") != digest("ab")


def test_the_report_is_a_page_and_a_document_where_the_journey_says(tmp_path: Path) -> None:
    page = tmp_path / "reports" / "report.html"
    journey = Journey(goal="torch 2.7.1", arrived=True, verdict="it runs", workspace=str(tmp_path), report=str(page))
    assert write_report(journey) is journey
    assert "it runs" in page.read_text("utf-8") and load(page.with_suffix(".json"), Journey) == journey
    unwritten = Journey(goal="torch 2.7.1", arrived=True, verdict="it runs", workspace=str(tmp_path))
    assert write_report(unwritten) is unwritten
