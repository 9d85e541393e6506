"""Hostile wheels through every verb that reads one: refused or read within bounds, never "a bug in rekindle"."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import wheels
from canary import in_process, limited

FAST = ("inspect", "index add")


def verbs(wheel: Path, tmp_path: Path) -> dict[str, tuple[str, ...]]:
    return {
        "inspect": ("inspect", str(wheel), "-q"),
        "inspect --quick": ("inspect", str(wheel), "--quick", "-q"),
        "bundle": ("bundle", str(wheel), "--out", str(tmp_path / "out"), "-q"),
        "index add": ("index", "add", str(wheel), "--root", str(tmp_path / "house"), "-q"),
        "verify": ("verify", "--wheel", str(wheel), "-q"),
    }


@pytest.mark.parametrize("kind", wheels.COSTLY)
def test_costly_wheels_cost_little(kind: str, tmp_path: Path) -> None:
    wheel = wheels.write(tmp_path / "in", wheels.COSTLY[kind]())
    for verb, argv in verbs(wheel, tmp_path).items():
        # A real if silly wheel would be installed by verify; and on every push two readers are enough.
        if (verb == "verify" and "zeros" in kind) or not (os.environ.get("REKINDLE_LONG") or verb in FAST):
            continue
        done = limited(*argv)
        assert done.returncode in (0, 1, 2), (verb, done.returncode, done.stderr[-400:])
        assert "Traceback" not in done.stderr and "bug in rekindle" not in done.stderr, (verb, done.stderr[-400:])


@pytest.mark.parametrize("kind", wheels.ODD)
def test_odd_wheels_are_one_line(kind: str, tmp_path: Path) -> None:
    wheel = wheels.write(tmp_path / "in", wheels.ODD[kind]())
    for verb, argv in verbs(wheel, tmp_path).items():
        if verb == "verify":
            continue
        code, said = in_process(*argv)
        assert code in ((0, 1, 2) if verb.startswith("inspect") else (2,)), (verb, code, said[-400:])
        assert "bug in rekindle" not in said, (verb, said[-400:])
        if code == 2:
            assert len(said.strip().splitlines()) <= 2, (verb, said)
    assert not list((tmp_path / "out").glob("*.whl")) if (tmp_path / "out").exists() else True
    assert not list((tmp_path / "house").rglob("*.whl"))


def test_a_fat_wheel_never_carries_them_on(tmp_path: Path) -> None:
    for kind in ("a link", "names one letter's case apart", "a name that climbs", "a file that RECORD leaves out"):
        wheel = wheels.write(tmp_path / "in", wheels.ODD[kind]())
        code, _ = in_process("bundle", str(wheel), "--out", str(tmp_path / "out"), "-q")
        assert code == 2
        assert not list((tmp_path / "out").glob("*")) if (tmp_path / "out").exists() else True
