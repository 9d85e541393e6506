"""The pages of wheels and projects: what they say, what strangers' names may not do, and how little is rewritten."""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from packaging.version import Version

import needs
from rekindle import api
from rekindle.index.pages.fields import (
    columns_of,
    field_rows,
    file_line,
    products_of,
    spoken_python,
    spoken_size,
    standing,
    version_key,
)
from rekindle.index.pages.wheel_pages import assets, project_page, projects_page, wheel_page
from rekindle.index.wheelhouse.rows import piece_of
from rekindle.model.document import encode
from rekindle.model.page import report_style
from rekindle.model.wheel import Kernels, RowLibrary, WheelGpu, WheelReport
from rekindle.model.wheelhouse import RowProof, WheelRow
from tiny_wheels import make_wheel

PROOF = RowProof(passed=9, failed=0, skipped=1, environment={"gpu0": "Tesla K40c, sm_35, 11.2 GiB", "torch": "2.0.1"})
ROW = WheelRow(
    file="torch-2.0.1+kepler-cp310-cp310-linux_x86_64.whl",
    url="wheels/torch/torch-2.0.1+kepler-cp310-cp310-linux_x86_64.whl",
    project="torch",
    version="2.0.1+kepler",
    bytes=123_456_789,
    sha256="ab" * 32,
    metadata_sha256="cd" * 32,
    pythons=("3.10",),
    systems=("linux",),
    machines=("x86_64",),
    added="2026-11-16T00:00:00Z",
    inspected=True,
    sass=("sm_35", "sm_61"),
    ptx=("compute_61",),
    libraries=(RowLibrary(file="torch/lib/libtorch_cuda.so", sass=("sm_35", "sm_61")),),
    proofs=(PROOF,),
)


def text(raw: bytes) -> str:
    return unescape(re.sub(r"<[^>]+>", " ", raw.decode()))


def test_a_page_says_what_is_known_and_how_to_install() -> None:
    page, shown = wheel_page(ROW).decode(), text(wheel_page(ROW))
    for words in ("2.0.1+kepler", "123.5 MB", "sm_35 sm_61 PTX compute_61", "9 checks passed", "Tesla K40c", "ab" * 32):
        assert words in shown, words
    assert shown.count("torch-2.0.1%2Bkepler-cp310-cp310-linux_x86_64.whl#sha256=" + "ab" * 32) == 3
    assert 'dependencies = ["torch==2.0.1+kepler"]' in shown and "explicit = true" in shown
    assert "No signed statement" in shown
    assert not re.findall(r'(?:src|href)="(?:https?:)?//', page), "no request to anywhere"


def test_unknown_is_said_to_be_unknown() -> None:
    shown = text(wheel_page(_with(inspected=False, sass=(), ptx=(), libraries=(), proofs=())))
    assert shown.count("not read") == 3 and "whether it works is not known here" in shown


@pytest.mark.parametrize("field", ["file", "version", "project", "yanked", "glibc", "cpu", "requires_python", "url"])
def test_names_of_strangers_stay_names(field: str) -> None:
    evil = '"><script>alert(1)</script>'
    row = _with(**{field: evil})
    for page in (wheel_page(row).decode(), project_page(row.project, [piece_of(row, (0, 0, 0))]).decode()):
        assert "<script>alert" not in page and page.count("<script") <= 1


@pytest.mark.parametrize(
    ("arch", "kind"),
    [
        ("sm_35", "h"),
        ("sm_61", "s"),
        ("sm_37", "s"),
        ("sm_62", "j"),
        ("sm_60", "n"),
        ("sm_86", "j"),
        ("sm_50", "n"),
        ("gfx1030", "n"),
    ],
)  # fmt: skip
def test_a_field_of_the_grid(arch: str, kind: str) -> None:
    assert standing(ROW, arch) == kind


def test_the_grid_has_a_line_for_each_version_and_python() -> None:
    newer = _with(version="2.1.0", file="b.whl", pythons=("3.11", "3.10"), sass=("sm_61",), ptx=(), proofs=())
    lines = field_rows([newer, ROW], ["sm_35", "sm_61"])
    assert [(line.version, line.span, line.python) for line in lines] == [
        ("2.1.0", 2, "3.10"), ("2.1.0", 0, "3.11"), ("2.0.1+kepler", 1, "3.10"),
    ]  # fmt: skip
    assert [[field.kind for field in line.fields] for line in lines] == [["n", "s"], ["n", "s"], ["h", "s"]]
    assert lines[2].fields[0].says == "proven" and lines[2].fields[0].sign == "✓"
    assert lines[2].wheels == (("Linux", ROW.file),)
    assert field_rows([_with(yanked="bad")], ["sm_35"]) == []


def test_the_grid_takes_the_best_wheel_and_says_which_system_it_is_for() -> None:
    other = _with(file="w.whl", systems=("windows",), sass=("sm_61",), ptx=(), proofs=())
    (line,) = field_rows([ROW, other], ["sm_35", "sm_61"])
    assert [(field.kind, field.says) for field in line.fields] == [("h", "proven (Linux)"), ("s", "read, untried")]
    assert [place for place, _ in line.wheels] == ["Linux", "Windows"]
    (arm,) = field_rows([_with(machines=("aarch64",))], [])
    assert arm.wheels[0][0] == "Linux aarch64"


def test_columns_are_what_is_in_a_wheel_or_was_proven() -> None:
    card = RowProof(passed=1, failed=0, skipped=0, environment={"gpu0": "RTX 4090, sm_89, 24 GiB", "os": "sm_1"})
    assert columns_of([_with(sass=("sm_120", "sm_61"), gfx=("gfx1030", "gfx906"), proofs=(card,))]) == [
        "gfx906", "gfx1030", "sm_61", "sm_89", "sm_120",
    ]  # fmt: skip


def test_what_was_not_read_is_not_known() -> None:
    assert standing(_with(inspected=False, sass=(), ptx=(), proofs=()), "sm_61") == "u"
    assert standing(_with(inspected=True, sass=(), ptx=(), proofs=()), "sm_61") == "n"


@pytest.mark.parametrize(
    ("tag", "said"),
    [
        ("3.11", "3.11"), ("3.13t", "3.13t"), ("cp38-abi3", "3.8 and later"), ("cp310-abi3", "3.10 and later"),
        ("py3", "any 3"), ("py2.py3", "any 3"), ("py2", "py2"),
    ],
)  # fmt: skip
def test_pythons_as_people_say_them(tag: str, said: str) -> None:
    assert spoken_python(tag) == said


@pytest.mark.parametrize(
    ("changes", "verdict", "mark"),
    [
        ({}, "proven on Tesla K40c", "✓"),
        ({"yanked": "wrong flags"}, "withdrawn, wrong flags", "✗"),
        ({"proofs": (RowProof(passed=9, failed=1, skipped=0, environment={}),)}, "failed where it was tried", "✗"),
        ({"proofs": (RowProof(passed=9, failed=0, skipped=0, environment={}),)}, "proven on a CPU", "✓"),
        ({"proofs": ()}, "read, not tried yet", None),
        ({"proofs": (), "inspected": False}, "neither read nor tried", None),
    ],
)
def test_the_verdict_comes_first(changes: dict[str, object], verdict: str, mark: str | None) -> None:
    page = wheel_page(_with(**changes)).decode()
    (title,) = re.findall(r"<h1[^>]*>(.*?)</h1>", page)
    assert title == f"{mark + ' ' if mark else ''}torch 2.0.1+kepler: {verdict}"


def test_one_face() -> None:
    assert assets()["style.css"].decode() == report_style()
    for page in (wheel_page(ROW), project_page("torch", [piece_of(ROW, (0, 0, 0))]), projects_page({"torch": 1})):
        shown = page.decode()
        assert shown.count('class="brand"') == 1 and "style.css" in shown and "<style" not in shown
        assert shown.index("<h1") < shown.index("<section")


def test_a_failed_proof_proves_nothing() -> None:
    assert (
        standing(_with(proofs=(RowProof(passed=9, failed=1, skipped=0, environment=PROOF.environment),)), "sm_35")
        == "f"
    )


@needs.links()
def test_the_house_has_a_page_for_each_and_rewrites_only_what_changed(tmp_path: Path) -> None:
    house = tmp_path / "house"
    report = tmp_path / "report.json"
    report.write_bytes(encode(WheelReport(gpu=WheelGpu(torch_kernels=Kernels(sass=("sm_35",))))))
    for version in ("2.0.1+kepler", "2.1.0"):
        wheel = make_wheel(tmp_path, "torch", version, tag="cp310-cp310-linux_x86_64")
        api.index_add(str(house), [str(wheel)], report=str(report))
        api.index_build(str(house))
    api.index_build(str(house))
    first = house / "wheel" / "torch" / "torch-2.0.1+kepler-cp310-cp310-linux_x86_64.whl.html"
    assert "2.1.0" in (house / "wheel" / "torch" / "index.html").read_text(encoding="utf-8")
    assert 'href="torch/"' in (house / "wheel" / "index.html").read_text(encoding="utf-8")
    assert (house / "wheel" / "style.css").is_file()
    stamps = [
        (path, path.stat().st_mtime_ns, path.stat().st_ino)
        for path in sorted(house.glob(".site/?/wheel/torch/*.whl.html"))
    ]
    assert len(stamps) == 4
    second = "torch-2.1.0-cp310-cp310-linux_x86_64.whl"
    api.index_yank(str(house), second, "made by mistake")
    api.index_build(str(house))
    api.index_build(str(house))
    after = [
        (path, path.stat().st_mtime_ns, path.stat().st_ino)
        for path in sorted(house.glob(".site/?/wheel/torch/*.whl.html"))
    ]
    changed = {path.name for (path, *old), (_, *new) in zip(stamps, after, strict=True) if old != new}
    assert changed == {f"{second}.html"}
    assert "made by mistake" in (house / "wheel" / "torch" / f"{second}.html").read_text(encoding="utf-8")
    assert first.is_file()


def _stamps(house: Path) -> dict[Path, tuple[int, int]]:
    pages = house.glob(".site/?/wheel/torch/*.whl.html")
    return {path: (path.stat().st_mtime_ns, path.stat().st_ino) for path in pages}


def _with(**changes: object) -> WheelRow:
    import msgspec

    return msgspec.structs.replace(ROW, **changes)


def test_a_wheel_that_is_gone_has_no_page(tmp_path: Path) -> None:
    house = tmp_path / "house"
    wheel = make_wheel(tmp_path, "torch", "2.1.0", tag="cp310-cp310-linux_x86_64")
    other = make_wheel(tmp_path, "other", "1.0")
    api.index_add(str(house), [str(wheel), str(other)])
    api.index_build(str(house))
    (house / "records" / "other" / f"{other.name}.json").unlink()
    api.index_build(str(house))
    api.index_build(str(house))
    assert not (house / "wheel" / "other").exists() and (house / "wheel" / "torch" / "index.html").is_file()


VERSIONS = [
    "1.0.dev1", "1.0a1.dev2", "1.0a1", "1.0a2", "1.0a10", "1.0b1", "1.0rc1", "1.0rc1.post2", "1.0", "1.0+cpu",
    "1.0+cu118", "1.0+cu118.b", "1.0+cu118.2", "1.0+cu12", "1.0+2", "1.0+10", "1.0.post1.dev3", "1.0.post1", "1.0.1",
    "1.9", "1.10", "2.0.0", "2.0.0.dev20261116+cu130", "2.0.1", "10", "1!0.1", "0.9.9.9.9",
]  # fmt: skip


@given(st.lists(st.sampled_from(VERSIONS), min_size=2, max_size=8))
def test_pages_are_sorted_as_versions_are(versions: list[str]) -> None:
    by_key = sorted(versions, key=version_key)
    assert [Version(one) for one in by_key] == sorted(Version(one) for one in versions)


def test_equal_versions_have_equal_orders_and_no_version_comes_first() -> None:
    assert version_key("1.0") == version_key("1") == version_key("1.0.0")
    assert version_key("not a version") < version_key("0.0.dev0")


def test_the_list_is_newest_first_and_the_grid_holds_the_newest_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rekindle.index.pages.wheel_pages.MOST_VERSIONS", 2)
    rows = [_with(version=version, file=f"torch-{version}.whl") for version in ("1.9", "1.10", "1.10+a", "1.2")]
    page = project_page("torch", [piece_of(row, (0, 0, 0)) for row in rows]).decode()
    listed = re.findall(r'<tr><td><a class="mono" href="([^"]+)\.html"', page)
    assert listed == ["torch-1.10%2Ba.whl", "torch-1.10.whl", "torch-1.9.whl", "torch-1.2.whl"]
    assert "2 older versions" in page
    assert re.findall(r'scope="rowgroup"[^>]*>([^<]+(?:<wbr>[^<]+)?)<', page) == ["1.10<wbr>+a", "1.10"]
    assert "4 wheels, 4 of them proven" in page


def test_a_line_says_whether_the_wheel_was_proven_and_where() -> None:
    good = RowProof(passed=3, failed=0, skipped=1, environment={"gpu0": "NVIDIA H200, sm_90, 139.8 GiB"})
    bad = RowProof(passed=3, failed=1, skipped=0)
    for proofs, word in (
        ((good,), '<span class="good">proven</span> sm_90'),
        ((good, bad), '<span class="good">proven</span> sm_90'),
        ((bad,), '<span class="bad">failed</span>'),
        ((), "untried"),
    ):
        assert file_line(_with(proofs=proofs, inspected=True, bytes=205_000_000)).endswith(f"<td>{word}</td></tr>")
    line = file_line(_with(proofs=(), inspected=False, bytes=205_000_000, yanked=""))
    assert line.endswith("<td>not read</td></tr>") and ">205.0 MB<" in line and "withdrawn" in line


def test_a_list_shorter_than_its_bound_leaves_nothing_out() -> None:
    def page(count: int) -> str:
        rows = [_with(version=f"1.{number}", file=f"torch-1.{number}.whl") for number in range(count)]
        return project_page("torch", [piece_of(row) for row in rows]).decode()

    assert "older versions" not in page(1) and "1 wheel, 1 of them proven" in page(1)
    assert "older versions" not in page(60) and "1 older versions" in page(61)


def test_the_rules_of_a_template_leave_no_gaps_in_its_page() -> None:
    for raw in (wheel_page(ROW), project_page("torch", [piece_of(ROW)]), projects_page({"torch": 1})):
        assert not re.search(r"\n\n(?!<section>|</main>|\[)", raw.decode())


def test_a_long_list_of_libraries_is_folded() -> None:
    def page(count: int) -> str:
        libraries = tuple(RowLibrary(file=f"lib{number}.so", sass=("sm_61",)) for number in range(count))
        return wheel_page(_with(libraries=libraries)).decode()

    for count, shown in ((6, "<details open><summary>6 libraries<"), (7, "<details><summary>7 libraries<")):
        assert shown in page(count)
    assert "<details open><summary>1 library<" in page(1) and "Libraries with GPU code" not in page(0)


def test_the_card_of_each_proof_is_named_once() -> None:
    two = RowProof(passed=1, failed=0, skipped=0, environment={"gpu0": "A, sm_61", "gpu1": "B, sm_35", "os": "x"})
    twins = RowProof(passed=1, failed=0, skipped=0, environment={"gpu0": "A, sm_61", "gpu1": "A, sm_61"})
    bad = RowProof(passed=0, failed=1, skipped=0, environment={"gpu0": "C, sm_50"})
    for proofs, said in (
        ((two,), "proven on A and B"), ((twins,), "proven on A"), ((twins, two, twins), "proven on A, A and B"),
        ((bad, twins), "proven on A"),
    ):  # fmt: skip
        assert f"torch 2.0.1+kepler: {said}</h1>" in wheel_page(_with(proofs=proofs)).decode()


def test_a_proof_in_which_nothing_ran_leaves_what_was_read() -> None:
    skipped = RowProof(passed=0, failed=0, skipped=5, environment=PROOF.environment)
    failed = RowProof(passed=0, failed=1, skipped=5, environment=PROOF.environment)
    assert standing(_with(proofs=(skipped,)), "sm_35") == "s"
    assert standing(_with(proofs=(skipped, failed)), "sm_35") == "f"
    assert standing(_with(proofs=(failed, PROOF)), "sm_35") == "h", "one that held counts"
    assert standing(_with(proofs=(failed,)), "sm_61") == "s", "it says nothing of another card"


@pytest.mark.parametrize(
    ("changes", "arch", "kind"),
    [
        ({"sass": (), "ptx": (), "gfx": ("gfx1030",)}, "gfx1030", "s"),
        ({"sass": (), "ptx": (), "gfx": ("gfx1030",)}, "gfx906", "n"),
        ({"sass": (), "ptx": (), "gfx": ("gfx90a:xnack+",)}, "gfx90a", "u"),
        ({"sass": (), "ptx": ("compute_61",)}, "sm_61", "j"),
        ({"sass": (), "ptx": ("compute_61",)}, "sm_60", "n"),
        ({"inspected": False}, "sm_61", "u"),
    ],
)
def test_a_field_without_proofs(changes: dict[str, object], arch: str, kind: str) -> None:
    assert standing(_with(proofs=(), **changes), arch) == kind


def test_every_system_that_is_as_good_is_named_once() -> None:
    rows = [
        _with(file="a.whl", proofs=()),
        _with(file="b.whl", proofs=()),
        _with(file="c.whl", proofs=(), systems=("windows",)),
        _with(file="d.whl", proofs=(), systems=("macos",), machines=("aarch64",), sass=(), ptx=()),
    ]
    (line,) = field_rows(rows, ["sm_61"])
    assert line.fields[0].says == "read, untried (Linux, Windows)"
    assert [place for place, _ in line.wheels] == ["Linux", "Linux", "Windows", "macOS aarch64"]
    (one,) = field_rows([_with(pythons=(), systems=(), machines=("any",))], ["sm_35"])
    assert (one.python, one.wheels[0][0], one.fields[0].says) == ("", "any system", "proven")


def test_odd_words_for_a_card_make_no_column() -> None:
    words = {"gpu0": "X, sm_9\u00b2, gfx 906, sm_61 , 8 GiB", "gpu1": "gfx", "gpu2": "gfx00", "cpu": "sm_35"}
    proof = RowProof(passed=1, failed=0, skipped=0, environment=words)
    row = _with(sass=("sm_90a", "sm_100"), gfx=("gfx90a", "gfx1030", "gfx906"), proofs=(proof,))
    assert columns_of([row]) == [
        "gfx", "gfx00", "gfx90a", "gfx906", "gfx1030", "sm_61", "sm_90a", "sm_100",
    ]  # fmt: skip


def test_products_are_named_up_to_a_handful() -> None:
    from rekindle.facts import load_facts

    facts = load_facts()
    names: dict[str, dict[str, None]] = {}
    for chip in (*facts.nvidia.chip.values(), *facts.amd.chip.values()):
        names.setdefault(str(chip.arch), {}).update(dict.fromkeys(chip.products))
    told = dict(products_of([*names, "sm_1"]))
    assert told.pop("sm_1") == "no product known"
    counts = set()
    for arch, said in told.items():
        counts.add(len(names[arch]))
        if not names[arch]:
            assert said == "no product known"
            continue
        shown, _, more = said.partition(" and ")
        assert shown.split(", ") == list(names[arch])[:6]
        assert more == (f"{len(names[arch]) - 6} more" if len(names[arch]) > 6 else "")
    assert min(counts) < 6 < max(counts)


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (1250, "1.2 kB"), (999_000, "999.0 kB"),
        (10**6, "1.0 MB"), (123_456_789, "123.5 MB"), (10**9, "1.0 GB"), (2_500_000_000, "2.5 GB"),
    ],
)  # fmt: skip
def test_sizes_as_people_say_them(count: int, said: str) -> None:
    assert spoken_size(count) == said


def test_a_line_of_a_proof_without_a_card() -> None:
    good = RowProof(passed=3, failed=0, skipped=1, environment={"gpu0": "X, gfx1030, 8 GiB", "gpu1": "Y, sm_35, sm_35"})
    assert file_line(_with(proofs=(good,))).endswith('<td><span class="good">proven</span> gfx1030 sm_35</td></tr>')
    bare = RowProof(passed=3, failed=0, skipped=1)
    assert file_line(_with(proofs=(bare,))).endswith('<td><span class="good">proven</span></td></tr>')
    assert "withdrawn" not in file_line(ROW)
