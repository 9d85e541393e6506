"""A plan made ready to be written: what CMake calls yes and no, and who is told a setting."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import export_plans as plans
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.scripts.formats import render, run_line
from rekindle.scripts.recipe import make_recipe


def build_plan(**recipe: dict[str, str]) -> Plan:
    return Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="https://example.org/v2.6.0", **recipe))  # type: ignore[arg-type]


def test_the_words_for_yes_and_no_become_truths() -> None:
    said = {"A": "on", "B": "1", "C": "OFF", "D": "false", "E": "MKL"}
    asserts = make_recipe(build_plan(asserts=said), {}).asserts
    assert asserts == {"A": True, "B": True, "C": False, "D": False, "E": "MKL"}


def test_what_setup_py_forwards_is_a_variable_and_the_rest_a_setting() -> None:
    recipe = make_recipe(build_plan(cmake={"USE_MPI": "OFF", "CXX_AVX2_FOUND": "OFF"}, env={"MAX_JOBS": "2"}), {})
    assert recipe.env == {"USE_MPI": "OFF", "MAX_JOBS": "2"} and recipe.settings == {"CXX_AVX2_FOUND": "OFF"}


@pytest.mark.parametrize(("kind", "begins"), [("sh", "sh "), ("slurm", "sbatch "), ("pixi", "pixi run")])
def test_how_a_file_is_used(kind: str, begins: str) -> None:
    assert run_line(make_recipe(build_plan(), {}), kind, Path("x"), "x86_64").startswith(begins)


def test_a_cluster_job_loads_the_toolkit_and_the_compiler_of_its_plan() -> None:
    def modules(plan: Plan) -> list[str]:
        text = render(make_recipe(plan, {}), "slurm")
        return [line.split()[2] for line in text.splitlines() if "module load" in line]

    assert modules(plans.IVYBRIDGE_LINUX) == ["cuda/12.4", "gcc/12"]
    assert modules(plans.ROCM) == ["rocm/7.0"] and modules(plans.CPU) == []


def test_a_cluster_job_asks_for_memory_for_all_its_cores() -> None:
    def memory(plan: Plan) -> int:
        return int(re.findall(r"--mem=(\d+)G", render(make_recipe(plan, {}), "slurm"))[0])

    recipe = make_recipe(plans.CPU, {})
    assert memory(plans.CPU) == 8 * recipe.gib_per_job + 2
    large = BuildRecipe(source="v2.6.0", memory_gib=400)
    assert memory(Plan(answer="build", torch="2.6.0", build=large)) == 402
