"""Exports for Windows and for clusters, containers and environments: what they hold, and what is refused."""

from __future__ import annotations

import argparse
import json
import re
import tomllib
from pathlib import Path

import msgspec
import pytest

import export_plans as plans
from rekindle import api
from rekindle.cli.main import main
from rekindle.cli.verb import add_arguments
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.scripts.formats import cuda_release, encode, fit_runner, render
from rekindle.scripts.quoting import ps_word
from rekindle.scripts.recipe import make_recipe
from rekindle.scripts.templates import FORMATS

KEPLER = make_recipe(plans.KEPLER_WINDOWS, {})
assert plans.KEPLER_WINDOWS.build is not None
BUILD = plans.KEPLER_WINDOWS.build


def test_the_verb_knows_every_format() -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser, "export")
    (choices,) = (action.choices for action in parser._actions if action.dest == "format")
    assert set(choices or ()) == {*FORMATS, "table"}  # which is no plan's form


def test_a_label_stands_once() -> None:
    plan = msgspec.structs.replace(
        plans.KEPLER_WINDOWS,
        build=msgspec.structs.replace(BUILD, asserts={"USE_CUDA": "ON", "BLAS": "MKL", "USE_MPI": "OFF"}),
    )
    text = render(make_recipe(plan, {}), "bat")
    labels = re.findall(r"(?m)^:(\w+)", text)
    assert len(labels) == len(set(labels)) > 10
    called = set(re.findall(r"(?:goto|call) :(\w+)", text))
    assert called <= set(labels), called - set(labels)


def test_what_is_missing_is_found_before_the_hours() -> None:
    text = render(KEPLER, "bat")
    begun = text.index("git -c core.longpaths=true clone")
    for word in ("cudnn_version.h", "LongPathsEnabled", "GiB of disk", "GiB of memory", "VC\\Tools\\MSVC\\14.29"):
        assert 0 < text.index(word) < begun, word
    off = msgspec.structs.replace(plans.KEPLER_WINDOWS, build=msgspec.structs.replace(
        BUILD, env={"USE_CUDNN": "0"}))  # fmt: skip
    assert "cudnn_version.h" not in render(make_recipe(off, {}), "bat")


def test_the_product_of_the_toolset_is_asked_first() -> None:
    for kind in ("bat", "ps1"):
        text = render(KEPLER, kind)
        assert 0 < text.index("[16.0,17.0)") < text.index("[17.0,"), kind
        assert "-latest" not in text


def test_bat_means_windows(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["export", "bat", "--gpu", "RTX 5070"]) == 0
    out = capsysbinary.readouterr().out
    assert out.count(b"\r\n") == out.count(b"\n") > 20 and b"/whl/cu1" in out


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["bat", "--gpu", "RTX 3060", "--os", "linux"], "bat runs on Windows"),
        (["dockerfile", "--gpu", "Tesla K40c", "--os", "windows"], "dockerfile runs on Linux"),
        (["slurm", "--gpu", "RTX 3060"], "only installs"),
        (["pixi", "--gpu", "Tesla K40c", "--build"], "this plan is a build"),
        (["bat", "--machine", "xeon-e5v2-rtx3060"], "bat runs on Windows"),
    ],
)
def test_what_cannot_work_there_is_refused(argv: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", *argv]) == 2
    assert word in capsys.readouterr().err


def test_a_plan_file_remembers_its_system(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--gpu", "RTX 3060", "--os", "linux", "--glibc", "2.35", "--json"]) == 0
    file = tmp_path / "plan.json"
    file.write_text(capsys.readouterr().out)
    assert main(["export", "ps1", "--plan", str(file)]) == 2 and "ps1 runs on Windows" in capsys.readouterr().err
    assert main(["export", "sh", "--plan", str(file)]) == 0


def test_powershell_takes_typographic_quotes_for_its_own() -> None:
    assert ps_word("it's") == "'it''s'"
    assert ps_word("a\u2019b\u201bc") == "'a\u2019\u2019b\u201b\u201bc'" and ps_word("$x `y") == "'$x `y'"
    with pytest.raises(BadInput):
        ps_word("a\nb")


def test_powershell_5_needs_a_mark() -> None:
    raw = encode(render(KEPLER, "ps1"), "ps1")
    assert raw.startswith(b"\xef\xbb\xbf") and raw.count(b"\r\n") == raw.count(b"\n")


def build_of(**costs: float) -> Plan:
    return Plan(answer="build", torch="2.6.0", cuda="12.4", python="3.11", build=BuildRecipe(source="v2.6.0", **costs))  # type: ignore[arg-type]


def test_a_runner_that_is_too_small_is_refused() -> None:
    runner = load_facts().images.runner["linux"]
    assert fit_runner(make_recipe(build_of(disk_gib=runner.disk_gib), {}), "linux").rounds >= 1
    with pytest.raises(BadInput, match="GiB of disk"):
        fit_runner(make_recipe(build_of(disk_gib=runner.disk_gib + 1), {}), "linux")
    assert fit_runner(make_recipe(build_of(memory_gib=runner.memory_gib), {}), "linux").rounds >= 1
    with pytest.raises(BadInput, match="GiB of memory"):
        fit_runner(make_recipe(build_of(memory_gib=runner.memory_gib + 1), {}), "linux")


def test_the_runner_is_of_the_machines_own_kind() -> None:
    """An x86-64 runner would build, and prove, something for another machine."""
    recipe = make_recipe(plans.BLACKWELL, {})
    assert 'runs-on: "ubuntu-latest"' in render(recipe, "github", system="linux", arch="x86_64")
    assert 'runs-on: "ubuntu-24.04-arm"' in render(recipe, "github", system="linux", arch="aarch64")
    for system, arch in (("macos", "aarch64"), ("windows", "aarch64"), ("linux", "ppc64le")):
        with pytest.raises(BadInput, match=f"for {system} on {arch}"):
            render(recipe, "github", system=system, arch=arch)


def test_a_mac_gets_what_runs_on_it() -> None:
    recipe = make_recipe(msgspec.structs.replace(plans.BLACKWELL, cuda=None), {})
    assert 'platforms = ["osx-arm64"]' in render(recipe, "pixi", system="macos", arch="aarch64")
    for kind in ("sh", "dockerfile", "slurm", "bat"):
        with pytest.raises(BadInput, match="this plan is for macOS") as refused:
            render(recipe, kind, system="macos", arch="aarch64")
        assert refused.value.remedy and refused.value.remedy.endswith("export it as pixi")


def test_a_long_build_is_split_and_an_endless_one_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from rekindle.compat.resources import build_cost as real
    from rekindle.scripts import formats

    def cost(minutes: int):  # type: ignore[no-untyped-def]
        return lambda *given: msgspec.structs.replace(real(*given), cpu_minutes=minutes, job_gib=4.0)

    recipe = make_recipe(build_of(), {})
    for minutes, rounds in ((4 * 300, 1), (4 * 300 + 4, 2), (4 * 1200, 4)):
        monkeypatch.setattr(formats, "build_cost", cost(minutes))
        assert formats.fit_runner(recipe, "linux").rounds == rounds
    text = render(recipe, "github")
    assert 'needs: "build-3"' in text and text.count("continue-on-error") == 3 and text.count("attest-build") == 1
    monkeypatch.setattr(formats, "build_cost", cost(4 * 1200 + 4))
    with pytest.raises(BadInput, match="1201 minutes"):
        formats.fit_runner(recipe, "linux")


def test_the_windows_workflow_brings_cuda_and_cudnn() -> None:
    text = render(KEPLER, "github", system="windows")
    assert "python fetch_cuda.py 11.4.3 8.7.0 cuda" in text and "CUDA_PATH=" in text
    assert text.index("fetch_cuda.py") < text.index("call build.bat")
    with pytest.raises(BadInput, match=r"CUDA 11\.5"):
        cuda_release(make_recipe(msgspec.structs.replace(plans.KEPLER_WINDOWS, cuda="11.5"), {}))


def test_a_development_container() -> None:
    def read(text: str) -> dict[str, object]:
        return json.loads(re.sub("(?m)^//.*$", "", text))  # type: ignore[no-any-return]

    built = read(render(make_recipe(plans.IVYBRIDGE_LINUX, {}), "devcontainer"))
    assert str(built["image"]).startswith("nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04@sha256:")
    assert built["runArgs"] == ["--gpus", "all"]
    installed = read(render(make_recipe(plans.BLACKWELL, {}), "devcontainer"))
    assert str(installed["image"]).endswith(":3.11")
    assert "pip install torch==2.7.1 --index-url https://download.pytorch.org/whl/cu128" in str(
        installed["postCreateCommand"]
    )


def test_a_pixi_workspace() -> None:
    made = tomllib.loads(render(make_recipe(plans.BLACKWELL, {}), "pixi", system="windows"))
    assert made["workspace"]["platforms"] == ["win-64"] and made["dependencies"] == {"python": "3.11.*"}
    assert made["pypi-dependencies"]["torch"] == {
        "version": "==2.7.1+cu128", "index": "https://download.pytorch.org/whl/cu128",
    }  # fmt: skip
    assert made["system-requirements"] == {"cuda": "12"}


def test_the_digest_changes_with_the_build_and_not_with_words() -> None:
    other = msgspec.structs.replace(plans.KEPLER_WINDOWS, because=())
    assert make_recipe(other, {}).digest == KEPLER.digest
    changed = msgspec.structs.replace(plans.KEPLER_WINDOWS, build=msgspec.structs.replace(BUILD, env={"USE_CUDA": "0"}))
    assert make_recipe(changed, {}).digest != KEPLER.digest


def test_export_writes_for_its_machine(tmp_path: Path) -> None:
    made = api.export(plans.KEPLER_WINDOWS, "ps1", out=tmp_path)
    assert made.path and Path(made.path).read_bytes().startswith(b"\xef\xbb\xbf") and "ExecutionPolicy" in made.run
