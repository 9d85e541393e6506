"""Numbers and versions in exports: what a build needs, how long it may take, which toolkit it must find."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

import export_plans as plans
from rekindle.compat.driver import toolkit_driver
from rekindle.compat.resources import build_cost
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.plan import BuildRecipe, Plan, PlannedFor, Reason, Request
from rekindle.scripts import formats
from rekindle.scripts.containers import base_image, choose_images, find_image
from rekindle.scripts.formats import carried_program, check_overwriting, cuda_release, encode, render, run_line
from rekindle.scripts.recipe import EmbeddedFile, make_recipe

WINDOWS = plans.KEPLER_WINDOWS


def build(**fields: Any) -> Plan:
    return Plan(answer="build", torch="2.6.0", python="3.11", build=BuildRecipe(source="v2.6.0", **fields))


@pytest.mark.parametrize(("minutes", "hours"), [(1, 1), (8 * 30, 1), (8 * 30 + 1, 2), (8 * 300, 10), (8 * 300 + 4, 11)])
def test_a_cluster_job_has_twice_the_time_of_the_estimate(
    minutes: int, hours: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        formats, "build_cost", lambda *given: msgspec.structs.replace(build_cost(*given), cpu_minutes=minutes)
    )
    text = render(make_recipe(build(), {}), "slurm")
    assert f"#SBATCH --time={hours}:00:00\n" in text and "#SBATCH --cpus-per-task=8\n" in text


@pytest.mark.parametrize("cuda", ["11.4", "11.4.3"])
def test_a_script_looks_for_the_release_of_its_toolkit(cuda: str) -> None:
    """The patch level is no reason to refuse a machine's nvcc."""
    recipe = make_recipe(msgspec.structs.replace(WINDOWS, cuda=cuda), {})
    sh = render(recipe, "sh")
    assert '[ "$have" = 11.4 ] || fail "nvcc is CUDA $have; this plan is for 11.4"' in sh
    batch = render(recipe, "bat")
    assert 'if not "%HAVE%"=="11.4" set' in batch and "CUDA_PATH_V11_4" in batch
    assert 'if not "%HAVE%"=="8" set "WHY=%CUDNN% is cuDNN %HAVE%; this plan is for 8.7"' in batch
    shell = render(recipe, "ps1")
    assert "if ($have -ne '11.4')" in shell and "if ($have -ne '8')" in shell and "CUDA_PATH_V11_4" in shell


def test_what_a_build_needs_stands_in_every_script() -> None:
    recipe = make_recipe(WINDOWS, {})
    for kind in ("sh", "bat", "ps1"):
        text = render(recipe, kind)
        assert "the build needs 16 GiB of memory" in text and "the build needs 40 GiB of disk" in text
        # What firmware takes for itself is no reason to refuse.
        assert re.search(r"(-ge|LSS|-lt) 15\b", text) and re.search(r"(-ge|LSS|-lt) 40\b", text)


def test_what_nobody_measured_is_asked_of_no_machine() -> None:
    for recipe in (make_recipe(build(), {}), make_recipe(plans.BLACKWELL, {})):
        assert (recipe.disk_gib, recipe.memory_gib) == (0, 0)
    text = render(make_recipe(build(), {}), "sh")
    assert '[ "$memory_gib" -ge 0 ]' in text and '[ "$free_gib" -ge 0 ]' in text
    measured = make_recipe(build(disk_gib=40.9, memory_gib=8.9), {})
    assert (measured.disk_gib, measured.memory_gib) == (40, 8)


@pytest.mark.parametrize(
    ("env", "asked"),
    [({}, True), ({"USE_CUDNN": "1"}, True), ({"USE_CUDNN": "off"}, False), ({"USE_CUDNN": "0"}, False)],
)
def test_cudnn_is_looked_for_where_the_build_takes_it(env: dict[str, str], asked: bool) -> None:
    assert WINDOWS.build is not None
    plan = msgspec.structs.replace(WINDOWS, build=msgspec.structs.replace(WINDOWS.build, env=env))
    for changed, there in ((plan, asked), (msgspec.structs.replace(plan, cudnn=None), False)):
        assert ("cudnn_version.h" in render(make_recipe(changed, {}), "bat")) == there
    assert "cudnn_version.h" not in render(make_recipe(msgspec.structs.replace(plan, cuda=None), {}), "bat")


@pytest.mark.parametrize(
    ("wanted", "installed"), [("<2", "'numpy<2'"), (">=1.26", "'numpy>=1.26'"), ("1.26", "numpy"), (None, "numpy")]
)
def test_an_image_gets_the_numpy_of_its_plan(wanted: str | None, installed: str) -> None:
    plan = msgspec.structs.replace(plans.CPU, numpy=wanted)
    assert f"uv pip install {installed} /wheels/*.whl\n" in render(make_recipe(plan, {}), "dockerfile")


def test_a_kepler_card_needs_the_driver_that_is_there() -> None:
    ivybridge = render(make_recipe(plans.IVYBRIDGE_LINUX, {}), "dockerfile")
    kepler = render(
        make_recipe(msgspec.structs.replace(plans.IVYBRIDGE_LINUX, arch_list=("3.5", "8.6")), {}), "dockerfile"
    )
    assert "purge -y 'cuda-compat-*'" in kepler and "purge -y" not in ivybridge


def test_a_development_container_installs_by_its_own_python() -> None:
    requests = (Request(name="torch", version="2.7.1"), Request(name="numpy", specifier="<2"))
    plan = msgspec.structs.replace(plans.BLACKWELL, requests=requests, env={"A": "1"})
    text = render(make_recipe(plan, {}), "devcontainer")
    described = json.loads("".join(line for line in text.splitlines() if not line.startswith("//")))
    assert described["postCreateCommand"] == (
        "python -m pip install torch==2.7.1 && python -m pip install 'numpy<2'"
    )  # fmt: skip
    assert described["containerEnv"] == {"A": "1"} and "onCreateCommand" not in described
    assert text.startswith("// torch 2.7.1 cu128, planned by rekindle ") and text.endswith("\n}\n")
    assert '\n  "name": "torch 2.7.1 cu128",\n' in text, "people read and change it"


def test_a_development_container_for_a_build_brings_the_script() -> None:
    text = render(make_recipe(plans.IVYBRIDGE_LINUX, {}), "devcontainer")
    described = json.loads("".join(line for line in text.splitlines() if not line.startswith("//")))
    assert "apt-get install -y --no-install-recommends " in described["onCreateCommand"]
    assert "g++-12" in described["onCreateCommand"] and "/usr/local/bin/build-torch" in described["postAttachCommand"]
    assert "containerEnv" not in described and "postCreateCommand" not in described


def test_a_toolkit_is_known_with_and_without_its_patch_level() -> None:
    for kind, version in (("cuda", "12.4"), ("rocm", "6.4")):
        row = find_image(kind, version)
        assert row is not None and find_image(kind, f"{version}.1") == row
    assert find_image("cuda", "99.1") is None and find_image("cpu", None) is not None
    with pytest.raises(BadInput, match=r"no container image with ROCM 5\.2 is known here \(known: 6\.3, "):
        choose_images(Plan(answer="build", rocm="5.2"), None)


def test_an_image_that_was_given_runs_what_it_builds_where_nothing_else_is_known() -> None:
    known = choose_images(Plan(answer="build", cuda="12.4"), "mine:1")
    assert known.build == "mine:1" and known.run.startswith("nvidia/cuda:12.4.1-cudnn-runtime")
    assert choose_images(Plan(answer="build", cuda="11.5"), "mine:1").run == "mine:1"
    rocm = choose_images(Plan(answer="build", rocm="7.0"), None)
    assert rocm.run == rocm.build and rocm.kind == "rocm"
    assert choose_images(Plan(answer="build"), None, distro="debian-12") == ("cpu", "debian:12", "debian:12")


@pytest.mark.parametrize("distro", ["Ubuntu 24.04", "ubuntu-24.04", "ubuntu:24.04", " ubuntu_24.04 "])
def test_a_distribution_has_several_spellings(distro: str) -> None:
    assert base_image(distro) == "ubuntu:24.04"
    assert choose_images(Plan(answer="build", cuda="12.9"), None, distro=distro).kind == "cuda"
    with pytest.raises(BadInput, match=r"is of Ubuntu 22\.04") as refused:
        choose_images(Plan(answer="build", cuda="12.4"), None, distro=distro)
    assert "such as nvidia/cuda:12.4.1-cudnn-devel-ubuntu24.04" in (refused.value.remedy or "")


@pytest.mark.parametrize("distro", ["debian-12", "ubuntu", "rocky 9!"])
def test_no_image_is_guessed_for_another_distribution(distro: str) -> None:
    with pytest.raises(BadInput, match=r"is of Ubuntu 22\.04") as refused:
        choose_images(Plan(answer="build", cuda="12.4"), None, distro=distro)
    assert "such as" not in (refused.value.remedy or "")


def test_what_a_workflow_carries_along_is_what_it_starts() -> None:
    def carried(text: str, name: str) -> bool:
        lines = {line.strip() for line in text.splitlines()}
        return all(line.strip() in lines for line in carried_program(name).splitlines())

    windows = render(make_recipe(WINDOWS, {}), "github", system="windows")
    assert carried(windows, "fetch_cuda.py.txt") and carried(windows, "build_report.py.txt")
    assert "CMAKE_CUDA_COMPILER_LAUNCHER" in windows and "container:" not in windows
    linux = render(make_recipe(plans.IVYBRIDGE_LINUX, {}), "github")
    assert not carried(linux, "fetch_cuda.py.txt") and carried(linux, "build_report.py.txt")
    assert "nvidia/cuda:12.4.1" in linux and "\n  install:\n" not in linux and "\n  build-1:\n" in linux
    # Without cuDNN the program is told so.
    assert " - cuda\n" in render(
        make_recipe(msgspec.structs.replace(WINDOWS, cudnn=None), {}), "github", system="windows"
    )
    installed = render(make_recipe(plans.BLACKWELL, {}), "github", system="windows")
    assert "fetch_cuda" not in installed and "\n  install:\n" in installed and "About " not in installed
    assert "container:" not in render(make_recipe(plans.BLACKWELL, {}), "github")


@pytest.mark.parametrize(
    ("project", "compiler"),
    [("torch", None), ("torch", "gcc-12"), ("torchvision", "clang-17"), ("torch", "clang-17.0.6")],
)
def test_a_project_s_own_repository_and_compiler(project: str, compiler: str | None) -> None:
    plan = msgspec.structs.replace(build(compiler=compiler), project=project)
    text = render(make_recipe(plan, {}), "sh")
    assert ("pytorch.git" if project == "torch" else "vision.git") in text and "v2.6.0" in text
    command = {"gcc": "g++-12", "clang": "clang++-17"}.get((compiler or "").split("-")[0], "c++")
    assert f"for tool in git {command};" in text


@pytest.mark.parametrize(
    ("source", "torch", "tag"),
    [
        ("https://github.com/pytorch/pytorch@v2.6.0", "2.6.0", "v2.6.0"),
        ("v2.6.0-rc1", "2.6.0", "v2.6.0-rc1"),
        ("main", "2.6.1", "v2.6.1"),
        ("main", None, None),
    ],
)
def test_the_tag_of_a_build(source: str, torch: str | None, tag: str | None) -> None:
    plan = Plan(answer="build", torch=torch, build=BuildRecipe(source=source))
    assert make_recipe(plan, {}).tag == tag
    assert make_recipe(msgspec.structs.replace(plan, project="spark"), {}).tag is None


@pytest.mark.parametrize(("python", "asked"), [("3.11.7", "3.11"), ("3.9", "3.9"), (None, "3"), ("pypy", "3")])
def test_a_python_is_asked_for_by_its_minor_version(python: str | None, asked: str) -> None:
    assert make_recipe(msgspec.structs.replace(plans.CPU, python=python), {}).python == asked


def test_why_there_is_nothing_to_export() -> None:
    for plan, word in (
        (Plan(answer="none"), "the plan found no way"),
        (Plan(answer="graft"), "a graft is made by Rekindle itself"),
        (Plan(answer="build"), "it was cut short"),
    ):
        with pytest.raises(BadInput, match=word) as refused:
            make_recipe(plan, {})
        assert refused.value.remedy


def test_a_plan_s_words_and_settings_go_with_an_install() -> None:
    plan = msgspec.structs.replace(
        plans.BLACKWELL,
        env={"HSA": "1"},
        because=(Reason(code="x", text="fits", source="a.toml"), Reason(code="x", text="said")),
        warnings=(Reason(code="x", text="slow", source="https://e.org"),),
    )
    recipe = make_recipe(plan, {})
    assert recipe.reasons == ("fits [a.toml]", "said")
    assert recipe.cautions == ("HSA=1 must be set whenever torch is used.", "slow [https://e.org]")


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"a\n", "a\n"), (b"a", None), (b"", None), (b"a\r\n", None), (b"a\0\n", None), (b"\xff\n", None)],
)
def test_what_a_here_document_can_carry(content: bytes, text: str | None) -> None:
    assert EmbeddedFile(name="x", content=content).text == text


def test_an_earlier_export_is_known_by_its_head_alone(tmp_path: Path) -> None:
    """The words that say who made it may stand in anybody's file further down."""
    place, sign, limit = tmp_path / "x.sh", b", planned by rekindle ", 4096
    content = encode(render(make_recipe(plans.CPU, {}), "sh"), "sh")
    check_overwriting(place, content)
    for size, ours in ((limit, True), (limit + 1, False)):
        place.write_bytes(b"#!/bin/sh\n".ljust(size - len(sign), b"#") + sign + b"0.1")
        if ours:
            check_overwriting(place, content)
        else:
            with pytest.raises(BadInput, match="no earlier export"):
                check_overwriting(place, content)


def test_how_an_export_is_started(tmp_path: Path) -> None:
    recipe = make_recipe(plans.CPU, {})
    assert run_line(recipe, "sh", None, "x86_64") == "sh rekindle-torch-2.6.0-cpu.sh"
    docker = run_line(recipe, "dockerfile", None, "aarch64")
    assert docker == "docker build --platform linux/arm64 -t rekindle-torch-2.6.0-cpu -f Dockerfile ."
    assert run_line(recipe, "github", tmp_path / "x.yml", "x86_64").startswith("commit it as .github/workflows/x.yml ")


@pytest.mark.parametrize(
    ("runs", "made_for", "others"),
    [("bat", "linux", "sh, dockerfile or github"), ("sh", "windows", "bat or ps1"), ("sh", "freebsd", "pixi")],
)
def test_a_form_of_another_system_is_refused_with_a_way_out(runs: str, made_for: str, others: str) -> None:
    with pytest.raises(BadInput) as refused:
        render(make_recipe(plans.CPU, {}), runs, system=made_for)
    assert (refused.value.remedy or "").endswith(f"export it as {others}")
    with pytest.raises(BadInput, match="'pdf' is no format"):
        render(make_recipe(plans.CPU, {}), "pdf")


def test_a_pixi_workspace_names_its_toolkit_where_it_has_one() -> None:
    plain = msgspec.structs.replace(plans.BLACKWELL, cuda=None, env={"A": "1"})
    text = render(make_recipe(plain, {}), "pixi")
    assert "system-requirements" not in text and '"linux-64"' in text and '[activation.env]\n"A" = "1"' in text
    assert "activation" not in render(make_recipe(plans.BLACKWELL, {}), "pixi")
    with pytest.raises(BadInput, match="no torch for linux on riscv64"):
        render(make_recipe(plans.BLACKWELL, {}), "pixi", arch="riscv64")


def test_the_driver_of_a_wheel_is_that_of_its_system() -> None:
    def driver(**change: Any) -> str | None:
        return make_recipe(msgspec.structs.replace(plans.BLACKWELL, **change), {}).driver

    windows = driver(os=PlannedFor(system="windows", arch="x86_64"))
    linux = driver(os=PlannedFor(system="linux", arch="x86_64"))
    assert windows == toolkit_driver("12.8", "windows", load_facts()).floor
    assert linux == toolkit_driver("12.8", "linux", load_facts()).floor == driver() and linux != windows
    assert driver(cuda=None) is None


def test_the_exact_release_of_a_toolkit_is_that_of_its_image() -> None:
    for cuda in ("12.4", "12.4.0"):
        assert cuda_release(make_recipe(msgspec.structs.replace(WINDOWS, cuda=cuda), {})) == "12.4.1"
    with pytest.raises(BadInput, match=r"the exact release of CUDA 11\.5 is not known"):
        cuda_release(make_recipe(msgspec.structs.replace(WINDOWS, cuda="11.5.2"), {}))
