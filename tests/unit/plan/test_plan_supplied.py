"""A build from a tree without submodules: what changes in the plan, and what stays."""

from typing import Any

import pytest
from planning import FACTS, ask, kits
from planning import plan as planned

from rekindle.compat.resources import parts_for
from rekindle.model.machine import Machine, Os
from rekindle.model.plan import Plan, Wish
from rekindle.model.supply import FromIndex, ThirdParty
from rekindle.plan.candidates import Candidate
from rekindle.plan.describe import machine_from_flags
from rekindle.plan.question import BuildInputs
from rekindle.plan.solve import make_plan
from rekindle.plan.supply import RecipeDraft, asked_by_hand, drop_names, plan_blas, settle_third_parties

KNOWN: dict[str, Any] = {"source": ("a test",), "date": "2026-11-16", "how": "measured"}
DEBIAN = Machine(os=Os(system="linux", arch="x86_64", distro="debian 12"))
ASSERTS = {"LAPACK": "x", "BLAS": "MKL", "USE_FMT": "1", "KEPT": "1"}
TOOLCHAIN = {"blas": "MKL by pip", "cmake": "3.18"}
PINS = {"mkl": "", "mkl-include": "", "numpy": "<2"}
BUILD = Candidate(answer="build", torch="1.13.1", backend="cpu")
WITH_CUDA = Candidate(answer="build", torch="1.13.1", backend="cuda", cuda="11.8")
WITH_ROCM = Candidate(answer="build", torch="1.13.1", backend="rocm", rocm="5.2")


def part(name: str, way: Any = "system", **more: Any) -> ThirdParty:
    return ThirdParty(name=name, torch=">=1", way=way, **more, **KNOWN)


def settled(*rows: ThirdParty, candidate: Candidate = BUILD, machine: Machine = DEBIAN) -> RecipeDraft:
    """What such rows make of the settings of a build."""
    draft = RecipeDraft(
        env={"OWN": "1"},
        asserts=dict(ASSERTS),
        toolchain=dict(TOOLCHAIN),
        pins=dict(PINS),
        losses=("lost before",),
    )
    settle_third_parties(draft, rows, candidate, machine)
    return draft


def supplied(*rows: ThirdParty, gpu: str = "none", distro: str | None = "debian 12", **wish: Any) -> Plan:
    """The plan of a build from a tree that has these instead of submodules."""
    question = ask(gpu, distro=distro, **{"torch": "1.13.1", "build": True, **wish})
    inputs = BuildInputs(origin="debian", third_parties=lambda *_: rows)
    return make_plan(question.machine, question.wish, FACTS, inputs=inputs)


def test_without() -> None:
    assert drop_names({"a": "1", "b": "2"}, ["b", "c"]) == {"a": "1"}


def test_a_plan_that_builds_nothing_asks_for_no_third_parties() -> None:
    question = ask("RTX 3060")

    def refuse(release: str, _cuda: str | None) -> tuple[ThirdParty, ...]:
        raise AssertionError(release)

    inputs = BuildInputs(origin="debian", third_parties=refuse)
    assert make_plan(question.machine, question.wish, FACTS, inputs=inputs) == planned("RTX 3060")


def test_a_whole_tree_gets_its_origin_and_packages_alone() -> None:
    made = settled()
    assert made.env == {"OWN": "1"} and made.packages
    assert made.asserts == ASSERTS and made.pins == PINS
    whole, usual = supplied(), planned("none", torch="1.13.1", build=True, distro="debian 12")
    assert whole.build is not None and usual.build is not None
    assert (whole.build.origin, usual.build.origin) == ("debian", "git")
    assert (whole.because, whole.commands) == (usual.because, usual.commands)


def test_settings_replace_what_was_asserted() -> None:
    made = settled(part("fmt", settings={"USE_FMT": "0"}, pins={"fmt": "==9"}))
    assert made.env["OWN"] == "1" and made.env["USE_FMT"] == "0"
    assert "USE_FMT" not in made.asserts and made.asserts["KEPT"] == "1"
    assert made.pins["fmt"] == "==9" and made.pins["numpy"] == "<2"


def test_another_blas_takes_mkl_and_its_lapack_away() -> None:
    told = settled(part("blas", settings={"BLAS": "OpenBLAS"}, pins={"extra": ""}))
    assert not {"BLAS", "LAPACK"} & set(told.asserts)
    assert told.toolchain == {"cmake": "3.18"}
    assert told.pins == {"numpy": "<2", "extra": ""}


def test_a_blas_that_is_not_told_stays() -> None:
    old = Candidate(answer="build", torch="0.4.1", backend="cpu")  # no row of the tables speaks of its BLAS
    made = settled(part("fmt", settings={"USE_FMT": "0"}, pins={"fmt": "==9"}), candidate=old)
    assert "BLAS" not in made.env
    assert made.toolchain == TOOLCHAIN
    assert made.asserts == drop_names(ASSERTS, ["USE_FMT"])
    assert made.pins == {**PINS, "fmt": "==9"}


def test_settings_of_a_gpu_only_with_one() -> None:
    row = part("fmt", settings={"USE_FMT": "0"}, gpu={"USE_GPU_FMT": "1"})
    assert "USE_GPU_FMT" not in settled(row).env
    for candidate in (WITH_CUDA, WITH_ROCM):
        assert settled(row, candidate=candidate).env["USE_GPU_FMT"] == "1"


def test_losses_add_up_once() -> None:
    rows = (part("a", "off", loss="no a"), part("b", "off", loss="lost before"), part("c"))
    assert settled(*rows).losses == ("lost before", "no a")


def test_packages_by_the_system_s_own_manager() -> None:
    row = part("fmt", packages={"apt": ("libfmt-dev",), "dnf": ("fmt-devel",)})
    assert "libfmt-dev" in settled(row).packages
    fedora = Machine(os=Os(system="linux", arch="x86_64", distro="fedora 41"))
    assert "fmt-devel" in settled(row, machine=fedora).packages
    assert settled(row, machine=Machine(os=Os(system="windows", arch="x86_64", distro="debian 12"))).packages == ()
    assert settled(row, machine=Machine(os=Os(system="linux", arch="x86_64"))).packages == ()


def third_party_text(made: Plan) -> str:
    (why,) = [one for one in made.because if one.code == "third-parties-from-system"]
    return why.text


def test_what_is_said_and_pasted() -> None:
    rows = (part("a"), part("b"), part("c", "off"), part("d", "copy", packages={"apt": ("libd-dev",)}))
    made = supplied(*rows)
    assert third_party_text(made) == (
        "2 third parties come from this system and 1 are left out: the tree from debian has no submodules."
    )
    assert len(made.commands) == 2
    assert made.commands[0].startswith("sudo apt-get install") and made.commands[0].endswith("libd-dev")
    assert made.commands[1] == "rekindle up --build --from debian --torch 1.13.1 --gpu none"
    other = supplied(*rows, distro=None)
    assert other.commands == ("rekindle up --build --from debian --torch 1.13.1 --gpu none",)


def test_on_windows_both_shells_get_the_same_line() -> None:
    made = supplied(part("a"), distro=None, os="windows")
    assert made.commands == made.powershell == ("rekindle up --build --from debian --torch 1.13.1 --gpu none",)


def test_what_comes_from_the_index_is_said_where_it_is_needed() -> None:
    one = FromIndex(package="p", version="3.5", file="p.whl", sha256="0" * 64, take={"i": "i"}, backend="cuda")
    rows = (
        part("a"),
        part("b", "off"),
        part("cutlass", "index", index=one, rocm={"USE_ATTENTION": "0"}, loss="attention"),
    )
    with_cuda = supplied(*rows, gpu="sm_86", torch="2.6.0")
    assert third_party_text(with_cuda).startswith(
        "1 third parties come from this system, cutlass comes from the package index (p==3.5) and 1 are left out"
    )
    assert with_cuda.build and "attention" not in with_cuda.build.losses and "USE_ATTENTION" not in with_cuda.build.env
    with_rocm = supplied(*rows, gpu="gfx1030", torch="2.6.0")
    assert with_rocm.build and "attention" in with_rocm.build.losses
    assert with_rocm.build.env["USE_ATTENTION"] == "0"
    for made in (with_rocm, supplied(*rows)):
        assert third_party_text(made).startswith("1 third parties come from this system and 2 are left out")


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
    from rekindle.api.plan_torch import plan_build

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

    def needed(made: Plan) -> list[str]:
        return [one.text for one in made.warnings if one.code == "third-party-needed"]

    assert needed(supplied(row, gpu="sm_86", torch="2.6.0")) == ["cutlass: eight files include it"]
    assert needed(supplied(row)) == []


def test_the_commands_carry_the_cards_that_were_described() -> None:
    """Without them ``up`` would plan for whatever is in the machine."""
    from rekindle.api.plan_torch import plan_build
    from rekindle.model.machine import Cpu, Gpu

    machine = machine_from_flags(gpu=["Tesla K40c"], cpu="ivybridge", distro="debian-12", os="linux")
    made = plan_build(machine, Wish(build=True, torch="1.13.1", cuda="11.8", origin="debian"))
    assert made.commands[-1].endswith("--torch 1.13.1 --gpu sm_35 --cpu ivybridge --cuda 11.8")
    seen = Machine(
        os=Os(system="linux", arch="x86_64"),
        cpu=Cpu(microarchitecture="zen3", cores=8),
        gpus=(Gpu(vendor="nvidia", name="H200", how="nvml"), Gpu(vendor="nvidia", name="a card nobody knows")),
    )
    card = ["--gpu", "a card nobody knows"]
    assert asked_by_hand(seen, Wish(), BUILD) == card, "what was looked up is found again by itself"
    other = Candidate(answer="build", torch="2.6.0", backend="rocm", rocm="6.3")
    assert asked_by_hand(seen, Wish(rocm="6.2"), other) == [*card, "--rocm", "6.3"], "as the plan changed it"
    assert asked_by_hand(seen, Wish(cuda="12.4"), other) == card


def test_where_linear_algebra_comes_from() -> None:
    arm = ask(arch="aarch64")
    assert plan_blas(arm).where == "OpenBLAS: apt install libopenblas-dev"
    assert plan_blas(kits(arm, ("openblas", "0.3", None))).where == "OpenBLAS, found on the machine"
    assert plan_blas(kits(ask(), ("openblas", "0.3", None))).name == "OpenBLAS"
    assert plan_blas(kits(ask(), ("openblas", "0.3", None), ("mkl", "2024", None))).where == "MKL, found on the machine"
    assert (plan_blas(ask()).prefix, plan_blas(ask(os="windows")).prefix) == (".", "Library")


def from_debian(gpu: str = "sm_90", arch: str = "x86_64", **wish: Any) -> Plan:
    """torch 2.12.1 from Debian's tarball, by the tables of the house."""
    from rekindle.api.plan_torch import plan_build

    machine = machine_from_flags(gpu=[gpu], arch=arch, distro="debian-12", os="linux")
    return plan_build(machine, Wish(**{"build": True, "torch": "2.12.1", "cuda": "13.0", "origin": "debian", **wish}))


@pytest.mark.parametrize("arch", ["x86_64", "aarch64"])
def test_what_users_want_comes_from_the_index_by_its_digest(arch: str) -> None:
    made = from_debian(arch=arch)
    assert made.build is not None and made.cudnn == "9.20.0"
    for name in ("CUDNN", "NCCL", "SYSTEM_NCCL", "DISTRIBUTED", "CUSPARSELT", "FLASH_ATTENTION"):
        assert made.build.env[f"USE_{name}"] == "1", name
    assert "USE_MEM_EFF_ATTENTION" not in made.build.env, "on by itself"
    kit = made.build.toolchain
    assert kit["nccl"].startswith("2.29.7: https://pypi.org/project/nvidia-nccl-cu13/2.29.7 (nvidia_nccl_cu13-2.29.7-")
    rows = {row.name: row.index for row in parts_for("2.12.1", cuda="13.0", processor=arch)}
    for name in ("cudnn", "nccl", "cusparselt", "cudnn_frontend", "flash-attention", "cutlass"):
        index = rows[name]
        assert index is not None and f"({index.file} sha256:{index.sha256})" in kit[name]
        assert index.pin in third_party_text(made)
    lost = " ".join(made.build.losses)
    assert not any(word in lost for word in ("cuDNN", "attention", "cuSPARSELt")) and "gloo" in lost


def test_a_cudnn_that_is_lost_is_no_part_of_the_toolchain() -> None:
    made = from_debian("sm_86", cuda="12.6")
    assert made.build is not None and made.build.env["USE_CUDNN"] == "0"
    assert any(loss.startswith("cuDNN") for loss in made.build.losses)
    assert (made.cudnn, "cudnn" in made.build.toolchain) == (None, False)
    assert (made.build.env["USE_NCCL"], made.build.env["USE_DISTRIBUTED"]) == ("0", "0")
    by_hand = from_debian(settings=(("USE_CUDNN", "0"),))
    assert by_hand.build is not None and (by_hand.cudnn, "cudnn" in by_hand.build.toolchain) == (None, False)


def test_another_cudnn_that_is_asked_for_is_not_replaced() -> None:
    made = from_debian(cudnn="9.12.0")
    assert made.build is not None and made.cudnn == "9.12.0"
    assert made.build.toolchain["cudnn"].startswith("9.12.0: ")
    assert "nvidia-cudnn-cu13==9.20" not in third_party_text(made)


def test_a_card_without_flash_attention_keeps_it_off() -> None:
    made = from_debian("sm_75")
    assert made.build is not None and made.build.env["USE_FLASH_ATTENTION"] == "0"
    off = part("flash", "index", cuda={"USE_X": "1"})
    draft = RecipeDraft(env={"USE_X": "0"})
    settle_third_parties(draft, (off,), WITH_CUDA, DEBIAN)
    assert draft.env["USE_X"] == "0"
    assert settled(off, candidate=WITH_CUDA).env["USE_X"] == "1" and "USE_X" not in settled(off).env


def test_the_memory_of_the_largest_compiler_is_the_measured_one() -> None:
    made = from_debian()
    assert made.build is not None and made.build.memory_gib == 12.0
    largest = [row.largest_gib for row in FACTS.costs.build if (row.backend, row.since) == ("gpu", "2.12")]
    assert largest == [9.6]
