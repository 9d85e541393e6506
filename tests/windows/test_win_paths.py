r"""Paths and files as only Windows has them: code pages, drives, 260 characters, handles that hold, junctions."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from winworld import ONLY, ask, long_folder, start

from rekindle.host.files import write_atomically

pytestmark = ONLY
Caught = pytest.CaptureFixture[bytes]
PLAN = ("plan", "--gpu", "RTX 3060", "--driver", "570.86", "--python", "3.12")


@pytest.mark.parametrize("page", ["cp437", "cp936", "cp65001"])
def test_every_code_page_gets_its_answer(page: str) -> None:
    done = start(*PLAN, "-v", PYTHONIOENCODING=page)
    text = done.stdout.decode(page)
    assert done.returncode == 0 and "py -3.12 -m pip install" in text, done
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("page", ["cp936"])
def test_json_is_utf8_whatever_the_code_page(page: str, tmp_path: Path) -> None:
    done = start("doctor", "--json", "--workspace", str(tmp_path / "ü 中"), PYTHONIOENCODING=page)
    assert json.loads(done.stdout.decode("utf-8"))["os"]["system"] == "windows"


def test_a_plan_as_powershell_keeps_it(capfdbinary: Caught, tmp_path: Path) -> None:
    plain = ask(capfdbinary, *PLAN, "--json").out
    for name, raw in {
        "utf16": plain.encode("utf-16"),
        "bom": b"\xef\xbb\xbf" + plain.encode(),
        "crlf": plain.replace("\r", "").replace("\n", "\r\n").encode(),
    }.items():
        file = tmp_path / f"{name}.json"
        file.write_bytes(raw)
        assert ask(capfdbinary, "export", "bat", "--plan", str(file)).code == 0, name


def test_deeper_than_260_characters(capfdbinary: Caught, tmp_path: Path) -> None:
    folder = long_folder(tmp_path)
    assert len(str(folder)) > 300
    folder.mkdir(parents=True)
    assert ask(capfdbinary, "export", "bat", "--gpu", "RTX 3060", "--out", str(folder)).code == 0
    assert len(list(folder.glob("*.bat"))) == 1


def test_a_path_relative_to_its_drive(capfdbinary: Caught, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    drive = tmp_path.drive
    assert drive.endswith(":")
    said = ask(capfdbinary, "export", "sh", "--gpu", "RTX 3060", "--os", "linux", "--out", f"{drive}here.sh")
    assert said.code == 0 and (tmp_path / "here.sh").exists(), said


def test_a_path_with_its_prefix(capfdbinary: Caught, tmp_path: Path) -> None:
    said = ask(capfdbinary, "export", "bat", "--gpu", "RTX 3060", "--out", "\\\\?\\" + str(tmp_path / "x.bat"))
    assert said.code == 0 and (tmp_path / "x.bat").exists(), said


def test_a_server_that_is_not_there_is_no_crash(capfdbinary: Caught) -> None:
    said = ask(capfdbinary, "export", "bat", "--gpu", "RTX 3060", "--out", r"\\rekindle-no-such-server\share\x.bat")
    assert said.code == 2 and "cannot write" in said.err, said


def export_once(capfdbinary: Caught, folder: Path) -> tuple[Path, str]:
    """An earlier export, which a new one may replace, and its text."""
    file = folder / "x.bat"
    assert ask(capfdbinary, "export", "bat", "--gpu", "GTX 1080", "--out", str(file)).code == 0
    return file, file.read_text(encoding="utf-8")


def test_a_file_that_is_no_export_is_kept(capfdbinary: Caught, tmp_path: Path) -> None:
    file = tmp_path / "x.bat"
    file.write_text("mine")
    said = ask(capfdbinary, "export", "bat", "--gpu", "RTX 3060", "--out", str(file))
    assert said.code == 2 and "no earlier export" in said.err and file.read_text() == "mine", said


def test_a_read_only_file_is_not_replaced_silently(capfdbinary: Caught, tmp_path: Path) -> None:
    file, earlier = export_once(capfdbinary, tmp_path)
    file.chmod(stat.S_IREAD)
    said = ask(capfdbinary, "export", "bat", "--gpu", "RTX 3060", "--out", str(file))
    assert said.code == 2 and "cannot write" in said.err and file.read_text(encoding="utf-8") == earlier, said
    file.chmod(stat.S_IWRITE)
    assert [path.name for path in tmp_path.iterdir()] == ["x.bat"], "nothing half-written stays"


def test_a_file_held_open_is_said_and_kept(capfdbinary: Caught, tmp_path: Path) -> None:
    file, earlier = export_once(capfdbinary, tmp_path)
    with file.open("rb"):
        said = ask(capfdbinary, "export", "bat", "--gpu", "RTX 3060", "--out", str(file))
        assert said.code == 2 and "cannot write" in said.err, said
    assert file.read_text(encoding="utf-8") == earlier
    assert ask(capfdbinary, "export", "bat", "--gpu", "RTX 3060", "--out", str(file)).code == 0


def test_a_file_held_open_by_another_program(capfdbinary: Caught, tmp_path: Path) -> None:
    file, earlier = export_once(capfdbinary, tmp_path)
    hold = "import sys; held = open(sys.argv[1], 'rb'); print('held', flush=True); sys.stdin.read()"
    words = [sys.executable, "-c", hold, str(file)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None and other.stdout.readline().strip() == b"held"
        said = ask(capfdbinary, "export", "bat", "--gpu", "RTX 3060", "--out", str(file))
        other.communicate(timeout=60)
    assert said.code == 2 and "cannot write" in said.err and file.read_text(encoding="utf-8") == earlier, said
    assert ask(capfdbinary, "export", "bat", "--gpu", "RTX 3060", "--out", str(file)).code == 0


def test_a_file_let_go_in_time_is_replaced(tmp_path: Path) -> None:
    """Virus scanners hold a new file for a moment; that is no failure."""
    import threading

    file = tmp_path / "x.json"
    file.write_text("old")
    held = file.open("rb")
    timer = threading.Timer(0.3, held.close)
    timer.start()
    write_atomically(file, "new")
    timer.join()
    assert file.read_text() == "new"


def test_removal_does_not_walk_through_a_junction(capfdbinary: Caught, tmp_path: Path) -> None:
    import _winapi

    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious.txt").write_text("keep")
    workspace = tmp_path / "ws"
    (workspace / "source").mkdir(parents=True)
    try:
        _winapi.CreateJunction(str(outside), str(workspace / "source" / "spark"))  # type: ignore[attr-defined]
    except OSError as error:
        pytest.skip(f"no junctions here: {error}")
    assert (workspace / "source" / "spark" / "precious.txt").exists()
    ask(capfdbinary, "demo", "--yes", "--clean", "--workspace", str(workspace))
    assert (outside / "precious.txt").read_text() == "keep"


def test_names_differ_by_more_than_case(capfdbinary: Caught, tmp_path: Path) -> None:
    ask(capfdbinary, "doctor", "--save", str(tmp_path / "Machine.JSON"))
    assert ask(capfdbinary, "plan", "--machine", str(tmp_path / "machine.json")).code == 0


def test_this_is_the_windows_the_tests_mean() -> None:
    assert os.name == "nt" and sys.maxsize > 1 << 32
