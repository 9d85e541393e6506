"""Which container image to build in and which to run in, from ``images.toml``."""

from __future__ import annotations

import functools
import tomllib
from dataclasses import dataclass
from importlib import resources

import msgspec

from rekindle.errors import BadInput
from rekindle.model.plan import Plan


class ImageRow(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    build: str
    source: str
    run: str | None = None


class Digest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    sha256: str
    source: str


class Runner(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a hosted runner of GitHub has; ``remove`` are folders of its own that a build may throw away."""

    label: str
    cores: int
    memory_gib: int
    disk_gib: int
    minutes: int
    source: str
    remove: tuple[str, ...] = ()


class ImageTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: int
    retrieved: str
    cuda: dict[str, ImageRow]
    rocm: dict[str, ImageRow]
    cpu: dict[str, ImageRow]
    python: dict[str, ImageRow]
    runner: dict[str, Runner]
    digest: dict[str, Digest]


@dataclass(frozen=True, kw_only=True)
class Images:
    """``kind`` is cuda, rocm or cpu; ``run`` is what the wheel needs around it."""

    kind: str
    build: str
    run: str


@functools.cache
def load_images() -> ImageTable:
    raw = resources.files("rekindle.export").joinpath("images.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(raw), ImageTable)


def pinned(image: str) -> str:
    """The image by tag and digest where that is known: the same bytes, whatever becomes of the tag."""
    row = load_images().digest.get(image)
    return f"{image}@sha256:{row.sha256}" if row else image


def choose_images(plan: Plan, given: str | None) -> Images:
    """``given`` replaces the image to build in (and to run in, where we know no better)."""
    table = load_images()
    kind, version = ("cuda", plan.cuda) if plan.cuda else ("rocm", plan.rocm) if plan.rocm else ("cpu", "any")
    rows: dict[str, ImageRow] = getattr(table, kind)
    row = rows.get(".".join((version or "").split(".")[:2])) or rows.get(version or "")
    if row is None and given is None:
        raise BadInput(
            f"no container image with {kind.upper()} {version} is known here (known: {', '.join(rows)})",
            remedy="name one with --image",
        )
    build = given or (row.build if row else "")
    return Images(kind=kind, build=build, run=(row.run if row and row.run else None) or build)
