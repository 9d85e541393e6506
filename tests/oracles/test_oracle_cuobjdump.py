"""Our reader of CUDA fat binaries against NVIDIA's own, on a library NVIDIA publishes (CUDA 13, zstd).

`.ci/prepare/inspect.sh` brings both. Older wheels are compared with tables made by this tool and an older one, because
no version of it reads both (tests/integration/test_inspect_published.py).
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import Counter
from pathlib import Path

import pytest
import zstandard

from rekindle import api
from rekindle.formats.binary import open_binary
from rekindle.formats.fatbin import SECTIONS, Entry, read_containers

HOME = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "rekindle-ci" / "cuda" / "nvidia" / "cu13"
TOOL, LIBRARY = HOME / "bin" / "cuobjdump", HOME / "lib" / "libnvjpeg.so.13"
pytestmark = [
    pytest.mark.network,
    pytest.mark.skipif(not TOOL.exists() or not LIBRARY.exists(), reason="needs bash .ci/prepare/inspect.sh"),
]


def listed(kind: str) -> Counter[str]:
    """``sm_75: 11``, as cuobjdump counts the images of one kind (elf or ptx)."""
    said = subprocess.run([TOOL, "-all", f"-l{kind}", LIBRARY], capture_output=True, text=True, check=True).stdout
    names = re.findall(rf"\.(sm_\d+[af]?)\.(?:{'cubin' if kind == 'elf' else 'ptx'})$", said, re.MULTILINE)
    assert len(names) == len(said.splitlines()), "a line this test cannot read"
    return Counter(names)


def test_counts_of_every_architecture() -> None:
    report = api.inspect(str(LIBRARY), cpu=False)
    [library] = report.gpu.libraries
    mine = {use.arch: use.entries for use in library.uses}
    theirs = listed("elf") + Counter({name.replace("sm_", "compute_"): n for name, n in listed("ptx").items()})
    assert mine == theirs
    assert set(library.compression) == {"zstd", "none"}
    assert sum(library.compression.values()) == theirs.total()


def test_images_begin_and_end_where_we_say(tmp_path: Path) -> None:
    """Every image cuobjdump takes out is one of ours, byte for byte."""
    subprocess.run([TOOL, "-all", "-xelf", "sm_90", LIBRARY], cwd=tmp_path, capture_output=True, check=True)
    theirs = sorted(path.read_bytes() for path in tmp_path.iterdir())
    data = LIBRARY.read_bytes()
    binary = open_binary(data, "libnvjpeg")
    assert binary is not None
    mine = []
    for section in binary.sections:
        if section.name in SECTIONS:
            for container in read_containers(data, *binary.content(section)):  # type: ignore[arg-type]
                mine += [_image(data, entry) for entry in container.entries if entry.name == "sm_90"]
    assert len(mine) == 11
    assert sorted(mine) == theirs


def _image(data: bytes, entry: Entry) -> bytes:
    start = entry.offset + entry.header
    stored = data[start : start + entry.size]
    if entry.compression != "zstd":
        return stored
    return zstandard.ZstdDecompressor().stream_reader(stored[: entry.stored]).read()
