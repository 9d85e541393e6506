"""A build from a tree without submodules: what changes in the plan, and what stays."""

from typing import Any

import msgspec
import pytest
from planning import plan as planned

from rekindle.model.machine import Machine, Os
from rekindle.model.plan import BuildRecipe, Plan
from rekindle.model.supply import FromIndex, ThirdParty
from rekindle.plan.supplied import with_supply, without

KNOWN: dict[str, Any] = {"source": ("a test",), "date": "2026-11-16", "how": "measured"}
DEBIAN = Machine(os=Os(system="linux", arch="x86_64", distro="debian 12"))
RECIPE = BuildRecipe(
    source="https://example.org",
    env={"OWN": "1"},
    asserts={"LAPACK": "x", "BLAS": "MKL", "USE_FMT": "1", "KEPT": "1"},
    toolchain={"blas": "MKL by pip", "cmake": "3.18"},
    pins={"mkl": "", "mkl-include": "", "numpy": "<2"},
    losses=("lost before",),
    disk_gib=1,
    memory_gib=1,
    minutes=(1, 2),
)
BUILD = Plan(answer="build", torch="1.13.1+cpu", build=RECIPE, commands=("before",))


def part(name: str, way: Any = "system", **more: Any) -> ThirdParty:
    return ThirdParty(name=name, torch=">=1", way=way, **more, **KNOWN)


def supplied(*rows: ThirdParty, plan: Plan = BUILD, machine: Machine = DEBIAN) -> Plan:
    return with_supply(plan, rows, machine, "debian")


def recipe(*rows: ThirdParty, plan: Plan = BUILD, machine: Machine = DEBIAN) -> BuildRecipe:
    made = supplied(*rows, plan=plan, machine=machine).build
    assert made is not None
    return made


def test_without() -> None:
    assert without({"a": "1", "b": "2"}, ["b", "c"]) == {"a": "1"}


def test_a_plan_that_builds_nothing_stays_as_it_is() -> None:
    wheel = planned("RTX 3060")
    assert supplied(part("fmt"), plan=wheel) is wheel
    nameless = msgspec.structs.replace(BUILD, torch=None)
    assert supplied(part("fmt"), plan=nameless) is nameless


def test_a_whole_tree_gets_its_origin_and_packages_alone() -> None:
    made = supplied()
    assert made.build is not None
    assert made.build.origin == "debian"
    assert made.build.env == {"OWN": "1"}
    assert made.build.asserts == RECIPE.asserts and made.build.pins == RECIPE.pins
    assert (made.because, made.commands) == ((), ("before",))


def test_settings_replace_what_was_asserted() -> None:
    made = recipe(part("fmt", settings={"USE_FMT": "0"}, pins={"fmt": "==9"}))
    assert made.env["OWN"] == "1" and made.env["USE_FMT"] == "0"
    assert "USE_FMT" not in made.asserts and made.asserts["KEPT"] == "1"
    assert made.pins["fmt"] == "==9" and made.pins["numpy"] == "<2"


def test_another_blas_takes_mkl_and_its_lapack_away() -> None:
    told = recipe(part("blas", settings={"BLAS": "OpenBLAS"}, pins={"extra": ""}))
    assert not {"BLAS", "LAPACK"} & set(told.asserts)
    assert told.toolchain == {"cmake": "3.18"}
    assert told.pins == {"numpy": "<2", "extra": ""}


def test_a_blas_that_is_not_told_stays() -> None:
    old = msgspec.structs.replace(BUILD, torch="0.4.1")  # no row of the tables speaks of its BLAS
    made = recipe(part("fmt", settings={"USE_FMT": "0"}, pins={"fmt": "==9"}), plan=old)
    assert "BLAS" not in made.env
    assert made.toolchain == RECIPE.toolchain
    assert made.asserts == without(RECIPE.asserts, ["USE_FMT"])
    assert made.pins == {**RECIPE.pins, "fmt": "==9"}


def test_settings_of_a_gpu_only_with_one() -> None:
    row = part("fmt", settings={"USE_FMT": "0"}, gpu={"USE_GPU_FMT": "1"})
    assert "USE_GPU_FMT" not in recipe(row).env
    for gpu in ({"cuda": "11.8"}, {"rocm": "5.2"}):
        assert recipe(row, plan=msgspec.structs.replace(BUILD, **gpu)).env["USE_GPU_FMT"] == "1"


def test_losses_add_up_once() -> None:
    rows = (part("a", "off", loss="no a"), part("b", "off", loss="lost before"), part("c"))
    assert recipe(*rows).losses == ("lost before", "no a")


def test_packages_by_the_system_s_own_manager() -> None:
    row = part("fmt", packages={"apt": ("libfmt-dev",), "dnf": ("fmt-devel",)})
    assert "libfmt-dev" in recipe(row).packages
    fedora = Machine(os=Os(system="linux", arch="x86_64", distro="fedora 41"))
    assert "fmt-devel" in recipe(row, machine=fedora).packages
    assert recipe(row, machine=Machine(os=Os(system="windows", arch="x86_64", distro="debian 12"))).packages == ()
    assert recipe(row, machine=Machine(os=Os(system="linux", arch="x86_64"))).packages == ()


def test_what_is_said_and_pasted() -> None:
    rows = (part("a"), part("b"), part("c", "off"), part("d", "copy", packages={"apt": ("libd-dev",)}))
    made = supplied(*rows)
    (why,) = made.because
    assert why.code == "third-parties-from-system"
    assert why.text == (
        "2 third parties come from this system and 1 are left out: the tree from debian has no submodules."
    )
    assert len(made.commands) == 2
    assert made.commands[0].startswith("sudo apt-get install") and made.commands[0].endswith("libd-dev")
    assert made.commands[1] == "rekindle up --build --from debian --torch 1.13.1"
    other = supplied(*rows, machine=Machine(os=Os(system="linux", arch="x86_64")))
    assert other.commands == ("rekindle up --build --from debian --torch 1.13.1",)


def test_what_comes_from_the_index_is_said_where_it_is_needed() -> None:
    one = FromIndex(package="p", version="3.5", file="p.whl", sha256="0" * 64, take={"i": "i"}, backend="cuda")
    rows = (
        part("a"),
        part("b", "off"),
        part("cutlass", "index", index=one, rocm={"USE_ATTENTION": "0"}, loss="attention"),
    )
    with_cuda = supplied(*rows, plan=msgspec.structs.replace(BUILD, cuda="12.4"))
    assert with_cuda.because[0].text.startswith(
        "1 third parties come from this system, cutlass comes from the package index (p==3.5) and 1 are left out"
    )
    assert with_cuda.build and "attention" not in with_cuda.build.losses and "USE_ATTENTION" not in with_cuda.build.env
    with_rocm = supplied(*rows, plan=msgspec.structs.replace(BUILD, rocm="6.2"))
    assert with_rocm.build and "attention" in with_rocm.build.losses
    assert with_rocm.build.env["USE_ATTENTION"] == "0"
    for made in (with_rocm, supplied(*rows)):
        assert made.because[0].text.startswith("1 third parties come from this system and 2 are left out")


@pytest.mark.parametrize(
    ("origin", "last"),
    [
        (
            "debian",
            "rekindle up --build --from debian --torch 2.6.0 --gpu none --cpu skylake --python 3.11"
            " --set BUILD_SOX=0 --set 'CXXFLAGS=-g -O1'",
        ),
        ("git", "export BUILD_SOX=0"),
    ],
)
def test_the_commands_carry_what_was_set_by_hand(origin: str, last: str) -> None:
    """Pasted as they are printed they must give the build that was planned."""
    from rekindle.api.plan import machine_from_flags, plan_build
    from rekindle.model.plan import Wish

    machine = machine_from_flags(gpu=["none"], cpu="skylake", distro="debian-12", os="linux")
    settings = (("BUILD_SOX", "0"), ("CXXFLAGS", "-g -O1"))
    wish = Wish(build=True, torch="2.6.0", python="3.11", origin=origin, settings=settings)
    made = plan_build(machine, wish)
    assert made.build is not None
    assert (made.build.env["BUILD_SOX"], made.build.env["CXXFLAGS"]) == ("0", "-g -O1")
    assert last in made.commands
    assert ("export CXXFLAGS='-g -O1'" in made.commands) is (origin == "git"), "by hand wins over the planned one"


def test_a_build_that_cannot_do_without_is_warned_of() -> None:
    row = part("cutlass", "off", stops={"cuda": "eight files include it"})
    with_cuda = supplied(row, plan=msgspec.structs.replace(BUILD, cuda="12.6"))
    assert [(one.code, one.text) for one in with_cuda.warnings] == [
        ("third-party-needed", "cutlass: eight files include it")
    ]
    assert supplied(row).warnings == ()


def test_the_commands_carry_the_cards_that_were_described() -> None:
    """Without them ``up`` would plan for whatever is in the machine."""
    from rekindle.api.plan import machine_from_flags, plan_build
    from rekindle.model.machine import Cpu, Gpu
    from rekindle.model.plan import Wish
    from rekindle.plan.steps import asked_by_hand

    machine = machine_from_flags(gpu=["Tesla K40c"], cpu="ivybridge", distro="debian-12", os="linux")
    made = plan_build(machine, Wish(build=True, torch="1.13.1", cuda="11.8", origin="debian"))
    assert made.commands[-1].endswith("--torch 1.13.1 --gpu sm_35 --cpu ivybridge --cuda 11.8")
    seen = Machine(
        os=Os(system="linux", arch="x86_64"),
        cpu=Cpu(microarchitecture="zen3", cores=8),
        gpus=(Gpu(vendor="nvidia", name="H200", how="nvml"), Gpu(vendor="nvidia", name="a card nobody knows")),
    )
    card = ("--gpu", "a card nobody knows")
    assert asked_by_hand(seen, None, BUILD) == card, "what was looked up is found again by itself"
    other = msgspec.structs.replace(BUILD, rocm="6.3")
    assert asked_by_hand(seen, Wish(rocm="6.2"), other) == (*card, "--rocm", "6.3"), "as the plan changed it"
    assert asked_by_hand(seen, Wish(cuda="12.4"), other) == card
