"""Entering and leaving a farm without starting anything: who is meant, what is written, what ssh is told."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rekindle import api
from rekindle.errors import BadInput, CommandFailed, NeedsInvitation, StageFailed
from rekindle.farm import addresses
from rekindle.farm import folder as conf
from rekindle.farm import scheduler as schedulers
from rekindle.farm import worker as workers
from rekindle.farm.daemons import Daemon
from rekindle.farm.folder import FarmSecrets, InvitationText
from rekindle.farm.worker import WorkerPlace, add_worker, call_by_ssh, end_worker, place_of, worker_places
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Disk, Memory
from rekindle.model.document import encode
from rekindle.model.farm import Farm, FarmFolder, FarmJoin, FarmWorker
from rekindle.model.machine import Check
from rekindle.model.progress import Silent
from rekindle.toolkits.sccache import load_farm

HIDDEN = FarmSecrets(server_key="AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8", client_token="the-client-token")
AT, A, B = "127.0.0.1:10600", "127.0.0.1:10501", "127.0.0.1:10502"


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is checked, started or ended here, unless a test says so."""
    monkeypatch.setattr(workers, "check_worker", lambda *_: ())
    monkeypatch.setattr(workers, "start_words", lambda host: [])
    monkeypatch.setattr(Daemon, "find", lambda self: None)
    monkeypatch.setattr(Daemon, "end", lambda self: False)


@pytest.fixture
def ours(folder: FarmFolder) -> FarmFolder:
    """The folder of a scheduler, as ``farm up`` writes it."""
    conf.write_files(conf.scheduler_files(folder, Farm(scheduler=f"http://{AT}"), AT, HIDDEN))
    return folder


def joined_before(folder: FarmFolder, *addresses: str) -> None:
    """The folder of a machine whose workers were here before."""
    conf.write_files({folder.table: conf.farm_text(Farm(scheduler=f"http://{AT}"))})
    for address in addresses:
        text = InvitationText(scheduler=f"http://{AT}", token=f"token of {address}", machine="m", address=address)
        settings = conf.server_text(text, scratch=folder.root / "scratch", bubblewrap="bwrap", cache_bytes=1)
        conf.write_files({place_of(folder, address).daemon.conf: settings})


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The words that servers were started with; each greets the scheduler at once."""
    calls: list[list[str]] = []

    def bring_up(self: Daemon, words: list[str], *_: object, **_more: object) -> int:
        calls.append([Path(words[0]).name, *words[1:]])
        return 4711

    monkeypatch.setattr(Daemon, "bring_up", bring_up)
    return calls


def test_the_first_free_port_of_twenty_is_taken(ours: FarmFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    for free, port in ((10501, 10501), (10520, 10520), (10521, 10501)):
        monkeypatch.setattr(workers, "is_free", lambda place, free=free: place == f"127.0.0.1:{free}")
        assert api.farm_join(dry_run=True).address == f"127.0.0.1:{port}"


def test_the_worker_that_runs_here_is_meant_before_a_free_port(
    ours: FarmFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "is_free", lambda place: True)
    running = place_of(ours, B).daemon.note
    monkeypatch.setattr(Daemon, "find", lambda self: 77 if self.note == running else None)
    found = api.farm_join()
    assert (found.state, found.address, found.pid) == ("running", B, 77)
    assert not found.checks and not ours.root.joinpath("workers").exists(), "nothing is checked or written again"


def test_a_worker_that_was_here_before_needs_no_line(folder: FarmFolder) -> None:
    joined_before(folder, A, B)
    assert api.farm_join(dry_run=True).address == A
    assert api.farm_join(dry_run=True, address=B).address == B
    with pytest.raises(NeedsInvitation, match="no keys of a farm"):
        api.farm_join(dry_run=True, address="127.0.0.1:10503")
    place_of(folder, A).daemon.conf.unlink()
    assert api.farm_join(dry_run=True).address == B, "one without its configuration is passed over"


def test_what_a_machine_brings(ours: FarmFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LiveHost, "memory", lambda self: Memory(total=16 << 30, available=1 << 30))
    checked = api.farm_join(dry_run=True)
    assert (checked.state, checked.memory_gib, checked.folder) == ("checked", 16.0, str(ours.root))
    monkeypatch.setattr(LiveHost, "memory", lambda self: None)
    assert api.farm_join(dry_run=True).memory_gib is None


@pytest.mark.parametrize(("status", "state"), [("ok", "checked"), ("warn", "checked"), ("fail", "refused")])
def test_only_a_need_that_fails_refuses(
    ours: FarmFolder, monkeypatch: pytest.MonkeyPatch, status: Any, state: str
) -> None:
    monkeypatch.setattr(workers, "check_worker", lambda *_: (Check(id="x", status="ok"), Check(id="y", status=status)))
    assert api.farm_join(dry_run=True).state == state


def test_a_worker_is_started_from_its_own_files(
    ours: FarmFolder, started: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(LiveHost, "disk", lambda self, path: None)
    monkeypatch.setattr(workers, "start_words", lambda host: ["unshare", "--"])
    scratch = tmp_path / "deep" / "scratch"
    (scratch / "build" / "left over").mkdir(parents=True)
    made = api.farm_join(address=A, scratch=scratch)
    assert (made.state, made.pid) == ("joined", 4711)
    assert started[0][:2] == ["unshare", "--"] and started[0][-1] == "server"
    place = place_of(ours, A)
    table = tomllib.loads(place.daemon.conf.read_text())
    assert table["toolchain_cache_size"] == 10 << 30 and table["cache_dir"] == str(scratch / "toolchains")
    assert os.listdir(scratch) == ["toolchains"] and scratch.joinpath("toolchains").stat().st_mode & 0o777 == 0o700
    assert place.root.stat().st_mode & 0o777 == 0o700 and place.scratch == scratch
    assert [worker.address for worker in load_farm(ours).workers] == [A]
    # Its place is known the next time; another one is said anew.
    assert api.farm_join(address=A).state == "joined" and place.scratch == scratch
    api.farm_join(address=A, scratch=tmp_path / "other")
    assert place.scratch == tmp_path / "other"
    monkeypatch.setattr(LiveHost, "disk", lambda self, path: Disk(total=9 << 30, free=5))
    api.farm_join(address=B)
    assert place_of(ours, B).scratch == place_of(ours, B).root / "scratch"
    assert tomllib.loads(place_of(ours, B).daemon.conf.read_text())["toolchain_cache_size"] == 2
    assert [worker.address for worker in load_farm(ours).workers] == [A, B]


def test_an_invited_worker_knows_its_farm_and_keeps_no_keys(
    folder: FarmFolder, started: list[list[str]], tmp_path: Path
) -> None:
    text = InvitationText(scheduler=f"http://{AT}", token="t", machine="m", address=A, cache=f"dir:{tmp_path}")
    line = conf.write_invitation(text).line
    assert api.farm_join(line, dry_run=True).state == "checked" and not folder.root.exists()
    assert api.farm_join(line).state == "joined"
    assert load_farm(folder) == Farm(scheduler=f"http://{AT}", cache=f"dir:{tmp_path}"), "the list is the scheduler's"
    conf.write_files({folder.table: conf.farm_text(Farm(scheduler="http://mine"))})
    api.farm_join(line)
    assert load_farm(folder).scheduler == "http://mine", "what is known already stays"


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_builder_that_only_looks_writes_nothing(folder: FarmFolder, dry_run: bool) -> None:
    line = conf.write_invitation(InvitationText(scheduler=f"http://{AT}", token="t", machine="m")).line
    made = api.farm_join(line, dry_run=dry_run)
    assert (made.state, made.address, made.scheduler) == ("client", None, f"http://{AT}")
    assert folder.client.exists() is folder.table.exists() is not dry_run


def test_what_is_newly_known_of_a_worker_replaces_the_old(ours: FarmFolder) -> None:
    add_worker(ours, A)
    add_worker(ours, B, slots=2)
    add_worker(ours, A, slots=4, memory_gib=8.0)
    assert load_farm(ours).workers == (
        FarmWorker(name="127.0.0.1-10502", address=B, slots=2),
        FarmWorker(name="127.0.0.1-10501", address=A, slots=4, memory_gib=8.0),
    )
    assert workers.worker_name("[fd00::1]:10501") == "fd00--1-10501"


def test_the_files_of_a_worker_may_be_damaged(ours: FarmFolder) -> None:
    (ours.root / "workers").mkdir()
    (ours.root / "workers" / "a file").touch()
    for name, text in (("b", "= ="), ("a", 'public_addr = "x"'), ("c", f'cache_dir = "{ours.root}/s/toolchains"')):
        (ours.root / "workers" / name).mkdir()
        (ours.root / "workers" / name / "server.conf").write_text(text)
    places = worker_places(ours)
    assert [(place.root.name, place.scratch) for place in places] == [("a", None), ("b", None), ("c", ours.root / "s")]


def test_what_was_compiled_when_a_worker_ended_is_removed(ours: FarmFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    joined_before(ours, A)
    place, scratch = place_of(ours, A), ours.root / "scratch"
    (scratch / "build" / "x").mkdir(parents=True)
    (scratch / "toolchains").mkdir()
    assert end_worker(place) is False and (scratch / "build").exists()
    monkeypatch.setattr(Daemon, "end", lambda self: True)
    assert end_worker(place) is True and os.listdir(scratch) == ["toolchains"]
    place.daemon.conf.unlink()
    assert end_worker(WorkerPlace(place.root)) is True


def test_waiting_ends_with_the_worker_and_not_before(
    ours: FarmFolder, started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another one in its place is not waited for."""
    answers = [None, 4711, 4711, 9]
    monkeypatch.setattr(Daemon, "find", lambda self: answers.pop(0))
    slept: list[float] = []
    monkeypatch.setattr(workers, "time", SimpleNamespace(sleep=slept.append))
    assert api.farm_join(address=A, wait=True).state == "ended" and not answers
    assert max(slept) <= 1.0, "nobody waits long for what has ended"


def ssh_says(monkeypatch: pytest.MonkeyPatch, out: bytes = b"", err: bytes = b"", code: int = 0) -> list[Any]:
    calls: list[Any] = []

    def run(words: list[str], **more: Any) -> object:
        calls.append((words, more["input"]))
        return SimpleNamespace(stdout=out, stderr=err, returncode=code)

    monkeypatch.setattr(workers, "subprocess", SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired))
    return calls


def test_a_refusal_of_the_other_machine_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["ssh", "-o", "BatchMode=yes", "desk", "rekindle"]
    calls = ssh_says(monkeypatch, b"{}", b"refused", 1)
    assert call_by_ssh(words, "line") == b"{}" and calls == [(words, b"line")]
    ssh_says(monkeypatch, b" \n", b"1\n2\n3\n4 \xff\n", 127)
    with pytest.raises(CommandFailed) as failed:
        call_by_ssh(words)
    assert "is Rekindle on desk?" in (failed.value.remedy or "")
    assert failed.value.last_lines == ("2", "3", "4 \ufffd") and failed.value.code == 127


@pytest.mark.parametrize("trouble", [OSError("no ssh here"), subprocess.TimeoutExpired("ssh", 180)])
def test_ssh_that_does_not_answer(trouble: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, **_more: object) -> object:
        raise trouble

    monkeypatch.setattr(workers, "subprocess", SimpleNamespace(run=run, TimeoutExpired=subprocess.TimeoutExpired))
    with pytest.raises(StageFailed, match="ssh to desk gave no answer") as failed:
        call_by_ssh(["ssh", "-o", "BatchMode=yes", "desk", "rekindle"])
    assert failed.value.remedy == "try: ssh desk true"


@pytest.mark.parametrize("state", ["joined", "running", "refused", "checked"])
def test_who_joined_by_ssh_is_remembered_with_the_way_there(
    ours: FarmFolder, monkeypatch: pytest.MonkeyPatch, state: Any
) -> None:
    answer = FarmJoin(folder="/there", scheduler=f"http://{AT}", address="10.9.9.9:10501", state=state, slots=3)
    calls = ssh_says(monkeypatch, encode(answer))
    monkeypatch.setattr(LiveHost, "run", lambda self, argv, **_: SimpleNamespace(out="hostname 10.9.9.9\nport\n"))
    made = api.farm_join(ssh="me@desk", remote="/opt/rekindle", dry_run=state == "checked")
    assert made.state == state
    ((words, line),) = calls
    asked = [*words[5:], conf.read_invitation(line.decode()).address]
    assert asked == ["farm", "join", "--json", *["--dry-run"] * (state == "checked"), "10.9.9.9:10501"]
    assert words[:5] == ["ssh", "-o", "BatchMode=yes", "me@desk", "/opt/rekindle"]
    place = place_of(ours, "10.9.9.9:10501")
    known = state in ("joined", "running")
    assert place.ssh.exists() is known
    assert [(each.address, each.slots) for each in load_farm(ours).workers] == [("10.9.9.9:10501", 3)] * known
    if known:
        assert json.loads(place.ssh.read_bytes()) == words[:5] and place.root.stat().st_mode & 0o777 == 0o700
        assert api.farm_join(ssh="me@desk", remote="/opt/rekindle").state == state, "twice is as good as once"


def test_where_ssh_goes_is_what_it_says_or_what_was_asked(ours: FarmFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = encode(FarmJoin(folder="/there", scheduler="http://s", state="checked"))
    for said, target, address, where in (
        ("", "me@10.9.9.8", None, "10.9.9.8:10501"),
        ("hostname 10.9.9.7", "desk", None, "10.9.9.7:10501"),
        ("hostname 10.9.9.7", "desk", "10.9.9.6:7", "10.9.9.6:7"),
    ):
        calls = ssh_says(monkeypatch, answer)
        monkeypatch.setattr(LiveHost, "run", lambda self, argv, said=said, **_: SimpleNamespace(out=said))
        api.farm_join(ssh=target, address=address, dry_run=True)
        assert conf.read_invitation(calls[0][1].decode()).address == where


def leaving(ours: FarmFolder, monkeypatch: pytest.MonkeyPatch, out: bytes) -> None:
    place = place_of(ours, "10.9.9.9:10501")
    conf.write_files({place.ssh: json.dumps(["ssh", "-o", "BatchMode=yes", "desk", "rekindle"])})
    ssh_says(monkeypatch, out)


def test_who_was_started_by_ssh_is_ended_there(ours: FarmFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    leaving(ours, monkeypatch, b'{"ended": ["worker a", "worker b"]}')
    monkeypatch.setattr(Daemon, "end", lambda self: self.name == "scheduler")
    ended = api.farm_down(forget=True)
    assert ended.ended == ("worker a on desk", "worker b on desk", "scheduler") and ended.left == ()
    assert ended.forgotten and not ours.root.exists()


@pytest.mark.parametrize(("out", "why"), [(b"?", "Expecting value"), (b'{"no": 1}', "ended"), (b"", "--remote|ssh")])
def test_whoever_could_not_be_ended_is_named_and_not_forgotten(
    ours: FarmFolder, monkeypatch: pytest.MonkeyPatch, out: bytes, why: str
) -> None:
    leaving(ours, monkeypatch, out)
    kept = api.farm_down(forget=True)
    assert (kept.ended, kept.forgotten) == ((), False) and ours.table.exists()
    (left,) = kept.left
    assert left.startswith("10.9.9.9-10501 on desk: ") and any(word in left for word in why.split("|"))


def test_a_folder_is_forgotten_only_where_that_is_asked(ours: FarmFolder, tmp_path: Path) -> None:
    joined_before(ours, A)
    for name in ("build", "toolchains", "mine"):
        (ours.root / "scratch" / name).mkdir(parents=True)
    for name in ("scheduler.log", "scheduler.log.before", "scheduler.json", "distrusted.json", ".lock"):
        (ours.root / name).touch()
    kept = api.farm_down()
    assert not kept.forgotten and ours.scheduler.exists() and (ours.root / "scratch/build").exists()
    assert api.farm_down(forget=True).forgotten
    assert sorted(path.name for path in ours.root.rglob("*")) == ["mine", "scratch"], "what is not ours stays"
    assert api.farm_down(forget=True).forgotten, "twice is as good as once"


def test_a_script_for_slurm_has_usual_numbers(ours: FarmFolder) -> None:
    made = api.farm_slurm()
    script = made.script or ""
    assert made.state == "script" and made.scheduler == f"http://{AT}"
    for words in ("--array=0-3", "--cpus-per-task=8", "--mem=16G", "--time=4:00:00"):
        assert f"#SBATCH {words}\n" in script
    ours.scheduler.unlink()
    with pytest.raises(BadInput, match="no keys of a farm"):
        api.farm_slurm()


@pytest.fixture
def up(ours: FarmFolder, started: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(addresses, "is_free", lambda place: True)
    return api.farm_up


def test_a_scheduler_is_started_once(
    up: Callable[..., Any], started: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = up()
    assert (made.state, made.pid, made.scheduler, made.written) == ("started", 4711, f"http://{AT}", ())
    assert started == [["sccache-dist", "scheduler"]]
    monkeypatch.setattr(Daemon, "find", lambda self: 12)
    made = up()
    assert (made.state, made.pid, made.worker, len(started)) == ("running", 12, None, 1)
    with pytest.raises(BadInput, match=f"runs at {AT}, not at 127.0.0.1:7"):
        up(listen="127.0.0.1:7")


def test_a_way_is_judged_where_it_is_new(up: Callable[..., Any]) -> None:
    (note,) = up(url="http://192.168.7.7:1/").notes
    assert "in clear on the network of 192.168.7.7" in note
    assert up(url="http://192.168.7.7:1").notes == () == up().notes, "it was said"
    assert len(up(url="http://192.168.7.8:1").notes) == 1
    assert up(url="http://192.168.7.9:1", private_network=True).notes == ()


def test_guests_are_invited_once_and_known_ones_stay_as_they_are(ours: FarmFolder, up: Callable[..., Any]) -> None:
    add_worker(ours, A, slots=4)
    made = up(invite=["127.0.0.1", "127.0.0.1:7"], client=True, cache="redis://10.0.0.1")
    assert [(each.kind, each.address) for each in made.invitations] == [
        ("worker", A),
        ("worker", "127.0.0.1:7"),
        ("client", None),
    ]
    assert [(each.address, each.slots) for each in load_farm(ours).workers] == [(A, 4), ("127.0.0.1:7", None)]
    assert conf.read_invitation(made.invitations[0].line).cache == "redis://10.0.0.1"
    assert up().invitations == () and load_farm(ours).cache == "redis://10.0.0.1"
    up(cache="redis://10.0.0.2")
    assert load_farm(ours).cache == "redis://10.0.0.2"
    planned = up(dry_run=True, invite=["127.0.0.1:9"])
    assert planned.state == "planned" and planned.written == ("scheduler.conf", "client.conf", "farm.toml")
    assert len(load_farm(ours).workers) == 2 and planned.invitations == ()


def test_where_no_scheduler_can_be(up: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "is_free", lambda place: False)
    with pytest.raises(BadInput, match=f"{AT} is taken") as refused:
        up()
    assert (refused.value.remedy or "").endswith("--listen 127.0.0.1:10601")
    monkeypatch.setattr(Daemon, "find", lambda self: 5)
    assert up().state == "running", "by our own"
    monkeypatch.setattr(schedulers, "LiveHost", lambda: SimpleNamespace(system="windows"))
    with pytest.raises(BadInput, match="on Linux alone"):
        up()


def test_a_shown_cache_has_no_password(ours: FarmFolder, up: Callable[..., Any]) -> None:
    for cache, shown in (
        ("redis://me:a@b@10.0.0.9:6379/x", "redis://10.0.0.9:6379/x"),
        ("redis://10.0.0.9", "redis://10.0.0.9"),
    ):
        up(cache=cache)
        assert api.farm_status().cache == shown
    conf.write_files({ours.table: conf.farm_text(Farm(scheduler=f"http://{AT}"))})
    assert api.farm_status().cache is None


def test_the_state_of_each_machine(ours: FarmFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Invited and not seen, there, there without an answer, given up; what went wrong, the newest first."""
    places = [f"10.0.0.{number}:10501" for number in range(4)]
    add_worker(ours, places[0], slots=8)
    add_worker(ours, places[1], slots=4)
    said = [*(f"Registered new server ServerId({place})" for place in places[1:])]
    said += [f"Job {n} created and will be assigned to server ServerId({places[1]})" for n in range(3)]
    said += ["Job 0 updated state to Complete"]
    lines = [f"[2026-11-18T01:00:0{number}Z INFO  sccache_dist] {text}" for number, text in enumerate(said)]
    lines += [f"[2026-11-18T02:00:00Z WARN  sccache_dist] Server {places[3]} appears to be dead"]
    lines += ["[2026-11-18T03:00:00Z ERROR sccache_dist] odd"]
    (ours.root / "scheduler.log").write_text("\n".join(lines), encoding="utf-8")
    monkeypatch.setattr(addresses, "answers", lambda place: place == places[1])
    report = api.farm_status()
    assert [(each.address, each.state, each.slots) for each in report.machines] == [
        (places[0], "expected", 8),
        (places[1], "up", 4),
        (places[2], "silent", None),
        (places[3], "lost", None),
    ]
    here = report.machines[1]
    assert (here.running, here.compiled, here.lost, here.last) == (2, 1, 0, "2026-11-18T01:00:06Z")
    assert report.machines[2].name == "10.0.0.2-10501"
    assert [failure.when[11:13] for failure in report.failures] == ["03", "02"]
    assert report.pid is None and report.status.why


def test_a_worker_s_own_folder_tells_of_itself_alone(folder: FarmFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    joined_before(folder, A, B)
    (folder.root / "workers" / "gone").mkdir()
    running = place_of(folder, A).daemon.note
    monkeypatch.setattr(Daemon, "find", lambda self: 5 if self.note == running else None)
    monkeypatch.setattr(addresses, "answers", lambda place: True)
    for name, where in (("gone", "gone"), (workers.worker_name(B), B)):
        place = folder.root / "workers" / name
        (place / "worker.log").write_text("[T WARN  x] No space left on device\n", encoding="utf-8")
        assert where in {failure.where for failure in api.farm_status().failures}
    report = api.farm_status()
    assert [(each.address, each.state) for each in report.machines] == [(A, "up"), (B, "lost")]
    assert report.pid is None, "the scheduler is elsewhere"


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_a_new_farm_s_folder_is_its_owner_s_alone(
    folder: FarmFolder, started: list[list[str]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(addresses, "is_free", lambda place: True)
    deep = tmp_path / "a" / "b"
    made = api.farm_up(farm=deep)
    assert (made.state, made.scheduler, made.folder) == ("started", f"http://{AT}", str(deep))
    assert made.written == ("scheduler.conf", "client.conf", "farm.toml")
    assert deep.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in deep.glob("*.conf")} == {0o600}


def test_who_asks_hears_what_is_waited_for(up: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[tuple[object, str]] = []

    def tell(progress: object, what: str) -> contextlib.AbstractContextManager[None]:
        heard.append((progress, what))
        return contextlib.nullcontext()

    for module in (workers, schedulers):
        monkeypatch.setattr(module, "tell_while", tell)
    one = Silent()
    up(worker=True, progress=one)
    api.farm_down(progress=one)
    assert [what for _, what in heard] == [
        "the scheduler starts",
        "checking this machine",
        "the worker greets the scheduler",
        "waiting for them to end",
    ]
    assert {id(progress) for progress, _ in heard} == {id(one)}
    heard.clear()
    up(worker=True)
    api.farm_down()
    assert len(heard) == 4 and all(isinstance(progress, Silent) for progress, _ in heard)


def test_the_scheduler_s_process_is_told_where_it_is_ours(ours: FarmFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Daemon, "find", lambda self: 12)
    assert api.farm_status().pid == 12
    ours.scheduler.unlink()
    assert api.farm_status().pid is None
