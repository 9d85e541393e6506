"""The workspace: its lock, and files that are never half written."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rekindle.errors import BadInput, WorkspaceBusy
from rekindle.host.files import write_atomically
from rekindle.host.workspace import Workspace


def test_second_run_is_told_who_holds_it(tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from rekindle.host.workspace import Workspace\n"
        "with Workspace(Path(sys.argv[1])).lock('build'):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    other = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert other.stdout is not None
        assert other.stdout.readline().strip() == "held"
        with (
            pytest.raises(WorkspaceBusy, match=rf"process {other.pid} \(build\)"),
            Workspace(tmp_path).lock("demo"),
        ):
            pass
    finally:
        other.kill()
        other.communicate()
    # The holder was killed without a chance to tidy up: the lock is free all the same.
    with Workspace(tmp_path).lock("demo"):
        pass


def test_a_file_in_the_way_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(BadInput, match="workspace"), Workspace(tmp_path / "file").lock("demo"):
        pass


def test_a_failed_write_leaves_the_old_content(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "a b" / "ü.json"
    write_atomically(target, "old")

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError):
        write_atomically(target, "new")
    assert target.read_text() == "old"
    assert [p.name for p in target.parent.iterdir()] == ["ü.json"]
