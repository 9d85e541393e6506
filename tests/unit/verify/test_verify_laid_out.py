"""From a wheel to what is run: what is laid out for an emulated CPU, what an environment of its own is given, what a
sandbox shows, and what an agent is started with. Nothing is emulated or installed here."""

from __future__ import annotations

import errno
import importlib.util
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from rekindle.emulate.qemu import X86, EmulatedCpu, Emulator
from rekindle.emulate.root import EmulatedPython
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.host.sandbox import parts_of
from rekindle.model.interpreter import Interpreter
from rekindle.model.progress import Silent
from rekindle.model.verify import VerifyReport
from rekindle.verify import prove
from rekindle.verify.environment import WHEELS_ONLY, Isolation
from rekindle.verify.runner import lend_tools, run_checks
from rekindle.verify.target import CHECKS, Target, Trial, read_subject
from spark_stand_in import GOOD
from tiny_wheels import make_wheel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="emulation and sandboxes are of Linux machines")
DONE = VerifyReport(verdict="proven", checks=(), environment={}, subject="x")
OURS = {"setuptools", "_distutils_hack"}
TAG = "cp311-cp311-manylinux_2_28_x86_64"


class Box:
    """A sandbox that notes what it is to show, and hides nothing."""

    def __init__(self) -> None:
        self.shown: list[Path] = []

    def wrap(
        self, argv: Sequence[str], *, work: Path, env: Mapping[str, str], shown: Iterable[Path] = ()
    ) -> tuple[list[str], dict[str, str]]:
        self.shown = list(shown)
        return list(argv), dict(env)


class Stage:
    """What the steps on the way were asked for, in their order."""

    def __init__(self) -> None:
        self.wishes: tuple[list[str], tuple[str, ...]] | None = None
        self.refused: list[Path] = []
        self.compiled: list[Path] = []
        self.shown: list[Path] = []
        self.probe: list[str] = []
        self.prepared: dict[str, Any] = {}
        self.run: dict[str, Any] = {}


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    noted = Stage()
    emulator = Emulator(path="/usr/bin/qemu-x86_64", version="7.2", models=(), emulated=X86)
    root = EmulatedPython(path=Path("/root-of-x86/usr/bin/python3.11"), version=(3, 11), root=Path("/root-of-x86"))

    def install(wishes: list[str], site: Path, there: Any, links: tuple[str, ...]) -> None:
        assert (there.arch, there.python, there.glibc) == ("x86_64", "3.11", "2.36") and site.is_dir()
        noted.wishes = wishes, links

    def stubs(package: Path, folder: Path, where: Any, emulated: Any) -> list[str]:
        assert (package / "__init__.py").exists() and where == Path("/root-of-x86") and emulated == X86
        assert folder == package.parent.parent / "stubs"
        return ["libcuda.so.1", "libcudart.so.12"]

    def isolate(self: Isolation, shown: Iterable[Path], probe: list[str], work: Path, _: Any) -> Any:
        noted.shown, noted.probe = list(shown), probe
        assert not work.exists() and work.name == "probe"
        return None, {"sandbox": "", "installed": WHEELS_ONLY}

    def run(target: Target, trial: Trial, **more: Any) -> VerifyReport:
        folders = [path for path in noted.shown if path.exists()]
        noted.run = {"target": target, "trial": trial, "there": folders, **more}
        return DONE

    monkeypatch.setattr(prove, "machine_for", lambda subject: _away(X86))
    monkeypatch.setattr(prove, "find_emulator", lambda host, emulated: emulator)
    monkeypatch.setattr(prove, "choose_cpu", lambda one, name: EmulatedCpu(name=name, model="Haswell"))
    monkeypatch.setattr(prove, "find_emulated_python", lambda *words: root)
    monkeypatch.setattr(prove, "install_for_emulation", install)
    monkeypatch.setattr(prove, "refuse_addresses", lambda site, subject: noted.refused.append(site))
    monkeypatch.setattr(prove, "write_stubs", stubs)
    monkeypatch.setattr(prove, "compile_ahead", lambda host, site, version: noted.compiled.append(site))
    monkeypatch.setattr(Isolation, "sandbox", isolate)
    monkeypatch.setattr(prove, "run_checks", run)
    return noted


class _away:
    """The machine, as it is seen from one of another kind."""

    is_here = False

    def __init__(self, machine: Any) -> None:
        self.real = machine

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __eq__(self, other: object) -> bool:
        return other is self.real

    def __hash__(self) -> int:
        return hash(self.real)


def emulate(wheel: Path, **trial: Any) -> VerifyReport:
    return prove.prove_emulated(LiveHost(), wheel, "haswell", Trial(**trial), Path("/cache"), Silent())


@pytest.fixture
def torch(tmp_path: Path) -> Path:
    return make_wheel(
        tmp_path,
        "torch",
        "2.6.0",
        tag=TAG,
        metadata="Requires-Dist: filelock\nRequires-Dist: nvidia-cublas-cu12==12.4\n",
    )


def test_a_wheel_is_laid_out_with_what_it_needs(torch: Path, stage: Stage) -> None:
    report = emulate(torch, find_links=("/wheels",), expect={"cuda": "12.4"}, env={"ATEN_CPU_CAPABILITY": "avx2"})
    assert report.wheel_sha256 and report.verdict == "proven"
    assert stage.wishes is not None and stage.wishes[1] == ("/wheels",)
    assert stage.wishes[0][0] == "filelock" and stage.wishes[0][1].startswith("numpy") and len(stage.wishes[0]) == 2
    assert len(stage.compiled) == len(stage.refused) == 1, "a stranger's wheel"
    target, trial = stage.run["target"], stage.run["trial"]
    assert target.environment == {
        "emulator": "qemu-user 7.2", "cpu model": "Haswell", "installed": WHEELS_ONLY,
        "stub libraries": "libcuda.so.1 libcudart.so.12",
    }  # fmt: skip
    assert target.subject == f"{torch.name} on emulated haswell" and target.sandbox is None
    assert trial.expect == {"version": "2.6.0", "cuda": "12.4"}
    site, stubs, *others = stage.shown
    assert (site.name, stubs.name, site.parent) == ("site", "stubs", stubs.parent) and site in stage.run["there"]
    assert not site.exists(), "all is gone afterwards"
    assert others[:2] == [Path("/usr/bin/qemu-x86_64"), Path("/root-of-x86")]
    assert stage.probe == ["/usr/bin/qemu-x86_64", "--version"]
    words = dict(word.split("=", 1) for word in target.command if "=" in word)
    assert words["PYTHONPATH"] == str(site) and words["LD_LIBRARY_PATH"] == str(stubs)


@pytest.mark.parametrize(
    ("tag", "trial", "installs", "compiles"),
    [
        (TAG, {"dependencies": False}, False, True),
        (TAG, {"only": ("core.fft", "core")}, False, False),
        (TAG, {"only": ("core.fft", "ops.fft")}, True, True),
        (TAG, {"only": ("fft.core",)}, True, True),
        ("cp312-cp312-manylinux_2_28_x86_64", {}, False, False),
        ("py3-none-manylinux_2_28_x86_64", {}, True, True),
    ],
)
def test_only_what_is_to_be_imported_gets_dependencies_and_byte_code(
    tag: str, trial: dict[str, Any], installs: bool, compiles: bool, tmp_path: Path, stage: Stage
) -> None:  # fmt: skip
    emulate(make_wheel(tmp_path, "torch", "2.6.0", tag=tag), **trial)
    assert (stage.wishes is not None, bool(stage.refused), bool(stage.compiled)) == (installs, installs, compiles)


def test_a_wheel_that_is_trusted_may_bring_what_it_likes(torch: Path, stage: Stage) -> None:
    emulate(torch, sandbox="no")
    assert stage.wishes is not None and not stage.refused


def test_on_a_machine_of_that_kind_the_interpreter_itself_is_emulated(
    torch: Path, stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, link = tmp_path / "real-python", tmp_path / "python3"
    real.touch()
    link.symlink_to(real)
    here = _away(X86)
    here.is_here = True
    monkeypatch.setattr(prove, "machine_for", lambda subject: here)
    monkeypatch.setattr(prove, "write_stubs", lambda *words: [])
    given: list[str | None] = []

    def python(host: Any, subject: Any, name: str | None) -> Interpreter:
        given.append(name)
        return Interpreter(path=str(link), version="3.11.9", machine="x86_64", system="linux")

    monkeypatch.setattr(prove, "python_for", python)
    emulate(torch, python="python3.11")
    assert given == ["python3.11"] and stage.run["target"].command[-1] == str(real)
    assert "stub libraries" not in stage.run["target"].environment, "where there are none, nothing is said"


@pytest.mark.parametrize("emulated", [True, False])
def test_a_folder_that_cannot_be_emptied_takes_no_answer_away(
    emulated: bool, torch: Path, environment: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Something still holds a file there, as happens on network disks."""
    real, refused = os.rmdir, []

    def refuse(path: Any, **more: Any) -> None:
        refused.append(path)
        raise OSError(errno.EBUSY, "busy", str(path))

    def run(*words: Any, **more: Any) -> VerifyReport:
        monkeypatch.setattr(os, "rmdir", refuse)
        return DONE

    monkeypatch.setattr(prove, "run_checks", run)
    report = emulate(torch) if emulated else prove.prove_wheel(LiveHost(), torch, Trial(), progress=Silent())
    monkeypatch.setattr(os, "rmdir", real)
    assert report.verdict == "proven" and refused
    top = next(parent for parent in environment.shown[0].parents if parent.name.startswith("rekindle-e"))
    shutil.rmtree(top)


# An environment of its own.


@pytest.fixture
def environment(stage: Stage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    base = tmp_path / "base"
    (base / "bin").mkdir(parents=True)
    (base / "bin" / "python3").touch()

    def prepare(host: Any, folder: Path, interpreter: Interpreter, subject: Any, **more: Any) -> Path:
        stage.prepared = {"folder": folder, "interpreter": interpreter, **more}
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").symlink_to(base / "bin" / "python3")
        return folder / "bin" / "python"

    found = Interpreter(
        path=str(base / "bin" / "python3"), version="3.11.9", machine="x86_64", system="linux", base_prefix=str(base)
    )
    monkeypatch.setattr(prove, "python_for", lambda host, subject, name: found)
    monkeypatch.setattr(prove, "prepare_environment", prepare)
    return stage


def test_a_wheel_gets_an_environment_and_the_sandbox_shows_its_parts(environment: Stage, torch: Path) -> None:
    prove.prove_wheel(LiveHost(), torch, Trial(find_links=("/wheels",), env={"A": "1"}), progress=Silent())
    told = environment.prepared
    assert told["find_links"] == ("/wheels",) and told["wheels_only"] and told["dependencies"]
    assert told["extra"][0].startswith("numpy") and not told["folder"].exists()
    target = environment.run["target"]
    assert target.command == (str(told["folder"] / "bin" / "python"),) and target.env == {"A": "1"}
    assert (target.package, target.subject) == ("torch", torch.name)
    assert target.environment == {"sandbox": "", "installed": WHEELS_ONLY}
    assert environment.probe == [*target.command, "-I", "-S", "-c", ""]
    assert environment.shown[0] == told["folder"] and told["folder"] in environment.run["there"]
    base = Path(told["interpreter"].base_prefix)
    assert set(parts_of(base)) <= set(environment.shown), "where the standard library lies"
    assert environment.run["companions"] == [] and environment.run["trial"].expect == {"version": "2.6.0"}


def test_a_companion_finds_its_torch_beside_itself_and_its_version_is_no_torchs(
    environment: Stage, tmp_path: Path
) -> None:
    wheel = make_wheel(tmp_path, "torchvision", "0.21.0", tag=TAG, metadata="Requires-Dist: torch==2.6.0\n")
    prove.prove_wheel(LiveHost(), wheel, Trial(find_links=("/wheels",)), progress=Silent())
    assert environment.prepared["find_links"] == ("/wheels", str(tmp_path))
    assert environment.run["companions"] == ["torchvision"] and environment.run["target"].package == "torch"
    assert environment.run["trial"].expect == {}
    assert environment.prepared["extra"] and environment.prepared["extra"][0].startswith("numpy")


# What the agent is started with.


def test_the_agent_hears_nothing_of_our_own_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A PYTHONPATH of the user's would show the target another torch."""
    ours = tmp_path / "ours"
    (ours / "spark").mkdir(parents=True)
    (ours / "spark" / "__init__.py").write_text("raise ImportError('the wrong one')\n")
    (tmp_path / "theirs" / "spark").mkdir(parents=True)
    look = "import os\nNAMES = ('PYTHONSTARTUP', 'VIRTUAL_ENV', 'PYTHONHOME', 'KEPT', 'PYTHONNOUSERSITE')\n"
    look += "def config(): return GIVEN + ' ' + ' '.join(n for n in NAMES if n in os.environ)\nGIVEN = 'BUILD_TYPE=x'\n"
    (tmp_path / "theirs" / "spark" / "__init__.py").write_text(GOOD + look)
    for name in ("PYTHONPATH", "PYTHONSTARTUP", "VIRTUAL_ENV", "KEPT"):
        monkeypatch.setenv(name, str(ours))
    site = "import sys; sys.path.insert(0, sys.argv.pop(1)); import runpy; "
    start = site + "runpy.run_path(sys.argv[1], run_name='__main__')"
    target = Target(command=(sys.executable, "-c", start, str(tmp_path / "theirs")), package="spark")
    report = run_checks(target, Trial(only=("settings",)))
    words = next(check.detail for check in report.checks if check.id == "settings")
    assert words == "BUILD_TYPE=x KEPT PYTHONNOUSERSITE"


def test_a_sandbox_shows_the_checks_and_what_is_lent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "spark").mkdir()
    (tmp_path / "spark" / "__init__.py").write_text(GOOD)
    ninja = tmp_path / "tools" / "ninja"
    ninja.parent.mkdir()
    ninja.write_text("#!/bin/sh\n")
    ninja.chmod(0o755)
    monkeypatch.setattr(shutil, "which", lambda name, path=None: None if path else str(ninja))
    for level in ("smoke", "full"):
        box: Any = Box()
        target = Target(command=(sys.executable,), env={"PYTHONPATH": str(tmp_path)}, package="spark", sandbox=box)
        assert run_checks(target, Trial(level=level)).passed
        assert box.shown[0] == CHECKS
        assert (ninja.parent in box.shown) == (level == "full")
        lent = [path for path in box.shown[1:] if path != ninja.parent]
        assert {path.name for path in lent} - {"pkg_resources"} == (OURS if level == "full" else set())
        assert all(path.is_dir() and not path.is_symlink() for path in lent)


def test_what_is_lent_is_ours_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lent = lend_tools(tmp_path / "deep" / "lent")
    assert lent["setuptools"] == str(tmp_path / "deep" / "lent")
    names = {path.name for path in (tmp_path / "deep" / "lent").iterdir()}
    assert {"setuptools", "_distutils_hack"} <= names <= {"setuptools", "pkg_resources", "_distutils_hack"}
    assert all(path.is_symlink() and path.is_dir() for path in (tmp_path / "deep" / "lent").iterdir())

    class Nowhere:
        submodule_search_locations = None

    for spec in (None, Nowhere()):
        monkeypatch.setattr(importlib.util, "find_spec", lambda name, spec=spec: spec)
        monkeypatch.setattr(shutil, "which", lambda name, path=None: None)
        assert lend_tools(tmp_path / "none") == {} and not (tmp_path / "none").exists()


def test_where_no_link_may_be_made_tools_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*words: Any, **more: Any) -> None:
        raise OSError("a required privilege is not held by the client")

    copied: list[tuple[Path, Path]] = []
    monkeypatch.setattr(Path, "symlink_to", refuse)
    monkeypatch.setattr(shutil, "copytree", lambda a, b: copied.append((a, b)))
    lend_tools(tmp_path)
    assert ("setuptools", tmp_path / "setuptools") in [(source.name, there) for source, there in copied]


def test_an_end_without_a_word_of_how_is_clean(tmp_path: Path) -> None:
    """Agents on Windows, which run without fork, say only that they are done."""
    started = tmp_path / "started"
    says = f"open({str(started)!r}, 'a').write('x'); print('{{\"event\": \"done\"}}')"
    run_checks(Target(command=(sys.executable, "-c", says), package="spark"))
    assert started.read_text() == "x", "it is not started again"


def test_an_unclean_end_is_begun_anew_with_what_is_done(tmp_path: Path) -> None:
    started = tmp_path / "started"
    says = (
        "import json, sys\nrequest = json.load(sys.stdin)\n"
        f"open({str(started)!r}, 'a').write(json.dumps(request['done']) + '\\n')\n"
        "def say(**event): print(json.dumps(event))\n"
        "number = len(request['done'])\n"
        "say(event='end', id='part%d' % number, status='passed')\n"
        "say(event='done', clean=number == 2)\n"
    )
    report = run_checks(Target(command=(sys.executable, "-c", says), package="spark"))
    assert [check.id for check in report.checks] == ["part0", "part1", "part2"]
    assert started.read_text().splitlines() == ["[]", '["part0"]', '["part0", "part1"]']


def test_a_wheel_for_any_python_is_for_the_one_that_runs_us(tmp_path: Path) -> None:
    subject = read_subject(make_wheel(tmp_path, "torch", "2.6.0", tag="py3-none-any"))
    assert prove.python_for(LiveHost(), subject, None).path == sys.executable
    assert subject.gil_disabled is False
    threads = read_subject(make_wheel(tmp_path, "torch", "2.6.0", tag="cp313-cp313t-linux_x86_64"))
    assert threads.gil_disabled is True
    with pytest.raises(BadInput, match="none for"):
        prove.prove_wheel(LiveHost(), make_wheel(tmp_path, "six", "1.0"), Trial(), progress=Silent())
