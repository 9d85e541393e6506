"""A command that fails is fixed, run again, and what was not it is undone."""

from __future__ import annotations

import io
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

import rekindle.spark
from rekindle import api
from rekindle.api.explain_log import explain_command
from rekindle.cli.main import main
from rekindle.errors import StageFailed
from rekindle.host.live import LiveHost
from rekindle.interpreters.installer import InstallerRun
from rekindle.interpreters.kept_places import KeptPlaces
from rekindle.journey.fix import Call, Fix, fewer_jobs, fix_command, prepare, python_of, repair_build
from rekindle.journey.from_source import build_with_repairs
from rekindle.model.build import BuildFailure
from rekindle.model.build_options import BuildOptions
from rekindle.model.diagnosis import (
    Action,
    AddOption,
    ApplyPatch,
    AskPerson,
    ConstrainBuild,
    Diagnosis,
    FewerJobs,
    FixReport,
    InstallPackages,
    Match,
    RemoveCache,
    SetCMake,
    SetVariable,
)
from rekindle.model.source import SourceTree

DUPLICATE = "OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized."
KILLED = "c++: fatal error: Killed signal terminated program cc1plus"
CACHE = "FileNotFoundError: [Errno 2] No such file or directory: '{}/.triton/cache/ab/k.json'"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "none"))
    for name in ("MAX_JOBS", "CMAKE_BUILD_PARALLEL_LEVEL", "TRITON_CACHE_DIR", "CMAKE_ARGS", "KMP_DUPLICATE_LIB_OK"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def script(text: str) -> list[str]:
    Path("run.py").write_text(f"import os, pathlib, sys\n{text}", encoding="utf-8")
    return [sys.executable, "run.py"]


def fixed(text: str, *, yes: bool = True) -> tuple[FixReport, list[str]]:
    said: list[str] = []
    out = io.BytesIO()
    return fix_command(script(text), out=out, err=out, confirm=lambda _: yes, say=said.append), said


def made(action: object, *command: str, **variables: str) -> Fix | None:
    return prepare(action, Call(command=command, variables=variables), LiveHost())  # type: ignore[arg-type]


def test_a_command_that_passes_is_left_alone() -> None:
    report, said = fixed("")
    assert (report.exit_code, report.attempts, report.fixed, said) == (0, (), False, [])


def test_a_variable_that_helps_is_kept_and_told() -> None:
    report, said = fixed(f"if 'KMP_DUPLICATE_LIB_OK' not in os.environ:\n    sys.exit({DUPLICATE!r})\n")
    assert report.fixed and report.exit_code == 0 and report.diagnosis is None
    assert [(each.cause, each.outcome) for each in report.attempts] == [("openmp-duplicate", "fixed")]
    assert report.keep == (f"KMP_DUPLICATE_LIB_OK=TRUE {shlex.quote(sys.executable)} run.py",)
    assert said[-1] == "fixed: it passes now"


def test_what_was_not_it_is_undone_and_not_tried_again() -> None:
    Path(".triton/cache/ab").mkdir(parents=True)
    report, said = fixed(f"sys.exit({CACHE.format('/x')!r})\n")
    assert not report.fixed and report.exit_code == 1 and report.diagnosis is not None
    assert [each.outcome for each in report.attempts] == ["undone"]
    assert Path(".triton/cache/ab").is_dir() and not list(Path(".triton").glob(".*"))
    assert "that was not it: undone" in said


def test_a_fix_that_led_to_another_failure_is_undone_in_the_end() -> None:
    Path(".triton/cache").mkdir(parents=True)
    report, said = fixed(
        f"if pathlib.Path('.triton/cache').exists():\n    sys.exit({CACHE.format('/x')!r})\nraise ValueError('other')\n"
    )
    assert [each.outcome for each in report.attempts] == ["undone"]
    assert Path(".triton/cache").is_dir()
    assert said[-2:] == ["that helped: now something else fails", "it still fails: everything is undone"]


def test_two_causes_in_a_row_are_both_fixed_and_the_old_cache_is_gone() -> None:
    Path(".triton/cache").mkdir(parents=True)
    report, _ = fixed(
        f"if pathlib.Path('.triton/cache').exists():\n    sys.exit({CACHE.format('/x')!r})\n"
        f"if 'KMP_DUPLICATE_LIB_OK' not in os.environ:\n    sys.exit({DUPLICATE!r})\n"
    )
    assert [each.outcome for each in report.attempts] == ["helped", "fixed"]
    assert list(Path(".triton").iterdir()) == []


def test_an_interrupt_puts_back_what_was_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Path(".triton/cache/ab/k.json")
    kept.parent.mkdir(parents=True)
    kept.write_text("{}")
    answers = iter([explain_command])

    def once(*args: Any, **named: Any) -> Diagnosis:
        for answer in answers:
            return answer(*args, **named)
        assert not kept.exists()  # the fix is in place while the command runs again
        raise KeyboardInterrupt

    monkeypatch.setattr("rekindle.journey.fix.explain_command", once)
    with pytest.raises(KeyboardInterrupt):
        fixed(f"sys.exit({CACHE.format('/x')!r})\n")
    assert kept.read_text() == "{}"
    assert [path.name for path in Path(".triton").iterdir()] == ["cache"]


def test_compilers_are_halved_until_they_fit_and_at_most_three_times(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MAX_JOBS", "16")
    report, _ = fixed(f"if int(os.environ['MAX_JOBS']) > 2:\n    sys.exit({KILLED!r})\n")
    assert [each.outcome for each in report.attempts] == ["helped", "helped", "fixed"]
    report, _ = fixed(f"if int(os.environ['MAX_JOBS']) > 1:\n    sys.exit({KILLED!r})\n")
    assert not report.fixed and [each.outcome for each in report.attempts] == ["undone"] * 3


def test_without_a_yes_nothing_is_done() -> None:
    report, _ = fixed(f"sys.exit({DUPLICATE!r})\n", yes=False)
    assert [each.outcome for each in report.attempts] == ["refused"]


def test_what_needs_root_is_printed_only() -> None:
    report, said = fixed("sys.exit('main.c:1:10: fatal error: Python.h: No such file or directory')\n")
    assert [each.outcome for each in report.attempts] == ["printed"]
    assert any("sudo apt install" in line for line in said)


def test_a_guess_is_not_acted_upon() -> None:
    report, _ = fixed("raise ModuleNotFoundError(\"No module named 'nobody_knows_this'\")\n")
    assert report.attempts == () and report.exit_code == 1


@pytest.mark.parametrize("third", ["", "raise ValueError('of the program itself')\n"])
def test_what_one_installation_brought_stays_when_the_next_begins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, third: str
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr("rekindle.journey.fix.package_places", lambda *_: [site])
    brings = {"pyyaml": "yaml.py", "tqdm": "tqdm.py"}

    def run(argv: list[str], **_: object) -> InstallerRun:
        (site / brings[argv[-1]]).touch()
        return InstallerRun(argv=tuple(argv), code=0, lines=())

    monkeypatch.setattr("rekindle.journey.fix.run_installer", run)
    lacks = "".join(
        f"if not pathlib.Path('site/{name}.py').exists(): raise ModuleNotFoundError(\"No module named '{name}'\")\n"
        for name in ("yaml", "tqdm")
    )
    report, _ = fixed(lacks + third)
    assert [each.outcome for each in report.attempts] == (["undone", "undone"] if third else ["helped", "fixed"])
    assert sorted(path.name for path in site.iterdir()) == ([] if third else ["tqdm.py", "yaml.py"])
    assert [path.name for path in tmp_path.iterdir() if "site" in path.name] == ["site"], "no copy is left"


def test_the_first_installation_puts_back_what_a_killed_run_left_whatever_helped_before(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    KeptPlaces([site]).keep()
    (site / "half.py").touch()
    monkeypatch.setattr("rekindle.journey.fix.package_places", lambda *_: [site])

    def run(argv: list[str], **_: object) -> InstallerRun:
        (site / "tqdm.py").touch()
        return InstallerRun(argv=tuple(argv), code=0, lines=())

    monkeypatch.setattr("rekindle.journey.fix.run_installer", run)
    report, _ = fixed(
        f"if 'KMP_DUPLICATE_LIB_OK' not in os.environ: sys.exit({DUPLICATE!r})\n"
        "if not pathlib.Path('site/tqdm.py').exists(): raise ModuleNotFoundError(\"No module named 'tqdm'\")\n"
    )
    assert [each.outcome for each in report.attempts] == ["helped", "fixed"]
    assert [path.name for path in site.iterdir()] == ["tqdm.py"]
    assert [path.name for path in tmp_path.iterdir() if "site" in path.name] == ["site"], "no copy is left"


def test_what_a_killed_run_left_is_put_back_before_anything_is_changed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    site = tmp_path / "site"
    site.mkdir()
    for name in ("", "-1"):  # two fixes of a run that was killed, each before it was settled
        KeptPlaces([site], name).keep()
        (site / f"new{name}").touch()
    monkeypatch.setattr("rekindle.journey.fix.package_places", lambda *_: [site])
    monkeypatch.setattr(
        "rekindle.journey.fix.run_installer", lambda argv, **_: InstallerRun(argv=tuple(argv), code=0, lines=())
    )
    fix = made(InstallPackages(packages=("x",)), sys.executable, "run.py")
    assert fix is not None
    fix.do()[1]()
    assert not list(site.iterdir()) and [path.name for path in tmp_path.iterdir() if "site" in path.name] == ["site"]


def test_an_installer_that_fails_leaves_everything_as_it_was(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "old.py").touch()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    monkeypatch.setattr("rekindle.journey.fix.package_places", lambda *_: [tmp_path / "site"])
    report, said = fixed("raise ModuleNotFoundError(\"No module named 'skimage'\")\n")
    assert [each.outcome for each in report.attempts] == ["undone"]
    assert any(line.startswith("that could not be done") for line in said)
    assert [path.name for path in tmp_path.rglob("*") if "site" in str(path)] == ["site", "old.py"]


def test_the_doors_of_the_command_line(capfd: pytest.CaptureFixture[str]) -> None:
    command = script(f"if 'KMP_DUPLICATE_LIB_OK' not in os.environ:\n    sys.exit({DUPLICATE!r})\n")
    assert main(["explain", "--fix", "--yes", "--", *command]) == 0
    said = capfd.readouterr().out
    assert "fixed: it passes now" in said and "KMP_DUPLICATE_LIB_OK=TRUE" in said
    assert main(["explain", "--fix", "--", *script(f"sys.exit({DUPLICATE!r})\n")]) == 1
    assert "refused" in capfd.readouterr().out
    assert main(["explain", "--fix", "some text of an error"]) == 2
    capfd.readouterr()


@pytest.mark.parametrize(
    ("command", "variables", "line"),
    [
        (("make", "-j8"), {}, "make -j4"),
        (("cmake", "--build", "b", "--parallel=6"), {}, "--parallel=3"),
        (("python", "setup.py"), {"MAX_JOBS": "2"}, "MAX_JOBS=1"),
        (("make", "-j8"), {"MAX_JOBS": "4"}, "make -j2"),
    ],
)
def test_half_as_many_compilers(command: tuple[str, ...], variables: dict[str, str], line: str) -> None:
    fix = fewer_jobs(Call(command=command, variables=variables))
    assert fix is not None and line in fix.shown[0]


def test_fewer_than_one_compiler_is_none() -> None:
    assert fewer_jobs(Call(command=("make", "-j1"))) is None
    assert made(FewerJobs(), "make", "-j1") is None


def test_words_go_to_installers_only_and_once() -> None:
    action = AddOption(words=("--pre",))
    fix = made(action, "pip", "install", "x")
    assert fix is not None and fix.call.command == ("pip", "install", "x", "--pre")
    assert made(action, "python3.12", "-m", "pip", "install", "x") is not None
    assert made(action, "uv", "sync") is not None
    assert made(action, "pip", "install", "--pre", "x") is None
    assert made(action, "python", "train.py") is None
    assert made(action, "pip", "list") is None and made(action, "apt", "install", "x") is None


def test_cmake_gets_its_variable_however_it_is_started() -> None:
    action = SetCMake(name="X", value="1")
    direct, inside = made(action, "/usr/bin/cmake", "-S", "."), made(action, "pip", "install", ".", CMAKE_ARGS="-DY=2")
    assert direct is not None and direct.call.command[-1] == "-DX=1"
    assert inside is not None and inside.call.env["CMAKE_ARGS"] == "-DY=2 -DX=1" and inside.call.env["X"] == "1"


def test_an_empty_value_takes_a_variable_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GONE", "1")
    fix = made(SetVariable(variables={"GONE": "", "HERE": "~/x"}), "python")
    assert fix is not None and "GONE" not in fix.call.env and fix.call.env["HERE"] == os.path.expanduser("~/x")


def test_a_constraint_is_written_for_installers_and_taken_back() -> None:
    action = ConstrainBuild(packages=("setuptools<70",))
    assert made(action, "python", "x.py") is None
    fix = made(action, "pip", "install", "x")
    assert fix is not None and fix.do is not None
    undo, settle = fix.do()
    file = Path(fix.call.env["PIP_CONSTRAINT"])
    settle()
    assert file.read_text() == "setuptools<70\n"
    undo()
    assert not file.exists()


def test_a_cache_that_is_not_there_is_no_fix(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert made(RemoveCache(cache="triton"), "python") is None
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "mine"))
    (tmp_path / "mine").mkdir()
    fix = made(RemoveCache(cache="triton"), "python")
    assert fix is not None and fix.shown == (f"remove {tmp_path / 'mine'}",)
    Path("b").mkdir()
    Path("b/CMakeCache.txt").touch()
    Path("CMakeCache.txt").touch()
    fix = made(RemoveCache(cache="cmake"), "cmake", "-S", ".", "-B", "b")
    assert fix is not None and fix.shown == ("remove b/CMakeCache.txt",)


def test_a_patch_is_for_source_trees() -> None:
    assert made(ApplyPatch(patch="cmake4-own-lists"), "python") is None
    Path("CMakeLists.txt").touch()
    fix = made(ApplyPatch(patch="cmake4-own-lists"), "python")
    assert fix is not None and "source patch" in fix.shown[0]


def test_what_a_person_must_do_is_marked() -> None:
    fix = made(AskPerson(line="sudo it"), "python")
    assert fix is not None and fix.by_person and fix.shown == ("sudo it",)


def test_packages_of_the_system_are_not_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    python = Path("bin/python3")
    python.parent.mkdir()
    python.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    python.chmod(0o755)
    fix = made(InstallPackages(packages=("x",)), str(python.absolute()), "run.py")
    assert fix is not None and fix.by_person and "not run" in fix.shown[-1]


def test_the_python_of_a_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert python_of(Call(command=(sys.executable, "x.py"))) == sys.executable
    tool = tmp_path / "tool"
    tool.touch(0o755)
    for first, python in (
        ("#!/venv/bin/python3.11", "/venv/bin/python3.11"),
        ("#! /venv/bin/python -sE", "/venv/bin/python"),
        ("#!/venv/bin/python3.13t", "/venv/bin/python3.13t"),
        ("#!/usr/bin/python3-dbg -E", "/usr/bin/python3-dbg"),
        ("#!C:\\venv\\Scripts\\python.exe", "C:/venv/Scripts/python.exe"),
        ("#!/bin/sh\n'''exec' \"/my venv/bin/python\" \"$0\" \"$@\"\n' '''", "/my venv/bin/python"),  # as pip writes it
        ("#!/bin/sh\n'''exec' '/my venv/bin/python3' \"$0\" \"$@\"\n' '''", "/my venv/bin/python3"),  # as uv does
        ("#!/bin/sh\n'''exec' /a/long/path/python \"$0\" \"$@\"\n' '''", "/a/long/path/python"),
        ("#!/usr/bin/env python3", shutil.which("python3")),
        ("#!/usr/bin/env -S python3 -u", shutil.which("python3")),
    ):
        tool.write_text(f"{first}\nimport sys\n", encoding="utf-8")
        assert python_of(Call(command=(str(tool),))) == python
    for other in ("#!/bin/bash", "#!/bin/sh\n'''exec' \"/my venv/bin/python", "\x7fELF"):
        tool.write_text(f"{other}\n", encoding="utf-8")
        assert python_of(Call(command=(str(tool),), variables={"VIRTUAL_ENV": "/none"})) in (
            shutil.which("python3"),
            "python3",
        )
    inside = tmp_path / "venv" / "bin" / "python"
    inside.parent.mkdir(parents=True)
    inside.touch()
    assert python_of(Call(command=("make",), variables={"VIRTUAL_ENV": str(tmp_path / "venv")})) == str(inside)
    (tmp_path / "venv").rename(tmp_path / ".venv")
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    assert python_of(Call(command=("uv", "sync"))) == str(Path(".venv/bin/python"))
    assert "python" in python_of(Call(command=("make",)))


def failure(said: str = "", *actions: Action) -> BuildFailure:
    diagnosis = api.explain(said)
    if actions:
        diagnosis = Diagnosis(matches=(Match(id="x", confidence="high", cause="c", title="It is x", actions=actions),))
    return BuildFailure(project="spark", phase="build", message="it failed", diagnosis=diagnosis)


def test_a_build_without_memory_goes_on_with_fewer_compilers(tmp_path: Path) -> None:
    repaired = repair_build(failure(KILLED), BuildOptions(jobs=8), tmp_path)
    assert repaired is not None
    assert repaired[0].jobs == 4 and "at most 4 compilers at once" in repaired[1]
    assert repair_build(failure(KILLED), BuildOptions(jobs=1), tmp_path) is None


def test_a_build_gets_the_variable_of_cmake_once(tmp_path: Path) -> None:
    action = SetCMake(name="X", value="1")
    repaired = repair_build(failure("", action), BuildOptions(), tmp_path)
    assert repaired is not None and repaired[0].settings == (("X", "1"),)
    assert repair_build(failure("", action), repaired[0], tmp_path) is None


def test_a_build_gets_the_patch_that_was_missing(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(Path(rekindle.spark.__file__).parent / "tree", tree)
    action = ApplyPatch(patch="cmake-4-policies")
    repaired = repair_build(failure("", action), BuildOptions(), tree)
    assert repaired is not None and "patched with cmake-4-policies" in repaired[1]
    assert isinstance(repaired[0].source, SourceTree)
    assert repair_build(failure("", action), repaired[0], tree) is None


def test_a_build_is_not_changed_for_a_guess_or_by_what_changes_the_machine(tmp_path: Path) -> None:
    assert repair_build(failure("all is well"), BuildOptions(), tmp_path) is None
    guess = Match(id="x", confidence="low", cause="c", title="Is it x?", actions=(SetCMake(name="X", value="1"),))
    unsure = msgspec.structs.replace(failure(), diagnosis=Diagnosis(matches=(guess,)))
    assert repair_build(unsure, BuildOptions(), tmp_path) is None
    assert repair_build(failure("", InstallPackages(packages=("x",))), BuildOptions(), tmp_path) is None


def test_a_build_that_fails_is_repaired_told_and_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[BuildOptions] = []

    def build(options: BuildOptions, progress: object) -> object:
        asked.append(options)
        return "built" if options.jobs and options.jobs < 5 else failure(KILLED)

    notes: list[str] = []
    monkeypatch.setattr("rekindle.journey.from_source.build_one", build)
    progress = type("Notes", (), {"note": staticmethod(notes.append)})()
    assert str(build_with_repairs(BuildOptions(jobs=16), tmp_path, False, progress)) == "built"
    assert [options.jobs for options in asked] == [16, 8, 4]
    assert all(note.endswith("; the build goes on") for note in notes) and len(notes) == 2
    assert isinstance(build_with_repairs(BuildOptions(jobs=1 << 9), tmp_path, False, progress), BuildFailure)


def test_a_patch_goes_into_the_tree_and_comes_out_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = tmp_path / "spark"
    shutil.copytree(Path(rekindle.spark.__path__[0]) / "tree", tree)
    monkeypatch.chdir(tree)
    fix = made(ApplyPatch(patch="cmake-4-policies"), "python")
    assert fix is not None
    before = (tree / "CMakeLists.txt").read_bytes()
    undo, settle = fix.do()
    settle()
    assert (tree / "CMakeLists.txt").read_bytes() != before
    undo()
    assert (tree / "CMakeLists.txt").read_bytes() == before
    (tree / "CMakeLists.txt").write_text("of another project")
    with pytest.raises(StageFailed, match=r"the patch cmake-4-policies does not fit .*; nothing was changed"):
        fix.do()
    undo()
    assert (tree / "CMakeLists.txt").read_text() == "of another project"


def test_what_an_installer_changed_is_put_back_or_settled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "old.py").write_text("1")
    monkeypatch.setattr("rekindle.journey.fix.package_places", lambda *_: [site])
    asked: list[list[str]] = []

    def run(argv: list[str], **_: object) -> InstallerRun:
        asked.append(argv)
        (site / "old.py").unlink()  # as pip does: it writes a new file, never into the one that is there
        (site / "old.py").write_text("2")
        return InstallerRun(argv=tuple(argv), code=0, lines=())

    monkeypatch.setattr("rekindle.journey.fix.run_installer", run)
    action = InstallPackages(packages=("new==2",), remove=("old",), again=True, index="https://i.example")
    for ends, text in (("undo", "1"), ("settle", "2")):
        fix = made(action, sys.executable, "run.py")
        assert fix is not None and len(fix.shown) == 2 and not fix.by_person
        undo, settle = fix.do()
        undo() if ends == "undo" else settle()
        assert (site / "old.py").read_text() == text
        assert [path.name for path in tmp_path.iterdir() if "site" in path.name] == ["site"], "no copy is left"
    assert asked[0][-3:] == ["uninstall", "--yes", "old"]
    assert asked[1][-5:] == ["new==2", "--index-url", "https://i.example", "--force-reinstall", "--no-deps"]


def test_a_program_beside_windows_python_uses_it(tmp_path: Path) -> None:
    for place in ("python.exe", "Scripts/torchrun"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).touch(0o755)
    program = str(tmp_path / "Scripts" / "torchrun")
    assert Path(python_of(Call(command=(program,)))).resolve() == tmp_path / "python.exe"
    (tmp_path / "Scripts" / "python.exe").touch()
    assert Path(python_of(Call(command=(program,)))) == tmp_path / "Scripts" / "python.exe"
