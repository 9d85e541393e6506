"""A plan in containers: which image to build in and which to run in, a Dockerfile, a development container. Nothing of
rekindle is installed where a Dockerfile builds, so it carries along the part of ``inspect`` that tells what a wheel
needs of the system."""

import base64
import json
import re
import shlex
from importlib import resources
from typing import Any, NamedTuple

from rekindle import __version__
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.arch import parse_sm
from rekindle.model.plan import Plan
from rekindle.model.supply import ContainerImage
from rekindle.scripts.quoting import Quoted, comment, plain_text, plain_word
from rekindle.scripts.recipe import Recipe
from rekindle.scripts.templates import find_template, linux_packages, render_script, shared_values

_UV_IMAGE = "ghcr.io/astral-sh/uv:0.8.6"
INSPECTOR = "rekindle.inspect.debian"
_INSPECTOR_FILES = (
    *("__init__.py", "errors.py"),
    *("formats/__init__.py", "formats/view.py", "formats/elf.py", "formats/linked.py"),
    *("inspect/__init__.py", "inspect/packages.py", "inspect/packages.toml", "inspect/debian.py"),
)


class Images(NamedTuple):
    """``kind`` is cuda, rocm or cpu; ``run`` is what the wheel needs around it."""

    kind: str
    build: str
    run: str


def docker_platform(arch: str) -> Quoted:
    """As docker's ``--platform`` spells it."""
    return Quoted("linux/arm64" if arch == "aarch64" else "linux/amd64")


def pinned(image: str, arch: str = "x86_64") -> str:
    """The image by tag and digest where that is known: the same bytes, whatever becomes of the tag. Whether a digest
    that people pinned is of all architectures or of theirs alone is not known."""
    row = load_facts().images.digest.get(image) if arch == "x86_64" else None
    return f"{image}@sha256:{row.sha256}" if row else image


def find_image(kind: str, version: str | None) -> ContainerImage | None:
    """The row of a toolkit, which the table names without the patch level."""
    name = kind if version is None else f"{kind} {'.'.join(version.split('.')[:2])}"
    return load_facts().images.image.get(name)


def choose_images(plan: Plan, given: str | None, arch: str = "x86_64", distro: str | None = None) -> Images:
    """``given`` replaces the image to build in (and to run in, if none is known); it must be of ``distro``."""
    if arch not in ("x86_64", "aarch64"):
        raise BadInput(f"no container image for {arch} is known here", remedy="export it as sh")
    kind, version = ("cuda", plan.cuda) if plan.cuda else ("rocm", plan.rocm) if plan.rocm else ("cpu", None)
    row = find_image(kind, version)
    if given:
        return Images(kind, pinned(given, arch), pinned((row.run if row else None) or given, arch))
    if row is None:
        known = ", ".join(name.split()[1] for name in load_facts().images.image if name.startswith(f"{kind} "))
        text = f"no container image with {kind.upper()} {version} is known here (known: {known})"
        raise BadInput(text, remedy="name one with --image")
    if arch == "aarch64" and (why := _not_on_arm(plan, row)):
        raise BadInput(why, remedy="name an image with --image, or export it as sh")
    if kind == "cpu":
        plain = pinned(base_image(distro), arch)
        return Images(kind, plain, plain)
    if distro is not None:
        _check_distro(row.build, distro)
    return Images(kind, pinned(row.build, arch), pinned(row.run or row.build, arch))


def base_image(distro: str | None) -> str:
    """The plain image of a distribution (``ubuntu-22.04``) that has what we install in it."""
    if distro is None:
        return load_facts().images.image["cpu"].build
    name, version = _distro_parts(distro)
    if name not in ("ubuntu", "debian") or not version:
        remedy = "name one with --image, or use --distro ubuntu-22.04 or debian-12"
        raise BadInput(f"no container image of {distro} is known here that has apt", remedy=remedy)
    return f"{name}:{version}"


def _check_distro(image: str, distro: str) -> None:
    """A toolkit's image is of one distribution; whether its publisher has others is not known here."""
    has = re.search(r"(ubuntu)-?(\d\d\.\d\d)", image)
    name, version = _distro_parts(distro)
    if has is None or (name, version) == (has[1], has[2]):
        return
    like = f" such as {image.replace(has[2], version)}" if name == has[1] and version else ""
    text = f"--distro says {distro}, and the image known here is of {has[1].capitalize()} {has[2]}: {image}"
    raise BadInput(text, remedy=f"name another with --image{like} (does it exist?), or leave --distro out")


def _distro_parts(distro: str) -> tuple[str, str]:
    """``ubuntu-22.04`` and ``Ubuntu 22.04`` into name and version."""
    match = re.fullmatch(r"([a-z]+)[-_: ]*([\d.]*)", distro.strip().lower())
    return (match[1], match[2]) if match else (distro, "")


def _not_on_arm(plan: Plan, row: ContainerImage) -> str | None:
    if row.only and "aarch64" not in row.only:
        return f"the image {row.build} exists for {', '.join(row.only)} alone, and this plan is for aarch64"
    sms = [parse_sm(arch) for arch in plan.arch_list] if plan.cuda else []
    board = "NVIDIA's CUDA images are for servers; a Jetson needs one that fits its JetPack (l4t)"
    return board if sms and all(map(load_facts().is_tegra, sms)) else None


def _inspector_files() -> tuple[tuple[Quoted, Quoted], ...]:
    """(path, text) of each file; a here-document carries them as they are."""
    root = resources.files("rekindle")
    texts = {name: root.joinpath(name).read_text(encoding="utf-8") for name in _INSPECTOR_FILES}
    return tuple((Quoted(f"rekindle/{name}"), Quoted(text)) for name, text in texts.items())


def files_beside(recipe: Recipe) -> dict[str, str]:
    """What a Dockerfile rendered ``apart`` copies from the folder beside it: path from it, text."""
    if not recipe.builds:
        return {}
    files = {"build.sh": render_script(recipe, "sh"), **{f"inspect/{path}": text for path, text in _inspector_files()}}
    return {f"{plain_word(recipe.folder)}/{name}": text for name, text in files.items()}


def _card_flags(recipe: Recipe) -> tuple[str, ...]:
    """What docker is told so that a container sees the cards."""
    amd = ("--device=/dev/kfd", "--device=/dev/dri")
    return {"cuda": ("--gpus", "all"), "rocm": amd, "xpu": ("--device=/dev/dri",)}.get(recipe.plan.backend, ())


def render_dockerfile(recipe: Recipe, image: str | None, *, arch: str, apart: bool, distro: str | None = None) -> str:
    """An image that builds the wheel and one that runs it, or one that installs it; ``apart``: with files beside it."""
    plan = recipe.plan
    shared = shared_values(recipe, "dockerfile") | {
        "uv_image": Quoted(pinned(_UV_IMAGE, arch)),
        "platform": docker_platform(arch),
        "card_question": Quoted(f", torch.{recipe.device}.is_available()" if recipe.device else ""),
        "card_flags": Quoted("".join(f" {flag}" for flag in _card_flags(recipe))),
    }
    if not recipe.builds:
        return find_template("install.Dockerfile.j2").render(shared, base=image or base_image(distro))
    return find_template("Dockerfile.j2").render(
        shared,
        images=choose_images(plan, image, arch, distro),
        apart=apart,
        packages=linux_packages(recipe),
        script=Quoted(render_script(recipe, "sh")),
        inspector=_inspector_files(),
        inspect_program=INSPECTOR,
        numpy=f"numpy{plan.numpy}" if plan.numpy and not plan.numpy[:1].isdigit() else "numpy",
    )


def render_devcontainer(recipe: Recipe, image: str | None, *, arch: str, distro: str | None = None) -> str:
    """``.devcontainer/devcontainer.json``: the toolkit's own image for a build, a plain Python for a wheel."""
    plan = recipe.plan
    described: dict[str, Any] = {"name": plain_text(recipe.title)}
    if recipe.builds:
        described["image"] = plain_text(choose_images(plan, image, arch, distro).build)
        # The script travels inside the file: whoever opens the folder needs nothing else.
        packed = base64.b64encode(render_script(recipe, "sh").encode()).decode("ascii")
        path = f"/usr/local/bin/build-{plain_word(plan.project)}"
        install = f"apt-get install -y --no-install-recommends {shlex.join(linux_packages(recipe))}"
        unpack = f"printf %s {packed} | base64 -d >{path} && chmod 755 {path}"
        described["onCreateCommand"] = f"apt-get update && {install} && {unpack}"
        described["postAttachCommand"] = f"echo {shlex.quote(f'{path} builds {plain_text(recipe.title)}')}"
    else:
        python = load_facts().images.image["python"].build.replace("{python}", recipe.python)
        if distro is not None and image is None:
            text = f"a development container for a wheel is made from {python}, and --distro says {distro}"
            raise BadInput(text, remedy="name an image with --image, or leave --distro out")
        described["image"] = plain_text(image or python)
        lines = [shlex.join(("python", *command[1:])) for command in recipe.commands]
        described["postCreateCommand"] = plain_text(" && ".join(lines))
        described["containerEnv"] = {name: plain_text(value) for name, value in recipe.env.items()}
    if flags := _card_flags(recipe):
        described["runArgs"] = flags
        described["hostRequirements"] = {"gpu": True}
    first = f"{recipe.title}, planned by rekindle {__version__}."
    head = "".join(f"// {comment(line)}\n" for line in (first, *recipe.reasons, *recipe.cautions))
    return head + json.dumps(described, indent=2) + "\n"
