"""Caches and farms are set up as launchers; statistics count only this build; disguises leave PATH."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

import needs
from bare_host import BareHost
from rekindle.build.launchers import (
    behind_one_name,
    count_from_here,
    find_launcher,
    opened_launcher,
    statistics,
    without_masquerades,
)
from rekindle.errors import MissingTool
from rekindle.host.live import LiveHost
from rekindle.host.processes import cores
from rekindle.host.protocol import Completed
from rekindle.model.build_options import BuildOptions


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
    launcher = count_from_here(machine, find_launcher(machine, "ccache", {}, tmp_path, tmp_path))
    assert not (tmp_path / "ccache-stats.log").exists(), "an earlier build's, and what CMake tried"
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


@pytest.mark.skipif(os.name == "nt", reason="scripts stand before compilers on POSIX alone")
def test_one_name_whatever_stands_behind_it(tmp_path: Path) -> None:
    """Commands name the same script with a launcher, without one, and with a farm's."""
    bare = behind_one_name({}, tmp_path)
    names = {language: bare[f"CMAKE_{language}_COMPILER_LAUNCHER"] for language in ("C", "CXX", "CUDA", "HIP")}
    assert names["C"] == names["CXX"] == str(tmp_path / "launch") and names["CUDA"] == str(tmp_path / "launch-gpu")
    assert 'exec "$@"' in (tmp_path / "launch").read_text() and os.access(tmp_path / "launch", os.X_OK)
    cached = behind_one_name({"CMAKE_CXX_COMPILER_LAUNCHER": "/my tools/ccache", "USE_CCACHE": "0"}, tmp_path)
    assert cached == bare | {"USE_CCACHE": "0"}
    assert "exec '/my tools/ccache' \"$@\"" in (tmp_path / "launch").read_text()
    assert behind_one_name({}, tmp_path, {"launch": "#!/bin/sh\nfarm\n"}) == bare
    assert (tmp_path / "launch").read_text() == "#!/bin/sh\nfarm\n" and "exec" in (tmp_path / "launch-gpu").read_text()


class NewSccache(LiveHost):
    """A machine whose sccache is new enough to have a server of its own; a stand-in script."""

    def __init__(self, folder: Path, slots: int) -> None:
        self.program = folder / "sccache"
        status = f'{{"SchedulerStatus":["s",{{"num_servers":1,"num_cpus":{slots},"in_progress":0}}]}}'
        self.program.write_text(
            '#!/bin/sh\n[ "$1" = --version ] && echo sccache 0.16.0 && exit\n'
            'if [ "$SCCACHE_START_SERVER" = 1 ]; then : > "$SCCACHE_SERVER_UDS"\n'
            '  while [ -e "$SCCACHE_SERVER_UDS" ]; do sleep 0.02; done; exit; fi\n'
            f'case "$1" in --stop-server) rm -f "$SCCACHE_SERVER_UDS" ;; --dist-status) echo \'{status}\' ;;\n'
            """*) echo '{"stats":{"cache_hits":{"counts":{"C/C++":3}},"""
            """"cache_misses":{"counts":{"C/C++":1}}}}' ;; esac\n"""
        )
        self.program.chmod(0o755)

    def which(self, name: str) -> str | None:
        return str(self.program) if name == "sccache" else None


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands in for the program")
@pytest.mark.parametrize(("slots", "more"), [(0, None), (6, 6 + 1)])
def test_sccache_asks_its_own_farm_for_slots(tmp_path: Path, slots: int, more: int | None) -> None:
    host = NewSccache(tmp_path, slots)
    options = BuildOptions(launcher="sccache")
    with opened_launcher(host, options, {"SCCACHE_DIR": "/c", "CC": "x"}, tmp_path, tmp_path) as launcher:
        assert launcher is not None and launcher.client is not None
        assert launcher.jobs == (None if more is None else more + max(1, cores() - 1))
        assert launcher.env["SCCACHE_DIR"] == "/c" and launcher.env["CMAKE_HIP_COMPILER_LAUNCHER"] == launcher.path
        assert "CC" not in launcher.env and "SCCACHE_SERVER_UDS" in launcher.private
        told = statistics(host, launcher)
        assert (told["hits"], told["misses"], told["hits, C/C++"]) == ("3", "1", "3 of 4")
    assert not Path(launcher.private["SCCACHE_SERVER_UDS"]).exists()


def test_without_a_launcher_there_is_none(tmp_path: Path) -> None:
    with opened_launcher(Machine(), BuildOptions(), {}, tmp_path, tmp_path) as launcher:
        assert launcher is None
    with (
        pytest.raises(MissingTool, match="sccache is not on this machine"),
        opened_launcher(Machine(), BuildOptions(launcher="sccache"), {}, tmp_path, tmp_path),
    ):
        raise AssertionError("there is none")
