"""The site: right pages, switched whole, rebuilt only where something changed."""

from __future__ import annotations

import json
import os
from html.parser import HTMLParser
from pathlib import Path

import msgspec
import pytest

import needs
from rekindle import api
from rekindle.errors import BadInput
from rekindle.index.pages import site
from rekindle.model.document import decode
from rekindle.model.wheelhouse import WheelCatalogue
from tiny_wheels import make_wheel


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self.links.append(dict(attrs))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    wheels = [
        make_wheel(tmp_path, "tiny", "1.0"),
        make_wheel(tmp_path, "tiny", "2.0+local.1", requires_python=None),
        make_wheel(tmp_path, "Other.Name", "1.0"),
    ]
    api.index_add(str(tmp_path / "house"), [str(wheel) for wheel in wheels])
    return tmp_path / "house"


def test_html_and_json_say_the_same(root: Path) -> None:
    api.index_build(str(root))
    parser = _Links()
    parser.feed((root / "simple" / "tiny" / "index.html").read_text())
    data = json.loads((root / "simple" / "tiny" / "index.json").read_bytes())
    assert len(parser.links) == len(data["files"]) == 2
    for link, file in zip(parser.links, data["files"], strict=True):
        assert link["href"] == f"{file['url']}#sha256={file['hashes']['sha256']}"
        assert link.get("data-requires-python") == file.get("requires-python")
        assert link["data-core-metadata"] == f"sha256={file['core-metadata']['sha256']}"
        # As installers join it: on the address, not through the links of the file system.
        target = Path(os.path.normpath(root / "simple" / "tiny" / file["url"].replace("%2B", "+")))
        assert target.is_file() and target.with_name(target.name + ".metadata").is_file()
    assert (root / "simple" / "other-name" / "index.html").is_file()
    assert {p["name"] for p in json.loads((root / "simple" / "index.json").read_bytes())["projects"]} == {
        "tiny",
        "other-name",
    }


@needs.links()
def test_only_changed_projects_are_written_again(root: Path, tmp_path: Path) -> None:
    assert api.index_build(str(root)).pages_written == 2
    assert api.index_build(str(root)).pages_written == 2  # the other copy, once
    again = api.index_build(str(root))
    assert (again.pages_written, again.pages_kept) == (0, 2)
    api.index_add(str(root), [str(make_wheel(tmp_path, "tiny", "3.0"))])
    assert api.index_build(str(root)).pages_written == 1
    assert "tiny-3.0" in (root / "simple" / "tiny" / "index.html").read_text()


def test_the_catalogue_lists_every_wheel(root: Path) -> None:
    api.index_build(str(root))
    catalogue = decode((root / "catalogue.json").read_bytes(), WheelCatalogue)
    assert len(catalogue.wheels) == 3 and all((root / row.url).is_file() for row in catalogue.wheels)


def _snapshot(root: Path) -> dict[str, bytes]:
    found = {}
    for top in ("simple", "catalogue.json"):
        base = root / top
        for path in [base] if base.is_file() else base.rglob("*"):
            if path.is_file():
                found[path.relative_to(root).as_posix()] = path.read_bytes()
    return found


class _Killed(BaseException):
    pass


def test_a_build_killed_at_any_write_leaves_the_old_site_whole(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    api.index_build(str(root))
    old = _snapshot(root)
    api.index_add(str(root), [str(make_wheel(tmp_path, "tiny", "3.0"))])
    real = site._HiddenCopy.__call__
    for cut in range(40):
        calls = 0

        def dying(self: site._HiddenCopy, path: Path, content: bytes, *, cut: int = cut) -> None:
            nonlocal calls
            if calls == cut:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content[: len(content) // 2])
                raise _Killed
            calls += 1
            real(self, path, content)

        monkeypatch.setattr(site._HiddenCopy, "__call__", dying)
        try:
            api.index_build(str(root))
        except _Killed:
            assert _snapshot(root) == old, f"cut at write {cut}"
        else:
            break
        finally:
            monkeypatch.setattr(site._HiddenCopy, "__call__", real)
    else:
        pytest.fail("the build never finished")
    assert "tiny-3.0" in (root / "simple" / "tiny" / "index.html").read_text()
    assert "tiny-1.0" in (root / "simple" / "tiny" / "index.html").read_text()


@needs.links()
def test_a_full_disk_during_build_keeps_the_site(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    api.index_build(str(root))
    old = _snapshot(root)
    api.index_add(str(root), [str(make_wheel(tmp_path, "tiny", "3.0"))])

    def full(self: object, path: Path, content: bytes) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(site._HiddenCopy, "__call__", full)
    with pytest.raises(BadInput, match="No space left"):
        api.index_build(str(root))
    assert _snapshot(root) == old


def test_without_symbolic_links_the_files_are_real(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def none(self: Path, target: object, target_is_directory: bool = False) -> None:
        raise OSError("a required privilege is not held by the client")

    monkeypatch.setattr(Path, "symlink_to", none)
    api.index_build(str(root))
    assert (root / "simple").is_dir() and not (root / "simple").is_symlink()
    monkeypatch.undo()
    assert api.index_build(str(root)).pages_written == 0  # stays real once it is
    assert not (root / "simple").is_symlink()


def test_a_damaged_memory_costs_only_time(root: Path) -> None:
    api.index_build(str(root))
    first = _snapshot(root)["simple/tiny/index.html"]
    (root / ".site" / "pieces.msgpack").write_bytes(b"\x93garbage")
    api.index_build(str(root))
    assert _snapshot(root)["simple/tiny/index.html"] == first


def test_rows_follow_their_records(root: Path) -> None:
    from rekindle.index.wheelhouse.catalogue import load_wheels

    load_wheels(str(root))
    api.index_yank(str(root), "tiny-1.0-py3-none-any.whl", "old")
    assert [row.yanked for row in load_wheels(str(root)) if row.version == "1.0" and row.project == "tiny"] == ["old"]
    assert msgspec.json.encode(load_wheels(str(root)))
