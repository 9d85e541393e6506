"""What tools say when they fail, as typed events: one file per dialect in ``dialects/*.toml``.

A *form* is one way a tool says one kind of thing: gcc, clang, MSVC and nvcc each have their own sentence for a missing
header, and all of them become the event ``missing-header`` with the value ``header``. Rules then speak of kinds and
values and need not know the sentence.
"""

from __future__ import annotations

import functools
from pathlib import Path

import msgspec

from rekindle.explain.rule import Pattern, read_file
from rekindle.model.document import Part

_DIALECTS = Path(__file__).parent / "dialects"


class Kind(Part, frozen=True, kw_only=True):
    """``words`` is the class in plain words; ``values`` what its forms may capture. An ``outer`` kind is what a driver
    program says after something inside it failed (make, ninja, pip): never a cause, only proof that it ended there."""

    words: str
    values: tuple[str, ...] = ()
    outer: bool = False


class Form(Part, frozen=True, kw_only=True):
    event: str
    match: tuple[Pattern, ...]
    dialect: str = ""
    number: int = 0

    @property
    def key(self) -> str:
        return f"{self.dialect}/{self.event}/{self.number}"


class DialectFile(Part, frozen=True, kw_only=True):
    about: str
    form: tuple[Form, ...]


class KindsFile(Part, frozen=True, kw_only=True):
    kind: dict[str, Kind]


@functools.cache
def load_kinds() -> dict[str, Kind]:
    """Every kind of event."""
    path = Path(__file__).parent / "kinds.toml"
    return read_file(path, "explain-kinds", KindsFile).kind


@functools.cache
def load_dialects() -> dict[str, DialectFile]:
    """Every dialect with its forms, in a stable order."""
    files = {}
    for path in sorted(_DIALECTS.glob("*.toml")):
        file = read_file(path, f"dialect-{path.stem}", DialectFile)
        forms = tuple(
            msgspec.structs.replace(form, dialect=path.stem, number=number) for number, form in enumerate(file.form)
        )
        files[path.stem] = msgspec.structs.replace(file, form=forms)
    return files


@functools.cache
def load_forms() -> tuple[Form, ...]:
    return tuple(form for file in load_dialects().values() for form in file.form)


def kind_of(key: str) -> str:
    """The kind of event a form's key stands for."""
    return key.split("/")[1]
