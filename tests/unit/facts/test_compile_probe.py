"""The tool that asks nvcc whether kernels compile for a card, with a compiler of our own making in nvcc's place."""

from __future__ import annotations

import importlib.util
import json
import tomllib
from pathlib import Path
from types import ModuleType

import msgspec
import pytest

from rekindle.facts import Facts, load_facts
from rekindle.model.arch import Sm, parse_sm
from rekindle.model.version import compare
from rekindle.plan.evidence import evidence
from rekindle.plan.rules_gpu import source_end

TOOLS = Path(__file__).parents[3] / "tools"

NVCC = """#!/usr/bin/env python3
import sys, time
words = sys.argv[1:]
source = open(next(word for word in words if word.endswith(".cu"))).read()
if "sleep" in source:
    time.sleep(60)
if "greedy" in source:
    held = bytearray(3 << 30)
if "old" in source and any("sm_35" in word for word in words):
    print("In file included from somewhere")
    print(f"{sys.path[0]}/src/Old.cuh(7): error: identifier \\"__hadd\\" is undefined")
    sys.exit(2)
if "unoptimised" in source and "-Xcicc" in words:
    sys.exit("unresolved extern function: error: nobody calls it")
open(words[words.index("-o") + 1], "w").write(" ".join(words))
"""


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


pytest.importorskip("resource", reason="the probe limits a compiler's memory as POSIX does")
PROBE = tool("compile_probe")
TABLE = tool("probe_table")
FACTS = load_facts()


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A configured tree whose kernels say how they behave."""
    nvcc = tmp_path / "nvcc"
    nvcc.write_text(NVCC, encoding="utf-8")
    nvcc.chmod(0o755)
    entries = []
    for name in ("good", "old", "sleep", "greedy", "unoptimised"):
        file = tmp_path / f"{name}.cu"
        file.write_text(f"// {name}", encoding="utf-8")
        command = f"ccache {nvcc} -O3 -gencode arch=compute_90,code=sm_90 -x cu -c {file} -o {name}.o -MD -MF {name}.d"
        entries.append({"directory": str(tmp_path), "command": command, "file": str(file)})
    entries.append({"directory": str(tmp_path), "command": "g++ -c a.cpp", "file": "a.cpp"})
    (tmp_path / "compile_commands.json").write_text(json.dumps(entries), encoding="utf-8")
    return tmp_path


def ask(tree: Path, *more: str) -> int:
    answer = PROBE.main([str(tree), "--torch", "9.9", "--cuda", "11.8", "--out", str(tree / "p.toml"), *more])
    assert isinstance(answer, int)
    return answer


def rows(tree: Path) -> dict[str, dict[str, object]]:
    return {row["sm"]: row for row in tomllib.loads((tree / "p.toml").read_text(encoding="utf-8"))["probe"]}


@pytest.mark.parametrize(
    ("level", "ends"),
    [("tree", ["-c"]), ("device", ["-cubin"]), ("quick", ["-Xcicc", "-O0", "-Xptxas", "-O0", "-cubin"])],
)
def test_only_the_architecture_and_the_output_change(level: str, ends: list[str]) -> None:
    words = "ccache /usr/bin/nvcc -DA=1 -gencode arch=compute_90,code=sm_90 -gencode=arch=compute_50,code=sm_50"
    words += " --generate-code=arch=compute_70,code=sm_70 -std=c++17 -x cu -c k.cu -o k.o -MD -MT k.o -MF k.d"
    made = PROBE.probe_command(words.split(), Sm(3, 5), level, Path("out"))
    kept = ["/usr/bin/nvcc", "-DA=1", "-std=c++17", "-x", "cu", "k.cu"]
    assert made == [*kept, "-gencode", "arch=compute_35,code=sm_35", "-o", "out", *ends]


def test_a_card_s_own_variant_is_asked_for_by_its_name() -> None:
    """Code for sm_90 says nothing of sm_90a, and the row would have said it."""
    made = PROBE.probe_command(["nvcc", "-c", "k.cu"], parse_sm("9.0a"), "device", Path("out"))
    assert made[2:4] == ["-gencode", "arch=compute_90a,code=sm_90a"]


def test_a_command_without_nvcc_is_refused() -> None:
    with pytest.raises(ValueError, match="no nvcc"):
        PROBE.probe_command(["g++", "-c", "a.cu"], Sm(3, 5), "quick", Path("out"))


def test_answers_are_kept_by_cell_and_not_asked_again(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(tree, "--sm", "3.5", "--sm", "sm_50", "good.cu", "old.cu") == 1
    found = rows(tree)
    assert list(found["sm_35"]["compiled"]) == ["good.cu"]  # type: ignore[call-overload]
    assert found["sm_35"]["failed"] == {"old.cu": 'src/Old.cuh(7): error: identifier "__hadd" is undefined'}
    assert sorted(found["sm_50"]["compiled"]) == ["good.cu", "old.cu"]  # type: ignore[call-overload]
    assert "failed" not in found["sm_50"] and found["sm_50"]["of"] == 5
    capsys.readouterr()
    assert ask(tree, "--sm", "3.5", "good.cu", "old.cu", "absent.cu") == 0
    said = capsys.readouterr()
    assert said.out == "" and "absent.cu: not in this tree" in said.err
    assert rows(tree) == found


def test_files_that_are_called_alike_are_told_apart(tree: Path) -> None:
    entries = json.loads((tree / "compile_commands.json").read_text(encoding="utf-8"))
    for folder in ("native/cuda", "native/quantized/cuda"):
        file = tree / folder / "Bag.cu"
        file.parent.mkdir(parents=True)
        file.write_text("// good", encoding="utf-8")
        entries.append({**entries[0], "file": str(file)})
    (tree / "compile_commands.json").write_text(json.dumps(entries), encoding="utf-8")
    assert ask(tree, "--sm", "5.0", "good.cu", "quantized/cuda/Bag.cu") == 0
    found = rows(tree)["sm_50"]
    assert found["of"] == 7, "both count"
    assert list(found["compiled"]) == ["good.cu", "quantized/cuda/Bag.cu"]  # type: ignore[call-overload]
    assert PROBE.short_names(["/a/x/k.cu", "/b/x/k.cu", "/b/y/k.cu", "/b/l.cu"]) == {
        "/a/x/k.cu": "a/x/k.cu", "/b/x/k.cu": "b/x/k.cu", "/b/y/k.cu": "y/k.cu", "/b/l.cu": "l.cu",
    }  # fmt: skip


def test_a_whole_build_is_recorded_by_what_ninja_logged(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tree / ".ninja_log").write_text("# ninja log v5\n", encoding="utf-8")
    assert ask(tree, "--built", "--sm", "3.5") == 2
    assert not (tree / "p.toml").exists(), "an empty log is no build"
    lines = [f"0\t{n}\t0\tlib.dir/{name}\tabc" for n, name in enumerate(("b/K.cu.o", "a.cu.o", "c/K.cu.o", "d.cpp.o"))]
    (tree / ".ninja_log").write_text("\n".join(["# ninja log v5", *lines, *lines[:1]]) + "\n", encoding="utf-8")
    assert ask(tree, "--built", "--sm", "3.5", "--sm", "9.0") == 0
    assert ask(tree, "--built", "--sm", "3.5") == 0, "again is the same row"
    found = rows(tree)
    assert set(found) == {"sm_35", "sm_90"}
    for row in found.values():
        assert (row["of"], row["level"], row["built"]) == (3, "tree", ["a.cu", "b/K.cu", "c/K.cu"])
    assert "3 files" in capsys.readouterr().out


def test_files_of_a_whole_build_count_as_compiled() -> None:
    (row,) = [one for one in FACTS.probes.probe if (one.torch, str(one.sm)) == ("1.13.1", "sm_35")]
    assert len(row.good) == row.of == 221
    assert evidence("1.13.1", "11.8", parse_sm("sm_35"), "linux", FACTS).grade in ("compiled", "proven")
    page = TABLE.page(FACTS)
    assert "221 of 221 files were tried: 221 compile, 0 fail." in page


def test_what_only_fails_unoptimised_is_no_failure(tree: Path) -> None:
    assert ask(tree, "--sm", "3.5", "unoptimised.cu") == 0
    assert "failed" not in rows(tree)["sm_35"]


def test_what_takes_too_long_is_cut_and_not_kept_as_an_answer(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(tree, "--sm", "3.5", "--seconds", "1", "sleep.cu") == 1
    assert "not done after 1 s" in capsys.readouterr().out and not (tree / "p.toml").exists()


def test_memory_is_bounded(tree: Path) -> None:
    assert ask(tree, "--sm", "3.5", "--gib", "2", "greedy.cu") == 1
    assert "MemoryError" in str(rows(tree)["sm_35"]["failed"])


def test_no_configured_tree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(tmp_path, "--sm", "3.5") == 2
    assert "no compile_commands.json" in capsys.readouterr().err


def test_the_page_of_evidence_is_what_the_facts_say() -> None:
    assert TABLE.PAGE.read_text(encoding="utf-8") == TABLE.page(FACTS), "run tools/probe_table.py"


@pytest.mark.parametrize("torch", TABLE.TREES)
@pytest.mark.parametrize("sm", TABLE.CARDS, ids=str)
def test_the_planner_and_the_page_agree(torch: str, sm: Sm) -> None:
    """A cell that says built, wheel or probed is no blank for the planner, and one it calls untried claims nothing."""
    said = TABLE.cell(torch, sm, FACTS)
    kit = TABLE.newest_kit(torch, sm, FACTS)
    if kit is None:
        assert said == "–"
        end = source_end(sm, FACTS)
        assert end is not None and end.cuda_last is not None and compare(torch, end.torch_last) > 0
        return
    near_by = TABLE.sibling(torch, sm, FACTS)
    known = [*TABLE.probes(torch, sm, FACTS), *TABLE.wheels(torch, sm, FACTS)]
    known += TABLE.wheels(torch, near_by, FACTS) if near_by else []
    kits = [kit, *(row.cuda for row in known)]
    grades = {found.grade for found in (evidence(torch, one, sm, "linux", FACTS) for one in kits)}
    near = any(evidence(torch, one, sm, "linux", FACTS).near for one in kits)
    if "**built**" in said or "**wheel**" in said:
        assert grades & {"proven", "compiled"}
    elif "**probed**" in said or "**runs older code**" in said:
        assert near or grades != {"untried"}
    else:
        assert grades == {"untried"} and not near and said == "not tried"


def test_cells_follow_the_rows(tmp_path: Path) -> None:
    row = (
        'schema = 1\n[[probe]]\ntorch = "2.6.0"\ncuda = "11.8"\nsm = "sm_35"\nlevel = "quick"\nof = 9\n'
        'source = ["tried"]\ndate = "2026-11-16"\nhow = "measured"\ncompiled = { "Sort.cu" = [1.0, 0.5] }\n'
    )

    def told(more: str) -> str:
        (tmp_path / "probes.toml").write_text(row + more, encoding="utf-8")
        facts = Facts(tmp_path)
        mine = [one for one in facts.probes.probe if one.of == 9]
        only = msgspec.structs.replace(facts.probes, probe=tuple(mine))
        facts.__dict__["probes"] = only
        text = TABLE.cell("2.6.0", parse_sm("sm_35"), facts)
        assert isinstance(text, str)
        return text

    assert told("") == "**probed**: 1 of 9 files tried, all compile, CUDA 11.8"
    assert told('failed = { "Old.cu" = "no" }').startswith("**no**: 2 of 9 files tried, 1 fail, CUDA 11.8")
    left_out = told('failed = { "Old.cu" = "no" }\nwithout = { "Old.cu" = "USE_OLD=0" }')
    assert left_out == "**probed**: 2 of 9 files tried, 1 fail, CUDA 11.8"
