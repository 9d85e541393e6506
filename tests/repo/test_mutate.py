"""The mutation tool itself: it finds the error that no test notices, and only that one."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODULE = """\
import functools
LIMIT = 5
@functools.cache
def allowed(size, *, strict=False):
    if strict and size > LIMIT:
        return False
    return size >= 0
def unused():
    return 1
"""
TESTS = """\
from little import allowed
def test_inside(): assert allowed(5, strict=True) is True
def test_outside(): assert allowed(6, strict=True) is False and allowed(6) is True
def test_negative(): assert not allowed(-1)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "little.py").write_text(MODULE)
    (tmp_path / "test_little.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return tmp_path


def mutate(
    project: Path, *words: str, module: str = "little.py", tests: str = "test_little.py"
) -> tuple[int, list[str]]:
    command = [sys.executable, str(ROOT / "tools" / "mutate.py"), module, "--tests", tests, *words]
    env = {"PATH": "/usr/bin:/bin", "MUTATE_ROOT": str(project)}
    ran = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=300)
    assert "Traceback" not in ran.stderr, ran.stderr
    return ran.returncode, ran.stdout.splitlines()


def test_survivors_are_named_with_their_line_and_nothing_else(project: Path) -> None:
    code, lines = mutate(project)
    survivors = [line.split("    ")[0] for line in lines if line.startswith("little.py:")]
    assert survivors == [
        "little.py:7: >= becomes > (survived)",
        "little.py:7: 0 becomes 1 (survived)",
        "little.py:9: None returned (untested)",
        "little.py:9: 1 becomes 2 (untested)",
    ]
    assert code == 1


def test_how_long_a_tool_is_waited_for_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    from mutants import mutants_of

    text = "WAIT = 5.0\nLIMIT = 6\nask(timeout=WAIT, size=LIMIT)\nask(timeout=7)\nzip(a, b, strict=True)\n"
    assert [mutant.what for mutant in mutants_of(text)] == ["6 becomes 7"]


def test_what_was_noticed_is_not_run_again_and_a_new_test_counts(project: Path) -> None:
    _, first = mutate(project)
    with (project / "test_little.py").open("a") as file:
        file.write(
            "def test_zero(): assert allowed(0)\nfrom little import unused\ndef test_one(): assert unused() == 1\n"
        )
    code, lines = mutate(project)
    assert code == 0 and ", 0 noticed earlier" in first[0]
    assert ", 0 noticed earlier" not in lines[0] and lines[-1].startswith("0.0 % of ")
    (project / "little.py").write_text(MODULE.replace("LIMIT = 5", "LIMIT = 5  # changed"))
    assert ", 0 noticed earlier" in mutate(project)[1][0]


def test_every_room_is_held_against_its_own_tests(project: Path) -> None:
    for room, tests in {
        "good": TESTS + "def test_zero(): assert allowed(0)\n",
        "bad": "def test_none(): pass\n",
    }.items():
        for folder, name, text in (("src/rekindle", "little.py", MODULE), ("tests/unit", "test_it.py", tests)):
            (project / folder / room).mkdir(parents=True)
            (project / folder / room / name).write_text(text)
        (project / "tests/unit" / room / "test_it.py").write_text(tests.replace("little", f"rekindle.{room}.little"))
    for package in ("rekindle", "rekindle/good", "rekindle/bad"):
        (project / "src" / package / "__init__.py").write_text("")
    (project / "pytest.ini").write_text("[pytest]\npythonpath = src\naddopts = --import-mode=importlib\n")
    command = [sys.executable, str(ROOT / "tools" / "mutate.py"), "--rooms", "--at-most", "25"]
    env = {"PATH": "/usr/bin:/bin", "MUTATE_ROOT": str(project)}
    ran = subprocess.run(command, cwd=project, env=env, capture_output=True, text=True, timeout=300)
    verdicts = [line.split()[:2] for line in ran.stdout.splitlines() if line.startswith(("ok", "FAIL"))]
    assert verdicts == [["FAIL", "bad"], ["ok", "good"]] and ran.returncode == 1


def test_failing_tests_are_said_to_fail(project: Path) -> None:
    (project / "test_little.py").write_text("def test_never(): assert False\n")
    code, lines = mutate(project)
    assert code == 1 and not any("becomes" in line for line in lines)


def test_an_equivalent_error_does_not_count(project: Path) -> None:
    (project / "tools").mkdir()
    rows = [("return size >= 0", ">= becomes >"), ("return size >= 0", "0 becomes 1")]
    (project / "tools" / "equivalent.toml").write_text(
        "".join(
            f'[[mutant]]\nfile = "little.py"\nline = "{line}"\nchange = "{what}"\nwhy = "x"\n' for line, what in rows
        )
    )
    lines = mutate(project)[1]
    assert [line.split(": ")[0] for line in lines if line.startswith("little.py:")] == ["little.py:9"] * 2


def test_a_module_that_the_tests_import_late_gets_its_errors_too(project: Path) -> None:
    (project / "test_little.py").write_text(
        "def test_late():\n    from little import allowed\n"
        "    assert allowed(5, strict=True) and not allowed(6, strict=True)\n    assert not allowed(-1)\n"
    )
    lines = mutate(project)[1]
    survivors = [line.split("    ")[0] for line in lines if line.startswith("little.py:")]
    assert "little.py:5: > becomes >= (survived)" not in survivors
    assert "little.py:6: None returned (survived)" in survivors and len(survivors) < len(lines)


def test_a_script_below_a_folder_that_is_no_package_is_run_from_a_copy(project: Path) -> None:
    tools = project / "src" / "pack" / "data" / "tools"
    tools.mkdir(parents=True)
    (project / "src" / "pack" / "__init__.py").touch()
    (tools / "__init__.py").touch()
    (tools / "part.py").write_text("import elsewhere\nprint(elsewhere.SIZE * 2)\n")  # no name for it but as a script
    (tools / "elsewhere.py").write_text("SIZE = 3\nOTHER = 4\n")
    (project / "src" / "pack" / "build").mkdir()  # a package's name, and no folder of products
    (project / "src" / "pack" / "build" / "__init__.py").write_text("ANSWER = 6\n")
    (project / "tests").mkdir()
    (project / "tests" / "test_part.py").write_text(
        "import subprocess, sys\nfrom pathlib import Path\nfrom pack.build import ANSWER\n"
        "PART = Path(__file__).parents[1] / 'src/pack/data/tools/part.py'\n"
        "def test_part(): assert int(subprocess.check_output([sys.executable, PART])) == ANSWER\n"
    )
    (project / "pytest.ini").write_text("[pytest]\npythonpath = src\n")
    lines = mutate(project, module="src/pack/data", tests="tests/test_part.py")[1]
    survivors = [line.split("    ")[0] for line in lines if line.startswith("src/")]
    assert survivors == ["src/pack/data/tools/elsewhere.py:2: 4 becomes 5 (survived)"], lines


def test_a_test_that_looks_at_a_scripts_quotes_notices_no_error(project: Path) -> None:
    """Errors are written out from the syntax tree: such a test failed for each of them, and all counted as noticed."""
    (project / "src" / "pack" / "data").mkdir(parents=True)
    (project / "src" / "pack" / "__init__.py").touch()
    (project / "src" / "pack" / "data" / "part.py").write_text('NAME = "part"\nSIZE = 3\n')
    (project / "tests").mkdir()
    (project / "tests" / "test_part.py").write_text(
        "from pathlib import Path\n"
        "PART = Path(__file__).parents[1] / 'src/pack/data/part.py'\n"
        "def test_part(): assert '\"part\"' in PART.read_text()\n"
    )
    code, lines = mutate(project, module="src/pack/data", tests="tests/test_part.py")
    assert code == 1 and not any("becomes" in line for line in lines), lines


def can_go_apart() -> bool:
    probe = ["unshare", "--pid", "--fork", "--mount-proc", "true"]
    return bool(shutil.which("unshare")) and subprocess.run(probe, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not can_go_apart(), reason="no process namespace may be made here")
def test_an_error_ends_no_process_but_those_of_the_run(project: Path) -> None:
    with subprocess.Popen(["sleep", "60"]) as bystander:
        (project / "little.py").write_text("def who(there=True): return 0 if there else 1\n")
        (project / "test_little.py").write_text(
            "import os, signal\nfrom little import who\n"
            f"SEEN = os.path.exists('/proc/{bystander.pid}/stat') and {bystander.pid}\n"
            "def test_who():\n    if who(): os.kill(SEEN or 0, signal.SIGKILL)\n"
        )
        mutate(project)
        assert bystander.poll() is None
        bystander.kill()
