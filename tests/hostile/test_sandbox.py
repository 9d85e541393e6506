"""A stranger's wheel under ``verify``: its code runs, and finds no network, no home, no token and nobody to harm."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import tarfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from rekindle import api
from rekindle.errors import BadInput, MissingTool, Unprepared
from rekindle.host import made, sandbox
from rekindle.host.live import LiveHost
from rekindle.verify import environment
from tiny_wheels import make_wheel

pytestmark = pytest.mark.integration

# What a hostile package tries as soon as it is imported; what it got, it tells by failing.
SPY = """
import json, os, socket
def tried(act):
    try:
        return act() or True
    except Exception as error:
        return "no: " + type(error).__name__
def connect():
    socket.create_connection(("127.0.0.1", {port}), 5).close()
got = dict(
    home=tried(lambda: open({secret!r}).read()),
    network=tried(connect),
    token=os.environ.get("HF_TOKEN", "no"),
    write=tried(lambda: open({canary!r}, "w").write("x")),
    system=tried(lambda: open({system!r}, "w").write("x")),
    shadow=tried(lambda: open("/etc/shadow").read() and "read"),
    parent=tried(lambda: os.kill({pid}, 0) or "seen"),
    own_tmp=tried(lambda: open({own_tmp!r}, "w").write("x") and "written"),
    gpus=[name for name in os.listdir("/dev") if name.startswith(("nvidia", "kfd", "dri"))],
)
raise RuntimeError("GOT" + json.dumps(got))
"""


@pytest.fixture
def data_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture
def listener() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_answer, args=(server,), daemon=True).start()
        yield server.getsockname()[1]


def _answer(server: socket.socket) -> None:
    try:
        while True:
            server.accept()[0].close()
    except OSError:
        return


def _need_bubblewrap(tmp_path: Path) -> None:
    if shutil.which("bwrap") is None:
        pytest.skip("needs bubblewrap")
    found, words = sandbox.find_sandbox("auto", shown=(), gpu=False, probe=["/usr/bin/env"], work=tmp_path)
    if found is None:
        pytest.skip(words)


def _spy(folder: Path, port: int, monkeypatch: pytest.MonkeyPatch, apart: bool = False) -> Path:
    home = folder / "house"
    home.mkdir()
    (home / "secret").write_text("s3cret")
    monkeypatch.setenv("HF_TOKEN", "hf_abc")
    code = SPY.format(
        port=port,
        secret=str(home / "secret"),
        canary=str(folder / "canary"),
        pid=os.getpid(),
        # Tried only where they must fail, or are not ours to clean up.
        system="/usr/lib/rekindle-canary" if apart else str(folder / "system"),
        own_tmp=f"/tmp/{folder.name}" if apart else str(folder / "own"),
    )
    files = {
        "spark/__init__.py": code.encode(),
        "zz.pth": f"import pathlib; pathlib.Path({str(folder / 'pth')!r}).touch()".encode(),
    }
    return make_wheel(folder, "spark-miniature", "0.3.0", files=files)


def _got(report: object) -> dict[str, object]:
    text = json.dumps(str(report))
    found = re.search(r"GOT(\{.*?\})", str(report).replace("\\", ""))
    assert found, text
    return dict(json.loads(found[1]))


def _said(
    wheel: Path, *, gpu: bool | None = None, box: sandbox.Wish = "auto"
) -> tuple[dict[str, object], dict[str, str]]:
    report = api.verify(wheel=wheel, dependencies=False, gpu=gpu, sandbox=box)
    assert not report.good
    detail = next(check.detail for check in report.checks if check.id.startswith("import."))
    return _got(detail), report.environment


def test_a_strange_wheel_reaches_nothing(data_home: Path, listener: int, monkeypatch: pytest.MonkeyPatch) -> None:
    _need_bubblewrap(data_home)
    wheel = _spy(data_home, listener, monkeypatch, apart=True)
    got, about = _said(wheel, gpu=False)
    assert about["sandbox"].startswith("bubblewrap: no network, no home")
    refused = {name: str(value).split(":")[0] for name, value in got.items() if name not in ("own_tmp", "gpus")}
    assert set(refused.values()) == {"no"}, refused
    assert got["own_tmp"] == "written" and got["gpus"] == []
    assert not (data_home / "canary").exists() and not (data_home / "pth").exists()
    assert not Path("/tmp", data_home.name).exists()


def test_the_same_wheel_reaches_all_of_it_where_it_is_trusted(
    data_home: Path, listener: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without this the test above might pass because the spy is blind."""
    wheel = _spy(data_home, listener, monkeypatch)
    monkeypatch.setattr("tempfile.tempdir", str(data_home))
    got, about = _said(wheel, box="no")
    assert about["sandbox"] == "none: switched off"
    assert (got["home"], got["network"], got["token"], got["parent"]) == ("s3cret", True, "hf_abc", "seen")
    assert (data_home / "canary").exists() and (data_home / "pth").exists()


def test_a_wheel_built_here_needs_no_sandbox(data_home: Path, listener: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from rekindle.host.files import sha256_of

    wheel = _spy(data_home, listener, monkeypatch)
    made.mark_made(sha256_of(wheel))
    got, about = _said(wheel)
    assert "sandbox" not in about and got["network"] is True


def test_one_file_cannot_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _need_bubblewrap(tmp_path)
    monkeypatch.setattr(sandbox, "FILE_BYTES", 1 << 20)
    box, _ = sandbox.find_sandbox("auto", shown=(), gpu=False, probe=["/usr/bin/env"], work=tmp_path)
    assert box is not None
    argv, env = box.wrap(["/usr/bin/head", "-c", "3000000", "/dev/zero"], work=tmp_path, env={"PATH": "/usr/bin:/bin"})
    with (tmp_path / "log").open("wb") as log:
        done = subprocess.run(argv, env=env, stdout=log, stderr=subprocess.DEVNULL, check=False)
    assert done.returncode != 0
    assert (tmp_path / "log").stat().st_size == 1 << 20


def test_where_there_is_no_bubblewrap_it_is_said(
    data_home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from rekindle.cli.main import main

    monkeypatch.setattr(sandbox, "PROGRAM", "no-such-program")
    wheel = make_wheel(data_home, "spark-miniature", "0.3.0", files={"spark/__init__.py": b"raise RuntimeError('x')"})
    assert main(["verify", "--wheel", str(wheel), "--no-deps", "--color", "never"]) == 1
    said = capsys.readouterr()
    assert "bubblewrap is not installed" in said.out and "your rights" in said.err
    with pytest.raises(MissingTool, match="no sandbox here"):
        api.verify(wheel=wheel, dependencies=False, sandbox="yes")


def test_a_bubblewrap_that_may_not_work_is_no_sandbox(data_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In most containers the kernel says no."""
    broken = data_home / "bin" / "bwrap"
    broken.parent.mkdir()
    broken.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{broken.parent}:{os.environ['PATH']}")
    found, words = sandbox.find_sandbox("auto", shown=(), gpu=False, probe=["/bin/true"], work=data_home)
    assert found is None and "No permissions to create new namespace" in words


@pytest.mark.parametrize("wanted", ["evil @ file:///tmp/evil", "evil @ git+https://example.org/evil.git"])
def test_a_strange_wheel_brings_no_dependency_from_a_place_of_its_own(data_home: Path, wanted: str) -> None:
    wheel = make_wheel(data_home, "spark-miniature", "0.3.0", metadata=f"Requires-Dist: {wanted}\n")
    with pytest.raises(BadInput, match="a place of its own choosing"):
        api.verify(wheel=wheel)


INSTALLERS = ["uv", "ours", "own"]


def _choose_installer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """uv, the pip beside us, or the environment's own."""
    if name == "uv" and shutil.which("uv") is None:
        pytest.skip("needs uv on PATH")
    if name != "uv":
        monkeypatch.setattr(LiveHost, "which", lambda self, program: None if program == "uv" else shutil.which(program))
    monkeypatch.setattr(environment, "our_pip_serves", lambda release: name == "ours")


def _evil_sources(folder: Path) -> Path:
    """A source archive whose setup.py leaves a mark in the user's home; the mark says with which variables it ran."""
    project = folder / "evil-1.0"
    project.mkdir()
    (project / "PKG-INFO").write_text("Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n")
    (project / "setup.py").write_text(
        f"open({str(folder / 'ran')!r}, 'w'); import setuptools; setuptools.setup(name='evil', version='1.0')"
    )
    (project / "pyproject.toml").write_text(
        "[build-system]\nrequires = []\nbuild-backend = 'setup'\nbackend-path = ['.']\n"
    )
    archive = folder / "evil-1.0.tar.gz"
    with tarfile.open(archive, "w:gz") as file:
        file.add(project, "evil-1.0")
    return archive


@pytest.mark.parametrize("installer", INSTALLERS)
def test_a_dependency_of_a_strange_wheel_is_never_built(
    data_home: Path, installer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _choose_installer(installer, monkeypatch)
    links = data_home / "links"
    links.mkdir()
    _evil_sources(data_home).rename(links / "evil-1.0.tar.gz")
    wheel = make_wheel(data_home, "spark-miniature", "0.3.0", metadata="Requires-Dist: evil\n")
    with pytest.raises(Unprepared):
        api.verify(wheel=wheel, find_links=[str(links)])
    assert not (data_home / "ran").exists()


@pytest.mark.parametrize(
    ("what", "installer", "box"),
    [
        *((what, installer, "auto") for what in ("sources", "wheel") for installer in INSTALLERS),
        ("folder", "ours", "auto"),
        ("repository", "ours", "auto"),
        ("sources", "ours", "yes"),
    ],
)
def test_no_requirement_of_a_requirement_brings_what_it_likes(
    data_home: Path, what: str, installer: str, box: sandbox.Wish, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spark → innocent (a wheel at hand) → evil, at an address of innocent's choosing."""
    _choose_installer(installer, monkeypatch)
    if box == "yes":
        _need_bubblewrap(data_home)
        monkeypatch.setattr("rekindle.verify.environment.was_made_here", lambda digest: True)
    address = _evil_sources(data_home).as_uri()
    if what == "wheel":
        address = make_wheel(data_home, "evil", "1.0").as_uri()
    elif what == "folder":
        address = (data_home / "evil-1.0").as_uri()
    elif what == "repository":
        address = "git+http://127.0.0.1:9/evil.git"
    make_wheel(data_home / "links", "innocent", "1.0", metadata=f"Requires-Dist: evil @ {address}\n")
    wheel = make_wheel(data_home, "spark-miniature", "0.3.0", metadata="Requires-Dist: innocent\n")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises((BadInput, Unprepared)) as refused:
        api.verify(wheel=wheel, find_links=[str(data_home / "links")], sandbox=box)
    assert not (data_home / "ran").exists(), "its setup.py ran with the rights of the user"
    if installer != "uv":
        assert "outside any sandbox" in refused.value.message or "its own choosing" in refused.value.message
        assert "--no-deps" in (refused.value.remedy or "")


@pytest.mark.parametrize("installer", INSTALLERS)
def test_wheels_of_requirements_are_taken_and_the_report_says_how(
    data_home: Path, installer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _choose_installer(installer, monkeypatch)
    make_wheel(data_home / "links", "second", "1.0")
    make_wheel(data_home / "links", "first", "1.0", metadata="Requires-Dist: second>=1\n")
    files = {"spark/__init__.py": b"import first, second\nraise RuntimeError('both are there')\n"}
    wheel = make_wheel(data_home, "spark-miniature", "0.3.0", metadata="Requires-Dist: first\n", files=files)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    report = api.verify(wheel=wheel, find_links=[str(data_home / "links")])
    assert any("both are there" in check.detail for check in report.checks)
    assert report.environment["installed"] == "wheels only, and no program ran meanwhile"
    trusted = api.verify(wheel=wheel, find_links=[str(data_home / "links")], sandbox="no")
    assert "installed" not in trusted.environment
