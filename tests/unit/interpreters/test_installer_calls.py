"""What an installer is told, what of its output is kept, and what is said where it fails."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput, MissingTool
from rekindle.host.protocol import Completed
from rekindle.interpreters import installer
from rekindle.interpreters.installer import (
    SLOW_INDEX,
    Installer,
    InstallerRun,
    PipSettings,
    choose_installer,
    gave_up_waiting,
    our_pip_serves,
    pip_by_metadata,
    quickest_installer,
    read_pip_settings,
    run_installer,
)


class Told(BareHost):
    """A machine whose pip lists these settings."""

    def __init__(self, listed: str = "", **env: str) -> None:
        super().__init__("linux", env)
        self.listed = listed

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        return Completed(argv=tuple(argv), code=0, out=self.listed if "config" in argv else "https://usual/simple\n")

    def which(self, name: str) -> str | None:
        return f"/bin/{name}"


def test_all_that_pip_was_told_is_read() -> None:
    listed = (
        ":env:.extra-index-url='https://e/1 https://e/2'\nglobal.extra-index-url='https://g'\n"
        "install.cert='/i.pem'\nglobal.cert='/g.pem'\ndownload.find-links='/d'\ninstall.find-links='/i\\n/j'\n"
        "global.index-url='not closed\nwheel.index-url='https://w'\nglobal.no-index='no'\n"
    )
    assert read_pip_settings(Told(listed)) == PipSettings(
        index="not closed",
        index_was_told=True,
        extra=("https://e/1", "https://e/2"),
        links=("/d",),
        certificates="/i.pem",
    )
    assert read_pip_settings(Told()) == PipSettings(index="https://usual/simple")
    assert read_pip_settings(Told(UV_DEFAULT_INDEX="https://uv")) == PipSettings(
        index="https://uv", index_was_told=True
    )


@pytest.mark.parametrize("word", ["1", "true", "Yes", "on"])
def test_no_index_is_asked_where_pip_was_told_so(word: str) -> None:
    listed = f"global.index-url='https://g'\nglobal.no-index='{word}'\nglobal.find-links='/wheels'\n"
    assert read_pip_settings(Told(listed)) == PipSettings(no_index=True, links=("/wheels",))
    words = Installer(uv="uv").command(Told(listed), "py", ["torch"])
    assert words[-4:] == ["--no-index", "--find-links", "/wheels", "torch"]


def test_the_places_of_a_call() -> None:
    here = Installer(links=("/a", "/b"), indexes=("https://1", "https://2"))
    assert here.places == ["--extra-index-url", "https://1", "--extra-index-url", "https://2", "-f", "/a", "-f", "/b"]
    assert Installer(indexes=("https://1",), offline=True).places == ["--no-index"]
    assert (Installer(uv="/bin/uv").name, Installer().name) == ("uv", "pip")


def test_uv_is_told_of_no_index_but_one_that_was_named() -> None:
    """pip's own default is no setting; what uv was told in any of its variables counts alone."""
    bare = ["uv", "pip", "install", "--no-progress", "--python", "py"]
    assert Installer(uv="uv").command(Told(), "py", ["torch"]) == [*bare, "torch"]
    told = "global.index-url='https://g'\nglobal.find-links='/wheels'\n"
    assert Installer(uv="uv", offline=True).command(Told(told), "py", ["torch"]) == [*bare, "torch"]
    for name in ("UV_INDEX", "UV_INDEX_URL", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_CONFIG_FILE"):
        assert Installer(uv="uv").command(Told(told, **{name: "x"}), "py", ["torch"]) == [*bare, "torch"]
    assert "/wheels" in Installer(uv="uv").command(Told(told, UV_INDEX=""), "py", ["torch"])


def test_uv_is_taken_where_it_was_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MissingTool, match="uv is not on PATH"):
        choose_installer("uv")
    program = tmp_path / ("uv.exe" if sys.platform == "win32" else "uv")
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    assert Path(choose_installer("uv").uv or "") == program
    chosen = choose_installer("pip", links=["/l"], offline=True)
    assert chosen == Installer(links=("/l",), offline=True) and choose_installer(None) == Installer()
    with pytest.raises(BadInput, match="--installer ''"):
        choose_installer("''")
    assert quickest_installer(Told(), wheels_only=True) == Installer(uv="/bin/uv", wheels_only=True)


def test_a_pip_that_says_nothing_of_pythons_serves_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installer, "our_pip_runner", lambda: "/x")
    said: dict[str, object] = {}
    monkeypatch.setattr("importlib.metadata.metadata", lambda name: SimpleNamespace(json=said))
    assert our_pip_serves((3, 5))
    said["requires_python"] = ">=3.9, !=3.11.99, <4.2"
    assert [release for release in ((3, 8), (3, 9), (3, 11), (4, 1), (4, 2)) if our_pip_serves(release)] == [
        (3, 9),
        (4, 1),
    ]


def test_a_dry_run_asks_the_interpreter_itself() -> None:
    words = pip_by_metadata("/p")
    assert words[:2] == ["/p", "-c"] and len(words) == 3
    compile(words[2], "dry run", "exec")


def ended(*lines: str, code: int | None = 1) -> InstallerRun:
    return InstallerRun(argv=("pip",), code=code, lines=lines)


def test_only_zero_is_well() -> None:
    assert ended(code=0).ok and not ended(code=1).ok and not ended(code=None).ok


def test_a_reason_has_an_end() -> None:
    assert ended("error: " + "x" * 500).reason == "error: " + "x" * 393
    assert ended("Resolved 3 packages", "  × No room", "  ╰─▶ for it").reason == "No room for it"
    assert ended("ERROR: Exception:  ", "Traceback", "  OSError: full").reason == "OSError: full"
    assert ended("ERROR: Exception:", "  why", "ERROR: in the end  ").reason == "ERROR: in the end"
    assert ended("an Error here ", "later").reason == "an Error here"


@pytest.mark.parametrize(("system", "word"), [("nt", "python.org"), ("posix", "apt install")])
def test_a_remedy_is_one_of_the_system(system: str, word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(installer, "os", SimpleNamespace(name=system))
    assert word in (ended("No module named venv").remedy or "")
    assert "TMPDIR" in (ended("No space left on device").remedy or "")
    assert ended("all is well").remedy is None
    assert "slow" in (ended("Read timed out.").remedy or "")


def test_who_gave_up_waiting() -> None:
    assert gave_up_waiting(["x", "READ TIMED OUT"]) and gave_up_waiting(["Network Timeout"])
    assert not gave_up_waiting(["timed", "out"]) and not gave_up_waiting([])


def test_the_last_lines_are_kept_and_all_are_heard(tmp_path: Path) -> None:
    heard: list[str] = []
    script = "print('\\n'.join(f'{n}\\n' for n in range(250)))"
    done = run_installer([sys.executable, "-c", script], cwd=tmp_path, on_line=heard.append, seconds=60)
    assert done.lines == tuple(map(str, range(50, 250))), "200 of those that say something"
    assert (done.code, done.argv) == (0, (sys.executable, "-c", script)) and heard.count("") >= 249


def test_our_own_variables_are_meant_where_none_are_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REKINDLE_MARK", "here")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    script = "import os; print(os.environ['REKINDLE_MARK'], os.environ.get('PYTHONPATH'))"
    assert run_installer([sys.executable, "-c", script], cwd=tmp_path).lines == ("here None",)


def test_who_wants_to_hears_of_the_second_try(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice slow: tried twice, and what is kept is of the second try alone."""
    for name in ("PIP_DEFAULT_TIMEOUT", "UV_HTTP_TIMEOUT"):
        monkeypatch.delenv(name, raising=False)
    script = "import os; print('Read timed out after', os.environ.get('UV_HTTP_TIMEOUT')); raise SystemExit(3)"
    lines: list[str] = []
    slow: list[str] = []
    done = run_installer([sys.executable, "-c", script], cwd=tmp_path, on_line=lines.append, on_slow=slow.append)
    assert slow == [SLOW_INDEX] and SLOW_INDEX not in lines
    assert (done.code, done.lines) == (3, ("Read timed out after 300",)) and len(lines) == 2
