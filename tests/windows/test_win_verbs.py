"""Every verb under a Windows Python: what it answers there, and what it says where it can go no further."""

from __future__ import annotations

import functools
import hashlib
import http.server
import json
import os
import sys
import tarfile
import threading
from pathlib import Path

import pytest
from winworld import ONLY, ask, start

import tiny_wheels
from binaries import make_pe
from source_mini import make_tree
from spark_stand_in import GOOD

pytestmark = ONLY
ROOT = Path(__file__).resolve().parents[2]
Caught = pytest.CaptureFixture[bytes]


def test_help_of_everything(capfdbinary: Caught) -> None:
    said = ask(capfdbinary, "--help")
    assert said.code == 0 and "rekindle doctor" not in said.err
    verbs = [line.split()[0] for line in said.out.splitlines() if line.startswith("  ") and line[2:3].isalpha()]
    known = [verb for verb in verbs if verb != "rekindle"]
    assert len(known) >= 17
    for verb in known:
        assert "usage: rekindle" in ask(capfdbinary, verb, "--help").out, verb


def test_doctor_finds_the_python_it_runs_under(capfdbinary: Caught) -> None:
    said = ask(capfdbinary, "doctor", "--json")
    found = json.loads(said.out)
    assert found["os"]["system"] == "windows" and found["os"]["arch"] == "x86_64"
    checks = {check["id"]: check for check in found["checks"]}
    assert checks["python"]["status"] == "ok", checks["python"]
    assert any(os.path.samefile(python["path"], sys.executable) for python in found["pythons"])
    assert found["cpu"]["features"] and found["memory_gib"] > 1


def test_doctor_speaks_of_windows(capfdbinary: Caught) -> None:
    text = ask(capfdbinary, "doctor").out
    assert "Visual Studio" in text
    for word in ("gcc", "apt", "package manager", "sudo"):
        assert word not in text, text


def test_plan_for_here_and_for_a_card(capfdbinary: Caught) -> None:
    here = json.loads(ask(capfdbinary, "plan", "--json").out)
    assert here["answer"] == "install" and here["python"] == f"3.{sys.version_info[1]}"
    card = ask(capfdbinary, "plan", "--gpu", "RTX 3060", "--driver", "570.86", "--python", "3.12")
    assert card.code == 0 and "py -3.12 -m pip install" in card.out and "/whl/cu" in card.out


def test_explain_reads_a_log_with_crlf(capfdbinary: Caught, tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    log.write_bytes((ROOT / "tests/logs/msvc-missing.txt").read_bytes().replace(b"\r", b"").replace(b"\n", b"\r\n"))
    assert "msvc-missing" in ask(capfdbinary, "explain", str(log)).out
    utf16 = tmp_path / "powershell.log"
    utf16.write_bytes(log.read_text("utf-8").encode("utf-16"))
    assert "msvc-missing" in ask(capfdbinary, "explain", str(utf16)).out


def test_facts(capfdbinary: Caught) -> None:
    assert "sm_120" in ask(capfdbinary, "facts", "show", "cuda", "12.8").out
    assert ask(capfdbinary, "facts", "sources").code == 0


def test_inspect_and_index_a_wheel(capfdbinary: Caught, tmp_path: Path) -> None:
    wheel = tiny_wheels.make_wheel(tmp_path)
    said = ask(capfdbinary, "inspect", str(wheel), "--json")
    assert json.loads(said.out)["name"], said
    root = tmp_path / "wheel house ü"
    assert ask(capfdbinary, "index", "add", str(wheel), "--root", str(root)).code == 0
    assert ask(capfdbinary, "index", "build", "--root", str(root)).code == 0
    assert list((root / "simple").rglob("index.html"))


def test_inspect_of_a_windows_library(capfdbinary: Caught) -> None:
    said = ask(capfdbinary, "inspect", str(Path(sys.executable).with_name("python3.dll")), "--json")
    assert json.loads(said.out)["cpu"]["arch"] == "x86_64", said


def test_source_rewrite_patch_and_unpatch_without_git(capfdbinary: Caught, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    for name, text in {"CMakeLists.txt": "cmake_minimum_required(VERSION 2.8.12)\r\nproject(x)\r\n"}.items():
        tree.mkdir()
        (tree / name).write_bytes(text.encode())
    said = ask(capfdbinary, "source", "rewrite-cmake", "--root", str(tree))
    assert said.code == 0, said
    assert (tree / "CMakeLists.txt").read_bytes().endswith(b")\r\nproject(x)\r\n"), "line ends are kept"
    assert b"2.8.12" not in (tree / "CMakeLists.txt").read_bytes()


def test_source_fetch_says_what_it_needs(capfdbinary: Caught, tmp_path: Path) -> None:
    said = ask(capfdbinary, "source", "fetch", "--release", "2.6.0", "--source", str(tmp_path / "t"), "--workspace",
               str(tmp_path / "w"), "--from", "git")  # fmt: skip
    assert said.code in (1, 2) and "git" in said.err and "Traceback" not in said.err, said


def test_verify_of_a_wheel_in_a_copy_of_this_python(capfdbinary: Caught, tmp_path: Path) -> None:
    """The embeddable Python has no venv: a copy of it is the environment. Good is proven, wrong is not."""
    for folder, source, code in (("good", GOOD, 0), ("wrong", GOOD + "def dot(x, y): return 1.0\n", 1)):
        home = tmp_path / f"{folder} ü"
        home.mkdir()
        wheel = tiny_wheels.make_wheel(
            home, "spark", "0.3.0", tag="py3-none-any", files={"spark/__init__.py": source.encode()}
        )
        said = ask(capfdbinary, "verify", "--wheel", str(wheel), "--no-deps", "--json")
        assert said.code == code, said
        found = json.loads(said.out)
        assert found["verdict"] == ("failed" if code else "proven"), found
        status = {check["id"]: check["status"] for check in found["checks"]}
        assert status["import.spark"] == "passed" and status["dot"] == ("failed" if code else "passed")


def test_claims_of_a_windows_wheel_are_held_against_its_bytes(capfdbinary: Caught, tmp_path: Path) -> None:
    wheel = tiny_wheels.make_wheel(
        tmp_path, "torch", "2.0.1", tag="cp311-cp311-win_amd64",
        files={"torch/version.py": b"__version__ = '2.0.1'\n",
               "torch/_C.cp311-win_amd64.pyd": make_pe(imports=["KERNEL32.dll", "lost.dll"])},
    )  # fmt: skip
    said = ask(capfdbinary, "verify", "--claims", str(wheel), "--json")
    found = json.loads(said.out)
    assert said.code == 1 and found["verdict"] == "not-proven", "nobody signed it"
    status = {check["id"]: check["status"] for check in found["checks"]}
    assert status["record"] == status["version"] == "passed", found
    said = ask(capfdbinary, "inspect", str(wheel), "--no-cpu")
    assert said.code == 0 and "lost.dll" in said.out, "what nobody brings is told without loading anything"
    assert ask(capfdbinary, "verify", "--claims", str(wheel), "--unsigned").code == 0


def test_source_fetch_of_an_archive_needs_no_git(capfdbinary: Caught, tmp_path: Path) -> None:
    """From a server, checked, unpacked, patched and back: with a link inside, CRLF and a name Windows cannot hold."""
    tree = make_tree(tmp_path / "made")
    (tree / "torch" / "windows.txt").write_bytes(b"one\r\ntwo\r\n")
    for name, extra in {"good": (), "bad": ("torch/aux.h",)}.items():
        with tarfile.open(tmp_path / f"{name}.tar.gz", "w:gz") as tar:
            tar.add(tree, "pytorch-v1.13.0")
            link = tarfile.TarInfo("pytorch-v1.13.0/torch/again.py")
            link.type, link.linkname = tarfile.SYMTYPE, "greeting.py"
            tar.addfile(link)
            for inside in extra:
                tar.addfile(tarfile.TarInfo(f"pytorch-v1.13.0/{inside}"))
    digest = hashlib.sha256((tmp_path / "good.tar.gz").read_bytes()).hexdigest()
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(tmp_path))
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        there = f"http://127.0.0.1:{server.server_address[1]}"
        options = ("source", "fetch", "--workspace", str(tmp_path / "w"), "--no-submodules")
        goal = tmp_path / "a b ü" / "tree"
        said = ask(capfdbinary, *options, "--from", f"{there}/good.tar.gz", "--sha256", digest, "--source", str(goal))
        assert said.code == 0, said
        assert (goal / "torch" / "windows.txt").read_bytes() == b"one\r\ntwo\r\n"
        assert (goal / "torch" / "again.py").read_bytes() == (goal / "torch" / "greeting.py").read_bytes()
        assert "torch 1.13.0" in ask(capfdbinary, "source", "status", "--source", str(goal)).out
        said = ask(
            capfdbinary,
            *options,
            "--from",
            f"{there}/good.tar.gz",
            "--sha256",
            "0" * 64,
            "--source",
            str(tmp_path / "x"),
        )
        assert said.code == 1 and "SHA-256" in said.err and not (tmp_path / "x").exists(), said
        said = ask(capfdbinary, *options, "--from", f"{there}/bad.tar.gz", "--source", str(tmp_path / "y"))
        assert said.code == 2 and "aux.h" in said.err and not (tmp_path / "y").exists(), said
    finally:
        server.shutdown()
        server.server_close()


def test_demo_goes_as_far_as_it_can_and_says_why_not_further(capfdbinary: Caught, tmp_path: Path) -> None:
    cmake = tmp_path / "cmake.bat"
    cmake.write_bytes(b"@echo cmake version 3.31.6\r\n")
    said = ask(capfdbinary, "demo", "--yes", "--cmake", str(cmake), "--workspace", str(tmp_path / "a b ü"))
    assert said.code == 2, said
    assert "patch: fixes for today's tools" in said.err
    assert "Visual Studio" in said.err, said.err
    # The tree it patched, without git: back to what it was.
    tree = tmp_path / "a b ü" / "source" / "spark"
    assert "applied" in ask(capfdbinary, "source", "status", "--source", str(tree)).out
    assert ask(capfdbinary, "source", "unpatch", "--source", str(tree)).code == 0
    assert ": applied" not in ask(capfdbinary, "source", "status", "--source", str(tree)).out


def test_exports(capfdbinary: Caught, tmp_path: Path) -> None:
    folder = tmp_path / "a b ü"
    folder.mkdir()
    for form in ("bat", "ps1"):
        said = ask(capfdbinary, "export", form, "--gpu", "Tesla K40c", "--build", "--out", str(folder))
        assert said.code == 0, said
    written = next(folder.glob("*.bat")).read_bytes()
    assert written.count(b"\n") == written.count(b"\r\n") > 100


def test_a_batch_file_on_stdout_has_crlf_once() -> None:
    out = start("export", "bat", "--gpu", "RTX 5070").stdout
    assert out.count(b"\r\n") == out.count(b"\n") > 20 and b"\r\r" not in out
    assert b"/whl/cu1" in out, "a Windows machine needs the wheel's own index"


def test_a_key_is_made_and_listed(capfdbinary: Caught, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    assert ask(capfdbinary, "key", "new").code == 0
    assert "can sign" in ask(capfdbinary, "key", "list").out and list(tmp_path.rglob("*.pub"))


def test_rest_answers(capfdbinary: Caught, tmp_path: Path) -> None:
    assert ask(capfdbinary, "up", "--yes", "--dry-run", "--workspace", str(tmp_path)).code == 0
    assert ask(capfdbinary, "variant", "env").code in (0, 1)
    verified = ask(capfdbinary, "verify", "--python", sys.executable)
    assert verified.code in (1, 2) and "torch" in verified.out + verified.err, verified
