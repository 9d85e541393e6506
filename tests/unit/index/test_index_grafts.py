"""A wheelhouse carries grafts beside wheels: added whole or not at all, listed, signed, served, preferred by plan."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpu_libraries import make_cubin
from rekindle import api
from rekindle.errors import BadInput, RekindleError, StageFailed
from rekindle.graft.pack import write_graft
from rekindle.host.keys import checker, new_key, read_private, trusted_keys
from rekindle.index.server import open_server
from rekindle.index.wheelhouse.catalogue import load_grafts
from rekindle.index.wheelhouse.checking import check_house
from rekindle.index.wheelhouse.listing import write_list
from rekindle.index.wheelhouse.rows import load_pieces
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.arch import GpuArch, Sm
from rekindle.model.graft import Making
from rekindle.model.plan import Wish
from rekindle.model.progress import Silent
from tiny_wheels import make_wheel

NOW = datetime(2026, 6, 1, 12, 0, 0, tzinfo=UTC)
WHEEL = "torch-2.12.1-cp312-cp312-manylinux_2_28_aarch64.whl"


def make_graft(folder: Path, *, kernel: str = "scale", name: str = "torch-2.12.1.sm_75.graft") -> Path:
    wheel = folder / WHEEL
    if not wheel.exists():
        make_wheel(folder, "torch", "2.12.1", tag="cp312-cp312-manylinux_2_28_aarch64")
    code: dict[tuple[str, int], dict[GpuArch, bytes]] = {
        ("torch/lib/libtorch_cuda.so", 0): {Sm(7, 5): make_cubin(75, {kernel: (8,)})}
    }
    made = Making(way="source", archs=("sm_75",), tools={"nvcc": "13.0.88"})
    write_graft(folder / name, wheel, "0" * 64, code, made, version="2.12.1+cu130.sm75")
    return folder / name


@pytest.fixture
def house(tmp_path: Path) -> Path:
    file = make_graft(tmp_path)
    added = api.index_add(str(tmp_path / "haus"), [str(file)])
    assert [(one.file, one.state) for one in added.wheels] == [(file.name, "added")]
    return tmp_path / "haus"


def test_a_graft_is_listed_with_what_it_belongs_to(house: Path) -> None:
    (row,) = load_grafts(str(house))
    assert (row.project, row.version, row.archs, row.wheel) == ("torch", "2.12.1+cu130.sm75", ("sm_75",), WHEEL)
    assert (house / row.url).stat().st_size == row.bytes and not list((house / ".incoming").iterdir())
    built = api.index_build(str(house))
    assert (built.grafts, built.wheels) == (1, 0)
    page = (house / "wheel" / "index.html").read_text(encoding="utf-8")
    assert f"../{row.url}" in page and "sm_75" in page and WHEEL in page.replace("<wbr>", "")
    assert row.file not in (house / "simple" / "index.html").read_text(encoding="utf-8"), "installers are not told"


def test_the_same_again_and_another_of_its_name(house: Path, tmp_path: Path) -> None:
    again = api.index_add(str(house), [str(tmp_path / "torch-2.12.1.sm_75.graft")])
    assert again.wheels[0].state == "already"
    (tmp_path / "other").mkdir()
    with pytest.raises(StageFailed, match="already has another"):
        api.index_add(str(house), [str(make_graft(tmp_path / "other", kernel="else"))])
    assert len(load_grafts(str(house))) == 1


def test_what_is_no_graft_is_refused_in_one_line_and_leaves_nothing(house: Path, tmp_path: Path) -> None:
    before = sorted(house.rglob("*"))
    broken = tmp_path / "broken.graft"
    broken.write_bytes(b"PK\x03\x04 no")
    odd = tmp_path / "no name.graft"
    odd.write_bytes((tmp_path / "torch-2.12.1.sm_75.graft").read_bytes())
    for file in (broken, odd, tmp_path / "gone.graft"):
        with pytest.raises(BadInput) as refused:
            api.index_add(str(house), [str(file)])
        assert "\n" not in refused.value.message
    assert sorted(house.rglob("*")) == before


def test_plan_prefers_it_to_compiling(house: Path) -> None:
    machine = api.machine_from_flags(gpu=["Tesla T4"], os="linux", arch="aarch64")
    plan = api.plan(machine, Wish(torch="2.12.1", python="3.12"), wheelhouses=[str(house)])
    assert plan.answer == "graft" and plan.graft is not None
    assert plan.graft.file == str(house / "grafts/torch/torch-2.12.1.sm_75.graft") and plan.graft.minutes is None
    other = api.plan(machine, Wish(torch="2.12.1", python="3.11"), wheelhouses=[str(house)])
    assert other.graft is not None and other.graft.file is None, "it is for another Python's wheel"


def test_served_it_comes_with_its_digest(house: Path, tmp_path: Path) -> None:
    machine = api.machine_from_flags(gpu=["Tesla T4"], os="linux", arch="aarch64")
    api.index_build(str(house))
    with open_server(Wheelhouse(house), "127.0.0.1", 0) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            (row,) = load_grafts(server.url)
            plan = api.plan(machine, Wish(torch="2.12.1", python="3.12"), wheelhouses=[server.url])
            assert plan.graft is not None and (plan.graft.file or "").endswith(f"{row.url}#sha256={row.sha256}")
            # Fetched with its digest and looked into: it is for another wheel than this.
            wheel = make_wheel(tmp_path / "w", "torch", "2.12.1", tag="cp312-cp312-manylinux_2_28_aarch64")
            with pytest.raises(BadInput, match="belongs to"):
                api.graft_apply(wheel, plan.graft.file or "", workspace=tmp_path / "ws")
            with pytest.raises(RekindleError, match=r"sha256|SHA-256|digest"):
                wrong = (plan.graft.file or "").replace(row.sha256, "1" * 64)
                api.graft_apply(wheel, wrong, workspace=tmp_path / "ws2")
        finally:
            server.shutdown()


def test_it_is_signed_and_checked(house: Path, tmp_path: Path) -> None:
    new_key("owner", tmp_path / "keys")
    known = trusted_keys(tmp_path / "keys")
    api.index_add(str(house), [str(make_wheel(tmp_path, "tiny", "1.0"))], look_inside=False)

    def sign() -> None:
        api.index_build(str(house))
        key, place = read_private("owner", tmp_path / "keys"), Wheelhouse(house)
        write_list(
            place, load_pieces(place), key, days=30, now=NOW, believed=checker(known), seen=tmp_path / "own.json"
        )

    def problems() -> list[tuple[str, str | None]]:
        seen = tmp_path / "seen.json"
        found = check_house(str(house), checker(known), keys_known=True, seen=seen, now=NOW, progress=Silent())
        return [(one.kind, one.file) for one in found.problems]

    sign()
    assert problems() == []
    (row,) = load_grafts(str(house))
    good = (house / row.url).read_bytes()
    (house / row.url).write_bytes(good[:-1] + b"\1")
    assert problems() == [("replaced", row.file)]
    (house / row.url).unlink()
    assert problems() == [("removed", row.file)]
    (house / row.url).write_bytes(good)
    (house / "grafts/torch/stray.graft").write_bytes(good)
    assert problems() == [("unlisted", "stray.graft")]
    sign()
    assert problems() == [("unlisted", "stray.graft")], "what somebody laid there is not signed for"
    (house / "grafts/torch/stray.graft").unlink()
    listed = (house / "grafts/index.json").read_bytes()
    (house / "grafts/index.json").write_bytes(listed.replace(b"sm_75", b"sm_70"))
    assert problems() == [("page", "index.json")]


def test_it_goes_along_with_a_sync(house: Path, tmp_path: Path) -> None:
    api.index_add(str(house), [str(make_wheel(tmp_path, "tiny", "1.0"))], look_inside=False)
    api.index_build(str(house))
    api.index_sync(str(house), str(tmp_path / "mirror"))
    (row,) = load_grafts(str(tmp_path / "mirror"))
    assert (tmp_path / "mirror" / row.url).read_bytes() == (house / row.url).read_bytes()


def test_a_full_disk_leaves_the_house_as_it_was(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "second").mkdir()
    file = make_graft(tmp_path / "second", name="second.graft")
    before = (house / "grafts/index.json").read_bytes()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    for place in ("store.copy_whole", "catalogue.write_atomically"):
        with monkeypatch.context() as patch, pytest.raises(BadInput, match="No space left"):
            patch.setattr(f"rekindle.index.wheelhouse.{place}", full)
            api.index_add(str(house), [str(file)])
        assert (house / "grafts/index.json").read_bytes() == before
        assert not list((house / ".incoming").iterdir())
    assert api.index_add(str(house), [str(file)]).wheels[0].state == "added"


def test_a_graft_that_was_lost_is_put_back_and_others_stay_listed(house: Path, tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    second = make_graft(tmp_path / "second", name="a-second.graft")
    assert api.index_add(str(house), [str(second)]).wheels[0].state == "added"
    names = [row.file for row in load_grafts(str(house))]
    assert names == ["a-second.graft", "torch-2.12.1.sm_75.graft"]
    (row, other) = load_grafts(str(house))
    good = (house / row.url).read_bytes()
    (house / row.url).unlink()
    added = api.index_add(str(house), [str(second)]).wheels[0]
    assert (added.state, added.sha256, added.bytes) == ("added", row.sha256, row.bytes)
    assert (house / row.url).read_bytes() == good and [each.file for each in load_grafts(str(house))] == names
    # A file that no list names is none of the house's.
    listed = house / "grafts" / "index.json"
    listed.unlink()
    assert load_grafts(str(house)) == ()
    assert api.index_add(str(house), [str(second)]).wheels[0].state == "added"
    assert [each.file for each in load_grafts(str(house))] == ["a-second.graft"] and (house / other.url).is_file()
