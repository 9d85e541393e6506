"""The Python of an emulated system: the root's own, one that is kept, one from apt, one that uv brings."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from bare_host import BareHost
from binaries import make_elf
from rekindle.emulate import root as roots
from rekindle.emulate.qemu import X86, Emulator
from rekindle.emulate.root import EmulatedPython, compile_ahead, find_emulated_python
from rekindle.emulate.stubs import read_linkage, stub_library, write_stubs
from rekindle.errors import BadInput, MissingTool, Unprepared
from rekindle.host.live import question_text
from rekindle.host.protocol import Completed
from rekindle.model.progress import Silent

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Linux emulates Linux")
QEMU = Emulator(path="/usr/bin/qemu-x86_64", version="7.2", models=())


class Machine(BareHost):
    """``here`` are programs on PATH, ``kept`` the versions uv has; ``ended`` is what every command ends with."""

    def __init__(self, *here: str, kept: Sequence[str] = (), ended: Completed | None = None) -> None:
        super().__init__()
        self.here, self.kept, self.ended = here, list(kept), ended
        self.asked: list[list[str]] = []
        self.brings: str | None = None

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}" if name in self.here else None

    def glob(self, pattern: str) -> tuple[str, ...]:
        return tuple(
            pattern.replace("*-linux", "9-linux").replace("x86_64*", "x86_64")
            for version in self.kept
            if f"/cache/pythons/cpython-{version}.*-linux-x86_64" in pattern
        )

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        self.asked.append(list(argv))
        if self.brings:
            self.kept.append(self.brings)
        return self.ended or Completed(argv=tuple(argv), code=0)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """With the root of an emulated Debian, whose own Python is 3.11."""
    _root(tmp_path / "cache/amd64-root", "3.11")
    return tmp_path / "cache"


def _root(folder: Path, version: str) -> Path:
    (folder / "usr/bin").mkdir(parents=True)
    for name in ("python3", "python3.x", f"python{version}"):
        (folder / "usr/bin" / name).write_text("")
    (folder / ".rekindle-root").write_text("7\n")
    return folder


def _find(host: BareHost, cache: Path, *wanted: tuple[int, int], given: str | None = None) -> EmulatedPython:
    return find_emulated_python(host, QEMU, set(wanted), given=given, cache=cache, progress=Silent())


def test_the_roots_own_is_taken_where_it_is_wanted_or_nothing_is(cache: Path) -> None:
    for wanted in ((), ((3, 11),), ((3, 11), (3, 13))):
        found = _find(Machine(), cache, *wanted)
        assert found.path == cache / "amd64-root/usr/bin/python3.11" and found.version == (3, 11)
        assert found.home == cache / "amd64-root/usr" and found.root == cache / "amd64-root"


def test_one_that_uv_keeps_comes_before_one_from_apt(cache: Path) -> None:
    _root(cache / "amd64-root-3.12", "3.12")
    kept = _find(Machine(kept=["3.12"]), cache, (3, 12))
    assert kept.path.name == "python3.12" and "cpython-3.12.9-linux-x86_64-gnu" in str(kept.path)
    assert kept.version == (3, 12) and kept.home is None and kept.root == cache / "amd64-root"
    apt = _find(Machine(), cache, (3, 12))
    assert apt.path == cache / "amd64-root-3.12/usr/bin/python3.12" and apt.version == (3, 12)


def test_the_newest_that_can_be_had_is_taken(cache: Path) -> None:
    assert _find(Machine(kept=["3.9", "3.10"]), cache, (3, 9), (3, 10)).version == (3, 10)
    assert _find(Machine(kept=["3.9"]), cache, (3, 9), (3, 10)).version == (3, 9)


def test_uv_brings_one_where_nothing_else_has_it(cache: Path) -> None:
    host = Machine("uv")
    host.brings = "3.13"
    assert _find(host, cache, (3, 13)).version == (3, 13)
    name = "cpython-3.13-linux-x86_64-gnu"
    assert host.asked == [["/usr/bin/uv", "python", "install", "--install-dir", str(cache / "pythons"), name]]
    failing = Machine("uv", ended=Completed(argv=(), code=1))
    assert _find(failing, cache, (3, 13)).version == (3, 11), "the root's own, which the caller notices"
    assert _find(Machine(), cache, (3, 13)).version == (3, 11)


def test_a_folder_of_the_users_own_uv_is_looked_into(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class Looking(Machine):
        def glob(self, pattern: str) -> tuple[str, ...]:
            seen.append(pattern)
            return ()

    monkeypatch.setenv("HOME", "/home/me")
    for given in (None, "/uv"):
        monkeypatch.setenv("UV_PYTHON_INSTALL_DIR", given) if given else monkeypatch.delenv(
            "UV_PYTHON_INSTALL_DIR", raising=False
        )
        seen.clear()
        _find(Looking(), cache, (3, 13))
        assert list(dict.fromkeys(pattern.split("/cpython")[0] for pattern in seen)) == [
            str(cache / "pythons"), "/home/me/.local/share/uv/python", *([given] if given else [])
        ]  # fmt: skip
        assert all(pattern.endswith("/bin/python3.13") for pattern in seen)


def _answer(**changes: Any) -> str:
    said = subprocess.run([sys.executable, "-I", "-c", question_text("python")], capture_output=True, check=True)
    return json.dumps(json.loads(said.stdout.splitlines()[-1]) | changes)


def test_a_given_python_is_asked_under_the_emulator(cache: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("")
    host = Machine(ended=Completed(argv=(), code=0, out=_answer(machine="x86_64")))
    found = _find(host, cache, (3, 8), given=str(python))
    assert found.path == python and found.version == sys.version_info[:2] and found.home is None
    assert host.asked[0][:4] == [QEMU.path, "-L", str(cache / "amd64-root"), str(python)]


def test_a_given_python_that_does_not_serve_is_refused(cache: Path, tmp_path: Path) -> None:
    python = tmp_path / "python"
    with pytest.raises(BadInput, match="there is no file"):
        _find(Machine(), cache, given=str(python))
    python.write_text("")
    with pytest.raises(BadInput, match="runs here: second"):
        _find(Machine(ended=Completed(argv=(), code=1, err="first\nsecond\n")), cache, given=str(python))
    for said in (_answer(machine="aarch64"), _answer(machine="arm64")):
        with pytest.raises(BadInput, match="is a Python for a") as refused:
            _find(Machine(ended=Completed(argv=(), code=0, out=said)), cache, given=str(python))
        assert "linux-x86_64-gnu" in (refused.value.remedy or "")


@pytest.mark.parametrize(
    ("ended", "said", "remedy"),
    [
        (Completed(argv=(), code=None, timed_out=True), "no end within 9 s", "is the mirror reachable?"),
        (Completed(argv=(), code=100, out="noise\nE: first\n", err="E: last\n\n"), "E: last", "apt sources"),
        (Completed(argv=(), code=1, out="one\n", err="two\n"), "two", "apt sources"),
        (Completed(argv=(), code=1, out="one\n\n", err="two\n \n\n"), "two", "apt sources"),
        (Completed(argv=(), code=1, err="E: No space left on device"), "No space", "free some disk space"),
    ],
)
def test_a_command_that_fails_says_why(ended: Completed, said: str, remedy: str) -> None:
    with pytest.raises(Unprepared) as failed:
        roots._run_tool(Machine(ended=ended), ["apt-get"], timeout=9.0)
    assert said in str(failed.value) and remedy in (failed.value.remedy or "")
    assert all(line.strip() and line != "noise" for line in failed.value.last_lines)


def test_of_what_a_failed_command_said_the_last_five_lines_are_told() -> None:
    """Errors alone where it marks them, and no blank lines among them."""
    said = "\n\n".join(f"line {number}" for number in range(7)) + "\n\n"
    for out, err, told in (
        (said, "", [f"line {number}" for number in range(2, 7)]),
        (said, "E: one\n\nE: two\n", ["E: one", "E: two"]),
        ("", "", []),
    ):
        with pytest.raises(Unprepared) as failed:
            roots._run_tool(Machine(ended=Completed(argv=(), code=1, out=out, err=err)), ["apt-get"], timeout=9.0)
        assert list(failed.value.last_lines) == told


def test_byte_code_is_made_by_a_python_of_the_same_version(tmp_path: Path) -> None:
    host = Machine("python3.7")
    for version in ((3, 7), sys.version_info[:2], (3, 6)):
        compile_ahead(host, tmp_path, version)
    assert [words[0] for words in host.asked] == ["/usr/bin/python3.7", sys.executable], "nobody has 3.6"
    assert host.asked[0][1:3] == ["-m", "compileall"] and host.asked[0][-1] == str(tmp_path)


def test_packages_without_a_python_make_no_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roots, "_download_packages", lambda *_: [Path("a.deb")])
    monkeypatch.setattr(roots, "_run_tool", lambda host, argv, **_: (Path(argv[-1]) / "usr").mkdir(parents=True))
    with pytest.raises(Unprepared, match="hold no Python"):
        roots.prepare_root(Machine("apt-get", "dpkg-deb"), tmp_path / "deep/cache", Silent())
    with pytest.raises(MissingTool, match="dpkg-deb"):
        roots.prepare_root(Machine("apt-get"), tmp_path / "other", Silent())


def test_the_folders_of_a_root_and_of_an_interpreter(tmp_path: Path) -> None:
    (tmp_path / "py/bin").mkdir(parents=True)
    (tmp_path / "home/lib").mkdir(parents=True)
    alone = EmulatedPython(path=tmp_path / "py/bin/python", version=(3, 11))
    assert alone.places() == [tmp_path / "py/bin"]
    whole = dataclasses.replace(alone, home=tmp_path / "home", root=tmp_path / "root")
    assert whole.places() == [tmp_path / "root", tmp_path / "py/bin", tmp_path / "home/lib"]


# Stand-ins, written where they are missed


def test_only_a_gpus_libraries_get_a_stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "torch"
    package.mkdir()
    (package / "lib.so").write_bytes(b"")
    (package / "link.so").symlink_to("lib.so")
    (package / "folder.so").mkdir()
    seen: list[tuple[list[str], tuple[Path, ...]]] = []

    def missing(libraries: Sequence[Path], places: tuple[Path, ...]) -> dict[str, dict[str, str | None]]:
        seen.append(([path.name for path in libraries], places))
        return {"libcuda.so.1": {"cuInit": None}, "libcurl.so.4": {"curl": None}}

    monkeypatch.setattr("rekindle.emulate.stubs.missing_libraries", missing)
    assert write_stubs(package, tmp_path / "new/stubs", tmp_path / "root", X86) == ["libcuda.so.1"]
    assert [path.name for path in (tmp_path / "new/stubs").iterdir()] == ["libcuda.so.1"]
    assert write_stubs(package, tmp_path / "new/stubs", None, X86) == ["libcuda.so.1"]
    assert [names for names, _ in seen] == [["lib.so"]] * 2
    assert seen[0][1] == X86.library_folders(tmp_path / "root")
    assert seen[1][1] == (*X86.library_folders(Path("/")), Path("/usr/lib"), Path("/lib"))


def test_what_is_no_library_has_no_symbols(tmp_path: Path) -> None:
    (tmp_path / "text.so").write_text("INPUT(x)")
    (tmp_path / "stub.so").write_bytes(stub_library("libx.so.1", {"f": None}))
    assert read_linkage(tmp_path / "text.so") is None and read_linkage(tmp_path / "none.so") is None
    found = read_linkage(tmp_path / "stub.so")
    assert found is not None and found.needed == () and not found.undefined and not found.defined, "it has no sections"
    for name, sections in (("text", {}), ("symbols", {".dynsym": bytes(24)})):
        # A reader of symbols needs both tables: here .dynstr alone, then both and no symbol.
        (tmp_path / name).write_bytes(make_elf(sections, needed=["libc.so.6"]))
        found = read_linkage(tmp_path / name)
        assert found is not None and found.needed == ("libc.so.6",) and not found.undefined and not found.defined
