"""The site: right pages, switched whole, rebuilt only where something changed."""

from __future__ import annotations

import json
import os
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import msgspec
import pytest

import needs
from rekindle import api
from rekindle.errors import BadInput
from rekindle.index.pages import site
from rekindle.model.document import decode, encode
from rekindle.model.wheel import Kernels, WheelGpu, WheelReport
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


def _pages(root: Path) -> dict[str, tuple[int, int]]:
    """Every file of both copies of the pages for people, with what changes when it is written."""
    found = sorted(root.glob(".site/?/wheel/**/*"))
    stats = {path.relative_to(root / ".site").as_posix(): path.stat() for path in found if path.is_file()}
    return {name: (stat.st_ino, stat.st_mtime_ns) for name, stat in stats.items()}


def _build_twice(root: Path) -> dict[str, tuple[int, int]]:
    """Until both copies are up to date."""
    api.index_build(str(root))
    api.index_build(str(root))
    return _pages(root)


@needs.links()
def test_what_is_built_is_told(root: Path) -> None:
    first, second, third = (api.index_build(str(root)) for _ in range(3))
    assert [(built.pages_written, built.pages_kept) for built in (first, second, third)] == [(2, 0), (2, 0), (0, 2)]
    assert (first.wheels, first.projects, first.grafts, first.variants, first.left_out) == (3, 2, 0, (), ())
    assert first.root == str(root) and Path(first.simple) == root / "simple"
    assert Path(first.catalogue) == root / "catalogue.json"
    assert os.readlink(root / "simple") == ".site/current/simple" and os.readlink(root / ".site" / "current") == "a"
    assert not list(root.glob("**/.*.new")) and not (root / ".site" / ".probe").exists()


@needs.links()
def test_of_the_pages_for_people_only_the_changed_project_is_written(root: Path) -> None:
    before = _build_twice(root)
    api.index_yank(str(root), "tiny-1.0-py3-none-any.whl", "old")
    after = _build_twice(root)
    changed = {name.partition("/")[2] for name in after if before.get(name) != after[name]}
    assert changed == {"wheel/tiny/tiny-1.0-py3-none-any.whl.html", "wheel/tiny/index.html", "wheel/index.html"}


@needs.links()
def test_another_look_writes_every_page_again(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = _build_twice(root)
    monkeypatch.setattr(site, "edition", lambda: "another")
    after = _build_twice(root)
    assert set(before) == set(after) and all(before[name] != after[name] for name in before)
    third = _build_twice(root)
    assert {name.partition("/")[2] for name in third if third[name] != after[name]} == {"wheel/index.html"}


@needs.links()
def test_a_wheel_less_leaves_its_project(root: Path) -> None:
    _build_twice(root)
    (root / "records" / "tiny" / "tiny-1.0-py3-none-any.whl.json").unlink()
    # Somebody tidied up before: what is to go may be gone.
    for page in root.glob(".site/?/wheel/tiny/tiny-1.0-*.html"):
        page.unlink()
    _build_twice(root)
    listed = (root / "wheel" / "tiny" / "index.html").read_text(encoding="utf-8")
    assert "tiny-2.0" in listed and "tiny-1.0" not in listed
    assert not list(root.glob(".site/?/wheel/**/tiny-1.0*")) and not list(root.glob(".site/?/wheel/*.whl.html"))
    assert "tiny-1.0" not in (root / "simple" / "tiny" / "index.html").read_text(encoding="utf-8")
    (root / "records" / "other-name" / "Other.Name-1.0-py3-none-any.whl.json").unlink()
    for folder in (*root.glob(".site/?/wheel/other-name"), *root.glob(".site/?/simple/other-name")):
        shutil.rmtree(folder)
    _build_twice(root)
    assert (
        not list(root.glob(".site/?/*/other-name"))
        and "other-name" not in _snapshot(root)["simple/index.html"].decode()
    )
    assert len(decode((root / "catalogue.json").read_bytes(), WheelCatalogue).wheels) == 1


@needs.links()
def test_an_index_of_variants_lists_other_projects_as_they_are(root: Path, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    report.write_bytes(encode(WheelReport(cuda="12.6", gpu=WheelGpu(torch_kernels=Kernels(sass=("sm_80",))))))
    for project, version in (("apart", "1.0+x"), ("zoo", "2.0+x")):
        wheel = make_wheel(tmp_path, project, version, tag="cp311-cp311-linux_x86_64")
        api.index_add(str(root), [str(wheel)], report=str(report))
    middle = make_wheel(tmp_path, "middle", "1.0", tag="cp311-cp311-linux_x86_64")
    api.index_add(str(root), [str(middle)], look_inside=False)
    built = api.index_build(str(root), variants=True)
    assert {row.project for row in built.variants} >= {"apart", "zoo"} and any(
        "middle" in text for text in built.left_out
    )
    names = [one["name"] for one in json.loads((root / "variant/simple/index.json").read_bytes())["projects"]]
    assert names == sorted(names) and {"apart", "zoo", "middle"} <= set(names)
    for project in ("apart", "zoo", "middle"):
        page = root / "variant" / "simple" / project
        listed = json.loads((page / "index.json").read_bytes())["files"]
        for file in listed:
            target = Path(os.path.normpath(page / unquote(file["url"])))
            assert target.is_file() and target.is_relative_to(root), file["url"]
        kinds = {file["filename"].rpartition("-")[2] for file in listed}
        whole = {"linux_x86_64.whl"} if project == "middle" else {"cu126_80.whl", "variants.json"}
        assert kinds == whole, project
        assert not [file for file in listed if file["yanked"]]
    assert "variant/simple" not in json.dumps(json.loads((root / "catalogue.json").read_bytes()))
    assert {row.file for row in decode((root / "catalogue.json").read_bytes(), WheelCatalogue).wheels} >= {middle.name}
    assert not api.index_build(str(root)).variants


@pytest.mark.parametrize(("count", "synced", "each"), [(1, 0, 1), (100, 0, 100), (101, 1, 0)])
def test_the_new_copy_is_on_the_disk_before_readers_see_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, synced: int, each: int
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(os, "sync", lambda: calls.append("sync"), raising=False)
    monkeypatch.setattr(os, "fsync", lambda handle: calls.append("fsync"))
    copy = site._HiddenCopy()
    for number in range(count):
        copy(tmp_path / "deep" / "folder" / f"{number}", b"x")
    copy.flush()
    assert (calls.count("sync"), calls.count("fsync")) == (synced, each)


def test_where_there_is_no_sync_for_all_each_file_is_brought_to_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    monkeypatch.delattr(os, "sync", raising=False)
    monkeypatch.setattr(os, "fsync", calls.append)
    copy = site._HiddenCopy()
    for number in range(101):
        copy(tmp_path / f"{number}", b"x")
    copy.flush()
    assert len(calls) == 101


def test_a_reader_of_the_old_page_keeps_its_bytes(tmp_path: Path) -> None:
    copy = site._HiddenCopy()
    copy(tmp_path / "page", b"old")
    with (tmp_path / "page").open("rb") as reader:
        copy(tmp_path / "page", b"new and longer")
        assert reader.read() == b"old"
    assert (tmp_path / "page").read_bytes() == b"new and longer"


@needs.links()
def test_real_folders_from_a_place_without_links_stay_real(root: Path) -> None:
    (root / "simple").mkdir()
    api.index_build(str(root))
    assert not any((root / name).is_symlink() for name in ("simple", "wheel", "catalogue.json"))
    assert (root / "simple" / "tiny" / "index.html").is_file() and (root / "wheel" / "style.css").is_file()
    assert not (root / ".site" / "a").exists() and not (root / ".site" / "current").exists()


@needs.links()
def test_a_probe_or_a_link_that_a_kill_left_is_no_obstacle(root: Path) -> None:
    (root / ".site").mkdir(exist_ok=True)
    for left in (root / ".site" / ".probe", root / ".site" / ".current.new", root / ".simple.new"):
        left.symlink_to("nowhere")
    api.index_build(str(root))
    assert (root / "simple").is_symlink() and (root / "simple" / "tiny" / "index.html").is_file()
