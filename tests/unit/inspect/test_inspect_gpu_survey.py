"""The GPU code of one library: containers, bundles and modules counted, and whose kernels they are."""

from __future__ import annotations

import struct

import pytest

from binaries import LZ4, make_elf, make_entry, make_fatbin, make_pe
from rekindle.formats.elf import Elf
from rekindle.formats.offload import SPIRV_MAGIC, SYCL
from rekindle.formats.pe import Pe
from rekindle.inspect import gpu
from rekindle.inspect.gpu import SAMPLES, GpuSurvey, survey_gpu

CUBIN = b"\x7fELF" + bytes(12) + b"\0.text.magma_zgemm\0"


def surveyed(sections: dict[str, bytes]) -> GpuSurvey:
    return survey_gpu(Elf(make_elf(sections)), "lib.so")


def ptx(version: tuple[int, int], arch: int = 90) -> bytes:
    major, minor = version
    whole = bytearray(make_entry(1, arch))
    whole[24:28] = struct.pack("<HH", minor, major)
    return bytes(whole)


def sass(version: tuple[int, int], arch: int = 80) -> bytes:
    major, minor = version
    whole = bytearray(make_entry(2, arch))
    whole[24:28] = struct.pack("<HH", minor, major)
    return bytes(whole)


def test_how_often_and_how_much() -> None:
    small, large = make_entry(2, 80, payload=bytes(16)), make_entry(2, 80, payload=bytes(48))
    found = surveyed({".nv_fatbin": make_fatbin([small, make_entry(2, 90, LZ4)], [large], [make_entry(5, 80)])})
    assert {target.name: count for target, count in found.entries.items()} == {"sm_80": 2, "sm_90": 1}
    assert {target.name: size for target, size in found.bytes.items()} == {"sm_80": 64, "sm_90": 16}
    assert found.compression == {"none": 2, "lz4": 1}
    assert found.odd == {"kind 5": 1}
    assert sorted(found.sets.values()) == [1, 1], "a container of which nothing is known makes no set"
    assert found.has_code
    assert not surveyed({}).has_code


def test_a_few_containers_of_each_set_are_looked_into() -> None:
    """Whatever their sizes: what counts is which cards they are for."""
    many = [[make_entry(2, 80, payload=CUBIN + bytes(8 * n))] for n in range(SAMPLES + 2)]
    others = [[make_entry(2, 90, payload=CUBIN)]]
    found = surveyed({".nv_fatbin": make_fatbin(*many, *others)})
    assert sorted(map(len, found.owners.values())) == [1, SAMPLES]
    assert {owner for rows in found.owners.values() for row in rows for owner in row} == {"MAGMA"}
    assert sorted(found.sets.values()) == [1, SAMPLES + 2]


def test_pages_are_given_back_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    """After so many bytes, and exactly those that were read."""
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(gpu, "release", lambda data, offset, size: given.append((offset, size)))
    one = make_fatbin([make_entry(2, 80)])
    # The fourth begins three containers after the section does: that is where the limit is.
    for limit, times in ((3 * len(one), 0), (3 * len(one) - 1, 1)):
        given.clear()
        monkeypatch.setattr(gpu, "RELEASE_EVERY", limit)
        elf = Elf(make_elf({".nv_fatbin": one * 4}))
        begin = next(elf.content(part)[0] for part in elf.sections if part.name == ".nv_fatbin")
        survey_gpu(elf, "lib.so")
        assert given == [(begin, 3 * len(one))] * times


def bundle(*targets: str) -> bytes:
    ids = ["host-x86_64-unknown-linux--", *(f"hipv4-amdgcn-amd-amdhsa--{name}" for name in targets)]
    table = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(ids))
    for number, name in enumerate(ids):
        at = 4096 + 64 * max(number - 1, 0)
        table += struct.pack("<QQQ", at, 64 if number else 0, len(name)) + name.encode()
    return table.ljust(4096, b"\0") + bytes(range(64)) * len(targets)


def test_bundles_for_amd() -> None:
    both = bundle("gfx906", "gfx90a:xnack+") + bundle("gfx906")
    found = surveyed({".hip_fatbin": both})
    assert {target.name: count for target, count in found.entries.items()} == {"gfx906": 2, "gfx90a:xnack+": 1}
    assert {target.name: size for target, size in found.bytes.items()} == {"gfx906": 128, "gfx90a:xnack+": 64}
    sets = {tuple(sorted(target.name for target in key)): count for key, count in found.sets.items()}
    assert sets == {("gfx906", "gfx90a:xnack+"): 1, ("gfx906",): 1}
    assert sum(found.compression.values()) == 2
    assert [target.name for target in found.entries if target.kind == "gfx"] == ["gfx906", "gfx90a:xnack+"]


def test_a_target_that_is_not_understood_is_told() -> None:
    found = surveyed({".hip_fatbin": bundle("gfx906", "gfxnew") + bundle("gfxnew") + bundle()})
    assert found.odd == {"gfxnew": 2}
    assert [target.name for target in found.entries] == ["gfx906"]
    assert list(found.sets.values()) == [1], "a bundle with nothing for a card makes no set"


def test_modules_of_sycl() -> None:
    module = SPIRV_MAGIC + bytes(28)
    found = surveyed({SYCL + "spir64": module * 3, SYCL: module})
    assert found.sycl == {"spir64": 3, "unknown": 1}
    assert found.ahead == ()
    assert found.has_code


def test_what_sycl_code_was_compiled_for_beforehand() -> None:
    options = b"\0-ftarget-x=pvc:-y -device pvc,xe-lpg,ats-m150 -options  -cl-z\0"
    found = surveyed({SYCL + "spir64_gen": bytes(40), ".rodata": options})
    assert found.ahead == ("ats-m150", "pvc", "xe-lpg")
    assert surveyed({".rodata": options}).ahead == (), "of no interest without SYCL code"


def test_windows_cuts_the_name_of_the_section() -> None:
    names = b"\0spir64_gen\0spir64\0-device bmg\0"
    found = survey_gpu(Pe(make_pe({"__CLANG_": bytes(64), ".rdata": names})), "a.dll")
    assert found.sycl == {"spir64_gen": 1, "spir64": 1}
    assert found.ahead == ("bmg",)


STUB = b"\x7fELF" + bytes(12) + b"\0.shstrtab\0.nv.info\0"


def names_of(found: GpuSurvey) -> dict[str, int]:
    rows = {" ".join(sorted(target.name for target in key)): count for key, count in found.sets.items()}
    return dict(sorted(rows.items()))


def test_images_without_a_kernel_make_no_container() -> None:
    """As libnppc and libcufftw have them, so that they link."""
    empty_ptx = make_entry(1, 80, payload=b".version 8.0\n.target sm_80\n")
    stub, kernel = make_entry(2, 52, payload=STUB), make_entry(2, 80, payload=CUBIN)
    found = surveyed({".nv_fatbin": make_fatbin([stub], [stub, empty_ptx], [stub, kernel])})
    assert names_of(found) == {"sm_52 sm_80": 1}
    assert sum(found.entries.values()) == 5, "the lists stay those of NVIDIA's own tool"
    alone = surveyed({".nv_fatbin": make_fatbin([stub])})
    assert not alone.has_code


@pytest.mark.parametrize(
    "image",
    [
        CUBIN,
        STUB.ljust(gpu.MOST_EMPTY + 1, b"\0"),
        b".version 8.0\n.visible .entry add()",
        b".version 8.0\n.visible .func (.param .b32 a) add()",
        b"what nobody knows",
    ],
)
def test_what_may_hold_a_kernel_counts(image: bytes) -> None:
    kind = 2 if image.startswith(b"\x7fELF") else 1
    assert surveyed({".nv_fatbin": make_fatbin([make_entry(kind, 80, payload=image)])}).has_code


def test_an_image_as_large_as_a_stub_gets() -> None:
    stub = STUB.ljust(gpu.MOST_EMPTY, b"\0")
    assert not surveyed({".nv_fatbin": make_fatbin([make_entry(2, 80, payload=stub)])}).has_code
    assert surveyed({".nv_fatbin": make_fatbin([make_entry(8, 80, payload=stub)])}).has_code, "LTO code has other names"
    assert surveyed({".nv_fatbin": make_fatbin([make_entry(2, 80, LZ4, b"\xff" * 16)])}).has_code, "damaged: not known"


def test_relocatable_parts_are_one_with_what_was_linked_from_them() -> None:
    """As in cufinufft 2.5.1: 14 parts with PTX, one image without."""
    part = [make_entry(2, 80), make_entry(2, 90), make_entry(1, 90)]
    poor = [make_entry(2, 80), make_entry(2, 90)]
    linked = {".nv_fatbin": make_fatbin(poor)}
    found = surveyed({"__nv_relfatbin": make_fatbin(part, part, part)} | linked)
    assert names_of(found) == {"compute_90 sm_80 sm_90": 1}
    assert {target.name: count for target, count in found.entries.items()} == {"sm_80": 4, "sm_90": 4, "compute_90": 3}
    # The driver links again only if every part has PTX.
    assert names_of(surveyed({"__nv_relfatbin": make_fatbin(part, poor)} | linked)) == {"sm_80 sm_90": 1}
    # What was compiled alone keeps its own targets.
    other = {".nv_fatbin": make_fatbin(poor, [make_entry(2, 70)])}
    assert names_of(surveyed({"__nv_relfatbin": make_fatbin(part)} | other)) == {
        "compute_90 sm_80 sm_90": 1,
        "sm_70": 1,
    }


def test_relocatable_parts_alone_are_all_there_is() -> None:
    part = [make_entry(2, 80, payload=CUBIN), make_entry(1, 90)]
    found = surveyed({"__nv_relfatbin": make_fatbin(part, part)})
    assert names_of(found) == {"compute_90 sm_80": 2}
    assert [*found.owners.values()] == [[("MAGMA",), ("MAGMA",)]]
