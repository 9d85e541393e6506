"""An extension by its name: its sources from the package index, and a plan for the torch it is compiled against."""

import contextlib
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

from msgspec.structs import replace

from rekindle.api.plan_torch import plan, this_machine
from rekindle.build.companion import Torch, find_extension, torch_in, torch_of
from rekindle.build.request import project_of, read_plan
from rekindle.compat.backends import platform_of
from rekindle.errors import BadInput
from rekindle.facts import PAIRED_PACKAGES, load_facts
from rekindle.host.download import download
from rekindle.host.live import LiveHost
from rekindle.host.workspace import Workspace, workspace_at
from rekindle.inspect.published import Places, find_sdist, pip_places
from rekindle.model.build_options import BuildOptions
from rekindle.model.machine import Machine
from rekindle.model.plan import Plan, Wish
from rekindle.model.progress import Progress, Silent
from rekindle.model.source import compiles_against_torch
from rekindle.model.version import same_prefix
from rekindle.plan.describe import machine_from_flags
from rekindle.readiness.programs import find_build_python
from rekindle.scripts.quoting import pasted
from rekindle.source.archive import unpack


def with_sources(options: BuildOptions, progress: Progress | None = None) -> BuildOptions:
    """A package that was named, fetched and unpacked; options that name none as they are."""
    package = options.package
    if not package:
        return _find_tree(options)
    if options.source is not None:
        raise BadInput(f"{package} is to be fetched, and --source names a tree", remedy="give one of the two")
    return replace(options, source=fetch_sources(package, workspace_at(options.workspace), progress))


def _find_tree(options: BuildOptions) -> BuildOptions:
    """A companion named by --project alone: its tree in the workspace, of several the one for the torch."""
    project = options.project
    if options.source is not None or options.plan is not None or project not in PAIRED_PACKAGES:
        return options
    workspace = workspace_at(options.workspace)
    trees = sorted(path for path in workspace.source.glob(f"{project}*") if path.is_dir())
    # The companion's release for the torch that was named, or that the workspace's plan is for.
    torch = torch_in(options.against).release
    if torch is None and workspace.plan.is_file():
        torch = read_plan(workspace.plan).torch
    release = load_facts().companion_release(project, torch)
    if len(trees) > 1:
        trees = [path for path in trees if path.name == f"{project}-{release}"] or trees
    if len(trees) == 1:
        return replace(options, source=trees[0])
    named = f" --workspace {pasted(str(workspace.root))}" if options.workspace else ""
    raise BadInput(
        f"the workspace {workspace.root} holds {', '.join(path.name for path in trees) or f'no {project} tree'}",
        remedy=f"name one with --source {pasted(str(trees[-1]))}"
        if trees
        else f"rekindle source fetch --project {project} --release {release or 'VERSION'}{named}",
    )


def fetch_sources(
    package: str, workspace: Workspace, progress: Progress | None = None, *, places: Places | None = None
) -> Path:
    """The tree of a package's newest source archive (or of the version asked for) in the workspace. One that is there
    already is kept with what was compiled in it: the same command continues."""
    listener = progress or Silent()
    listener.stage("sources", package)
    sdist = find_sdist(package, places or pip_places())
    name = sdist.file.name
    tree = workspace.source / name.removesuffix(".zip").removesuffix(".tar.gz")
    if not tree.is_dir():
        if sdist.file.url.startswith("file:"):
            archive = Path(url2pathname(urlsplit(sdist.file.url).path))
        else:
            archive = workspace.cache / "sdists" / name
            download(sdist.file.url, archive, sha256=sdist.file.sha256, progress=listener)
        unpack(archive, tree, progress=listener)
    if find_extension(tree) is None:
        remedy = f"pip install {package}: it needs no build of its own for your torch"
        raise BadInput(f"nothing in {name} compiles against torch", remedy=remedy)
    return tree


def with_own_plan(options: BuildOptions) -> BuildOptions:
    """An extension needs no plan by hand: it gets the one for this machine and the torch it is compiled against, unless
    the workspace's own plan is one to build and nothing says otherwise."""
    source = options.source
    if options.plan is not None:
        if options.gpus:
            raise BadInput("the plan says which cards it is for", remedy="leave --gpu or --plan out")
        return options
    extends = False
    with contextlib.suppress(BadInput):
        extends = isinstance(source, Path) and compiles_against_torch(project_of(source))
    if not extends:
        if options.gpus:
            remedy = "rekindle plan --gpu … --build plans torch itself"
            raise BadInput("--gpu is for extensions of torch", remedy=remedy)
        return options
    explicit = options.against or options.as_is or options.gpus
    own = workspace_at(options.workspace).plan
    if not explicit and own.is_file() and read_plan(own).build is not None:
        return options
    return replace(options, plan=own_plan(options))


def own_plan(options: BuildOptions) -> Plan:
    """A plan to build with the torch that was named, or that the given Python has."""
    host = LiveHost()
    requested = next(iter(options.pythons or ()), None)
    torch = torch_in(options.against)
    python = torch.python
    if requested:
        interpreter = find_build_python(host, requested)
        python = interpreter.short
        if options.as_is:
            torch = torch_of(host, interpreter.path)
    machine = this_machine()
    if options.gpus:
        machine = replace(machine, gpus=machine_from_flags(gpu=options.gpus).gpus)
    cuda = _find_cuda(torch, options, machine)
    wish = Wish(build=True, torch=torch.release, variant=torch.flavour, cuda=cuda, python=python)
    planned = plan(machine, wish, wheelhouses=[])
    if planned.build is None:
        # A wheel in place of the build: what spoke for the wheel is no answer to why there is no build.
        against = next((change.why for change in planned.changes if change.what == "build"), "")
        whole = next((reason.text for reason in planned.because if reason.text.startswith(against)), against)
        remedy = "rekindle plan --build says more; --plan FILE takes a plan of your own"
        raise BadInput(f"no build is possible here: {whole or 'nothing fits'}", remedy=remedy)
    if cuda and planned.cuda and not same_prefix(planned.cuda, cuda):
        why = next((change.why for change in planned.changes if change.what in ("cuda", "variant")), "")
        raise BadInput(
            f"that torch {torch.release} is for CUDA {cuda}, and code for the same cannot be compiled here: {why}",
            remedy=f"--against a torch for CUDA {'.'.join(planned.cuda.split('.')[:2])} (rekindle plan says which there"
            " are), or other cards with --gpu",
        )
    return planned


def _find_cuda(torch: Torch, options: BuildOptions, machine: Machine) -> str | None:
    """The CUDA of the torch that was named, where cards are wanted: code for another would be refused when it is
    installed. A plain ``torch==2.6.0`` is the package index's own, which is of one flavour each."""
    row = load_facts().release(torch.release or "")
    platform = platform_of(machine.os)
    if row is None or platform is None or not any(gpu.vendor == "nvidia" for gpu in machine.gpus):
        return None
    plain = (options.against or "").endswith(f"=={torch.release}")
    flavour = torch.flavour or (row.pypi.get(platform) if plain else None)
    return next((entry.cuda for entry in load_facts().flavours(torch.release or "") if entry.name == flavour), None)
