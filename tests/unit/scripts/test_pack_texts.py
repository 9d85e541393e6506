"""What a pack says and runs by itself: its README, its starter for each system, the program they start."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec
import pytest

from rekindle.model.journey import Package
from rekindle.model.pack import Pack
from rekindle.model.plan import Plan, Reason
from rekindle.scripts import pack_install
from rekindle.scripts.templates import pack_texts

PROGRAM = Path(pack_install.__file__).read_bytes().replace(b"\r\n", b"\n")
PACKAGES = (
    Package(name="torch", version="2.6.0", bytes=2_000_000_000),
    Package(name="numpy", version="2.1.0", bytes=500_000_000),
    Package(name="unmeasured", version="1.0"),
)
PACK = Pack(title="torch 2.6.0 cu124", python="3.11.9", system="linux", arch="x86_64", glibc="2.28", packages=PACKAGES)
PLAN = Plan(answer="install", torch="2.6.0")


def on_windows(pack: Pack) -> Pack:
    return msgspec.structs.replace(pack, system="windows", glibc=None)


@pytest.mark.parametrize(("pack", "name"), [(PACK, "install.sh"), (on_windows(PACK), "install.bat")])
def test_a_pack_is_started_by_a_script_of_its_system(pack: Pack, name: str) -> None:
    texts = pack_texts(pack, PLAN)
    assert set(texts) == {"README.txt", "install.py", name} and texts["install.py"] == PROGRAM
    script = texts[name].decode()
    assert hashlib.sha256(PROGRAM).hexdigest() in script, "it starts this program and no other"
    assert "torch 2.6.0 cu124" in script and "Python 3.11 here" in script and "3.11.9" not in script
    if pack.system == "windows":
        assert script.startswith("@echo off\r\n") and script.count("\r\n") == script.count("\n")
        assert "(3, 11)" in script and "call :try py -3.11\r\n" in script
    else:
        assert script.startswith("#!/bin/sh\n") and "\r" not in script and " python3.11 python3 python;" in script


def test_what_has_no_packages_has_nothing_to_start() -> None:
    texts = pack_texts(msgspec.structs.replace(PACK, packages=()), PLAN)
    assert list(texts) == ["README.txt"] and b"Install (" not in texts["README.txt"]


def test_the_readme_says_what_is_in_it_and_for_whom() -> None:
    text = pack_texts(PACK, PLAN)["README.txt"].decode()
    assert "For: linux on x86_64, Python 3.11.9, glibc 2.28 or newer" in text
    assert "Holds: 3 packages, 2.5 GB" in text and "sh install.sh ~/torch" in text
    assert "glibc" not in pack_texts(on_windows(PACK), PLAN)["README.txt"].decode()
    one = Package(name="unmeasured", version="1.0")
    unmeasured = pack_texts(msgspec.structs.replace(PACK, packages=(one,)), PLAN)["README.txt"].decode()
    assert "Holds: 1 packages, 0 bytes" in unmeasured


def test_the_readme_carries_the_plan_s_words() -> None:
    told = Plan(
        answer="install",
        env={"HSA_OVERRIDE_GFX_VERSION": "10.3.0"},
        because=(Reason(code="x", text="The wheel has code for sm_86."),),
        warnings=(Reason(code="x", text="Slow\nat first."), Reason(code="x", text="Done by us.", handled=True)),
    )
    pack = msgspec.structs.replace(PACK, left_out=("the driver",), notes=("a note",))
    lines = [line.strip() for line in pack_texts(pack, told)["README.txt"].decode().splitlines()]
    assert "HSA_OVERRIDE_GFX_VERSION=10.3.0" in lines
    for head, word in (
        ("Why this one:", "- The wheel has code for sm_86."),
        ("Know before:", "- Slow at first."),
        ("Not in this pack:", "- the driver"),
        ("Notes:", "- a note"),
    ):
        assert lines[lines.index(head) + 1] == word
    assert "- Done by us." not in lines
    assert "Know before:" not in pack_texts(PACK, PLAN)["README.txt"].decode()
