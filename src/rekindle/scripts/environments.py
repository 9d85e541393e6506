"""A plan as a described environment instead of a script: a development container, a pixi workspace."""

from __future__ import annotations

import base64
import json
import shlex
from typing import Any

from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.scripts.images import choose_images
from rekindle.scripts.quoting import Quoted, comment, plain_text, plain_word
from rekindle.scripts.recipe import Recipe


def devcontainer(recipe: Recipe, image: str | None, script: str, packages: tuple[str, ...], arch: str) -> str:
    """``.devcontainer/devcontainer.json``: the toolkit's own image for a build, a plain Python for a wheel."""
    plan = recipe.plan
    made: dict[str, Any] = {"name": plain_text(recipe.title)}
    flags = ["--gpus", "all"] if plan.cuda else ["--device=/dev/kfd", "--device=/dev/dri"] if plan.rocm else []
    if recipe.builds:
        made["image"] = plain_text(choose_images(plan, image, arch).build)
        # The script travels inside the file: whoever opens the folder needs nothing else.
        packed = base64.b64encode(script.encode()).decode("ascii")
        path = f"/usr/local/bin/build-{plain_word(recipe.package)}"
        made["onCreateCommand"] = (
            f"apt-get update && apt-get install -y --no-install-recommends {shlex.join(packages)}"
            f" && printf %s {packed} | base64 -d >{path} && chmod 755 {path}"
        )
        made["postAttachCommand"] = f"echo {shlex.quote(f'{path} builds {plain_text(recipe.title)}')}"
    else:
        made["image"] = plain_text(
            image or load_facts().images.image["python"].build.replace("{python}", recipe.python)
        )
        lines = [shlex.join(("python", *command[1:])) for command in recipe.commands]
        made["postCreateCommand"] = plain_text(" && ".join(lines))
        made["containerEnv"] = {name: plain_text(value) for name, value in recipe.env.items()}
    if flags:
        made["runArgs"] = flags
        made["hostRequirements"] = {"gpu": True}
    head = "".join(f"// {comment(line)}\n" for line in (*recipe.reasons, *recipe.cautions))
    return head + json.dumps(made, indent=2, ensure_ascii=True) + "\n"


def pixi(recipe: Recipe, system: str, arch: str) -> str:
    """``pixi.toml``: Python from conda-forge, torch from the index the plan names."""
    if recipe.builds:
        raise BadInput(
            "pixi describes an environment, and this plan is a build",
            remedy="export it as sh, bat or dockerfile; the wheel it makes can stand in pixi.toml by its path",
        )
    plan = recipe.plan
    platforms = {
        ("linux", "x86_64"): "linux-64",
        ("linux", "aarch64"): "linux-aarch64",
        ("windows", "x86_64"): "win-64",
        ("macos", "aarch64"): "osx-arm64",
        ("macos", "x86_64"): "osx-64",
    }
    platform = platforms.get((system, arch))
    if platform is None:
        raise BadInput(f"pixi has no torch for {system} on {arch}")
    lines = [f"# {comment(recipe.title)}: 'pixi run python' starts it."]
    lines += [f"# {comment(line)}" for line in (*recipe.reasons, *recipe.cautions)]
    lines += [
        "[workspace]",
        f"name = {toml(recipe.folder)}",
        'channels = ["conda-forge"]',
        f"platforms = [{toml(platform)}]",
    ]
    if plan.cuda:
        lines += ["", "[system-requirements]", f"cuda = {toml(plan.cuda.split('.')[0])}"]
    lines += ["", "[dependencies]", f"python = {toml(recipe.python + '.*')}", "", "[pypi-dependencies]"]
    for request in plan.requests:
        if request.url:
            value = f"{{ url = {toml(request.url)} }}"
        else:
            wanted = f"=={request.version}" if request.version else request.specifier or "*"
            parts = [f"version = {toml(wanted)}"]
            if request.index:
                parts.append(f"index = {toml(request.index)}")
            if request.extras:
                parts.append(f"extras = [{', '.join(map(toml, request.extras))}]")
            value = f"{{ {', '.join(parts)} }}"
        lines.append(f"{toml(request.name)} = {value}")
    if recipe.env:
        lines += ["", "[activation.env]", *(f"{toml(name)} = {toml(value)}" for name, value in recipe.env.items())]
    return "\n".join(lines) + "\n"


def toml(text: str) -> Quoted:
    """A basic string: JSON's escapes are TOML's, once control characters are refused."""
    return Quoted(json.dumps(plain_text(text), ensure_ascii=False))
