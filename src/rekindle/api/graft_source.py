"""What a graft from sources needs, joined: the release's tree, headers, flags, generated files and a wrapped nvcc."""

import functools
import re
import sys
from collections.abc import Sequence
from pathlib import Path

from packaging.utils import parse_wheel_filename

from rekindle.api.source import source_fetch
from rekindle.compat.toolkit import compiler_span, newest_compiler, takes_compiler
from rekindle.errors import BadInput, MissingTool, StageFailed
from rekindle.facts import Facts, load_facts
from rekindle.formats.ranges import RangeFile, tls_context
from rekindle.formats.wheel import WheelZip, check_wheel
from rekindle.graft.compile import has_header, take_headers, take_include, wrap_nvcc
from rekindle.graft.engine import Tools
from rekindle.graft.nvidia import FlagSearch, Sources, find_packages, unit_name
from rekindle.host.asking import Asking
from rekindle.host.download import download
from rekindle.host.files import write_if_changed
from rekindle.host.process import run_long
from rekindle.host.protocol import Host
from rekindle.host.workspace import Workspace
from rekindle.inspect.published import find_wheels, pip_places
from rekindle.interpreters.environment import prepare_target
from rekindle.interpreters.search import ask_interpreter
from rekindle.model.graft import GraftOptions, GraftRecipe, HeaderPackage
from rekindle.model.progress import Progress
from rekindle.model.source import FetchOptions
from rekindle.source.tree import check_wanted, tree_version
from rekindle.toolkits.compilers import bring_compiler, build_compilers, cxx_compiler_of, list_compilers, read_banner

# The generator reads YAML; torch itself needs nothing else for it.
_GENERATOR_NEEDS = ("pyyaml", "typing-extensions")


def gather_sources(
    wheel: Path,
    options: GraftOptions,
    recipe: GraftRecipe,
    tools: Tools,
    *,
    host: Host,
    place: Workspace,
    launcher: str | None,
    progress: Progress,
) -> Sources:
    """Everything that the kernel files of a wheel are compiled with; torch's companions take torch's headers, too."""
    facts, headers = load_facts(), options.headers
    assert tools.nvcc is not None
    version = str(parse_wheel_filename(wheel.name)[1])
    work = place.root / "work" / wheel.name.removesuffix(".whl")
    tree = _tree(recipe.package, version, options.sources, place, progress)
    checked = check_wheel(wheel)
    search = FlagSearch()
    if recipe.package == "torch":
        torch, include = version, take_include(checked, work, progress)
        if (library := "torch/lib/libtorch_cpu.so") in checked.members:
            progress.stage("flags", "as the wheel itself tells them")
            checked.inflate(library, search)
    else:
        torch, include = _torch_include(checked, headers, place, progress)
    toolkit = Path(tools.nvcc).parent.parent
    includes = (include, toolkit / "include", *toolkit.glob("targets/*/include"), *headers)
    fetched = _headers(find_packages(torch, facts), includes, place, progress)
    return Sources(
        tree=tree,
        include=include,
        recipe=recipe,
        nvcc=wrap_nvcc(Path(tools.nvcc), work / f"nvcc-{tools.release}"),
        preprocessor=_preprocessor(host, tools.release, facts),
        headers=(*headers, *_standins(recipe, tree, work / "standins"), *fetched),
        generated=_generated(recipe, tree, work / "generated", host, place, progress),
        flags=(*search.flags, *(f"-D{define}" for define in options.defines)),
        launcher=launcher,
    )


def _preprocessor(host: Host, release: str, facts: Facts) -> str | None:
    """The host compiler that nvcc calls: CUDAHOSTCXX, else the usual one where this nvcc takes it, else the newest here
    that it takes. Only its preprocessor and its headers are used."""
    row = facts.toolkit(release)
    if (named := host.env.get("CUDAHOSTCXX")) or row is None or host.system != "linux":
        return named
    usual = host.run(["g++", "--version"], timeout=20.0) if host.which("g++") else None
    banner = read_banner(usual.out) if usual and usual.ok else None
    if banner and takes_compiler(row, *banner) is not False:
        return None
    gccs = [gcc for gcc in build_compilers(list_compilers(Asking(host)), host.system) if gcc.kind == "gcc"]
    for compiler in gccs:
        if compiler.path and takes_compiler(row, "gcc", compiler.version):
            return cxx_compiler_of(compiler.path)
    program = f"g++-{newest_compiler(row, 'gcc')}"
    raise MissingTool(
        f"nvcc of CUDA {release} takes {compiler_span(row, 'gcc') or 'no compiler that is known'}, and there is none",
        remedy=f"{bring_compiler(host, program)}   # or name one: CUDAHOSTCXX=…",
    )


def _torch_include(
    companion: WheelZip, headers: Sequence[Path], place: Workspace, progress: Progress
) -> tuple[str, Path]:
    """The torch that a companion's wheel requires, and its headers: in one of ``headers``, else out of its wheel."""
    text = companion.read(f"{companion.dist_info}/METADATA").decode("utf-8", "replace")
    required = re.search(r"^Requires-Dist: torch \(?==([\d.]+)\)?\s*$", text, re.MULTILINE)
    if required is None:
        raise BadInput(f"{companion.what} does not say for which torch it was compiled", remedy="take its PTX alone")
    version = required[1]
    include = next((folder for folder in headers if (folder / "ATen/ATen.h").is_file()), None)
    if include is not None:
        return version, include
    file = find_wheels(f"torch=={version}", pip_places(), python="3.12", platform="linux_x86_64")[0].file
    progress.stage("downloading", f"{file.name}, for its headers (--headers DIR names them elsewhere)")
    wheel = download(file.url, place.root / "official" / file.name, sha256=file.sha256, progress=progress)
    work = place.root / "work" / wheel.name.removesuffix(".whl")
    return version, take_include(check_wheel(wheel), work, progress)


def _tree(project: str, version: str, source: str | None, place: Workspace, progress: Progress) -> Path:
    """The release's tree: a folder, or fetched from where ``source`` says; without submodules, which are not needed."""
    release = version.split("+")[0]
    if source is not None and Path(source).is_dir():
        root = Path(source).absolute()
        check_wanted(root, tree_version(root)[1], release)
        return root
    target, home = place.source / f"{project}-{release}", place.root
    asked = FetchOptions(project=project, release=release, place=source, submodules=False, workspace=home)
    return Path(source_fetch(target, asked, progress=progress).root)


def _headers(
    packages: Sequence[HeaderPackage], have: tuple[Path, ...], place: Workspace, progress: Progress
) -> tuple[Path, ...]:
    """Include folders of the packages whose headers are nowhere here: only their headers are fetched."""
    folders: list[Path] = []
    for package in packages:
        if not package.always and has_header(have, package.header):
            continue
        progress.stage("headers", f"{package.name} {package.version}")
        opened = functools.partial(_open, f"{package.name}=={package.version}")
        folders += take_headers(package, opened, place.cache / "headers")
    return tuple(dict.fromkeys(folders))


def _standins(recipe: GraftRecipe, tree: Path, folder: Path) -> tuple[Path, ...]:
    """Headers of submodules that the tree lacks, with what its own kernel files need of them."""
    for name, text in recipe.standins.items():
        if not next(tree.glob(f"third_party/**/{name}"), None):
            folder.mkdir(parents=True, exist_ok=True)
            write_if_changed(folder / name, text.encode())
    return (folder,) if folder.is_dir() else ()


def _open(name: str) -> WheelZip:
    """A package of the index, read by ranges. Headers are the same on every platform; one of them is pinned."""
    places = pip_places()
    file = find_wheels(name, places, python="3.12", platform="linux_x86_64")[0].file
    return WheelZip(RangeFile(file.url, context=tls_context(places.certificates)).stream, file.name)


def _generated(
    recipe: GraftRecipe, tree: Path, folder: Path, host: Host, place: Workspace, progress: Progress
) -> Path | None:
    """The kernel files that the release's own generator writes, once."""
    if not recipe.generated:
        return None
    units = {unit_name(path) for path in folder.rglob("*.cu")}
    if set(recipe.generated) <= units:
        return folder
    progress.stage("generate", "kernel files that the release writes itself")
    folder.mkdir(parents=True, exist_ok=True)
    argv = [
        _generator_python(host, place), "-m", "torchgen.gen", "--source-path", str(tree / "aten/src/ATen"),
        "--install_dir", str(folder), "--per-operator-headers", "--generate", "sources", "--backend_whitelist", "CUDA",
        *(str(folder / word) if not word.startswith("-") else word for word in recipe.generator),
    ]  # fmt: skip
    output: list[str] = []
    code = run_long(argv, cwd=tree, env={**host.env, "PYTHONPATH": str(tree)}, on_line=output.append)
    if code or not set(recipe.generated) <= {unit_name(path) for path in folder.rglob("*.cu")}:
        last = [line for line in output if line.strip()][-1:] or ["it said nothing"]
        raise StageFailed(f"the generator of the tree failed: {last[0]}", remedy=f"is {tree} a whole source tree?")
    return folder


def _generator_python(host: Host, place: Workspace) -> str:
    """A Python with what the generator needs: ours where it has it, else an environment of its own."""
    if host.run([sys.executable, "-c", "import yaml, typing_extensions"], timeout=30.0).ok:
        return sys.executable
    interpreter = ask_interpreter(host, sys.executable)
    folder = place.root / "python" / "torchgen"
    return prepare_target(host, interpreter, folder, _GENERATOR_NEEDS, lambda _: None).python
