"""Third parties of a release: which rows speak of it, what they ask for, and how a system installs that."""

from typing import Any

import pytest

from rekindle.compat.resources import (
    from_index,
    how_to_install,
    install_line,
    is_planned_cudnn,
    losses_of,
    manager_of,
    needs_for,
    packages_of,
    parts_for,
    rocm_packages,
    settings_of,
    takes_from_index,
)
from rekindle.facts import Facts, load_facts
from rekindle.model.supply import FileForProcessor, FromIndex, Lack, Manager, SupplyNeed, ThirdParty

KNOWN: dict[str, Any] = {"source": ("a test",), "date": "2026-11-16", "how": "measured"}
APT = Manager(name="apt", distros=("debian", "ubuntu"), install="apt-get install -y", **KNOWN)
DNF = Manager(name="dnf", distros=("fedora",), install="dnf install -y", **KNOWN)


def need(name: str, torch: str = ">=1", **more: Any) -> SupplyNeed:
    return SupplyNeed(name=name, torch=torch, **more, **KNOWN)


def part(name: str, torch: str = ">=1", **more: Any) -> ThirdParty:
    return ThirdParty(name=name, torch=torch, **{"way": "system", **more}, **KNOWN)


def tables(*, parts: tuple[ThirdParty, ...] = (), needs: tuple[SupplyNeed, ...] = ()) -> Facts:
    import msgspec

    class Made(Facts):
        supply = msgspec.structs.replace(load_facts().supply, part=parts, need=needs, manager=(APT, DNF))

    return Made()


def test_the_first_row_of_a_part_that_fits_counts() -> None:
    rows = (part("fmt", "<2", way="off"), part("fmt", "<3", way="copy"), part("fmt", way="system"), part("gloo", ">=2"))
    facts = tables(parts=rows)
    assert [(row.name, row.way) for row in parts_for("1.13.1", facts)] == [("fmt", "off")]
    assert [(row.name, row.way) for row in parts_for("2.0.0", facts)] == [("fmt", "copy"), ("gloo", "system")]


def test_needs_are_those_of_the_release() -> None:
    facts = tables(needs=(need("old", "<2"), need("new", ">=2"), need("both")))
    assert [row.name for row in needs_for("1.13.1", facts)] == ["old", "both"]
    assert [row.name for row in needs_for("2.0.0", facts)] == ["new", "both"]


def test_what_one_back_end_needs_is_asked_of_it_alone() -> None:
    facts = tables(needs=(need("all"), need("marks", ">=2", backend="rocm"), need("old", "<2", backend="rocm")))
    assert [row.name for row in needs_for("2.0.0", facts)] == ["all"]
    assert [row.name for row in needs_for("2.0.0", facts, backend="rocm")] == ["marks"]
    assert needs_for("2.0.0", facts, backend="cuda") == ()


@pytest.mark.parametrize(
    ("manager", "home", "packages"),
    [
        (APT, "/usr", ("libamdhip64-dev", "libmiopen-dev", "libroctx-dev")),
        (APT, "/usr/local", ("libamdhip64-dev", "libmiopen-dev", "libroctx-dev")),
        (APT, "/opt/rocm-6.4.1", ("hip-dev", "miopen-hip-dev", "roctracer-dev")),
        (DNF, "/usr", ("rocm-hip-devel", "miopen-devel", "roctracer-devel")),
        (DNF, "/opt/rocm", ("hip-devel", "miopen-hip-devel", "roctracer-devel")),
    ],
)
def test_parts_of_rocm_come_from_who_made_the_rocm_that_is_there(
    manager: Manager, home: str, packages: tuple[str, ...]
) -> None:
    assert rocm_packages(("hip", "hiprtc", "miopen", "roctx"), manager, home) == packages


def test_a_manager_nobody_wrote_down_has_no_names() -> None:
    other = Manager(name="pacman", distros=("arch",), install="pacman -S", **KNOWN)
    assert rocm_packages(("hip",), other, "/usr") == ()


def test_without_tables_those_of_the_house_are_read() -> None:
    assert parts_for("1.13.1") == parts_for("1.13.1", load_facts()) != ()
    assert needs_for("1.13.1") == needs_for("1.13.1", load_facts()) != ()
    assert tables().supply.manager == (APT, DNF)


def test_settings_for_a_gpu_only_with_one() -> None:
    rows = [need("a", settings={"USE_A": "1"}, gpu={"USE_GPU_A": "1", "USE_A": "2"}), need("b", settings={"B": "3"})]
    assert settings_of(rows, "cpu") == {"USE_A": "1", "B": "3"}
    assert settings_of(rows, "cuda") == settings_of(rows, "rocm") == {"USE_A": "2", "USE_GPU_A": "1", "B": "3"}


def test_losses_are_those_that_are_said() -> None:
    rows = [part("a", loss="no a"), part("b"), part("c", loss="no c")]
    assert losses_of(rows, "cpu") == losses_of(rows, "cuda") == ("no a", "no c")


def test_what_is_off_for_a_gpu_alone_costs_other_builds_nothing() -> None:
    rows = [
        part("cuda or rocm", loss="attention", gpu={"USE_A": "0"}),
        part("rocm", loss="tuned", rocm={"USE_T": "0"}),
        part("cuda", loss="served", cuda={"USE_S": "1"}),
        part("always", loss="profiler", settings={"USE_K": "0"}, gpu={"USE_G": "0"}),
    ]
    assert losses_of(rows, "cpu") == ("profiler",)
    assert losses_of(rows, "cuda") == ("attention", "served", "profiler")
    assert losses_of(rows, "rocm") == ("attention", "tuned", "profiler")
    assert settings_of(rows, "cpu") == {"USE_K": "0"}
    assert settings_of(rows, "cuda") == {"USE_A": "0", "USE_S": "1", "USE_K": "0", "USE_G": "0"}
    assert settings_of(rows, "rocm") == {"USE_A": "0", "USE_T": "0", "USE_K": "0", "USE_G": "0"}


def test_the_index_is_asked_for_the_back_end_that_needs_it() -> None:
    one: dict[str, Any] = {
        "package": "p",
        "version": "1",
        "file": "p-1-py3-none-any.whl",
        "sha256": "0" * 64,
        "take": {"include": "i"},
    }
    rows = [
        part("all", way="index", index=FromIndex(**one)),
        part("cuda", way="index", index=FromIndex(**one, backend="cuda")),
        part("none"),
    ]
    assert [row.name for row in from_index(rows, "cuda")] == ["all", "cuda"]
    assert [row.name for row in from_index(rows, "cpu")] == ["all"]


@pytest.mark.parametrize(
    ("distro", "name"),
    [
        ("debian 12", "apt"),
        ("Ubuntu 24.04", "apt"),
        ("fedora 41", "dnf"),
        ("fedora", "dnf"),
        ("plan9", None),
        ("", None),
        (None, None),
    ],
)
def test_the_manager_of_a_distribution(distro: str | None, name: str | None) -> None:
    found = manager_of(distro, tables())
    assert (found.name if found else None) == name


def test_the_house_knows_debian() -> None:
    found = manager_of("debian 12")
    assert found is not None
    assert "debian" in found.distros


def test_packages_once_each_and_none_without_a_manager() -> None:
    rows = [
        need("a", packages={"apt": ("liba-dev", "cmake"), "dnf": ("a-devel",)}),
        need("b", packages={"apt": ("cmake", "libb-dev")}),
        need("c"),
    ]
    assert packages_of(rows, APT) == ("liba-dev", "cmake", "libb-dev")
    assert packages_of(rows, DNF) == ("a-devel",)
    assert packages_of(rows, None) == ()


def test_the_line_to_paste() -> None:
    assert install_line(["a", "b"], APT, root=False) == "sudo apt-get install -y a b"
    assert install_line(["a", "b"], APT, root=True) == "apt-get install -y a b"


def test_one_line_for_all_that_is_missing_or_none() -> None:
    lacks = [
        Lack(need=need("a", packages={"apt": ("liba-dev",)}), what=("a.h",)),
        Lack(need=need("b", packages={"apt": ("libb-dev",)}), what=("b.h",)),
    ]
    assert how_to_install(lacks, APT, root=True) == "apt-get install -y liba-dev libb-dev"
    assert how_to_install(lacks, APT, root=False) == "sudo apt-get install -y liba-dev libb-dev"
    assert how_to_install(lacks, DNF, root=True) is None
    assert how_to_install(lacks, None, root=True) is None
    assert how_to_install([], APT, root=True) is None


def from_file(**more: Any) -> FromIndex:
    fields: dict[str, Any] = {"package": "p", "version": "9.20.0.48", "file": "x.whl", "sha256": "0" * 64, "take": {}}
    return FromIndex(**fields, **more)


def test_a_row_for_one_cuda_counts_with_it_alone() -> None:
    rows = (part("nccl", way="index", toolkit=">=13,<14", index=from_file()), part("nccl", way="off"))
    facts = tables(parts=rows)
    for cuda, way in (("13.0", "index"), ("13.9", "index"), ("12.9", "off"), ("14.0", "off"), (None, "index")):
        assert [row.way for row in parts_for("2.12.1", facts, cuda=cuda)] == [way], cuda


def test_each_processor_gets_its_own_file_or_the_next_row() -> None:
    arm = FileForProcessor(file="a.whl", sha256="1" * 64)
    own = part("nccl", way="index", index=from_file(processors={"aarch64": arm}))
    facts = tables(parts=(own, part("nccl", way="off"), part("headers", way="index", index=from_file())))

    def files(processor: str | None) -> list[tuple[str, str] | None]:
        rows = parts_for("2.12.1", facts, processor=processor)
        return [(row.index.file, row.index.sha256[0]) if row.index else None for row in rows]

    assert files(None) == files("x86_64") == [("x.whl", "0"), ("x.whl", "0")]
    assert files("aarch64") == [("a.whl", "1"), ("x.whl", "0")]
    assert files("ppc64le") == [None, ("x.whl", "0")], "what has one file is for all of them"


def test_libraries_of_one_cuda_are_not_fetched_for_nobody() -> None:
    large = part("nccl", way="index", toolkit=">=13", index=from_file(backend="cuda"))
    small = part("cutlass", way="index", index=from_file(backend="cuda"))
    assert [takes_from_index(row, None) for row in (large, small)] == [False, True]
    assert [takes_from_index(row, "cuda") for row in (large, small)] == [True, True]
    assert [takes_from_index(row, "rocm") for row in (large, small)] == [False, False]


def test_the_cudnn_of_the_index_is_the_planned_one_or_none() -> None:
    row = part("cudnn", way="index", index=from_file())
    assert [is_planned_cudnn(row, wanted) for wanted in (None, "9.20.0", "9.20", "9.2", "9.12.0")] == [
        True,
        True,
        True,
        False,
        False,
    ]
    assert is_planned_cudnn(part("nccl", way="index", index=from_file()), "9.12.0"), "another third party"
