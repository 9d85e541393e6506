"""``export`` joined: a plan (given, or made for the described machine) and its patches into a script."""

from pathlib import Path

from rekindle.errors import BadInput
from rekindle.host.files import write_for_user
from rekindle.model.machine import cpu_arch
from rekindle.model.plan import Plan
from rekindle.model.words import Exported
from rekindle.scripts.containers import files_beside
from rekindle.scripts.formats import check_overwriting, choose_path, encode, render, run_line
from rekindle.scripts.recipe import Recipe, make_recipe
from rekindle.source.patches import load_patches


def export(
    plan: Plan,
    format: str,
    *,
    system: str | None = None,
    out: Path | None = None,
    image: str | None = None,
    arch: str | None = None,
    distro: str | None = None,
) -> Exported:
    """The plan as ``sh``, ``bat``, ``ps1``, ``dockerfile``, ``github``, ``slurm``, ``devcontainer`` or ``pixi``.

    Written to ``out`` if given, with the extension it needs; what is there is only overwritten where it is an earlier
    export of the same form. A Dockerfile in a folder gets another beside it with what it needs. ``system`` and ``arch``
    are of the machine the plan is for, where the plan (of an older rekindle) does not say so itself; a format that does
    not run there is refused. ``distro`` is what a container is to be made of; ``image`` names one.

    >>> from rekindle.api import machine_from_flags, plan
    >>> made = plan(machine_from_flags(gpu=["RTX 3060"], os="linux", glibc="2.35", python="3.12", driver="570.86"))
    >>> script = export(made, "sh", out=folder)
    >>> script.text.splitlines()[0], (folder / script.path).exists()
    ('#!/bin/sh', True)
    """
    recipe, _ = recipe_of(plan)
    system, arch = _machine_of(plan, format, system, arch)
    folder = out if format == "dockerfile" and out is not None and out.is_dir() else None
    others = {folder / name: content for name, content in files_beside(recipe).items()} if folder else {}
    text = render(recipe, format, system=system, image=image, arch=arch, distro=distro, apart=bool(others))
    raw = encode(text, format)
    path = None
    if out is not None:
        path = choose_path(out, format, recipe)
        check_overwriting(path, raw)
        for other, content in others.items():
            write_for_user(other, content)
        write_for_user(path, raw)
        if format in ("sh", "slurm"):
            path.chmod(path.stat().st_mode | 0o111)
    return Exported(
        format=format,
        title=recipe.title,
        path=str(path) if path else None,
        text=raw.decode("utf-8"),
        run=run_line(recipe, format, path, arch),
        beside=tuple(map(str, others)),
    )


def recipe_of(plan: Plan) -> tuple[Recipe, dict[str, bytes]]:
    """What a script is made of, and the plan's patches by name."""
    ids = set(plan.build.patches) if plan.build else set()
    patches = {patch.id: patch.raw for patch in load_patches(plan.project) if patch.id in ids} if ids else {}
    return make_recipe(plan, patches), patches


# What of them differs from CPU to CPU: a runner, a package, an image.
_BY_ARCH = ("github", "pixi", "dockerfile", "devcontainer")


def _machine_of(plan: Plan, format: str, system: str | None, arch: str | None) -> tuple[str | None, str]:
    """System and CPU the plan was made for. It says so itself; what is given beside it must not contradict."""
    arch = cpu_arch(arch) if arch else None
    if plan.os is not None:
        for flag, value, planned in (("--os", system, plan.os.system), ("--arch", arch, plan.os.arch)):
            if value not in (None, planned):
                remedy = f"make the plan with {flag} {value}"
                raise BadInput(f"this plan was made for {planned}, and {flag} says {value}", remedy=remedy)
        return plan.os.system, plan.os.arch
    if arch is None and format in _BY_ARCH:
        raise BadInput(
            f"this plan does not say for which CPU it was made, and {format} differs from one to the other",
            remedy="add --arch x86_64 or --arch aarch64, or make the plan again",
        )
    compiler = (plan.build.compiler if plan.build else None) or ""
    guess = "linux" if plan.commands or compiler.startswith(("gcc", "clang")) else None
    if plan.powershell or compiler.startswith("msvc"):  # only for Windows it is spelt for PowerShell, too
        guess = "windows"
    return system or guess, arch or "x86_64"
