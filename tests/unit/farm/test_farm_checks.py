"""What a worker needs: each need met and not met, with what to do."""

from __future__ import annotations

import http.server
import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from email.utils import formatdate
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.farm import checks
from rekindle.farm.checks import ask_scheduler, check_worker, start_words
from rekindle.farm.folder import InvitationText
from rekindle.host.protocol import Completed, Disk
from rekindle.model.farm import FarmStatus
from rekindle.model.machine import Check
from rekindle.toolkits import sccache

GIB = 1 << 30
BODY = b'{"num_servers": 3, "num_cpus": 56, "in_progress": 24}'


class WorkerHost(BareHost):
    """A machine on which a worker could be, but for what a test takes away."""

    def __init__(self, **said: str) -> None:
        super().__init__()
        self.said = {
            "getconf": "glibc 2.36",
            "ldd": "musl libc (x86_64)",
            "bwrap": "bubblewrap 0.8.0",
            "sccache-dist": "sccache 0.16.0",
            "sh": "",
        } | said
        self.free = 50 * GIB
        self.files: dict[str, bytes] = {}
        self.calls: list[list[str]] = []

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        self.calls.append(list(argv))
        name = next(name for name in self.said if name in {Path(word).name for word in argv})
        good = not self.said[name].startswith("!")
        return Completed(argv=tuple(argv), code=0 if good else 1, out=self.said[name], err=self.said[name][1:])

    def read(self, path: str, *, limit: int = 1 << 20) -> bytes | None:
        return self.files.get(path)

    def which(self, name: str) -> str | None:
        return f"/usr/bin/{name}"

    def which_all(self, name: str) -> tuple[str, ...]:
        return (f"/usr/bin/{name}",)

    def disk(self, path: str) -> Disk | None:
        return Disk(total=100 * GIB, free=self.free)


class Scheduler:
    """Answers as sccache's scheduler does, with a clock of its own."""

    def __init__(self) -> None:
        self.ahead, self.body, self.dated = 0.0, BODY, True
        outer = self

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                assert self.headers["Accept"] == "application/json"
                self.send_response_only(200 if self.path == "/api/v1/scheduler/status" else 404)
                if outer.dated:
                    self.send_header("Date", formatdate(__import__("time").time() + outer.ahead, usegmt=True))
                self.send_header("Content-Length", str(len(outer.body)))
                self.end_headers()
                self.wfile.write(outer.body)

            def log_message(self, *words: object) -> None:
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduler]:
    monkeypatch.setattr(sccache, "_find_beside_python", lambda name: None)
    made = Scheduler()
    yield made
    made.server.shutdown()
    made.server.server_close()


def judged(
    host: BareHost, scheduler: Scheduler, scratch: Path, address: str = "127.0.0.1:1", **more: str
) -> dict[str, Check]:
    if address.endswith(":1"):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            address = address[:-1] + str(probe.getsockname()[1])
    invited = InvitationText(scheduler=scheduler.url, token="t", address=address, machine=more.get("machine", "x86_64"))
    return {check.id: check for check in check_worker(host, invited, scratch)}


def test_a_good_machine_passes(scheduler: Scheduler, tmp_path: Path) -> None:
    found = judged(WorkerHost(), scheduler, tmp_path / "not" / "there")
    assert {check.status for check in found.values()} == {"ok"}
    assert set(found) == {
        *("architecture", "sccache-dist", "glibc", "bubblewrap", "sandbox", "disk"),
        *("address", "port", "scheduler", "clock"),
    }
    assert all(check.fix is None for check in found.values())
    assert list(tmp_path.iterdir()) == [], "a check leaves nothing behind"


@pytest.mark.parametrize(
    ("said", "name", "status", "word"),
    [
        ({"bwrap": "bubblewrap 0.2.9"}, "bubblewrap", "fail", "install"),
        ({"bwrap": "bubblewrap 0.3.0"}, "bubblewrap", "ok", ""),
        ({"bwrap": "!not found"}, "bubblewrap", "fail", "apt"),
        ({"getconf": "glibc 2.16"}, "glibc", "fail", "newer"),
        ({"getconf": "glibc 2.17"}, "glibc", "ok", ""),
        ({"getconf": "!unknown variable"}, "glibc", "warn", "musl"),
        ({"sccache-dist": "!no such file"}, "sccache-dist", "fail", "pip install"),
        ({"sh": "!mount: overlay: wrong fs type"}, "sandbox", "fail", "--scratch"),
        ({"sh": "!bwrap: Creating new namespace failed"}, "sandbox", "fail", "sudo"),
    ],
)
def test_each_need(
    scheduler: Scheduler, tmp_path: Path, said: dict[str, str], name: str, status: str, word: str
) -> None:
    found = judged(WorkerHost(**said), scheduler, tmp_path)
    assert found[name].status == status
    assert word in (found[name].fix or "")
    assert {check.status for check in found.values() if check.id != name} == {"ok"}


@pytest.mark.parametrize(
    ("path", "value", "advice"),
    [
        ("kernel/unprivileged_userns_clone", b"0\n", "kernel.unprivileged_userns_clone=1"),
        ("kernel/apparmor_restrict_unprivileged_userns", b"1\n", "kernel.apparmor_restrict_unprivileged_userns=0"),
        ("user/max_user_namespaces", b"0\n", "sudo"),
        ("kernel/unprivileged_userns_clone", b"1\n", "CAP_SYS_ADMIN"),
        ("kernel/apparmor_restrict_unprivileged_userns", b"0\n", "CAP_SYS_ADMIN"),
        ("user/max_user_namespaces", b"15000\n", "CAP_SYS_ADMIN"),
    ],
)
def test_what_the_kernel_forbids_is_named(
    scheduler: Scheduler, tmp_path: Path, path: str, value: bytes, advice: str
) -> None:
    host = WorkerHost(sh="!unshare failed: Operation not permitted")
    host.files[f"/proc/sys/{path}"] = value
    assert advice in (judged(host, scheduler, tmp_path)["sandbox"].fix or "")


@pytest.mark.parametrize(("free", "status"), [(12.0, "ok"), (11.9, "warn"), (2.0, "warn"), (1.9, "fail")])
def test_the_disk(scheduler: Scheduler, tmp_path: Path, free: float, status: str) -> None:
    host = WorkerHost()
    host.free = int(free * GIB)
    assert judged(host, scheduler, tmp_path)["disk"].status == status


@pytest.mark.parametrize(("ahead", "status"), [(0, "ok"), (25, "ok"), (-25, "ok"), (40, "fail"), (-40, "fail")])
def test_the_clock(scheduler: Scheduler, tmp_path: Path, ahead: float, status: str) -> None:
    scheduler.ahead = ahead
    clock = judged(WorkerHost(), scheduler, tmp_path)["clock"]
    assert clock.status == status
    assert (("behind" if ahead > 0 else "ahead of") in (clock.found or "")) or not ahead
    scheduler.dated = False
    assert "clock" not in judged(WorkerHost(), scheduler, tmp_path)


def test_another_architecture(scheduler: Scheduler, tmp_path: Path) -> None:
    assert judged(WorkerHost(), scheduler, tmp_path, machine="aarch64")["architecture"].status == "fail"


def test_a_taken_port_and_a_strange_address(scheduler: Scheduler, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        port = judged(WorkerHost(), scheduler, tmp_path, f"127.0.0.1:{number}")["port"]
    assert port.status == "fail" and f":{number + 1}" in (port.fix or "")
    found = judged(WorkerHost(), scheduler, tmp_path, "192.0.2.7:10501")
    assert found["address"].status == "fail" and "--invite" in (found["address"].fix or "")


def test_no_scheduler_there(scheduler: Scheduler, tmp_path: Path) -> None:
    scheduler.url = "http://127.0.0.1:1"
    found = judged(WorkerHost(), scheduler, tmp_path)
    assert found["scheduler"].status == "fail" and "clock" not in found


def test_only_linux_can_work(scheduler: Scheduler, tmp_path: Path) -> None:
    host = WorkerHost()
    host.system = "windows"
    found = judged(host, scheduler, tmp_path)
    assert set(found) == {"system"} and found["system"].status == "fail"


def test_what_the_scheduler_says(scheduler: Scheduler) -> None:
    status, ahead = ask_scheduler(scheduler.url + "/")
    assert (status.servers, status.slots, status.in_progress, status.why) == (3, 56, 24, None)
    assert ahead is not None and abs(ahead) < 5
    for strange in (b"", b"[]", b'{"num_servers": "x"}', b'{"num_servers": 1}', b"\xff"):
        scheduler.body = strange
        assert ask_scheduler(scheduler.url)[0].why
    assert "no address" in (ask_scheduler("file:///etc/passwd")[0].why or "")


def test_who_is_not_root_gets_a_namespace(monkeypatch: pytest.MonkeyPatch) -> None:
    host = WorkerHost()
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    assert start_words(host) == []
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    assert start_words(host) == ["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "--"]


def test_the_sandbox_is_tried_as_it_will_be_used(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = WorkerHost()
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    assert "without root" in (judged(host, scheduler, tmp_path)["sandbox"].found or "")
    (call,) = [words for words in host.calls if "sh" in words]
    assert call[:3] == ["/usr/bin/unshare", "--user", "--map-root-user"] and Path(call[-1]).parent == tmp_path
    monkeypatch.setattr(checks, "start_words", lambda host: [])
    judged(host, scheduler, tmp_path)
    assert "--map-root-user" not in host.calls[-1]


@pytest.mark.parametrize(("user", "apart"), [(0, False), (1000, True), (1, True)])
def test_whoever_is_not_root_works_in_a_namespace(monkeypatch: pytest.MonkeyPatch, user: int, apart: bool) -> None:
    monkeypatch.setattr("rekindle.farm.checks.os.geteuid", lambda: user)
    assert bool(start_words(BareHost())) is apart


def test_without_bubblewrap_no_sandbox_is_blamed(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = WorkerHost(bwrap="!not found")
    monkeypatch.setattr(host, "which", lambda name: None if name == "bwrap" else f"/usr/bin/{name}")
    checks = judged(host, scheduler, tmp_path)
    assert checks["bubblewrap"].status == "fail" and "install" in (checks["bubblewrap"].fix or "")
    assert checks["sandbox"].status == "warn" and checks["sandbox"].fix is None


def test_without_unshare_its_name_is_the_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000, raising=False)
    assert start_words(BareHost()) == ["unshare", "--user", "--map-root-user", "--mount", "--"]


def test_an_answer_that_has_no_end_is_cut_off(scheduler: Scheduler) -> None:
    scheduler.body = BODY.ljust(1 << 16)
    assert ask_scheduler(scheduler.url)[0].slots == 56
    scheduler.body = BODY[:-1].ljust(1 << 16) + b"}"
    assert "no scheduler answers" in (ask_scheduler(scheduler.url)[0].why or "")


@pytest.mark.parametrize(("ahead", "status"), [(30.0, "ok"), (-30.0, "ok"), (30.5, "fail"), (-30.5, "fail")])
def test_half_a_minute_is_not_too_much(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead: float, status: str
) -> None:
    monkeypatch.setattr(checks, "ask_scheduler", lambda url: (FarmStatus(scheduler=url), ahead))
    clock = judged(WorkerHost(), scheduler, tmp_path)["clock"]
    assert clock.status == status and clock.want == "within 30 s"
    assert (clock.fix is None) is (status == "ok")


@pytest.mark.parametrize(("own", "named"), [([], "ADDRESS:10501"), (["10.0.0.5", "10.0.0.6"], "10.0.0.5:10501")])
def test_an_address_of_another_machine_is_told_from_ours(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: list[str], named: str
) -> None:
    monkeypatch.setattr(checks, "own_addresses", lambda: own)
    found = judged(WorkerHost(), scheduler, tmp_path, "192.0.2.7:10501")
    assert (found["address"].status, found["address"].found) == ("fail", "192.0.2.7 is not this machine's")
    assert named in (found["address"].fix or "")
    assert (found["port"].status, found["port"].found) == ("ok", "10501 is free"), "of that machine nothing is known"
    for ours in ("127.0.0.1:1", *(["10.0.0.6:1"] if own else [])):
        assert judged(WorkerHost(), scheduler, tmp_path, ours)["address"].found == ours.partition(":")[0]


def test_what_is_shown_of_each_need(scheduler: Scheduler, tmp_path: Path) -> None:
    found = {name: check.found for name, check in judged(WorkerHost(), scheduler, tmp_path).items()}
    assert found["architecture"] == "x86_64" and found["sccache-dist"] == "0.16.0 (/usr/bin/sccache-dist)"
    assert (found["glibc"], found["bubblewrap"]) == ("2.36", "0.8.0")
    assert found["disk"] == "50.0 GiB free" and found["scheduler"] == scheduler.url
    assert (found["sandbox"] or "").startswith("works ")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        port = judged(WorkerHost(), scheduler, tmp_path, f"127.0.0.1:{number}")["port"]
    assert (port.found, port.want) == (f"{number} is taken", "free")


def test_an_unknown_disk_is_no_reason_to_refuse(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host = WorkerHost()
    monkeypatch.setattr(host, "disk", lambda path: None)
    disk = judged(host, scheduler, tmp_path)["disk"]
    assert (disk.status, disk.found, disk.want) == ("warn", "unknown", "12 GiB")


def test_the_last_word_of_a_sandbox_says_why(scheduler: Scheduler, tmp_path: Path) -> None:
    found = judged(WorkerHost(sh="!first\nlast line\n"), scheduler, tmp_path)["sandbox"]
    assert (found.found or "").endswith(": last line") and found.want == "an overlay and user namespaces"
    assert (judged(WorkerHost(sh="!"), scheduler, tmp_path)["sandbox"].found or "").endswith(": no answer")
    (tmp_path / "file").touch()
    below = judged(WorkerHost(), scheduler, tmp_path / "file" / "below")["sandbox"]
    assert below.status == "ok", "the nearest folder is tried"


def test_a_folder_that_nothing_can_be_written_to_is_named(
    scheduler: Scheduler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_more: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("tempfile.TemporaryDirectory", refuse)
    sandbox = judged(WorkerHost(), scheduler, tmp_path)["sandbox"]
    assert (sandbox.status, sandbox.found) == ("fail", f"{tmp_path}: Read-only file system")
    assert sandbox.fix == "another folder: --scratch DIR"
