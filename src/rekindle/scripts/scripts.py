"""A recipe into a script or a described environment. Templates hold the words, this the filters."""

from __future__ import annotations

import base64
import functools
import hashlib
import math
from typing import TYPE_CHECKING, Any

from rekindle import __version__
from rekindle.compat.resources import build_cost
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.slurm import slurm_head
from rekindle.scripts import quoting
from rekindle.scripts.carried import PROGRAM, files_beside, inspector
from rekindle.scripts.environments import devcontainer, pixi
from rekindle.scripts.images import choose_images, docker_platform, pinned
from rekindle.scripts.quoting import Quoted, plain_word
from rekindle.scripts.recipe import Recipe
from rekindle.scripts.toolchain import c_command, cxx_command, cxx_package, visual_studio
from rekindle.scripts.workflow import brought, cuda_release, fit_runner

if TYPE_CHECKING:
    from jinja2 import Environment, Template

NAMES = {
    "sh": "{}.sh", "bat": "{}.bat", "ps1": "{}.ps1", "dockerfile": "Dockerfile", "github": "{}.yml",
    "slurm": "{}.sbatch", "devcontainer": "devcontainer.json", "pixi": "pixi.toml",
}  # fmt: skip
FORMATS = tuple(NAMES)
# Where a format runs, whatever the machine that writes it; the others run on both systems.
SYSTEMS = {
    "bat": "windows", "ps1": "windows", "sh": "linux", "dockerfile": "linux", "slurm": "linux", "devcontainer": "linux",
}  # fmt: skip
_SAID = {"linux": "Linux", "windows": "Windows", "macos": "macOS"}
_SLURM_CORES = 8
_UV_IMAGE = "ghcr.io/astral-sh/uv:0.8.6"
_LINUX_PACKAGES = ("ca-certificates", "ccache", "git", "make", "pkg-config", "libopenblas-dev", "python3-venv")


def render(
    recipe: Recipe,
    kind: str,
    *,
    system: str | None = None,
    image: str | None = None,
    arch: str = "x86_64",
    apart: bool = False,
) -> str:
    """The script's text, with LF; a batch file is written with CRLF by :func:`encode`.

    ``system`` is the one the plan is for, where that is known: a format that runs on another is refused. ``apart``: a
    Dockerfile finds what it needs in a folder beside it (:func:`beside`) instead of carrying it along.
    """
    runs = SYSTEMS.get(kind)
    if runs and system and runs != system:
        raise BadInput(
            f"{kind} runs on {_SAID[runs]}, and this plan is for {_SAID.get(system, system)}",
            remedy=f"make the plan with --os {runs}, or export it as "
            + {"windows": "bat or ps1", "linux": "sh, dockerfile or github"}.get(system, "pixi"),
        )
    compiler = recipe.plan.build.compiler if recipe.plan.build else None
    shared: dict[str, Any] = {
        "r": recipe,
        "version": Quoted(__version__),
        "uv_image": Quoted(pinned(_UV_IMAGE, arch)),
        "name": plain_word(NAMES[kind].format(recipe.folder)),
        "compiler": cxx_command(compiler),
        "kepler": any(arch.startswith("3.") for arch in recipe.plan.arch_list),
    }
    if kind == "sh":
        return _template("build.sh.j2").render(shared)
    if kind in ("bat", "ps1"):
        return _windows_script(recipe, kind, shared)
    if kind == "dockerfile":
        return _dockerfile(recipe, image, shared, arch=arch, apart=apart)
    if kind == "github":
        return _workflow(recipe, image, shared, system=system or "linux", arch=arch)
    if kind == "slurm":
        return _slurm(recipe, shared)
    if kind == "devcontainer":
        script = render(recipe, "sh") if recipe.builds else ""
        return devcontainer(recipe, image, script, _packages(recipe), arch)
    if kind == "pixi":
        return pixi(recipe, system or "linux", arch)
    raise BadInput(f"{kind!r} is no format", remedy=f"one of {', '.join(FORMATS)}")


def beside(recipe: Recipe, kind: str) -> dict[str, str]:
    """The files that a format rendered ``apart`` needs beside it, by their path from it."""
    if kind != "dockerfile" or not recipe.builds:
        return {}
    return {f"{plain_word(recipe.folder)}/{name}": text for name, text in files_beside(render(recipe, "sh")).items()}


def encode(text: str, kind: str) -> bytes:
    """cmd reads labels wrongly in files without CRLF, PowerShell 5 takes a file without a mark for ANSI; the rest wants
    LF.
    """
    if kind == "bat":
        return text.replace("\n", "\r\n").encode()
    return text.replace("\n", "\r\n").encode("utf-8-sig") if kind == "ps1" else text.encode()


def _windows_script(recipe: Recipe, kind: str, shared: dict[str, Any]) -> str:
    plan = recipe.plan
    studio = visual_studio(plan.build.compiler if plan.build else None)
    off = recipe.env.get("USE_CUDNN", "1").upper() in ("0", "OFF", "NO", "FALSE")
    return _template(f"build.{kind}.j2").render(
        shared,
        batch_set=quoting.batch_set,
        vs_ranges=tuple(Quoted(f' -version "{versions}"') for versions in studio.ranges),
        vs_versions=studio.ranges,
        toolset=Quoted(studio.toolset),
        vcvars_ver=Quoted(f" -vcvars_ver={studio.toolset}" if studio.toolset else ""),
        vs_words=studio.words,
        cudnn=plain_word(plan.cudnn.split(".")[0]) if plan.cuda and plan.cudnn and not off else None,
        mkl=any(word.startswith("mkl-include") for word in recipe.requirements),
    )


def _slurm(recipe: Recipe, shared: dict[str, Any]) -> str:
    if not recipe.builds:
        raise BadInput("a cluster job is for a build, and this plan only installs", remedy="export it as sh")
    plan = recipe.plan
    cost = build_cost(plan.torch, recipe.backend, load_facts())
    compiler = plan.build.compiler if plan.build else None
    kits = {"cuda": plan.cuda, "rocm": plan.rocm}
    folder = plain_word(recipe.folder)
    modules = [f"{name}/{plain_word(version)}" for name, version in kits.items() if version]
    return _template("slurm.sh.j2").render(
        shared,
        script=Quoted(render(recipe, "sh")),
        head=Quoted(
            slurm_head(
                job=folder,
                cores=_SLURM_CORES,
                memory_gib=math.ceil(max(recipe.memory_gib, _SLURM_CORES * recipe.gib_per_job)) + 2,
                # Twice the estimate: Slurm ends what is late.
                hours=max(1, math.ceil(2 * cost.cpu_minutes / _SLURM_CORES / 60)),
                log=f"{folder}-%j.log",
            )
        ),
        modules=(*modules, *([plain_word(compiler).replace("-", "/", 1)] if compiler else [])),
    )


def _dockerfile(recipe: Recipe, image: str | None, shared: dict[str, Any], *, arch: str, apart: bool) -> str:
    plan = recipe.plan
    package = plain_word(recipe.package)
    question = Quoted(
        f", {package}.cuda.is_available()" if recipe.package == "torch" and (plan.cuda or plan.rocm) else ""
    )
    flags = Quoted(" --gpus all" if plan.cuda else " --device /dev/kfd --device /dev/dri" if plan.rocm else "")
    shared = {**shared, "platform": docker_platform(arch), "cuda_question": question, "gpu_flags": flags}
    if not recipe.builds:
        return _template("install.Dockerfile.j2").render(shared)
    return _template("Dockerfile.j2").render(
        shared,
        images=choose_images(plan, image, arch),
        apart=apart,
        packages=_packages(recipe),
        script=Quoted(render(recipe, "sh")),
        inspector=inspector(),
        inspect_program=PROGRAM,
        numpy=f"numpy{plan.numpy}" if plan.numpy and not plan.numpy[:1].isdigit() else "numpy",
    )


def _workflow(recipe: Recipe, image: str | None, shared: dict[str, Any], *, system: str, arch: str) -> str:
    windows = system == "windows"
    fit = fit_runner(recipe, system, arch)
    script = render(recipe, "bat" if windows else "sh")
    cuda = bool(recipe.builds and windows and recipe.plan.cuda)
    if "${{" in script:
        raise BadInput("the script has '${{' in it, which a workflow would replace", remedy="export it as sh or bat")
    return _template("workflow.yml.j2").render(
        shared,
        windows=windows,
        runner=fit.runner,
        minutes=fit.minutes,
        rounds=fit.rounds,
        job="build" if recipe.builds else "install",
        fetch=Quoted(brought("fetch_cuda.py.txt") if cuda else ""),
        report=Quoted(brought("build_report.py.txt")),
        cuda_release=cuda_release(recipe) if cuda else "",
        cudnn_release=recipe.plan.cudnn or "-",
        script=Quoted(script),
        script_name=plain_word("build.bat" if windows else "build.sh"),
        images=choose_images(recipe.plan, image, arch) if recipe.builds and not windows else None,
        packages=_packages(recipe),
    )


def _packages(recipe: Recipe) -> tuple[str, ...]:
    compiler = recipe.plan.build.compiler if recipe.plan.build else None
    return tuple(dict.fromkeys((*_LINUX_PACKAGES, cxx_package(compiler))))


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("rekindle.scripts"),
        # The output is no HTML: each value is quoted for its own language by a filter.
        autoescape=False,  # noqa: S701
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=quoting.only_quoted,
    )
    environment.filters.update(
        plain=plain_word,
        sh=quoting.sh_word,
        sh_words=quoting.sh_words,
        bat_words=quoting.batch_words,
        sh_name=quoting.sh_name,
        bat=quoting.batch_word,
        ps=quoting.ps_word,
        remark=quoting.batch_remark,
        docker=quoting.docker_word,
        yaml=quoting.yaml_word,
        yaml_expression=_yaml_expression,
        comment=quoting.comment,
        cc=c_command,
        minor=lambda version: plain_word(".".join(version.split(".")[:2])),
        delimiter=delimiter,
        base64=lambda content: Quoted("\n".join(_base64_lines(content))),
        base64_lines=_base64_lines,
        # Between quoted delimiters a shell reads nothing; the delimiter is made from the text.
        here_text=Quoted,
        unpercent=lambda text: Quoted(text.replace("%%", "%")),
        workflow_block=_workflow_block,
    )
    return environment


def _template(name: str) -> Template:
    return _environment().get_template(name)


def delimiter(text: str) -> Quoted:
    """A here-document's end that cannot occur in the text: it is made from the text's own hash."""
    return Quoted(f"END_{hashlib.sha256(text.encode()).hexdigest()[:12].upper()}")


def _workflow_block(text: str) -> Quoted:
    return Quoted("\n".join(f"          {line}".rstrip() for line in text.rstrip("\n").split("\n")))


def _base64_lines(content: bytes) -> list[Quoted]:
    text = base64.b64encode(content).decode("ascii")
    return [Quoted(text[at : at + 76]) for at in range(0, len(text), 76)]


def _yaml_expression(text: str) -> Quoted:
    """A scalar in which ``${{ … }}`` is meant."""
    import json

    return Quoted(json.dumps(text))
