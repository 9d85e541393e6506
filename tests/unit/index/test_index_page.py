"""The page's knowledge is the planner's: every cell, every word, and nothing a stranger's name could run."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from rekindle import api
from rekindle.api.page import _machine, ask_planner
from rekindle.api.plan_torch import plan_many
from rekindle.cli.main import main
from rekindle.facts import load_facts
from rekindle.index.pages.grid import (
    DRIVER,
    FIELDS,
    NAME,
    OLD_CPUS,
    PLACES,
    PYTHONS,
    Ask,
    Grid,
    architectures,
    driver_questions,
    driver_spans,
    fill,
    nearest_cpu,
    page_answer,
    processors,
    products,
    questions,
)
from rekindle.index.pages.page import _judge_kinds, cell, make_matrix, render_page
from rekindle.model.arch import parse_gfx_code, parse_gpu_arch, parse_sm
from rekindle.model.facts import Platform
from rekindle.model.plan import Plan, Reason, Wish
from rekindle.model.version import key
from rekindle.model.wheelhouse import RowProof, WheelRow
from rekindle.plan.question import PlanMemory

GPUS = ("none", "sm_35", "sm_120", "gfx1031")


@pytest.fixture(scope="module")
def grid() -> Grid:
    return fill(GPUS, ((ask, ask_planner([ask])[0]) for ask in questions(GPUS) if _small(ask)))


def _small(ask: Ask) -> bool:
    return ask.cpu in ("", "ivybridge") and ask.python in ("", "3.10")


SAMPLE = [
    ("Tesla K40c", Ask(gpu="sm_35", place="windows", cpu="", python="")),
    ("Tesla K40c", Ask(gpu="sm_35", place="linux", cpu="ivybridge", python="3.10")),
    ("GeForce RTX 5070", Ask(gpu="sm_120", place="windows", cpu="", python="3.10")),
    ("GeForce RTX 5070", Ask(gpu="sm_120", place="linux", cpu="ivybridge", python="")),
    ("Radeon RX 6700 XT", Ask(gpu="gfx1031", place="linux", cpu="", python="")),
    ("Radeon RX 6700 XT", Ask(gpu="gfx1031", place="windows", cpu="", python="3.10")),
    (None, Ask(gpu="sm_120", place="linux-arm", cpu="", python="")),
    (None, Ask(gpu="none", place="windows", cpu="", python="")),
]


def read(grid: Grid, part: int) -> Any:
    """A part with the parts it is made of, as the page's script reads it."""
    value = grid.parts[part]
    return [read(grid, item) for item in value] if isinstance(value, list) else value


def find(grid: Grid, ask: Ask) -> dict[str, Any]:
    """What the page shows for a question: the fields of the plan, as its JSON has them."""
    if ask.driver:
        index = [answer for first, answer in grid.drivers[ask.place][ask.gpu] if key(first) <= key(ask.driver)][-1]
    else:
        index = grid.cells[ask.place][ask.cpu][PYTHONS.index(ask.python)][grid.gpus.index(ask.gpu)]
    return {name: read(grid, part) for name, part in zip(FIELDS, grid.answers[index], strict=True)}


@pytest.mark.parametrize(("name", "ask"), SAMPLE)
def test_page_equals_command_line(grid: Grid, name: str | None, ask: Ask, capsys: pytest.CaptureFixture[str]) -> None:
    place = next(place for place in PLACES if place.id == ask.place)
    argv = ["plan", "--json", "--gpu", name or ask.gpu, "--os", place.system, "--arch", place.machine]
    argv += ["--cpu", ask.cpu] if ask.cpu else []
    argv += ["--python", ask.python] if ask.python else []
    main(argv)
    told = json.loads(capsys.readouterr().out)
    shown = json.loads(_named(json.dumps(find(grid, ask), ensure_ascii=False), name, ask.gpu))
    build = told.get("build") or {}
    for field in FIELDS:
        expected = build.get(field) if field in ("losses", "minutes", "disk_gib", "memory_gib") else told[field]
        assert shown[field] == (expected if expected != () else []), field


def test_cpus_judged_together_get_what_each_gets_alone() -> None:
    for gpu, place in (("sm_35", "linux"), ("sm_86", "windows"), ("none", "linux"), ("gfx1031", "linux")):
        asks = [Ask(gpu=gpu, place=place, cpu=cpu, python="3.11") for cpu in ("", *OLD_CPUS)]
        assert ask_planner(asks) == [ask_planner([ask])[0] for ask in asks], gpu


def test_every_card_gets_the_planners_answer_under_its_own_name() -> None:
    facts = load_facts()
    archs = architectures(facts)
    rows = products(facts, archs)
    chips = Counter(name for name, _, _ in rows)
    one_chip = {archs[index]: name for name, index, _ in rows if chips[name] == 1 and "Jetson" not in name}
    asks = [ask for ask in questions(archs) if not ask.cpu and not ask.python and ask.gpu in one_chip]
    shown, told = Grid(tuple(one_chip)), Grid(tuple(one_chip))
    for ask in sorted(asks, key=lambda ask: list(one_chip).index(ask.gpu)):
        place = next(place for place in PLACES if place.id == ask.place)
        machine = api.machine_from_flags(gpu=[one_chip[ask.gpu]], os=place.system, arch=place.machine)
        assert str(machine.gpus[0].arch) == ask.gpu
        shown.put(ask, ask_planner([ask])[0])
        told.put(ask, page_answer(api.plan(machine, wheelhouses=()), ask))
        text = json.dumps(find(shown, ask), ensure_ascii=False)
        name = str(machine.gpus[0].name)
        assert json.loads(_named(text, name, ask.gpu)) == json.loads(json.dumps(find(told, ask))), (ask, name)


@pytest.mark.parametrize(("gpu", "place"), [("sm_35", "linux"), ("sm_75", "windows"), ("sm_90", "linux-arm")])
def test_every_driver_gets_the_planners_answer(gpu: str, place: str) -> None:
    """Each driver that makes a difference, and the numbers just before and after it."""
    asks = [ask for ask in driver_questions((gpu,), load_facts()) if ask.place == place]
    grid = fill((gpu,), zip(asks, ask_planner(asks), strict=True))
    where = next(one for one in PLACES if one.id == place)
    steps = grid.drivers[place][gpu]
    assert 2 < len(steps) <= len(asks), "neighbours with one answer are one step"
    for first in {first for first, _ in steps[1:]} | {"470.256.02", "535.183.01", "9999.1"}:
        parts = [int(part) for part in first.split(".")]
        before = ".".join(map(str, (parts[0] - 1, 999, 99)))
        for driver in (before, first, f"{first}.1"):
            machine = api.machine_from_flags(gpu=[gpu], os=where.system, arch=where.machine, driver=driver)
            told, ask = Grid((gpu,)), Ask(gpu=gpu, place=place, cpu="", python="")
            told.put(ask, page_answer(api.plan(machine, wheelhouses=()), ask))
            shown = find(grid, replace(ask, driver=driver))
            text = _named(json.dumps(shown, ensure_ascii=False), None, gpu).replace(DRIVER, driver)
            assert json.loads(text) == json.loads(json.dumps(find(told, ask))), driver


@pytest.mark.parametrize("gpu", ["sm_35", "sm_61", "sm_75", "sm_120"])
def test_a_driver_inside_the_spans_changes_no_plan(gpu: str) -> None:
    """Just inside, with every CUDA that was planned: what the page then tells for a Python or an old CPU."""
    spans, seen = driver_spans((gpu,), load_facts()), 0
    asks = [ask for ask in questions((gpu,)) if ask.python in ("3.9", "3.13") and ask.cpu in ("", "nehalem")]
    for ask, plain in zip(asks, ask_planner(asks), strict=True):
        cuda, (first, below) = json.loads(plain.fields[FIELDS.index("cuda")]), spans[ask.place]["cards"][gpu]
        oldest = max(first, spans[ask.place]["kits"].get(cuda, "999999"), key=key)
        for driver in (oldest, f"{below - 1}.999" if below else "9999.1"):
            if key(oldest) <= key(driver) and (below is None or key(driver)[0] < below):
                (told,) = ask_planner([replace(ask, driver=driver)])
                assert told.fields[: FIELDS.index("because")] == plain.fields[: FIELDS.index("because")], (ask, driver)
                seen += 1
    assert seen


def test_all_that_is_judged_together_gets_what_each_gets_alone() -> None:
    """Cards, systems, Pythons, drivers and CPUs in one row: what was found for one must not be told of another."""
    archs = ("none", "sm_30", "sm_61", "sm_87", "sm_120", "gfx906", "gfx1150", "xe_dg2")
    mixed = [ask for ask in questions(archs) if ask.cpu in ("", "nehalem") and ask.python in ("", "3.9", "3.13")]
    mixed += driver_questions(("sm_30", "sm_61", "sm_120"), load_facts())[::4]
    known: PlanMemory = {}
    machines = [(_machine(ask), Wish(python=ask.python or None)) for ask in mixed]
    machines += [(machine, msgspec.structs.replace(wish, without_cudnn=True)) for machine, wish in machines[::7]]
    for asked, together in zip(machines, plan_many(machines, known), strict=True):
        assert together == api.plan(*asked, wheelhouses=()), asked


def _named(text: str, name: str | None, arch: str) -> str:
    """What page.js does with the open name."""
    shown = f"{name} ({arch})" if name else arch
    return text.replace(f"{NAME} ({arch})", shown).replace(NAME, name or arch)


def test_companions_stand_beside_the_answer_as_the_command_line_tells_them(
    grid: Grid, capsys: pytest.CaptureFixture[str]
) -> None:
    told = {name: (answer, which) for name, answer, which in read(grid, grid.companions["linux"][GPUS.index("sm_120")])}
    assert set(told) == set(load_facts().packages.package)
    asked = [name for name in ("xformers", "flash-attn-3", "bitsandbytes", "faiss-gpu") if name in told]
    torch = find(grid, Ask(gpu="sm_120", place="linux", cpu="", python=""))["torch"]
    argv = ["plan", "--json", "--gpu", "sm_120", "--os", "linux", "--torch", torch, "--with", ",".join(asked)]
    main(argv)
    for one in json.loads(capsys.readouterr().out)["companions"]:
        assert told[one["name"]] == (one["answer"], one["instead"] or one["version"] or ""), one["name"]


def test_parts_are_stored_once(grid: Grid) -> None:
    encoded = [json.dumps(part) for part in grid.parts]
    assert len(encoded) == len(set(encoded))
    assert len({tuple(answer) for answer in grid.answers}) == len(grid.answers)


def test_a_grid_reads_back_what_was_put() -> None:
    grid = Grid(("none",))
    plan = Plan(answer="none", because=(Reason(code="x", text="y", source=None),), commands=("a", "b"))
    ask = Ask(gpu="none", place="linux", cpu="", python="3.9")
    grid.put(ask, page_answer(plan, ask))
    found = find(grid, Ask(gpu="none", place="linux", cpu="", python="3.9"))
    assert found["commands"] == ["a", "b"]
    assert found["because"] == [{"code": "x", "text": "y", "source": None, "handled": False}]
    with pytest.raises(ValueError, match="in order"):
        grid.put(ask, page_answer(plan, ask))


def test_every_question_has_a_cell() -> None:
    asks = questions(("none", "sm_35"))
    assert len(asks) == len(set(asks)) == 2 * len(PYTHONS) * sum(len(place.cpus) for place in PLACES)


def test_every_product_of_the_facts_is_offered() -> None:
    facts = load_facts()
    archs = architectures(facts)
    offered = {row[0] for row in products(facts, archs)}
    for chips in (facts.nvidia.chip, facts.amd.chip, facts.intel.chip):
        for chip in chips.values():
            assert chip.arch in archs and set(chip.products) <= offered


def test_a_cpu_stands_for_one_that_can_do_no_more() -> None:
    facts = load_facts()
    table = facts.cpu.microarchitecture
    for name, _, stands in processors(facts):
        if stands:
            assert set(table[stands].features) & {"avx", "avx2", "fma", "f16c"} <= set(table[name].features)
        else:
            assert {"avx2", "fma"} <= set(table[name].features)
    assert nearest_cpu((), {name: table[name].features for name in OLD_CPUS}) == "k8"


def test_a_cpu_gets_the_planners_answer_by_the_one_it_stands_for() -> None:
    """A Core 2 was planned as if nothing were known of it: not a word about what stops there."""
    stands = {name: other for name, _, other in processors(load_facts())}
    assert "x86_64" not in stands and stands["core2"] == "core2" and stands["penryn"] == "penryn"
    for name, other in stands.items():
        machine, alike = (
            api.machine_from_flags(gpu=["none"], os="linux", arch="x86_64", cpu=cpu or None) for cpu in (name, other)
        )
        told, shown = (
            [one.code for one in (*made.because, *made.warnings)]
            for made in (api.plan(machine, wheelhouses=()), api.plan(alike, wheelhouses=()))
        )
        assert told == shown, name


def test_the_matrix_follows_the_wheels() -> None:
    facts = load_facts()
    matrix = make_matrix(facts, ("sm_35", "sm_61", "sm_86", "sm_89", "sm_120"), ("gfx1030",))
    rows = {(row[0], row[1]): row for row in matrix["nvidia"]["linux"]}
    assert rows["2.6", "cu124"][4] == "-shs-" or rows["2.6", "cu124"][4][0] == "-"
    assert rows["2.7", "cu128"][4][4] == "h", "the first wheel for sm_120"
    assert all(row[3] for place in ("linux", "windows") for row in matrix["nvidia"][place]), "each row has its source"


def test_a_strangers_name_cannot_leave_the_data(grid: Grid) -> None:
    evil = WheelRow(
        file="x-1-py3-none-any.whl", url="wheels/x/x", project="</script><script>alert(1)</script>", version="1",
        bytes=1, sha256="0", metadata_sha256="0", added="", systems=("any",), machines=("any",), pythons=("py3",),
        glibc="<img src=x onerror=alert(1)>\u2028",
    )  # fmt: skip
    full = Grid(GPUS, grid.parts, grid.answers, grid.cells)
    text, _ = render_page(load_facts(), full, [evil], base="")
    assert "<script>alert" not in text and "<img src=x" not in text
    assert text.count("</script>") == 2
    raw = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.S)
    assert raw and json.loads(raw[1])["wheels"]["projects"][0].startswith("</script>")
    assert "http://" not in re.sub(r'<script type="application/json".*?</script>', "", text, flags=re.S)


def test_the_matrix_begins_with_the_newest_torch() -> None:
    matrix = make_matrix(load_facts(), ("sm_86",), ("gfx1030",))
    for rows in (matrix["nvidia"]["linux"], matrix["amd"]["linux"]):
        releases = [tuple(map(int, row[0].split("."))) for row in rows]
        assert releases == sorted(releases, reverse=True) and len(set(releases)) > 5


def test_a_kind_of_wheel_runs_cannot_be_told_or_is_left_out() -> None:
    def wheel(**more: object) -> WheelRow:
        return WheelRow(
            file="x-1-py3-none-any.whl", url="", project="torch", version="1", bytes=1, sha256="0", metadata_sha256="0",
            added="", systems=("linux",), **{"inspected": True, **more},  # type: ignore[arg-type]
        )  # fmt: skip

    kinds = [wheel(sass=("sm_86",)), wheel(sass=("sm_35",)), wheel(inspected=False)]
    (found,) = _judge_kinds(kinds, ("sm_86",))
    assert {number: row[0] for number, row in found.items()} == {"0": 1, "2": 0}
    assert [row[0] for row in _judge_kinds(kinds, ("none",))[0].values()] == [1, 1, 1]


def test_the_matrix_says_how_each_published_wheel_runs() -> None:
    facts = load_facts()

    def told(torch: str, name: str, platform: Platform, card: str) -> str:
        (flavour,) = [row for row in facts.wheels.flavour if (row.torch, row.name) == (torch, name)]
        return cell(flavour, platform, parse_gpu_arch(card), facts)

    assert told("2.9", "cu130", "linux_x86_64", "sm_75") == "h"
    assert told("2.9", "cu130", "linux_x86_64", "sm_89") == "s", "code of the same major"
    assert told("2.9", "cu130", "linux_x86_64", "sm_61") == "-"
    assert told("2.1", "cu121", "linux_x86_64", "sm_61") == "s"
    assert told("1.11", "rocm4.5.2", "linux_x86_64", "gfx1031") == "o", "under the override"
    assert told("2.8", "rocm6.4", "linux_x86_64", "gfx900") == "-", "its libraries have nothing for it"
    assert told("2.10", "rocm7.1", "linux_x86_64", "gfx1150") == "h"
    assert told("2.10", "rocm7.1", "linux_x86_64", "sm_75") == "-"


def test_a_cell_for_every_way_a_wheel_may_run() -> None:
    facts = load_facts()
    (plain,) = [row for row in facts.wheels.flavour if (row.torch, row.name) == ("2.9", "cu130")]
    (amd,) = [row for row in facts.wheels.flavour if (row.torch, row.name) == ("2.10", "rocm7.1")]

    def told(card: str, *sm: str) -> str:
        wheel = msgspec.structs.replace(plain, sm={"linux_x86_64": sm})
        return cell(wheel, "linux_x86_64", parse_gpu_arch(card), facts)

    assert told("sm_86", "8.6") == "h" and told("sm_89", "8.6") == "s" and told("sm_90", "8.6+PTX") == "j"
    assert told("sm_90", "8.6") == "-" and told("sm_90") == "u"
    assert told("sm_61", "6.1") == "c", "its kernels run, its cuDNN has nothing for the card"
    assert told("sm_70", "5.0+PTX") == "c"
    switched = msgspec.structs.replace(amd, gfx={"linux_x86_64": (parse_gpu_arch("gfx90a:xnack+"),)})
    assert cell(switched, "linux_x86_64", parse_gpu_arch("gfx90a:xnack+"), facts) == "h"
    assert cell(switched, "linux_x86_64", parse_gpu_arch("gfx90a"), facts) == "u"
    generic = msgspec.structs.replace(amd, gfx={"linux_x86_64": (parse_gfx_code("gfx11-generic"),)})
    assert cell(generic, "linux_x86_64", parse_gpu_arch("gfx1100"), facts) == "s"


def test_the_matrix_names_the_toolkit_of_each_row() -> None:
    matrix = make_matrix(load_facts(), ("sm_86",), ("gfx1030",))
    cuda = {row[1]: row[2] for row in matrix["nvidia"]["linux"]}
    rocm = {row[1]: row[2] for row in matrix["amd"]["linux"]}
    assert cuda["cu128"] == "12.8" and rocm["rocm6.4"] == "6.4"
    assert not [row for row in matrix["amd"]["windows"] if row[1].startswith("cu")]
    assert all(len(row[4]) == 1 for row in matrix["nvidia"]["linux"])


def test_the_page_holds_the_wheels_newest_first_and_the_cards_that_wheels_are_made_for() -> None:
    def wheel(version: str, file: str) -> WheelRow:
        return WheelRow(
            file=file, url="", project="torch", version=version, bytes=1, sha256="0", metadata_sha256="0", added=""
        )

    rows = [wheel("2.9", "b"), wheel("2.10", "c"), wheel("2.9", "a"), wheel("none", "d")]
    gpus = ("none", "sm_21", "sm_30", "sm_120", "gfx1031", "xe_dg2")
    page, cards = render_page(load_facts(), Grid(gpus), rows, base="https://h/")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    data = json.loads(found[1])
    assert [row[0] for row in data["wheels"]["rows"]] == ["c", "b", "a", "d"]
    assert data["matrix"]["nvidia"]["columns"] == ["sm_30", "sm_120"] and data["matrix"]["amd"]["columns"] == [
        "gfx1031"
    ]
    assert (data["base"], len(data["cards"])) == ("https://h/", cards) and cards > 0
    assert len(data["verdicts"]) == len(gpus) and data["archs"] == list(gpus)


def test_a_wheel_is_shelved_with_what_the_page_shows_of_it() -> None:
    def wheel(file: str, **more: object) -> WheelRow:
        known: dict[str, object] = {
            "file": file, "url": "", "project": "torch", "version": "1", "bytes": 5, "sha256": "ab", "added": "",
            "metadata_sha256": "0", "systems": ("linux",), "inspected": True, "sass": ("sm_86",),
            "ptx": ("compute_90",), **more,
        }  # fmt: skip
        return WheelRow(**known)  # type: ignore[arg-type]

    good, bad = RowProof(passed=1, failed=0, skipped=0), RowProof(passed=1, failed=1, skipped=0)
    rows = [
        wheel("a", proofs=(good, bad, good)),
        wheel("b", project="other", pythons=("3.11",)),
        wheel("c", yanked="bad"),
        wheel("d"),
    ]
    page, _ = render_page(load_facts(), Grid(("none", "sm_86")), rows[::-1], base="")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.S)
    assert found
    data = json.loads(found[1])
    shelf = {row[0]: row[1:] for row in data["wheels"]["rows"]}
    shapes = data["wheels"]["shapes"]
    assert data["wheels"]["projects"] == ["torch", "other"] and [shelf[name][0] for name in "abcd"] == [0, 1, 0, 0]
    assert [shelf[name][4] for name in "abcd"] == [2, 0, 0, 0] and shelf["a"][1:3] == [5, "ab"]
    assert shelf["a"][3] == shelf["d"][3] and len({shelf[name][3] for name in "abc"}) == 3 == len(shapes)
    assert shapes[shelf["b"][3]]["code"] == ["sm_86", "PTX compute_90"] and shapes[shelf["b"][3]]["pythons"] == ["3.11"]
    assert shapes[shelf["a"][3]]["kind"] == shapes[shelf["b"][3]]["kind"] != shapes[shelf["c"][3]]["kind"]
    kinds = {str(shapes[shelf[name][3]]["kind"]) for name in "ab"}
    assert [set(by_kind) for by_kind in data["verdicts"]] == [kinds, kinds], "a withdrawn wheel runs nowhere"


def test_architectures_are_listed_by_maker_and_number() -> None:
    archs = architectures(load_facts())
    assert archs[0] == "none" and len(set(archs)) == len(archs)
    kinds = [name.rstrip("0123456789abcdef")[:2] for name in archs[1:]]
    assert list(dict.fromkeys(kinds)) == ["sm", "gf", "xe"]
    numbers = [parse_sm(name) for name in archs if name.startswith("sm_")]
    assert numbers == sorted(numbers) and "sm_87" in archs, "also those of a Jetson"


def test_a_name_that_was_sold_with_two_chips_is_offered_with_both() -> None:
    facts = load_facts()
    archs = architectures(facts)
    rows = products(facts, archs)
    assert rows == sorted(rows, key=lambda row: (row[0], archs[row[1]])) and len(
        {tuple(row[:2]) for row in rows}
    ) == len(rows)
    for name, index, detail in rows:
        chips = [
            (chip_name, chip)
            for table in (facts.nvidia.chip, facts.amd.chip, facts.intel.chip)
            for chip_name, chip in table.items()
            if name in chip.products and chip.arch == archs[index]
        ]
        assert detail in [f"{chip_name}, {chip.family}" for chip_name, chip in chips]
    few = products(facts, ("none", "sm_35"))
    assert few and {row[1] for row in few} == {1}, "cards that the page does not know are left out"


def test_questions_about_drivers_are_for_nvidias_cards_alone() -> None:
    facts = load_facts()
    asks = driver_questions(("none", "sm_75", "gfx906"), facts)
    assert {ask.gpu for ask in asks} == {"sm_75"} and {ask.place for ask in asks} == {place.id for place in PLACES}
    assert all(ask.spoken_driver == f"{ask.driver}.0" and not ask.cpu and not ask.python for ask in asks)
    assert Ask(gpu="sm_75", place="linux", cpu="", python="").spoken_driver is None
    spans = driver_spans(("none", "sm_75", "gfx906"), facts)
    assert all(set(row["cards"]) == {"sm_75"} for row in spans.values())
    assert [place.side for place in PLACES] == ["linux", "windows", "linux"]
    kits = spans["linux"]["kits"]
    assert set(kits) == set(facts.toolkits) and kits["11.8"].startswith("520.") and kits != spans["windows"]["kits"]


def test_processors_are_named_with_their_products_and_the_choice_they_stand_for() -> None:
    facts = load_facts()
    table = facts.cpu.microarchitecture
    rows = {row[0]: row[1:] for row in processors(facts)}
    assert set(rows) == {name for name, row in table.items() if row.family == "x86_64"} - {"x86_64"}
    assert all(products == (table[name].products or "") for name, (products, _) in rows.items())
    assert rows["haswell"][1] == "" and rows["ivybridge"][1] == "ivybridge"
    known = {name: table[name].features for name in OLD_CPUS}
    assert nearest_cpu(table["haswell"].features, known) == "" and nearest_cpu(("avx2",), known) != ""
    assert nearest_cpu(table["sandybridge"].features, known) == "sandybridge"
