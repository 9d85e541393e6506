"""Where an export is written: a name that runs, nothing of another form overwritten, an image of the asked distro."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

import export_plans as plans
from needs import tool
from rekindle import api
from rekindle.cli.main import main
from rekindle.errors import BadInput
from rekindle.model.plan import Plan, PlannedFor
from rekindle.scripts.formats import render
from rekindle.scripts.recipe import make_recipe
from rekindle.scripts.templates import FORMATS

LINUX = PlannedFor(system="linux", arch="x86_64")
WINDOWS = PlannedFor(system="windows", arch="x86_64")


def on(plan: Plan, system: PlannedFor) -> Plan:
    return msgspec.structs.replace(plan, os=system)


@pytest.mark.parametrize(
    ("kind", "named", "written"),
    [
        ("bat", "k40", "k40.bat"),
        ("ps1", "k40", "k40.ps1"),
        ("bat", "torch-2.0.1", "torch-2.0.1.bat"),
        ("bat", "k40.cmd", "k40.cmd"),
        ("bat", "K40.BAT", "K40.BAT"),
    ],
)
def test_a_script_for_windows_has_the_extension_it_runs_by(kind: str, named: str, written: str, tmp_path: Path) -> None:
    made = api.export(on(plans.KEPLER_WINDOWS, WINDOWS), kind, out=tmp_path / named)
    assert made.path == str(tmp_path / written) and [path.name for path in tmp_path.iterdir()] == [written]
    assert made.run.endswith(f".\\{written}")


@pytest.mark.parametrize(
    ("kind", "named", "written"),
    [("sh", "k40", "k40.sh"), ("slurm", "k40", "k40.sbatch"), ("slurm", "k40.sh", "k40.sh"), ("sh", "run.1", "run.1")],
)
def test_a_script_for_linux_keeps_the_name_it_was_given(kind: str, named: str, written: str, tmp_path: Path) -> None:
    made = api.export(on(plans.IVYBRIDGE_LINUX, LINUX), kind, out=tmp_path / named)
    assert made.path == str(tmp_path / written)


def test_a_name_of_another_form_is_refused(tmp_path: Path) -> None:
    for kind, named in (("bat", "k40.ps1"), ("ps1", "k40.bat"), ("bat", "k40.sh"), ("ps1", "k40.cmd")):
        with pytest.raises(BadInput, match="is a name for"):
            api.export(on(plans.KEPLER_WINDOWS, WINDOWS), kind, out=tmp_path / named)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", FORMATS)
def test_only_an_earlier_export_of_the_same_form_is_overwritten(kind: str, tmp_path: Path) -> None:
    plan = on(plans.BLACKWELL, WINDOWS if kind in ("bat", "ps1") else LINUX)
    plan = on(plans.CPU, LINUX) if kind == "slurm" else plan
    made = api.export(plan, kind, out=tmp_path)
    assert made.path is not None
    path = Path(made.path)
    before = path.read_bytes()
    assert api.export(plan, kind, out=tmp_path).path == made.path and path.read_bytes() == before
    path.write_bytes(b"somebody wrote this\n")
    with pytest.raises(BadInput, match="is there already"):
        api.export(plan, kind, out=tmp_path)
    assert path.read_bytes() == b"somebody wrote this\n"


def test_an_export_of_another_version_is_overwritten_whatever_follows_the_shell(tmp_path: Path) -> None:
    """Nine letters say the form (#!/bin/sh); what comes after them may have been written otherwise then."""
    place = tmp_path / "job.sh"
    place.write_text("#!/bin/sh -e\n# torch 2.5.1, planned by rekindle 0.1.\n", "utf-8")
    assert api.export(on(plans.CPU, LINUX), "sh", out=place).path == str(place)
    place.write_text("#!/bin/ksh\n# torch 2.5.1, planned by rekindle 0.1.\n", "utf-8")
    with pytest.raises(BadInput, match="no earlier export of this form"):
        api.export(on(plans.CPU, LINUX), "sh", out=place)


def test_another_form_does_not_take_its_place(tmp_path: Path) -> None:
    place = tmp_path / "job"
    place.write_text(api.export(on(plans.CPU, LINUX), "sh").text, "utf-8")
    with pytest.raises(BadInput, match="no earlier export of this form"):
        api.export(on(plans.CPU, LINUX), "dockerfile", out=place)


def test_a_container_is_of_the_distribution_that_was_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    built = ["export", "dockerfile", "--gpu", "RTX 5070", "--build", "--cuda", "12.9"]
    assert main(built) == 0
    assert "ubuntu24.04" in capsys.readouterr().out
    assert main([*built, "--distro", "ubuntu-24.04"]) == 0
    assert "ubuntu24.04" in capsys.readouterr().out
    assert main([*built, "--distro", "ubuntu-22.04"]) == 2
    said = capsys.readouterr().err
    assert "Ubuntu 24.04" in said and "--image" in said and "ubuntu22.04" in said
    assert main([*built, "--distro", "ubuntu-22.04", "--image", "mine:22"]) == 0
    assert 'BUILD_IMAGE="mine:22"' in capsys.readouterr().out


@pytest.mark.parametrize(
    ("distro", "image"), [(None, "ubuntu:22.04"), ("debian-12", "debian:12"), ("ubuntu 24.04", "ubuntu:24.04")]
)
def test_a_wheel_goes_into_a_plain_image(distro: str | None, image: str) -> None:
    for plan in (plans.BLACKWELL, plans.CPU):
        assert f'IMAGE="{image}"' in api.export(on(plan, LINUX), "dockerfile", distro=distro).text


def test_an_image_nobody_knows_is_refused() -> None:
    for kind, distro in (("dockerfile", "rocky-9"), ("dockerfile", "ubuntu"), ("devcontainer", "ubuntu-22.04")):
        with pytest.raises(BadInput) as refused:
            api.export(on(plans.BLACKWELL, LINUX), kind, distro=distro)
        assert "--image" in (refused.value.remedy or "")
        assert "mine:1" in api.export(on(plans.BLACKWELL, LINUX), kind, distro=distro, image="mine:1").text


PYTHON = """#!/bin/sh
case "$*" in
  *version_info*) echo 3.11 ;;
  *venv*) mkdir -p "$3/bin" && cp "$0" "$3/bin/python" ;;
  *cuda.is_available*) echo "card $*" >>"$CALLS"; exit "${NO_CARD:-0}" ;;
  *) echo "$*" >>"$CALLS" ;;
esac
"""


def run_wheel_script(folder: Path, driver: str | None, **more: str) -> tuple[int, str, str]:
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    (tools / "python3.11").write_text(PYTHON, "utf-8")
    (tools / "nvidia-smi").write_text("#!/bin/sh\n" + (f"echo {driver}\n" if driver else "exit 9\n"), "utf-8")
    for each in tools.iterdir():
        each.chmod(0o755)
    script = folder / "install.sh"
    script.write_text(render(make_recipe(plans.BLACKWELL, {}), "sh"), "utf-8")
    calls = folder / "calls"
    calls.write_text("", "utf-8")
    env = {"PATH": f"{tools}:/usr/bin:/bin", "CALLS": str(calls), "WORK": str(folder / "work"), **more}
    done = subprocess.run(["sh", str(script)], env=env, text=True, capture_output=True, cwd=folder)
    return done.returncode, done.stdout + done.stderr, calls.read_text("utf-8")


@tool("sh")
def test_the_script_of_a_wheel_asks_for_the_driver_before_it_installs(tmp_path: Path) -> None:
    for driver, why in ((None, "there is no NVIDIA driver"), ("470.256.02", "the NVIDIA driver is 470.256.02")):
        code, said, calls = run_wheel_script(tmp_path, driver)
        assert code == 1 and why in said and "needs 5" in said and "install" not in calls
    assert run_wheel_script(tmp_path, None, SKIP_CHECKS="1")[0] == 0


@tool("sh")
def test_the_script_of_a_wheel_computes_on_the_card(tmp_path: Path) -> None:
    code, said, calls = run_wheel_script(tmp_path, "570.86.10")
    assert code == 0 and "is ready" in said
    assert "pip install torch==2.7.1" in calls and "the CPU computes wrongly" in calls and "card -c" in calls
    code, said, _ = run_wheel_script(tmp_path, "570.86.10", NO_CARD="1")
    assert code == 1 and "cannot use the card" in said
    code, _, calls = run_wheel_script(tmp_path, "570.86.10", NO_CARD="1", SKIP_CHECKS="1")
    assert code == 0 and "card -c" not in calls


def test_the_proof_is_python_and_no_shell_reads_it() -> None:
    recipe = make_recipe(plans.BLACKWELL, {})
    assert recipe.proof_on_card is not None
    for line in (recipe.proof_on_cpu, recipe.proof_on_card):
        compile(line, "proof", "exec")
        assert not set(line) & set('"%!^&|<>')
    cpu = make_recipe(msgspec.structs.replace(plans.BLACKWELL, cuda=None), {})
    assert cpu.proof_on_card is None and cpu.driver is None


def test_all_scripts_of_a_wheel_ask_the_same(tmp_path: Path) -> None:
    recipe = make_recipe(on(plans.BLACKWELL, WINDOWS), {})
    for kind in ("bat", "ps1"):
        text = render(recipe, kind)
        assert "query-gpu=driver_version" in text and str(recipe.driver) in text
        assert "torch.cuda.is_available()" in text and text.count("computes wrongly") == 2


def test_a_hosted_runner_is_not_asked_for_a_card() -> None:
    assert 'SKIP_CHECKS: "1"' in api.export(on(plans.BLACKWELL, LINUX), "github").text
    assert 'SKIP_CHECKS: "1"' not in api.export(on(plans.CPU, LINUX), "github").text


def test_an_unknown_verb_is_an_error_also_with_help(capsys: pytest.CaptureFixture[str]) -> None:
    for argv in (["nosuchverb", "--help"], ["nosuchverb"], ["-q", "nosuchverb", "-h"]):
        assert main(argv) == 2
        told = capsys.readouterr()
        assert "there is no verb 'nosuchverb'" in told.err and not told.out
