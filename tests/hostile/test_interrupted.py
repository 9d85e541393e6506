"""Killed, doubled and watched while they write: bundle and the wheelhouse leave the old state or the new one."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path

import pytest

import needs
from binaries import make_elf
from rekindle import api
from rekindle.index.server import open_server
from rekindle.index.wheelhouse.store import Wheelhouse
from tiny_wheels import make_wheel

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="kills as POSIX systems know them")
KILLS = 8


def _killed(argv: list[str], after: float) -> bool:
    """Whether it was still at work after so many seconds."""
    process = subprocess.Popen([sys.executable, "-m", "rekindle", *argv, "-q"], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return True
    return False


def _moments(argv: list[str], draw: random.Random) -> list[float]:
    """Moments of a whole run, mostly from the part after its imports."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-m", "rekindle", *argv, "-q"], check=False, capture_output=True)
    whole = time.monotonic() - begun
    return [whole * draw.uniform(0.3, 1.0) for _ in range(KILLS)]


@needs.tool("patchelf")
def test_a_bundle_killed_at_any_moment_leaves_no_half_wheel(tmp_path: Path) -> None:
    lib, out = tmp_path / "lib", tmp_path / "out"
    lib.mkdir()
    (lib / "libcudart.so.11.0").write_bytes(make_elf(soname="libcudart.so.11.0", needed=["libc.so.6"]))
    rng = random.Random(3)
    files = {
        "torch/__init__.py": b"",
        "torch/lib/libtorch.so": make_elf(needed=["libcudart.so.11.0"], rpath="$ORIGIN"),
        "torch/lib/weights.bin": rng.randbytes(8 << 20),
    }
    wheel = make_wheel(tmp_path, "torch", "2.0.1", tag="cp311-cp311-linux_x86_64", files=files)
    before = wheel.read_bytes()
    argv = ["bundle", str(wheel), "--out", str(out), "--library-path", str(lib)]
    old = out / ".bundle-old"
    old.mkdir(parents=True)
    os.utime(old, (1, 1))
    moments = _moments(argv, rng)
    [good] = out.glob("*.whl")
    assert not old.exists(), "what a kill left is gone a day later"
    wanted = good.read_bytes()
    for after in moments:
        shutil.rmtree(out, ignore_errors=True)
        _killed(argv, after)
        for made in out.glob("*.whl"):
            assert made.read_bytes() == wanted, "what has the name is whole"
    assert not _killed(argv, 120)
    assert [path.read_bytes() for path in out.glob("*.whl")] == [wanted]
    assert wheel.read_bytes() == before


def _offered(house: Path) -> dict[str, str]:
    """What the JSON page of the house offers, with the digests it says."""
    page = json.loads((house / "simple" / "torch" / "index.json").read_text(encoding="utf-8"))
    return {row["filename"]: row["hashes"]["sha256"] for row in page["files"]}


def test_a_wheelhouse_killed_at_any_moment_offers_only_what_is_there(tmp_path: Path) -> None:
    house, rng = tmp_path / "house", random.Random(5)
    wheels = [make_wheel(tmp_path, "torch", f"2.{number}") for number in range(3)]
    api.index_add(str(house), [str(wheels[0])])
    api.index_build(str(house))
    for argv in (["index", "add", str(wheels[1]), str(wheels[2]), "--root", str(house)],
                 ["index", "build", "--root", str(house)]):  # fmt: skip
        copy = tmp_path / "measured"
        shutil.copytree(house, copy, symlinks=True)
        moments = _moments([word.replace(str(house), str(copy)) for word in argv], rng)
        shutil.rmtree(copy)
        for after in moments:
            _killed(argv, after)
            for name, sha256 in _offered(house).items():
                data = (house / "wheels" / "torch" / name).read_bytes()
                assert hashlib.sha256(data).hexdigest() == sha256
        assert not _killed(argv, 120)
    assert len(_offered(house)) == 3
    # What kills left may be another's that is still growing; after a day it is not.
    for path in (house / ".incoming").iterdir():
        os.utime(path, (1, 1))
    api.index_add(str(house), [str(wheels[0])])
    assert not list((house / ".incoming").iterdir())


def test_two_that_add_at_once_both_arrive(tmp_path: Path) -> None:
    house = tmp_path / "house"
    wheels = [make_wheel(tmp_path, "torch", f"2.{number}") for number in range(3)]
    running = [
        subprocess.Popen([sys.executable, "-m", "rekindle", "index", "add", str(wheel), "--root", str(house), "-q"],
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for wheel in wheels
    ]  # fmt: skip
    for process in running:
        said, _ = process.communicate(timeout=120)
        assert process.returncode == 0 or "another" in said, said  # one that found it taken says so and may try again
    added = sum(process.returncode == 0 for process in running)
    assert len(list((house / "records" / "torch").glob("*.json"))) == added >= 1


def test_what_is_served_while_it_is_written_is_whole(tmp_path: Path) -> None:
    """A writer adds, yanks and builds in a loop; every page a reader gets leads to wheels with the digests it says."""
    house = tmp_path / "house"
    wheels = [str(make_wheel(tmp_path, "torch", f"2.{number}")) for number in range(6)]
    api.index_add(str(house), wheels[:1])
    api.index_build(str(house))
    server = open_server(Wheelhouse(house), "127.0.0.1", 0)
    threading.Thread(target=lambda: server.serve_forever(poll_interval=0.02), daemon=True).start()
    errors: list[str] = []

    def write() -> None:
        try:
            for wheel in wheels[1:]:
                api.index_add(str(house), [wheel])
                api.index_build(str(house))
        except Exception as error:  # noqa: BLE001 (told below, in the test's own thread)
            errors.append(repr(error))

    writer = threading.Thread(target=write)
    writer.start()
    pages = 0
    try:
        while writer.is_alive() or pages < 3:
            page = json.loads(_get(server.server_address[1], "/simple/torch/index.json"))
            for row in page["files"]:
                data = _get(server.server_address[1], f"/simple/torch/{row['url']}")
                assert hashlib.sha256(data).hexdigest() == row["hashes"]["sha256"]
                assert zipfile.is_zipfile(house / "wheels" / "torch" / row["filename"])
            assert b"</html>" in _get(server.server_address[1], "/simple/torch/")
            pages += 1
    finally:
        writer.join()
        server.shutdown()
        server.server_close()
    assert not errors
    assert len(_offered(house)) == len(wheels)


def _get(port: int, path: str) -> bytes:
    from posixpath import normpath

    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    whole = normpath(path.split("#")[0]) + ("/" if path.endswith("/") else "")
    connection.request("GET", whole)
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    assert answer.status == 200, (whole, answer.status)
    return data
