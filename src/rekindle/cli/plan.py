"""Which torch can run here (or on another machine), how to get it, and why."""

from __future__ import annotations

import argparse
import functools
import sys
from typing import TYPE_CHECKING

from rekindle.cli.verb import Answer, Session, add_repeatable, path
from rekindle.errors import BadInput

if TYPE_CHECKING:
    from rekindle.model.machine import Machine
    from rekindle.model.plan import Plan, Wish


_DESCRIBES = ("cpu", "os", "distro", "glibc", "arch", "driver", "memory")
_TOOLCHAIN = ("cuda", "rocm", "cudnn", "compiler", "python")
_ASKED = ("torch", "variant", *_TOOLCHAIN)


def add_description(group: argparse._ActionsContainer, *, gpu: str, chooses: str = "") -> None:
    """A machine by hand; ``chooses`` is what else its system and architecture decide."""
    group.add_argument("--gpu", action="append", metavar="GPU", help=gpu)
    group.add_argument("--cpu", metavar="CPU", help="microarchitecture or product name")
    group.add_argument("--os", metavar="OS", help=f"linux, windows or macos{chooses}")
    group.add_argument("--distro", metavar="NAME", help="ubuntu-22.04, debian-12, …")
    group.add_argument("--glibc", metavar="VERSION")
    group.add_argument("--arch", metavar="ARCH", help=f"x86_64 or aarch64{chooses}")
    group.add_argument("--driver", metavar="VERSION", help="NVIDIA driver")


def add_machine_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that describe a machine; other verbs take them too."""
    group = parser.add_argument_group("the machine (default: this one)")
    group.add_argument("--machine", metavar="FILE|NAME", help="a machine.json or the name of a profile")
    add_description(group, gpu="product name, sm_35, gfx1031, or none; repeatable")
    group.add_argument("--cuda", metavar="VERSION", help="CUDA toolkit")
    group.add_argument("--rocm", metavar="VERSION")
    group.add_argument("--cudnn", metavar="VERSION")
    group.add_argument("--compiler", metavar="NAME", help="gcc-13, clang-17 or msvc-19.40")
    group.add_argument("--python", metavar="VERSION", help="the Python that gets torch")
    group.add_argument("--memory", metavar="SIZE", help="RAM, for example 16G")


def add_origin(group: argparse._ActionsContainer) -> None:
    """Where the sources of a build come from."""
    places = "git (default), tarball, debian (system libraries instead of submodules), a tree"
    group.add_argument("--from", dest="origin", metavar="PLACE", help=f"where sources come from: {places}")


def add_companions(
    group: argparse._ActionsContainer,
    what: str = "companions wanted beside torch, such as xformers,triton or xformers==0.0.30; repeatable",
) -> None:
    """Packages that are wanted with torch."""
    add_repeatable(group, "--with", "PACKAGES", what, dest="beside")


def read_companions(given: list[str]) -> tuple[str, ...]:
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


def add_serve(group: argparse._ActionsContainer) -> None:
    """Which of several cards a plan is for; the same for every verb that plans."""
    which = "of different cards: one torch for all (default), or the newest torch of the newest"
    group.add_argument("--serve", choices=("all", "newest"), help=which)


def add_settings(group: argparse._ActionsContainer) -> None:
    """Switches of a build by hand."""
    switch = "a switch of the source build by hand, such as USE_PRECOMPILED_HEADERS=1; repeatable"
    add_repeatable(group, "--set", "NAME=VALUE", switch, dest="settings")


def add_compiling(parser: argparse.ArgumentParser) -> None:
    """How much of the machine the compilers get: the same for every verb that builds."""
    parser.add_argument("--memory", metavar="SIZE", help="what all compilers together may use, such as 12G")
    most = "never more than N compilers at once (default: all cores)"
    parser.add_argument("--jobs", "-j", type=int, metavar="N", help=most)
    parser.add_argument("--launcher", metavar="NAME", help="ccache, sccache, distcc or icecc")
    add_farm(parser)
    add_trace(parser)


def add_trace(parser: argparse.ArgumentParser) -> None:
    """A time line of a build."""
    line = "write a time line of the build there, for ui.perfetto.dev or chrome://tracing"
    parser.add_argument("--trace", type=path, metavar="FILE", help=line)


def add_farm(parser: argparse.ArgumentParser) -> None:
    """Other machines that compile: the same for every verb that builds."""
    farm = "compile on the farm's machines as well (rekindle farm up); FOLDER: another farm than the user's own"
    parser.add_argument("--farm", nargs="?", const="", metavar="FOLDER", help=farm)
    check = "compile one in N of the farm's objects here too and compare (default: 50; 0: none)"
    parser.add_argument("--farm-check", type=int, metavar="N", help=check)


def read_settings(words: list[str], option: str = "--set") -> tuple[tuple[str, str], ...]:
    """``NAME=VALUE`` words; a name is what a shell takes for one."""
    settings = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or not name.isidentifier():
            raise BadInput(f"{option} {word}: no NAME=VALUE", remedy=f"write {option} NAME=VALUE")
        settings[name] = value
    return tuple(settings.items())


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_machine_arguments(parser)
    group = parser.add_argument_group("the wish")
    group.add_argument("--torch", metavar="SPEC", help="2.6.0, 2.6, '>=2.1,<2.4' or a very wheel: 2.8.0+cu128")
    group.add_argument("--variant", metavar="NAME", help="cu126, rocm6.4, cpu")
    group.add_argument("--build", action="store_true", help="insist on a source build")
    add_serve(group)
    add_companions(group)
    known = "an application or its folder: its bounds for torch are kept (comfyui, vllm==0.10.2, DIR)"
    group.add_argument("--for", dest="app", metavar="APP|DIR", help=known)
    add_origin(group)
    add_settings(group)
    group.add_argument("--offline", action="store_true", help="never look at an index (planning never does)")
    before = "look for a wheel built before (repeatable; default: $REKINDLE_WHEELHOUSES)"
    group.add_argument("--wheelhouse", action="append", metavar="DIR|URL", help=before)
    records = "what people proved, as 'verify --share' wrote it (repeatable; default: $REKINDLE_PROOFS)"
    group.add_argument("--proofs", action="append", metavar="DIR|URL", help=records)
    group.add_argument("--why-not", metavar="X=Y", help="why not torch=2.15, cuda=12.3, variant=cu118, python=3.13 …")


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.render.plan import plan_view

    machine, wish = machine_and_wish(args)
    if args.why_not:
        return Answer(api.why_not(machine, wish, args.why_not))
    plan = api.plan(machine, wish, wheelhouses=args.wheelhouse, app=args.app, proofs=args.proofs)
    if session.json:
        api.remember_plan(plan, other_machine=bool(args.machine))
    assumed = _note_assumed(args, machine, wish, plan)
    view = functools.partial(plan_view, assumed=assumed)
    return Answer(plan, good=plan.answer != "none", view=view)


def _note_assumed(args: argparse.Namespace, machine: Machine, wish: Wish, plan: Plan) -> tuple[str, ...]:
    from rekindle.api.plan import assumed_for

    described = bool(args.gpu) or any(getattr(args, name) is not None for name in _DESCRIBES)
    if not described or args.machine:
        return ()
    return (*(() if args.os else ("Linux (--os)",)), *assumed_for(machine, wish, plan))


def machine_and_wish(args: argparse.Namespace) -> tuple[Machine, Wish]:
    """What the flags describe. A toolchain value given by hand is a wish: it is kept, or its change is explained."""
    import msgspec

    from rekindle import api
    from rekindle.model.plan import Wish

    flags = {name: value for name in _DESCRIBES + _TOOLCHAIN if (value := getattr(args, name)) is not None}
    asked = {name: value for name in _ASKED if (value := getattr(args, name, None)) is not None}
    for values in (flags, asked):
        if "compiler" in values:  # a toolset (14.29) is the compiler 19.29
            values["compiler"] = values["compiler"].replace("msvc-14.", "msvc-19.")
    if args.machine:
        if args.gpu or flags.keys() & set(_DESCRIBES):
            raise BadInput("--machine describes the whole machine", remedy="leave --gpu, --cpu, --os … out")
        machine, wish = api.find_machine(args.machine)
        wish = msgspec.structs.replace(wish, **asked)
    else:
        described = args.gpu or flags.keys() - {"python", "memory"}
        if sys.platform == "win32" and not flags.keys() & {"distro", "glibc"}:
            # Someone who names a card on Windows means it there.
            flags.setdefault("os", "windows")
        machine = api.machine_from_flags(gpu=args.gpu or (), **flags) if described else api.this_machine()
        wish = Wish(**asked)
    origin = getattr(args, "origin", None)
    settings = read_settings(getattr(args, "settings", []))
    build = bool(getattr(args, "build", False))
    beside = read_companions(getattr(args, "beside", []))
    serve = getattr(args, "serve", None)
    return machine, msgspec.structs.replace(
        wish, build=build, origin=origin, settings=settings, beside=beside, serve=serve
    )
