"""A build from a tree without its submodules: the same plan, with the settings, packages and losses that this means."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from rekindle.compat.supply import (
    from_index,
    install_line,
    losses_of,
    manager_of,
    needs_for,
    packages_of,
    settings_of,
)
from rekindle.model.machine import Machine
from rekindle.model.plan import Plan, Reason, Step
from rekindle.model.supply import Need, ThirdParty


def without(settings: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """What is left once these are decided otherwise."""
    gone = set(names)
    return {name: value for name, value in settings.items() if name not in gone}


def with_supply(plan: Plan, rows: Sequence[ThirdParty], machine: Machine, origin: str) -> Plan:
    """``rows`` are the third parties that are no submodules in the tree of ``origin`` (debian, a directory, git)."""
    if plan.build is None or plan.torch is None:
        return plan
    needs: tuple[Need, ...] = needs_for(plan.torch.split("+")[0])
    system = machine.os.system == "linux"
    manager = manager_of(machine.os.distro) if system else None
    recipe = plan.build
    gpu, rocm = bool(plan.cuda or plan.rocm), bool(plan.rocm)
    told = settings_of((*needs, *rows), gpu=gpu, rocm=rocm) if rows else {}
    pins = {name: pin for row in rows for name, pin in row.pins.items()}
    packages = packages_of((*needs, *rows), manager) if system else ()
    losses = tuple(dict.fromkeys((*recipe.losses, *losses_of(rows, gpu=gpu, rocm=rocm))))
    recipe = msgspec.structs.replace(
        recipe,
        origin=origin,
        env={**recipe.env, **told},
        # Which LAPACK it was follows from the BLAS; that there is one is asserted of every build.
        asserts=without(recipe.asserts, (*told, "LAPACK") if "BLAS" in told else told),
        toolchain=recipe.toolchain if "BLAS" not in told else without(recipe.toolchain, ("blas",)),
        # MKL comes by pip; a BLAS of the system makes that superfluous.
        pins={**without(recipe.pins, (name for name in recipe.pins if name.startswith("mkl"))), **pins}
        if "BLAS" in told
        else {**recipe.pins, **pins},
        losses=losses,
        packages=packages,
    )
    if not rows:
        return msgspec.structs.replace(plan, build=recipe)
    fetched = from_index(rows, plan.backend)
    left = sum(row.way == "off" or (row.way == "index" and row not in fetched) for row in rows)
    by_pip = "".join(f", {row.name} comes from the package index ({row.index.pin})" for row in fetched if row.index)
    why = Reason(
        code="third-parties-from-system",
        text=f"{sum(row.way == 'system' for row in rows)} third parties come from this system{by_pip} and"
        f" {left} are left out: the tree from {origin} has no submodules.",
        source="facts: supply",
    )
    stops = tuple(
        Reason(code="third-party-needed", text=f"{row.name}: {row.stops[plan.backend]}", source=row.source[0])
        for row in rows
        if plan.backend in row.stops
    )
    steps = [
        Step(kind="run", argv=("rekindle", "up", "--build", "--from", origin, "--torch", plan.torch.split("+")[0]))
    ]
    if manager and packages:
        steps.insert(0, Step(kind="run", argv=tuple(install_line(packages, manager, root=False).split())))
    commands = tuple(" ".join(map(shlex.quote, step.argv)) for step in steps)
    return msgspec.structs.replace(
        plan,
        build=recipe,
        because=(*plan.because, why),
        warnings=(*plan.warnings, *stops),
        steps=tuple(steps),
        commands=commands,
    )
