"""Compilers and caches in corners: places with an "=", a conda's headers, the log of a farm's server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from bare_host import BareHost
from rekindle.host.asking import Asking
from rekindle.host.capture import Record, RecordedHost
from rekindle.host.protocol import Completed
from rekindle.model.farm import FarmCounts
from rekindle.toolkits.compilers import PREFIX_MAP_COMPILER, bring_compiler, keep_place_out
from rekindle.toolkits.libraries import find_nccl
from rekindle.toolkits.programs import Tool
from rekindle.toolkits.sccache import read_compilations


class Obedient(BareHost):
    """A compiler that writes a file's place down as it was told, or as it is."""

    def __init__(self, obeys: bool) -> None:
        super().__init__()
        self.obeys = obeys

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        assert Path(argv[-1]).is_file()
        place = f"there/{Path(argv[-1]).name}" if self.obeys else argv[-1]
        return Completed(argv=tuple(argv), code=0, out=f'"{place}"\n')


def compiler(*release: int) -> Tool:
    return Tool(name="gcc", path="/usr/bin/gcc", version=".".join(map(str, release)), kind="gcc")


def test_a_place_with_an_equals_sign_is_tried_with_the_compiler(tmp_path: Path) -> None:
    new = compiler(*PREFIX_MAP_COMPILER, 1)
    place = tmp_path / "a=b" / "deep"
    for obeys in (True, False, True):
        assert keep_place_out(Obedient(obeys), [new], place) is obeys
        assert place.is_dir() and list(place.iterdir()) == []
    assert keep_place_out(BareHost(), [new], tmp_path / "plain") and not (tmp_path / "plain").exists()
    assert not keep_place_out(BareHost(), [new, compiler(4, 8, 5)], tmp_path / "plain"), "one that is too old"


@pytest.mark.parametrize(("conda", "count"), [({"CONDA_PREFIX": "/opt/conda"}, 1), ({}, 0)])
def test_a_conda_s_headers_count_where_one_is_active(conda: dict[str, str], count: int) -> None:
    text = b"#define NCCL_MAJOR 2\n#define NCCL_MINOR 18\n#define NCCL_PATCH 5\n"
    header = "/opt/conda/include/nccl.h"
    record = Record(files={header: text}, paths={header: None}, env=conda, system="linux", machine="x86_64")
    assert len(find_nccl(Asking(RecordedHost(record)), [])) == count


def test_a_compiler_is_brought_by_its_number_alone() -> None:
    assert bring_compiler(BareHost(), "g++-11") == "install g++-11"
    assert bring_compiler(BareHost(), "/opt/icpx") == "install icpx"


def line(misses: dict[str, int], remote: dict[str, int]) -> str:
    def spelled(counts: dict[str, int]) -> str:
        return ", ".join(f'"{name}": {count}' for name, count in counts.items())

    return (
        f"stats cache_misses: PerLanguageCount {{ counts: {{{spelled(misses)}}}, }}, "
        f"dist_compiles: {{{spelled(remote)}}}\n"
    )


def result(name: str, what: str = "cache miss") -> str:
    return f"[x sccache::server] [{name}]: compile result: {what}\n"


def test_a_server_s_log_tells_language_and_worker_of_each_compilation() -> None:
    log = [
        "noise\n",
        result("a.o"),
        line({"C/C++": 1}, {}),
        result("b.o"),
        line({"C/C++": 1, "PTX": 1}, {"w1": 1}),
        result("c.o", "cache hit"),
        line({"C/C++": 1, "PTX": 1}, {"w1": 1, "w2": 1}),
    ]
    found = read_compilations(log, FarmCounts(remote={"w1": 1, "w2": 1}))
    assert [(each.object, each.language) for each in found] == [("a.o", "C/C++"), ("b.o", "PTX"), ("c.o", None)]
    assert [each.where for each in found[:2]] == ["w1", "w2"]
    assert read_compilations([line({"C": 1}, {})], None) == []
