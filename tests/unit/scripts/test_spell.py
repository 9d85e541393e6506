"""The lines to paste: the same steps in bash (run here), cmd and PowerShell."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from needs import tool
from rekindle.model.plan import HERE, Step
from rekindle.scripts.quoting import Shell, shell_script, spell

AWKWARD = "a b;c 'd' $HOME %PATH% <2"
SETTINGS = Step(kind="write", folder="x.cmake", argv=('set(A OFF CACHE STRING "from the plan" FORCE)', "set(B 1)"))


def run_bash(lines: tuple[str, ...], folder: Path) -> str:
    done = subprocess.run(["bash", "-eu"], input="\n".join(lines), text=True, capture_output=True, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


@tool("bash")
def test_bash_sets_values_as_they_are(tmp_path: Path) -> None:
    steps = [
        Step(kind="set", env={"ONE": AWKWARD, "PLACE": f"{HERE}/.venv"}),
        Step(kind="run", argv=("printenv", "ONE")),
    ]
    spoken = spell([*steps, Step(kind="run", argv=("printenv", "PLACE"))], "sh")
    assert run_bash(spoken, tmp_path).splitlines() == [AWKWARD, f"{tmp_path}/.venv"]


@tool("bash")
def test_bash_writes_what_cmake_reads(tmp_path: Path) -> None:
    run_bash(spell([SETTINGS], "sh"), tmp_path)
    assert (tmp_path / "x.cmake").read_text("utf-8").splitlines() == list(SETTINGS.argv)


@tool("bash")
def test_bash_arguments_stay_one_word(tmp_path: Path) -> None:
    lines = spell([Step(kind="run", argv=("printf", "%s\\n", "numpy<2", "a b", "x>=1,<4"))], "sh")
    assert run_bash(lines, tmp_path).splitlines() == ["numpy<2", "a b", "x>=1,<4"]


@tool("bash")
def test_a_folder_is_entered_and_its_environment_used(tmp_path: Path) -> None:
    (tmp_path / "tree" / ".venv" / "bin").mkdir(parents=True)
    (tmp_path / "tree" / ".venv" / "bin" / "activate").write_text("ACTIVATED=yes\n", "utf-8")
    steps = [Step(kind="cd", folder="tree"), Step(kind="activate", folder=".venv")]
    lines = (*spell(steps, "sh"), 'echo "$ACTIVATED"')
    assert run_bash(lines, tmp_path) == "yes\n"


def test_the_same_steps_for_cmd_and_powershell() -> None:
    steps = [
        Step(kind="set", env={"A": "1;2", "PLACE": f"{HERE}/x"}),
        Step(kind="keep", env={"K": "10.3.0"}),
        Step(kind="activate", folder=".venv"),
        Step(kind="run", argv=("pip", "install", "numpy<2", "plain")),
        SETTINGS,
        Step(kind="install-built", folder="dist"),
    ]
    assert spell(steps, "cmd") == (
        'set "A=1;2"',
        'set "PLACE=%CD:\\=/%/x"',
        "setx K 10.3.0",
        "call .venv\\Scripts\\activate.bat",
        'pip install "numpy<2" plain',
        '>x.cmake echo set(A OFF CACHE STRING "from the plan" FORCE)',
        ">>x.cmake echo set(B 1)",
        'for %i in (dist\\*.whl) do python -m pip install --force-reinstall "%i"',
    )
    assert spell(steps, "powershell") == (
        "$env:A = '1;2'",
        "$env:PLACE = $PWD.Path.Replace('\\', '/') + '/x'",
        "setx K 10.3.0",
        ".venv\\Scripts\\Activate.ps1",
        "pip install 'numpy<2' plain",
        "Set-Content -Encoding ascii x.cmake 'set(A OFF CACHE STRING \"from the plan\" FORCE)', 'set(B 1)'",
        "python -m pip install --force-reinstall (Get-Item dist\\*.whl).FullName",
    )


@pytest.mark.parametrize("shell", ["cmd", "powershell"])
def test_visual_studio_is_found_by_its_own_tool(shell: Shell) -> None:
    text = "\n".join(spell([Step(kind="vcvars", argv=("14.29",))], shell))
    assert "vswhere.exe" in text and "vcvarsall.bat" in text and "-vcvars_ver=14.29" in text
    assert "vcvars_ver" not in "\n".join(spell([Step(kind="vcvars", argv=("",))], shell))
    assert spell([Step(kind="vcvars", argv=("14.29",))], "sh") == ()


@tool("sh")
def test_a_script_of_steps_runs_and_stops_at_the_first_failure(tmp_path: Path) -> None:
    (tmp_path / "a tree" / "an env" / "bin").mkdir(parents=True)
    (tmp_path / "a tree" / "an env" / "bin" / "activate").write_text("export ACTIVE=yes\n", "utf-8")
    steps = [
        Step(kind="cd", folder=str(tmp_path / "a tree")),
        Step(kind="activate", folder=str(tmp_path / "a tree" / "an env")),
        Step(kind="run", argv=("sh", "-c", 'echo "$ACTIVE $ONE"'), env={"ONE": AWKWARD}),
        Step(kind="run", argv=("false",)),
        Step(kind="run", argv=("echo", "never")),
    ]
    done = subprocess.run(["sh"], input=shell_script(steps, "a\ntitle"), text=True, capture_output=True)
    assert done.returncode == 1 and done.stdout == f"yes {AWKWARD}\n", done.stderr


def test_cmd_echo_keeps_special_characters() -> None:
    step = Step(kind="write", folder="x", argv=('set(A [===[<a>&b|c^d]===] "<in>")',))
    assert spell([step], "cmd") == ('>x echo set(A [===[^<a^>^&b^|c^^d]===] "<in>")',)


def test_a_backslash_at_the_end_does_not_eat_the_quote() -> None:
    assert spell([Step(kind="cd", folder="C:\\a b\\")], "cmd") == ('cd "C:\\a b\\\\"',)
