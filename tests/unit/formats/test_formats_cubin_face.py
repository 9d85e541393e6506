"""What host code relies on in a cubin, the unit it comes from, and images read from and written to fat binaries."""

from __future__ import annotations

import struct

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from binaries import make_entry, make_fatbin
from gpu_libraries import make_cubin, ptx_entry
from rekindle.errors import RekindleError
from rekindle.formats.cubin import ModuleId, cubin_arch, machine_code, module_id, read_face
from rekindle.formats.fatbin import (
    LZ4,
    ZSTD,
    Entry,
    container_head,
    read_containers,
    read_image,
    read_options,
    set_host,
    write_entry,
)
from rekindle.formats.view import Malformed
from rekindle.model.arch import Sm

UNIT = "91c5f4d9_13_FillKernel_cu_54a8c5b0_77"


def _only(data: bytes) -> Entry:
    [container] = read_containers(data, 0, len(data))
    [entry] = container.entries
    return entry


def test_kernels_with_their_parameters_and_variables() -> None:
    face = read_face(make_cubin(90, {"scale": (8, 4), "none": ()}, {"table": 32, "$str": 7, ".nv.reserved": 4}))
    assert face.kernels == {"scale": ((0, 8), (1, 4)), "none": ()}
    assert face.variables == {"table": 32}, "strings and the compiler's own are nobody's business"
    assert {"scale", "table", "$str"} <= set(face.names)


def test_where_a_parameter_lies_is_not_what_is_passed() -> None:
    here, there = (read_face(make_cubin(80, {"k": (1472,)}, first_offset=at)).kernels["k"] for at in (0, 32))
    assert here == there == ((0, 1472),)


@pytest.mark.parametrize("abi", [7, 8])
def test_both_forms_are_read(abi: int) -> None:
    image = make_cubin(86, abi=abi)
    assert cubin_arch(image[:64]) == Sm(8, 6) and read_face(image).kernels


def test_machine_code_by_name() -> None:
    assert machine_code(make_cubin(code=b"\x42" * 16)) == {"scale": b"\x42" * 16}


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (f"_ZN47_INTERNAL_{UNIT}4wordE", ModuleId(f"_{UNIT}", "FillKernel_cu")),
        (f"_ZN2at49_GLOBAL__N__{UNIT}4wordE", ModuleId(f"_{UNIT}", "FillKernel_cu")),
        (f"x9949_GLOBAL__N__{UNIT}4wordE", ModuleId(f"_{UNIT}", "FillKernel_cu")),
        (f"_ZN47_INTERNAL_{UNIT.replace('13', '12')}4wordE", None),
        (f"_ZN99_INTERNAL_{UNIT}4wordE", None),
        ("_ZN2at6nativeE", None),
    ],
)
def test_the_unit_is_told_by_internal_names(name: str, found: ModuleId | None) -> None:
    assert module_id(("scale", name)) == found


def test_the_unit_of_a_whole_image() -> None:
    assert module_id(read_face(make_cubin(unit=UNIT)).names) == ModuleId(f"_{UNIT}", "FillKernel_cu")
    assert module_id(read_face(make_cubin()).names) is None


@given(st.integers(0, 700), st.binary(min_size=1, max_size=8))
def test_a_damaged_image_is_no_crash(at: int, junk: bytes) -> None:
    image = bytearray(make_cubin(variables={"v": 3}, unit=UNIT))
    image[at : at + len(junk)] = junk
    try:
        read_face(bytes(image))
    except RekindleError:
        return


def test_no_cubin_is_refused() -> None:
    with pytest.raises(Malformed, match="no CUDA image"):
        read_face(b"\x7fELF" + bytes(200))


@pytest.mark.parametrize("compression", ["none", "zstd"])
@pytest.mark.parametrize(
    ("arch", "name"), [(Sm(9, 0), "sm_90"), (Sm(9, 0, "a"), "sm_90a"), (Sm(12, 0, "f"), "sm_120f")]
)
def test_what_is_written_is_read(compression: str, arch: Sm, name: str) -> None:
    image = make_cubin(arch.number) * 3
    written = write_entry(image, arch, compression=compression)
    data = container_head(len(written)) + written
    entry = _only(data)
    assert (entry.name, entry.compression, entry.version) == (name, compression, (1, 8))
    assert len(written) % 8 == 0 and read_image(data, entry)[: len(image)] == image


def test_the_host_of_the_neighbour_is_kept() -> None:
    written = set_host(write_entry(make_cubin(), Sm(8, 0)), 0x21 | ZSTD)
    (flags,) = struct.unpack_from("<Q", written, 40)
    assert flags == 0x21


def _stored(image: bytes, stored: bytes, flag: int, size: int | None = None) -> bytes:
    body = stored.ljust(-(-len(stored) // 8) * 8, b"\0")
    entry = bytearray(make_entry(2, 80, 0x11 | flag, payload=body))
    struct.pack_into("<I", entry, 16, len(stored))
    struct.pack_into("<Q", entry, 56, len(image) if size is None else size)
    return make_fatbin([bytes(entry)])


def test_compressed_images() -> None:
    image = make_cubin()
    zstd = _stored(image, zstandard.compress(image), ZSTD)
    assert read_image(zstd, _only(zstd)) == image
    literal = bytes([0xF0, 255, 30]) + image[:300]
    lz4 = _stored(image[:300], literal, LZ4)
    assert read_image(lz4, _only(lz4)) == image[:300]


@pytest.mark.parametrize("size", [0, 1 << 40, 100_000])
@pytest.mark.parametrize("flag", [LZ4, ZSTD])
def test_a_size_that_lies_is_refused(flag: int, size: int) -> None:
    image = make_cubin()
    stored = zstandard.compress(image) if flag == ZSTD else bytes([0xF0, 255, 30]) + image[:300]
    data = _stored(image, stored, flag, size)
    with pytest.raises(Malformed):
        read_image(data, _only(data))


def test_damaged_zstd_is_refused() -> None:
    data = _stored(b"x" * 100, b"(\xb5/\xfd no frame", ZSTD)
    with pytest.raises(Malformed, match="damaged"):
        read_image(data, _only(data))


def test_ptx_without_its_padding_and_its_options() -> None:
    data = make_fatbin([ptx_entry(80, b".version 8.0\n", b"-v -O2 -fmad=false \0")])
    entry = _only(data)
    assert entry.kind == "ptx" and read_image(data, entry) == b".version 8.0\n"
    assert read_options(data, entry) == ("-v", "-O2", "-fmad=false")
    plain = make_fatbin([ptx_entry()])
    assert read_options(plain, _only(plain)) == ()
    lying = bytearray(data)
    struct.pack_into("<II", lying, 16 + 64, 9999, 40)
    assert read_options(bytes(lying), _only(bytes(lying))) == ()
