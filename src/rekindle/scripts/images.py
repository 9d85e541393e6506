"""Which container image to build in and which to run in, from the facts."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.arch import parse_sm
from rekindle.model.images import ContainerImage
from rekindle.model.plan import Plan
from rekindle.scripts.quoting import Quoted


@dataclass(frozen=True, kw_only=True)
class Images:
    """``kind`` is cuda, rocm or cpu; ``run`` is what the wheel needs around it."""

    kind: str
    build: str
    run: str


def docker_platform(arch: str) -> Quoted:
    """As docker's ``--platform`` spells it."""
    return Quoted("linux/arm64" if arch == "aarch64" else "linux/amd64")


def pinned(image: str, arch: str = "x86_64") -> str:
    """The image by tag and digest where that is known: the same bytes, whatever becomes of the tag.

    Whether a digest that people pinned is of all architectures or of theirs alone is not known.
    """
    if arch != "x86_64":
        return image
    row = load_facts().images.digest.get(image)
    return f"{image}@sha256:{row.sha256}" if row else image


def find_image(kind: str, version: str | None) -> ContainerImage | None:
    """The row of a toolkit; a patch level may be missing in the table."""
    rows = load_facts().images.image
    if version is None:
        return rows.get(kind)
    return rows.get(f"{kind} {'.'.join(version.split('.')[:2])}") or rows.get(f"{kind} {version}")


def choose_images(plan: Plan, given: str | None, arch: str = "x86_64") -> Images:
    """``given`` replaces the image to build in (and to run in, where we know no better). Pinned where it can be."""
    if arch not in ("x86_64", "aarch64"):
        raise BadInput(f"no container image for {arch} is known here", remedy="export it as sh")
    kind, version = ("cuda", plan.cuda) if plan.cuda else ("rocm", plan.rocm) if plan.rocm else ("cpu", None)
    row = find_image(kind, version)
    if row is None and given is None:
        known = [name.split()[1] for name in load_facts().images.image if name.startswith(f"{kind} ")]
        raise BadInput(
            f"no container image with {kind.upper()} {version} is known here (known: {', '.join(known)})",
            remedy="name one with --image",
        )
    if given is None and arch == "aarch64" and (why := _not_on_arm(plan, row)):
        raise BadInput(why, remedy="name an image with --image, or export it as sh")
    build = given or (row.build if row else "")
    run = (row.run if row and row.run else None) or build
    return Images(kind=kind, build=pinned(build, arch), run=pinned(run, arch))


def _not_on_arm(plan: Plan, row: ContainerImage | None) -> str | None:
    facts = load_facts()
    if row and row.only and "aarch64" not in row.only:
        return f"the image {row.build} exists for {', '.join(row.only)} alone, and this plan is for aarch64"
    sms = [parse_sm(arch) for arch in plan.arch_list] if plan.cuda else []
    if sms and all(facts.is_tegra(sm) for sm in sms):
        return "NVIDIA's CUDA images are for servers; a Jetson needs one that fits its JetPack (l4t)"
    return None
