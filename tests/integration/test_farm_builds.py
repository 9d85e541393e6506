"""Memory, caches and farms for real: a compiler killed once, a budget kept, ccache hits, two distcc daemons."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

import needs
import rekindle.spark
from rekindle.build import build
from rekindle.host.workspace import Workspace
from rekindle.model.build_options import BuildOptions
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.source import SourceTree

pytestmark = [pytest.mark.integration, needs.tool("g++"), pytest.mark.skipif(sys.platform != "linux", reason="Linux")]

OPTIONS = BuildOptions(jobs=2, target="spark_core")


def tree(folder: Path) -> SourceTree:
    root = folder / "spark"
    shutil.copytree(Path(rekindle.spark.__file__).parent / "tree", root)
    return SourceTree(project="spark", version="0.3.0", root=str(root))


def plan(**env: str) -> Plan:
    quick = {"USE_HEAVY": "0", "SPARK_OPS": "4", "CMAKE_POLICY_VERSION_MINIMUM": "3.5"}
    recipe = BuildRecipe(source="spark", env={**quick, **env}, pins={"setuptools": "<74"})
    return Plan(answer="build", project="spark", variant="cpu", build=recipe)


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(tmp_path_factory.mktemp("farm") / "ws")


def test_a_compiler_killed_for_memory_is_retried_alone(tmp_path: Path, workspace: Workspace) -> None:
    """A launcher that dies by SIGKILL the first time it sees one file, as the kernel's killer would have it."""
    killer = tmp_path / "killer.sh"
    killer.write_text(
        f'#!/bin/sh\nonce="{tmp_path}/once"\n'
        'case "$*" in *checksum.cpp.o*) [ -e "$once" ] || { : > "$once"; kill -9 $$; };; esac\nexec "$@"\n'
    )
    killer.chmod(0o755)
    wanted = plan(CMAKE_CXX_COMPILER_LAUNCHER=str(killer))
    result = build(wanted, tree(tmp_path), workspace, python=sys.executable, options=OPTIONS)
    assert len(result.retried) == 1
    assert "checksum.cpp.o" in result.retried[0]
    assert (tmp_path / "once").exists()


def test_the_budget_is_kept(tmp_path: Path, workspace: Workspace) -> None:
    """The first build learns; the second must keep all compilers together below what two of them would take."""
    first = build(plan(), tree(tmp_path / "a"), workspace, python=sys.executable, options=OPTIONS)
    assert first.peak_memory_bytes
    budget = max(first.peak_memory_bytes * 3 // 4, 64 << 20)
    options = replace(OPTIONS, memory=f"{budget}b")
    second = build(plan(), tree(tmp_path / "b"), workspace, python=sys.executable, options=options)
    assert second.memory_budget_bytes == budget
    # One look every quarter second: what starts between two looks may stand a little above.
    assert second.peak_memory_bytes is not None
    assert second.peak_memory_bytes <= budget * 1.15


@needs.tool("ccache")
def test_ccache_hits_the_second_time_in_another_place_too(tmp_path: Path, workspace: Workspace) -> None:
    """An interrupted build goes on where its cache is carried to: other folders, another workspace."""
    options = replace(OPTIONS, launcher="ccache")
    wanted = plan(CCACHE_DIR=str(tmp_path / "cache"))
    first = build(wanted, tree(tmp_path / "a"), workspace, python=sys.executable, options=options)
    assert int(first.launcher["misses"]) > 5
    carried = plan(CCACHE_DIR=str((tmp_path / "cache").rename(tmp_path / "carried")))
    elsewhere = Workspace(tmp_path / "other place" / "ws")
    again = build(carried, tree(tmp_path / "other place"), elsewhere, python=sys.executable, options=options)
    assert again.launcher["hit rate"] == "100 %"
    good, _, every = again.launcher["hits, C++"].partition(" of ")
    assert good == every and int(every) > 5


@needs.tool("sccache")
def test_sccache_hits_the_second_time(tmp_path: Path, workspace: Workspace) -> None:
    """A server of its own: port and folder come from the plan, so nobody's cache is touched."""
    own = {"SCCACHE_DIR": str(tmp_path / "cache"), "SCCACHE_SERVER_PORT": str(_free_port())}
    options = replace(OPTIONS, launcher="sccache")
    try:
        first = build(plan(**own), tree(tmp_path / "a"), workspace, python=sys.executable, options=options)
        again = build(
            plan(**own), SourceTree(project="spark", version="0.3.0", root=str(tmp_path / "a/spark")), workspace,
            python=sys.executable, options=replace(options, clean=True),
        )  # fmt: skip
    finally:
        subprocess.run(["sccache", "--stop-server"], env={**os.environ, **own}, capture_output=True)
    assert int(first.launcher["misses"]) > 5
    assert again.launcher["hit rate"] == "100 %"
    assert int(again.launcher["hits"]) == int(first.launcher["misses"])
    assert any(name.startswith("hits, ") for name in again.launcher)


@needs.tool("distcc", "distccd")
def test_two_distcc_daemons(tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    ports = [_free_port(), _free_port()]
    # The daemon gives up root's rights before it opens its log.
    logs = Path(tempfile.mkdtemp(prefix="rekindle-distcc-"))
    logs.chmod(0o777)
    daemons = [
        subprocess.Popen([
            "distccd", "--no-detach", "--daemon", "--port", str(port), "--listen", "127.0.0.1", "--allow", "127.0.0.1",
            "--jobs", "2", "--log-file", str(logs / f"{port}.log"), "--log-level", "info", "--enable-tcp-insecure",
        ], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        for port in ports
    ]  # fmt: skip
    try:
        for port in ports:
            _wait_for(port)
        monkeypatch.setenv("DISTCC_HOSTS", " ".join(f"127.0.0.1:{port}/2" for port in ports))
        monkeypatch.setenv("DISTCC_FALLBACK", "0")
        options = BuildOptions(target="spark_core", launcher="distcc")
        result = build(plan(), tree(tmp_path), workspace, python=sys.executable, options=options)
    finally:
        for daemon in daemons:
            os.killpg(daemon.pid, 15)
            daemon.wait()
    assert result.launcher["launcher"] == "distcc"
    for port in ports:
        log = (logs / f"{port}.log").read_text()
        assert "COMPILE_OK" in log or "compile from" in log, f"daemon {port} compiled nothing:\n{log[-1500:]}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the daemon never listened")


@needs.tool("ninja")
def test_an_old_ninja_gets_a_fixed_number_of_jobs_and_it_is_said(tmp_path: Path, workspace: Workspace) -> None:
    old = next((path for path in ("/usr/bin/ninja", "/usr/bin/ninja-build") if Path(path).is_file()), None)
    version = subprocess.run([old, "--version"], capture_output=True, text=True).stdout.strip() if old else "99"
    if tuple(map(int, version.split(".")[:2])) >= (1, 13):
        pytest.skip("needs a Ninja older than 1.13 in /usr/bin")
    options = replace(OPTIONS, ninja=old, target="spark_ember")
    result = build(plan(), tree(tmp_path), workspace, python=sys.executable, options=options)
    assert any(f"Ninja {version} knows no jobserver" in note for note in result.notes)


LIAR = """#!/bin/sh
[ "$1" = --version ] && echo sccache 0.16.0 && exit
if [ "$SCCACHE_START_SERVER" = 1 ]; then : > "$SCCACHE_SERVER_UDS"
  while [ -e "$SCCACHE_SERVER_UDS" ]; do sleep 0.05; done; exit; fi
case "$1" in
  --stop-server) rm -f "$SCCACHE_SERVER_UDS"; exit ;;
  --dist-status) echo '{"SchedulerStatus":["http://x",{"num_servers":1,"num_cpus":2,"in_progress":0}]}'; exit ;;
  --show-stats) echo '{"stats":{"cache_hits":{"counts":{}},"cache_misses":{"counts":{}}}}'; exit ;;
esac
"$@" || exit $?
[ -n "$SCCACHE_RECACHE" ] && exit
while [ $# -gt 1 ] && [ "$1" != -o ]; do shift; done
case "$2" in *.cpp.o) objcopy --set-section-flags .text=alloc,code --add-symbol lie=.text:0 "$2" ;; esac
"""


@needs.tool("objcopy")
def test_a_farm_that_lies_is_found_and_all_it_made_is_made_again(
    tmp_path: Path, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Real compilers behind an sccache whose objects have a symbol too many, and which tells not who made them."""
    monkeypatch.setattr("rekindle.toolkits.sccache._find_beside_python", lambda program: str(tmp_path / "sccache"))
    (tmp_path / "sccache").write_text(LIAR)
    (tmp_path / "sccache").chmod(0o755)
    farm = tmp_path / "farm"
    farm.mkdir()
    (farm / "farm.toml").write_text('scheduler = "http://127.0.0.1:9"\n')
    (farm / "client.conf").write_text("")
    alone, farmed = tree(tmp_path / "alone"), tree(tmp_path / "farmed")
    build(plan(), alone, workspace, python=sys.executable, options=replace(OPTIONS, clean=True))
    trace = tmp_path / "trace.json"
    options = replace(OPTIONS, jobs=None, farm=str(farm), farm_check=1, trace=trace)
    result = build(plan(), farmed, workspace, python=sys.executable, options=options)
    assert result.farm is not None and result.farm.wrong[0].address == "unknown" and result.farm.redone >= 5
    assert result.farm.compilers and any("made again here" in note for note in result.notes)
    objects = [sorted(Path(one.root, "build").rglob("*.cpp.o")) for one in (alone, farmed)]
    assert [path.read_bytes() for path in objects[0]] == [path.read_bytes() for path in objects[1]] and objects[0]
    assert b"compile" in trace.read_bytes() and b".cpp.o" in trace.read_bytes()
