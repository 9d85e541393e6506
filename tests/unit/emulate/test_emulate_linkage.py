"""Which libraries nobody provides, and what they must have; how apt brings an empty system's packages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.emulate import root, stubs
from rekindle.emulate.qemu import X86
from rekindle.emulate.stubs import Linkage, missing_libraries
from rekindle.errors import Unprepared
from rekindle.host.protocol import Completed

Wanted = tuple[str, str | None, str | None]


def linkage(needed: Sequence[str] = (), wanted: Sequence[Wanted] = (), defined: Sequence[str] = ()) -> Linkage:
    return Linkage(needed=tuple(needed), undefined=frozenset(wanted), defined=frozenset(defined))


def missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, **files: Linkage) -> dict[str, dict[str, str | None]]:
    known = {f"{name}.so": value for name, value in files.items()}
    monkeypatch.setattr(stubs, "read_linkage", lambda path: known.get(path.name))
    return missing_libraries([tmp_path / f"{name}.so" for name in files if name != "system"], [tmp_path / "lib"])


def test_only_libraries_that_nobody_has_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/system.so").write_text("")
    torch = linkage(["own.so", "system.so", "libcuda.so.1"], [("cuInit", "libcuda.so.1", "V1"), ("own", None, None)])
    own, system = linkage(defined=["own"]), linkage()
    found = missing(monkeypatch, tmp_path, torch=torch, own=own, system=system)
    assert found == {"libcuda.so.1": {"cuInit": "V1"}}
    assert missing(monkeypatch, tmp_path, torch=linkage(["own.so"]), own=own) == {}


def test_what_is_bound_to_no_library_goes_to_the_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    torch = linkage(["b.so.1", "a.so.1"], [("free", None, None), ("bound", "b.so.1", None)])
    found = missing(monkeypatch, tmp_path, torch=torch)
    assert found == {"a.so.1": {"free": None}, "b.so.1": {"bound": None}}


def test_what_the_system_defines_is_asked_of_no_stand_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    for name in ("system.so", "own.so"):
        (tmp_path / "lib" / name).write_text("")
    wanted: list[Wanted] = [("strlen", None, None), ("Py_Main", None, None), ("_Py_Dealloc", None, None)]
    torch = linkage(["own.so", "system.so", "libcuda.so.1"], [*wanted, ("cuInit", None, None)])
    system, own = linkage(defined=["strlen"]), linkage()
    found = missing(monkeypatch, tmp_path, torch=torch, own=own, system=system)
    assert found == {"libcuda.so.1": {"cuInit": None}}, "strlen is the system's, the others are the interpreter's"


class Apt(BareHost):
    def __init__(self, *debs: str) -> None:
        super().__init__()
        self.debs = debs
        self.asked: list[str] = []

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        self.asked.append(" ".join(argv))
        config = Path((env or {})["APT_CONFIG"])
        assert "@" not in config.read_text() and X86.debian in config.read_text()
        if "install" in argv:
            for name in self.debs:
                (config.parent / "cache/archives" / name).write_text("")
        return Completed(argv=tuple(argv), code=0)


def test_packages_of_an_empty_system_come_by_apt(tmp_path: Path) -> None:
    host = Apt("b.deb", "a.deb", "note.txt")
    found = root._download_packages(host, tmp_path, "python3.11", X86)
    assert [path.name for path in found] == ["a.deb", "b.deb"] and (tmp_path / "state/status").exists()
    assert host.asked[0].endswith("update") and "--download-only python3.11" in host.asked[1]


def test_no_packages_is_said(tmp_path: Path) -> None:
    with pytest.raises(Unprepared, match="apt brought no packages"):
        root._download_packages(Apt(), tmp_path, "python3.11", X86)
