"""How wine is found on each machine, and the way to it on aarch64, tried with stand-ins for what only aarch64 runs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from under_wine import ROOT, find_wine

pytestmark = pytest.mark.integration


def stand_ins(
    folder: Path, *, machine: str = "aarch64", ver: str = "Microsoft Windows 10.0", bootstrap: int = 0
) -> Path:
    """Programs that write down how they were called, for a machine we do not have."""
    folder.mkdir()
    calls = folder.parent / "calls"
    programs = {
        "uname": f"echo {machine}",
        "id": "echo 0",
        "debootstrap": f'echo "debootstrap $*" >>"{calls}"; mkdir -p "$3/etc" "$3/usr/lib/wine"; exit {bootstrap}',
        "chroot": f'echo "chroot $*" >>"{calls}"',
        "mount": f'echo "mount $*" >>"{calls}"',
        "unshare": f'echo "unshare $BOX64_EMULATED_LIBS" >>"{calls}"; echo "{ver}"',
        "timeout": 'shift; exec "$@"',
    }
    for name, text in programs.items():
        (folder / name).write_text(f"#!/bin/sh\n{text}\n")
        (folder / name).chmod(0o755)
    return folder


def prepare(tmp_path: Path, path: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", str(ROOT / "tools" / "box64_wine.sh"), str(tmp_path / "cache" / "box64")],
        env={"PATH": f"{path}:{os.environ['PATH']}", "HOME": str(tmp_path)}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_a_root_is_made_tried_and_found(tmp_path: Path) -> None:
    tools = stand_ins(tmp_path / "bin")
    assert prepare(tmp_path, tools).returncode == 0
    found, _ = find_wine("aarch64", tmp_path / "cache")
    assert found == str(tmp_path / "cache/box64/wine")
    calls = (tmp_path / "calls").read_text()
    server = (tmp_path / "cache" / "box64" / "root" / "usr/lib/wine/wineserver").read_text()
    assert server == '#!/bin/sh\nexec box64 /usr/lib/wine/wineserver64 -p0 "$@"\n'
    assert "box64 wine64:amd64" in calls and "unshare liblzma.so.5:libgnutls.so.30" in calls
    # The second time only the trial: the root is kept.
    (tmp_path / "calls").write_text("")
    prepare(tmp_path, tools)
    assert "debootstrap" not in (tmp_path / "calls").read_text() and find_wine("aarch64", tmp_path / "cache")[0]


def test_what_does_not_start_is_not_used_and_says_why(tmp_path: Path) -> None:
    assert find_wine("aarch64", tmp_path / "cache") == ("", "no wine with box64: .ci/prepare/windows.sh was not run")
    prepare(tmp_path, stand_ins(tmp_path / "bin", ver="Illegal instruction"))
    found, why = find_wine("aarch64", tmp_path / "cache")
    assert not found and "does not start by box64 (it said: Illegal instruction)" in why


def test_a_root_that_cannot_be_made(tmp_path: Path) -> None:
    prepare(tmp_path, stand_ins(tmp_path / "bin", bootstrap=1))
    found, why = find_wine("aarch64", tmp_path / "cache")
    assert not found and "debootstrap failed" in why
    assert not (tmp_path / "cache" / "box64" / "root" / "ready").exists()


def test_other_machines(tmp_path: Path) -> None:
    prepare(tmp_path, stand_ins(tmp_path / "bin", machine="riscv64"))
    assert "this is riscv64" in (tmp_path / "cache/box64/why").read_text()
    assert "this is riscv64" in find_wine("riscv64", tmp_path)[1]


def test_on_x86_wine_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert find_wine("x86_64", tmp_path) == ("", "needs wine on PATH")
    (tmp_path / "wine").write_text("#!/bin/sh\n")
    (tmp_path / "wine").chmod(0o755)
    assert find_wine("x86_64", tmp_path)[0] == str(tmp_path / "wine")
