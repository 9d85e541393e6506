"""Which container image to build in and which to run in, from the facts."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.images import ContainerImage
from rekindle.model.plan import Plan


@dataclass(frozen=True, kw_only=True)
class Images:
    """``kind`` is cuda, rocm or cpu; ``run`` is what the wheel needs around it."""

    kind: str
    build: str
    run: str


def pinned(image: str) -> str:
    """The image by tag and digest where that is known: the same bytes, whatever becomes of the tag."""
    row = load_facts().images.digest.get(image)
    return f"{image}@sha256:{row.sha256}" if row else image


def find_image(kind: str, version: str | None) -> ContainerImage | None:
    """The row of a toolkit; a patch level may be missing in the table."""
    rows = load_facts().images.image
    if version is None:
        return rows.get(kind)
    return rows.get(f"{kind} {'.'.join(version.split('.')[:2])}") or rows.get(f"{kind} {version}")


def choose_images(plan: Plan, given: str | None) -> Images:
    """``given`` replaces the image to build in (and to run in, where we know no better)."""
    kind, version = ("cuda", plan.cuda) if plan.cuda else ("rocm", plan.rocm) if plan.rocm else ("cpu", None)
    row = find_image(kind, version)
    if row is None and given is None:
        known = [name.split()[1] for name in load_facts().images.image if name.startswith(f"{kind} ")]
        raise BadInput(
            f"no container image with {kind.upper()} {version} is known here (known: {', '.join(known)})",
            remedy="name one with --image",
        )
    build = given or (row.build if row else "")
    return Images(kind=kind, build=build, run=(row.run if row and row.run else None) or build)
