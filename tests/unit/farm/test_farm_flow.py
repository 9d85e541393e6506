"""up, join, status and down with a stand-in for sccache-dist: what is written, started, told, ended, kept secret."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
import time
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle import api
from rekindle.cli.main import main
from rekindle.errors import BadInput, NeedsInvitation, StageFailed
from rekindle.farm import worker as workers
from rekindle.farm.addresses import answers
from rekindle.farm.folder import load_secrets
from rekindle.farm.scheduler import scheduler_daemon
from rekindle.farm.worker import place_of, worker_places
from rekindle.host.live import LiveHost
from rekindle.host.processes import process_mark
from rekindle.host.protocol import Disk
from rekindle.model.farm import FarmFolder
from rekindle.model.machine import Check
from rekindle.toolkits.sccache import load_farm

GOOD = (Check(id="sandbox", status="ok"), Check(id="disk", status="warn", found="3 GiB", fix="a larger disk"))

# The same in a process of its own.
UNCHECKED = """
import sys
from rekindle.farm import worker
from rekindle.toolkits import sccache
worker.check_worker, worker.start_words = lambda *_: (), lambda host: []
sccache._find_beside_python = lambda name: None
"""


@pytest.fixture(autouse=True)
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a worker needs is tested elsewhere."""
    monkeypatch.setattr(workers, "check_worker", lambda *_: GOOD)
    monkeypatch.setattr(workers, "start_words", lambda host: [])


@pytest.fixture
def at(free_port: int) -> str:
    return f"127.0.0.1:{free_port}"


def another_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_up_twice_is_as_good_as_once(folder: FarmFolder, at: str) -> None:
    first = api.farm_up(listen=at)
    assert (first.state, first.scheduler) == ("started", f"http://{at}")
    assert set(first.written) == {"scheduler.conf", "client.conf", "farm.toml"} and answers(at)
    hidden = load_secrets(folder)
    second = api.farm_up()
    assert (second.state, second.pid, second.written) == ("running", first.pid, ())
    assert load_secrets(folder) == hidden
    with pytest.raises(BadInput, match="runs at"):
        api.farm_up(listen=f"127.0.0.1:{another_port()}")
    assert api.farm_down().ended == ("scheduler",)
    assert api.farm_down().ended == () and not answers(at)
    third = api.farm_up()
    assert third.state == "started" and third.scheduler == first.scheduler and load_secrets(folder) == hidden


def test_a_dry_run_writes_and_starts_nothing(folder: FarmFolder, at: str) -> None:
    planned = api.farm_up(listen=at, worker=True, invite=["127.0.0.1"], dry_run=True)
    assert planned.state == "planned" and planned.pid is None and not planned.invitations
    assert not folder.root.exists() and not answers(at)


def test_a_taken_port_is_said(folder: FarmFolder, at: str) -> None:
    import socket

    with socket.create_server(("127.0.0.1", int(at.rpartition(":")[2]))), pytest.raises(BadInput, match="taken"):
        api.farm_up(listen=at)
    assert api.farm_up(listen=at).state == "started", "and the same command goes on afterwards"


def test_a_scheduler_that_ends_at_once_says_why(
    folder: FarmFolder, at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = tmp_path / "broken" / "sccache-dist"
    broken.parent.mkdir()
    broken.write_text('#!/bin/sh\n[ "$1" = --version ] && echo sccache 0.16.0 && exit\necho it is broken; exit 2\n')
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")
    with pytest.raises(StageFailed, match="it is broken"):
        api.farm_up(listen=at)
    assert scheduler_daemon(folder).find() is None


def test_the_way_of_a_worker(folder: FarmFolder, at: str, tmp_path: Path) -> None:
    """Invited here, joined with the line on (what stands for) another machine, seen, ended, joined again without."""
    place = f"127.0.0.1:{another_port()}"
    raised = api.farm_up(listen=at, invite=[place])
    (invitation,) = raised.invitations
    assert [machine.state for machine in api.farm_status().machines] == ["expected"]
    assert not api.farm_status().works
    other = tmp_path / "other"
    joined = api.farm_join(invitation.line, farm=other)
    assert (joined.state, joined.address, joined.checks) == ("joined", place, GOOD)
    assert joined.slots == len(os.sched_getaffinity(0)) and joined.memory_gib
    try:
        table = tomllib.loads(place_of(FarmFolder(other), place).daemon.conf.read_text())
        assert table["scheduler_url"] == f"http://{at}" and table["public_addr"] == place
        assert api.farm_join(invitation.line, farm=other).pid == joined.pid, "twice is as good as once"
        report = api.farm_status()
        assert report.works and (report.status.servers, report.status.slots) == (1, 2)
        assert [(machine.address, machine.state) for machine in report.machines] == [(place, "up")]
        own = api.farm_status(farm=other)
        assert own.works and own.pid is None and [machine.state for machine in own.machines] == ["up"]
        assert api.farm_down(farm=other).ended == (f"worker {place.replace(':', '-')}",)
        assert [machine.state for machine in api.farm_status().machines] == ["silent"]
        again = api.farm_join(farm=other)
        assert again.state == "joined" and again.address == place, "after a restart no line is needed"
    finally:
        api.farm_down(farm=other)
    assert (other / "farm.toml").is_file() and not (other / "client.conf").exists()


def test_a_worker_beside_the_scheduler(folder: FarmFolder, at: str) -> None:
    raised = api.farm_up(listen=at, worker=True)
    assert raised.worker is not None and raised.worker.state == "joined"
    (known,) = load_farm(folder).workers
    assert known.address == raised.worker.address and known.slots == raised.worker.slots and known.memory_gib
    again = api.farm_up(worker=True)
    assert again.worker is not None and (again.worker.state, again.worker.pid) == ("running", raised.worker.pid)
    ended = api.farm_down()
    assert set(ended.ended) == {f"worker {known.name}", "scheduler"}
    assert process_mark(raised.worker.pid or 0) is None
    assert api.farm_down(forget=True).forgotten and not folder.root.exists()


def test_forgetting_leaves_what_is_not_ours(folder: FarmFolder, at: str) -> None:
    api.farm_up(listen=at)
    (folder.root / "mine.txt").write_text("mine")
    api.farm_down(forget=True)
    assert [path.name for path in folder.root.iterdir()] == ["mine.txt"]


def test_a_machine_that_fails_a_check_is_refused(folder: FarmFolder, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bad = (*GOOD, Check(id="clock", status="fail", found="3 days", fix="timedatectl"))
    monkeypatch.setattr(workers, "check_worker", lambda *_: bad)
    raised = api.farm_up(listen=at, worker=True)
    assert raised.state == "started" and raised.worker is not None
    assert raised.worker.state == "refused" and raised.worker.pid is None
    assert main(["farm", "up", "--worker"]) == 1
    assert not any(place.daemon.conf.exists() for place in worker_places(folder))


def test_the_dry_run_of_a_worker(folder: FarmFolder, at: str) -> None:
    api.farm_up(listen=at)
    before = sorted(folder.root.rglob("*"))
    checked = api.farm_join(dry_run=True)
    assert checked.state == "checked" and checked.checks == GOOD
    assert sorted(folder.root.rglob("*")) == before


def test_a_wrong_token_is_turned_away_with_its_reason(folder: FarmFolder, at: str, tmp_path: Path) -> None:
    from rekindle.farm.folder import InvitationText, write_invitation

    api.farm_up(listen=at)
    place = f"127.0.0.1:{another_port()}"
    forged = InvitationText(scheduler=f"http://{at}", token="forged", machine=os.uname().machine, address=place)
    with pytest.raises(StageFailed, match=r"turned this worker away.*token") as caught:
        api.farm_join(write_invitation(forged).line, farm=tmp_path / "other")
    assert "{" not in caught.value.message, "what it means, not the line of the log"
    assert not answers(place), "nothing is left running"


def test_a_builder_gets_its_configuration(folder: FarmFolder, at: str, tmp_path: Path) -> None:
    raised = api.farm_up(listen=at, client=True, cache=f"dir:{tmp_path}/cache")
    other = FarmFolder(tmp_path / "other")
    assert api.farm_join(raised.invitations[0].line, farm=other.root).state == "client"
    assert other.client.read_bytes() == folder.client.read_bytes()
    assert load_farm(other).cache == f"dir:{tmp_path}/cache"
    assert not other.scheduler.exists()
    with pytest.raises(BadInput, match="a farm of its own"):
        api.farm_join(raised.invitations[0].line)
    with pytest.raises(NeedsInvitation):
        api.farm_join(farm=other.root)


def test_without_keys_and_line_nobody_joins(folder: FarmFolder) -> None:
    with pytest.raises(NeedsInvitation, match="invitation"):
        api.farm_join()
    assert not folder.root.exists()


def test_a_cache_is_kept_and_its_password_not_shown(folder: FarmFolder, at: str) -> None:
    api.farm_up(listen=at, cache="redis://me:hush@10.0.0.9:6379")
    api.farm_up()
    assert "hush" in folder.client.read_text()
    assert api.farm_status().cache == "redis://10.0.0.9:6379"
    with pytest.raises(BadInput, match="no place for a cache"):
        api.farm_up(cache="floppy:")


def test_secrets_are_in_no_log_argument_or_answer(
    folder: FarmFolder, at: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO(""))
    assert main(["farm", "up", "--listen", at, "--worker", "-v"]) == 0
    hidden = load_secrets(folder)
    assert hidden is not None
    tokens = [hidden.server_key, hidden.client_token]
    for words in (["farm", "status"], ["farm", "status", "--json"], ["farm", "join", "--dry-run"]):
        main(words)
    said = "".join(capfd.readouterr())
    processes = subprocess.run(["ps", "axww", "-o", "args"], capture_output=True, text=True, check=True).stdout
    logs = "".join(path.read_text() for path in folder.root.rglob("*.log"))
    for token in tokens:
        assert token not in said and token not in processes and token not in logs
    own = {path.name for path in folder.root.rglob("*.conf") if path.stat().st_mode & 0o077}
    assert not own


def test_wait_ends_with_the_worker(folder: FarmFolder, at: str) -> None:
    api.farm_up(listen=at)
    answers_of: list[str] = []
    waiting = threading.Thread(target=lambda: answers_of.append(api.farm_join(wait=True).state))
    waiting.start()
    deadline = time.monotonic() + 20
    while not api.farm_status().works and time.monotonic() < deadline:
        time.sleep(0.1)
    time.sleep(0.5)
    api.farm_down()
    waiting.join(20)
    assert answers_of == ["ended"]


def test_wait_ends_the_worker_at_a_signal(folder: FarmFolder, at: str) -> None:
    api.farm_up(listen=at)
    code = (
        f"{UNCHECKED}from rekindle.cli.main import main; raise SystemExit(main(['farm', 'join', '--wait', '--json']))"
    )
    joining = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    deadline = time.monotonic() + 30
    while (
        not (places := [place for place in worker_places(folder) if place.daemon.find()])
        and time.monotonic() < deadline
    ):
        time.sleep(0.1)
    time.sleep(1.0)
    joining.terminate()
    out, _ = joining.communicate(timeout=30)
    assert joining.returncode == 0 and json.loads(out)["state"] == "ended"
    assert all(place.daemon.find() is None for place in places)


SSH = """#!/bin/sh
# As ssh: -G tells where it would go, else the command runs "there", with its input.
[ "$1" = -G ] && { echo "user me"; echo stdinnull; echo "hostname 127.0.0.1"; echo "port 22"; exit; }
shift 3
export REKINDLE_FARM=@THERE@
exec sh -c "$*"
"""


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        program = tmp_path / "bin" / "ssh"
        program.write_text(text.replace("@THERE@", str(tmp_path / "there")))
        program.chmod(0o755)
        return program

    return write


def remote_rekindle(folder: Path) -> str:
    """Rekindle as the other machine has it: without checks, which are tested elsewhere."""
    program = folder / "rekindle-there"
    program.write_text(
        # As pip writes a script's first lines where the interpreter's path has a space.
        f"#!/bin/sh\n'''exec' '{sys.executable}' \"$0\" \"$@\"\n' '''\n"
        f"{UNCHECKED}from rekindle.cli.main import main; raise SystemExit(main(sys.argv[1:]))\n"
    )
    program.chmod(0o755)
    return str(program)


def test_a_worker_by_ssh(folder: FarmFolder, at: str, tmp_path: Path, ssh: Callable[[str], Path]) -> None:
    ssh(SSH)
    api.farm_up(listen=at)
    remote = remote_rekindle(tmp_path)
    place = f"127.0.0.1:{another_port()}"
    assert api.farm_join(ssh="desk", remote=remote, address=place, dry_run=True).state == "checked"
    joined = api.farm_join(ssh="desk", remote=remote, address=place)
    assert (joined.state, joined.folder) == ("joined", str(tmp_path / "there")) and answers(place)
    (known,) = load_farm(folder).workers
    assert (known.address, known.slots) == (place, joined.slots)
    found = api.farm_join(ssh="desk", remote=remote, dry_run=True)
    assert found.address == "127.0.0.1:10501", "where ssh itself goes"
    ended = api.farm_down()
    assert ended.ended[0].endswith("on desk") and "scheduler" in ended.ended and not ended.left
    assert not answers(place)


def test_a_machine_that_ssh_does_not_reach(
    folder: FarmFolder, at: str, tmp_path: Path, ssh: Callable[[str], Path]
) -> None:
    ssh(SSH)
    api.farm_up(listen=at)
    place = f"127.0.0.1:{another_port()}"
    remote = remote_rekindle(tmp_path)
    api.farm_join(ssh="desk", remote=remote, address=place)
    ssh("#!/bin/sh\necho 'ssh: connect to host desk port 22: No route to host' >&2; exit 255\n")
    with pytest.raises(StageFailed, match="No route to host"):
        api.farm_join(ssh="127.0.0.1", remote=remote)
    ended = api.farm_down(forget=True)
    assert "No route" in ended.left[0] and "scheduler" in ended.ended
    assert not ended.forgotten and folder.table.exists(), "what still runs elsewhere is not forgotten"
    ssh(SSH)
    assert not api.farm_down().left and not answers(place)


def test_what_comes_next_depends_on_who_is_there(
    folder: FarmFolder, at: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["farm", "up", "--listen", at]) == 0
    assert "--invite ADDRESS" in (said := capsys.readouterr().out) and "up --build" not in said
    assert main(["farm", "up", "--invite", "192.168.77.11"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "up --build" in said and "does not reach" in said


def test_a_script_for_slurm(folder: FarmFolder, at: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadInput):
        api.farm_slurm()
    api.farm_up(listen=at)
    assert main(["farm", "join", "--slurm", "--nodes", "3", "--cores", "12", "--memory-gib", "20", "--hours", "2"]) == 0
    script = capsys.readouterr().out
    for words in ("#SBATCH --array=0-2", "--cpus-per-task=12", "--mem=20G", "--time=2:00:00", f"folder={folder.root}"):
        assert words in script
    assert script.startswith("#!/bin/bash") and not re.search("@[A-Z]+@", script)
    subprocess.run(["bash", "-n"], input=script, text=True, check=True)
    rekindle = folder.root / "rekindle"
    rekindle.write_text(f"#!/bin/sh\nnproc > {folder.root}/cores\n")
    rekindle.chmod(0o755)
    env = {**os.environ, "REKINDLE": str(rekindle), "SLURM_CPUS_PER_TASK": "1", "SLURM_TMPDIR": str(folder.root)}
    subprocess.run(["bash"], input=script, text=True, check=True, env=env)
    assert (folder.root / "cores").read_text() == "1\n", "no more than was asked for, where nobody is confined"


def test_the_command_line(
    folder: FarmFolder, at: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert main(["farm", "status"]) == 2
    assert main(["farm", "up", "--listen", at, "--invite", "127.0.0.1:10999", "--client"]) == 0
    out = capsys.readouterr().out
    lines = [word for word in out.split() if word.startswith("rkfarm1.")]
    assert len(lines) == 2 and "secret" in out and "| rekindle farm join" in out
    assert main(["farm", "status"]) == 1, "without a worker nobody compiles"
    assert "invited, not seen yet" in capsys.readouterr().out
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines[1] + "\n"))
    assert main(["farm", "join", "--farm", str(tmp_path / "b"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["state"] == "client"
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines[0][:-9] + "\n"))
    assert main(["farm", "join", "--farm", str(tmp_path / "c")]) == 2
    assert "whole" in capsys.readouterr().err
    assert main(["farm", "up", "--listen", "0.0.0.0"]) == 2
    assert main(["farm", "up", "--listen", "8.8.8.8", "--farm", str(tmp_path / "d")]) == 2
    assert "in clear" in capsys.readouterr().err and not (tmp_path / "d").exists()
    assert main(["farm", "down", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ended"] == ["scheduler"]
    assert main(["farm", "status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["status"]["why"]


def test_a_farm_moves_to_another_address(folder: FarmFolder, at: str) -> None:
    api.farm_up(listen=at)
    api.farm_down()
    other = f"127.0.0.1:{another_port()}"
    assert api.farm_up(listen=other, url="https://farm.example.org/").scheduler == "https://farm.example.org"
    assert api.farm_up().scheduler == "https://farm.example.org", "what was said once is kept"
    api.farm_down()
    moved = api.farm_up(listen=at)
    assert moved.scheduler == f"http://{at}" == load_farm(folder).scheduler
    assert tomllib.loads(folder.client.read_text())["dist"]["scheduler_url"] == f"http://{at}"


def test_slots_are_what_this_process_may_use(folder: FarmFolder, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api.farm_up(listen=at)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {1, 2, 3} if pid == 0 else set())
    assert api.farm_join(dry_run=True).slots == 3


@pytest.mark.parametrize(("free", "room"), [(6, 3), (20, 10), (19, 9.5), (500, 10)])
def test_toolchains_take_half_of_the_disk_and_ten_gib_at_most(
    folder: FarmFolder, at: str, monkeypatch: pytest.MonkeyPatch, free: int, room: float
) -> None:
    monkeypatch.setattr(LiveHost, "disk", lambda self, path: Disk(total=1000 << 30, free=free << 30))
    api.farm_up(listen=at, worker=True)
    (place,) = worker_places(folder)
    assert tomllib.loads(place.daemon.conf.read_text())["toolchain_cache_size"] == int(room * (1 << 30))


def test_a_worker_takes_the_first_free_port(folder: FarmFolder, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
    api.farm_up(listen=at)
    taken = {f"127.0.0.1:{10501 + number}" for number in range(3)}
    monkeypatch.setattr(workers, "is_free", lambda place: place not in taken)
    assert api.farm_join(dry_run=True).address == "127.0.0.1:10504"
    monkeypatch.setattr(workers, "is_free", lambda place: False)
    assert api.farm_join(dry_run=True).address == "127.0.0.1:10501"
    assert api.farm_join(address="127.0.0.1:7777", dry_run=True).address == "127.0.0.1:7777"
