"""Project pages in both forms, and which of the files fit a version, a Python and a platform."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from packaging.tags import Tag

from rekindle.errors import BadInput
from rekindle.formats.simple_index import (
    IndexFile,
    _platform_fits,
    _python_fits,
    choose_wheels,
    files_in_folder,
    read_project_page,
    sdists_of,
    wheels_of,
)

URL = "https://index.example/simple/demo/"
SHA = "0123456789ABCDEFabcdef" + "0" * 42


def html(*anchors: str) -> list[IndexFile]:
    return read_project_page("\n".join(["<p>text</p>", *anchors, "<p>after</p>"]).encode(), URL)


def test_anchors() -> None:
    assert html(
        f'<a href="../f/a%2Bb.whl#sha256={SHA}">shown</a>',
        '<a href="https://x.example/c.whl#md5=1" data-yanked="">c</a>',
        '<a name="nothing">d</a>',
        f'<a href="e.whl#sha256={SHA[:-1]}">e</a>',
        f'<a href="e.whl#sha256={SHA}0">e</a>',
        '<a href="f/"> by <b>text</b> </a> outside',
        '<link href="no.whl">',
    ) == [
        IndexFile("a+b.whl", "https://index.example/simple/f/a%2Bb.whl", False, SHA.lower()),
        IndexFile("c.whl", "https://x.example/c.whl", True, None),
        IndexFile("e.whl", URL + "e.whl"),
        IndexFile("e.whl", URL + "e.whl"),
        IndexFile("by text", URL + "f/"),
    ]


def test_text_before_and_between_anchors_is_nobodys() -> None:
    assert html('before <a href="x/">one</a> between <a href="y/">two') == [
        IndexFile("one", URL + "x/"),
        IndexFile("two\nafter", URL + "y/"),
    ]


def test_json() -> None:
    rows = [
        {"filename": "a.whl", "url": "../a.whl#frag", "hashes": {"sha256": SHA}, "yanked": "bad build"},
        {"filename": "b.whl", "url": "b.whl", "hashes": None, "yanked": False},
        {"filename": "c.whl", "url": "c.whl", "hashes": {"sha256": 5}},
    ]
    assert read_project_page(b" \n" + json.dumps({"files": rows}).encode(), URL) == [
        IndexFile("a.whl", "https://index.example/simple/a.whl", True, SHA.lower()),
        IndexFile("b.whl", URL + "b.whl"),
        IndexFile("c.whl", URL + "c.whl"),
    ]


@pytest.mark.parametrize("page", ["{", "{}", '{"files": 5}', '{"files": [5]}', '{"files": [{"url": "x"}]}'])
def test_json_that_is_no_page(page: str) -> None:
    with pytest.raises(BadInput, match="no project page"):
        read_project_page(page.encode(), URL)


def test_a_folder(tmp_path: Path) -> None:
    for name in ("b.whl", "a.tar.gz", "c.zip", "d.txt"):
        (tmp_path / name).touch()
    found = files_in_folder(tmp_path)
    assert [file.name for file in found] == ["a.tar.gz", "b.whl", "c.zip"]
    assert found[0].url == (tmp_path / "a.tar.gz").resolve().as_uri()


def files(*names: str) -> list[IndexFile]:
    return [IndexFile(name, URL + name) for name in names]


def test_wheels_of_a_project_newest_first() -> None:
    found = wheels_of(
        files(
            "My_Demo-1.9-py3-none-any.whl", "my_demo-1.10-1-py3-none-any.whl", "my_demo-1.10-2-py3-none-any.whl",
            "other-2.0-py3-none-any.whl", "broken.whl", "my_demo-3.0.tar.gz", "my_demo-x-py3-none-any.whl",
        ),
        "my.demo",
    )  # fmt: skip
    assert [(str(w.version), w.build) for w in found] == [("1.10", (2, "")), ("1.10", (1, "")), ("1.9", ())]
    assert found[0].tags == {Tag("py3", "none", "any")}


def test_source_archives_newest_first() -> None:
    found = sdists_of(
        files("demo-1.9.tar.gz", "demo-1.10.zip", "other-2.tar.gz", "x.zip", "demo-3-py3-none-any.whl"), "Demo"
    )
    assert [(str(one.version), one.build, len(one.tags)) for one in found] == [("1.10", (), 0), ("1.9", (), 0)]


def chosen(specifier: str, *names: str, python: str | None = None, platform: str | None = None) -> list[str]:
    every = wheels_of(files(*names), "demo")
    return [wheel.file.name for wheel in choose_wheels(every, specifier, python=python, platform=platform)]


def test_versions_stable_first_and_others_if_nothing_else() -> None:
    old, new, early = (f"demo-{v}-py3-none-any.whl" for v in ("1.0", "2.0", "3.0rc1"))
    assert chosen("", old, new, early) == [new, old]
    assert chosen("<2", old, new, early) == [old]
    assert chosen(">2", old, new, early) == [early]
    assert chosen(">3", old, new, early) == []
    with pytest.raises(BadInput, match="'=1' is no version specifier"):
        chosen("=1", old)
    pulled = wheels_of([IndexFile(new, URL, yanked=True), *files(old)], "demo")
    assert [w.file.name for w in choose_wheels(pulled, "", python=None, platform=None)] == [old]
    assert [w.file.name for w in choose_wheels(pulled, "==2.0", python=None, platform=None)] == [new]


def test_python_and_platform_both_count() -> None:
    names = [
        "demo-1-cp311-cp311-win_amd64.whl",
        "demo-1-cp312-cp312-win_amd64.whl",
        "demo-1-cp311-cp311-linux_x86_64.whl",
    ]
    assert chosen("", *names, python="3.11", platform="win_amd64") == names[:1]
    assert sorted(chosen("", *names, python="3.11")) == sorted([names[0], names[2]])
    assert sorted(chosen("", *names, platform="win-amd64")) == sorted(names[:2])


@pytest.mark.parametrize(
    ("python", "interpreter", "abi", "fits"),
    [
        ("3.11", "cp311", "cp311", True),
        ("3.11.4", "cp311", "cp311", True),
        ("3.11", "cp312", "cp312", False),
        ("3.11", "cp310", "cp310", False),
        ("3.11", "cp310", "abi3", True),
        ("3.11", "cp311", "abi3", True),
        ("3.11", "cp312", "abi3", False),
        ("3.11", "cp3", "abi3", False),
        ("3.11", "cp311", "none", True),
        ("3.11", "cp311", "pypy", False),
        ("3.11", "py3", "none", True),
        ("3.11", "py39", "none", True),
        ("3.11", "py311", "none", True),
        ("3.11", "py312", "none", False),
        ("3.11", "py2", "none", False),
        ("2.7", "py3", "none", False),
        ("3.11", "pp311", "abi3", False),
        ("3.13t", "cp313", "cp313t", True),
        ("3.13t", "cp313", "cp313", False),
        ("3.13", "cp313", "cp313t", False),
        ("3.13t", "cp312", "abi3", False),
        ("3.13t", "cp313", "t", False),
    ],
)
def test_which_python_a_tag_is_for(python: str, interpreter: str, abi: str, fits: bool) -> None:
    assert _python_fits(python)(Tag(interpreter, abi, "any")) is fits


def test_glibc_comes_before_musl_and_a_newer_version_before_both() -> None:
    names = ["x-1.0-py3-none-manylinux_2_17_x86_64.whl"]
    names += [f"x-2.0-py3-none-{tag}_x86_64.whl" for tag in ("musllinux_1_2", "manylinux_2_28")]
    found = choose_wheels(wheels_of(files(*names), "x"), "", python=None, platform="linux_x86_64")
    assert [wheel.file.name for wheel in found] == [names[2], names[1], names[0]]


@pytest.mark.parametrize(
    ("head", "address"),
    [
        ('<base href="https://files.example/pool/">', "https://files.example/pool/a.whl"),
        ('<base href="../other/">', "https://index.example/simple/other/a.whl"),
        ('<base href="https://one.example/"><base href="https://two.example/">', "https://one.example/a.whl"),
        ('<base target="x"><base href="https://two.example/">', "https://two.example/a.whl"),
        ("<base>", URL + "a.whl"),
        ('<base href="">', URL + "a.whl"),
        ("", URL + "a.whl"),
    ],
)
def test_links_lead_on_from_the_first_base(head: str, address: str) -> None:
    page = f'{head}<a href="a.whl">a</a>'
    assert [file.url for file in read_project_page(page.encode(), URL)] == [address]


@pytest.mark.parametrize("python", ["3", "", "x.1", "3.x", "3.", ".1"])
def test_what_is_no_python(python: str) -> None:
    with pytest.raises(BadInput, match="no Python version"):
        _python_fits(python)


@pytest.mark.parametrize(
    ("platform", "tag", "fits"),
    [
        ("win_amd64", "win_amd64", True),
        ("WIN-AMD64", "win_amd64", True),
        ("win_amd64", "win32", False),
        ("win_amd64", "any", True),
        ("linux_x86_64", "manylinux_2_28_x86_64", True),
        ("linux_x86_64", "musllinux_1_1_x86_64", True),
        ("linux_x86_64", "manylinux1_i686", False),
        ("linux_x86_64", "macosx_11_0_x86_64", False),
        ("macosx_arm64", "macosx_11_0_arm64", True),
        ("macosx_arm64", "manylinux_2_17_arm64", False),
        ("manylinux1_x86_64", "manylinux_2_17_x86_64", False),
        ("manylinux_2.17_x86_64", "manylinux_2_17_x86_64", True),
    ],
)
def test_which_platform_a_tag_is_for(platform: str, tag: str, fits: bool) -> None:
    assert _platform_fits(platform, Tag("py3", "none", tag)) is fits
