from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rekindle import api
from rekindle.cli.verb import Answer, Session
from rekindle.errors import BadInput

if TYPE_CHECKING:
    from rekindle.model.machine import Machine
    from rekindle.model.plan import Wish


_DESCRIBES = ("cpu", "os", "distro", "glibc", "arch", "driver", "memory")
_TOOLCHAIN = ("cuda", "rocm", "cudnn", "compiler", "python")


def read_companions(given: Sequence[str]) -> tuple[str, ...]:
    """Names separated by commas; a comma inside a version (``>=1,<2``) belongs to it."""
    words: list[str] = []
    for word in ",".join(given).split(","):
        if words and word.strip()[:1] in ("<", ">", "=", "!", "~"):
            words[-1] += "," + word.strip()
        elif word.strip():
            words.append(word.strip())
    if given and not words:
        raise BadInput("--with names no package", remedy="for example --with xformers,triton")
    return tuple(words)


def read_settings(words: Sequence[str], option: str = "--set") -> tuple[tuple[str, str], ...]:
    """``NAME=VALUE`` words; a name is what a shell takes for one."""
    settings = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name.isidentifier():
            raise BadInput(f"{option} {word}: no NAME=VALUE", remedy=f"write {option} NAME=VALUE")
        settings[name] = value
    return tuple(settings.items())


def run(session: Session) -> Answer:
    """Which torch can run here (or on another machine), how to get it, and why."""
    from rekindle.api.plan_torch import assumed_for
    from rekindle.render.plan import plan_view

    args = session.args
    machine, wish = machine_and_wish(session)
    if args.why_not:
        return Answer(api.why_not(machine, wish, args.why_not))
    plan = api.plan(machine, wish, wheelhouses=args.wheelhouse or None, app=args.app, proofs=args.proofs or None)
    if session.json:
        api.remember_plan(plan, other_machine=bool(args.machine))
    assumed: tuple[str, ...] = ()
    if not args.machine and (args.gpu or any(getattr(args, name) is not None for name in _DESCRIBES)):
        assumed = (*(() if args.os else ("Linux (--os)",)), *assumed_for(machine, wish, plan))
    return Answer(plan, good=plan.answer != "none", view=functools.partial(plan_view, assumed=assumed))


def machine_and_wish(session: Session) -> tuple[Machine, Wish]:
    """What the flags describe. A toolchain value given by hand is a wish: it is kept, or its change is explained."""
    import msgspec

    from rekindle.model.plan import Wish

    args = session.args
    flags = {name: value for name in _DESCRIBES + _TOOLCHAIN if (value := getattr(args, name)) is not None}
    asked = session.read_named(Wish.__struct_fields__)
    asked["settings"] = read_settings(asked.get("settings", ()))
    asked["companions"] = read_companions(asked.get("companions", ()))
    for values in (flags, asked):
        if "compiler" in values:  # a toolset (14.29) is the compiler 19.29
            values["compiler"] = values["compiler"].replace("msvc-14.", "msvc-19.")
    if args.machine:
        if args.gpu or flags.keys() & set(_DESCRIBES):
            raise BadInput("--machine describes the whole machine", remedy="leave --gpu, --cpu, --os … out")
        machine, wish = api.find_machine(args.machine)
        return machine, msgspec.structs.replace(wish, **asked)
    described = args.gpu or flags.keys() - {"python", "memory"}
    if sys.platform == "win32" and not flags.keys() & {"distro", "glibc"}:
        # Someone who names a card on Windows means it there.
        flags.setdefault("os", "windows")
    machine = api.machine_from_flags(gpu=args.gpu, **flags) if described else api.this_machine()
    return machine, Wish(**asked)
