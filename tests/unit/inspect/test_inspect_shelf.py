"""Many wheels at one place, and which of several places a name is read from."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from binaries import make_elf, make_entry, make_fatbin, make_wheel
from rekindle import api
from rekindle.cli.main import main
from rekindle.errors import BadInput
from rekindle.inspect.published import Places, find_wheels, is_linked

CUDA = make_elf({".nv_fatbin": make_fatbin([make_entry(2, 80)])})
WHEELS = {
    "one-1.0-cp311-cp311-linux_x86_64.whl": make_wheel({"one/a.so": CUDA}, name="one"),
    "two-2.0-cp311-cp311-linux_x86_64.whl": make_wheel({"two/a.py": b""}, name="two", version="2.0"),
}


def shelf(folder: Path, kind: str) -> Path:
    """A directory, a zip or a tar with both wheels, one of them below a folder that would lead outside."""
    if kind == "folder":
        for name, data in WHEELS.items():
            (folder / name).write_bytes(data)
        return folder
    path = folder / f"wheels.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as archive:
            for name, data in WHEELS.items():
                archive.writestr(f"../../{name}", data)
            archive.writestr("readme.txt", b"hello")
    else:
        with tarfile.open(path, "w:gz") as tar:
            for name, data in WHEELS.items():
                info = tarfile.TarInfo(f"../x/{name}")
                info.size = len(data)
                tar.addfile(info, io.BytesIO(data))
            link = tarfile.TarInfo("evil.whl")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            tar.addfile(link)
    return path


@pytest.mark.parametrize("kind", ["folder", "zip", "tar.gz"])
def test_every_wheel_of_a_shelf(tmp_path: Path, kind: str) -> None:
    place = shelf(tmp_path, kind)
    assert api.holds_wheels(str(place))
    found = api.inspect_shelf(str(place), cpu=False, machine=api.inspect_machine("sm_90"))
    assert [(one.name, one.version) for one in found.wheels] == [("one", "1.0"), ("two", "2.0")]
    runs = [axis.runs for one in found.wheels if one.verdict for axis in one.verdict.axes if axis.axis == "gpu"]
    assert runs == ["no", "yes"]
    assert not found.findings
    assert not [path for path in tmp_path.parent.rglob("x/*.whl")]


def test_one_wheel_is_no_shelf(tmp_path: Path) -> None:
    [name, *_] = WHEELS
    (tmp_path / name).write_bytes(WHEELS[name])
    assert not api.holds_wheels(str(tmp_path / name))
    (tmp_path / "plain").mkdir()
    assert not api.holds_wheels(str(tmp_path / "plain"))
    (tmp_path / "text.zip").write_bytes(b"PK\x03\x04 not really")
    assert not api.holds_wheels(str(tmp_path / "text.zip"))


def test_a_damaged_wheel_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = shelf(tmp_path, "folder")
    (place / "zzz-1.0-py3-none-any.whl").write_bytes(b"<html>404</html>")
    assert main(["inspect", str(place), "--no-cpu"]) == 1
    out = capsys.readouterr().out
    assert "2 wheels" in out
    assert "one 1.0: GPU code for sm_80" in out
    assert "web page" in out


def index(folder: Path, *names: str) -> str:
    project = folder / "simple" / "torch"
    project.mkdir(parents=True)
    links = "".join(f'<a href="{name}">{name}</a>' for name in names)
    (project / "index.html").write_text(links, "utf-8")
    return (folder / "simple").as_uri()


def test_an_index_comes_before_a_folder_of_another_flavour(tmp_path: Path) -> None:
    asked = index(tmp_path, "torch-2.6.0-cp311-cp311-manylinux_2_28_x86_64.whl")
    local = tmp_path / "links"
    local.mkdir()
    for version in ("2.6.0+cpu", "2.7.0+cpu"):
        (local / f"torch-{version}-cp311-cp311-linux_x86_64.whl").write_bytes(b"")
    places = Places(indexes=(asked,), links=(str(local),))
    wish = {"python": "3.11", "platform": "linux_x86_64"}
    [wheel] = find_wheels("torch==2.6.0", places, **wish)
    assert str(wheel.version) == "2.6.0"
    assert not is_linked(wheel, places)
    [wheel] = find_wheels("torch==2.7.0", places, **wish)
    assert is_linked(wheel, places)
    with pytest.raises(BadInput, match=r"there are 2\.6\.0"):
        find_wheels("torch==9", places, **wish)
