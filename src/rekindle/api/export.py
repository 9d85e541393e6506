"""``export`` joined: a plan (given, or made for the described machine) and its patches into a script."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rekindle.model.export import Exported
    from rekindle.model.plan import Plan


def export(
    plan: Plan,
    format: str,
    *,
    system: str | None = None,
    out: Path | None = None,
    image: str | None = None,
    arch: str = "x86_64",
) -> Exported:
    """The plan as ``sh``, ``bat``, ``ps1``, ``dockerfile``, ``github``, ``slurm``, ``devcontainer`` or ``pixi``.

    Written to ``out`` if given. ``system`` and ``arch`` are of the machine the plan is for; a format that does not run
    there is refused.

    >>> from rekindle.api import machine_from_flags, plan
    >>> made = plan(machine_from_flags(gpu=["RTX 3060"], os="linux", glibc="2.35", python="3.12", driver="570.86"))
    >>> script = export(made, "sh", out=folder)
    >>> script.text.splitlines()[0], (folder / script.path).exists()
    ('#!/bin/sh', True)
    """
    from rekindle.export.recipe import make_recipe
    from rekindle.export.scripts import NAMES, encode, render
    from rekindle.host.files import write_for_user
    from rekindle.model.export import Exported
    from rekindle.source.patches import load_patches

    wanted = set(plan.build.patches) if plan.build else set()
    patches = {p.id: p.raw for p in load_patches(plan.project) if p.id in wanted} if wanted else {}
    recipe = make_recipe(plan, patches)
    text = render(recipe, format, system=system or _system_of(plan), image=image, arch=arch)
    raw = encode(text, format)
    path = None
    if out is not None:
        path = out / NAMES[format].format(recipe.folder) if out.is_dir() else out
        write_for_user(path, raw)
        if format in ("sh", "slurm"):
            path.chmod(path.stat().st_mode | 0o111)
    shown = str(path) if path else NAMES[format].format(recipe.folder)
    run = {
        "sh": f"sh {shown}",
        "bat": shown,
        "ps1": f"powershell -ExecutionPolicy Bypass -File {shown}",
        "dockerfile": f"docker build -t {recipe.folder.lower()} -f {shown} .",
        "github": f"commit it as .github/workflows/{Path(shown).name} and start it by hand",
        "slurm": f"sbatch {shown}",
        "devcontainer": "keep it as .devcontainer/devcontainer.json and reopen the folder in its container",
        "pixi": "pixi run python   (in the folder of pixi.toml)",
    }[format]
    return Exported(
        format=format, title=recipe.title, path=str(path) if path else None, text=raw.decode("utf-8"), run=run
    )


def _system_of(plan: Plan) -> str | None:
    """The system a plan was made for: only for Windows it is spelt for PowerShell, too."""
    compiler = (plan.build.compiler if plan.build else None) or ""
    if plan.powershell or compiler.startswith("msvc"):
        return "windows"
    return "linux" if plan.commands or compiler.startswith(("gcc", "clang")) else None
