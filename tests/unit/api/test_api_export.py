"""``export`` joined: which machine a plan is for, where its script goes, and which patches go with it."""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rekindle import api
from rekindle.api.export_plan import recipe_of
from rekindle.errors import BadInput
from rekindle.model.machine import Machine, Os
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.spark import plan_spark

exporting: Any = importlib.import_module("rekindle.api.export_plan")


def old(compiler: str | None = None, **more: Any) -> Plan:
    """A plan that does not say for which machine it was made."""
    build = BuildRecipe(source="v2.6.0", compiler=compiler) if compiler else None
    return Plan(answer="build" if build else "install", torch="2.6.0", build=build, **more)


@pytest.fixture
def rendered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, str]]:
    """For which system and CPU a script was written."""
    seen: list[tuple[str | None, str]] = []

    def render(recipe: object, format: str, *, system: str | None, arch: str, **_: object) -> str:
        seen.append((system, arch))
        return "#!/bin/sh\n"

    monkeypatch.setattr(exporting, "render", render)
    monkeypatch.setattr(exporting, "run_line", lambda *_: "sh x")
    monkeypatch.setattr(exporting, "make_recipe", lambda plan, patches: type("R", (), {"title": "x"})())
    monkeypatch.setattr(exporting, "files_beside", lambda recipe: {})
    return seen


@pytest.mark.parametrize(
    ("plan", "system"),
    [
        (old(), None),
        (old(commands=("pip install torch",)), "linux"),
        (old("gcc-12"), "linux"),
        (old("clang-17"), "linux"),
        (old("msvc-14.3"), "windows"),
        (old("icc"), None),
        (old(commands=("pip install torch",), powershell=("pip install torch",)), "windows"),
    ],
)
def test_the_system_of_an_older_plan_is_known_by_its_words(
    plan: Plan, system: str | None, rendered: list[tuple[str | None, str]]
) -> None:
    api.export(plan, "sh")
    api.export(plan, "sh", system="windows", arch="arm64")
    assert rendered == [(system, "x86_64"), ("windows", "aarch64")]


def test_a_plan_says_itself_for_which_machine_it_is(rendered: list[tuple[str | None, str]]) -> None:
    plan = old(os=Os(system="linux", arch="aarch64"))
    same: list[dict[str, Any]] = [{}, {"system": "linux"}, {"arch": "arm64"}, {"system": "linux", "arch": "aarch64"}]
    for told in same:
        api.export(plan, "github", **told)
    assert rendered == [("linux", "aarch64")] * 4
    others: list[dict[str, Any]] = [{"system": "windows"}, {"arch": "x86_64"}]
    for told in others:
        with pytest.raises(BadInput, match="this plan was made for"):
            api.export(plan, "github", **told)


@pytest.mark.parametrize("format", ["sh", "bat", "ps1", "slurm"])
def test_only_a_script_of_a_posix_shell_can_be_run_as_it_is(
    format: str, tmp_path: Path, rendered: list[tuple[str | None, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exporting, "choose_path", lambda out, format, recipe: out / f"x.{format}")
    made = api.export(old(), format, out=tmp_path)
    assert made.path == str(tmp_path / f"x.{format}") and Path(made.path).read_bytes() == made.text.encode()
    runs = Path(made.path).stat().st_mode & 0o111
    assert runs == (0o111 if format in ("sh", "slurm") else 0) or os.name == "nt"
    assert api.export(old(), format).path is None and made.beside == ()


def test_a_dockerfile_in_a_folder_has_what_it_needs_beside_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exporting, "files_beside", lambda recipe: {"build.sh": b"echo"})
    machine = machine_from_flags(gpu=["RTX 3060"], os="linux", glibc="2.35", python="3.12", driver="570.86")
    made = api.plan(machine, wheelhouses=())
    inside = api.export(made, "dockerfile", out=tmp_path)
    assert inside.beside == (str(tmp_path / "build.sh"),) and (tmp_path / "build.sh").read_bytes() == b"echo"
    assert api.export(made, "dockerfile", out=tmp_path / "Dockerfile.mine").beside == ()
    assert api.export(made, "sh", out=tmp_path).beside == () == api.export(made, "dockerfile").beside


def test_only_the_patches_of_the_plan_go_with_it() -> None:
    plan = plan_spark(Machine(os=Os(system="linux", arch="x86_64")), version="0.3.0", python="3.12")
    assert plan.build is not None
    for ids in ((), ("cmake-4-policies",)):
        patched = replace(plan, build=replace(plan.build, patches=ids))
        patches = recipe_of(patched)[1]
        assert tuple(patches) == ids and all(b"---" in raw for raw in patches.values())
    card = machine_from_flags(gpu=["RTX 3060"], os="linux", glibc="2.35", python="3.12", driver="570.86")
    installed = api.plan(card, wheelhouses=())
    assert installed.build is None and recipe_of(installed)[1] == {}
