"""A farm under a build: what is said once, and who is named."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from bare_host import BareHost
from rekindle.build.farm import (
    FarmWork,
    count_rows,
    opened_cache,
    opened_farm,
    remove_objects,
    without_farm,
)
from rekindle.build.governor import Governor
from rekindle.build.history import History, ObjectCosts
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.model.build_options import BuildOptions
from rekindle.model.farm import (
    DistrustedWorker,
    Farm,
    FarmCompilation,
    FarmCounts,
    FarmFolder,
    FarmStatus,
    FarmWorker,
)
from rekindle.toolkits.programs import Tool
from rekindle.toolkits.sccache import SccacheClient

posix = pytest.mark.skipif(os.name == "nt", reason="shell scripts stand before compilers on POSIX alone")
FARM = Farm(scheduler="http://10.0.0.1:10600", workers=(FarmWorker(name="attic", address="10.0.0.2:10501"),))


class Client:
    """sccache's answers, to be changed by the test."""

    def __init__(self) -> None:
        self.now = FarmStatus(scheduler="s", servers=2, slots=12)
        self.counted: FarmCounts | None = FarmCounts()
        self.asked = 0

    def status(self, host: object) -> FarmStatus:
        return self.now

    def counts(self, host: object) -> FarmCounts | None:
        self.asked += 1
        return self.counted


def farm_work(tmp_path: Path, log: str = "", *, client: Client | None = None) -> FarmWork:
    folder = tmp_path / "scratch"
    folder.mkdir(exist_ok=True)
    (tmp_path / "sccache.log").write_text(log)
    used = cast(SccacheClient, client or Client())
    return FarmWork(BareHost(), FarmFolder(tmp_path / "farm"), FARM, used, folder, tmp_path / "sccache.log")


def test_jobs_follow_the_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.build.launchers.cores", lambda: 2)
    client, governor = Client(), SimpleNamespace(max_jobs=1)
    work = farm_work(tmp_path, client=client)
    work.governor = cast(Governor, governor)
    work.look()
    assert governor.max_jobs == 15 and not list(work.news())
    client.now = FarmStatus(scheduler="s", servers=1, slots=4)
    work.look()
    assert governor.max_jobs == 6 and (work.servers, work.slots) == (2, 12)
    (work.folder / "stop").touch()
    work.look()
    assert governor.max_jobs == 2


def test_the_next_compilation_waits_at_each_worker() -> None:
    """Else a worker has nothing to do while its builder preprocesses."""
    assert FarmStatus(servers=4, slots=4).room == 8
    assert FarmStatus(servers=2, slots=32).room == 38
    assert FarmStatus().room == 0


def test_giants_that_do_not_fit_a_worker_stay_home(tmp_path: Path) -> None:
    work = farm_work(tmp_path)
    learnt = ObjectCosts(History(objects={"x.cpp.o": (13 << 30, 60.0), "small.cpp.o": (11 << 30, 60.0)}))
    work.keep_home(learnt)
    assert not work.lines("home"), "nobody knows what workers have"
    workers = (FarmWorker(name="a", address="a:1", memory_gib=16), FarmWorker(name="b", address="b:1", memory_gib=64))
    work.farm = Farm(scheduler="http://10.0.0.1:10600", workers=workers)
    work.keep_home(learnt)
    assert work.lines("home") == ["x.cpp.o"]
    assert list(work.news()) == ["too large for a worker's memory, so compiled here: 1 of the objects"]


def test_that_no_worker_is_left_is_said_once(tmp_path: Path) -> None:
    client = Client()
    client.now = FarmStatus(scheduler="s", why="enabled, not connected")
    work = farm_work(tmp_path, client=client)
    work.look()
    work.look()
    assert list(work.news()) == ["the farm has no worker now (enabled, not connected): compiling here until one comes"]
    client.now = FarmStatus(servers=1, slots=1)
    work.look()
    client.now = FarmStatus()
    work.look()
    assert list(work.news()) == ["the farm has no worker now: compiling here until one comes"]


@pytest.mark.parametrize(("undone", "done", "stops"), [(19, 0, False), (20, 0, True), (20, 1, False)])
def test_a_farm_that_does_nothing_is_left_alone(tmp_path: Path, undone: int, done: int, stops: bool) -> None:
    client = Client()
    client.counted = FarmCounts(returned=undone, remote={"a": done} if done else {})
    work = farm_work(tmp_path, client=client)
    work.look()
    assert work.stopped is stops and len(list(work.news())) == stops


def test_a_refusal_is_told_with_its_reason(tmp_path: Path) -> None:
    work = farm_work(tmp_path)
    (work.folder / "failed").write_text("a.o\thttp error status: 401\n" * 20)
    work.look()
    assert work.stopped and "none was done (http error status: 401)" in next(work.news())


def test_counts_that_do_not_come_stay(tmp_path: Path) -> None:
    client = Client()
    client.counted = FarmCounts(compiled=3)
    work = farm_work(tmp_path, client=client)
    work.look()
    client.counted = None
    work.look()
    assert work.counts.compiled == 3


def test_after_the_end_nothing_is_asked(tmp_path: Path) -> None:
    client = Client()
    work = farm_work(tmp_path, client=client)
    work.start()
    client.counted = FarmCounts(compiled=7)
    work.end()
    asked = client.asked
    work.end()
    work.compilations()
    assert client.asked == asked and work.counts.compiled == 7


def log_of(*rows: tuple[str, str, dict[str, int]]) -> str:
    """sccache's log: each object, what became of it, and who had been counted when that was written."""
    lines = []
    missed = 0
    for name, result, remote in rows:
        lines.append(f"[2026-11-18T02:02:05Z DEBUG sccache::server] [{name}]: compile result: {result}")
        if result == "cache miss":
            missed += 1
            counts, who = json.dumps({"C/C++": missed}), json.dumps(remote)
            lines.append(
                "[2026-11-18T02:02:05Z DEBUG sccache::server] stats after compile result: ServerStats { "
                f"cache_misses: PerLanguageCount {{ counts: {counts}, adv_counts: {{}} }}, "
                f"dist_compiles: {who}, dist_errors: 0, multi_level: None }}"
            )
    return "\n".join(lines) + "\n"


ATTIC, CELLAR = "10.0.0.2:10501", "10.0.0.3:10501"
LOG = log_of(
    ("a.o", "cache miss", {}),
    ("b.o", "cache miss", {ATTIC: 1}),
    ("c.o", "cache miss", {ATTIC: 1, CELLAR: 1}),
    ("old.o", "cache hit", {}),
    ("d.o", "cache miss", {ATTIC: 1, CELLAR: 1}),
)


def counted() -> Client:
    client = Client()
    client.counted = FarmCounts(remote={ATTIC: 2, CELLAR: 1})
    return client


def test_who_compiled_what_is_read_between_the_lines(tmp_path: Path) -> None:
    found = {one.object: one.where for one in farm_work(tmp_path, LOG, client=counted()).compilations()}
    assert found == {"a.o": ATTIC, "b.o": CELLAR, "c.o": "", "old.o": "", "d.o": ATTIC}


def test_a_liars_objects_are_suspect_and_no_others(tmp_path: Path) -> None:
    work = farm_work(tmp_path, LOG, client=counted())
    assert work.suspects() == ([], set())
    (work.folder / "wrong").write_text("dir/a.o\n")
    named, names = work.suspects()
    assert [(one.address, one.object) for one in named] == [(ATTIC, "dir/a.o")] and names == {"a.o", "d.o"}


def test_where_the_cache_lied_all_that_is_not_ours_is_suspect(tmp_path: Path) -> None:
    work = farm_work(tmp_path, LOG, client=counted())
    (work.folder / "wrong").write_text("dir/old.o\n")
    named, names = work.suspects()
    assert named[0].address == "the cache" and names == {"a.o", "b.o", "old.o", "d.o"}
    (work.folder / "wrong").write_text("dir/never-seen.o\n")
    assert work.suspects()[0][0].address == "unknown"
    (tmp_path / "sccache.log").write_text("")
    assert work.suspects()[1] is None


def test_liars_are_written_down_once_and_the_unknown_not(tmp_path: Path) -> None:
    work = farm_work(tmp_path)
    for address in (ATTIC, "unknown", ATTIC, CELLAR):
        work.distrust([DistrustedWorker(address=address, object="a.o", date="today")])
    kept = json.loads(work.place.distrusted.read_text())
    assert [one["address"] for one in kept["workers"]] == [ATTIC, CELLAR]


def test_rows_by_language_and_place() -> None:
    rows = count_rows(
        [
            FarmCompilation(object="a.o", result="cache miss", language="C/C++", where=ATTIC),
            FarmCompilation(object="b.o", result="cache miss", language="C/C++", where=ATTIC),
            FarmCompilation(object="c.cu.o", result="cache hit"),
            FarmCompilation(object="d.o", result="compile failed", where=CELLAR),
            FarmCompilation(object="e.ptx", result="not cached", where=None),
            FarmCompilation(object="f.o", result="cache miss", language="C/C++"),
        ],
        FARM,
    )
    assert [(row.language, row.where, row.objects, row.failed) for row in rows] == [
        ("C/C++", "attic", 2, 0),
        ("C/C++", CELLAR, 1, 1),
        ("C/C++", "here", 1, 0),
        ("CUDA", "cache", 1, 0),
        ("others", "unknown", 1, 0),
    ]


def test_the_report_has_it_all(tmp_path: Path) -> None:
    work = farm_work(tmp_path, LOG, client=counted())
    work.look()
    for name in ("failed", "checked", "unsteady"):
        (work.folder / name).write_text(f"{name}.o\n")
    use = work.use({"/usr/bin/c++": "ab"})
    assert (use.scheduler, use.servers, use.slots) == (FARM.scheduler, 2, 12)
    assert (use.failed, use.checked, use.unsteady, use.redone) == (1, 1, ("unsteady.o",), 0)
    assert use.compilers == {"/usr/bin/c++": "ab"} and use.counts.elsewhere == 3
    assert [(row.where, row.objects) for row in use.rows] == [("attic", 2), (CELLAR, 1), ("cache", 1), ("here", 1)]


def test_objects_are_removed_by_name_wherever_they_lie(tmp_path: Path) -> None:
    log = ["# ninja log v6"]
    for number, name in enumerate(("x/a.o", "y/a.o", "b.o", "k.cu.o")):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
        log.append(f"{number}\t{number + 5}\t0\t{name}\tabc{number}")
    (tmp_path / ".ninja_log").write_text("\n".join(log) + "\n")
    assert remove_objects(tmp_path, {"a.o"}) == ["x/a.o", "y/a.o"]
    assert not (tmp_path / "x/a.o").exists() and (tmp_path / "b.o").exists() and (tmp_path / "k.cu.o").exists()
    assert remove_objects(tmp_path, {"k.compute_80.ptx"}) == ["k.cu.o"] and (tmp_path / "b.o").exists()
    assert (
        set(remove_objects(tmp_path, None)) == {"x/a.o", "y/a.o", "b.o", "k.cu.o"} and not (tmp_path / "b.o").exists()
    )


def test_a_configuration_without_the_farm_keeps_the_cache(tmp_path: Path) -> None:
    conf = tmp_path / "client.conf"
    conf.write_text(
        '[dist]\nscheduler_url = "http://s"\n[dist.auth]\ntype = "token"\ntoken = "t"\n[cache.disk]\ndir = "/c"\n'
    )
    copy = without_farm(conf, tmp_path)
    assert "token" not in copy.read_text() and 'dir = "/c"' in copy.read_text()
    assert os.name == "nt" or copy.stat().st_mode & 0o077 == 0


class Sccache(LiveHost):
    """An sccache that runs (a stand-in script), on a machine without others."""

    def __init__(self, folder: Path) -> None:
        self.program = folder / "sccache"
        self.program.write_text(
            "#!/bin/sh\n"
            '[ "$1" = --version ] && echo sccache 0.16.0 && exit\n'
            'if [ "$SCCACHE_START_SERVER" = 1 ]; then cat "$SCCACHE_CONF" > "$0.conf"; : > "$SCCACHE_SERVER_UDS"\n'
            '  while [ -e "$SCCACHE_SERVER_UDS" ]; do sleep 0.02; done; exit; fi\n'
            'case "$1" in --stop-server) rm -f "$SCCACHE_SERVER_UDS" ;;\n'
            """--dist-status) echo '{"SchedulerStatus":["http://s","""
            + '{"num_servers":1,"num_cpus":8,"in_progress":0}'
            """]}' ;;\n"""
            """*) echo '{"stats":{"cache_hits":{"counts":{}},"cache_misses":{"counts":{}}}}' ;; esac\n"""
        )
        self.program.chmod(0o755)

    def which_all(self, name: str) -> tuple[str, ...]:
        return (str(self.program),)


@pytest.fixture
def a_farm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "farm"
    folder.mkdir()
    (folder / "farm.toml").write_text('scheduler = "http://10.0.0.1:10600"\n')
    (folder / "client.conf").write_text('[dist]\nscheduler_url = "http://10.0.0.1:10600"\n[cache.disk]\ndir = "/c"\n')
    monkeypatch.setattr("rekindle.toolkits.sccache._find_beside_python", lambda program: None)
    monkeypatch.setattr("rekindle.build.launchers.cores", lambda: 2)
    return folder


@posix
def test_a_farm_is_a_launcher_with_jobs_and_scripts(a_farm: Path, tmp_path: Path) -> None:
    host, options = Sccache(tmp_path), BuildOptions(farm=str(a_farm), farm_check=7)
    with opened_farm(host, options, {"SCCACHE_LOG": "x"}, tmp_path, tmp_path) as (launcher, work, first):
        assert work is not None and launcher.jobs == 11 and "1 workers with 8 slots" in first
        assert launcher.env["CMAKE_CUDA_COMPILER_LAUNCHER"] == str(host.program)
        assert launcher.env["SCCACHE_BASEDIRS"] == str(tmp_path) and launcher.env["SCCACHE_LOG"] == "x"
        assert Path(launcher.private["REKINDLE_FARM_BUILD"]).is_dir() and "SCCACHE_SERVER_UDS" not in launcher.env
        assert "every=7" in launcher.scripts["launch"] and "every=0" in launcher.scripts["launch-gpu"]
        assert "dist" in host.program.with_suffix(".conf").read_text()
        with opened_cache(work) as (cache, env):
            assert (
                env["SCCACHE_RECACHE"] == "1" and env["REKINDLE_FARM_BUILD"] != launcher.private["REKINDLE_FARM_BUILD"]
            )
            assert env["SCCACHE_SERVER_UDS"] != launcher.private["SCCACHE_SERVER_UDS"] and cache.pid is not None
            assert "dist" not in host.program.with_suffix(".conf").read_text()
    assert not Path(launcher.private["REKINDLE_FARM_BUILD"]).exists()


@posix
def test_by_itself_one_in_fifty_is_compared(a_farm: Path, tmp_path: Path) -> None:
    with opened_farm(Sccache(tmp_path), BuildOptions(farm=str(a_farm)), {}, tmp_path, tmp_path) as (launcher, _, _):
        assert "every=50" in launcher.scripts["launch"]


@posix
def test_a_farm_with_a_liar_is_not_used(a_farm: Path, tmp_path: Path) -> None:
    (a_farm / "distrusted.json").write_text(
        '{"schema":1,"workers":[{"address":"10.0.0.9:10501","object":"a.o","date":"2026-11-18"}]}'
    )
    host = Sccache(tmp_path)
    with opened_farm(host, BuildOptions(farm=str(a_farm)), {}, tmp_path, tmp_path) as (launcher, work, first):
        assert work is None and launcher.jobs is None and not launcher.scripts
        assert "10.0.0.9:10501 (2026-11-18) returned other bytes" in first and "distrusted.json" in first
        assert "dist" not in host.program.with_suffix(".conf").read_text()


def test_a_folder_that_is_no_farm_is_refused(a_farm: Path, tmp_path: Path) -> None:
    def opened(folder: Path) -> None:
        with opened_farm(LiveHost(), BuildOptions(farm=str(folder)), {}, tmp_path, tmp_path):
            raise AssertionError("there is no farm")

    with pytest.raises(BadInput, match="there is no farm in"):
        opened(tmp_path / "elsewhere")
    (a_farm / "client.conf").unlink()
    with pytest.raises(BadInput, match=r"no client\.conf"):
        opened(a_farm)
    (a_farm / "farm.toml").write_text("scheduler = 3\n")
    with pytest.raises(BadInput, match="is no farm"):
        opened(a_farm)


def test_options_that_cannot_be_meant_are_refused() -> None:
    BuildOptions(farm="", launcher="sccache", farm_check=0).check()
    with pytest.raises(BadInput, match="a farm is sccache's, not ccache's"):
        BuildOptions(farm="", launcher="ccache").check()
    with pytest.raises(BadInput, match="--farm-check"):
        BuildOptions(farm="", farm_check=-1).check()


def test_the_same_names_everywhere() -> None:
    """Whoever asks sccache's server finds the tool it was started with."""
    tool = Tool(name="sccache", path="/x/sccache", version="0.16.0")

    class Asked(BareHost):
        def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
            assert argv[0] == "/x/sccache" and env == {"SCCACHE_SERVER_UDS": "s"}
            return Completed(argv=tuple(argv), code=1, err="no\nanswer\n")

    client: Any = SccacheClient(tool=tool, env={"SCCACHE_SERVER_UDS": "s"})
    assert client.status(Asked()).why == "answer" and client.counts(Asked()) is None


def test_a_worker_of_unknown_memory_is_not_asked_how_much_it_has(tmp_path: Path) -> None:
    work = farm_work(tmp_path)
    workers = (FarmWorker(name="a", address="a:1"), FarmWorker(name="b", address="b:1", memory_gib=16))
    work.farm = Farm(scheduler="http://10.0.0.1:10600", workers=workers)
    sizes = {"at.cpp.o": (12 << 30, 1.0), "above.cpp.o": ((12 << 30) + 1, 1.0)}
    work.keep_home(ObjectCosts(History(objects=sizes)))
    assert work.lines("home") == ["above.cpp.o"], "three quarters of the smallest worker's memory"


def test_a_farm_can_end_before_it_is_looked_at_and_looks_no_more_afterwards(tmp_path: Path) -> None:
    farm_work(tmp_path).end()
    work = farm_work(tmp_path)
    work.start()
    work.end()
    assert not work._thread.is_alive()


def test_a_lost_log_tells_of_no_compilations(tmp_path: Path) -> None:
    work = farm_work(tmp_path, LOG, client=counted())
    (tmp_path / "sccache.log").unlink()
    assert work.compilations() == []


def test_a_farm_begins_with_nothing_done(tmp_path: Path) -> None:
    work = farm_work(tmp_path)
    assert (work.servers, work.slots, work.redone, work.wrong, work.governor) == (0, 0, 0, (), None)
    assert not work.stopped and list(work.news()) == []


def test_of_all_that_is_made_again_only_objects_are_removed(tmp_path: Path) -> None:
    names = ("a.o", "b.obj", "lib.so", "generated.h")
    for name in names:
        (tmp_path / name).touch()
    rows = "".join(f"0\t{number}\t0\t{name}\tabc{number}\n" for number, name in enumerate(names, 1))
    (tmp_path / ".ninja_log").write_text(f"# ninja log v6\n{rows}")
    assert remove_objects(tmp_path, None) == ["a.o", "b.obj"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [".ninja_log", "generated.h", "lib.so"]


@posix
def test_the_cache_alone_keeps_the_trees_place_out_as_the_farm_did(a_farm: Path, tmp_path: Path) -> None:
    host = Sccache(tmp_path)
    with opened_farm(host, BuildOptions(farm=str(a_farm)), {"SCCACHE_ODD": "1"}, tmp_path, tmp_path) as (_, work, _):
        assert work is not None
        with opened_cache(work) as (_, env):
            assert env["SCCACHE_BASEDIRS"] == str(tmp_path) and "SCCACHE_ODD" not in env
