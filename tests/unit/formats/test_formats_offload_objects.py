"""AMD's code objects: taken out of their bundles and put in, named for another chip, and what host code relies on."""

from __future__ import annotations

import hashlib
import random
import struct
import zlib
from collections.abc import Sequence

import msgspec
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from gpu_libraries import device_elf, make_code_object
from rekindle.formats import offload
from rekindle.formats.cubin import Face
from rekindle.formats.offload import (
    Bundle,
    ahead_of_time,
    object_chip,
    read_bundles,
    read_object_face,
    read_objects,
    rename_chip,
    sycl_targets,
    unit_id,
    write_bundle,
)
from rekindle.formats.view import Malformed

PAGE = 4096
HOST, GFX = "host-x86_64-unknown-linux--", "hipv4-amdgcn-amd-amdhsa--"
OBJECTS = {HOST: b"", f"{GFX}gfx900": b"\1" * 5000, f"{GFX}gfx90a:xnack+": b"\2" * PAGE, f"{GFX}gfx1030": b"\3"}
FORMS = ["plain", "CCOB 2 zlib", "CCOB 2 zstd", "CCOB 3 zlib", "CCOB 3 zstd"]


def only(data: bytes, offset: int = 0) -> Bundle:
    [bundle] = read_bundles(data, offset, len(data) - offset, "lib.so")
    return bundle


@pytest.mark.parametrize("before", [0, 3 * PAGE])
@pytest.mark.parametrize("form", FORMS)
def test_what_is_written_is_read(form: str, before: int) -> None:
    written = write_bundle(OBJECTS, form)
    data = b"\7" * before + written
    bundle = only(data, before)
    assert (bundle.offset, bundle.form, bundle.size) == (before, form, len(written))
    assert [(each.id, each.target, each.size, each.offset) for each in bundle.objects] == [
        (HOST, None, 0, PAGE),
        (f"{GFX}gfx900", "gfx900", 5000, PAGE),
        (f"{GFX}gfx90a:xnack+", "gfx90a:xnack+", PAGE, 3 * PAGE),
        (f"{GFX}gfx1030", "gfx1030", 1, 4 * PAGE),
    ]
    assert read_objects(data + b"\7" * 99, bundle) == OBJECTS


@given(st.dictionaries(st.text(max_size=8), st.binary(max_size=40), max_size=5), st.sampled_from(FORMS))
def test_any_objects_come_back(objects: dict[str, bytes], form: str) -> None:
    data = write_bundle(objects, form)
    assert read_objects(data, only(data)) == objects


@pytest.mark.parametrize("name", ["x" * (PAGE - 56), "x" * (PAGE - 55)])
def test_the_first_object_lies_on_the_page_behind_the_names(name: str) -> None:
    data = write_bundle({name: b"code"}, "plain")
    place = data.index(b"code")
    assert place == (PAGE if len(name) == PAGE - 56 else 2 * PAGE) and not any(data[56 + len(name) : place])
    assert len(data) == place + 4
    assert data[:56] == b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<QQQQ", 1, place, 4, len(name))


@pytest.mark.parametrize(("version", "form", "header"), [(2, "<IIQ", 24), (3, "<QQQ", 32)])
@pytest.mark.parametrize(("number", "method"), [(0, "zlib"), (1, "zstd")])
def test_the_head_of_a_compressed_bundle(version: int, form: str, header: int, number: int, method: str) -> None:
    data, plain = write_bundle(OBJECTS, f"CCOB {version} {method}"), write_bundle(OBJECTS, "plain")
    assert data[:8] == b"CCOB" + struct.pack("<HH", version, number)
    digest = int.from_bytes(hashlib.md5(plain).digest()[:8], "little")
    assert struct.unpack_from(form, data, 8) == (len(data), len(plain), digest)
    inflate = zlib.decompress if method == "zlib" else zstandard.decompress
    assert inflate(data[header:]) == plain


def test_alike_code_far_apart_is_kept_once() -> None:
    noise = random.Random(4).randbytes(6 << 20)
    assert len(write_bundle({"a": noise, "b": noise}, "CCOB 3 zstd")) < len(noise) + 100_000
    assert len(write_bundle({"a": bytes(1 << 20)}, "CCOB 2 zlib")) < 5000


def test_a_bundle_that_does_not_say_how_long_it_is() -> None:
    plain = write_bundle(OBJECTS, "plain")
    data = b"CCOB" + struct.pack("<HHIQ", 1, 0, len(plain), 0) + zlib.compress(plain)
    bundle = only(data)
    assert [each.id for each in bundle.objects] == list(OBJECTS) and bundle.size == 0
    with pytest.raises(Malformed, match="lib: the compressed offload bundle at offset 0 does not say how long"):
        read_objects(data, bundle, "lib")


@pytest.mark.parametrize("form", FORMS[1:])
def test_what_is_inflated_is_as_long_as_was_said(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data, size = bytearray(write_bundle(OBJECTS, form)), len(write_bundle(OBJECTS, "plain"))
    bundle, at, field = only(bytes(data)), 12 if " 2 " in form else 16, "<I" if " 2 " in form else "<Q"

    def says(number: int) -> dict[str, bytes]:
        struct.pack_into(field, data, at, number)
        return read_objects(bytes(data), bundle, "lib")

    assert says(size) == OBJECTS
    with pytest.raises(Malformed, match="lib: a compressed offload bundle claims 0 bytes inflated"):
        says(0)
    with pytest.raises(Malformed, match=rf"lib: a compressed offload bundle is damaged \({size} of {size + 1} bytes\)"):
        says(size + 1)
    with pytest.raises(Malformed, match="claims more than there is"):
        says(size - 1)
    assert offload.MAX_INFLATED == 1024 * 1024 * 1024
    monkeypatch.setattr(offload, "MAX_INFLATED", size)
    assert says(size) == OBJECTS
    monkeypatch.setattr(offload, "MAX_INFLATED", size - 1)
    with pytest.raises(Malformed, match=f"claims {size} bytes inflated"):
        says(size)


def test_a_bundle_cut_short_is_refused() -> None:
    for form in FORMS:
        data = write_bundle(OBJECTS, form)
        with pytest.raises(Malformed):
            read_objects(data[:-9], only(data))


def test_only_a_megabyte_is_inflated_for_the_names() -> None:
    """What lies behind it may be damaged, or not there at all in a file that is read in pieces."""
    noise = random.Random(5).randbytes(3 << 20)
    data = write_bundle({f"{GFX}gfx900": noise}, "CCOB 3 zlib")
    hurt = data[: 32 + (1 << 20)] + bytes(len(data) - 32 - (1 << 20))
    assert only(hurt).objects == only(data).objects


# SYCL


def test_targets_by_the_names_in_the_data() -> None:
    assert sycl_targets(b"x\0spir64\0y") == {"spir64": 1}
    assert sycl_targets(b"\0spir64_gen\0") == {"spir64_gen": 1}
    assert sycl_targets(b"\0spir64_gen\0spir64\0") == {"spir64_gen": 1, "spir64": 1}
    assert sycl_targets(b"spir64\0 \0spir64_x86_64\0 \0spir64") == {}


def test_devices_that_were_compiled_for_beforehand() -> None:
    assert ahead_of_time(b"\0-device pvc,bmg,dg2\0 -options -cl") == ("bmg", "dg2", "pvc")
    assert ahead_of_time(b"-device  12.*\0-device pvc\0-device acm-g10,pvc,,\0") == ("12.*", "acm-g10", "pvc")
    assert ahead_of_time(b"-device \0-device\0 -devices pvc -device p\0") == ()


# What names the chip


def chips() -> dict[int, str]:
    images = (make_code_object(number) for number in range(256))
    return {number: chip for number, image in enumerate(images) if (chip := object_chip(image))}


def test_chips_by_their_numbers() -> None:
    """EF_AMDGPU_MACH of LLVM's description."""
    known = chips()
    for number, chip in ((0x2C, "gfx900"), (0x30, "gfx908"), (0x36, "gfx1030"), (0x3F, "gfx90a"), (0x41, "gfx1100")):
        assert known[number] == chip
    assert len(set(known.values())) == len(known) and 0 not in known


@pytest.mark.parametrize(
    ("at", "content"), [(0, b"\x7fELG"), (4, b"\1"), (5, b"\2"), (18, b"\xe1\0"), (18, b"\xe0\1"), (48, b"\0")]
)
def test_what_is_no_code_object_has_no_chip(at: int, content: bytes) -> None:
    image = make_code_object()
    assert object_chip(image) == object_chip(image[:64]) == "gfx1030"
    assert object_chip(image[:63]) is None
    assert object_chip(image[:at] + content + image[at + len(content) :]) is None


def test_the_same_code_for_a_chip_of_its_kind() -> None:
    image = make_code_object(variables={"table": 8})
    assert rename_chip(image, "gfx1031") == make_code_object(0x37, "gfx1031", variables={"table": 8})
    assert rename_chip(rename_chip(image, "gfx1031"), "gfx1030") == image


@pytest.mark.parametrize(
    ("image", "chip", "said"),
    [
        (make_code_object(), "gfx906", "a code object for gfx1030 cannot be named gfx906"),
        (make_code_object(), "gfx1999", "a code object for gfx1030 cannot be named gfx1999"),
        (make_code_object(0), "gfx1031", "a code object for an unknown chip cannot be named gfx1031"),
        (make_code_object(name="gfx1032"), "gfx1031", "names its chip 0 times instead of once"),
        (make_code_object(code=b"amdgcn-amd-amdhsa--gfx1030"), "gfx1031", "names its chip 2 times instead of once"),
    ],
)
def test_what_cannot_be_named_otherwise(image: bytes, chip: str, said: str) -> None:
    with pytest.raises(Malformed, match=said):
        rename_chip(image, chip)


# What host code relies on


def test_kernels_and_variables() -> None:
    kernels = {"scale": (8, 4), "none": (), "big": (1000,)}
    own = {"__hip_cuid_1f": 1, "_ZN17__HIP_CoordinatesI": 1, "my__hip_cuid_": 5}
    face = read_object_face(make_code_object(kernels=kernels, variables={"table": 32} | own))
    assert face.kernels == {"scale": ((0, 8), (1, 4)), "none": (), "big": ((0, 1000),)}
    assert face.variables == {"table": 32, "my__hip_cuid_": 5}, "the compiler's own are nobody's business"
    assert face.names == ("", "scale.kd", "none.kd", "big.kd", "table", *own)


def row(kind: str = "by_value", size: int = 4) -> dict[str, object]:
    return {".offset": 0, ".size": size, ".value_kind": kind}


def kernel(name: str, args: Sequence[dict[str, object]] | None) -> dict[str, object]:
    out: dict[str, object] = {".name": name, ".kernarg_segment_size": 8}
    return out if args is None else out | {".args": args}


def note(kind: int, content: bytes, name: bytes = b"AMDGPU\0") -> bytes:
    padded = name + bytes(-len(name) % 4)
    return struct.pack("<III", len(name), len(content), kind) + padded + content + bytes(-len(content) % 4)


def noted(*sections: tuple[int, bytes]) -> bytes:
    """A code object with these sections (kind, content), no symbols."""
    rows = [("", kind, content, 0) for kind, content in ((0, b""), *sections)]
    return device_elf(rows, 224, b"\x40\x02", 0x36)


def told(*kernels: dict[str, object]) -> bytes:
    return msgspec.msgpack.encode({"amdhsa.kernels": kernels})


def test_the_place_of_an_argument_is_among_all_of_them() -> None:
    """Hidden ones are the driver's to fill in; host code hands over the others in their order."""
    args = [row(size=1), row("hidden_none", 2), row("global_buffer", 8), row("not_hidden_", 16)]
    image = noted((7, note(32, told(kernel("k", args), kernel("bare", None), kernel("empty", [])))))
    assert read_object_face(image) == Face({"k": ((0, 1), (2, 8), (3, 16)), "bare": (), "empty": ()}, {}, ())


@pytest.mark.parametrize("length", range(1, 9))
@pytest.mark.parametrize("size", range(5))
def test_the_metadata_among_other_notes(length: int, size: int) -> None:
    """Names and contents are padded to four bytes."""
    mine = note(32, told(kernel("k", [row()])), b"A" * length)
    other = note(3, b"\x20" * size, b"G" * length)
    for sections in ([(7, mine)], [(7, other + mine)], [(7, other), (7, mine)], [(7, mine + other), (7, b"")],
                     [(1, note(32, b"")), (8, note(32, b"")), (7, other + mine + other)]):  # fmt: skip
        assert read_object_face(noted(*sections)).kernels == {"k": ((0, 4),)}


def test_the_smallest_note_and_less() -> None:
    least = struct.pack("<III", 0, 0, 32)
    with pytest.raises(Malformed, match="code object: its list of kernels cannot be read"):
        read_object_face(noted((7, least)))  # it is found, and it is empty
    for sections in ([(7, least[:11])], [(7, note(3, b"1234") + least[:11])], [(1, least)], []):
        with pytest.raises(Malformed, match="odd has no metadata of AMD's kind"):
            read_object_face(noted(*sections), "odd")


@pytest.mark.parametrize(
    "metadata",
    [b"\xc1", msgspec.msgpack.encode([1]), msgspec.msgpack.encode({}), msgspec.msgpack.encode({"amdhsa.kernels": [3]}),
     b"\x91" * 100_000, b"\xa1\xff", told(kernel("k", [row()]) | {".name": 7}),
     told({".name": "k", ".kernarg_segment_size": 8, ".args": 5}), told(kernel("k", [row() | {".value_kind": 7}]))],
)  # fmt: skip
def test_metadata_of_another_form_is_refused(metadata: bytes) -> None:
    """Nested without end, text that is none, a kernel whose name is a number: whatever a stranger writes."""
    with pytest.raises(Malformed, match="code object: its list of kernels cannot be read"):
        read_object_face(noted((7, note(32, metadata))))


@given(st.integers(0, 900), st.binary(min_size=1, max_size=8))
def test_a_damaged_code_object_is_no_crash(at: int, junk: bytes) -> None:
    image = bytearray(make_code_object(variables={"v": 3}, cuid="1f"))
    image[at : at + len(junk)] = junk
    try:
        read_object_face(bytes(image))
    except Malformed as error:
        assert str(error)


@pytest.mark.parametrize(
    ("names", "found"),
    [
        (("scale", "__hip_cuid_4e6fAZ_9"), "4e6fAZ_9"),
        (("_ZL4word.intern.0123456789abcdef", "__hip_cuid_1"), "0123456789abcdef"),
        (("_ZL4word.static.01234567",), "01234567"),
        (("_ZL4word__intern__01234567",), "01234567"),
        (("_ZL4word__static__89abcdef", "later"), "89abcdef"),
        (("_ZL4word.intern.0123456",), None),
        (("scale", "table"), None),
        ((), None),
    ],
)
def test_the_unit_by_its_names(names: tuple[str, ...], found: str | None) -> None:
    assert unit_id(names) == found
