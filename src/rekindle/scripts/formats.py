"""A plan in the form that is asked for: which forms there are, where they run, and their bytes."""

import math
import os
from collections.abc import Callable
from pathlib import Path

from rekindle.compat.resources import build_cost
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.matrix import slurm_head
from rekindle.scripts.containers import docker_platform, render_devcontainer, render_dockerfile
from rekindle.scripts.quoting import Quoted, pasted, plain_word
from rekindle.scripts.recipe import Recipe
from rekindle.scripts.templates import FORMATS, find_template, render_script, shared_values
from rekindle.scripts.workflow import render_workflow

_PIXI_PLATFORMS = {
    ("linux", "x86_64"): "linux-64",
    ("linux", "aarch64"): "linux-aarch64",
    ("windows", "x86_64"): "win-64",
    ("macos", "aarch64"): "osx-arm64",
    ("macos", "x86_64"): "osx-64",
}
_SYSTEM_NAMES = {"linux": "Linux", "windows": "Windows", "macos": "macOS"}
_ALSO_RUN = {".cmd": "bat"}
# By its first letters a file tells its form: "#!/bin/sh", "@echo off", "# syntax=".
_SIGN_BYTES = 9
_HEAD_BYTES = 4096
_MADE_BY_US = b", planned by rekindle "
_SLURM_CORES = 8


def render(
    recipe: Recipe,
    kind: str,
    *,
    system: str | None = None,
    image: str | None = None,
    arch: str = "x86_64",
    distro: str | None = None,
    apart: bool = False,
) -> str:
    """The text, with LF; :func:`encode` gives the bytes of the file.

    ``system`` is the one the plan is for, where that is known: a format that runs on another is refused. ``apart``: a
    Dockerfile finds what it needs in a folder beside it instead of carrying it along. ``distro`` is what a container
    was asked to be made of.
    """
    runs = FORMATS.get(kind, {}).get("system")
    if runs and system and runs != system:
        text = f"{kind} runs on {_SYSTEM_NAMES[runs]}, and this plan is for {_SYSTEM_NAMES.get(system, system)}"
        others = {"windows": "bat or ps1", "linux": "sh, dockerfile or github"}.get(system, "pixi")
        raise BadInput(text, remedy=f"make the plan with --os {runs}, or export it as {others}")
    writers: dict[str, Callable[[], str]] = {
        "sh": lambda: render_script(recipe, "sh"),
        "bat": lambda: render_script(recipe, "bat"),
        "ps1": lambda: render_script(recipe, "ps1"),
        "dockerfile": lambda: render_dockerfile(recipe, image, arch=arch, apart=apart, distro=distro),
        "github": lambda: render_workflow(recipe, image, system=system or "linux", arch=arch, distro=distro),
        "slurm": lambda: _slurm(recipe),
        "devcontainer": lambda: render_devcontainer(recipe, image, arch=arch, distro=distro),
        "pixi": lambda: _pixi(recipe, system or "linux", arch),
    }
    if kind not in writers:
        raise BadInput(f"{kind!r} is no format", remedy=f"one of {', '.join(FORMATS)}")
    return writers[kind]()


def choose_path(out: Path, kind: str, recipe: Recipe) -> Path:
    """The file to write: in a folder under its usual name, else as it was named, with the extension without which it
    would not run. A name that says another form is refused."""
    usual = FORMATS[kind]["file"].format(recipe.folder)
    if out.is_dir():
        return out / usual
    extension = Path(usual).suffix
    others = {Path(row["file"].format("x")).suffix: form for form, row in FORMATS.items() if form != kind} | _ALSO_RUN
    other = others.get(out.suffix.lower(), kind) if out.suffix else kind
    if other != kind and {kind, other} & {"bat", "ps1"}:
        remedy = f"name it {out.stem}{extension}"
        raise BadInput(f"{out.name} is a name for {other}, and {kind} was asked for", remedy=remedy)
    needs = kind in ("bat", "ps1") or "." not in out.name
    runs = out.suffix.lower() == extension or _ALSO_RUN.get(out.suffix.lower()) == kind
    return out.with_name(out.name + extension) if extension and needs and not runs else out


def check_overwriting(path: Path, content: bytes) -> None:
    """An earlier export of the same form may be written over; anything else in its place is somebody's work."""
    try:
        with path.open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:  # not there, or told when it is written
        return
    if _MADE_BY_US not in head or head[:_SIGN_BYTES] != content[:_SIGN_BYTES]:
        text = f"{path} is there already and is no earlier export of this form"
        raise BadInput(text, remedy="name another with --out")


def encode(text: str, kind: str) -> bytes:
    """cmd reads labels wrongly in files without CRLF, PowerShell 5 takes a file without a mark for ANSI; the rest wants
    LF.
    """
    if kind == "bat":
        return text.replace("\n", "\r\n").encode()
    return text.replace("\n", "\r\n").encode("utf-8-sig") if kind == "ps1" else text.encode()


def run_line(recipe: Recipe, kind: str, path: Path | None, arch: str) -> str:
    """How the exported file is used, as a line for the shell of the machine it is for."""
    name = FORMATS[kind]["file"].format(recipe.folder) if path is None else path.name
    shown, folder = pasted(str(path or name)), pasted(str(path.parent)) if path else "."
    if FORMATS[kind].get("system") == "windows":
        # Written elsewhere it is carried there first; cmd and PowerShell both start a batch file by this.
        shown = pasted(str(path) if path is not None and os.name == "nt" else f".\\{name}", windows=True)
    platform, tag = docker_platform(arch), recipe.folder.lower()
    return FORMATS[kind]["use"].format(path=shown, name=name, folder=folder, platform=platform, tag=tag)


def _slurm(recipe: Recipe) -> str:
    if not recipe.builds:
        raise BadInput("a cluster job is for a build, and this plan only installs", remedy="export it as sh")
    plan, folder = recipe.plan, plain_word(recipe.folder)
    cost = build_cost(plan.torch, plan.backend, load_facts())
    kits = {"cuda": plan.cuda, "rocm": plan.rocm}
    modules = [f"{name}/{plain_word(version)}" for name, version in kits.items() if version]
    if recipe.compiler:
        modules.append(plain_word(recipe.compiler).replace("-", "/", 1))
    memory_gib = max(recipe.memory_gib, _SLURM_CORES * recipe.gib_per_job) + 2
    hours = max(1, math.ceil(2 * cost.cpu_minutes / _SLURM_CORES / 60))  # twice the estimate: Slurm ends what is late
    head = slurm_head(job=folder, cores=_SLURM_CORES, memory_gib=memory_gib, hours=hours, log=f"{folder}-%j.log")
    script = Quoted(render_script(recipe, "sh"))
    values = shared_values(recipe, "slurm")
    return find_template("slurm.sh.j2").render(values, script=script, head=Quoted(head), modules=modules)


def _pixi(recipe: Recipe, system: str, arch: str) -> str:
    """``pixi.toml``: Python from conda-forge, torch from the index the plan names."""
    if recipe.builds:
        remedy = "export it as sh, bat or dockerfile; the wheel it makes can stand in pixi.toml by its path"
        raise BadInput("pixi describes an environment, and this plan is a build", remedy=remedy)
    plan = recipe.plan
    platform = _PIXI_PLATFORMS.get((system, arch))
    if platform is None:
        raise BadInput(f"pixi has no torch for {system} on {arch}")
    cuda = plan.cuda and plan.cuda.split(".")[0]
    return find_template("pixi.toml.j2").render(shared_values(recipe, "pixi"), platform=platform, cuda=cuda)
