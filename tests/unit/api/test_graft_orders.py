"""``graft`` joined, up to the compilers: what is ordered, from where files come, through which cache it compiles."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from bare_host import BareHost
from rekindle import api
from rekindle.errors import BadInput
from rekindle.host.workspace import Workspace
from rekindle.model.graft import GraftReport
from tiny_wheels import make_wheel

grafting: Any = importlib.import_module("rekindle.api.graft_wheel")
REPORT = GraftReport(wheel="w", wheel_sha256="0" * 64, bytes_before=1, card="x", arch="sm_61")


@pytest.fixture
def applied(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Path, Path, Path]]:
    """The wheel, the graft file and the folder of each graft that would be applied."""
    seen: list[tuple[Path, Path, Path]] = []

    def apply(official: Path, file: Path, folder: Path, progress: object) -> GraftReport:
        assert progress is not None
        seen.append((official, file, folder))
        return REPORT

    monkeypatch.setattr(grafting, "apply_file", apply)
    return seen


def test_a_graft_file_is_here_or_fetched_and_checked_where_its_digest_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, applied: list[tuple[Path, Path, Path]]
) -> None:
    asked: list[tuple[str, str | None, bool]] = []

    def download(url: str, path: Path, *, sha256: str | None, progress: object) -> Path:
        asked.append((url, sha256, path.exists()))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    monkeypatch.setattr(grafting, "download", download)
    wheel, place = make_wheel(tmp_path, "torch", "2.6.0"), tmp_path / "w"
    own = place / "grafts" / "a b.graft"
    for target in ("mine.graft", "https://x.example/g/a%20b.graft#sha256=00ff", "http://x.example/g/a%20b.graft"):
        api.graft_apply(wheel, target, workspace=place)
    assert [file for _, file, _ in applied] == [Path("mine.graft"), own, own]
    assert asked == [
        ("https://x.example/g/a%20b.graft", "00ff", False),
        ("http://x.example/g/a%20b.graft", None, False),
    ], "what no digest is known of is fetched anew"
    api.graft_apply(wheel, "https://x.example/g/a%20b.graft#sha256=00ff", workspace=place, out=tmp_path / "out")
    assert asked[-1] == ("https://x.example/g/a%20b.graft", "00ff", True)
    assert [folder for _, _, folder in applied] == [tmp_path] * 3 + [tmp_path / "out"]


def test_a_wheel_by_its_name_is_looked_for_where_it_was_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, applied: list[tuple[Path, Path, Path]]
) -> None:
    asked: list[tuple[str, Any, str | None, str | None]] = []
    own = grafting.pip_places()
    own = grafting.replace(own, indexes=("https://own.example/simple",), links=("/own",))
    monkeypatch.setattr(grafting, "pip_places", lambda: own)

    def find(target: str, places: Any, *, python: str | None, platform: str | None) -> list[Any]:
        asked.append((target, places, python, platform))
        files = [SimpleNamespace(name=f"{n}.whl", url=f"https://x.example/{n}.whl", sha256="00") for n in "ab"]
        return [SimpleNamespace(file=file) for file in files]

    monkeypatch.setattr(grafting, "find_wheels", find)
    monkeypatch.setattr(grafting, "download", lambda url, path, **_: path)
    told: list[dict[str, Any]] = [
        {},
        {"index": "https://other.example/simple", "python": "3.12", "platform": "win_amd64"},
        {"offline": True, "index": "https://other.example/simple", "links": ("/there",)},
    ]
    for each in told:
        api.graft_apply("torch==2.6.0", "x.graft", workspace=tmp_path, **each)
    assert [places.indexes for _, places, _, _ in asked] == [own.indexes, ("https://other.example/simple",), ()]
    assert [places.links for _, places, _, _ in asked] == [("/own",), ("/own",), ("/own", "/there")]
    assert [(python, platform) for _, _, python, platform in asked] == [
        (None, None),
        ("3.12", "win_amd64"),
        (None, None),
    ]
    official = Workspace(tmp_path).root / "official" / "a.whl"
    assert applied == [(official, Path("x.graft"), Workspace(tmp_path).wheels)] * 3


@pytest.fixture
def ordered(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, dict[str, Any]]]:
    """Each order as it is carried out, and what was said of it while its toolkit was looked for."""
    seen: list[tuple[Any, dict[str, Any]]] = []
    told: dict[str, Any] = {}

    def choose(order: Any, cards: Any, opened: object, host: object, *words: Any, **more: Any) -> Any:
        told.clear()
        told.update(cards=list(cards), words=words, **more)
        return grafting.replace(order, targets=(SimpleNamespace(card=next(iter(cards.values()))),))

    def carry_out(order: Any, progress: object) -> GraftReport:
        seen.append((order, dict(told)))
        return REPORT

    for name in ("nvidia_order", "amd_order"):
        monkeypatch.setattr(grafting, name, choose)
    monkeypatch.setattr(grafting, "carry_out", carry_out)
    monkeypatch.setattr(grafting.GraftOrder, "archs", property(lambda self: ("sm_61", "sm_86")))
    monkeypatch.setattr(grafting, "with_time", lambda report, name, jobs: msgspec.structs.replace(report, card="timed"))
    monkeypatch.setattr(
        grafting, "with_driver", lambda report, release: msgspec.structs.replace(report, card=f"{report.card} driver")
    )
    return seen


def test_what_is_asked_for_is_what_is_ordered(tmp_path: Path, ordered: list[tuple[Any, dict[str, Any]]]) -> None:
    wheel = make_wheel(tmp_path, "torch", "2.6.0", tag="cp312-cp312-linux_x86_64")
    place = tmp_path / "w"
    assert api.graft(str(wheel), gpu="GTX 1080", workspace=place).card == "timed driver"
    told: dict[str, Any] = {"out": tmp_path / "out", "leave_out": True, "without": ("a",), "prove": True}
    api.graft(str(wheel), gpu=["GTX 1080", "RTX 3060"], workspace=place, only_file=True, **told)
    (plain, asked), (full, more) = ordered
    assert plain.wheel == wheel and plain.work == Workspace(place).root / "work" / wheel.stem
    assert (plain.out, plain.leave_out, plain.without, plain.dry_run) == (tmp_path, False, (), False)
    assert plain.graft == tmp_path / f"{wheel.stem}.sm_61.sm_86.graft"
    assert (full.out, full.leave_out, full.without, full.prove) == (None, True, ("a",), True)
    assert full.graft.parent == tmp_path / "out"
    assert asked["cards"] == ["GTX 1080"] and more["cards"] == ["GTX 1080", "RTX 3060"]
    assert api.graft(str(wheel), gpu="gfx1031", workspace=place).card == "x", "no driver of NVIDIA's is needed"


@pytest.mark.parametrize(
    ("dry_run", "sources", "unseen"),
    [(False, None, False), (True, None, True), (True, "git", True), (True, "folder", False), (False, "folder", False)],
)
def test_a_dry_run_names_units_unseen_unless_the_sources_are_here(
    dry_run: bool, sources: str | None, unseen: bool, tmp_path: Path, ordered: list[tuple[Any, dict[str, Any]]]
) -> None:
    (tmp_path / "folder").mkdir()
    given = str(tmp_path / "folder") if sources == "folder" else sources
    wheel = make_wheel(tmp_path, "torch", "2.6.0", tag="cp312-cp312-linux_x86_64")
    api.graft(str(wheel), gpu="sm_61", workspace=tmp_path / "w", dry_run=dry_run, sources=given)
    ((order, told),) = ordered
    assert (order.dry_run, told["unseen"]) == (dry_run, unseen)


def test_a_wheel_without_its_metadata_is_refused(tmp_path: Path, ordered: list[tuple[Any, dict[str, Any]]]) -> None:
    import zipfile

    with zipfile.ZipFile(tmp_path / "torch-2.6.0-py3-none-any.whl", "w") as archive:
        archive.writestr("torch/a.py", "")
    with pytest.raises(BadInput, match="is no whole wheel"):
        api.graft(str(tmp_path / "torch-2.6.0-py3-none-any.whl"), gpu="sm_61", workspace=tmp_path / "w")
    assert ordered == []


def test_code_is_compiled_through_ccache_where_it_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[Any, ...]] = []

    def find(*words: Any) -> SimpleNamespace:
        asked.append(words)
        return SimpleNamespace(env={"CCACHE_DIR": "/c"})

    monkeypatch.setattr(grafting, "find_launcher", find)
    monkeypatch.setattr(
        grafting, "behind_one_name", lambda env, folder: {"CMAKE_CUDA_COMPILER_LAUNCHER": f"{folder}/ccache"}
    )
    host, place = BareHost(env={"A": "1"}), Workspace(tmp_path)
    assert grafting._find_cache(host, None, place) == (None, {}) and asked == []
    assert grafting._find_cache(host, "ccache", place) == (f"{place.root / 'tools'}/ccache", {"CCACHE_DIR": "/c"})
    assert asked == [(host, "ccache", host.env, place.root, place.logs)]
    with pytest.raises(BadInput, match="does not cache device code"):
        grafting._find_cache(host, "sccache", place)
