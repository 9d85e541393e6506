"""The verbs as scripts use them: one JSON document, the promised exit codes, one-line errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from binaries import make_elf, make_entry, make_fatbin
from rekindle.cli.main import main
from tiny_wheels import make_wheel


def _json(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, dict[str, object]]:
    code = main([*argv, "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_add_build_search_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(tmp_path / "house")
    cuda = make_elf({".nv_fatbin": make_fatbin([make_entry(2, 35), make_entry(2, 50)])})
    files = {"torch/__init__.py": b"", "torch/lib/libtorch_cuda.so": cuda}
    wheel = make_wheel(tmp_path, "torch", "2.0.1+k", tag="cp310-cp310-linux_x86_64", files=files)
    code, added = _json(capsys, "index", "add", str(wheel), "--root", root)
    assert code == 0 and added["schema"] == 1 and added["wheels"][0]["state"] == "added"  # type: ignore[index]
    code, built = _json(capsys, "index", "build", "--root", root)
    assert code == 0 and built["wheels"] == 1
    code, found = _json(capsys, "index", "search", "--root", root, "--gpu", "Tesla K40c", "--os", "linux")
    assert code == 0 and found["matches"][0]["verdict"]["runs"] is True  # type: ignore[index]
    code, found = _json(capsys, "index", "search", "--root", root, "--gpu", "sm_86")
    assert code == 1 and not found["matches"] and found["refused"]
    code, found = _json(capsys, "index", "search", "--root", root, "--os", "windows")
    assert code == 1
    code, yanked = _json(capsys, "index", "yank", wheel.name, "--root", root, "--reason", "old")
    assert code == 0 and yanked["yanked"] == "old"


@pytest.mark.parametrize(
    "argv",
    [
        ["index", "add", "x.whl"], ["index", "add", "--root", "r"], ["index", "build", "--root", "/nonexistent/house"],
        ["index", "search", "--root", "/nonexistent/house"], ["index", "build", "extra", "--root", "r"],
        ["index", "page"], ["index", "nonsense"], ["bundle", "/nonexistent.whl"], ["bundle"],
        ["index", "search", "--root", "r", "--gpu", "no such card at all"],
    ],
)  # fmt: skip
def test_bad_usage_is_exit_2_in_one_line(argv: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(argv) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err and err.startswith("rekindle: ")


def test_the_views_say_the_verdict_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    root = str(tmp_path / "house")
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    assert main(["index", "add", str(wheel), "--root", root, "-q"]) == 0
    assert capsys.readouterr().out.startswith("✓ 1 wheel in")
    assert main(["index", "build", "--root", root, "-q"]) == 0
    assert "pip install --index-url" in capsys.readouterr().out
    assert main(["index", "search", "--root", root, "-q"]) == 0
    assert "tiny-1.0-py3-none-any.whl" in capsys.readouterr().out


def test_bundle_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    libraries = tmp_path / "libs"
    libraries.mkdir()
    (libraries / "libcudart.so.12").write_bytes(make_elf(soname="libcudart.so.12", rpath="$ORIGIN"))
    files = {"torch/__init__.py": b"", "torch/lib/libtorch.so": make_elf(needed=["libcudart.so.12"], rpath="$ORIGIN")}
    wheel = make_wheel(tmp_path, "torch", "2.6.0", tag="cp311-cp311-linux_x86_64", files=files)
    argv = ("bundle", str(wheel), "--library-path", str(libraries), "--out", str(tmp_path / "out"))
    code, planned = _json(capsys, *argv, "--dry-run")
    assert code == 0 and planned["out"] is None and len(planned["brought"]) == 1  # type: ignore[arg-type]
    code, made = _json(capsys, *argv)
    assert code == 0 and Path(str(made["out"])).is_file() and made["bytes_after"]
    assert main([*argv, "-q", "-v"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("✓ 1 libraries inside") and "NVIDIA" in out and "Biggest parts" in out
    lost = {"torch/__init__.py": b"", "torch/lib/libtorch.so": make_elf(needed=["libnowhere.so.9"])}
    other = make_wheel(tmp_path / "b", "torch", "2.6.0", tag="cp311-cp311-linux_x86_64", files=lost)
    assert main(["bundle", str(other), "-q"]) == 1, "a library that is nowhere is a no"
    assert main(["bundle", str(wheel), "--archs", "nonsense"]) == 2
