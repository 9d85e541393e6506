"""What a wheel or library really contains, read from its bytes.

TARGET is a wheel, a .so, .dll or .pyd, a directory, an installed package (torch) or a name on the index
such as torch==2.6.0. A directory or an archive (zip, tar) of wheels gives one line per wheel.
Nothing is imported and no vendor's tool is needed.
"""

import argparse
import platform

import msgspec

from rekindle.cli.plan import add_description
from rekindle.cli.verb import Answer, Session, add_yes, place_for, read_options
from rekindle.errors import BadInput
from rekindle.model.machine import Machine, cpu_arch

_DESCRIBES = ("gpu", "cpu", "os", "distro", "glibc", "arch", "driver", "memory")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="TARGET", nargs="?", help="a wheel, a library, a directory or a package name")
    parser.add_argument("--quick", action="store_true", help="read as little as possible")
    parser.add_argument("--no-cpu", action="store_true", help="leave out the audit of the CPU code")
    parser.add_argument("--diff", nargs=2, metavar=("A", "B"), help="compare two wheels instead")
    parser.add_argument("--html", metavar="FILE", help="also write the report as one HTML page")
    python = "for a name on the index: the Python it is for; or an interpreter, for what is installed there"
    parser.add_argument("--python", metavar="X.Y", help=python)
    parser.add_argument("--platform", metavar="TAG", help="for a name on the index: e.g. manylinux1_x86_64, win_amd64")
    group = parser.add_argument_group("does it run there?")
    machine = "this, a machine.json, a profile's name, a GPU or a CPU"
    group.add_argument("--for", dest="machine", metavar="MACHINE", help=machine)
    by_hand = "or by hand: product name, sm_35, gfx1031; repeatable"
    add_description(group, gpu=by_hand, chooses="; also chooses the wheel of a name")
    add_yes(parser)
    group.add_argument("--memory", metavar="SIZE", help=argparse.SUPPRESS)


def run(args: argparse.Namespace, session: Session) -> Answer:
    from rekindle import api
    from rekindle.model.spoken import spoken_bytes
    from rekindle.model.wheel import InspectOptions

    machine, name = _machine(args)
    platform = args.platform or _platform(args.os, args.arch or _other_arch(machine))
    options = read_options(InspectOptions, args, cpu=not args.no_cpu, platform=platform, machine=None)

    def confirm(name: str, size: int) -> bool:
        if not session.can_ask():
            return True  # a script that asked for all of it gets all of it
        session.close()
        return session.confirm(
            f"{name} is read over the network, up to {spoken_bytes(size)} (--quick takes about 2 MB). Go on?"
        )

    if args.diff:
        if args.target:
            raise BadInput("--diff takes two targets and no third", remedy="rekindle inspect --diff A B")
        before, after = args.diff
        return Answer(api.inspect_diff(before, after, options, progress=session.progress))
    if not args.target:
        raise BadInput("name a wheel, a library or a package", remedy="rekindle inspect --help")
    options = msgspec.structs.replace(options, machine=machine, machine_name=name)
    if api.holds_wheels(args.target):
        if args.html:
            raise BadInput("--html shows one wheel", remedy=f"name one of the wheels in {args.target}")
        shelf = api.inspect_shelf(args.target, options, progress=session.progress)
        refused = bool(shelf.findings) or any(wheel.verdict and wheel.verdict.runs is False for wheel in shelf.wheels)
        return Answer(shelf, good=not refused)
    report = api.inspect(args.target, options, confirm=confirm, progress=session.progress)
    if args.html:
        page = place_for(args.html, "inspect.html")
        api.inspect_page(report, page)
        session.progress.note(f"wrote {page}")
    refused = report.verdict is not None and report.verdict.runs is False
    return Answer(report, good=not refused)


def _platform(system: str | None, arch: str | None) -> str | None:
    """The wheel that a system and an architecture mean, x86-64 as for ``plan``; None where neither was said."""
    if system is None and arch is None:
        return None
    family = cpu_arch(arch or "x86_64")
    where = (system or platform.system()).lower()
    if where == "windows":
        return "win_arm64" if family == "aarch64" else "win_amd64"
    if where in ("macos", "darwin"):
        return "macosx_arm64" if family == "aarch64" else "macosx_x86_64"
    return f"linux_{family}"


def _other_arch(machine: Machine | None) -> str | None:
    """The architecture of a described CPU where this machine's is another: its wheels are meant, not the ones here."""
    if machine is None or not (machine.os.arch or machine.cpu.microarchitecture):
        return None
    arch = cpu_arch(machine.os.arch or "x86_64")  # a CPU of another family says which
    return arch if arch != cpu_arch(platform.machine()) else None


def _machine(args: argparse.Namespace) -> tuple[Machine | None, str]:
    from rekindle import api

    flags = {name: value for name in _DESCRIBES if (value := getattr(args, name)) is not None}
    if args.machine:
        if flags:
            raise BadInput("--for describes the whole machine", remedy="leave --gpu, --cpu, --os … out")
        return api.inspect_machine(args.machine), args.machine
    if not flags:
        return None, ""
    gpu = flags.pop("gpu", ())
    words = ", ".join(f"{'' if key in ('os', 'arch', 'cpu') else f'{key} '}{value}" for key, value in flags.items())
    name = f"{' + '.join(gpu)} ({words})" if gpu and words else " + ".join(gpu) or words
    return api.machine_from_flags(gpu=gpu, **flags), name
