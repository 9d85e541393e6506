"""Trouble around a verification is one line and exit 2, never a traceback and never a hang."""

from __future__ import annotations

import errno
import sys
import tempfile
from pathlib import Path

import pytest

from rekindle import api
from rekindle.cli import main as front
from rekindle.emulate.qemu import find_emulator
from rekindle.errors import BadInput, Exit, MissingTool
from rekindle.host.files import write_for_user
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.verify.prove import disk_errors


def test_a_full_disk_is_told_with_its_place() -> None:
    with pytest.raises(BadInput) as error, disk_errors():
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/here")
    assert "/tmp/here" in error.value.message and "TMPDIR" in (error.value.remedy or "")


def test_other_errors_stay_bugs() -> None:
    with pytest.raises(OSError, match="strange"), disk_errors():
        raise OSError(errno.EINVAL, "strange")


def test_no_temporary_directory_at_all(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, "No space left on device", "/tmp/x")

    monkeypatch.setattr(tempfile, "mkdtemp", full)
    assert front.main(["verify", "--package", "spark", "--python", sys.executable]) == Exit.USAGE


def test_a_report_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput):
        write_for_user(tmp_path / "file" / "report.json", b"{}")


@pytest.mark.parametrize(
    "argv",
    [
        ["--wheel", "no/such.whl"],
        ["--python", "/no/such/python"],
        ["--python", sys.executable, "--package", "nosuchpackage"],
        ["--cpu", "ivybridge"],
        ["--env", "NONSENSE", "--python", sys.executable],
        ["--compare", "no.json", "such.json"],
        ["--level", "thorough"],
        ["--wheel", "x.whl", "--package", "torch"],
    ],
)
def test_bad_input_is_one_line_and_exit_2(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert front.main(["verify", *argv]) == Exit.USAGE
    err = capsys.readouterr().err
    assert err.startswith("rekindle: ") and "Traceback" not in err


def test_an_interpreter_without_torch_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="has no spark"):
        api.verify(python=sys.executable, package="spark")


class Bare(LiveHost):
    """A Linux machine with no programs."""

    @property
    def system(self) -> str:
        return "linux"

    def which(self, name: str) -> str | None:
        return None


def test_no_emulator_is_named_with_the_command_that_brings_it() -> None:
    with pytest.raises(MissingTool) as error:
        find_emulator(Bare())
    assert "apt install qemu-user" in (error.value.remedy or "")


class Qemu(Bare):
    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}"

    def run(self, argv, *, timeout=5.0, env=None):  # type: ignore[no-untyped-def]
        out = "qemu-x86_64 version 7.2.22 (Debian)\n" if "--version" in argv else "x86 IvyBridge  (alias)\nx86 max\n"
        return Completed(argv=tuple(argv), code=0, out=out)


def test_the_emulator_tells_version_and_models() -> None:
    found = find_emulator(Qemu())
    assert found.version == "7.2.22" and found.models == ("IvyBridge", "max")
