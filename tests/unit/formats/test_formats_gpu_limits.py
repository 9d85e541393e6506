"""Fat binaries, offload bundles and cubins at the edges of what is taken: one byte more or less each time."""

from __future__ import annotations

import struct
import zlib

import pytest
import zstandard

from binaries import make_entry, make_fatbin
from rekindle.formats import fatbin, offload
from rekindle.formats.cubin import cubin_arch
from rekindle.formats.fatbin import Container, read_containers, stray_containers
from rekindle.formats.offload import Bundle, CodeObject, count_modules, read_bundles
from rekindle.formats.view import Malformed

ONE = make_fatbin([make_entry(2, 90)])
MAGIC_ONLY = ONE[:4]


def patched(data: bytes, at: int, form: str, *values: int) -> bytes:
    out = bytearray(data)
    struct.pack_into(form, out, at, *values)
    return bytes(out)


def read(data: bytes, offset: int = 0, size: int | None = None) -> list[Container]:
    return list(read_containers(data, offset, len(data) - offset if size is None else size, "lib.so"))


def test_every_field_of_an_entry() -> None:
    first = make_entry(2, 90, 0x2011, payload=b"\1" * 24)
    second = make_entry(1, 100, payload=b"\2" * 8, header=72)
    [container] = read(make_fatbin([first, second]))
    assert container[:2] == (0, 16 + 88 + 80)
    assert container.entries[0] == ("sass", 90, "", 24, 0x2011, (1, 7), 16, 64, 24)
    assert container.entries[1] == ("ptx", 100, "", 8, 0x11, (1, 7), 104, 72, 8)


@pytest.mark.parametrize(("kind", "name"), [(1, "compute_90"), (2, "sm_90"), (8, "lto_90"), (3, "sm_90")])
def test_kinds(kind: int, name: str) -> None:
    [container] = read(make_fatbin([make_entry(kind, 90)]))
    assert container.entries[0].name == name
    assert container.entries[0].kind == {1: "ptx", 2: "sass", 8: "lto", 3: "kind 3"}[kind]


@pytest.mark.parametrize(
    ("flags", "suffix", "compression"),
    [(0x100000, "a", "none"), (0x200000, "f", "none"), (0x300000, "a", "none"), (0x2000, "", "lz4"),
     (0x8000, "", "zstd"), (0xA000, "", "zstd"), (0x7FFF & ~0x2000, "", "none"), (0xC00000, "", "none")],
)  # fmt: skip
def test_flags(flags: int, suffix: str, compression: str) -> None:
    [container] = read(make_fatbin([make_entry(2, 90, flags)]))
    assert (container.entries[0].suffix, container.entries[0].compression) == (suffix, compression)


@pytest.mark.parametrize(("offset", "size"), [(-1, 5), (0, -1), (1, len(ONE)), (0, len(ONE) + 1)])
def test_a_section_must_lie_inside(offset: int, size: int) -> None:
    with pytest.raises(Malformed, match="lies outside the file"):
        read(ONE, offset, size)


def test_a_section_may_begin_anywhere_and_be_empty() -> None:
    assert read(ONE, 0, 0) == read(ONE, len(ONE), 0) == []
    for before in (1, 3, 8):
        assert [c.offset for c in read(b"\7" * before + ONE, before)] == [before]
        assert [c.offset for c in read(b"\7" * before + ONE, 0)] == [before]


def test_a_container_ends_exactly_with_its_section() -> None:
    assert len(read(ONE + b"\7" * 9, 0, len(ONE))) == 1
    with pytest.raises(Malformed, match="claims 80 bytes"):
        read(ONE, 0, len(ONE) - 1)
    empty = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0)
    assert read(empty) == [Container(0, 16, ())]
    with pytest.raises(Malformed, match="offset 0 is cut off"):
        read(empty[:15])
    with pytest.raises(Malformed, match="claims 0 bytes"):
        read(patched(empty, 6, "<H", 15))
    assert read(patched(empty, 6, "<H", 17) + b"\0") == [Container(0, 17, ())]


def test_more_containers_than_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fatbin, "MAX_CONTAINERS", 3)
    assert len(read(ONE * 3)) == 3
    with pytest.raises(Malformed, match="more than 3"):
        read(ONE * 4)
    assert len(list(stray_containers(ONE * 4, []))) == 3


def test_limits_are_those_measured() -> None:
    assert (fatbin.MAX_CONTAINERS, fatbin.STRETCH) == (1_000_000, 16 * 1024 * 1024)
    assert (offload.MAX_BUNDLES, offload.HEAD, offload.MOST_COMPRESSED) == (1_000_000, 65536, 1048576)


@pytest.mark.parametrize(("arch", "taken"), [(9, False), (10, True), (999, True), (1000, False)])
def test_architectures_that_can_be(arch: int, taken: bool) -> None:
    data = make_fatbin([make_entry(2, arch)])
    if taken:
        assert read(data)[0].entries[0].number == arch
    else:
        with pytest.raises(Malformed, match=f"names architecture {arch}"):
            read(data)


@pytest.mark.parametrize(("header", "taken"), [(47, False), (48, True), (4096, True), (4097, False)])
def test_headers_that_can_be(header: int, taken: bool) -> None:
    entry = make_entry(2, 90, header=max(header, 64))
    data = make_fatbin([patched(entry, 4, "<IQ", header, len(entry) - header)])
    if taken:
        assert read(data)[0].entries[0].header == header
    else:
        with pytest.raises(Malformed, match="which cannot be"):
            read(data)


def test_an_entry_ends_with_its_container() -> None:
    entry = make_entry(2, 90, payload=b"\1" * 16)
    assert read(make_fatbin([patched(entry, 8, "<Q", 16)]))[0].entries[0].size == 16
    with pytest.raises(Malformed, match=r"claims 64\+17 bytes"):
        read(make_fatbin([patched(entry, 8, "<Q", 17)]))
    assert len(read(make_fatbin([entry, b"\0" * 40]))[0].entries) == 1
    with pytest.raises(Malformed, match="entry at offset 96 is cut off"):
        read(make_fatbin([entry, b"\0" * 46 + b"\1"]))
    least = patched(make_entry(2, 80)[:48], 4, "<IQ", 48, 0)
    assert [e.number for e in read(make_fatbin([entry, least]))[0].entries] == [90, 80]


@pytest.mark.parametrize("gap", [*range(20), 56, 63, 64, 65, 72, 200])
@pytest.mark.parametrize("filler", [0, 1])
def test_containers_are_found_behind_any_gap(gap: int, filler: int) -> None:
    data = b"\0" * 5 + ONE + bytes([filler]) * gap + ONE
    found = [5, 5 + len(ONE) + gap]
    assert [c.offset for c in read(data, 5)] == found
    assert [c.offset for c in read(data[:5] + memoryview(data)[5:].tobytes(), 0)] == found
    assert [c.offset for c in stray_containers(data, [])] == found


def test_strays_over_the_border_of_a_stretch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fatbin, "STRETCH", 64)
    for at in (0, 1, 59, 60, 61, 62, 63, 64, 65, 127, 128):
        data = b"\1" * at + ONE + b"\1" * 70
        assert [c.offset for c in stray_containers(data, [])] == [at]


def test_what_was_searched_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each page once, up to what was found: memory stays small whatever the file's size."""
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(fatbin, "STRETCH", 64)
    monkeypatch.setattr(fatbin, "release", lambda _, at, size: given.append((at, size)))
    assert len(list(stray_containers(ONE + b"\1" * 100 + ONE + b"\1" * 70, []))) == 2
    end = len(ONE)
    assert given == [(0, 0), (end, 64), (end + 64, 36), (2 * end + 100, 64), (2 * end + 164, 6)]


def test_code_may_end_with_what_looks_like_a_container() -> None:
    for more in (b"", b"\0" * 4):
        data = make_fatbin([make_entry(2, 90, payload=bytes(16 - len(more)) + MAGIC_ONLY + more)]) + ONE
        assert [container.offset for container in read(data)] == [0, len(data) - len(ONE)]


def test_known_stretches_are_left_out() -> None:
    data = ONE + b"\1" * 8 + ONE + b"\1" * 8 + ONE
    second, third = len(ONE) + 8, 2 * (len(ONE) + 8)
    assert [c.offset for c in stray_containers(data, [(0, 1)])] == [second, third]
    assert [c.offset for c in stray_containers(data, [(0, 0)])] == [0, second, third]
    assert [c.offset for c in stray_containers(data, [(second, len(ONE)), (0, len(ONE))])] == [third]
    assert [c.offset for c in stray_containers(data, [(0, second)])] == [second, third]
    assert [c.offset for c in stray_containers(data, [(0, second + 1)])] == [third]
    assert [c.offset for c in stray_containers(data, [(second + 1, 2)])] == [0, second, third]
    assert [c.size for c in stray_containers(data, [])] == [len(ONE)] * 3


def test_bytes_that_only_look_like_a_container() -> None:
    def strays(data: bytes) -> list[int]:
        return [c.offset for c in stray_containers(data, [])]

    assert strays(ONE[:15]) == strays(ONE[:-1]) == strays(ONE[:4]) == []
    for at, form, value in ((4, "<H", 2), (4, "<H", 0), (6, "<H", 15), (6, "<H", 17), (8, "<Q", 0), (8, "<Q", 81)):
        assert strays(patched(ONE, at, form, value)) == []
    assert strays(patched(ONE, 8, "<Q", 0) + ONE) == [len(ONE)]
    assert strays(patched(ONE, 16 + 28, "<I", 7)) == []
    nothing = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 40) + b"\0" * 40
    assert strays(nothing) == []
    assert strays(ONE[:4] + ONE) == [4]


# Offload bundles


def table(*rows: tuple[int, int, bytes], count: int | None = None) -> bytes:
    out = b"__CLANG_OFFLOAD_BUNDLE__" + struct.pack("<Q", len(rows) if count is None else count)
    return out + b"".join(struct.pack("<QQQ", at, size, len(name)) + name for at, size, name in rows)


def bundles(data: bytes, offset: int = 0, size: int | None = None) -> list[Bundle]:
    return list(read_bundles(data, offset, len(data) - offset if size is None else size, "lib.so"))


GFX = b"hipv4-amdgcn-amd-amdhsa--gfx90a"


def test_a_plain_bundle_ends_with_its_furthest_object() -> None:
    data = table((100, 20, GFX), (90, 10, b"host-x86_64"))
    length = len(data)
    assert length == 32 + 48 + len(GFX) + 11
    objects = (CodeObject(GFX.decode(), "gfx90a", 20, 100), CodeObject("host-x86_64", None, 10, 90))
    assert bundles(data.ljust(120, b"\0")) == [Bundle(0, "plain", objects, length)]
    next_one = data.ljust(120, b"\0") * 2
    assert [b.offset for b in bundles(next_one)] == [0, max(120, length)]
    with pytest.raises(Malformed, match="claims more than there is"):
        bundles(table((length, 1, GFX))[:length])
    short = table((0, 0, GFX))
    assert [b.offset for b in bundles(short + short)] == [0, len(short)]
    assert [b.offset for b in bundles(b"\1" * 7 + short + short, 7)] == [7, 7 + len(short)]


def test_an_object_must_lie_in_the_section() -> None:
    for size, taken in ((200, True), (201, False)):
        data = table((100, size - 100, GFX)).ljust(300, b"\0")
        if taken:
            assert bundles(data, 0, 200)[0].objects[0].size == 100
            assert bundles(b"\0" * 8 + data, 8, 200)[0].offset == 8
        else:
            with pytest.raises(Malformed, match="claims more than there is"):
                bundles(data, 0, 200)


def test_names_and_counts_have_ends() -> None:
    name = b"x" * 4096
    assert bundles(table((0, 0, name)))[0].objects[0].id == name.decode()
    with pytest.raises(Malformed, match="claims more than there is"):
        bundles(table((0, 0, name + b"x")))
    assert len(bundles(table(*[(0, 0, b"a")] * 1024))[0].objects) == 1024
    with pytest.raises(Malformed, match="claims 1025 targets"):
        bundles(table(*[(0, 0, b"a")] * 1025))
    with pytest.raises(Malformed):
        bundles(table((0, 0, b"a"), count=2))
    assert bundles(table(count=0))[0].objects == ()


def test_a_section_outside_or_too_small() -> None:
    data = table((0, 0, GFX))
    with pytest.raises(Malformed, match="offload section lies outside"):
        bundles(data, 0, len(data) + 1)
    assert bundles(data[:3]) == bundles(b"") == []
    with pytest.raises(Malformed):
        bundles(b"CCOB")


@pytest.mark.parametrize("before", [0, 8, 100])
def test_the_next_bundle_begins_at_a_page_of_the_section(before: int) -> None:
    short = table((0, 0, GFX))
    data = b"\7" * before + short.ljust(8192, b"\0") + short
    assert [b.offset - before for b in bundles(data, before)] == [0, 8192]
    moved = b"\7" * before + short.ljust(8191, b"\0") + short
    assert [b.offset - before for b in bundles(moved, before)] == [0]
    late = b"\7" * before + b"\0" * 4096 + short
    assert [b.offset - before for b in bundles(late, before)] == [4096]


def test_more_bundles_than_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offload, "MAX_BUNDLES", 3)
    short = table((0, 0, GFX))
    assert len(bundles(short * 3)) == 3
    with pytest.raises(Malformed, match="more than 3"):
        bundles(short * 4)


def squeezed(version: int, body: bytes, method: int = 0, total: int | None = None) -> bytes:
    packed = zlib.compress(body) if method == 0 else zstandard.compress(body)
    header = {1: 20, 2: 24, 3: 32}[version]
    whole = header + len(packed) if total is None else total
    sizes = {1: b"", 2: struct.pack("<I", whole), 3: struct.pack("<Q", whole)}[version]
    size = struct.pack("<Q" if version == 3 else "<I", len(body))
    return b"CCOB" + struct.pack("<HH", version, method) + sizes + size + b"\7" * 8 + packed


@pytest.mark.parametrize("version", [2, 3])
def test_a_compressed_bundle_says_how_long_it_is(version: int) -> None:
    body, header = table((5000, 70, GFX)), {2: 24, 3: 32}[version]
    good = squeezed(version, body)
    [bundle] = bundles(good)
    assert bundle.objects == (CodeObject(GFX.decode(), "gfx90a", 70, 5000),)
    assert [b.offset for b in bundles(b"\1" * 9 + good + good, 9)] == [9, 9 + len(good)]
    for total in (header, header - 1, len(good) + 1):
        with pytest.raises(Malformed, match=f"claims {total} bytes"):
            bundles(squeezed(version, body, total=total))
    with pytest.raises(Malformed, match=r"damaged|something else|ends before"):
        bundles(squeezed(version, body, total=header + 1))


@pytest.mark.parametrize("version", [0, 4])
def test_versions_not_known(version: int) -> None:
    with pytest.raises(Malformed, match=f"of version {version}, which is not known"):
        bundles(patched(squeezed(1, table()), 4, "<H", version))


def test_methods_not_known_and_other_content() -> None:
    with pytest.raises(Malformed, match="method 2, which is not known"):
        bundles(patched(squeezed(2, table()), 6, "<H", 2))
    for method in (0, 1):
        with pytest.raises(Malformed, match="holds something else"):
            bundles(squeezed(2, b"hello" * 20, method))
        with pytest.raises(Malformed, match="damaged"):
            good = squeezed(2, table(), method)
            bundles(good[:24] + b"\xee" * (len(good) - 24))


@pytest.mark.parametrize("method", [0, 1])
def test_only_the_head_is_inflated(method: int) -> None:
    body = table((70_000, 1 << 40, GFX)).ljust(200_000, b"\1")
    packed = squeezed(2, body, method)[24:]
    assert len(offload._inflate_head(packed, method, "x")) == 65536
    assert bundles(squeezed(2, body, method))[0].objects[0].size == 1 << 40
    # what follows a good beginning does not matter
    assert offload._inflate_head(packed, method, "x") == body[:65536]


@pytest.mark.parametrize(
    ("data", "count"), [(b"", 0), (b"x", 1), (b"\3\2\x23\7", 1), (b"\3\2\x23\7abc" * 3, 3), (b"abc\3\2\x23", 1)]
)
def test_modules_of_sycl_code(data: bytes, count: int) -> None:
    assert count_modules(b"zz" + data + b"\3\2\x23\7", 2, len(data)) == count


@pytest.mark.parametrize(
    ("name", "target"),
    [("hip-amdgcn-amd-amdhsa--gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack-"), ("gfx9-4-generic", "gfx9-4-generic"),
     ("hip-spirv64-amd-amdhsa--amdgcnspirv", "amdgcnspirv"), ("host-x86_64", None), ("xgfx90a", None),
     ("hip--gfx90a:xnack", None)],
)  # fmt: skip
def test_target_names(name: str, target: str | None) -> None:
    assert bundles(table((0, 0, name.encode())))[0].objects[0].target == target


# Cubins


def cubin(abi: int, flags: int, machine: int = 190, magic: bytes = b"\x7fELF\x02\x01") -> bytes:
    head = bytearray(64)
    head[:6], head[8] = magic, abi
    struct.pack_into("<H", head, 18, machine)
    struct.pack_into("<I", head, 48, flags)
    return bytes(head)


@pytest.mark.parametrize(
    ("head", "name"),
    [
        (cubin(7, 0x5A), "sm_90"),
        (cubin(7, 0x85A), "sm_90a"),
        (cubin(7, 0xF700 | 75), "sm_75"),
        (cubin(8, 100 << 8), "sm_100"),
        (cubin(8, 100 << 8 | 8), "sm_100a"),
        (cubin(8, 0x10000 | 100 << 8 | 0xF7), "sm_100"),
        (cubin(7, 10), "sm_10"),
        (cubin(7, 9), None),
        (cubin(8, 9 << 8), None),
        (cubin(6, 90), None),
        (cubin(9, 90 << 8), None),
        (cubin(7, 90, 189), None),
        (cubin(7, 90, 191), None),
        (cubin(7, 90, magic=b"\x7fELF\x01\x01"), None),
        (cubin(7, 90, magic=b"\x7fELF\x02\x02"), None),
        (cubin(7, 90)[:63], None),
        (cubin(7, 90) + b"more", "sm_90"),
    ],
)
def test_the_card_of_a_cubin(head: bytes, name: str | None) -> None:
    found = cubin_arch(head)
    assert (str(found) if found else None) == name


class Searched(bytes):
    """Bytes that count how often they are searched."""

    searches = 0

    def find(self, *span: object) -> int:
        self.searches += 1
        return bytes(self).find(*span)  # type: ignore[arg-type]


@pytest.mark.parametrize("before", [0, 3])
@pytest.mark.parametrize(("gap", "searches"), [(0, 1), (8, 1), (16, 1), (56, 1), (64, 2), (72, 2), (4, 2)])
def test_padding_up_to_64_bytes_is_not_searched(before: int, gap: int, searches: int) -> None:
    """The last search is the one that finds no more."""
    data = Searched(b"\1" * before + ONE + b"\0" * gap + ONE)
    assert len(list(read_containers(data, before, len(data) - before))) == 2
    assert data.searches == searches


def test_a_magic_at_the_very_end_is_found_without_a_search() -> None:
    data = Searched(ONE + MAGIC_ONLY)
    with pytest.raises(Malformed, match="cut off"):
        list(read_containers(data, 0, len(data)))
    assert data.searches == 0


def test_other_bytes_end_the_walk_over_padding() -> None:
    data = Searched(ONE + b"\0" * 8 + b"\0\0\0\1\0\0\0\0" + ONE)
    assert len(list(read_containers(data, 0, len(data)))) == 2
    assert data.searches == 2


def test_an_empty_container_has_no_entries_and_hides_none() -> None:
    empty = struct.pack("<IHHQ", 0xBA55ED50, 1, 16, 0)
    assert [len(c.entries) for c in read(empty + ONE)] == [0, 1]
