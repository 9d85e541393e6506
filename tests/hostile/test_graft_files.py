"""Graft files of strangers, changed at random: refused in one line, or applied with the bytes they say."""

from __future__ import annotations

import json
import random
import sys
import zipfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from canary import LONG, in_process, within

sys.path.append(str(Path(__file__).resolve().parents[2] / "tools"))

from binaries import make_entry
from fuzz_documents import mutate, places_in
from gpu_libraries import make_cubin, make_gpu_library
from rekindle import api
from rekindle.graft.pack import write_graft
from rekindle.host.files import sha256_of
from rekindle.index.wheelhouse.catalogue import LIST
from rekindle.model.arch import GpuArch, Sm
from rekindle.model.graft import Making
from tiny_wheels import make_wheel

LIBRARY = "torch/lib/libtorch_cuda.so"
KERNELS = {"scale": (8,)}


@pytest.fixture
def made(tmp_path: Path) -> tuple[Path, Path]:
    """A wheel, and a graft file that fits it."""
    library = make_gpu_library([[make_entry(2, 80, payload=make_cubin(80, KERNELS))]], between=0)
    files = {"torch/__init__.py": b"", "torch/version.py": b"__version__ = '2.12.1+cu130'\n", LIBRARY: library}
    wheel = make_wheel(tmp_path, "torch", "2.12.1", tag="cp312-cp312-manylinux_2_28_aarch64", files=files)
    graft = tmp_path / "torch-2.12.1.sm_90.graft"
    code: dict[tuple[str, int], dict[GpuArch, bytes]] = {(LIBRARY, 0): {Sm(9, 0): make_cubin(90, KERNELS)}}
    making = Making(way="source", archs=("sm_90",), tools={"nvcc": "13.0.88"})
    write_graft(graft, wheel, sha256_of(wheel), code, making, version="2.12.1+cu130.sm90")
    code_, said = in_process("graft", "apply", str(wheel), str(graft), "--out", str(tmp_path / "good"), "-q")
    assert code_ == 0, said
    return wheel, graft


def _changed(graft: Path, draw: random.Random, folder: Path) -> Iterator[Path]:
    """The file with its list changed, with bytes changed, or cut short."""
    raw = graft.read_bytes()
    with zipfile.ZipFile(graft) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    said: dict[str, Any] = json.loads(members["graft.json"])
    places = list(places_in(said))
    target = folder / graft.name
    while True:
        kind = draw.randrange(4)
        if kind < 2:
            with zipfile.ZipFile(target, "w") as archive:
                for name, content in members.items():
                    new = json.dumps(mutate(draw, said, places)).encode() if name == "graft.json" else content
                    archive.writestr(name, new)
        elif kind == 2:
            data = bytearray(raw)
            for _ in range(draw.randrange(1, 5)):
                data[draw.randrange(len(data))] = draw.randrange(256)
            target.write_bytes(data)
        else:
            target.write_bytes(raw[: draw.randrange(len(raw))])
        yield target


def _try_all(wheel: Path, graft: Path, seed: int, count: int) -> Counter[int]:
    folder = wheel.parent / "odd"
    before = {folder, *wheel.parent.rglob("*")}
    folder.mkdir()
    codes = Counter[int]()
    for number, (file, _) in enumerate(zip(_changed(graft, random.Random(seed), folder), range(count), strict=False)):
        house, out = folder / f"house-{number}", folder / f"out-{number}"
        plan = ("plan", "--gpu", "H100", "--os", "linux", "--arch", "aarch64", "--torch", "2.12.1", "--python", "3.12")
        for words in (
            ("graft", "apply", str(wheel), str(file), "--out", str(out), "-q"),
            ("index", "add", str(file), "--root", str(house), "-q"),
            ("index", "build", "--root", str(house), "-q"),
            *([(*plan, "--wheelhouse", str(house), "-q")] if number % 10 == 0 else ()),
        ):
            with within(20):
                code, said = in_process(*words)
            codes[code] += 1
            assert code in (0, 1, 2, 3) and "Traceback" not in said, (words, said)
            if code and words[0] != "plan":
                assert sum(line.startswith("rekindle: ") for line in said.splitlines()) == 1, said
            if words[:2] == ("graft", "apply") and code:
                assert not list(out.glob("*")), "nothing of it is kept"
            if words[1] == "add" and code:
                assert not list(house.rglob("*.graft")), "nothing of it is taken"
    assert {path for path in wheel.parent.rglob("*") if folder not in path.parents and path != folder} == before - {
        folder
    }
    return codes


def test_a_changed_graft_file_is_refused_in_one_line(made: tuple[Path, Path]) -> None:
    codes = _try_all(*made, seed=2026, count=40)
    assert codes[2] > 20, codes


@LONG
def test_a_changed_graft_file_is_refused_in_one_line_in_many_tries(made: tuple[Path, Path]) -> None:
    _try_all(*made, seed=17, count=600)


def test_the_record_of_a_graft_in_a_house_is_no_bug(made: tuple[Path, Path], tmp_path: Path) -> None:
    house = tmp_path / "house"
    api.index_add(str(house), [str(made[1])])
    api.index_build(str(house))
    record = house / LIST
    value = json.loads(record.read_bytes())
    draw, places = random.Random(7), list(places_in(value))
    for _ in range(40):
        record.write_text(json.dumps(mutate(draw, value, places)), encoding="utf-8", errors="replace")
        for verb in ("build", "check"):
            code, said = in_process("index", verb, "--root", str(house), "-q")
            assert code in (0, 1, 2, 3) and "Traceback" not in said, (record.read_text(), said)
