"""A plan in the form that is asked for, and its bytes; as a GitHub workflow: whether the build fits a hosted runner."""

import math
import os
import re
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import NamedTuple

from rekindle.compat.backends import PLATFORM_NAMES, PLATFORMS
from rekindle.compat.resources import build_cost, jobs_for
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.host.files import read_head
from rekindle.model.matrix import slurm_head
from rekindle.model.supply import HostedRunner
from rekindle.scripts import containers
from rekindle.scripts.quoting import Quoted, pasted, plain_word
from rekindle.scripts.recipe import Recipe
from rekindle.scripts.templates import FORMATS, find_template, linux_packages, render_script, shared_values

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
    """The text, with LF; :func:`encode` gives the bytes of the file. ``system`` is the one the plan is for, where that
    is known: a format that runs on another is refused. ``apart``: a Dockerfile finds what it needs in a folder beside
    it instead of carrying it along. ``distro`` is what a container was asked to be made of."""
    runs = FORMATS.get(kind, {}).get("system")
    if runs and system and runs != system:
        text = f"{kind} runs on {_SYSTEM_NAMES[runs]}, and this plan is for {_SYSTEM_NAMES.get(system, system)}"
        others = {"windows": "bat or ps1", "linux": "sh, dockerfile or github"}.get(system, "pixi")
        raise BadInput(text, remedy=f"make the plan with --os {runs}, or export it as {others}")
    writers: dict[str, Callable[[], str]] = {
        "sh": lambda: render_script(recipe, "sh"),
        "bat": lambda: render_script(recipe, "bat"),
        "ps1": lambda: render_script(recipe, "ps1"),
        "dockerfile": lambda: containers.render_dockerfile(recipe, image, arch=arch, apart=apart, distro=distro),
        "github": lambda: _workflow(recipe, image, system=system or "linux", arch=arch, distro=distro),
        "slurm": lambda: _slurm(recipe),
        "devcontainer": lambda: containers.render_devcontainer(recipe, image, arch=arch, distro=distro),
        "pixi": lambda: _pixi(recipe, system or "linux", arch),
    }
    if kind not in writers:
        raise BadInput(f"{kind!r} is no format", remedy=f"one of {', '.join(FORMATS)}")
    return writers[kind]()


def choose_path(out: Path, kind: str, recipe: Recipe) -> Path:
    """The file to write: in a folder under its usual name, else as named, with the extension it needs to run."""
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
        head = read_head(path, _HEAD_BYTES)
    except OSError:  # not there, or told when it is written
        return
    if _MADE_BY_US not in head or head[:_SIGN_BYTES] != content[:_SIGN_BYTES]:
        text = f"{path} is there already and is no earlier export of this form"
        raise BadInput(text, remedy="name another with --out")


def encode(text: str, kind: str) -> bytes:
    """cmd misreads labels in files without CRLF, PowerShell 5 takes one without a mark for ANSI; others want LF."""
    lines = text.replace("\n", "\r\n") if kind in ("bat", "ps1") else text
    return lines.encode("utf-8-sig" if kind == "ps1" else "utf-8")


def run_line(recipe: Recipe, kind: str, path: Path | None, arch: str) -> str:
    """How the exported file is used, as a line for the shell of the machine it is for."""
    name = FORMATS[kind]["file"].format(recipe.folder) if path is None else path.name
    shown, folder = pasted(str(path or name)), pasted(str(path.parent)) if path else "."
    if FORMATS[kind].get("system") == "windows":
        # Written elsewhere it is carried there first; cmd and PowerShell both start a batch file by this.
        shown = pasted(str(path) if path is not None and os.name == "nt" else f".\\{name}", windows=True)
    platform, tag = containers.docker_platform(arch), recipe.folder.lower()
    return FORMATS[kind]["use"].format(path=shown, name=name, folder=folder, platform=platform, tag=tag)


def _slurm(recipe: Recipe) -> str:
    if not recipe.builds:
        raise BadInput("a cluster job is for a build, and this plan only installs", remedy="export it as sh")
    plan, folder = recipe.plan, plain_word(recipe.folder)
    cost = build_cost(plan.torch, plan.backend, load_facts())
    kits = {"cuda": plan.cuda, "rocm": plan.rocm}
    modules = [f"{name}/{plain_word(version)}" for name, version in kits.items() if version]
    modules += [plain_word(recipe.compiler).replace("-", "/", 1)] if recipe.compiler else []
    memory_gib = max(recipe.memory_gib, _SLURM_CORES * recipe.gib_per_job) + 2
    hours = math.ceil(2 * cost.cpu_minutes / _SLURM_CORES / 60)  # twice the estimate: Slurm ends what is late
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
    named = PLATFORMS.get((system, arch))
    if named is None or (platform := PLATFORM_NAMES[named].pixi) is None:
        raise BadInput(f"pixi has no torch for {system} on {arch}")
    cuda = plan.cuda and plan.cuda.split(".")[0]
    return find_template("pixi.toml.j2").render(shared_values(recipe, "pixi"), platform=platform, cuda=cuda)


# A job ends this long before the runner does, so that the compiler cache is kept.
_RESERVE_MINUTES = 60
_MOST_ROUNDS = 4


class Fit(NamedTuple):
    """``rounds`` jobs one after another, each with the compiler cache of the one before."""

    runner: HostedRunner
    minutes: int
    rounds: int


def fit_runner(recipe: Recipe, system: str, arch: str = "x86_64") -> Fit:
    """Refused where no runner is of that kind, or its disk, memory or patience is too small, with the estimate."""
    runner = load_facts().images.runner.get(system if arch == "x86_64" else f"{system} {arch}")
    if runner is None:
        remedy = "use a machine of your own with what 'rekindle plan' prints"
        raise BadInput(f"no hosted runner of GitHub for {system} on {arch} is known here", remedy=remedy)
    if not recipe.builds:
        return Fit(runner, 0, 1)
    cost = build_cost(recipe.plan.torch, recipe.plan.backend, load_facts())
    minutes = math.ceil(cost.cpu_minutes / jobs_for(runner.memory_gib, runner.cores, cost))
    rounds = math.ceil(minutes / (runner.minutes - _RESERVE_MINUTES))
    why, hosted = "", f"a hosted {system} runner"
    if recipe.disk_gib > runner.disk_gib:
        why = f"the build needs {recipe.disk_gib} GiB of disk, and {hosted} has about {runner.disk_gib}"
    elif recipe.memory_gib > runner.memory_gib:
        why = f"the build needs {recipe.memory_gib} GiB of memory, and {hosted} has {runner.memory_gib}"
    elif rounds > _MOST_ROUNDS:
        why = f"the build takes about {minutes} minutes on {hosted} ({runner.cores} cores), and a job may take "
        why += f"{runner.minutes}; even {_MOST_ROUNDS} jobs in a row are too few"
    if why:
        remedy = "use a runner of your own with the script (sh or bat), or build it in a cloud machine"
        raise BadInput(why, remedy=remedy)
    return Fit(runner, minutes, rounds)


def cuda_release(recipe: Recipe) -> str:
    """The toolkit with its patch level, as NVIDIA's archive names it: the images know it."""
    minor = ".".join((recipe.plan.cuda or "").split(".")[:2])
    row = containers.find_image("cuda", minor)
    match = re.search(r":(\d+\.\d+\.\d+)", row.build) if row else None
    if match is None:
        raise BadInput(f"the exact release of CUDA {minor} is not known here", remedy="export it as bat")
    return match[1]


def carried_program(name: str) -> str:
    """A program of our own that an export carries along as it is."""
    return resources.files("rekindle.scripts").joinpath("templates", name).read_text(encoding="utf-8")


def _workflow(recipe: Recipe, image: str | None, *, system: str, arch: str, distro: str | None = None) -> str:
    windows, fit = system == "windows", fit_runner(recipe, system, arch)
    script = render_script(recipe, "bat" if windows else "sh")
    cuda = bool(recipe.builds and windows and recipe.plan.cuda)
    if "${{" in script:
        raise BadInput("the script has '${{' in it, which a workflow would replace", remedy="export it as sh or bat")
    return find_template("workflow.yml.j2").render(
        shared_values(recipe, "github"),
        windows=windows,
        **fit._asdict(),
        job="build" if recipe.builds else "install",
        fetch=Quoted(carried_program("fetch_cuda.py.txt") if cuda else ""),
        report=Quoted(carried_program("build_report.py.txt")),
        cuda_release=cuda_release(recipe) if cuda else "",
        cudnn_release=recipe.plan.cudnn or "-",
        script=Quoted(script),
        script_name=plain_word("build.bat" if windows else "build.sh"),
        images=containers.choose_images(recipe.plan, image, arch, distro) if recipe.builds and not windows else None,
        packages=linux_packages(recipe),
    )
