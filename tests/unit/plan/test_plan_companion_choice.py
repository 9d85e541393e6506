"""Which torch is taken for what goes beside it: made tables and a planner that answers as it is told."""

from typing import Any

import msgspec
import pytest

from rekindle.compat.companions import TorchSurroundings
from rekindle.errors import BadInput
from rekindle.facts import Facts, load_facts
from rekindle.facts.tables import CompanionPackagesFile
from rekindle.model.arch import parse_gpu_arch
from rekindle.model.companion import (
    CompanionPackage,
    CompanionPackageWheel,
    CompanionSource,
)
from rekindle.model.machine import Drivers, Gpu, Machine, Os
from rekindle.model.plan import Plan, Request, Wish
from rekindle.plan.companions import (
    MAX_NAMES,
    plan_companions,
    read_wanted,
    surroundings,
    with_all_companions,
)

KNOWN: dict[str, Any] = {"source": ("a test",), "date": "2026-11-16", "how": "measured"}
REAL = load_facts()
NEWEST = REAL.releases[0]


def about(last: str = "9") -> CompanionPackage:
    return CompanionPackage(title="t", kind="extension", module="m", first="1", last=last, **KNOWN)


def wheel(package: str, version: str = "9", **fields: Any) -> CompanionPackageWheel:
    pythons = {"linux_x86_64": ("3.11",)}
    return CompanionPackageWheel(**{"package": package, "version": version, "pythons": pythons, **fields}, **KNOWN)


def source(package: str, version: str = "9", **fields: Any) -> CompanionSource:
    return CompanionSource(
        **{"package": package, "version": version, "platforms": ("linux_x86_64",), **fields}, **KNOWN
    )


def tables(*rows: Any) -> Facts:
    class Made(Facts):
        packages = CompanionPackagesFile(
            schema=1,
            package={name: about() for name in dict.fromkeys((*(row.package for row in rows), "torchvision"))},
            wheel=tuple(row for row in rows if isinstance(row, CompanionPackageWheel)),
            source=tuple(row for row in rows if isinstance(row, CompanionSource)),
            fork=(),
        )

    return Made()


def box(*cards: str, os: Os | None = None, driver: str | None = None) -> Machine:
    gpus = tuple(Gpu(vendor="nvidia", name=card, arch=parse_gpu_arch(card)) for card in cards)
    return Machine(
        os=os or Os(system="linux", arch="x86_64", glibc="2.31", libc="glibc"),
        gpus=gpus,
        drivers=Drivers(nvidia=driver),
    )


class Planner:
    """Answers with the release that is asked for; ``more`` changes the plan of some."""

    def __init__(self, first: str = NEWEST, **more: dict[str, Any]) -> None:
        self.first, self.more, self.asked = first, more, list[str | None]()

    def __call__(self, wish: Wish) -> Plan:
        assert wish.companions == ()
        self.asked.append(wish.torch)
        torch = wish.torch if wish.torch in REAL.releases else self.first
        given: dict[str, Any] = {"answer": "install", "as_asked": True, "cuda": "12.4", "variant": "cu124"}
        given |= {"python": "3.11", **self.more.get(f"v{torch.replace('.', '_')}", {})}
        return Plan(torch=torch, **given)


def ask(facts: Facts, planner: Planner, *names: str, torch: str | None = None) -> Plan:
    return plan_companions(box("sm_80"), Wish(companions=names, torch=torch), facts, planner)


def test_a_torch_that_a_companion_wants_is_tried_and_taken() -> None:
    planner = Planner()
    made = ask(tables(wheel("tiny", torch="==2.6.0")), planner, "tiny")
    assert planner.asked == [None, "2.6.0"]
    assert (made.torch, made.companions[0].answer) == ("2.6.0", "runs")
    assert [(one.torch, one.taken, one.gives, one.costs) for one in made.choices] == [
        (NEWEST, False, (), ("no tiny",)),
        ("2.6.0", True, ("tiny 9",), ()),
    ]


def test_where_all_runs_nothing_else_is_tried() -> None:
    planner = Planner()
    made = ask(tables(wheel("tiny", "9"), wheel("tiny", "8", torch="==2.6.0")), planner, "tiny")
    assert planner.asked == [None]
    assert (made.torch, made.choices) == (NEWEST, ())


def test_an_older_version_that_runs_already_pulls_no_other_torch() -> None:
    planner = Planner()
    made = ask(tables(wheel("tiny", "9", torch="==2.6.0"), wheel("tiny", "8")), planner, "tiny")
    assert planner.asked == [None]
    assert made.companions[0].version == "8"


def test_the_newest_release_of_a_condition_is_tried_once() -> None:
    planner = Planner()
    rows = (wheel("one", torch=">=2.5,<2.7"), wheel("two", torch="==2.6.0"), wheel("three", torch=">=2.5,<2.7"))
    ask(tables(*rows), planner, "one", "two", "three")
    assert planner.asked == [None, "2.6.0"]


def test_the_first_torch_is_not_tried_again() -> None:
    planner = Planner(first="2.6.0")
    made = ask(tables(wheel("tiny", torch="==2.6.0", cuda=("11",))), planner, "tiny")
    assert planner.asked == [None]
    assert made.companions[0].answer == "none"


def test_eight_others_at_most() -> None:
    planner = Planner()
    releases = [version for version in REAL.releases if version != NEWEST][:10]
    rows = [wheel(f"p{number}", torch=f"=={version}") for number, version in enumerate(releases)]
    ask(tables(*rows), planner, *(row.package for row in rows))
    assert planner.asked == [None, *releases[:8]]


@pytest.mark.parametrize("plan", [{"answer": "none"}, {"as_asked": False}])
def test_a_torch_that_is_not_to_be_had_is_no_choice(plan: dict[str, Any]) -> None:
    made = ask(tables(wheel("tiny", torch="==2.6.0")), Planner(v2_6_0=plan), "tiny")
    assert (made.torch, made.choices) == (NEWEST, ())


def test_a_torch_from_source_is_no_price_but_is_told() -> None:
    made = ask(tables(wheel("tiny", torch="==2.6.0")), Planner(v2_6_0={"answer": "build"}), "tiny")
    assert made.torch == NEWEST
    assert [(one.torch, one.answer, one.costs, one.taken) for one in made.choices] == [
        (NEWEST, "install", ("no tiny",), True),
        ("2.6.0", "build", ("torch from source",), False),
    ]


def test_where_torch_is_built_anyway_another_build_may_be_taken() -> None:
    more: dict[str, Any] = {f"v{NEWEST.replace('.', '_')}": {"answer": "build"}, "v2_6_0": {"answer": "build"}}
    assert ask(tables(wheel("tiny", torch="==2.6.0")), Planner(NEWEST, **more), "tiny").torch == "2.6.0"


def test_most_companions_first_then_those_that_need_no_compiler() -> None:
    rows = (wheel("one", torch="==2.6.0"), wheel("two", torch="==2.5.0"), wheel("three", torch="==2.5.0"))
    assert ask(tables(*rows), Planner(), "one", "two", "three").torch == "2.5.0"
    rows_built = (wheel("one", torch="==2.6.0"), source("one", torch="==2.5.0"))
    made = ask(tables(*rows_built), Planner(), "one")
    assert made.torch == "2.6.0"
    assert {choice.torch: choice.costs for choice in made.choices}["2.5.0"] == ("one from source",)


def test_of_equals_the_first_stays() -> None:
    rows = (wheel("one", torch="==2.6.0"), wheel("two", torch="==2.5.0"))
    assert ask(tables(*rows), Planner(), "one", "two").torch == "2.6.0"


def test_a_torch_that_was_asked_for_stays_and_the_other_is_only_told() -> None:
    planner = Planner()
    made = ask(tables(wheel("tiny", torch="==2.6.0")), planner, "tiny", torch="2.5.0")
    assert planner.asked == ["2.5.0", "2.6.0"]
    assert made.torch == "2.5.0"
    assert [one.taken for one in made.choices] == [True, False]


def test_releases_inside_the_wish_are_not_offered_beside_it() -> None:
    planner = Planner(first="2.5.0")
    ask(tables(wheel("tiny", torch="==2.6.0")), planner, "tiny", torch=">=2.5,<2.7")
    assert planner.asked == [">=2.5,<2.7"]


AT = TorchSurroundings(
    "2.6.0", "12.4", None, "3.11", "linux_x86_64", "linux", "2.31", "cuda", (parse_gpu_arch("sm_80"),)
)


def met(machine: Machine, **plan: Any) -> TorchSurroundings:
    given = {"answer": "install", "torch": "2.6.0", "python": "3.11", **plan}
    return surroundings(Plan(**given), machine, Wish(), REAL)


def test_what_a_companion_meets() -> None:
    assert met(box("sm_80"), cuda="12.4", variant="cu124") == AT
    assert met(box("sm_80", driver="550.54.14"), cuda="12.4").driver == "550.54.14"


@pytest.mark.parametrize(
    ("plan", "backend"),
    [
        ({"cuda": "12.4", "variant": "cu124"}, "cuda"),
        ({"rocm": "6.2", "variant": "rocm6.2"}, "rocm"),
        ({"variant": "cpu"}, "cpu"),
        ({}, "cuda"),
        ({"variant": "house"}, "cuda"),
    ],
)
def test_the_backend_is_the_plans_or_the_machines(plan: dict[str, Any], backend: str) -> None:
    assert met(box("sm_80"), **plan).backend == backend


def test_the_system_of_a_companion() -> None:
    windows = met(box("sm_80", os=Os(system="windows", arch="x86_64")), cuda="12.4")
    assert (windows.platform, windows.system, windows.glibc, windows.side) == ("windows", "windows", None, "windows")
    musl = met(box("sm_80", os=Os(system="linux", arch="x86_64", libc="musl")), cuda="12.4")
    assert musl.glibc is None


def pair(package: str, **plan: Any) -> Any:
    requests = (
        Request(name="numpy", index="https://e.org"),
        Request(name="torch", index=plan.pop("index", "https://e.org")),
    )
    given = {"answer": "install", "torch": "2.6.0", "variant": "cu124", "cuda": "12.4", "python": "3.11", **plan}
    made = Plan(requests=requests, **given)
    found = with_all_companions(made, box("sm_80"), Wish(), REAL).companions
    return next((one for one in found if one.name == package), None)


def test_pairs_of_torch() -> None:
    vision, audio = pair("torchvision"), pair("torchaudio")
    assert (vision.answer, vision.version) == ("runs", "0.21.0")
    assert (audio.answer, audio.version) == ("runs", "2.6.0")
    assert vision.why == "torchvision 0.21.0 is the one made for torch 2.6.0. The line for torch brings it."
    assert vision.source in next(r for r in REAL.companions.companion if "2.6.0" in r.torch).source
    assert pair("torchvision", torch="2.6.0+cu124").version == "0.21.0"


def test_a_torch_from_source_has_its_pair_from_source() -> None:
    built = pair("torchvision", answer="build", variant="cu129")
    assert (built.answer, built.version) == ("build", "0.21.0")
    assert built.why.endswith("It is built with it.")


def test_no_pair_without_a_torch() -> None:
    gone = pair("torchvision", answer="none", torch=None)
    assert gone.answer == "unknown"
    assert pair("torchvision", answer="none").answer == "unknown"
    assert pair("torchvision", answer="none").why == (
        "There is no torch for this machine that torchvision could stand beside."
    )


def test_a_pair_without_a_wheel_for_this_python() -> None:
    lacks = pair("torchvision", python="3.14")
    assert lacks.answer == "none"
    assert "no wheel for Python 3.14" in lacks.why


def test_a_pair_on_an_index_that_nobody_looked_at() -> None:
    assert pair("torchvision", variant="cu999").answer == "unknown"
    assert pair("torchvision", variant="cu999", index=None).answer == "runs"


def test_every_package_is_judged_and_found_by_name() -> None:
    made = with_all_companions(
        Plan(answer="install", torch="2.6.0", cuda="12.4", variant="cu124", python="3.11"), box("sm_80"), Wish(), REAL
    )
    assert [one.name for one in made.companions] == list(REAL.packages.package)
    assert made.choices == ()
    assert [one.name for one in made.companions] == list(REAL.packages.package)


def test_a_pair_with_a_version_is_judged_like_any_other() -> None:
    facts = tables(wheel("torchvision", "0.9", torch="==2.6.0"))
    made = ask(facts, Planner(first="2.6.0"), "torchvision==99")
    assert "There is no torchvision 99" in made.companions[0].why


def test_forty_names_and_not_one_more() -> None:
    assert MAX_NAMES == 40
    assert len(read_wanted(["triton"] * 40, REAL)) == 1
    with pytest.raises(BadInput, match="41 companions are more than 40"):
        read_wanted(["triton"] * 41, REAL)


@pytest.mark.parametrize(
    ("names", "wanted"),
    [
        (["triton"], [("triton", "")]),
        ([" Triton == 3.0 "], [("triton", "==3.0")]),
        (["triton>=3", "xformers"], [("triton", ">=3"), ("xformers", "")]),
        (["triton~=3.1"], [("triton", "~=3.1")]),
        (["triton!=3.1"], [("triton", "!=3.1")]),
        (["triton==3", "triton==3"], [("triton", "==3")]),
    ],
)
def test_names_and_conditions(names: list[str], wanted: list[tuple[str, str]]) -> None:
    assert list(read_wanted(names, REAL).items()) == wanted


def test_twice_with_different_wishes() -> None:
    with pytest.raises(BadInput, match="triton is wanted as any version and as ==3"):
        read_wanted(["triton", "triton==3"], REAL)
    with pytest.raises(BadInput, match="triton is wanted as ==3 and as any version"):
        read_wanted(["triton==3", "triton"], REAL)


def test_unknown_names_with_and_without_a_hint() -> None:
    with pytest.raises(BadInput) as near:
        read_wanted(["xformrs"], REAL)
    assert "did you mean xformers" in (near.value.remedy or "")
    with pytest.raises(BadInput) as far:
        read_wanted(["qqqqqqqq"], REAL)
    assert (far.value.remedy or "") == f"our tables know {', '.join(sorted(REAL.packages.package))}"


def test_the_plan_stays_what_it_was() -> None:
    planner = Planner()
    made = ask(tables(wheel("tiny")), planner, "tiny")
    assert msgspec.structs.replace(made, companions=()) == planner(Wish())


def test_cards_that_nothing_serves_are_left_out_where_others_are() -> None:
    assert met(box("sm_20", "sm_80"), cuda="12.4").cards == (parse_gpu_arch("sm_80"),)
    assert met(box("sm_20"), variant="cpu").cards == (parse_gpu_arch("sm_20"),)
    assert met(box(), variant="cpu").cards == ()
