"""What hands expect of a command line: completion, help, version, near words, places, full outputs."""

from __future__ import annotations

import importlib
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from needs import tool
from rekindle import __version__
from rekindle.cli import clean
from rekindle.cli.completion import completion_script
from rekindle.cli.main import VERBS, main, verb_parser
from rekindle.cli.verb import Answer, Session, laid_out, place_for
from rekindle.errors import Declined

SHELLS = ("bash", "zsh", "fish", "powershell")


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("shells")
    for shell in SHELLS:
        (folder / shell).write_text(completion_script(shell), encoding="utf-8")
    return {shell: folder / shell for shell in SHELLS}


def bash_offers(script: Path, *words: str) -> set[str]:
    """What bash would offer for the last word."""
    line = " ".join(f"'{word}'" for word in words)
    code = f"source '{script}'; COMP_WORDS=({line}); COMP_CWORD={len(words) - 1}; _shtab_rekindle; "
    code += "printf '%s\\n' \"${COMPREPLY[@]}\""
    done = subprocess.run(["bash", "-c", code], capture_output=True, text=True, check=True, cwd=script.parent)
    return set(done.stdout.split())


@tool("bash")
def test_bash_offers_verbs_options_values_and_steps(scripts: dict[str, Path]) -> None:
    script = scripts["bash"]
    assert bash_offers(script, "rekindle", "do") == {"doctor"}
    assert set(VERBS) <= bash_offers(script, "rekindle", "")
    assert {"--venv", "--variant", "--verbose"} == bash_offers(script, "rekindle", "up", "--v")
    assert bash_offers(script, "rekindle", "up", "--installer", "") == {"pip", "uv"}
    assert "fetch" in bash_offers(script, "rekindle", "source", "f")
    assert "--release" in bash_offers(script, "rekindle", "source", "fetch", "--rel")
    assert bash_offers(script, "rekindle", "plan", "--machine", "fi") == {"fish"}  # files, where a value is free
    assert bash_offers(script, "rekindle", "completion", "po") >= {"powershell"}


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_shell_itself_reads_its_script(scripts: dict[str, Path], shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not here")
    done = subprocess.run([shell, "-n", str(scripts[shell])], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    if shell == "fish":
        code = f"source {scripts[shell]}; complete -C 'rekindle up --inst'; complete -C 'rekindle up --installer '"
        said = subprocess.run(["fish", "-N", "-c", code], capture_output=True, text=True).stdout
        assert "--installer" in said and "uv" in said.split()


@pytest.mark.parametrize("way", ["sourced", "in a folder of fpath"])
@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not here")
def test_zsh_completes_what_is_typed(scripts: dict[str, Path], tmp_path: Path, way: str) -> None:
    """At a real prompt, with the key pressed; a function of fpath is another one after its first call."""
    import pty
    import select
    import time

    outer, inner = pty.openpty()
    env = {"PATH": os.environ["PATH"], "TERM": "dumb", "HOME": str(tmp_path), "PS1": "> "}
    shell = subprocess.Popen(
        ["zsh", "-f", "-i"], stdin=inner, stdout=inner, stderr=inner, start_new_session=True, env=env, cwd=tmp_path
    )
    os.close(inner)

    def typed(keys: str, awaited: str) -> str:
        os.write(outer, keys.encode())
        said, end = "", time.monotonic() + 30
        while awaited not in said and time.monotonic() < end:
            if select.select([outer], [], [], 0.1)[0]:
                said += os.read(outer, 65536).decode("utf-8", "replace")
        return said

    try:
        shutil.copy(scripts["zsh"], tmp_path / "_rekindle")
        before, after = ("", f"source '{scripts['zsh']}'; ") if way == "sourced" else ("fpath=($PWD $fpath); ", "")
        ready = f"{before}autoload -Uz compinit && compinit -u; {after}echo rea''dy\n"
        assert "ready" in typed(ready, "\nready")
        for keys, whole in (("up --inst", "--installer "), ("up --installer u", "uv "), ("source fet", "ch ")):
            assert whole in typed(f"\x15rekindle {keys}\t", whole)
    finally:
        shell.kill()
        shell.wait()
        os.close(outer)


@pytest.mark.parametrize("shell", SHELLS)
def test_every_verb_and_its_options_are_in_each_script(scripts: dict[str, Path], shell: str) -> None:
    text = scripts[shell].read_text(encoding="utf-8")
    assert all(verb in text for verb in VERBS)
    assert "find-links" in text and "rewrite-cmake" in text


def test_help_and_version_are_verbs_too(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help", "up"]) == 0
    said = capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["up", "--help"])
    assert said == capsys.readouterr().out
    assert main(["help", "source", "fetch"]) == 0 and "--release" in capsys.readouterr().out
    assert main(["help"]) == 0 and "verbs:" in capsys.readouterr().out
    assert main(["help", "source", "fly"]) == 2 and "fetch" in capsys.readouterr().err
    assert main(["version"]) == 0 and capsys.readouterr().out == f"rekindle {__version__}\n"
    assert main(["version", "--json"]) == 0 and json.loads(capsys.readouterr().out)["rekindle"] == __version__


@pytest.mark.parametrize(
    ("argv", "hint"),
    [(["doctr"], "rekindle doctor"), (["install"], "rekindle up"), (["ls"], "rekindle list"),
     (["xyzzy"], "lists them"), (["plan", "--gpus", "x"], "--gpu"), (["plan", "--zzz"], "rekindle plan --help"),
     (["up", "--dryrun"], "--dry-run")],
)  # fmt: skip
def test_a_near_word_is_named_and_a_far_one_is_not(
    argv: list[str], hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    said = capsys.readouterr().err
    assert hint in said and ("did you mean" in said) == (hint not in ("lists them", "rekindle plan --help"))


def test_a_slash_at_the_end_means_a_folder(tmp_path: Path) -> None:
    assert place_for(f"{tmp_path}/new/", "a.json") == tmp_path / "new/a.json"
    assert place_for(str(tmp_path), "a.json") == tmp_path / "a.json"
    assert place_for(str(tmp_path / "b.json"), "a.json") == tmp_path / "b.json"


def test_what_was_written_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "sh", "--gpu", "none", "--out", f"{tmp_path}/neu/"]) == 0
    assert [path.suffix for path in (tmp_path / "neu").iterdir()] == [".sh"]
    replay = Path(__file__).parents[2] / "machines"
    captured = next(path for path in sorted(replay.iterdir()) if path.is_dir())
    main(["doctor", "--replay", str(captured), "--save", f"{tmp_path}/"])
    assert f"wrote the machine to {tmp_path / 'machine.json'}" in capsys.readouterr().err
    assert (tmp_path / "machine.json").is_file()


def test_what_was_assumed_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--gpu", "sm_61"]) == 0
    said = capsys.readouterr().out
    assert said.count("Assumed") == 1 and "x86-64 (--arch)" in said and "Python 3.12 (--python)" in said
    assert main(["plan", "--gpu", "sm_61", "--os", "linux", "--arch", "x86_64", "--python", "3.12"]) == 0
    assert "Assumed" not in capsys.readouterr().out


def rekindle(*argv: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "rekindle", *argv], capture_output=True, text=True, env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("json_", [[], ["--json"]])
def test_an_output_that_is_full_is_no_bug_of_ours(json_: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "rekindle", "plan", "--gpu", "sm_61", *json_],
            stdout=full, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
    assert done.returncode == 1 and "cannot be written" in done.stderr and "bug" not in done.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows has code pages instead of LC_ALL (tests/windows tries them)")
@pytest.mark.skipif(not sys.executable.isascii(), reason="Python itself cannot start from such a folder in ASCII")
def test_the_plainest_terminal_is_understood() -> None:
    done = rekindle("plan", "--gpu", "sm_61", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0", LANG="C")
    assert done.returncode == 0 and done.stdout.isascii() and done.stdout.startswith("+ Install")


@pytest.mark.parametrize("verb", sorted(VERBS))
def test_help_fits_a_narrow_terminal(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    module = importlib.import_module(f"rekindle.cli.{verb}")
    for line in verb_parser(verb, module).format_help().splitlines():
        is_command = line.startswith(("  rekindle ", "  pip ", "  uv "))
        assert len(line) <= 60 or (is_command and "  " not in line.strip()), line


def test_help_moves_a_remark_below_its_command_and_breaks_no_command() -> None:
    text = (
        "One sentence\nover two lines.\n\nexamples:\n"
        "  rekindle plan --gpu 'Tesla K40c'   what runs on it, and why\n  rekindle up   it"
    )
    assert laid_out(text, 40) == (
        "One sentence over two lines.\n\nexamples:\n  rekindle plan --gpu 'Tesla K40c'\n"
        "      what runs on it, and why\n  rekindle up   it"
    )
    assert laid_out("  rekindle plan --gpu 'Tesla K40c' --os windows", 20) == (
        "  rekindle plan --gpu 'Tesla K40c' --os windows"
    )
    below = f"  rekindle up\n{' ' * 30}a remark that stood below already"
    assert laid_out(below, 40) == "  rekindle up\n      a remark that stood below already"
    assert laid_out("a" * 40, 40) == "a" * 40 and laid_out("  " + "a" * 38 + " b", 40) == "  " + "a" * 38 + " b"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_plain_no_is_no_mistake(
    terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def ask(session: Session) -> Answer:
        assert not session.confirm("Remove these?")
        raise Declined("nothing was removed: it needs a yes")

    answer = io.StringIO("n\n")
    monkeypatch.setattr(answer, "isatty", lambda: terminal)
    monkeypatch.setattr(sys, "stdin", answer)
    monkeypatch.setattr(clean, "run", ask)
    code, said = main(["clean"]), capsys.readouterr().err
    if terminal:
        assert (code, said) == (1, "Remove these? [y/N] Nothing was removed.\n")
    else:
        assert code == 2 and "→ answer y, or give --yes where nobody can answer" in said
