"""The lines to paste: requests, folders, patches and shells."""

from __future__ import annotations

from typing import Any

import pytest
from planning import FACTS, ask, kits, plan

from rekindle.model.plan import Step
from rekindle.plan.question import BuildInputs
from rekindle.plan.solve import make_plan
from rekindle.plan.steps import front_end, interpreter_words, toolkit_folder
from rekindle.scripts.quoting import spell

NEWEST = FACTS.releases[0]


def test_an_environment_is_activated_where_it_lies() -> None:
    assert spell([Step(kind="activate", folder="env")], "sh") == (". env/bin/activate",)
    assert spell([Step(kind="activate", folder="env")], "cmd") == ("call env\\Scripts\\activate.bat",)


def test_torchaudio_of_the_old_page_is_pypis() -> None:
    left_out = [w.text for w in plan("sm_75", os="windows", torch="1.5.1+cu102").warnings if "torchaudio" in w.text]
    assert left_out and "PyPI has no torchaudio 0.5.1" in left_out[0]


def test_variables_to_keep() -> None:
    assert plan("gfx1031", torch="2.9.1").env == {"HSA_OVERRIDE_GFX_VERSION": "10.3.0"}
    assert plan("gfx1030", torch="2.9.1").env == {} and plan("sm_86").env == {}


@pytest.mark.parametrize("system", ["linux", "windows"])
def test_patches_are_applied_right_before_the_tree_is_entered(system: str) -> None:
    line = "rekindle source patch pytorch"
    bare = plan("sm_86", torch="2.6.0", build=True, os=system)
    assert bare.build is not None and not bare.build.patches and line not in bare.commands
    question = ask("sm_86", torch="2.6.0", build=True, os=system)
    inputs = BuildInputs(patches=lambda build: ("x", str(build.torch)))
    patched = make_plan(question.machine, question.wish, FACTS, inputs=inputs)
    assert patched.build is not None and patched.build.patches == ("x", "2.6.0")
    at = patched.commands.index("cd pytorch")
    assert patched.commands[at - 1] == line and patched.commands.count(line) == 1
    assert [one for one in patched.commands if one != line] == list(bare.commands)
    assert (line in patched.powershell) is (system == "windows")


def test_a_build_from_git_names_the_systems_packages_and_keeps_its_lines() -> None:
    made = plan("none", torch="2.6.0", build=True, distro="debian 12")
    assert made.build is not None and made.build.origin == "git" and made.build.packages
    assert made.commands[0].startswith("git clone ")


def test_where_a_toolkit_is() -> None:
    bare = ask("sm_86")
    assert toolkit_folder("cuda", "11.8.0", bare) == "/usr/local/cuda-11.8"
    windows = ask("sm_86", os="windows")
    assert toolkit_folder("cuda", "11.8", windows) == "C:\\Program Files\\NVIDIA GPU Computing Toolkit\\CUDA\\v11.8"
    found = kits(bare, ("rocm", "11.8", "/no"), ("cuda", "12.4", "/other"), ("cuda", "11.8.89", "/mine"))
    assert toolkit_folder("cuda", "11.8", found) == "/mine"
    assert toolkit_folder("cuda", "11.7", found) == "/usr/local/cuda-11.7"
    assert toolkit_folder("cuda", "11.8", kits(bare, ("cuda", None, "/unread"))) == "/usr/local/cuda-11.8"


def test_where_rocm_is() -> None:
    bare = ask("gfx1100")
    assert toolkit_folder("rocm", "6.2", bare) == "/opt/rocm"
    assert toolkit_folder("rocm", "6.2", ask("gfx1100", os="windows")) is None
    found = kits(bare, ("cuda", "6.2", "/no"), ("rocm", "6.1", "/older"), ("rocm", "6.2.4", "/mine"))
    assert toolkit_folder("rocm", "6.2", found) == "/mine"
    assert toolkit_folder("rocm", "6.3", found) == "/opt/rocm"


def test_how_python_is_started() -> None:
    assert interpreter_words("3.12", "windows") == ("py", "-3.12")
    assert interpreter_words(None, "windows") == ("py",)
    assert interpreter_words("3.12", "linux") == ("python3.12",)
    assert interpreter_words(None, "linux") == ("python3",)


def test_the_front_end_of_a_release_is_the_newest_that_is_not_newer() -> None:
    rows = sorted(FACTS.sources.front, key=lambda row: [int(part) for part in row.since.split(".")])
    for row in rows[1:]:
        assert front_end(row.since, FACTS) == row
    assert front_end("0.1", FACTS) == FACTS.sources.front[0]
    assert front_end(NEWEST, FACTS) == rows[-1]


def test_what_the_lines_of_a_plan_hold() -> None:
    made = plan("gfx803", torch="1.13.1", build=True)
    assert ("python", "tools/amd_build/build_amd.py") in [step.argv for step in made.steps]
    cuda = plan("sm_86", torch="2.0.1", build=True)
    assert ("python", "tools/amd_build/build_amd.py") not in [step.argv for step in cuda.steps]
    assert cuda.steps[-1] == Step(kind="install-built", folder="dist")


@pytest.mark.parametrize(
    ("step", "shell", "lines"),
    [
        (Step(kind="cd"), "sh", ("cd .",)),
        (Step(kind="cd", folder="a b"), "sh", ("cd 'a b'",)),
        (Step(kind="cd", folder="a b"), "cmd", ('cd "a b"',)),
        (Step(kind="cd", folder="a b"), "powershell", ("cd 'a b'",)),
        (Step(kind="vcvars", argv=("14.3",)), "sh", ()),
        (Step(kind="install-built", folder="dist"), "sh", ("python -m pip install --force-reinstall dist/*.whl",)),
        (Step(kind="keep", env={"A": "1"}), "sh", ("export A=1",)),
        (Step(kind="keep", env={"A": "1"}), "cmd", ("setx A 1",)),
        (Step(kind="write", folder="f", argv=("a", "b")), "cmd", (">f echo a", ">>f echo b")),
        (Step(kind="write", folder="f", argv=("a'b",)), "powershell", ("Set-Content -Encoding ascii f 'a''b'",)),
        (Step(kind="set", env={"A": "x'y"}), "powershell", ("$env:A = 'x''y'",)),
        (Step(kind="run", argv=("pip", "")), "powershell", ("pip ''",)),
    ],
)
def test_steps_spelled(step: Step, shell: Any, lines: tuple[str, ...]) -> None:
    assert spell([step], shell) == lines
