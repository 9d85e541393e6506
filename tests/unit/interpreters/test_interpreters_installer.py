"""The command of an installer: pip's own, ours in its stead, uv; where they look; and that pip can start nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput
from rekindle.host.protocol import Completed
from rekindle.interpreters.environment import make_environment, python_of
from rekindle.interpreters.installer import (
    REFUSED,
    Installer,
    InstallerRun,
    choose_installer,
    our_pip_runner,
    our_pip_serves,
    our_pip_without_programs,
    pip_of,
    quickest_installer,
    run_installer,
)
from tiny_wheels import make_wheel


class _Host(BareHost):
    """Which commands end well: those that begin with one of these."""

    def __init__(self, good: Sequence[Sequence[str]] = (), *, said: str = "", **env: str) -> None:
        super().__init__("linux", env)
        self.good = [list(words) for words in good]
        self.said = said

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        good = any(list(argv[: len(words)]) == words for words in self.good)
        return Completed(argv=tuple(argv), code=0 if good else 1, out=self.said if "config" in argv else "")


OURS = [sys.executable, "-m", "pip"]


def test_its_own_pip_serves_an_interpreter_and_ours_where_it_has_none() -> None:
    assert pip_of(_Host([["/e/python"], OURS]), "/e/python") == ["/e/python", "-m", "pip"]
    assert pip_of(_Host([OURS]), "/e/python") == [*OURS, "--python", "/e/python"]
    assert pip_of(_Host(), "/e/python") == ["/e/python", "-m", "pip"], "its own words say what is missing"


def test_without_programs_pip_runs_in_the_interpreter_itself() -> None:
    installer = Installer(wheels_only=True)
    words = installer.command(_Host([["/e/python"]]), "/e/python", ["x"])
    assert words[:3] == ["/e/python", "-I", "-c"] and words[4:6] == ["", "install"]
    assert installer.command(_Host([OURS]), "/e/python", ["x"])[4] == our_pip_runner()


def test_the_words_of_each() -> None:
    host = _Host([["/e/python"]])
    offline = Installer(links=("wheels",), offline=True)
    assert offline.places == ["--no-index", "-f", "wheels"] and offline.name == "pip"
    assert Installer().command(host, "/e/python", ["torch"])[-4:] == [
        "install", "--disable-pip-version-check", "--no-input", "torch",
    ]  # fmt: skip
    uv = Installer(uv="/bin/uv", wheels_only=True, offline=True)
    assert uv.command(host, "/e/python", ["torch"]) == [
        "/bin/uv", "pip", "install", "--no-progress", "--python", "/e/python", "--only-binary", ":all:", "torch",
    ]  # fmt: skip


def test_uv_looks_where_pip_was_told_to() -> None:
    told = "global.index-url='https://mirror/simple'\nglobal.find-links='/wheels'\n"
    words = Installer(uv="uv").command(_Host([OURS], said=told), "py", ["torch"])
    assert words[-5:] == ["--default-index", "https://mirror/simple", "--find-links", "/wheels", "torch"]
    more = "global.extra-index-url='https://more/simple'\n"
    words = Installer(uv="uv").command(_Host([OURS], said=more), "py", ["torch"])
    assert words[-5:] == ["--index", "https://more/simple", "--index-strategy", "unsafe-best-match", "torch"]
    none = "global.index-url='https://mirror/simple'\n:env:.no-index='1'\n"
    assert Installer(uv="uv").command(_Host([OURS], said=none), "py", ["torch"])[-2:] == ["--no-index", "torch"]
    # An index that was named, or that uv itself knows, counts more.
    own = _Host([OURS], said=told, UV_DEFAULT_INDEX="https://own/simple")
    assert "--default-index" not in Installer(uv="uv").command(own, "py", ["torch"])
    named = Installer(uv="uv").command(_Host([OURS], said=told), "py", ["torch", "--index-url", "https://plan/"])
    assert "--default-index" not in named


def test_who_installs() -> None:
    assert choose_installer(None).uv is None and choose_installer("pip").uv is None
    with pytest.raises(BadInput, match="no such installer"):
        choose_installer("conda")
    assert quickest_installer(BareHost()).uv is None
    assert quickest_installer(BareHost(), links=["https://x/", "."]).links == ("https://x/", str(Path.cwd()))


def test_our_pip_knows_which_pythons_it_serves() -> None:
    assert our_pip_serves(sys.version_info[:2]) and not our_pip_serves((2, 7))


@pytest.mark.parametrize("spec", [None, SimpleNamespace(origin=None), SimpleNamespace(origin="/nowhere/__init__.py")])
def test_without_a_pip_beside_us_no_python_is_served_by_it(spec: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    assert our_pip_runner.__wrapped__() == ""
    monkeypatch.setattr("rekindle.interpreters.installer.our_pip_runner", lambda: "")
    assert not our_pip_serves(sys.version_info[:2])


def _no_build(folder: Path) -> InstallerRun:
    """pip is asked for sources beside us, whose build would leave a mark."""
    project = folder / "evil"
    project.mkdir()
    (project / "setup.py").write_text(f"open({str(folder / 'ran')!r}, 'w')")
    argv = [*our_pip_without_programs(), "install", "--no-index", "--target", str(folder / "site"), str(project)]
    return run_installer(argv, cwd=folder)


def test_pip_can_start_no_program(tmp_path: Path) -> None:
    done = _no_build(tmp_path)
    assert not done.ok and any(REFUSED in line for line in done.lines)
    assert not (tmp_path / "ran").exists()


def test_it_still_installs_wheels(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    argv = [*our_pip_without_programs(), "install", "--no-index", "--target", str(tmp_path / "site"), str(wheel)]
    done = run_installer(argv, cwd=tmp_path)
    assert done.ok, done.lines
    assert (tmp_path / "site/tiny/__init__.py").is_file()


def test_one_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    done = run_installer([sys.executable, "-c", "import time; time.sleep(60)"], cwd=tmp_path, seconds=0.5)
    assert done.code is None and done.reason == "no end within 0 s"


def test_variables_of_another_python_are_left_out(tmp_path: Path) -> None:
    said: list[str] = []
    env = {"PYTHONPATH": "/x", "PYTHONHOME": "/y", "KEPT": "z"}
    script = "import os; print(sorted(set(os.environ) & {'PYTHONPATH', 'PYTHONHOME', 'KEPT'}))"
    assert run_installer([sys.executable, "-c", script], cwd=tmp_path, env=env, on_line=said.append).ok
    assert said == ["['KEPT']"]


def _run(argv: Sequence[str]) -> InstallerRun:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    return InstallerRun(argv=tuple(argv), code=done.returncode, lines=tuple(done.stderr.splitlines()))


def test_a_python_without_ensurepip_gets_an_environment_without_pip(tmp_path: Path) -> None:
    asked: list[Sequence[str]] = []

    def run(argv: Sequence[str]) -> InstallerRun:
        asked.append(argv)
        if "--without-pip" not in argv:
            (tmp_path / "env" / "half").mkdir(parents=True)
            return InstallerRun(argv=tuple(argv), code=1, lines=("ensurepip is not available",))
        return _run(argv)

    assert make_environment(sys.executable, tmp_path / "env", run).ok
    assert python_of(tmp_path / "env").exists() and not (tmp_path / "env/half").exists()
    assert len(asked) == 2


def test_what_cannot_be_made_is_told_and_uv_makes_its_own(tmp_path: Path) -> None:
    asked: list[Sequence[str]] = []

    def fail(argv: Sequence[str]) -> InstallerRun:
        asked.append(argv)
        return InstallerRun(argv=tuple(argv), code=1, lines=())

    assert not make_environment("/nowhere/python", tmp_path / "env", fail).ok and len(asked) == 2
    assert not make_environment("/nowhere/python", tmp_path / "env", fail, with_pip=False).ok and len(asked) == 3
    assert not make_environment("py", tmp_path / "env", fail, uv="/bin/uv").ok
    assert asked[-1] == ["/bin/uv", "venv", "--no-progress", "--python", "py", str(tmp_path / "env")]
