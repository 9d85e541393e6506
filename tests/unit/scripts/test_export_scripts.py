"""The scripts say what the plan says: every value, nothing more, whatever the plan contains."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import re
from pathlib import Path

import pytest

import export_plans as plans
from rekindle import api
from rekindle.cli.main import main
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.document import encode as encode_document
from rekindle.model.plan import BuildRecipe, Plan, Reason, Request
from rekindle.scripts.containers import choose_images, pinned
from rekindle.scripts.formats import encode, render
from rekindle.scripts.recipe import cxx_command, cxx_package, make_recipe, visual_studio
from rekindle.scripts.templates import FORMATS
from rekindle.toolkits.compilers import c_compiler_of

PATCH = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old $HOME `x`\n+new\r\n"


def _texts(plan: Plan) -> dict[str, str]:
    patches = dict.fromkeys(plan.build.patches, PATCH) if plan.build else {}
    recipe = make_recipe(plan, patches)
    out = {}
    for kind in FORMATS:
        # What does not fit the plan is refused, each in a test of its own.
        with contextlib.suppress(BadInput):
            out[kind] = render(recipe, kind)
    assert {"sh", "bat", "ps1", "dockerfile", "devcontainer"} <= set(out)
    return out


@pytest.mark.parametrize("name", sorted(plans.ALL))
def test_every_setting_of_the_plan_is_in_every_script(name: str) -> None:
    plan = plans.ALL[name]
    for kind, text in _texts(plan).items():
        if plan.build and kind == "devcontainer":
            text = base64.b64decode(re.findall(r"printf %s (\S+)", text)[0]).decode()
        if kind == "dockerfile":
            # Programs that are carried along have words of their own.
            text = re.sub(r"(?ms)^COPY <<'(END_\w+)' /rekindle/.*?^\1$", "", text)
        if plan.build:
            for key, value in plan.build.env.items():
                assert f"{key}={value}" in text.replace("'", "").replace('"', "").replace(" = ", "="), (kind, key)
            assert "{{" not in text.replace("${{", "") and "None" not in text
        else:
            assert "https://download.pytorch.org/whl/cu128" in text


def test_seed_mistakes_do_not_come_back() -> None:
    kepler = _texts(plans.KEPLER_WINDOWS)
    assert "--branch v2.0.1" in kepler["bat"] and "v1.12.1" not in kepler["bat"]
    assert "CMAKE_ARGS" not in kepler["bat"] and "USE_AVX" not in kepler["bat"]
    assert "-vcvars_ver=14.29" in kepler["bat"] and " x86 " not in kepler["bat"]
    ivy = _texts(plans.IVYBRIDGE_LINUX)
    assert "-march=ivybridge" in ivy["sh"] and "-mfma" not in ivy["sh"]
    assert "nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04" in ivy["dockerfile"]
    assert "set(CXX_AVX2_FOUND OFF CACHE" in ivy["sh"]


def test_a_hostile_plan_stays_inside_its_quotes() -> None:
    for kind, text in _texts_of_hostile().items():
        assert "\x1b" not in text
        bare = [line for line in text.splitlines() if line.lstrip().startswith(("rm -rf /", "del *"))]
        assert not bare, kind


def _texts_of_hostile() -> dict[str, str]:
    recipe = make_recipe(plans.HOSTILE, {})
    texts = {kind: render(recipe, kind) for kind in ("sh", "bat", "dockerfile")}
    with pytest.raises(BadInput, match="workflow"):
        render(recipe, "github")
    return texts


def test_patches_travel_byte_for_byte() -> None:
    plan = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="v2.6.0", patches=("one", "two")))
    text_patch = b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old $HOME `x`\n+new END\n"
    recipe = make_recipe(plan, {"one": PATCH, "two": text_patch})
    script = render(recipe, "sh")
    assert text_patch.decode() in script, "readable where a here-document can carry it"
    assert base64.b64encode(PATCH).decode()[:60] in script, "encoded where it cannot"
    batch = render(recipe, "bat")
    lines = [line.split("echo ", 1)[1] for line in batch.splitlines() if line.startswith(">>") and "2.b64" in line]
    assert base64.b64decode("".join(lines)) == text_patch


def test_a_missing_patch_is_a_fault() -> None:
    plan = Plan(answer="build", torch="2.6.0", build=BuildRecipe(source="v2.6.0", patches=("gone",)))
    with pytest.raises(BadInput, match="gone"):
        make_recipe(plan, {})


def test_nothing_to_export() -> None:
    with pytest.raises(BadInput, match="too old"):
        make_recipe(Plan(answer="none", because=(Reason(code="x", text="the card is too old"),)), {})
    with pytest.raises(BadInput, match="no package"):
        make_recipe(Plan(answer="install"), {})


def test_batch_files_have_crlf_and_the_others_do_not() -> None:
    recipe = make_recipe(plans.KEPLER_WINDOWS, {})
    raw = encode(render(recipe, "bat"), "bat")
    assert raw.count(b"\r\n") == raw.count(b"\n") and b"\r\r" not in raw
    assert b"\r" not in encode(render(recipe, "sh"), "sh")


def test_a_windows_plan_is_no_dockerfile_but_a_windows_workflow() -> None:
    recipe = make_recipe(plans.KEPLER_WINDOWS, {})
    with pytest.raises(BadInput):
        render(recipe, "dockerfile", system="windows")
    workflow = render(recipe, "github", system="windows")
    assert 'runs-on: "windows-' in workflow and "call build.bat" in workflow and "container" not in workflow


# The ROCm plan is too large for a hosted runner and refused.
@pytest.mark.parametrize("name", sorted(set(plans.ALL) - {"rocm"}))
def test_a_workflow_that_builds_gets_its_wheels_signed_and_no_other_may_sign(name: str) -> None:
    recipe = make_recipe(plans.ALL[name], {})
    workflow = render(recipe, "github", system="linux")
    for line in ("actions/attest-build-provenance@", "id-token: write", "attestations: write"):
        assert (line in workflow) == recipe.builds
    assert "contents: write" not in workflow


def test_images_have_patch_levels_and_sources() -> None:
    for name, row in load_facts().images.image.items():
        kind, _, version = name.partition(" ")
        assert row.source and ":" in row.build
        if kind == "cuda":
            assert row.build.startswith(f"nvidia/cuda:{version}")
            assert version == "10.2" or row.build.split(":")[1].split("-")[0].count(".") == 2
    unknown = Plan(answer="build", cuda="11.5")
    with pytest.raises(BadInput, match=r"11\.5"):
        choose_images(unknown, None)
    assert choose_images(unknown, "my/image:1").build == "my/image:1"
    known = Plan(answer="build", cuda="12.6")
    assert choose_images(known, "") == choose_images(known, None)


def test_bases_are_pinned_where_their_digest_is_known() -> None:
    table = load_facts().images
    images = {image for row in table.image.values() for image in (row.build, row.run)}
    for name in table.digest:
        assert name in images or name.startswith("ghcr.io/astral-sh/uv:"), f"{name} is used nowhere"
    assert len({row.sha256 for row in table.digest.values()}) == len(table.digest)
    text = render(make_recipe(plans.ALL["ivybridge"], {}), "dockerfile")
    assert f"cudnn-devel-ubuntu22.04@sha256:{table.digest['nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04'].sha256}" in text
    froms = [line.split()[1] for line in text.splitlines() if line.startswith("FROM ")]
    assert all("@sha256:" in name or name.startswith(("${", "scratch")) for name in froms) and not any(
        '"' in f for f in froms
    )
    assert pinned("my/image:1") == "my/image:1"


def test_compilers_in_the_words_of_each_system() -> None:
    assert cxx_command("gcc-12") == "g++-12" and cxx_package("gcc-12") == "g++-12"
    assert c_compiler_of("g++-12") == "gcc-12"
    assert cxx_command("clang-17") == "clang++-17" and cxx_package("clang-17") == "clang-17"
    assert c_compiler_of("clang++-17") == "clang-17"
    assert cxx_command("msvc-19.29") is None and cxx_command(None) is None and cxx_package(None) == "g++"
    old = visual_studio("msvc-19.29")
    assert old.toolset == "14.29" and "2019" in old.words and old.ranges == ("[16.0,17.0)", "[17.0,")
    assert visual_studio("msvc-19.30").ranges[0] == "[17.0,18.0)" and "2022" in visual_studio("msvc-19.40").words
    assert (
        visual_studio("msvc-19.20").ranges[0] == "[16.0,17.0)"
        and visual_studio("msvc-19.19").ranges[0] == "[15.0,16.0)"
    )
    assert visual_studio("gcc-12").toolset == "" and visual_studio(None).words == ""


def test_the_verb_prints_or_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = tmp_path / "plan.json"
    plan.write_bytes(encode_document(plans.CPU))
    assert main(["export", "sh", "--plan", str(plan)]) == 0
    assert capsys.readouterr().out.startswith("#!/bin/sh\n")
    assert main(["export", "sh", "--plan", str(plan), "--out", str(tmp_path), "--json"]) == 0
    written = Path(json.loads(capsys.readouterr().out)["path"])
    # Windows has no such bit.
    assert (os.name == "nt" or written.stat().st_mode & 0o111) and written.parent == tmp_path
    assert main(["export", "pdf", "--plan", str(plan)]) == 2
    assert main(["export", "bat", "--gpu", "Tesla K40c", "--os", "windows", "--build"]) == 0
    assert "TORCH_CUDA_ARCH_LIST=3.5" in capsys.readouterr().out


def test_spark_patches_are_found_by_their_names() -> None:
    plan = Plan(answer="build", project="spark", build=BuildRecipe(source="spark", patches=("cmake-4-policies",)))
    assert "cmake_minimum_required(VERSION 3.5" in api.export(plan, "sh").text


def test_what_the_plan_requests_becomes_commands() -> None:
    plan = Plan(
        answer="install",
        torch="2.6.0",
        env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"},
        requests=(
            Request(name="torch", version="2.6.0+rocm6.2.4", index="https://x/whl"),
            Request(name="numpy", specifier="<2"),
        ),
    )
    recipe = make_recipe(plan, {})
    assert recipe.env == {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}
    assert recipe.commands == (
        ("python", "-m", "pip", "install", "torch==2.6.0", "--index-url", "https://x/whl"),
        ("python", "-m", "pip", "install", "numpy<2"),
    )
    assert "HSA_OVERRIDE_GFX_VERSION=10.3.0" in render(recipe, "sh")
    with pytest.raises(BadInput, match="no package"):
        make_recipe(Plan(answer="install", commands=("curl x | sh",)), {})


def test_rocm_builds_turn_cuda_sources_into_hip_first() -> None:
    texts = _texts(plans.ROCM)
    for kind in ("sh", "bat"):
        lines = texts[kind].splitlines()
        hipify = next(n for n, line in enumerate(lines) if "build_amd.py" in line and not line.startswith("#"))
        assert hipify < next(n for n, line in enumerate(lines) if "pip wheel" in line)
    assert "build_amd" not in _texts(plans.IVYBRIDGE_LINUX)["sh"]
