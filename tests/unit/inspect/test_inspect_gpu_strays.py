"""GPU code outside the sections made for it, and lists of architectures that follow other text."""

from __future__ import annotations

from binaries import make_elf, make_entry, make_fatbin
from rekindle.formats.elf import Elf
from rekindle.formats.fatbin import MAGIC, stray_containers
from rekindle.inspect.declared import arch_lists_in
from rekindle.inspect.gpu import survey_gpu

CODE = make_fatbin([make_entry(2, 50), make_entry(2, 120)], [make_entry(1, 90)])


def test_containers_among_plain_data_are_found() -> None:
    data = b"x" * 13 + CODE + b"y" * 7 + CODE
    assert [len(one.entries) for one in stray_containers(data, [])] == [2, 1, 2, 1]
    assert [len(one.entries) for one in stray_containers(data, [(13, len(CODE))])] == [2, 1]


def test_what_only_looks_like_one_is_passed_over() -> None:
    assert not list(stray_containers(MAGIC, []))
    assert not list(stray_containers(MAGIC + b"\xff" * 60, []))
    cut = CODE[:-1]
    assert [len(one.entries) for one in stray_containers(b"zz" + MAGIC + b"\1" * 9 + cut, [])] == [2]


def test_a_library_counts_them_once() -> None:
    elf = make_elf({".nv_fatbin": CODE, ".rodata": b"text " + CODE})
    survey = survey_gpu(Elf(elf), "lib.so")
    assert sum(survey.sets.values()) == 4
    assert sorted(target.name for target in survey.entries) == ["compute_90", "sm_120", "sm_50"]


def test_a_list_after_text_without_its_end() -> None:
    names = [target.name for one in arch_lists_in(b"ipc_hsm_70 sm_75 sm_80\0") for target in one]
    assert names == ["sm_70", "sm_75", "sm_80"]
    assert not arch_lists_in(b"prism_70 sm_75\0")
