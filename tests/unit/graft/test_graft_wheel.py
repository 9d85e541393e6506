"""A graft from PTX on a made wheel: what is added, what is refused, and what a stranger's graft file cannot do."""

from __future__ import annotations

import csv
import dataclasses
import io
import json
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from binaries import make_entry
from gpu_libraries import make_cubin, make_gpu_library, ptx_entry
from rekindle.errors import BadInput, StageFailed
from rekindle.facts import load_facts
from rekindle.formats.wheel import check_wheel
from rekindle.graft.compile import Job
from rekindle.graft.engine import CardTarget, GraftOrder, Tools, apply_file, carry_out
from rekindle.graft.library import GpuLibrary, Way
from rekindle.graft.nvidia import PtxWay
from rekindle.graft.pack import read_graft
from rekindle.model.arch import Sm
from rekindle.model.graft import GraftReport, LibraryBeside
from rekindle.model.progress import Silent
from tiny_wheels import make_wheel

UNITS = ("91c5f4d9_8_First_cu_54a8c5b0_77", "91c5f4d9_9_Second_cu_54a8c5b0")
KERNELS = {"scale": (8, 4)}
SM_120 = Sm(12, 0)


def _library(relr: bool = False) -> bytes:
    """Two units with sm_80 and PTX, one with sm_80 alone, one that runs on sm_120 already."""
    official = [make_cubin(80, KERNELS, unit=unit) for unit in UNITS]
    containers = [[make_entry(2, 80, payload=image), ptx_entry(80, options=b"-v -O2 --evil=1\0")] for image in official]
    containers.append([make_entry(2, 80, payload=official[0])])
    containers.append([make_entry(2, 120, payload=make_cubin(120, KERNELS))])
    return make_gpu_library(containers, relr=relr)


def _wheel(folder: Path, **more: Any) -> Path:
    files = {
        "demo/__init__.py": b"",
        "demo/version.py": b"__version__ = '1.0+cu130'\n",
        "demo/lib/libdemo.so": _library(),
        "demo/_C.so": _library(relr=True),
        "demo.libs/libcudart-1234.so.12": make_gpu_library(),
        "demo/plain.so": b"\x7fELF" + bytes(5000),
    }
    return make_wheel(folder, "demo", "1.0", tag="cp311-cp311-linux_x86_64", files=files | more)


def _compiler(image: Callable[[str], bytes], failed: Mapping[str, str] | None = None) -> Any:
    """Instead of Ninja: writes each output as ``image`` says."""

    def run(folder: Path, jobs: Sequence[Job]) -> Mapping[str, str]:
        for job in jobs:
            if job.output not in (failed or {}):
                (folder / job.output).write_bytes(image(job.output))
        return failed or {}

    return run


def _good(output: str) -> bytes:
    return make_cubin(120, KERNELS, unit=UNITS[int(output.rsplit("-", 1)[1].split(".")[0]) % 2], first_offset=32)


def _target(arch: Sm, name: str) -> CardTarget:
    way = PtxWay(card=arch, arch=arch, ptxas="ptxas", facts=load_facts())
    return CardTarget(name=name, arch=arch, ways=(way,))


def _order(wheel: Path, folder: Path, **more: Any) -> GraftOrder:
    told: dict[str, Any] = {
        "wheel": wheel,
        "targets": (_target(SM_120, "RTX 5090"),),
        "work": folder / "work",
        "tools": Tools(release="13.0", ptxas="ptxas", versions={"ptxas": "13.0.88"}),
        "run_jobs": _compiler(_good),
        "out": folder / "out",
    }
    return GraftOrder(**told | more)


def _grafted(folder: Path) -> tuple[Path, GraftReport]:
    wheel = _wheel(folder)
    return wheel, carry_out(_order(wheel, folder), Silent())


def test_every_unit_with_ptx_gets_code(tmp_path: Path) -> None:
    wheel, report = _grafted(tmp_path)
    states = {(Path(one.library).name, one.container): (one.state, one.unit) for one in report.units}
    for name in ("libdemo.so", "_C.so"):
        assert states[name, 0] == ("added", "First_cu") and states[name, 1] == ("added", "Second_cu")
        assert states[name, 2][0] == "left-out" and states[name, 3][0] == "has"
    assert any("libcudart" in note and "stays" in note for note in report.notes)
    assert report.out and Path(report.out).name == "demo-1.0+cu130.sm120-cp311-cp311-linux_x86_64.whl"
    check_wheel(Path(report.out))
    with zipfile.ZipFile(report.out) as archive, zipfile.ZipFile(wheel) as official:
        info = "demo-1.0+cu130.sm120.dist-info"
        assert b"Version: 1.0+cu130.sm120\n" in archive.read(f"{info}/METADATA")
        assert archive.read("demo/plain.so") == official.read("demo/plain.so")
        said = json.loads(archive.read(f"{info}/rekindle-graft.json"))
        assert said["schema"] == 1 and said["wheel_sha256"] == report.wheel_sha256 and len(said["entries"]) == 4
        rows = {row[0] for row in csv.reader(io.StringIO(archive.read(f"{info}/RECORD").decode()))}
        assert rows == set(archive.namelist()) and not any("demo-1.0.dist-info" in name for name in rows)
        (tmp_path / "grafted.so").write_bytes(archive.read("demo/lib/libdemo.so"))
    with GpuLibrary(tmp_path / "grafted.so", "grafted.so") as library:
        library.check_pointers()
        assert [[entry.name for entry in unit.container.entries] for unit in library.units] == [
            ["sm_80", "compute_80", "sm_120"],
            ["sm_80", "compute_80", "sm_120"],
            ["sm_80"],
            ["sm_120"],
        ]
        assert library.image(library.units[0].sass[-1])[:64] == _good("-0.")[:64]


def test_two_cards_get_their_code_in_one_pass(tmp_path: Path) -> None:
    def made(output: str) -> bytes:
        number = 100 if "sm_100" in output else 120
        unit = UNITS[int(output.rsplit("-", 1)[1].split(".")[0]) % 2]
        return make_cubin(number, KERNELS, unit=unit, first_offset=32)

    targets = (_target(Sm(10, 0), "B200"), _target(SM_120, "RTX 5090"))
    order = _order(_wheel(tmp_path), tmp_path, targets=targets, run_jobs=_compiler(made))
    report = carry_out(order, Silent())
    assert (report.card, report.arch) == ("B200, RTX 5090", "sm_100, sm_120")
    assert report.out and "+cu130.sm100.sm120-" in report.out
    added = [(one.container, one.arch) for one in report.units if one.library.endswith("libdemo.so")]
    assert sorted(added) == [(unit, arch) for unit in range(4) for arch in ("sm_100", "sm_120")]
    with zipfile.ZipFile(report.out) as archive:
        (tmp_path / "grafted.so").write_bytes(archive.read("demo/lib/libdemo.so"))
    with GpuLibrary(tmp_path / "grafted.so", "grafted.so") as library:
        assert [entry.name for entry in library.units[0].container.entries][2:] == ["sm_100", "sm_120"]


def test_exchanged_requirements_are_in_the_wheel_and_in_its_graft_file(tmp_path: Path) -> None:
    wheel = make_wheel(
        tmp_path,
        "torch",
        "1.0",
        tag="cp311-cp311-linux_x86_64",
        metadata="Requires-Dist: nvidia-demo-cu11==1.0; os_name == 'posix'\n",
        files={"torch/__init__.py": b"from torch import cuda\n", "torch/lib/libdemo.so": _library()},
    )
    beside = LibraryBeside(
        name="Demo", package="nvidia-demo-cu11", version="1.0", arch="sm_120", code="native", exchanged="1.1"
    )
    dead = LibraryBeside(name="cuDNN", arch="sm_120", code="none", off=True, switch="cudnn", why="nothing serves it")
    report = carry_out(_order(wheel, tmp_path, libraries=(beside, dead)), Silent())
    assert report.out and report.graft
    with zipfile.ZipFile(report.out) as archive:
        metadata = archive.read("torch-1.0+sm120.dist-info/METADATA").decode()
        assert "Requires-Dist: nvidia-demo-cu11==1.1; os_name == 'posix'" in metadata
        assert b"backends.cudnn.enabled = False" in archive.read("torch/__init__.py")
    again = apply_file(wheel, Path(report.graft), tmp_path / "again", Silent())
    assert again.sha256 == report.sha256 and again.libraries == report.libraries


def test_the_statement_names_the_official_wheel(tmp_path: Path) -> None:
    _, report = _grafted(tmp_path)
    assert report.provenance
    said = json.loads(Path(report.provenance).read_bytes())
    assert said["subject"] == [{"name": Path(report.out or "").name, "digest": {"sha256": report.sha256}}]
    definition = said["predicate"]["buildDefinition"]
    assert definition["buildType"] == "rekindle/graft/v1"
    assert definition["resolvedDependencies"][0]["digest"] == {"sha256": report.wheel_sha256}


class _IdleWay(Way):
    """A way that makes nothing of any library."""

    kind = "source"
    sources = ("a tree",)

    @property
    def flags(self) -> tuple[str, ...]:
        return ("-DNOT_USED",)

    def judge(self, library: GpuLibrary) -> list[Any]:
        return []

    def jobs(self, *_: object) -> list[Job]:
        return []


def test_sources_are_not_asked_for_where_ptx_serves(tmp_path: Path) -> None:
    class Refuses(_IdleWay):
        def judge(self, library: GpuLibrary) -> list[Any]:
            raise AssertionError("every unit of this library has PTX")

    official = make_cubin(80, KERNELS, unit=UNITS[0])
    library = make_gpu_library([[make_entry(2, 80, payload=official), ptx_entry(80)]])
    wheel = make_wheel(tmp_path, "demo", "1.0", tag="cp311-cp311-linux_x86_64", files={"demo/lib.so": library})
    target = _target(SM_120, "RTX 5090")
    both = dataclasses.replace(target, ways=(*target.ways, Refuses()))
    report = carry_out(_order(wheel, tmp_path, targets=(both,), dry_run=True), Silent())
    assert report.count("planned") == len(report.units) == 1


def test_only_the_way_that_was_used_is_told(tmp_path: Path) -> None:
    wheel = _wheel(tmp_path)
    used = _target(SM_120, "RTX 5090")
    target = dataclasses.replace(used, ways=(*used.ways, _IdleWay()))
    report = carry_out(_order(wheel, tmp_path, targets=(target,), without=("Second",)), Silent())
    assert report.way == "ptx" and report.count("added") == 2
    definition = json.loads(Path(report.provenance or "").read_bytes())["predicate"]["buildDefinition"]
    assert definition["internalParameters"]["way"] == "ptx"
    assert "-DNOT_USED" not in definition["internalParameters"]["flags"]
    assert [row["uri"] for row in definition["resolvedDependencies"]] == [f"pkg:pypi/{wheel.name}"]
    assert definition["externalParameters"] == {"wheel": wheel.name, "archs": ["sm_120"], "without": ["Second"]}
    applied = apply_file(wheel, Path(report.graft or ""), tmp_path / "applied", Silent())
    assert Path(applied.provenance or "").read_bytes() == Path(report.provenance or "").read_bytes()


def test_options_of_the_wheel_are_taken_and_strange_ones_are_not(tmp_path: Path) -> None:
    seen: list[Job] = []

    def run(folder: Path, jobs: Sequence[Job]) -> Mapping[str, str]:
        seen.extend(jobs)
        result: Mapping[str, str] = _compiler(_good)(folder, jobs)
        return result

    carry_out(_order(_wheel(tmp_path), tmp_path, run_jobs=run), Silent())
    first = seen[0].command
    assert "-O2" in first and "-arch=sm_120" in first
    assert "-v" not in first and not any("evil" in word for word in first)


def test_compilations_are_counted_alone_and_what_failed_is_not_tried_again(tmp_path: Path) -> None:
    """NVIDIA's packer takes no time: counted with the compilations, those would end at half."""
    runs: list[list[str]] = []
    bad: list[str] = []

    def run(folder: Path, jobs: Sequence[Job]) -> Mapping[str, str]:
        runs.append([job.output for job in jobs])
        compiles = [job for job in jobs if job.output.endswith(".cubin")]
        bad[:] = [compiles[0].output] if len(runs) == 1 else []
        for job in jobs:
            (folder / job.output).write_bytes(_good(job.output))
        return {name: "out of memory" for name in bad}

    tools = Tools(release="13.0", ptxas="ptxas", fatbinary="fatbinary", versions={"ptxas": "13.0.88"})
    order = _order(_wheel(tmp_path), tmp_path, tools=tools, run_jobs=run, leave_out=True)
    report = carry_out(order, Silent())
    first, second = runs
    assert len(first) == 4 and all(name.endswith(".cubin") for name in first)
    assert first[0] not in second and sum(name.endswith(".fatbin") for name in second) == 3
    assert report.count("refused") == 1 and report.count("added") == 3


def test_a_dry_run_compiles_and_writes_nothing(tmp_path: Path) -> None:
    def run(*_: object) -> Mapping[str, str]:
        raise AssertionError("compiled")

    report = carry_out(_order(_wheel(tmp_path), tmp_path, run_jobs=run, dry_run=True), Silent())
    assert report.count("planned") == 4 and report.out is None and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("image", "why"),
    [
        (make_cubin(90, KERNELS), "it is for sm_90"),
        (make_cubin(120, {"scale": (8, 8)}, unit=UNITS[0]), "parameters of scale have 8, 8 bytes"),
        (make_cubin(120, {"other": (8, 4)}), "1 of 1 kernels are missing, first scale"),
        (make_cubin(120, KERNELS | {"more": ()}), "1 kernels are not in the wheel's own"),
        (make_cubin(120, KERNELS, {"table": 4}), "variables are"),
        (b"no image", "no CUDA image"),
    ],
)
def test_what_differs_is_refused_by_unit(tmp_path: Path, image: bytes, why: str) -> None:
    wheel = _wheel(tmp_path)

    def made(output: str) -> bytes:
        return image if "-0." in output else _good(output)

    report = carry_out(_order(wheel, tmp_path, run_jobs=_compiler(made)), Silent())
    refused = [one for one in report.units if one.state == "refused"]
    assert len(refused) == 2 and all(why in (one.why or "") for one in refused) and report.out is None
    assert not (tmp_path / "out").exists()
    without = carry_out(_order(wheel, tmp_path, run_jobs=_compiler(made), leave_out=True), Silent())
    assert without.out and without.count("added") == 2 and without.count("refused") == 2


def test_a_unit_that_does_not_compile_is_refused_with_what_its_tool_said(tmp_path: Path) -> None:
    failed = {"cubin/0-0.sm_120.cubin": "ptxas fatal: Unsupported .version 9.9"}
    wheel = _wheel(tmp_path)
    first = carry_out(_order(wheel, tmp_path, run_jobs=_compiler(_good, failed), dry_run=True), Silent())
    assert first.count("planned") == 4
    number = next(iter((tmp_path / "work").glob("*/*.so"))).stem
    failed = {f"cubin/{number}-0.sm_120.cubin": "ptxas fatal: Unsupported .version 9.9"}
    report = carry_out(_order(wheel, tmp_path, run_jobs=_compiler(_good, failed)), Silent())
    [one] = [one for one in report.units if one.state == "refused"]
    assert one.why == "ptxas fatal: Unsupported .version 9.9"


def test_a_library_that_is_not_understood_stays_as_it_is(tmp_path: Path) -> None:
    odd = make_gpu_library([[make_entry(2, 80, payload=make_cubin()), ptx_entry()]], pointers=[])
    report = carry_out(_order(_wheel(tmp_path, **{"demo/odd.so": odd}), tmp_path), Silent())
    assert any("odd.so stays as it is: no pointer" in note for note in report.notes) and report.out


def test_a_list_of_architectures_that_cannot_be_corrected_is_told(tmp_path: Path) -> None:
    odd = {"torch/lib/libtorch_python.so": make_gpu_library() + b"sm_75 sm_80\0"}
    report = carry_out(_order(_wheel(tmp_path, **odd), tmp_path), Silent())
    assert [note for note in report.notes if "get_arch_list() does not name sm_120" in note]
    with zipfile.ZipFile(report.out or "") as archive:
        assert archive.read("torch/lib/libtorch_python.so") == odd["torch/lib/libtorch_python.so"]


# A graft file: made here, applied there


def _made(folder: Path) -> tuple[Path, Path]:
    wheel = _wheel(folder)
    file = folder / "demo.graft"
    report = carry_out(_order(wheel, folder, out=None, graft=file), Silent())
    assert report.graft == str(file) and report.out is None and not list((folder / "work").rglob("*.whl"))
    return wheel, file


def test_a_graft_file_gives_the_same_wheel_byte_for_byte(tmp_path: Path) -> None:
    wheel, file = _made(tmp_path)
    direct = carry_out(_order(wheel, tmp_path), Silent())
    report = apply_file(wheel, file, tmp_path / "applied", Silent())
    assert report.out and direct.out and report.same_bytes is True
    assert Path(report.out).read_bytes() == Path(direct.out).read_bytes()
    assert file.stat().st_size < wheel.stat().st_size
    assert report.count("added") == 4 and report.count("left-out") == 2
    assert sorted(path.name for path in (tmp_path / "applied").iterdir()) == sorted(
        Path(report.out).name + suffix for suffix in ("", ".intoto.json", ".sha256")
    )


def test_another_wheel_is_refused(tmp_path: Path) -> None:
    wheel, file = _made(tmp_path)
    changed = tmp_path / "changed" / wheel.name
    changed.parent.mkdir()
    changed.write_bytes(wheel.read_bytes() + b"\0")
    with pytest.raises(BadInput, match="belongs to"):
        apply_file(changed, file, tmp_path / "applied", Silent())
    with pytest.raises(BadInput, match="no wheel"):
        apply_file(tmp_path / "none.whl", file, tmp_path / "applied", Silent())
    assert not (tmp_path / "applied").exists()


def _tampered(
    file: Path, change: Callable[[dict[str, Any]], None], members: Mapping[str, bytes | None] | None = None
) -> Path:
    """The graft file with its list and some members changed (None: taken out)."""
    with zipfile.ZipFile(file) as archive:
        content: dict[str, bytes | None] = {name: archive.read(name) for name in archive.namelist()}
    said = json.loads(content["graft.json"] or b"")
    change(said)
    content["graft.json"] = json.dumps(said).encode()
    content |= members or {}
    target = file.with_name("tampered.graft")
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in content.items():
            if data is not None:
                archive.writestr(name, data)
    return target


def _entry(said: dict[str, Any], **told: object) -> None:
    said["entries"][0].update(told)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda said: _entry(said, member="../../etc/passwd"), "not in both"),
        (lambda said: _entry(said, sha256="0" * 64), "another digest"),
        (lambda said: _entry(said, bytes=3), "code/\\S+ is not as it must be"),
        (lambda said: _entry(said, container=-1), "not as it must be"),
        (lambda said: _entry(said, arch="sm_90"), "not machine code for sm_90"),
        (lambda said: _entry(said, arch="x"), "no NVIDIA architecture"),
        (lambda said: _entry(said, library="demo/none.so"), "does not hold"),
        (lambda said: _entry(said, container=99), "has no container 99"),
        (lambda said: _entry(said, container=3), "has code for sm_120 already"),
        (lambda said: _entry(said, container=said["entries"][1]["container"]), "two entries for one place"),
        (lambda said: said.update(entries=[]), "holds 0 entries"),
        (lambda said: said.update(version="9.9"), "where 1.0\\+cu130.sm120 is due"),
        (lambda said: said.update(wheel="../x.whl"), "names no wheel"),
        (lambda said: said.update(kind="other"), "not a valid graftfile"),
        (lambda said: said.update(more=1), "a valid graftfile"),
    ],
)
def test_a_hostile_graft_file_is_refused_in_one_line(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], why: str
) -> None:
    wheel, file = _made(tmp_path)
    with pytest.raises(BadInput, match=why) as refused:
        apply_file(wheel, _tampered(file, change), tmp_path / "applied", Silent())
    assert "\n" not in refused.value.message
    assert not list((tmp_path / "applied").glob("*")) if (tmp_path / "applied").exists() else True


def test_members_that_nobody_listed_or_that_lack_are_refused(tmp_path: Path) -> None:
    wheel, file = _made(tmp_path)
    for members in ({"extra": b"x"}, {"code/0-0-sm_120": None}):
        with pytest.raises(BadInput, match="not in both"):
            apply_file(wheel, _tampered(file, lambda said: None, members), tmp_path / "applied", Silent())
    for broken, why in ((b"", "empty"), (b"PK\x03\x04 no", "damaged"), (wheel.read_bytes(), "no graft file")):
        (tmp_path / "broken.graft").write_bytes(broken)
        with pytest.raises(BadInput, match=why):
            apply_file(wheel, tmp_path / "broken.graft", tmp_path / "applied", Silent())


def test_a_result_other_than_the_makers_is_thrown_away(tmp_path: Path) -> None:
    wheel, file = _made(tmp_path)
    other = _tampered(file, lambda said: said.update(record_sha256="0" * 64))
    with pytest.raises(StageFailed, match="not the one its maker got"):
        apply_file(wheel, other, tmp_path / "applied", Silent())
    assert not list((tmp_path / "applied").iterdir())


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel, file = _made(tmp_path)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("rekindle.formats.rewrite.Rewriter.finish", full)
    with pytest.raises(BadInput, match="No space left"):
        apply_file(wheel, file, tmp_path / "applied", Silent())
    assert not list((tmp_path / "applied").iterdir())


def test_what_a_kill_left_goes_at_the_next_call(tmp_path: Path) -> None:
    wheel, file = _made(tmp_path)
    left = tmp_path / "applied" / ".demo-1.0+cu130.sm120-cp311-cp311-linux_x86_64.whl.making"
    left.mkdir(parents=True)
    (left / "library").write_bytes(b"half")
    assert apply_file(wheel, file, tmp_path / "applied", Silent()).out
    assert not left.exists()


def test_interrupted_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel, file = _made(tmp_path)

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rekindle.formats.rewrite.Rewriter.finish", stop)
    with pytest.raises(KeyboardInterrupt):
        apply_file(wheel, file, tmp_path / "applied", Silent())
    assert not list((tmp_path / "applied").iterdir())


def test_a_graft_file_holds_nothing_of_the_wheel(tmp_path: Path) -> None:
    _, file = _made(tmp_path)
    graft, entries = read_graft(file)
    assert set(entries) == {row.member for row in graft.entries} and len(entries) == 4
    assert graft.record_sha256 and graft.grafted_sha256
