"""Edges of a build's small decisions: just inside and just outside."""

from __future__ import annotations

from pathlib import Path
from unittest import mock

import pytest

from bare_host import BareHost
from rekindle.build.companion import toolkit_for_cmake
from rekindle.build.environment import FLAG_FILE, render_cache_script
from rekindle.build.request import version_of
from rekindle.build.tree import MIN_FREE_FILES, settings_of, stop_before_full
from rekindle.errors import Interrupted
from rekindle.model.build import Fact
from rekindle.model.plan import BuildRecipe, Plan


def test_a_version_has_eighty_letters_at_most(tmp_path: Path) -> None:
    (tmp_path / "version.txt").write_text("2" * 80 + "9\n")
    assert version_of(tmp_path) == "2" * 80


@pytest.mark.parametrize(("files", "stops"), [(MIN_FREE_FILES, False), (MIN_FREE_FILES - 1, True), (None, False)])
def test_it_stops_before_no_more_files_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: int | None, stops: bool
) -> None:
    monkeypatch.setattr("rekindle.build.tree.shutil.disk_usage", lambda _: mock.Mock(free=50 << 30))
    monkeypatch.setattr("rekindle.build.tree.free_files", lambda _: files)
    if stops:
        with pytest.raises(Interrupted, match="more files fit"):
            stop_before_full(tmp_path)
    else:
        stop_before_full(tmp_path)


def test_how_it_is_made_is_no_other_tree() -> None:
    recipe = BuildRecipe(
        source="git",
        env={"USE_CUDA": "0", "CCACHE_DIR": "/c", "SCCACHE_DIR": "/s", "MAX_JOBS": "3"},
        cmake={"BUILD_TEST": "OFF", "CMAKE_CXX_COMPILER_LAUNCHER": "ccache"},
    )
    plan = Plan(answer="build", build=recipe)
    assert settings_of(plan) == {"env USE_CUDA": "0", "cmake BUILD_TEST": "OFF"}


def test_nvcc_is_told_to_forget_the_place_only_where_there_is_one_to_forget() -> None:
    flag = "-ffile-prefix-map=/t=."
    assert FLAG_FILE in render_cache_script({}, flag, steady_cuda=True)
    assert FLAG_FILE not in render_cache_script({}, flag) and flag in render_cache_script({}, flag)
    assert FLAG_FILE not in render_cache_script({}, None, steady_cuda=True)


@pytest.mark.parametrize(
    ("plan", "torch"),
    [
        (Plan(answer="build", cuda="12.8", build=BuildRecipe(source="git")), "2.6.0 (CUDA 12.4)"),
        (Plan(answer="build", rocm="6.4", build=BuildRecipe(source="git")), "2.6.0 (CUDA 12.4)"),
        (Plan(answer="install"), "2.6.0 (CUDA 12.4)"),
        (Plan(answer="build", build=BuildRecipe(source="git")), "2.6.0 (CPU)"),
        (Plan(answer="build", build=BuildRecipe(source="git")), None),
    ],
)
def test_no_toolkit_is_named_where_none_is_wanted(plan: Plan, torch: str | None, tmp_path: Path) -> None:
    (tmp_path / "CMakeLists.txt").write_text("find_package(Torch REQUIRED)\n")
    assert toolkit_for_cmake(BareHost(), plan, Fact(name="torch", wanted="any", found=torch), tmp_path) is None
