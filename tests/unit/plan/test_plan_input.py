"""Bad input: one line that says what is wrong and how to mend it, exit code 2, no traceback."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rekindle.cli.main import main


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["--gpu", "GeForce RTX 5O70"], "RTX 5070"),
        (["--gpu", "Voodoo 3"], "no GPU called"),
        (["--gpu", "sm_9x"], "no NVIDIA architecture"),
        (["--gpu", "gfx"], "no AMD architecture"),
        (["--gpu", ""], "names no GPU"),
        (["--gpu", "none", "--gpu", "sm_86"], "stands alone"),
        (["--gpu", "10de:ffff"], "no nvidia device"),
        (["--gpu", "sm_86", "--torch", "1.99"], "no torch 1.99"),
        (["--gpu", "sm_86", "--torch", "new"], "version condition"),
        (["--gpu", "sm_86", "--cuda", "12.7"], "there is no CUDA 12.7"),
        (["--gpu", "sm_86", "--cuda", "99.0"], "newer than the facts know"),
        (["--gpu", "sm_86", "--cuda", "twelve"], "version number"),
        (["--gpu", "sm_86", "--cuda", "12.8", "--rocm", "6.4"], "contradict"),
        (["--gpu", "sm_86", "--compiler", "tcc-1"], "gcc-13"),
        (["--gpu", "sm_86", "--python", "three"], "version number"),
        (["--gpu", "sm_86", "--python", "3"], "write it as 3.12"),
        (["--gpu", "sm_86", "--driver", "new"], "version number"),
        (["--gpu", "sm_86", "--memory", "much"], "no size"),
        (["--gpu", "sm_86", "--os", "beos"], "linux, windows or macos"),
        (["--gpu", "sm_86", "--arch", "ia64"], "x86_64 or aarch64"),
        (["--cpu", "ivybridge", "--arch", "aarch64"], "x86_64 CPU"),
        (["--cpu", "ivybrigde"], "ivybridge"),
        (["--os", "windows", "--glibc", "2.17"], "belong to Linux"),
        (["--gpu", "sm_86", "--variant", "kuda"], "flavour"),
        (["--machine", "k40-windows"], "k40c-windows"),
        (["--machine", "no/such/file.json"], "no such file"),
        (["--machine", "k40c-windows", "--gpu", "sm_86"], "whole machine"),
        (["--gpu", "sm_86", "--why-not", "colour=red"], "torch=2.15"),
    ],
)
def test_nonsense_is_answered_in_one_line(argv: list[str], says: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *argv]) == 2
    err = capsys.readouterr().err
    assert says in err and "Traceback" not in err
    assert len(err.strip().splitlines()) <= 2


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"os": 3}', b'{"os": {"system": "linux"}, "gpus": 7}', b"\xff\xfe"]
)
def test_a_corrupt_machine_file_is_named(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "machine ä.json"
    path.write_bytes(content)
    assert main(["plan", "--machine", str(path)]) == 2
    assert "machine ä.json" in capsys.readouterr().err


def test_a_saved_machine_is_planned_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    machine = {
        "schema": 1,
        "os": {"system": "linux", "distro": "ubuntu 22.04", "glibc": "2.35", "arch": "x86_64"},
        "gpus": [{"vendor": "nvidia", "name": "Tesla K40c", "arch": "sm_35", "memory_gib": 11.2, "how": "nvml"}],
        "drivers": {"nvidia": "470.256.02", "amdgpu": None},
    }
    path = tmp_path / "machine.json"
    path.write_text(json.dumps(machine), "utf-8")
    assert main(["plan", "--machine", str(path), "--torch", "2.0.1", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert plan["schema"] == 1 and plan["answer"] == "build" and plan["arch_list"] == ["3.5"]


def test_a_card_no_torch_serves_is_a_no(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--gpu", "GeForce GTX 580", "--json"]) == 1
    plan = json.loads(capsys.readouterr().out)
    assert plan["answer"] == "none" and "sm_20" in plan["because"][0]["text"]
    assert plan["alternatives"][0]["variant"] == "cpu"


def test_why_not_prints_the_refusals(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--gpu", "RTX 5070", "--why-not", "cuda=12.3"]) == 0
    out = capsys.readouterr().out
    assert "R111" in out and "cannot compile for sm_120" in out and "12.8" in out


def test_a_card_newer_than_the_tables_is_cannot_tell(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--gpu", "sm_130", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert not plan["as_asked"] and any("Cannot tell" in warning["text"] for warning in plan["warnings"])


def test_a_cpu_the_table_does_not_know_is_unknown_not_wrong(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--gpu", "none", "--cpu", "Intel Xeon of some kind", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["variant"] == "cpu"


def test_cuda_beside_an_amd_card_is_a_change_with_its_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", "--gpu", "gfx1100", "--cuda", "12.8", "--json"]) == 0
    plan = json.loads(capsys.readouterr().out)
    assert not plan["as_asked"] and plan["rocm"] and plan["changes"][0]["what"] == "cuda"
    assert "NVIDIA" in plan["changes"][0]["why"]
