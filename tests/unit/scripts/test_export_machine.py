"""An export knows the machine its plan was made for: system, CPU, runner, image; and a Dockerfile's own folder."""

from __future__ import annotations

import json
import re
import shlex
import sys
from pathlib import Path

import msgspec
import pytest

import export_plans as plans
from rekindle import api
from rekindle.cli.main import main
from rekindle.errors import BadInput
from rekindle.model.document import encode as encode_document
from rekindle.model.plan import Plan, PlannedFor
from rekindle.scripts.containers import files_beside
from rekindle.scripts.formats import render
from rekindle.scripts.recipe import make_recipe

ARM = PlannedFor(system="linux", arch="aarch64")
X86 = PlannedFor(system="linux", arch="x86_64")


def on(plan: Plan, os: PlannedFor | None) -> Plan:
    return msgspec.structs.replace(plan, os=os)


def made(gpu: str, tmp_path: Path) -> str:
    """A plan through its file, as people hand it on."""
    path = tmp_path / "plan.json"
    machine = api.machine_from_flags(gpu=[gpu], os="linux", python="3.12", driver="580.65")
    path.write_bytes(encode_document(api.plan(machine)))
    assert json.loads(path.read_bytes())["os"]["system"] == "linux"
    return str(path)


@pytest.mark.parametrize(
    ("gpu", "runner", "platform"),
    [("RTX 3060", "ubuntu-latest", "linux/amd64"), ("GH200", "ubuntu-24.04-arm", "linux/arm64")],
)
def test_a_plan_from_a_file_knows_its_cpu(
    gpu: str, runner: str, platform: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A superchip's GPU decides the CPU: nobody has to say --arch."""
    plan = made(gpu, tmp_path)
    assert main(["export", "github", "--plan", plan]) == 0
    assert f'runs-on: "{runner}"' in capsys.readouterr().out
    assert main(["export", "dockerfile", "--plan", plan]) == 0
    assert f"--platform {platform} " in capsys.readouterr().out
    # Without a file the same plan is made on the way.
    assert main(["export", "github", "--gpu", gpu, "--os", "linux"]) == 0
    assert f'runs-on: "{runner}"' in capsys.readouterr().out


def test_what_contradicts_the_plan_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = made("GH200", tmp_path)
    assert main(["export", "github", "--plan", plan, "--arch", "x86_64"]) == 2
    assert "made for aarch64, and --arch says x86_64" in capsys.readouterr().err
    assert main(["export", "github", "--plan", plan, "--os", "windows"]) == 2
    assert "made for linux, and --os says windows" in capsys.readouterr().err
    assert main(["export", "github", "--plan", plan, "--arch", "arm64", "--os", "linux"]) == 0


@pytest.mark.parametrize("kind", ["github", "pixi", "dockerfile", "devcontainer"])
def test_an_older_plan_is_asked_back(kind: str) -> None:
    with pytest.raises(BadInput, match="does not say for which CPU"):
        api.export(plans.BLACKWELL, kind, system="linux")
    assert api.export(plans.BLACKWELL, kind, system="linux", arch="aarch64").text
    # A shell script is the same on both.
    assert api.export(plans.BLACKWELL, "sh").text


def test_images_of_the_wrong_cpu_are_refused() -> None:
    assert "rocm/dev-ubuntu" in api.export(on(plans.ROCM, X86), "dockerfile").text
    for kind in ("dockerfile", "devcontainer"):
        with pytest.raises(BadInput, match="exists for x86_64 alone") as refused:
            api.export(on(plans.ROCM, ARM), kind)
        assert "--image" in (refused.value.remedy or "")
        assert "mine:1" in api.export(on(plans.ROCM, ARM), kind, image="mine:1").text
    jetson = msgspec.structs.replace(plans.IVYBRIDGE_LINUX, arch_list=("8.7",), os=ARM)
    with pytest.raises(BadInput, match="JetPack"):
        api.export(jetson, "dockerfile")
    server = msgspec.structs.replace(jetson, arch_list=("9.0",))
    text = api.export(server, "dockerfile").text
    # A digest may be of x86-64 alone, so none is named.
    assert "nvidia/cuda:12.4.1" in text and "@sha256:" not in re.sub("(?m)^#.*$", "", text)
    with pytest.raises(BadInput, match="riscv64"):
        api.export(on(plans.CPU, PlannedFor(system="linux", arch="riscv64")), "dockerfile")


def test_a_script_stops_on_another_cpu() -> None:
    assert '"$(uname -m)" = aarch64' in api.export(on(plans.CPU, ARM), "sh").text
    assert "uname" not in api.export(on(plans.CPU, None), "sh").text


def test_a_dockerfile_in_a_folder_is_short(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = on(plans.IVYBRIDGE_LINUX, X86)
    alone = api.export(plan, "dockerfile")
    assert alone.beside == () and "It needs no other file" in alone.text
    written = api.export(plan, "dockerfile", out=tmp_path)
    assert written.path == str(tmp_path / "Dockerfile")
    assert len(written.text.splitlines()) < 100 < 800 < len(alone.text.splitlines())
    assert "<<" not in written.text
    # Everything it copies lies there, and nothing else was written.
    folder = make_recipe(plan, {}).folder
    copied = [line.split()[-2] for line in written.text.splitlines() if re.match(r"COPY (?!--from)", line)]
    assert copied == [f"{folder}/inspect", f"{folder}/build.sh"] and all((tmp_path / name).exists() for name in copied)
    files = {path for path in tmp_path.rglob("*") if path.is_file()}
    assert files == {Path(written.path), *map(Path, written.beside)}
    assert written.run.endswith(f"-f {written.path} {tmp_path}")
    # The same program and script, one by here-documents, one by files.
    for name, text in files_beside(make_recipe(plan, {})).items():
        assert (tmp_path / name).read_text(encoding="utf-8") == text and text in alone.text
    path = tmp_path / "plan.json"
    path.write_bytes(encode_document(plan))
    assert main(["export", "dockerfile", "--plan", str(path), "--out", str(tmp_path / "new") + "/"]) == 0
    assert f"files beside it: {tmp_path / 'new' / folder}" in re.sub(r"\s+", " ", capsys.readouterr().out)


def test_a_folder_that_cannot_be_written_leaves_no_dockerfile(tmp_path: Path) -> None:
    plan = on(plans.CPU, X86)
    (tmp_path / make_recipe(plan, {}).folder).write_text("a file is in the way")
    with pytest.raises(BadInput, match="cannot write"):
        api.export(plan, "dockerfile", out=tmp_path)
    assert not (tmp_path / "Dockerfile").exists()


def test_the_line_to_run_it_keeps_a_folder_with_spaces_whole(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    for kind in ("sh", "dockerfile"):
        words = shlex.split(api.export(on(plans.CPU, X86), kind, out=folder).run, posix=sys.platform != "win32")
        assert str(folder) in words[-1].strip('"'), words


def test_an_installed_wheel_needs_no_folder(tmp_path: Path) -> None:
    written = api.export(on(plans.BLACKWELL, X86), "dockerfile", out=tmp_path)
    assert written.beside == () and [path.name for path in tmp_path.iterdir()] == ["Dockerfile"]


def test_a_file_named_by_the_user_stays_one_file(tmp_path: Path) -> None:
    written = api.export(on(plans.CPU, X86), "dockerfile", out=tmp_path / "Dockerfile.torch")
    assert [path.name for path in tmp_path.iterdir()] == ["Dockerfile.torch"]
    assert written.text == render(make_recipe(on(plans.CPU, X86), {}), "dockerfile")
