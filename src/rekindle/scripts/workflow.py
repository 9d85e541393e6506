"""The plan as a GitHub workflow: what a hosted runner has, whether the build fits, and in how many jobs."""

import math
import re
from dataclasses import dataclass
from importlib import resources

from rekindle.compat.resources import build_cost, jobs_for
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.supply import HostedRunner
from rekindle.scripts.containers import choose_images, find_image
from rekindle.scripts.quoting import Quoted, plain_word
from rekindle.scripts.recipe import Recipe
from rekindle.scripts.templates import find_template, linux_packages, render_script, shared_values

# A job ends this long before the runner does, so that the compiler cache is kept.
_RESERVE_MINUTES = 60
_MOST_ROUNDS = 4


@dataclass(frozen=True)
class Fit:
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
    rounds = max(1, math.ceil(minutes / (runner.minutes - _RESERVE_MINUTES)))
    why, hosted = "", f"a hosted {system} runner"
    if recipe.disk_gib > runner.disk_gib:
        why = f"the build needs {recipe.disk_gib} GiB of disk, and {hosted} has about {runner.disk_gib}"
    elif recipe.memory_gib > runner.memory_gib:
        why = f"the build needs {recipe.memory_gib} GiB of memory, and {hosted} has {runner.memory_gib}"
    elif rounds > _MOST_ROUNDS:
        why = f"the build takes about {minutes} minutes on {hosted} ({runner.cores} cores), and a job may take "
        why += f"{runner.minutes}; even {_MOST_ROUNDS} jobs in a row are too few"
    if why:
        raise BadInput(
            why, remedy="use a runner of your own with the script (sh or bat), or build it in a cloud machine"
        )
    return Fit(runner, minutes, rounds)


def cuda_release(recipe: Recipe) -> str:
    """The toolkit with its patch level, as NVIDIA's archive names it: the images know it."""
    minor = ".".join((recipe.plan.cuda or "").split(".")[:2])
    row = find_image("cuda", minor)
    match = re.search(r":(\d+\.\d+\.\d+)", row.build) if row else None
    if match is None:
        raise BadInput(f"the exact release of CUDA {minor} is not known here", remedy="export it as bat")
    return match[1]


def carried_program(name: str) -> str:
    """A program of our own that an export carries along as it is."""
    return resources.files("rekindle.scripts").joinpath("templates", name).read_text(encoding="utf-8")


def render_workflow(recipe: Recipe, image: str | None, *, system: str, arch: str, distro: str | None = None) -> str:
    windows = system == "windows"
    fit = fit_runner(recipe, system, arch)
    script = render_script(recipe, "bat" if windows else "sh")
    cuda = bool(recipe.builds and windows and recipe.plan.cuda)
    if "${{" in script:
        raise BadInput("the script has '${{' in it, which a workflow would replace", remedy="export it as sh or bat")
    return find_template("workflow.yml.j2").render(
        shared_values(recipe, "github"),
        windows=windows,
        runner=fit.runner,
        minutes=fit.minutes,
        rounds=fit.rounds,
        job="build" if recipe.builds else "install",
        fetch=Quoted(carried_program("fetch_cuda.py.txt") if cuda else ""),
        report=Quoted(carried_program("build_report.py.txt")),
        cuda_release=cuda_release(recipe) if cuda else "",
        cudnn_release=recipe.plan.cudnn or "-",
        script=Quoted(script),
        script_name=plain_word("build.bat" if windows else "build.sh"),
        images=choose_images(recipe.plan, image, arch, distro) if recipe.builds and not windows else None,
        packages=linux_packages(recipe),
    )
