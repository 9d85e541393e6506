import argparse
import platform

from msgspec.structs import replace

from rekindle import api
from rekindle.cli.verb import Answer, Session, place_for
from rekindle.errors import BadInput
from rekindle.model.machine import Machine, cpu_arch

_DESCRIBES = ("gpu", "cpu", "os", "distro", "glibc", "arch", "driver", "memory")


def run(session: Session) -> Answer:
    """What a wheel or library really contains, read from its bytes.

    TARGET is a wheel, a .so, .dll or .pyd, a directory, an installed package (torch) or a name on the index such as
    torch==2.6.0. A directory or an archive (zip, tar) of wheels gives one line per wheel. Nothing is imported and no
    vendor's tool is needed.
    """
    from rekindle.model.spoken import spoken_bytes
    from rekindle.model.wheel import InspectOptions

    args = session.args
    machine, name = _machine(args)
    platform = args.platform or _platform(args.os, args.arch or _other_arch(machine))
    options = session.options(InspectOptions, cpu=not args.no_cpu, platform=platform, machine=None)

    def confirm(name: str, size: int) -> bool:
        if not session.can_ask():
            return True  # a script that asked for all of it gets all of it
        session.close()
        much = f"{name} is read over the network, up to {spoken_bytes(size)}"
        return session.confirm(f"{much} (--quick takes about 2 MB). Go on?")

    if args.diff:
        if args.target:
            raise BadInput("--diff takes two targets and no third", remedy="rekindle inspect --diff A B")
        before, after = args.diff
        return Answer(api.inspect_diff(before, after, options, progress=session.progress))
    if not args.target:
        raise BadInput("name a wheel, a library or a package", remedy="rekindle inspect --help")
    options = replace(options, machine=machine, machine_name=name)
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
    flags = {name: value for name in _DESCRIBES if (value := getattr(args, name)) not in (None, [])}
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
