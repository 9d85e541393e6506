"""What a user names: paths, installed packages, wheels and sources on an index or in a folder, shelves of wheels."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from binaries import make_elf, make_wheel
from rekindle.errors import BadInput
from rekindle.formats.ranges import Unreachable
from rekindle.inspect import targets
from rekindle.inspect.published import Places, find_sdist, find_wheels, is_linked, open_wheel
from rekindle.inspect.reader import DirectorySource, FileSource, Source, WheelSource
from rekindle.inspect.targets import open_installed, open_target
from rekindle.model.progress import Silent
from rekindle.model.wheel import WheelFinding

CP311 = "cp311-cp311-manylinux1_x86_64"


def index(folder: Path, *names: str, project: str = "demo") -> str:
    """A folder that is an index: a page of links for one project."""
    page = folder / "simple" / project
    page.mkdir(parents=True)
    for name in names:
        (page / name).write_bytes(make_wheel({"demo/a.so": make_elf()}) if name.endswith(".whl") else b"")
    (page / "index.html").write_text("".join(f'<a href="{name}">{name}</a>' for name in names), encoding="utf-8")
    return (folder / "simple").as_uri()


def shelf_of(folder: Path, *names: str) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_bytes(make_wheel({"demo/a.so": make_elf()}))
    return str(folder)


def chosen(name: str, places: Places, python: str = "3.11", platform: str = "manylinux1_x86_64") -> list[str]:
    return [one.file.name for one in find_wheels(name, places, python=python, platform=platform)]


def test_the_newest_wheel_that_fits(tmp_path: Path) -> None:
    names = [f"demo-{version}-{CP311}.whl" for version in ("1.0", "2.0", "1.5")]
    places = Places(indexes=(index(tmp_path, *names) + "/",))
    assert chosen("demo", places) == [names[1], names[2], names[0]]
    assert chosen("demo<2", places) == [names[2], names[0]]
    assert chosen("Demo==1.0", places) == [names[0]]


def test_an_index_comes_before_a_folder(tmp_path: Path) -> None:
    old, new = f"demo-1.0-{CP311}.whl", f"demo-2.0-{CP311}.whl"
    both = Places(indexes=(index(tmp_path, old),), links=(shelf_of(tmp_path / "w", new),))
    assert chosen("demo", both) == [old]
    # The folder counts where the index has nothing that fits.
    assert chosen("demo==2.0", both) == [new]
    [linked] = find_wheels("demo==2.0", both, python="3.11", platform="manylinux1_x86_64")
    [indexed] = find_wheels("demo", both, python="3.11", platform="manylinux1_x86_64")
    assert (is_linked(linked, both), is_linked(indexed, both)) == (True, False)
    by_address = Places(links=((tmp_path / "w").as_uri(), str(tmp_path / "nowhere")))
    assert (chosen("demo", by_address), is_linked(linked, by_address)) == ([new], True)
    # A folder whose name only begins alike is another.
    (tmp_path / "wx").mkdir()
    assert not is_linked(linked, Places(links=(str(tmp_path / "wx"),)))
    assert not is_linked(linked, Places())


def test_why_there_is_no_wheel(tmp_path: Path) -> None:
    places = Places(indexes=(index(tmp_path, f"demo-1.0-{CP311}.whl", "demo-0.9-cp310-cp310-win_amd64.whl"),))
    with pytest.raises(BadInput, match="is neither a file here nor a package name"):
        chosen("demo==", places)
    with pytest.raises(BadInput, match=r"demo has no wheel ==3; there are 1\.0, 0\.9"):
        chosen("demo==3", places)
    with pytest.raises(BadInput, match=r"demo 1\.0 has no wheel for Python 3\.12 on win_amd64") as found:
        chosen("demo", places, "3.12", "win_amd64")
    # Only the tags of that version are offered.
    assert found.value.remedy == f"choose with --python and --platform among {CP311}"
    with pytest.raises(BadInput, match="no index that pip is set up for has wheels of demo"):
        chosen("demo", Places())
    with pytest.raises(Unreachable, match=r"has no index\.html"):
        chosen("other", places)
    # One place that answers is enough.
    more = Places(indexes=((tmp_path / "none").as_uri(), *places.indexes))
    assert chosen("demo", more) == [f"demo-1.0-{CP311}.whl"]
    links = Places(indexes=((tmp_path / "none").as_uri(),), links=(shelf_of(tmp_path / "w", f"demo-1.0-{CP311}.whl"),))
    assert chosen("demo", links) == [f"demo-1.0-{CP311}.whl"]


@pytest.mark.parametrize(("newer", "told"), [(199, "2.0, 1.0"), (200, "2.0")])
def test_the_versions_of_so_many_wheels_are_offered(tmp_path: Path, newer: int, told: str) -> None:
    names = [*(f"demo-2.0-{number}-{CP311}.whl" for number in range(newer)), f"demo-1.0-{CP311}.whl"]
    with pytest.raises(BadInput) as found:
        chosen("demo==3", Places(indexes=(index(tmp_path, *names),)))
    assert str(found.value) == f"demo has no wheel ==3; there are {told}"


def test_this_machine_where_nothing_else_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    names = [f"demo-1.0-{python}-{python}-{platform}.whl" for platform in ("linux_riscv64", "win_amd64")]
    places = Places(links=(shelf_of(tmp_path, *names),))
    monkeypatch.setattr("platform.machine", lambda: "RISCV64")
    monkeypatch.setattr(sys, "platform", "linux")
    assert [one.file.name for one in find_wheels("demo", places)] == [names[0]]
    monkeypatch.setattr("platform.machine", lambda: "AMD64")
    monkeypatch.setattr(sys, "platform", "win32")
    assert [one.file.name for one in find_wheels("demo", places)] == [names[1]]


def test_sources_of_a_package(tmp_path: Path) -> None:
    places = Places(indexes=(index(tmp_path, "demo-1.0.tar.gz", "demo-2.0.zip", f"demo-3.0-{CP311}.whl"),))
    assert find_sdist("demo", places).file.name == "demo-2.0.zip"
    assert find_sdist("demo==1.0", places).file.name == "demo-1.0.tar.gz"
    with pytest.raises(BadInput, match=r"demo has no sources ==9; the newest are 2\.0, 1\.0"):
        find_sdist("demo==9", places)
    many = tmp_path / "many"
    shelf_of(many, *(f"demo-{n}.0.tar.gz" for n in range(1, 10)))
    with pytest.raises(BadInput, match=r"the newest are 9\.0, .*, 2\.0$"):
        find_sdist("demo==99", Places(links=(str(many),)))
    with pytest.raises(BadInput, match="is no package name"):
        find_sdist("demo==", places)
    only = Places(links=(shelf_of(tmp_path / "w", f"demo-3.0-{CP311}.whl"),))
    with pytest.raises(BadInput, match="has only wheels of demo"):
        find_sdist("demo", only)
    with pytest.raises(BadInput, match="has nothing of other"):
        find_sdist("other", only)


def test_a_wheel_of_a_folder_is_opened_where_it_lies(tmp_path: Path) -> None:
    name = f"demo-1.0-{CP311}.whl"
    places = Places(links=(shelf_of(tmp_path / "a b", name),))
    [wheel] = find_wheels("demo", places, python="3.11", platform="manylinux1_x86_64")
    source = open_wheel(wheel, places, progress=Silent())
    assert (source.label, source.fetched, "demo/a.so" in source.files) == (name, None, True)


class Heard(Silent):
    def __init__(self) -> None:
        self.stages: list[str] = []

    def stage(self, name: str, detail: str = "") -> None:
        self.stages.append(f"{name} {detail}")


def opened(
    target: str,
    places: Places | None = None,
    folder: Path | None = None,
    python: str | None = None,
    platform: str | None = None,
) -> tuple[Source, list[str]]:
    told: list[WheelFinding] = []

    def installed(name: str, interpreter: str | None) -> Path | None:
        return folder

    def where() -> Places:
        assert places is not None, "nobody should have asked for an index"
        return places

    with open_target(
        target, places=where, installed=installed, progress=Heard(), tell=told.append, python=python, platform=platform
    ) as source:
        return source, [one.code for one in told]


def test_a_path_wins_over_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "demo").mkdir()
    (tmp_path / "lib.so").write_bytes(make_elf())
    assert isinstance(opened("demo")[0], DirectorySource)
    assert isinstance(opened("lib.so")[0], FileSource)
    for missing in ("no/where", "a\\b", "x.WHL", "x.so", "x.dll", "x.pyd"):
        with pytest.raises(BadInput, match="there is no file"):
            opened(missing)
    for empty in ("", "  "):
        with pytest.raises(BadInput, match="name a wheel"):
            opened(empty)


def test_an_installed_package_wins_over_the_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    site = tmp_path / "site"
    for name in ("my_demo", "my_demo.libs", "my_demo-1.0.dist-info", "my_demo_more", "other", "my_demo-1-2.dist-info"):
        (site / name).mkdir(parents=True)
        (site / name / "a.so").write_bytes(make_elf())
    (site / "my_demo-9.dist-info").write_bytes(b"")
    source, told = opened("My-Demo", folder=site)
    assert (sorted(source.files), told) == (
        ["my_demo-1.0.dist-info/a.so", "my_demo.libs/a.so", "my_demo/a.so"], [],
    )  # fmt: skip
    assert source.label == f"My-Demo in {site}"
    assert sorted(open_installed(site, "other").files) == ["other/a.so"]
    # A Python of the user's own; what is not in it is an error.
    assert opened("my-demo", folder=site, python="/opt/python")[0].label.startswith("my-demo in")
    with pytest.raises(BadInput, match="my-demo is not installed in /opt/python"):
        opened("my-demo", python="/opt/python")


def test_the_index_and_what_is_said_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    old, new = f"demo-1.0-{CP311}.whl", f"demo-2.0-{CP311}.whl"
    places = Places(indexes=(index(tmp_path, old),), links=(shelf_of(tmp_path / "w", new),))
    only = Places(links=places.links)
    more = ("3.11", "manylinux1_x86_64")
    assert [one.label if isinstance(one, WheelSource) else one for one in opened("demo", places, None, *more)] == [
        old,
        [],
    ]
    # A version, a Python or a platform means the index, whatever is installed.
    assert opened("demo==2.0", places, tmp_path, *more)[1] == ["read-from-folder"]
    assert opened("demo", only, tmp_path, *more)[1] == []
    for name in (f"demo-3.0-py3-none-{platform}.whl" for platform in ("any",)):
        shelf_of(tmp_path / "any", name)
    anywhere = Places(links=(str(tmp_path / "any"),))
    assert opened("demo", anywhere)[1] == ["read-from-index"]
    asked = (
        opened("demo", anywhere, tmp_path, platform="win_amd64"),
        opened("demo", anywhere, tmp_path, python="3.11"),
        opened("demo==3.0", anywhere, tmp_path),
    )
    assert [(type(source), codes) for source, codes in asked] == [(WheelSource, [])] * 3


def archive(folder: Path, kind: str, **members: bytes) -> Path:
    path = folder / f"box.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as box:
            for name, data in members.items():
                box.writestr(name.replace("_DOT_", "."), data)
    else:
        with tarfile.open(path, "w") as tar:
            for name, data in members.items():
                info = tarfile.TarInfo(name.replace("_DOT_", "."))
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
    return path


def found(path: Path) -> list[tuple[str, str]]:
    """Each wheel with what was got of it: its size, or why not."""
    return [
        (name, one.message if isinstance(one, BadInput) else str(one.size)) for name, one in targets.wheels_in(path)
    ]


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_what_holds_wheels(tmp_path: Path, kind: str) -> None:
    wheel = make_wheel({"a": b"1"})
    box = archive(tmp_path, kind, a_DOT_WHL=wheel, b_DOT_txt=b"hello", c_DOT_whl=b"no zip")
    assert targets.holds_wheels(box) is True
    assert targets.holds_wheels(archive(tmp_path, kind, a_DOT_txt=b"1")) is False
    box = archive(tmp_path, kind, a_DOT_WHL=wheel, b_DOT_txt=b"hello", c_DOT_whl=b"no zip")
    (first, size), (second, why) = found(box)
    assert (first, size, second) == ("a.WHL", str(len(wheel)), "c.whl")
    assert "c.whl" in why


def test_what_holds_none(tmp_path: Path) -> None:
    wheel = tmp_path / "demo-1.0-py3-none-any.whl"
    wheel.write_bytes(make_wheel({"inner.whl": b"1"}))
    assert targets.holds_wheels(wheel) is False
    assert targets.holds_wheels(tmp_path) is True
    assert targets.holds_wheels(tmp_path / "none") is False
    # A library with an archive behind it (an installer) is a library.
    for head in (b"MZ", b"\x7fELF"):
        (tmp_path / "setup").write_bytes(head + make_wheel({"inner.whl": b"1"}))
        assert targets.holds_wheels(tmp_path / "setup") is False
    (tmp_path / "setup").write_bytes(b"MX" + make_wheel({"inner.whl": b"1"}))
    assert targets.holds_wheels(tmp_path / "setup") is True
    (tmp_path / "text").write_bytes(b"hello")
    assert targets.holds_wheels(tmp_path / "text") is False
    (tmp_path / "empty").mkdir()
    assert targets.holds_wheels(tmp_path / "empty") is False


def test_so_many_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel({"a": b"1"})
    names = [f"{letter}_DOT_whl" for letter in "abc"]
    for kind, members in (("zip", names), ("tar", names)):
        box = archive(tmp_path, kind, **dict.fromkeys(members, wheel))
        monkeypatch.setattr(targets, "MOST_WHEELS", 2)
        assert [name for name, _ in found(box)] == ["a.whl", "b.whl"]
        monkeypatch.setattr(targets, "MOST_WHEELS", 3)
        assert [name for name, _ in found(box)] == ["a.whl", "b.whl", "c.whl"]
    monkeypatch.setattr(targets, "MOST_MEMBERS", 1)
    assert [name for name, _ in found(tmp_path / "box.tar")] == ["a.whl", "b.whl"]
    monkeypatch.undo()
    for name in ("c.whl", "a.whl", "b.whl"):
        (tmp_path / name).write_bytes(wheel)
    assert [name for name, _ in found(tmp_path)] == ["a.whl", "b.whl", "c.whl"]
    monkeypatch.setattr(targets, "MOST_WHEELS", 2)
    assert [name for name, _ in found(tmp_path)] == ["a.whl", "b.whl"]


def test_a_wheel_larger_than_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel({"a": b"1"})
    box = archive(tmp_path, "zip", a_DOT_whl=wheel)
    room: Callable[[int], None] = lambda size: monkeypatch.setattr(  # noqa: E731
        "shutil.disk_usage", lambda _: type("Usage", (), {"free": size})
    )
    room(2 * len(wheel))
    assert found(box) == [("a.whl", str(len(wheel)))]
    room(2 * len(wheel) - 1)
    [(_, why)] = found(box)
    assert "larger than what fits" in why
    room(1 << 40)
    monkeypatch.setattr(targets, "MOST_BYTES", len(wheel) - 1)
    assert "larger than what fits" in found(box)[0][1]


def test_a_damaged_member_is_named(tmp_path: Path) -> None:
    box = archive(tmp_path, "zip", a_DOT_whl=bytes(5000), b_DOT_whl=make_wheel({"a": b"1"}))
    data = bytearray(box.read_bytes())
    data[60] ^= 1
    box.write_bytes(data)
    (_, why), (name, _) = found(box)
    assert "cannot be taken out of box.zip" in why
    assert name == "b.whl"
