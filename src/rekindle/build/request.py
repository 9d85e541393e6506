"""From what the user asked for to what the engine needs: plan, tree, interpreters, options; one line for each thing
that cannot work, before anything long starts; and the one door between a document and a compiler.

A plan decides which programs compile, what is fetched and what is set; one that came by mail decides that for its
sender, so what it would make this machine do is said before anything of it is done. :func:`admit` lets through what was
made here and what the user said yes to. Names that no build of torch knows (``build_names.toml``) are always refused.
"""

import contextlib
import dataclasses
import errno
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath

import msgspec
from packaging.version import InvalidVersion, Version

from rekindle.build.companion import find_extension
from rekindle.build.environment import NAMES, is_among
from rekindle.build.frontend import FrontEnd, find_front_end
from rekindle.build.tree import refuse_future
from rekindle.errors import BadInput, Untrusted, tell_os_errors
from rekindle.host.made import was_made_here
from rekindle.host.workspace import Workspace, workspace_at
from rekindle.model.build import ForeignPlan
from rekindle.model.build_options import BuildOptions, most_jobs
from rekindle.model.document import load
from rekindle.model.machine import Compiler, Machine, Os
from rekindle.model.plan import Plan
from rekindle.model.source import SourceTree
from rekindle.model.version import pin_requirement

TREE_FILE = "source.json"
_PATH = re.compile(r"(?:^|[=;:, ])((?:~|[A-Za-z]:)?[/\\][^;,\s]*)")

_PLAIN_FLAG = re.compile(NAMES.plain_flag)
_PLAIN_COMPILER = re.compile(r"(gcc|g\+\+|clang|clang\+\+)(-\d+(\.\d+)?)?")


@dataclass(frozen=True, kw_only=True)
class BuildOrder:
    """The options made definite. ``editable``: the tree is the user's own work, and editing it goes on with the build
    that was begun."""

    plan: Plan
    tree: SourceTree
    workspace: Workspace
    pythons: tuple[str, ...]
    options: BuildOptions
    editable: bool = False


def make_order(options: BuildOptions) -> BuildOrder:
    """Read what the options name, find what they leave open, and refuse what no build understands."""
    workspace = workspace_at(options.workspace)
    plan = options.plan if isinstance(options.plan, Plan) else read_plan(options.plan or workspace.plan)
    check_names(plan)
    tree = find_tree(options, workspace, plan)
    options.check()
    # Commands run in the tree: a path from here would lead elsewhere there. Links stay, they make an environment.
    named = tuple(str(Path(python).absolute()) if os.sep in python else python for python in options.pythons)
    pythons = named or ((plan.python,) if plan.python else (sys.executable,))
    definite = msgspec.structs.replace(options, jobs=most_jobs(options.jobs, options.settings))
    return BuildOrder(plan=plan, tree=tree, workspace=workspace, pythons=pythons, options=definite)


def read_plan(path: Path) -> Plan:
    if not path.is_file():
        remedy = "'rekindle plan --build --json > plan.json', then --plan plan.json"
        raise BadInput(f"there is no plan at {path}", remedy=remedy)
    return load(path, Plan)


def find_tree(options: BuildOptions, workspace: Workspace, plan: Plan) -> SourceTree:
    """The tree that is meant: the one given, or the workspace's for this plan."""
    if isinstance(options.source, SourceTree):
        return options.source
    root = (options.source or _fetched_tree(workspace.source, plan)).absolute()
    if not root.is_dir():
        raise BadInput(f"there is no source tree at {root}", remedy="'rekindle source fetch', or give --source DIR")
    for place in (root / TREE_FILE, root.with_name(f"{root.name}.json"), workspace.source / TREE_FILE):
        if place.is_file():
            tree = load(place, SourceTree)
            if Path(tree.root).absolute() == root:
                return tree
    return SourceTree(project=options.project or project_of(root), version=version_of(root), root=str(root))


def _fetched_tree(sources: Path, plan: Plan) -> Path:
    """The tree of the plan's project in the workspace: as ``source fetch`` and ``up`` name it, or the only one."""
    release = (plan.torch or "").split("+")[0]
    named = [sources / plan.project, sources / f"{plan.project}-{release}"]
    if meant := next(filter(Path.is_dir, named), None):
        return meant
    trees = list(filter(Path.is_dir, sorted(sources.glob(f"{plan.project}-[0-9]*"))))
    if len(trees) > 1:
        message = f"{sources} holds {', '.join(path.name for path in trees)}, none of them torch {release}"
        raise BadInput(message, remedy="name one with --source, or 'rekindle source fetch'")
    return trees[0] if trees else named[-1 if release else 0]


def project_of(root: Path) -> str:
    """Whose sources a folder holds: torch, a companion, spark, or an extension by its own name."""
    for project in ("torchvision", "torchaudio", "torch", "spark"):
        # torchaudio moved its package into src/ with 2.1.
        if any((root / folder / project / "__init__.py").is_file() for folder in (".", "src")):
            return project
    if (extension := find_extension(root)) is not None:
        return extension.name
    known = "torch, torchvision, torchaudio or spark"
    remedy = "give the root of a tree whose setup.py uses torch.utils.cpp_extension or whose CMake finds Torch"
    raise BadInput(f"{root} is no tree of {known}, and nothing in it compiles against torch", remedy=remedy)


def version_of(root: Path) -> str:
    """What the tree says of its version; 0 where it says nothing."""
    with contextlib.suppress(OSError):
        return (root / "version.txt").read_text(encoding="utf-8").strip()[:80] or "0"
    extension = find_extension(root)
    return extension.version if extension is not None else "0"


def check_inputs(plan: Plan, tree: SourceTree, workspace: Workspace) -> FrontEnd:
    """The front end of a tree that fits the plan and may be written to."""
    if plan.answer != "build" or plan.build is None:
        remedy = "'rekindle plan --build' insists on a source build"
        raise BadInput(f"the plan's answer is '{plan.answer}', so there is nothing to build", remedy=remedy)
    if plan.project != tree.project:
        remedy = "give the plan's own tree with --source DIR, or the tree's own plan with --plan FILE"
        raise BadInput(f"the plan is for {plan.project}, but {tree.root} is a tree of {tree.project}", remedy=remedy)
    release = plan.torch if plan.project == "torch" else None
    if release and tree.version and not same_release(release, tree.version):
        remedy = f"'rekindle source fetch' brings the tree of {release}"
        raise BadInput(f"the plan is for torch {release}, but {tree.root} is {tree.version}", remedy=remedy)
    root = Path(tree.root)
    if not root.is_dir():
        raise BadInput(f"there is no source tree at {root}")
    front = find_front_end(root)
    if plan.build.env.get("USE_NINJA") == "0":
        front = dataclasses.replace(front, serial=False)
    ours, theirs = (workspace.wheels, workspace.logs), (root, front.build_tree)
    # Their setup.py writes its version beside the sources; a folder "build" that is there already proves nothing.
    for folder in (*ours, *theirs):
        remedy = "copy the tree to a place of your own and give that with --source DIR"
        if folder in ours:
            remedy = "give a writable place with --workspace DIR"
        with tell_os_errors(f"cannot write to {folder}", remedy=remedy):
            folder.mkdir(parents=True, exist_ok=True)
        if not os.access(folder, os.W_OK):
            # In the words a failed write would have used.
            read_only = hasattr(os, "statvfs") and bool(os.statvfs(folder).f_flag & os.ST_RDONLY)
            words = os.strerror(errno.EROFS if read_only else errno.EACCES)
            raise BadInput(f"cannot write to {folder}: {words}", remedy=remedy)
    refuse_future(root)
    return front


def same_release(left: str, right: str) -> bool:
    """Major and minor decide: version.txt of the tag v1.13.1 really says 1.13.0a0."""
    try:
        return Version(left).release[:2] == Version(right).release[:2]
    except InvalidVersion:
        return left == right


def check_names(plan: Plan) -> None:
    """Refuse variables that no build knows, and pins that are more than a package and its versions."""
    for name in plan.build.env if plan.build else ():
        if not is_among(name, NAMES.environment):
            remedy = "take it out of the plan; what a build knows stands in docs/security.md"
            raise BadInput(f"the plan sets {name}, which is no setting of a build", remedy=remedy)
    for name, pin in plan.build.pins.items() if plan.build else ():
        pin_requirement(name, pin)


def admit(
    plan: Plan,
    *,
    machine: Callable[[], Machine],
    trust: bool = False,
    document: msgspec.Struct | None = None,
    kind: str = "plan",
    signed: str = "",
    python: str | None = None,
) -> None:
    """Pass, or :class:`~rekindle.errors.Untrusted` with what the plan would do: the only way to the engine.
    ``document`` is what was made here or not where that is more than the plan (a matrix's cell); ``python`` an
    interpreter that the document names; ``machine`` is asked only where there is something to tell."""
    check_names(plan)
    if trust or was_made_here(plan if document is None else document):
        return
    why = f"the {kind} was not made here, and it decides what runs, is fetched and set"
    remedy = "look at what it would do, then give --trust; or make it anew with 'rekindle plan --build'"
    raise Untrusted(why, account_of(plan, machine(), python=python, signed=signed), remedy=remedy)


def admit_to_be_checked(plan: Plan, machine: Machine) -> None:
    """Pass for a look at the machine's compilers, which runs them: every program the plan names must be known here."""
    check_names(plan)
    if not was_made_here(plan) and (unknown := account_of(plan, machine).unknown):
        why = f"the plan was not made here and names what is not on this machine ({unknown[0]}); it is not run"
        raise BadInput(why, remedy="make the plan here with 'rekindle plan --build', or take that setting out of it")


def names_places(plan: Plan) -> bool:
    """Whether the plan names programs or places, other than compilers by their plain names (``gcc-12``): where they
    come from a machine's file or a matrix's table, they are its maker's."""
    strange = account_of(plan, Machine(os=Os(system="linux"))).unknown
    return not all(_PLAIN_COMPILER.fullmatch(line.partition("=")[2]) for line in strange)


def account_of(plan: Plan, machine: Machine, *, python: str | None = None, signed: str = "") -> ForeignPlan:
    """What the plan would run, fetch and set, and which places of it the doctor did not find on this machine."""
    recipe = plan.build
    settings = {**recipe.env, **recipe.cmake} if recipe else {}
    installed = [each.path for each in machine.toolkits] + [each.path for each in machine.compilers]
    paths = [Path(path) for path in (*installed, *(each.path for each in machine.pythons)) if path]
    programs = [f"{name}={value}" for name, value in settings.items() if is_among(name, NAMES.programs)]
    flags = [f"{name}={value}" for name, value in settings.items() if is_among(name, NAMES.flags)]
    pins = [pin_requirement(name, pin) for name, pin in (recipe.pins.items() if recipe else ())]
    places = ((name, match[1]) for name, value in settings.items() for match in _PATH.finditer(value))
    strange = [f"{name}={place}" for name, place in places if not _lies_in(place, paths)]
    names = {path.name for path in paths} | {name for each in machine.compilers for name in _versioned_names(each)}
    strange += [line for line in programs if not _is_program(line.partition("=")[2], paths, names)]
    strange += [line for line in flags if not all(map(_PLAIN_FLAG.fullmatch, line.partition("=")[2].split()))]
    if python and not re.fullmatch(r"\d+(\.\d+)*", python):
        programs.append(f"python={python}")
        strange += [] if _lies_in(python, paths) else [f"python={python}"]
    return ForeignPlan(
        title=" ".join(word for word in (plan.project, plan.torch, plan.variant) if word),
        signed=signed,
        runs=tuple(programs + flags),
        fetches=tuple([*([recipe.source] if recipe else []), *pins]),
        sets=tuple(f"{name}={value}" for name, value in sorted(settings.items())),
        unknown=tuple(dict.fromkeys(strange)),
    )


def _lies_in(place: str, folders: Iterable[Path]) -> bool:
    # By words, not by asking the disk: a link there may be the sender's.
    pure = PureWindowsPath(place) if re.match(r"[A-Za-z]:", place) else PurePosixPath(place)
    return ".." not in pure.parts and any(
        place == str(folder) or place.startswith((f"{folder}/", f"{folder}\\")) for folder in folders
    )


def _versioned_names(compiler: Compiler) -> Iterator[str]:
    """The names distributions give it beside the one it was found by: gcc 12.2.0 is gcc-12 too."""
    parts = compiler.version.split(".")
    if parts[0].isdigit():
        yield from (f"{compiler.kind}-{parts[0]}", f"{compiler.kind}-{'.'.join(parts[:2])}")


def _is_program(value: str, folders: Iterable[Path], names: Set[str]) -> bool:
    """Bare names of compilers the doctor found (``g++-12``), words for launchers we know, plain flags; nothing else."""
    same = {name.replace("clang++", "clang").replace("g++", "gcc") for name in names}

    def is_known(word: str) -> bool:
        if "/" in word or "\\" in word:
            return _lies_in(word, folders)
        plain = word.replace("clang++", "clang").replace("g++", "gcc")
        return word in names or plain in same or word in NAMES.words

    first, *others = re.split(r"[\s;]+", value.strip())
    return is_known(first) and all(is_known(word) or _PLAIN_FLAG.fullmatch(word) for word in others)
