"""``up`` puts libraries of this machine into a built wheel, where it needs any; otherwise the wheel stays as it is."""

from __future__ import annotations

import subprocess
import zipfile
from pathlib import Path

import pytest

import needs
from rekindle.host.workspace import Workspace
from rekindle.journey.from_source import bundle_wheel
from rekindle.journey.walk import is_still_true
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.progress import Silent
from rekindle.render.summary import summarise_bundle
from tiny_wheels import make_wheel

pytestmark = [pytest.mark.integration, needs.tool("gcc", "patchelf")]


def wheel_with(folder: Path, *, outside: bool) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "ember.c").write_text("int tinder(void); int ember(void) { return tinder(); }\n")
    (folder / "tinder.c").write_text("int tinder(void) { return 7; }\n")
    subprocess.run(["gcc", "-shared", "-fPIC", "-Wl,-soname,libtinder.so.2", "-o", "libtinder.so.2", "tinder.c"],
                   cwd=folder, check=True)  # fmt: skip
    own = ["-L.", "-l:libtinder.so.2"] if outside else ["tinder.c"]
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "ember.so", "ember.c", *own], cwd=folder, check=True)
    return make_wheel(folder, "spark", tag="py3-none-any", files={"spark/ember.so": (folder / "ember.so").read_bytes()})


def plan(place: Path) -> Plan:
    """The plan knows where its toolkit lies."""
    return Plan(answer="build", build=BuildRecipe(source="x", env={"CUDA_HOME": str(place), "ROCM_PATH": "/none"}))


def test_a_library_of_this_machine_goes_in(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "ws")
    wheel = wheel_with(tmp_path / "made", outside=True)
    report = bundle_wheel(wheel, plan(tmp_path / "made"), workspace, Silent())
    assert report.out
    assert is_still_true(report)
    with zipfile.ZipFile(report.out) as inside:
        assert any(name.endswith("libtinder.so.2") for name in inside.namelist())
    assert summarise_bundle(report) == f"libtinder.so.2 now inside {Path(report.out).name}"
    Path(report.out).write_bytes(b"cut short")
    assert not is_still_true(report), "a wheel that changed is made again"


def test_a_wheel_that_runs_alone_stays_as_it_is(tmp_path: Path) -> None:
    wheel = wheel_with(tmp_path / "made", outside=False)
    report = bundle_wheel(wheel, plan(tmp_path / "made"), Workspace(tmp_path / "ws"), Silent())
    assert report.out is None
    assert "nothing to bring along" in summarise_bundle(report)
