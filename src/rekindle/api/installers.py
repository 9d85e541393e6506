"""For programs that bring torch along: which torch for this machine (``bring_torch``, in journey/, does it)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rekindle.model.machine import Machine
    from rekindle.model.plan import TorchChoice, Wish


def choose_torch(machine: Machine | None = None, wish: Wish | None = None) -> TorchChoice:
    """Which torch for a machine (default: this one), as a small document of stable form.

    >>> from rekindle.plan.describe import machine_from_flags
    >>> choice = choose_torch(machine_from_flags(gpu=["GTX 1080"], os="linux", arch="x86_64"))
    >>> choice.answer, choice.backend, choice.pip[0][0].startswith("torch==")
    ('install', 'cuda', True)
    """
    from rekindle.api.plan import plan
    from rekindle.compat.resources import use_disk_gib
    from rekindle.facts import load_facts
    from rekindle.model.plan import TorchChoice, pip_arguments

    made = plan(machine, wish)
    backend = made.backend
    build = made.build if made.answer == "build" else None
    disk = None if made.answer == "none" else use_disk_gib(backend, load_facts())
    return TorchChoice(
        answer=made.answer,
        torch=made.torch,
        variant=made.variant,
        backend=backend,
        python=made.python,
        packages=made.requests,
        pip=pip_arguments(made.requests) if made.answer == "install" else (),
        env=dict(made.env),
        disk_gib=build.disk_gib if build else disk,
        minutes=build.minutes if build else None,
        why=tuple(reason.text for reason in made.because),
        beware=tuple(warning.text for warning in made.warnings if not warning.handled),
    )
