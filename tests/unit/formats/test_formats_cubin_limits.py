"""Cubins of strangers: symbols and parameters at their edges, and in which words two of them differ."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import pytest

from gpu_libraries import device_elf, make_cubin
from rekindle.formats import cubin
from rekindle.formats.cubin import (
    Face,
    ModuleId,
    face_differences,
    machine_code,
    module_id,
    other_arch,
    read_face,
    read_symbols,
)
from rekindle.formats.elf import Elf
from rekindle.formats.view import Malformed
from rekindle.model.arch import Sm

Rows = Sequence[tuple[str, int, bytes, int]]
FUNCTION, OBJECT, ENTRY = 2, 1, 0x10


def symbol(name: int, kind: int, size: int = 0, *, other: int = ENTRY, binding: int = 1) -> bytes:
    return struct.pack("<IBBHQQ", name, binding << 4 | kind, other, 1, 0, size)


def image(symbols: bytes, strings: bytes, *more: tuple[str, int, bytes, int], link: int = 2) -> bytes:
    rows = [("", 0, b"", 0), (".symtab", 2, symbols, link), (".strtab", 3, strings, 0), *more]
    return device_elf(rows, 190, b"\x41\x08", 90 << 8)


def parameter(ordinal: int, size: int, *, form: int = 4, attribute: int = 0x17, more: bytes = b"") -> bytes:
    told = struct.pack("<IHHI", 0, ordinal, 8 * ordinal, size << 18 | 0x1FF00) + more
    return struct.pack("<BBH", form, attribute, len(told)) + told


def passed(info: bytes) -> tuple[tuple[int, int], ...]:
    data = image(symbol(0, FUNCTION), b"k\0", (".nv.info.k", 0x70000000, info, 0))
    return read_face(data).kernels["k"]


def test_a_kernel_is_a_function_that_host_code_may_enter() -> None:
    symbols = symbol(0, FUNCTION) + symbol(2, FUNCTION, other=0) + symbol(4, FUNCTION, other=0x13) + symbol(6, 3)
    face = read_face(image(symbols + symbol(8, OBJECT, 12, other=0, binding=0), b"a\0b\0c\0d\0e\0"))
    assert face == Face({"a": (), "c": ()}, {"e": 12}, ("a", "b", "c", "d", "e"))


def test_parameters_stand_in_a_section_of_the_kernel() -> None:
    """A section that only has its name is none of them."""
    other = parameter(0, 99)
    for name in ("k", ".nv.info.kk", ".nv.infok", ".text.k"):
        data = image(symbol(0, FUNCTION), b"k\0", (name, 1, other, 0))
        assert read_face(data).kernels == {"k": ()}
    rows = ((".nv.info.k", 0x70000000, parameter(0, 7), 0), ("k", 1, other, 0))
    assert read_face(image(symbol(0, FUNCTION), b"k\0", *rows)).kernels == {"k": ((0, 7),)}


def test_parameters_in_their_order_among_other_attributes() -> None:
    quiet = struct.pack("<BBH", 3, 0x17, 400) + struct.pack("<BBH", 1, 0x17, 12) + struct.pack("<BBH", 2, 0x17, 12)
    info = quiet + parameter(1, 4) + parameter(5, 44, attribute=0x18) + quiet + parameter(0, 8, more=b"more")
    assert passed(info) == ((0, 8), (1, 4))
    assert passed(parameter(3, 0x3FFF)) == ((3, 0x3FFF),)
    assert passed(quiet) == passed(b"") == ()


@pytest.mark.parametrize(("cut", "count"), [(16, 2), (15, 1), (4, 1), (3, 1), (1, 1), (0, 1)])
def test_a_list_of_parameters_that_ends_early(cut: int, count: int) -> None:
    assert len(passed(parameter(0, 8) + parameter(1, 8)[:cut])) == count
    short = struct.pack("<BBH", 4, 0x17, 11) + bytes(11)
    assert passed(short + parameter(1, 8)) == ((1, 8),)


def test_attributes_that_claim_more_than_there_is() -> None:
    assert passed(parameter(0, 8) + struct.pack("<BBH", 4, 0x17, 13) + bytes(12)) == ((0, 8),)
    assert passed(struct.pack("<BBH", 4, 0x18, 900) + parameter(0, 8)) == ()


def symbols_of(data: bytes, kind: int = 2) -> list[tuple[str, int, int, int]]:
    return list(read_symbols(Elf(data, "odd"), kind))


def test_every_field_of_a_symbol() -> None:
    symbols = struct.pack("<IBBHQQ", 1, 0xAF, 0x83, 7, 9, 1 << 40)
    assert symbols_of(image(symbols, b"\0na\xffme\0")) == [("na\\xffme", 15, 0x83, 1 << 40)]
    assert symbols_of(image(symbols, b"\0n\0"), kind=11) == []


@pytest.mark.parametrize(("spare", "count"), [(0, 2), (1, 2), (23, 2), (24, 3)])
def test_half_a_symbol_is_none(spare: int, count: int) -> None:
    assert len(symbols_of(image(symbol(0, 2) * 2 + bytes(spare), b"k\0"))) == count


@pytest.mark.parametrize(("at", "name"), [(0, "one"), (4, "two"), (7, ""), (8, None), (9, None), (1 << 31, None)])
def test_names_lie_in_their_table(at: int, name: str | None) -> None:
    """What follows the table in the file is not read."""
    data = image(symbol(at, 2), b"one\0two\0", ("", 1, b"beyond\0", 0))
    if name is not None:
        assert symbols_of(data) == [(name, 2, ENTRY, 0)]
    else:
        with pytest.raises(Malformed, match="odd: a symbol's name lies outside its table"):
            symbols_of(data)


def test_a_name_without_an_end_is_refused() -> None:
    with pytest.raises(Malformed, match="lies outside its table"):
        symbols_of(image(symbol(4, 2), b"one\0two", ("", 1, b"\0", 0)))
    with pytest.raises(Malformed, match="lies outside its table"):
        symbols_of(image(symbol(0, 2), b""))


@pytest.mark.parametrize(("link", "read"), [(2, True), (3, True), (4, False), (1 << 20, False)])
def test_the_table_of_names_is_one_of_the_sections(link: int, read: bool) -> None:
    """There are four: the last holds the sections' own names."""
    data = image(symbol(0, 2), b"k\0", link=link)
    if read:
        assert len(symbols_of(data)) == 1
    else:
        with pytest.raises(Malformed, match="odd: its table of symbols cannot be read"):
            symbols_of(data)


def test_more_symbols_than_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    assert cubin.MAX_SYMBOLS == 4_000_000
    monkeypatch.setattr(cubin, "MAX_SYMBOLS", 3)
    assert len(symbols_of(image(symbol(0, 2) * 3 + bytes(23), b"k\0"))) == 3
    with pytest.raises(Malformed, match="cannot be read"):
        symbols_of(image(symbol(0, 2) * 4, b"k\0"))


def test_two_tables_of_symbols_are_both_read() -> None:
    more = (".symtab2", 2, symbol(2, FUNCTION), 2)
    assert [name for name, *_ in symbols_of(image(symbol(0, FUNCTION), b"a\0b\0", more))] == ["a", "b"]


@pytest.mark.parametrize(
    ("name", "shown"),
    [("table", True), ("$str", False), (".L1", False), ("a$b", True), ("__nv_reservedSMEM", False), ("_Z3fooE", True),
     ("__unnamed_1", False), ("_ZZ4funcE8__func__", False), ("_ZZ4funcE12__FUNCTION__", False), ("_ZZ4funcE1x", True),
     ("_ZZ1fvE19__PRETTY_FUNCTION__", False), ("__PRETTY_FUNCTION__", False), ("my__PRETTY_FUNCTION__", True)],
)  # fmt: skip
def test_variables_of_the_compiler_are_nobodys_business(name: str, shown: bool) -> None:
    face = read_face(make_cubin(variables={name: 3}))
    assert (name in face.variables) == shown and name in face.names


def test_machine_code_is_what_is_named_so() -> None:
    rows = ((".text.one", 1, b"1" * 9, 0), (".text", 1, b"no", 0), ("x.text.two", 1, b"no", 0), (".text.", 1, b"3", 0))
    assert machine_code(image(b"", b"\0", *rows)) == {"one": b"1" * 9, "": b"3"}


def test_a_lie_is_named_by_its_file() -> None:
    with pytest.raises(Malformed, match=r"k\.cubin is no CUDA image of a form that is known"):
        read_face(bytes(100), "k.cubin")
    data = make_cubin()
    with pytest.raises(Malformed, match=r"^k\.cubin"):
        read_face(data[:-1], "k.cubin")
    with pytest.raises(Malformed, match=r"^k\.cubin"):
        machine_code(data[:-1], "k.cubin")


@pytest.mark.parametrize(
    ("number", "flags", "arch", "said"),
    [
        (90, 0, Sm(9, 0), None),
        (90, 0, Sm(9, 0, "a"), None),
        (90, 8, Sm(9, 0, "a"), None),
        (90, 8, Sm(9, 0), "it is for sm_90a, not sm_90"),
        (120, 0, Sm(12, 0, "f"), None),
        (120, 8, Sm(12, 0, "f"), "it is for sm_120a, not sm_120f"),
        (86, 0, Sm(8, 0), "it is for sm_86, not sm_80"),
        (80, 0, Sm(9, 0), "it is for sm_80, not sm_90"),
        (100, 0, Sm(12, 0), "it is for sm_100, not sm_120"),
    ],
)
def test_for_another_card(number: int, flags: int, arch: Sm, said: str | None) -> None:
    data = bytearray(make_cubin(number))
    data[48] |= flags
    assert other_arch(bytes(data), arch) == other_arch(bytes(data[:64]), arch) == said
    assert other_arch(bytes(data[:63]), arch) == "it is no CUDA image of a form that is known"


FACE = Face({"a": ((0, 8), (1, 4)), "b": ()}, {"v": 32}, ())


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (FACE, None),
        (FACE._replace(names=("x",)), None),
        (Face({"b": ()}, {"v": 32}, ()), "1 of 2 kernels are missing, first a"),
        (Face({}, {}, ()), "2 of 2 kernels are missing, first a"),
        (Face({"a": (), "c": ()}, {}, ()), "1 of 2 kernels are missing, first b"),
        (Face(FACE.kernels | {"d": (), "c": ()}, {}, ()), "2 kernels are not in the wheel's own code, first c"),
        (Face(FACE.kernels, {}, ()), "1 of 1 variables are missing, first v"),
        (Face(FACE.kernels, {"v": 32, "w": 1}, ()), "1 variables are not in the wheel's own code, first w"),
        (Face(FACE.kernels | {"a": ()}, {"v": 32}, ()), "the parameters of a have none bytes, not 8, 4 bytes"),
        (Face(FACE.kernels | {"b": ((0, 2),)}, {"v": 32}, ()), "the parameters of b have 2 bytes, not none bytes"),
        (Face(FACE.kernels, {"v": 31}, ()), "the variable v has 31 bytes, not 32"),
    ],
)
def test_differences_in_words(new: Face, said: str | None) -> None:
    assert face_differences(new, FACE) == said


def test_of_long_names_and_lists_the_beginning_is_told() -> None:
    name = "n" * 160 + "more"
    nothing, many = Face({}, {}, ()), tuple((i, 10 + i) for i in range(14))
    kernel, variable = Face({name: many}, {}, ()), Face({}, {name: 1}, ())
    short = "n" * 160
    assert face_differences(nothing, kernel) == f"1 of 1 kernels are missing, first {short}"
    assert face_differences(kernel, nothing) == f"1 kernels are not in the wheel's own code, first {short}"
    assert face_differences(Face({name: ()}, {}, ()), kernel) == (
        f"the parameters of {short} have none bytes, not 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21 bytes"
    )
    assert face_differences(Face({}, {name: 2}, ()), variable) == f"the variable {short} has 2 bytes, not 1"


UNIT = "_GLOBAL__N__91c5f4d9_13_FillKernel_cu_54a8c5b0_77"


@pytest.mark.parametrize("before", ["", "_ZN", "_ZN2at", "x1", "x123", "_ZN3abc"])
@pytest.mark.parametrize("behind", ["", "E", "4wordE", "_9"])
def test_a_unit_behind_other_digits(before: str, behind: str) -> None:
    assert module_id((f"{before}{len(UNIT)}{UNIT}{behind}",)) == ModuleId(
        "_91c5f4d9_13_FillKernel_cu_54a8c5b0_77", "FillKernel_cu"
    )


@pytest.mark.parametrize("name", [UNIT, f"4{UNIT}", f"{len(UNIT) + 1}{UNIT}", f"0{UNIT}", f"{len(UNIT)}x{UNIT}"])
def test_a_number_that_does_not_fit_names_no_unit(name: str) -> None:
    assert module_id((name,)) is None
    assert module_id((name, f"{len(UNIT)}{UNIT}")) is not None


def test_the_second_name_inside_a_name_counts_too() -> None:
    twice = f"_ZN9{UNIT[:12]}91c5f4d9_1_x{len(UNIT)}{UNIT}E"
    found = module_id((twice,))
    assert found is not None and found.source == "FillKernel_cu"
