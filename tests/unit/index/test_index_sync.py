"""A wheelhouse copied elsewhere: nothing names what is not there yet, a cut goes on, damage never spreads."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest

from rekindle import api
from rekindle.errors import BadInput
from rekindle.index.publishing import FolderTarget
from tiny_wheels import make_wheel


@pytest.fixture
def house(tmp_path: Path) -> Path:
    root = tmp_path / "mein häuschen"
    wheels = [
        make_wheel(tmp_path / "in", "torch", version, tag="cp310-cp310-linux_x86_64") for version in ("2.0+x", "2.1")
    ]
    api.index_add(str(root), [str(wheel) for wheel in (*wheels, make_wheel(tmp_path / "in", "other", "1.0"))])
    api.index_build(str(root), variants=True)
    return root


def named(target: Path) -> set[str]:
    """Every file that some page of the target leads to."""
    found = set()
    for page in target.rglob("*.html"):
        if page.name.startswith("."):
            continue
        for link in re.findall(r'href="([^"#]+)', page.read_text(encoding="utf-8")):
            place = page.parent / unquote(link)
            found.add(str((place / "index.html" if link.endswith("/") else place).resolve()))
    return found


def test_a_copy_is_whole_and_has_no_links(house: Path, tmp_path: Path) -> None:
    target = tmp_path / "srv"
    done = api.index_sync(str(house), str(target))
    assert done.sent > 10 and done.kept == 0
    assert all(Path(place).is_file() for place in named(target))
    assert not [path for path in target.rglob("*") if path.is_symlink()]
    for name in ("catalogue.json", "simple/torch/index.json", "wheel/torch/index.html", "variant/simple/index.html"):
        assert (target / name).read_bytes() == (house / name).read_bytes()
    assert not (target / "records").exists()
    again = api.index_sync(str(house), str(target))
    assert again.sent == 0 and again.kept == done.sent


def test_cut_at_any_file_no_page_names_what_is_missing_and_the_next_run_goes_on(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    total = api.index_sync(str(house), str(tmp_path / "whole")).sent
    real = FolderTarget.put
    for cut in range(0, total, 3):
        target, calls = tmp_path / f"cut {cut}", 0

        def dying(target: FolderTarget, name: str, sha256: str | None, *, cut: int = cut) -> int:
            nonlocal calls
            if calls == cut:
                raise KeyboardInterrupt
            calls += 1
            return real(target, name, sha256)

        monkeypatch.setattr(FolderTarget, "put", dying)
        with pytest.raises(KeyboardInterrupt):
            api.index_sync(str(house), str(target))
        monkeypatch.setattr(FolderTarget, "put", real)
        missing = {place for place in named(target) if not Path(place).is_file()}
        assert not [place for place in missing if place.endswith((".whl", ".metadata", ".json"))], f"cut at {cut}"
        rest = api.index_sync(str(house), str(target))
        assert (rest.kept, rest.sent) == (cut, total - cut)


def test_a_damaged_wheel_stops_before_any_page(house: Path, tmp_path: Path) -> None:
    wheel = next(house.glob("wheels/torch/*2.1*.whl"))
    wheel.write_bytes(wheel.read_bytes()[:-1] + b"?")
    with pytest.raises(BadInput, match="not what its record says"):
        api.index_sync(str(house), str(tmp_path / "srv"))
    assert not list((tmp_path / "srv").rglob("*.html")) and not list((tmp_path / "srv").rglob("*2.1*.whl"))


def test_damage_in_the_target_is_noticed_and_repaired(house: Path, tmp_path: Path) -> None:
    target = tmp_path / "srv"
    api.index_sync(str(house), str(target))
    wheel = next(target.glob("wheels/torch/*2.1*.whl"))
    good = wheel.read_bytes()
    wheel.write_bytes(good[:-1] + b"?")
    assert api.index_sync(str(house), str(target)).sent == 1
    assert wheel.read_bytes() == good


def test_pages_of_gone_wheels_go_and_wheels_stay(house: Path, tmp_path: Path) -> None:
    target = tmp_path / "srv"
    api.index_sync(str(house), str(target))
    (record,) = house.glob("records/other/*.json")
    record.unlink()
    api.index_build(str(house), variants=True)
    done = api.index_sync(str(house), str(target))
    assert "simple/other/index.html" in done.removed
    assert not list(target.glob("wheel/other/*")) and list(target.glob("wheels/other/*.whl"))


def test_places_that_make_no_sense(house: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="lies in the wheelhouse"):
        api.index_sync(str(house), str(house / "inside"))
    with pytest.raises(BadInput, match="no wheelhouse yet"):
        api.index_sync(str(tmp_path / "nothing"), str(tmp_path / "srv"))
    bare = tmp_path / "bare"
    api.index_add(str(bare), [str(make_wheel(tmp_path / "in", "third", "1.0"))])
    with pytest.raises(BadInput, match="no site yet"):
        api.index_sync(str(bare), str(tmp_path / "srv"))
    # Before anything of the house is read.
    (house / "catalogue.json").unlink()
    taken = tmp_path / "taken"
    taken.touch()
    with pytest.raises(BadInput, match=r"cannot bring .*taken up to date"):
        api.index_sync(str(house), str(taken))
