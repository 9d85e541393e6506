"""The program that a pack brings along: what it holds against SHA256SUMS, what it starts, and how it goes on after a
failure. It runs inside the tests; only the programs that it would start are stand-ins."""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import needs
from rekindle.scripts import pack_install
from rekindle.scripts.pack_install import (
    BEGUN,
    SIGNATURE,
    SUMS,
    NotInstalled,
    listed_in,
    main,
    problems_of,
    refuse_other_machine,
)

MOST_LISTED = 16 << 20
HERE = {
    "title": "torch 2.6.0 (cu124).",
    "python": ".".join(map(str, sys.version_info[:3])),
    "system": {"win32": "windows"}.get(sys.platform, sys.platform),
    "arch": {"amd64": "x86_64", "arm64": "aarch64"}.get(platform.machine().lower(), platform.machine().lower()),
    "proof": "import torch",
}


class Programs:
    """Stands for what is started: what each was asked; it ends with the codes in turn, then with 0."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.asked: list[list[str]] = []
        self.env: dict[str, str] = {}

    def __call__(self, argv: list[str], env: dict[str, str]) -> int:
        self.asked.append(argv)
        self.env = env
        return self.codes.pop(0) if self.codes else 0


def seal(folder: Path) -> None:
    """Write SHA256SUMS over what lies there."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name not in (SUMS, SIGNATURE))
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder).as_posix()}" for path in files
    ]
    (folder / SUMS).write_bytes("".join(f"{line}\n" for line in lines).encode())


def make_pack(folder: Path, **more: Any) -> Path:
    (folder / "wheels").mkdir(parents=True)
    for name in ("pip-24.0-py3-none-any.whl", "pip-24.1-py3-none-any.whl", "torch-2.6.0-py3-none-any.whl"):
        (folder / "wheels" / name).write_bytes(name.encode())
    (folder / "requirements.txt").write_text("torch==2.6.0 --hash=sha256:0\n", "utf-8")
    (folder / "constraints.txt").write_text("torch==2.6.0\n", "utf-8")
    (folder / "pack.json").write_text(json.dumps({**HERE, **more}), "utf-8")
    seal(folder)
    return folder


@pytest.fixture
def pack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = make_pack(tmp_path / "a pack")
    lies_in(folder, monkeypatch)
    return folder


def lies_in(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pack_install, "__file__", str(folder / "install.py"))


def start(monkeypatch: pytest.MonkeyPatch, *codes: int) -> Programs:
    programs = Programs(*codes)
    monkeypatch.setattr(subprocess, "call", programs)
    return programs


def test_an_install_makes_an_environment_fills_it_and_tries_it(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PIP_INDEX_URL", "pip_proxy", "PYTHONPATH", "PythonHome"):
        monkeypatch.setenv(name, "of this machine")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/of/this/machine")
    programs, into = start(monkeypatch), tmp_path / "deep" / "env"
    assert main([str(into)]) == 0
    made, installed, tried = programs.asked
    python = installed[0]
    assert made == [sys.executable, "-I", "-m", "venv", "--without-pip", str(into)]
    assert Path(python).relative_to(into).parts in (("bin", "python"), ("Scripts", "python.exe"))
    assert installed[1:3] == ["-I", "-c"] and installed[4] == str(pack / "wheels" / "pip-24.1-py3-none-any.whl")
    assert installed[5] == "install"
    for word in ("--no-index", "--no-deps", "--require-hashes", "--no-input", "--no-cache-dir"):
        assert word in installed
    for option, value in (("--find-links", pack / "wheels"), ("-r", pack / "requirements.txt")):
        assert installed[installed.index(option) + 1] == str(value)
    assert "--target" not in installed
    assert tried == [python, "-I", "-c", "import torch"]
    assert [path.name for path in into.iterdir()] == ["constraints.txt"], "and no mark of an unfinished one"
    assert (into / "constraints.txt").read_bytes() == (pack / "constraints.txt").read_bytes()
    upper = {name.upper() for name in programs.env}
    assert not upper & {"PIP_INDEX_URL", "PIP_PROXY", "PYTHONPATH", "PYTHONHOME"}
    assert programs.env["PIP_CONFIG_FILE"] == os.devnull and programs.env["LD_LIBRARY_PATH"] == "/of/this/machine"
    said = capsys.readouterr().out.splitlines()
    assert said == [
        f"checking every file of {pack}",
        f"installing {HERE['title']} into {into}",
        "trying it on the processor",
        f"done: {python}",
    ]


@pytest.mark.parametrize(
    ("codes", "why"),
    [
        ((3,), "this Python cannot make an environment"),
        ((0, 3), "pip could not install"),
        ((0, 0, 3), "it is installed, but it does not work"),
    ],
)
def test_a_step_that_fails_is_named_and_the_same_command_begins_anew(
    codes: tuple[int, ...],
    why: str,
    pack: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    programs, into = start(monkeypatch, *codes), tmp_path / "env"
    assert main([str(into)]) == 1 and len(programs.asked) == len(codes)
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"NOT INSTALLED: {why} (exit code 3); the same command begins anew"
    assert (into / BEGUN).is_file()
    (into / "half").write_bytes(b"of what was installed")
    assert main([str(into)]) == 0
    assert [path.name for path in into.iterdir()] == ["constraints.txt"]


def test_a_program_that_cannot_be_started_is_a_failed_step(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(argv: list[str], env: dict[str, str]) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(subprocess, "call", refused)
    assert main([str(tmp_path / "env")]) == 1
    assert "NOT INSTALLED: Permission denied; the same command begins anew" in capsys.readouterr().out

    def unsaid(argv: list[str], env: dict[str, str]) -> int:
        raise OSError("a disk without words")

    monkeypatch.setattr(subprocess, "call", unsaid)
    assert main([str(tmp_path / "env")]) == 1
    assert "NOT INSTALLED: a disk without words; the same" in capsys.readouterr().out


def test_what_stands_in_the_way_stays_as_it_is(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs = start(monkeypatch)
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "thesis").write_bytes(b"work of years")
    (tmp_path / "file").write_bytes(b"of theirs")
    for into in (theirs, tmp_path / "file"):
        assert main([str(into)]) == 2
        assert f"NOT INSTALLED: {into} is there already" in capsys.readouterr().out
    assert main([str(tmp_path / "file" / "below")]) == 2
    assert f"cannot write {tmp_path / 'file' / 'below'}: " in capsys.readouterr().out
    assert not programs.asked
    assert (theirs / "thesis").read_bytes() == b"work of years" and (tmp_path / "file").read_bytes() == b"of theirs"
    (tmp_path / "empty").mkdir()
    assert main([str(tmp_path / "empty")]) == 0


def test_nothing_begins_where_a_file_differs_and_a_check_is_only_a_check(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    programs, into = start(monkeypatch), tmp_path / "env"
    assert main([str(into), "--check"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["every file is unchanged"]
    (pack / "requirements.txt").write_text("something else\n", "utf-8")
    for words in ([str(into)], [str(into), "--check"]):
        assert main(words) == 2
        said = capsys.readouterr().out.splitlines()[1:]
        assert said == ["NOT INSTALLED: requirements.txt was changed. Copy the pack again."]
    assert not programs.asked and not into.exists()


@pytest.mark.parametrize("count", [7, 8, 9])
def test_eight_problems_are_told_and_that_there_are_more(
    count: int, pack: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(count):
        (pack / f"foreign-{number}").write_bytes(b"")
    assert main(["--check"]) == 2
    said = capsys.readouterr().out.splitlines()[-1]
    assert said.count("is not of this pack") == min(count, 8) and ("; ..." in said) == (count > 8)


@pytest.mark.parametrize(("words", "proof"), [(["--skip-proof"], "import torch"), ([], ""), ([], None)])
def test_a_proof_can_be_left_out(
    words: list[str], proof: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lies_in(make_pack(tmp_path / "p", proof=proof), monkeypatch)
    programs = start(monkeypatch)
    assert main([str(tmp_path / "env"), *words]) == 0 and len(programs.asked) == 2


@pytest.mark.parametrize(
    ("title", "name"), [(HERE["title"], "torch-2.6.0-cu124"), ("!!!", "torch"), ("a/../b", "a-..-b")]
)
def test_without_a_name_the_folder_is_called_after_the_title(
    title: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lies_in(make_pack(tmp_path / "p", title=title), monkeypatch)
    start(monkeypatch)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    assert main([]) == 0 and [path.name for path in (tmp_path / "work").iterdir()] == [name]


@pytest.mark.parametrize("change", [{"python": "2.7.18"}, {"python": "3"}, {"system": "plan9"}, {"arch": "riscv64"}])
def test_a_pack_of_another_machine_is_refused(
    change: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lies_in(make_pack(tmp_path / "p", **change), monkeypatch)
    programs = start(monkeypatch)
    assert main([str(tmp_path / "env")]) == 2
    (value,) = change.values()
    said = capsys.readouterr().out
    assert "NOT INSTALLED: this is " in said and "the pack is for " in said and value in said
    assert not programs.asked and not (tmp_path / "env").exists()


@pytest.mark.parametrize(
    ("system", "machine", "named"),
    [
        ("win32", "AMD64", ("windows", "x86_64")),
        ("linux", "x86_64", ("linux", "x86_64")),
        ("win32", "ARM64", ("windows", "aarch64")),
        ("linux", "aarch64", ("linux", "aarch64")),
    ],
)
def test_machines_are_called_alike_on_every_system(
    system: str, machine: str, named: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    described = {**HERE, "system": named[0], "arch": named[1]}
    monkeypatch.setattr(pack_install, "platform", SimpleNamespace(machine=lambda: machine))
    monkeypatch.setattr(
        pack_install, "sys", SimpleNamespace(platform=system, version_info=sys.version_info, stdout=sys.stdout)
    )
    refuse_other_machine(described)
    with pytest.raises(NotInstalled, match=f"this is {named[0]} on {named[1]}; the pack is for {named[0]} on other"):
        refuse_other_machine({**described, "arch": "other"})


def test_a_terminal_without_letters_gets_question_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lies_in(make_pack(tmp_path / "päck Ł"), monkeypatch)
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")
    for stream, shown in ((io.StringIO(), "p?ck ?"), (latin, "päck ?")):
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            assert main(["--check"]) == 0
        stream.seek(0)
        assert stream.readline().endswith(f"{shown}\n")


def windows(monkeypatch: pytest.MonkeyPatch, python: Path) -> None:
    """Let the program believe that it runs on Windows, by this Python."""
    monkeypatch.setattr(pack_install, "os", SimpleNamespace(**{**vars(os), "name": "nt"}))
    monkeypatch.setattr(sys, "executable", str(python))


def test_on_windows_an_environment_has_its_python_elsewhere(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    windows(monkeypatch, tmp_path / "python.exe")
    programs, into = start(monkeypatch), tmp_path / "env"
    assert main([str(into)]) == 0
    assert [Path(words[0]) for words in programs.asked] == [
        tmp_path / "python.exe", into / "Scripts" / "python.exe", into / "Scripts" / "python.exe",
    ]  # fmt: skip


def test_an_embedded_python_of_windows_is_copied(pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no venv; what it needs to find its packages stands in a file beside it."""
    library = f"python{sys.version_info[0]}{sys.version_info[1]}"
    own = tmp_path / "embedded"
    (own / "sub").mkdir(parents=True)
    for name in ("python.exe", f"{library}.zip", f"{library}._pth", "vcruntime140.dll"):
        (own / name).write_bytes(name.encode())
    programs, into = start(monkeypatch), tmp_path / "env"
    windows(monkeypatch, own / "python.exe")
    assert main([str(into)]) == 0
    installed, tried = programs.asked
    assert installed[0] == tried[0] == str(into / "python.exe")
    site = into / "Lib" / "site-packages"
    assert site.is_dir() and installed[-2:] == ["--target", str(site)]
    names = {path.name for path in into.iterdir() if path.is_file()}
    assert names == {"python.exe", f"{library}.zip", f"{library}._pth", "vcruntime140.dll", "constraints.txt"}
    assert (into / "vcruntime140.dll").read_bytes() == b"vcruntime140.dll" and not (into / "sub").exists()
    found = (into / f"{library}._pth").read_text("utf-8").splitlines()
    assert found == [f"{library}.zip", ".", "Lib\\site-packages", "import site"]
    # An interrupted one is begun anew over what it left.
    (into / BEGUN).write_bytes(b"")
    assert main([str(into)]) == 0


def test_an_embedded_python_is_looked_for_on_windows_alone(
    pack: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = f"python{sys.version_info[0]}{sys.version_info[1]}"
    (tmp_path / f"{library}.zip").write_bytes(b"")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    programs = start(monkeypatch)
    assert main([str(tmp_path / "env")]) == 0
    assert programs.asked[0][2:4] == ["-m", "venv"] or os.name == "nt"


def test_a_pack_as_it_was_made_has_no_problem(pack: Path) -> None:
    assert problems_of(pack) == []
    (pack / SIGNATURE).write_bytes(b"{}")
    assert problems_of(pack) == [], "its signature is not in its own sums"


def test_every_problem_is_told_by_its_name(pack: Path) -> None:
    (pack / "wheels" / "foreign\n.whl").write_bytes(b"")
    (pack / "requirements.txt").unlink()
    (pack / "constraints.txt").unlink()
    (pack / "constraints.txt").mkdir()
    (pack / "pack.json").write_bytes(b"{}")
    assert sorted(problems_of(pack)) == [
        "constraints.txt is missing",
        "pack.json was changed",
        "requirements.txt is missing",
        "wheels/foreign?.whl is not of this pack",
    ]


@needs.links()
def test_links_are_not_followed(pack: Path, tmp_path: Path) -> None:
    """Neither to a file that would be right nor to a folder."""
    shutil.move(pack / "pack.json", tmp_path / "pack.json")
    (pack / "pack.json").symlink_to(tmp_path / "pack.json")
    (pack / "more").symlink_to(tmp_path, target_is_directory=True)
    assert sorted(problems_of(pack)) == [
        "more is a link, and a pack has none",
        "pack.json is a link, and a pack has none",
        "pack.json is missing",
    ]


@needs.posix("a pipe")
def test_what_is_no_plain_file_is_told(pack: Path) -> None:
    os.mkfifo(pack / "wheels" / "pipe")
    assert problems_of(pack) == ["wheels/pipe is no plain file"]


@pytest.mark.parametrize(("attributes", "wrong"), [(0x400, True), (0x410, True), (0x20, False), (0x1, False)])
def test_a_junction_of_windows_is_a_link(
    attributes: int, wrong: bool, pack: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Scanned:
        def __init__(self, folder: Path) -> None:
            self.folder = folder

        def __enter__(self) -> Iterator[Any]:
            for path in self.folder.iterdir():
                mode = stat.S_IFDIR if path.is_dir() else stat.S_IFREG
                state = SimpleNamespace(st_mode=mode, st_file_attributes=attributes if path.is_dir() else 0x20)
                yield SimpleNamespace(
                    name=path.name, is_symlink=lambda: False, stat=lambda follow_symlinks, state=state: state
                )

        def __exit__(self, *error: object) -> None: ...

    monkeypatch.setattr(pack_install, "os", SimpleNamespace(**{**vars(os), "scandir": Scanned}))
    assert ("wheels is a link, and a pack has none" in problems_of(pack)) == wrong


def test_a_file_that_cannot_be_read_is_a_problem(pack: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = pack_install.sha256_of

    def of(path: Path) -> str:
        if path.name == "pack.json":
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(pack_install, "sha256_of", of)
    assert problems_of(pack) == ["pack.json cannot be read: Permission denied"]


def test_a_large_file_is_read_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "large"
    for content in (b"", b"x", b"ab" * (1 << 20) + b"end"):
        path.write_bytes(content)
        assert pack_install.sha256_of(path) == hashlib.sha256(content).hexdigest()


def test_without_sums_it_is_no_pack(tmp_path: Path) -> None:
    assert problems_of(tmp_path) == [f"there is no {SUMS}: the pack is not finished, or part of it is missing"]
    (tmp_path / SUMS).mkdir()
    (told,) = problems_of(tmp_path)
    assert told.startswith(f"{SUMS} cannot be used: ")


SUM = "0" * 64
TWO = f"{SUM}  wheels/a.whl\n{SUM}  b\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "cut short"),
        (TWO[:-1], "cut short"),
        (TWO + "\n", "names no file of a pack"),
        (f"{SUM} a\n", "names no file of a pack: 000"),
        (f"{SUM[1:]}  a\n", "names no file"),
        (f"{'A' * 64}  a\n", "names no file"),
        *((f"{SUM}  {name}\n", "names no file") for name in ("/a", "a//b", "a/", ".", "./a", "..", "a/../b", "a/..")),
        *((f"{SUM}  {name}\n", "names no file") for name in ("C:a", "a\\b", "a.", "a ", "a /b", "a./b", "x" * 1001)),
        (f"{TWO}{SUM}  B\n", "a file is named twice: B"),
        (f"{TWO}{SUM}  b\n", "a file is named twice: b"),
        (f"{SUM}  {SUMS}\n", "a file is named twice"),
        (f"{SUM}  {SIGNATURE.upper()}\n", "a file is named twice"),
    ],
)
def test_sums_that_could_mean_anything_else_are_refused(text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / SUMS).write_bytes(text.encode())
    with pytest.raises(ValueError, match=told):
        listed_in(tmp_path)
    (problem,) = problems_of(tmp_path)
    assert problem.startswith(f"{SUMS} cannot be used: ") and told in problem


def test_sums_are_read_as_they_are(tmp_path: Path) -> None:
    names = ("wheels/a.whl", "b", "ü", ".hidden", "a b", "x" * 1000)
    (tmp_path / SUMS).write_bytes("".join(f"{number:064x}  {name}\n" for number, name in enumerate(names)).encode())
    assert listed_in(tmp_path) == {name: f"{number:064x}" for number, name in enumerate(names)}


def test_sums_are_read_with_a_bound(tmp_path: Path) -> None:
    for size, told in ((MOST_LISTED, "names no file"), (MOST_LISTED + 1, "far too long")):
        (tmp_path / SUMS).write_bytes(b"x" * (size - 1) + b"\n")
        with pytest.raises(ValueError, match=told) as refused:
            listed_in(tmp_path)
        shown = str(refused.value).partition("of a pack: ")[2]
        assert shown == ("x" * 120 if size == MOST_LISTED else "")
