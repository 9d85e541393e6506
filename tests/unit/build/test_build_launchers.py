"""Caches and farms are set up as launchers; statistics count only this build; disguises leave PATH."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import needs
from bare_host import BareHost
from rekindle.build.launchers import find_launcher, statistics, without_masquerades
from rekindle.errors import MissingTool
from rekindle.host.protocol import Completed


class Machine(BareHost):
    """A machine with some tools, whose ccache counts up each time it is asked."""

    def __init__(self, *tools: str, env: dict[str, str] | None = None, files: bool = False) -> None:
        super().__init__(env=env)
        self.tools = tools
        self.files = files
        self.asked = 0

    def which(self, name: str) -> str | None:
        return f"/bin/{name}" if name in self.tools else None

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        if argv[-1] == "--print-stats":
            self.asked += 1
            return Completed(
                argv=tuple(argv), code=0,
                out=f"direct_cache_hit\t{10 * self.asked}\npreprocessed_cache_hit\t0\ncache_miss\t{5 * self.asked}\n",
            )  # fmt: skip
        if argv[-1] == "-j":
            return Completed(argv=tuple(argv), code=0, out="14\n")
        return Completed(argv=tuple(argv), code=1)

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        return Path(path).read_bytes() if self.files and Path(path).is_file() else None


def test_ccache_launches_every_language_and_is_counted(tmp_path: Path) -> None:
    machine = Machine("ccache")
    launcher = find_launcher(machine, "ccache", {"USE_PRECOMPILED_HEADERS": "1"}, tmp_path, tmp_path)
    assert launcher.env["CMAKE_CUDA_COMPILER_LAUNCHER"] == "/bin/ccache"
    assert "pch_defines" in launcher.env["CCACHE_SLOPPINESS"]
    assert launcher.env["USE_CCACHE"] == "0"
    assert statistics(machine, launcher) == {"launcher": "ccache", "hits": "10", "misses": "5", "hit rate": "67 %"}


def test_distcc_launches_c_only_and_says_how_many(tmp_path: Path) -> None:
    launcher = find_launcher(Machine("distcc"), "distcc", {}, tmp_path, tmp_path)
    assert launcher.jobs == 14
    assert not any("CUDA" in name or "HIP" in name for name in launcher.env)


def test_a_missing_launcher_is_said(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="sccache is not on this machine"):
        find_launcher(Machine(), "sccache", {}, tmp_path, tmp_path)


@needs.posix("links named as compilers")
def test_disguises_leave_the_path(tmp_path: Path) -> None:
    (tmp_path / "ccache").write_text("")
    disguise = tmp_path / "lib"
    disguise.mkdir()
    (disguise / "g++").symlink_to(tmp_path / "ccache")
    path, dropped = without_masquerades(f"/usr/bin:{disguise}:/bin")
    assert path == "/usr/bin:/bin"
    assert dropped == [str(disguise)]


def test_icecc_is_counted_by_its_log(tmp_path: Path) -> None:
    log = tmp_path / "icecc.log"
    machine = Machine("icecc", files=True)
    launcher = find_launcher(machine, "icecc", {"ICECC_LOGFILE": str(log)}, tmp_path, tmp_path)
    assert not any("CUDA" in name for name in launcher.env)
    log.write_text("ICECC[1]: <send compile_file>\nICECC[1]: </send compile_file: 0ms>\nICECC[2]: local\n")
    assert statistics(machine, launcher) == {"launcher": "icecc", "compiled elsewhere": "1"}


def test_hits_are_counted_by_language(tmp_path: Path) -> None:
    machine = Machine("ccache", files=True)
    (tmp_path / "ccache-stats.log").write_text("# /t/old.cpp\ncache_miss\n")
    launcher = find_launcher(machine, "ccache", {}, tmp_path, tmp_path)
    assert not (tmp_path / "ccache-stats.log").exists(), "an earlier build's"
    log = "# /t/a.cpp\ndirect_cache_hit\nlocal_storage_hit\n# /t/a.cpp\ncache_miss\ndirect_cache_miss\n"
    (tmp_path / "ccache-stats.log").write_text(log + "# /t/k.cu\npreprocessed_cache_hit\n# /t/x.f90\ncache_miss\n")
    told = statistics(machine, launcher)
    assert {name: words for name, words in told.items() if name.startswith("hits,")} == {
        "hits, C++": "1 of 2", "hits, CUDA": "1 of 1", "hits, others": "0 of 1",
    }  # fmt: skip
    assert (told["hits"], told["misses"], told["hit rate"]) == ("2", "2", "50 %"), "one sum, of the same log"


def test_sccache_counts_by_language_itself(tmp_path: Path) -> None:
    class Counting(Machine):
        def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
            self.asked += "--show-stats" in argv
            hits = {"C/C++": 3 * self.asked, "CUDA": 1}
            stats = {"cache_hits": {"counts": hits}, "cache_misses": {"counts": {"C/C++": self.asked}}}
            return Completed(argv=tuple(argv), code=0, out=json.dumps({"stats": stats}))

    machine = Counting("sccache")
    told = statistics(machine, find_launcher(machine, "sccache", {}, tmp_path, tmp_path))
    assert (told["hits"], told["misses"], told["hits, C/C++"]) == ("3", "1", "3 of 4")
    assert "hits, CUDA" not in told, "nothing of it was compiled"
