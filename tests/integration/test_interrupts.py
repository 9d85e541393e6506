"""Ctrl-C in every verb that takes long: over at once, said in one line, nothing after it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
import venv
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(os.name == "nt", reason="tests/windows/test_win_interrupt.py has Windows' own"),
]


class Mute:
    """A server that takes every connection and says nothing."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._taken: list[socket.socket] = []
        self.asked = threading.Event()
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                self._taken.append(self._socket.accept()[0])
            except OSError:
                return
            self.asked.set()

    def close(self) -> None:
        for each in (self._socket, *self._taken):
            each.close()


@pytest.fixture
def mute() -> Iterator[Mute]:
    server = Mute()
    yield server
    server.close()


# What waits for the network is interrupted there; the others when they have said something.
LONG = {
    "plan a wheelhouse": ("plan", "--gpu", "sm_61", "--wheelhouse", "URL"),
    "plan proofs": ("plan", "--gpu", "sm_61", "--proofs", "URL"),
    "index search": ("index", "search", "torch", "--root", "URL"),
    "inspect": ("inspect", "torch==2.6.0"),
    "pack": ("pack", "--gpu", "none", "--os", "linux", "--python", "3.12", "--index", "URL", "--out", "pack", "--yes"),
    "graft": ("graft", "torch==2.6.0", "--gpu", "sm_61", "--index", "URL"),
    "up": ("up", "--dry-run", "--index", "URL"),
    "adopt": ("adopt", "app", "--python", "app/.venv/bin/python", "--index", "URL"),
    "index page": ("index", "page", "--out", "page.html"),
    "export table": ("export", "table", "--out", "table.json"),
}


@pytest.mark.parametrize("verb", LONG)
def test_an_interrupt_ends_it_at_once(verb: str, mute: Mute, tmp_path: Path) -> None:
    for name in ("main.py", "nodes.py", "comfy/model_management.py", "folder_paths.py", "requirements.txt"):
        (tmp_path / "app" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "app" / name).write_text("torch\n" if name.endswith("txt") else "")
    if verb == "adopt":
        venv.create(tmp_path / "app" / ".venv", with_pip=False)
    words = [mute.url if word == "URL" else word for word in LONG[verb]]
    env = {**os.environ, "HOME": str(tmp_path / "home"), "PIP_INDEX_URL": mute.url, "PIP_CONFIG_FILE": os.devnull}
    running = subprocess.Popen(
        [sys.executable, "-m", "rekindle", *words],
        cwd=tmp_path, env=env, text=True, start_new_session=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert running.stderr is not None
    begun = ""
    if mute.url in words or verb == "inspect":
        while not mute.asked.wait(0.05):
            assert running.poll() is None, running.communicate()
    else:
        begun = running.stderr.readline()
        time.sleep(1)
    os.killpg(running.pid, signal.SIGINT)  # as a terminal does: to all of them
    out, err = running.communicate(timeout=30)
    said = (begun + err).strip().splitlines()
    assert running.returncode == 3, (out, err)
    assert "interrupted" in said[-1] and "Traceback" not in err, err
    assert not (tmp_path / "page.html").exists() and not (tmp_path / "table.json").exists()
