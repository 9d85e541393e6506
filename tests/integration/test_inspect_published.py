"""Published files against tables made with NVIDIA's own tools, and official wheels against emulated old CPUs.

The small files are read from whatever index pip is set up for. Whole torch wheels are compared where a folder
of them is named by REKINDLE_TEST_WHEELS; they are too large for every run.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from rekindle import api
from rekindle.formats.functions import find_functions
from rekindle.formats.pe import Pe
from rekindle.formats.ranges import Unreachable
from rekindle.inspect.published import find_wheels, open_wheel, pip_places
from rekindle.model.progress import Silent

TRUTH = json.loads((Path(__file__).parent.parent / "truth" / "wheels.json").read_text("utf-8"))
WHEELS = Path(os.environ.get("REKINDLE_TEST_WHEELS", "/nonexistent"))


@pytest.fixture(scope="module")
def index() -> None:
    try:
        find_wheels("nvidia-nvjpeg-cu12==12.4.0.76", pip_places(), python="3.11", platform="win_amd64")
    except Unreachable as error:
        pytest.skip(f"no index answers: {error}")


@pytest.mark.network
@pytest.mark.parametrize("name", list(TRUTH["small"]))
def test_small_published_files(index: None, name: str) -> None:
    row = TRUTH["small"][name]
    report = api.inspect(row["spec"], python="3.11", platform=row["platform"])
    [library] = [one for one in report.gpu.libraries if one.file.endswith(row["file"])]
    counts = {use.arch: use.entries for use in library.uses}
    assert counts == row["entries"]
    # The vendor's tool lists empty images of the device linker and relocatable parts, too. How many of its containers
    # hold kernels is our own reading, kept so that it does not change unseen.
    assert sum(one.count for one in library.sets) == row.get("with_kernels", row["containers"])


@pytest.mark.network
def test_a_published_dll_against_pefile(index: None) -> None:
    pefile = pytest.importorskip("pefile")
    row = TRUTH["small"]["nvjpeg64_12.dll"]
    places = pip_places()
    found = find_wheels(row["spec"], places, python="3.11", platform=row["platform"])[0]
    source = open_wheel(found, places, progress=Silent())
    name = next(name for name in source.files if name.endswith(row["file"]))
    data = source.read(name, 64 << 20)
    assert data is not None
    mine, theirs = Pe(data, name), pefile.PE(data=data)
    assert list(mine.needed) == [entry.dll.decode() for entry in theirs.DIRECTORY_ENTRY_IMPORT]
    exports = {
        (symbol.address, symbol.name.decode()) for symbol in theirs.DIRECTORY_ENTRY_EXPORT.symbols if symbol.name
    }
    assert set(mine.exports) == exports
    base = theirs.OPTIONAL_HEADER.ImageBase
    assert mine.imports == {
        one.address - base: (entry.dll.decode(), one.name.decode())
        for entry in theirs.DIRECTORY_ENTRY_IMPORT
        for one in entry.imports
        if one.name
    }
    assert mine.cookie == theirs.DIRECTORY_ENTRY_LOAD_CONFIG.struct.SecurityCookie - base
    assert [s.address for s in mine.sections] == [s.VirtualAddress for s in theirs.sections]
    table = theirs.OPTIONAL_HEADER.DATA_DIRECTORY[3]
    assert len(find_functions(mine)) >= 0.9 * table.Size / 12


@pytest.mark.network
def test_a_quick_look_reads_little_and_tells_the_declared_list(index: None) -> None:
    report = api.inspect("torch==2.6.0", quick=True, python="3.11", platform="manylinux1_x86_64")
    assert report.version == "2.6.0+cu124"
    assert " ".join(report.gpu.declared) == TRUTH["wheels"]["torch-2.6.0-cp311-cp311-manylinux1_x86_64.whl"]["declared"]
    assert report.read_bytes is not None
    assert report.read_bytes < 0.03 * report.bytes


@pytest.mark.integration
@pytest.mark.parametrize("file", list(TRUTH["wheels"]))
def test_torch_wheels_against_cuobjdump(file: str) -> None:
    path = WHEELS / file
    if not path.exists():
        pytest.skip(f"{file} is not in REKINDLE_TEST_WHEELS")
    report = api.inspect(str(path), cpu=False)
    expected = TRUTH["wheels"][file]
    assert " ".join(report.gpu.declared) == expected["declared"]
    found = {library.file.rsplit("/", 1)[-1]: library for library in report.gpu.libraries}
    for name, sets in expected["sets"].items():
        assert {" ".join(one.archs): one.count for one in found[name].sets} == sets
    assert " ".join(report.gpu.kernels.sass) == expected["declared"]


@pytest.mark.integration
@pytest.mark.parametrize("file", list(TRUTH["cpu"]))
def test_the_one_crash_on_old_cpus_is_found_and_nothing_else(file: str) -> None:
    """Emulation: these wheels import and run on a CPU without AVX; one function, reached unguarded, crashes."""
    path = WHEELS / file
    if not path.exists():
        pytest.skip(f"{file} is not in REKINDLE_TEST_WHEELS")
    cpu = api.inspect(str(path)).cpu
    names = {evidence.function for evidence in cpu.evidence if "avx" in evidence.isa}
    assert TRUTH["cpu"][file]["crashes"] in names
    assert cpu.runs_from in ("x86-64", "x86-64-v2")
    assert cpu.required == () or not {"avx", "avx2", "fma"} & set(cpu.required)
