"""One companion's answer in words, requests, variables and lines to paste, for rows made for the purpose."""

from typing import Any

import msgspec
import pytest

from rekindle.compat.companions import CompanionFinding, No
from rekindle.facts import load_facts
from rekindle.model.arch import parse_gpu_arch
from rekindle.model.companion import (
    CompanionFork,
    CompanionPackageWheel,
    CompanionSource,
)
from rekindle.model.machine import Drivers, Gpu, Machine, Os
from rekindle.model.plan import Companion, Plan, Request
from rekindle.plan.companions import build_env, describe

KNOWN: dict[str, Any] = {"source": ("row's source",), "date": "2026-11-16", "how": "measured"}
FACTS = load_facts()
PLAN = Plan(answer="install", torch="2.6.0+cu124", variant="cu124", cuda="12.4", python="3.11")
NO = No("card", "Too old a card.", "no's source")
AFTER = No("torch", "Another torch.", "other source")


def machine(*cards: str, system: Any = "linux", driver: str | None = None, memory: float | None = None) -> Machine:
    gpus = tuple(
        Gpu(vendor="amd" if card.startswith("gfx") else "nvidia", name=card, arch=parse_gpu_arch(card))
        for card in cards
    )
    return Machine(os=Os(system=system, arch="x86_64"), gpus=gpus, drivers=Drivers(nvidia=driver), memory_gib=memory)


def wheel(**fields: Any) -> CompanionPackageWheel:
    return CompanionPackageWheel(**{"package": "tiny", "version": "3", "pythons": {}, **fields}, **KNOWN)


def source(**fields: Any) -> CompanionSource:
    return CompanionSource(**{"package": "tiny", "version": "3", "platforms": (), **fields}, **KNOWN)


def fork(**fields: Any) -> CompanionFork:
    given = {"package": "tiny", "version": "2", "name": "theirs", "url": "https://example.org/t", "state": "kept alive"}
    return CompanionFork(**{**given, **fields}, **KNOWN)


def said(kind: Any, row: Any = None, *, plan: Plan = PLAN, here: Machine | None = None, **more: Any) -> Companion:
    version = more.pop("version", row.version if row is not None else None)
    return describe(CompanionFinding("tiny", kind, version, row, **more), plan, here or machine("sm_80"), FACTS)


@pytest.mark.parametrize(
    ("place", "index", "links", "words"),
    [
        (None, None, None, []),
        ("https://e.org/{variant}", "https://e.org/cu124", None, ["--extra-index-url", "https://e.org/cu124"]),
        ("https://e.org/{variant}.html", None, "https://e.org/cu124.html", ["-f", "https://e.org/cu124.html"]),
    ],
)
def test_where_a_wheel_is(place: str | None, index: str | None, links: str | None, words: list[str]) -> None:
    got = said("runs", wheel(place=place, flags=("--pre",)))
    (request,) = got.requests
    assert (request.name, request.version, request.index, request.links) == ("tiny", "3", index, links)
    assert got.commands[-1].split()[-len(words) - 2 :] == ["tiny==3", "--pre", *words]


def test_a_torch_without_a_variant_takes_the_place_of_the_cpu() -> None:
    plan = msgspec.structs.replace(PLAN, variant=None)
    assert said("runs", wheel(place="https://e.org/{variant}"), plan=plan).requests[0].index == "https://e.org/cpu"


def test_a_wheel_under_another_name() -> None:
    got = said("runs", wheel(name="tiny-cuda12x"))
    assert got.requests[0].name == "tiny-cuda12x"
    assert "tiny-cuda12x==3" in got.commands[-1]


def test_why_it_runs() -> None:
    free = said("runs", wheel())
    assert free.why == "tiny 3: its wheel does not depend on the torch."
    assert free.requests[0].why == "does not depend on the torch"
    bound = said("runs", wheel(torch="==2.6.0", targets={"any": ("sm_80",)}))
    assert bound.why == "tiny 3: its wheel fits torch 2.6.0+cu124 and has code for this card."
    assert bound.requests[0].why == "goes with torch 2.6.0+cu124"
    gfx = said("runs", wheel(gfx=(parse_gpu_arch("gfx90a"),)))
    assert gfx.why.endswith(" and has code for this card.")


@pytest.mark.parametrize(
    ("kind", "row", "nos", "why"),
    [
        ("last", wheel(), (NO,), "tiny 3 is the last that runs here. Too old a card."),
        ("last", wheel(), (), "tiny 3 is the last that runs here. Newer versions do not run here."),
        ("last", source(), (NO,), "tiny 3 is the last that runs here. Too old a card. It must be compiled."),
        ("build", source(), (NO,), "tiny 3 compiles here. Too old a card."),
        ("build", source(), (), "tiny 3 compiles here. There is no wheel of tiny."),
        ("alternative", fork(), (NO, AFTER), "theirs: kept alive. Too old a card."),
        ("alternative", fork(), (), "theirs: kept alive."),
        ("none", None, (NO, AFTER), "Too old a card. Another torch."),
        ("unknown", None, (), "Nothing is known about tiny on this machine."),
    ],
)
def test_why(kind: str, row: Any, nos: tuple[No, ...], why: str) -> None:
    assert said(kind, row, nos=nos).why == why


def test_a_pair_of_torch_comes_with_it() -> None:
    assert said("runs", version="0.2", nos=(NO,)).why == "Too old a card. The line for torch brings it."
    assert said("build", version="0.2", nos=(NO,)).why == "Too old a card. It is built with it."
    assert said("runs", version="0.2", nos=(NO,)).commands == ()


def test_the_source_is_that_of_the_row_or_of_the_first_no() -> None:
    assert said("runs", wheel(), nos=(NO,)).source == "row's source"
    assert said("none", nos=(NO, AFTER)).source == "no's source"
    assert said("unknown").source is None


def test_what_stands_in_is_named_only_where_the_package_does_not_run() -> None:
    other = fork(name="other", stands_in=True)
    got = said("none", nos=(NO,), stand_ins=(other, fork(name="third")))
    assert (got.instead, got.state, got.url) == ("other", "kept alive", "https://example.org/t")
    assert said("unknown", stand_ins=(other,)).instead == "other"
    assert said("runs", wheel(), stand_ins=(other,)).instead is None
    assert said("alternative", fork(), stand_ins=(other,)).instead == "theirs"
    nothing = said("none", nos=(NO,))
    assert (nothing.instead, nothing.state, nothing.url) == (None, None, None)


def test_what_it_wants_instead() -> None:
    assert said("none", nos=(NO,), pulls=("==2.7.0", "==2.5.0")).wants == "==2.7.0"
    assert said("last", wheel(), pulls=("==2.7.0",)).wants == "==2.7.0"
    assert said("runs", wheel(), pulls=("==2.7.0",)).wants is None
    assert said("none", nos=(NO,)).wants is None


def test_a_toolkit_of_its_own_names_its_driver_where_none_is_known() -> None:
    row = wheel(toolkit="12.4")
    assert said("runs", row, notes=("First.",)).notes == ("First.", "It brings CUDA 12.4: driver 525.60.13 or newer.")
    windows = machine("sm_80", system="windows")
    assert said("runs", row, here=windows).notes == ("It brings CUDA 12.4: driver 528.33 or newer.",)
    assert said("runs", row, here=machine("sm_80", driver="550.54.14")).notes == ()
    assert said("runs", wheel(toolkit="12.4", torch="==2.6.0")).notes == ()
    assert said("runs", wheel()).notes == ()
    assert said("build", source(toolkit="12.4")).notes == ()


@pytest.mark.parametrize(
    ("fields", "cost"),
    [
        ({}, None),
        ({"minutes": (5, 40)}, "about 5 to 40 minutes"),
        ({"job_gib": 2.5}, "2.5 GiB of memory per compiler"),
        ({"minutes": (5, 40), "job_gib": 4.0}, "about 5 to 40 minutes, 4 GiB of memory per compiler"),
    ],
)
def test_cost(fields: dict[str, Any], cost: str | None) -> None:
    assert said("build", source(**fields)).cost == cost
    assert said("runs", wheel()).cost is None


def env_of(row: CompanionSource, here: Machine, plan: Plan = PLAN) -> dict[str, str]:
    return build_env(row, plan, here, FACTS)


@pytest.mark.parametrize(
    ("form", "env", "value"),
    [
        ("dotted", {}, "7.5;8.9"),
        ("number", {}, "75;89"),
        ("cmake", {"ARCHS": "-DX=1"}, "-DX=1 -DCMAKE_CUDA_ARCHITECTURES=75;89"),
    ],
)
def test_architectures_as_the_sources_want_them(form: Any, env: dict[str, str], value: str) -> None:
    row = source(arch_env="ARCHS", arch_form=form, env=env)
    assert env_of(row, machine("sm_89", "sm_75", "sm_89"))["ARCHS"] == value


def test_sources_that_know_only_some_architectures_are_told_one_of_those() -> None:
    row = source(arch_env="ARCHS", arch_form="number", targets={"any": ("sm_80", "sm_90")})
    assert env_of(row, machine("sm_89"))["ARCHS"] == "80"
    assert env_of(row, machine("sm_90", "sm_86", "sm_89"))["ARCHS"] == "80;90"
    assert env_of(row, machine("sm_75"))["ARCHS"] == "75"


def test_no_architectures_without_cards_or_without_cuda() -> None:
    row = source(arch_env="ARCHS")
    assert env_of(row, machine()) == {}
    assert env_of(row, machine("sm_80"), Plan(answer="install", torch="2.6.0", variant="cpu")) == {}
    assert env_of(source(), machine("sm_80")) == {}


def test_amd_cards_have_a_variable_of_their_own() -> None:
    rocm = Plan(answer="install", torch="2.6.0", rocm="6.2")
    row = source(arch_env="ARCHS")
    assert env_of(row, machine("gfx942", "gfx90a"), rocm) == {"PYTORCH_ROCM_ARCH": "gfx90a;gfx942"}
    assert env_of(row, machine(), rocm) == {}
    assert env_of(row, machine("gfx90a"), Plan(answer="install", torch="2.6.0")) == {}


def test_cuda_is_forced_only_where_torch_has_it() -> None:
    row = source(env={"FORCE_CUDA": "1", "OTHER": "2"})
    assert env_of(row, machine()) == {"FORCE_CUDA": "1", "OTHER": "2"}
    assert env_of(row, machine(), Plan(answer="install", torch="2.6.0")) == {"OTHER": "2"}
    assert row.env == {"FORCE_CUDA": "1", "OTHER": "2"}


@pytest.mark.parametrize(
    ("memory", "jobs"), [(16.0, "4"), (15.9, "3"), (4.0, "1"), (1.0, "1"), (8.0, "2"), (None, None)]
)
def test_jobs_by_memory(memory: float | None, jobs: str | None) -> None:
    assert env_of(source(job_gib=4.0), machine(memory=memory)).get("MAX_JOBS") == jobs
    assert "MAX_JOBS" not in env_of(source(), machine(memory=memory))


TORCHES = (
    Request(name="torch", version="2.6.0+cu124"),
    Request(name="torchvision", version="0.21.0+cu124"),
    Request(name="torchaudio"),
    Request(name="numpy", version="1.26"),
)


def test_the_file_of_constraints_holds_the_torches_with_their_versions() -> None:
    plan = msgspec.structs.replace(PLAN, requests=TORCHES)
    assert said("runs", wheel(), plan=plan).commands == (
        "printf '%s\\n' torch==2.6.0+cu124 torchvision==0.21.0+cu124 > torch-constraints.txt",
        "python3.11 -m pip install -c torch-constraints.txt tiny==3",
    )


def test_without_requests_the_release_is_kept_and_without_a_torch_nothing() -> None:
    assert said("runs", wheel()).commands[0] == "printf '%s\\n' torch==2.6.0 > torch-constraints.txt"
    bare = Plan(answer="none")
    assert said("runs", wheel(), plan=bare).commands == ("python3 -m pip install tiny==3",)


def test_windows_lines() -> None:
    got = said("runs", wheel(), here=machine("sm_80", system="windows"))
    assert got.commands == (
        ">torch-constraints.txt echo torch==2.6.0",
        'py -3.11 -m pip install -c torch-constraints.txt "tiny==3"',
    )


def test_sources_are_compiled_against_this_torch_with_their_variables_and_tools() -> None:
    row = source(arch_env="ARCHS", needs=("ninja", "packaging"))
    got = said("build", row)
    assert got.env == {"ARCHS": "8.0"}
    assert got.commands == (
        "printf '%s\\n' torch==2.6.0 > torch-constraints.txt",
        "export ARCHS=8.0",
        "python3.11 -m pip install ninja packaging",
        "python3.11 -m pip install -c torch-constraints.txt --no-build-isolation tiny==3",
    )
    plain = said("build", source(place="https://example.org/tiny.git"))
    assert len(plain.commands) == 2
    assert plain.commands[-1].endswith("--no-build-isolation 'tiny @ git+https://example.org/tiny.git'")
    assert said("runs", wheel()).env == {}


def test_a_fork_is_installed_as_it_says_or_not_at_all() -> None:
    assert said("alternative", fork(install=("theirs==2",))).commands[-1].endswith("-c torch-constraints.txt theirs==2")
    assert said("alternative", fork()).commands == ()
    assert said("alternative", fork()).requests == ()
