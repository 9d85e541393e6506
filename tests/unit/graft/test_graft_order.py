"""What each card gets and by which toolkit: the fitting one of those here, sources where there is a recipe."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest

from bare_host import BareHost
from gpu_libraries import make_gpu_library
from rekindle.errors import BadInput, MissingTool
from rekindle.formats.wheel import check_wheel
from rekindle.graft.engine import GraftOrder, Tools
from rekindle.graft.hip import HipSourceWay, TwinWay
from rekindle.graft.nvidia import PtxWay, SourceWay
from rekindle.graft.order import amd_order, find_tools, nvidia_order
from rekindle.host.protocol import Completed
from rekindle.model.arch import Sm, parse_gfx
from rekindle.model.graft import GraftOptions
from tiny_wheels import make_wheel

SM_60, SM_90, SM_120 = Sm(6, 0), Sm(9, 0), Sm(12, 0)


class Toolkits(BareHost):
    """Programs by path, each with what it says of its version; ``named`` are those on PATH."""

    def __init__(self, programs: Mapping[str, str], named: Mapping[str, str] | None = None) -> None:
        super().__init__()
        self.programs, self.named = programs, named or {}

    def glob(self, pattern: str) -> tuple[str, ...]:
        if pattern == "/usr/local/cuda*":
            return tuple(dict.fromkeys(str(Path(path).parents[1]) for path in self.programs if "cuda" in path))
        return (pattern,) if pattern in self.programs else ()

    def which(self, name: str) -> str | None:
        return self.named.get(name)

    def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: Mapping[str, str] | None = None) -> Completed:
        said = self.programs.get(argv[-2])
        return Completed(argv=tuple(argv), code=None if said is None else 0, out=said or "")


def _kit(release: str, *names: str, root: str | None = None) -> dict[str, str]:
    where = root or f"/usr/local/cuda-{release}"
    said = f"Cuda compilation tools, release {release}, V{release}.61"
    return {f"{where}/bin/{name}": said for name in names or ("nvcc", "ptxas", "fatbinary")}


def test_the_oldest_toolkit_that_knows_the_card_is_taken() -> None:
    host = Toolkits(_kit("13.0") | _kit("12.8") | _kit("12.4"))
    tools, archs = find_tools(host, [SM_120], None)
    assert (tools.release, archs) == ("12.8", (SM_120,))
    assert tools.ptxas == "/usr/local/cuda-12.8/bin/ptxas" and tools.nvcc == "/usr/local/cuda-12.8/bin/nvcc"
    assert tools.versions == {"ptxas": "12.8.61", "fatbinary": "12.8.61"}


def test_one_that_fits_the_wheel_comes_before_an_older_one() -> None:
    host = Toolkits(_kit("12.8") | _kit("13.0"))
    assert find_tools(host, [SM_90], None, "13.0")[0].release == "13.0"
    assert find_tools(host, [SM_90], None, "12.6")[0].release == "12.8"
    assert find_tools(Toolkits(_kit("12.8")), [SM_90], None, "13.0")[0].release == "12.8", "its PTX can be compiled"


def test_one_that_makes_the_cards_own_code_comes_before_an_older_one() -> None:
    host = Toolkits(_kit("12.6") | _kit("12.9"))
    assert find_tools(host, [Sm(10, 3)], None)[1] == (Sm(10, 3),)


def test_all_cards_are_served_by_one_toolkit() -> None:
    host = Toolkits(_kit("13.0") | _kit("12.8"))
    assert find_tools(host, [SM_60, SM_120], None)[0].release == "12.8", "13 no longer knows Pascal"
    with pytest.raises(MissingTool, match=r"sm_60") as refused:
        find_tools(Toolkits(_kit("13.0")), [SM_120, SM_60], None)
    assert "install CUDA 12.8 or later" in (refused.value.remedy or "")


def test_what_to_install_is_what_serves_every_card() -> None:
    for cards, release in (([SM_90, SM_120], "12.8"), ([SM_90], "11.8")):
        with pytest.raises(MissingTool) as refused:
            find_tools(Toolkits({}), cards, None)
        assert f"install CUDA {release} or later" in (refused.value.remedy or "")


def test_a_given_folder_alone_is_looked_into(tmp_path: Path) -> None:
    programs = _kit("12.8") | _kit("12.9", root=str(tmp_path))
    assert find_tools(Toolkits(programs), [SM_90], tmp_path)[0].release == "12.9"
    assert find_tools(Toolkits(programs), [SM_90], tmp_path / "bin")[0].ptxas == str(tmp_path / "bin/ptxas")
    with pytest.raises(MissingTool, match=f"no ptxas in {tmp_path / 'x'}, which compiles for sm_90, sm_120"):
        find_tools(Toolkits(programs), [SM_90, SM_120], tmp_path / "x")


def test_a_ptxas_on_the_path_is_enough_and_one_that_says_nothing_is_not() -> None:
    alone = _kit("12.8", "ptxas", root="/opt/kit")
    tools, _ = find_tools(Toolkits(alone, {"ptxas": "/opt/kit/bin/ptxas"}), [SM_90], None)
    assert (tools.nvcc, tools.fatbinary, tools.versions) == (None, None, {"ptxas": "12.8.61"})
    for programs in ({}, {"/opt/kit/bin/ptxas": "no version"}):
        with pytest.raises(MissingTool, match="no ptxas on this machine") as refused:
            find_tools(Toolkits(programs, {"ptxas": "/opt/kit/bin/ptxas"}), [SM_120], None, "13.0")
        assert "install CUDA 13.0 or later" in (refused.value.remedy or "")


def test_without_a_ptxas_nothing_else_is_looked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[str] = []

    def nothing(_: Toolkits, pattern: str) -> tuple[str, ...]:
        looked.append(pattern)
        return ()

    monkeypatch.setattr(Toolkits, "glob", nothing)
    with pytest.raises(MissingTool):
        find_tools(Toolkits({}), [SM_90], tmp_path)
    assert {Path(pattern).stem for pattern in looked} == {"ptxas"}


def test_windows_programs_have_their_suffix(tmp_path: Path) -> None:
    programs = {f"{path}.exe": said for path, said in _kit("12.8", root=str(tmp_path)).items()}
    assert find_tools(Toolkits(programs), [SM_90], tmp_path)[0].ptxas == str(tmp_path / "bin/ptxas.exe")


def _nobody(*_: object) -> NoReturn:
    raise AssertionError("nobody gathers sources yet")


def _order(folder: Path, name: str, version: str, said: bytes = b"", metadata: str = "", **more: Any) -> GraftOrder:
    files = {f"{name}/version.py": said, f"{name}/lib/x.so": make_gpu_library([])}
    wheel = make_wheel(folder, name, version, tag="cp312-cp312-linux_x86_64", files=files, metadata=metadata)
    order = GraftOrder(wheel=wheel, targets=(), work=folder, tools=Tools(release=""), run_jobs=_nobody, **more)
    unseen = bool(more.get("dry_run"))
    cards = {"H100": SM_90, "RTX 5090": SM_120}
    host = Toolkits(_kit("12.8") | _kit("13.0"))
    return nvidia_order(order, cards, check_wheel(wheel), host, None, _nobody, unseen=unseen)


def test_torch_with_a_recipe_gets_its_ptx_then_its_sources(tmp_path: Path) -> None:
    made = _order(tmp_path, "torch", "2.12.1", b"cuda = '13.0'\n")
    assert [(target.name, target.arch) for target in made.targets] == [("H100", SM_90), ("RTX 5090", SM_120)]
    assert [type(way) for target in made.targets for way in target.ways] == [PtxWay, SourceWay] * 2
    source = made.targets[0].ways[1]
    assert isinstance(source, SourceWay)
    assert source.toolkit == made.tools.release == "13.0", "the one of the wheel's own CUDA"
    assert source.sources == ("torch 2.12.1 source tree",) and not source.unseen and made.notes == ()


def test_sources_nobody_looked_into_are_told(tmp_path: Path) -> None:
    made = _order(tmp_path, "torch", "2.12.1", b"cuda = '13.0'\n", dry_run=True)
    assert "no source tree was looked into" in made.notes[0]


@pytest.mark.parametrize(("name", "version", "notes"), [("torch", "1.4.0", 1), ("demo", "1.0", 0)])
def test_without_a_recipe_the_ptx_alone_is_used(tmp_path: Path, name: str, version: str, notes: int) -> None:
    made = _order(tmp_path, name, version, dry_run=True)
    assert [type(way) for target in made.targets for way in target.ways] == [PtxWay] * 2
    assert len(made.notes) == notes and all("its PTX alone is used" in note for note in made.notes)


def test_the_closed_libraries_of_torch_alone_are_judged(tmp_path: Path) -> None:
    requires = "Requires-Dist: nvidia-cublas-cu11==11.10.3.66\nProvides-Extra: nvidia-cudnn-cu11==8.5.0.96\n"
    files: dict[str, Any] = {"said": b"cuda = '12.6'\n", "metadata": requires, "dry_run": True}
    judged = {row.name: row for row in _order(tmp_path / "t", "torch", "1.13.1", **files).libraries}
    assert judged["cuBLAS"].version == "11.10.3.66"
    assert judged.get("cuDNN") is None or judged["cuDNN"].version != "8.5.0.96", "only what is required"
    assert _order(tmp_path / "d", "demo", "1.13.1", **files).libraries == ()


# AMD


CLANG = "HIP version: 6.3\nAMD clang version 18.0.0git (x)"


def _amd(folder: Path, host: BareHost, toolkit: Path | None, source: str | None) -> GraftOrder:
    files = {"torch/lib/rocblas/library/Tensile_gfx1030.co": b"x"}
    wheel = make_wheel(folder, "torch", "2.9.1", tag="cp312-cp312-linux_x86_64", files=files)
    order = GraftOrder(wheel=wheel, targets=(), work=folder, tools=Tools(release=""), run_jobs=_nobody)
    chips = {"RX 6700 XT": parse_gfx("gfx1031")}
    options = GraftOptions(toolkit=toolkit, sources=source, headers=(Path("inc"),), defines=("X=1",))
    return amd_order(order, chips, check_wheel(wheel), host, options)


def test_an_amd_card_needs_no_compiler_without_sources(tmp_path: Path) -> None:
    made = _amd(tmp_path, BareHost(), None, None)
    assert [type(way) for way in made.targets[0].ways] == [TwinWay] and made.tools.versions == {}
    assert [(row.name, row.code) for row in made.libraries] == [("rocBLAS", "none")]


@pytest.mark.parametrize("place", ["bin/hipcc", "llvm/bin/clang++", "lib/llvm/bin/clang++"])
def test_rocms_compiler_is_found_in_the_given_folder(tmp_path: Path, place: str) -> None:
    host = Toolkits({str(tmp_path / place): CLANG})
    made = _amd(tmp_path, host, tmp_path, str(tmp_path))
    twin, source = made.targets[0].ways
    assert isinstance(twin, TwinWay) and isinstance(source, HipSourceWay)
    assert (source.clang, source.options) == (str(tmp_path / place), ("-Iinc", "-DX=1"))
    assert source.sources == (f"{tmp_path.name} (sources of the package)",)
    assert made.tools.versions == {"clang": "18.0.0git"}
    assert source.flags == ("-x", "hip", "--cuda-device-only", "-O3", "-DX=1"), "no place of this machine"


def test_rocms_compiler_is_found_on_the_path_and_must_say_its_version(tmp_path: Path) -> None:
    named = {"hipcc": "/usr/bin/hipcc", "amdclang++": "/usr/bin/amdclang++"}
    host = Toolkits({"/usr/bin/hipcc": "nothing", "/usr/bin/amdclang++": CLANG}, named)
    source = _amd(tmp_path, host, None, str(tmp_path)).targets[0].ways[1]
    assert isinstance(source, HipSourceWay) and source.clang == "/usr/bin/amdclang++"
    with pytest.raises(MissingTool, match="no hipcc on this machine"):
        _amd(tmp_path, Toolkits({"/usr/bin/hipcc": "nothing"}, named), None, str(tmp_path))
    with pytest.raises(MissingTool, match="no hipcc in"):
        _amd(tmp_path, host, tmp_path, str(tmp_path))
    with pytest.raises(BadInput, match="no folder with the package's sources"):
        _amd(tmp_path, host, None, str(tmp_path / "none"))
