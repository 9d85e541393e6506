"""``facts`` joined: the tables, and measuring them again from wheels and compilers that can be had."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from rekindle.facts import Facts
    from rekindle.formats.simple_index import IndexFile, IndexWheel
    from rekindle.inspect.published import Places
    from rekindle.model.facts import Compared, FactsCheck, FactsFormat, Platform, SourcesView, TableView
    from rekindle.model.progress import Progress

_ARCH_LIST = re.compile(rb"(?:sm_\d+[af]? )+sm_\d+[af]?|(?:sm_\d+[af]? )+compute_\d+[af]?")
_PTXAS_SM = re.compile(r"'(sm_\d+[af]?)'")
_NVCC = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc-cu11")
_CUDNN = ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu11")
PAGE_SECONDS = 20.0


def facts_show(table: str | None = None, row: str | None = None) -> TableView:
    """The tables; one table's rows; one row with its sources.

    >>> facts_show("cuda").table
    'cuda'
    >>> "sm_120" in facts_show("cuda", "12.8").rows["12.8"]["sass"]
    True
    """
    from rekindle.facts import load_facts
    from rekindle.facts.browse import show

    return show(load_facts(), table, row)


def facts_sources() -> SourcesView:
    """Where the facts come from, most used first.

    >>> all(each.rows > 0 for each in facts_sources().sources)
    True
    """
    from rekindle.facts import load_facts
    from rekindle.facts.browse import sources

    return sources(load_facts())


def facts_format(files: Sequence[Path] = (), *, write: bool = True) -> FactsFormat:
    """Bring facts files into their canonical form; without names all tables of this installation.

    >>> facts_format(write=False).changed
    ()
    """
    import tomllib

    from rekindle.errors import BadInput
    from rekindle.facts.canonical import reformat
    from rekindle.facts.load import HERE, MAX_FILE_BYTES
    from rekindle.host.files import write_for_user
    from rekindle.model.document import read_bounded
    from rekindle.model.facts import FactsFormat

    chosen = tuple(files) or tuple(sorted(HERE.glob("*.toml")))
    changed = []
    for path in chosen:
        raw = read_bounded(path, MAX_FILE_BYTES, "facts file")
        try:
            text = raw.decode("utf-8").replace("\r\n", "\n")
            wanted = reformat(text)
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise BadInput(f"{path} is not valid TOML: {error}") from error
        except ValueError as error:
            raise BadInput(f"{path}: {error}") from error
        if wanted.encode() != raw:
            changed.append(path.name)
            if write:
                write_for_user(path, wanted)
    return FactsFormat(files=tuple(path.name for path in chosen), changed=tuple(changed), written=write)


def facts_check(
    *,
    torch: Sequence[str] = (),
    cuda: Sequence[str] = (),
    beside: Sequence[str] = (),
    images: Sequence[str] = (),
    progress: Progress | None = None,
) -> FactsCheck:
    """Measure again. Without names: the index pages, the newest torch wheel and the newest ptxas.

    ``beside`` names companions whose newest wheel is read: its torch, and the GPU code inside. ``images`` names
    container images (``all``: those that exports pin) whose registry is asked for their digest, and nothing else.
    """
    from rekindle.api.inspect import pip_places
    from rekindle.facts import drift, load_facts
    from rekindle.model.progress import Silent

    facts, places, listener = load_facts(), pip_places(), progress or Silent()
    rows: list[Compared] = []
    if images:
        chosen = facts.images.digest if "all" in images else images
        return drift.summary([_image_row(facts, name, listener) for name in chosen])
    listener.stage("index", "torch")
    wheels = _wheels("torch", places)
    rows += drift.releases(facts, _stable(wheels))
    rows += _pythons(facts, wheels)
    for package in ("torchvision", "torchaudio"):
        listener.stage("index", package)
        rows += drift.companions(facts, package, _pythons_found(_wheels(package, places)))
    listener.stage("index", f"{len(facts.beside.package)} companions")
    # Many small pages: side by side, so that one slow answer is not waited for as often as there are companions.
    with ThreadPoolExecutor(8) as pool:
        for package, files in zip(
            facts.beside.package, pool.map(lambda name: _files_of(name, places), facts.beside.package), strict=True
        ):
            rows.append(drift.newest(facts, package, _stable(files)))
    for name in beside:
        rows += _beside_rows(facts, name, places, listener)
    for version in torch or facts.releases[:1]:
        listener.stage("wheel", f"torch {version}")
        rows += _wheel_rows(facts, version, places, listener)
    listener.stage("index", "CUDA compilers and cuDNN")
    compilers = {name: _wheels(name, places) for name in _NVCC}
    rows += drift.toolkits(facts, [v for found in compilers.values() for v in _stable(found)])
    for toolkit in cuda or facts.toolkits[:1]:
        listener.stage("ptxas", f"CUDA {toolkit}")
        rows.append(_ptxas(facts, toolkit, compilers, places, listener))
    rows += drift.cudnns(facts, {name: found[0] for name in _CUDNN if (found := _stable(_wheels(name, places)))})
    return drift.summary(rows)


def _image_row(facts: Facts, image: str, listener: Progress) -> Compared:
    from rekindle.errors import StageFailed
    from rekindle.facts import drift
    from rekindle.host.image_registry import ask_digest, read_reference
    from rekindle.model.facts import Compared

    listener.stage("registry", read_reference(image).host)
    try:
        return drift.image(facts, image, ask_digest(image))
    except StageFailed as error:
        return Compared(what=f"image {image}", outcome="skipped", note=error.message)


def _project_files(project: str, places: Places) -> list[IndexFile]:
    """What every index that answers lists for a project."""
    from rekindle.errors import BadInput
    from rekindle.formats.ranges import read_page, tls_context
    from rekindle.formats.simple_index import ACCEPT, read_project_page

    context = tls_context(places.certificates)
    files: list[IndexFile] = []
    for index in places.indexes:
        url = f"{index.rstrip('/')}/{project}/"
        try:
            files += read_project_page(read_page(url, accept=ACCEPT, context=context, timeout=PAGE_SECONDS), url)
        except BadInput:
            continue
    return files


def _wheels(project: str, places: Places) -> list[IndexWheel]:
    """Every wheel of a project on every index that answers."""
    from rekindle.formats.simple_index import wheels_of

    return wheels_of(_project_files(project, places), project)


def _files_of(project: str, places: Places) -> list[IndexWheel]:
    """Wheels and sdists alike: a companion may have only the latter. Tags are those of wheels."""
    from rekindle.formats.simple_index import sdists_of, wheels_of

    files = _project_files(project, places)
    return [*wheels_of(files, project), *sdists_of(files, project)]


def _beside_rows(facts: Facts, name: str, places: Places, progress: Progress) -> Iterator[Compared]:
    """A companion's newest wheel on PyPI (or ``name==version``), read: its torch, the code inside, its C++ ABI."""
    from fnmatch import fnmatchcase

    from rekindle.api.inspect import inspect
    from rekindle.compat.companions import find_package, near_packages
    from rekindle.errors import BadInput
    from rekindle.facts import drift
    from rekindle.inspect.published import find_wheels, open_wheel
    from rekindle.model.facts import Compared

    plain, _, version = name.partition("==")
    package = find_package(plain, facts)
    if package is None:
        near = near_packages(plain, facts)
        raise BadInput(
            f"nothing is known here about {plain}",
            remedy=f"did you mean {near[0]}?" if near else "rekindle facts show beside lists them",
        )
    wheels = [row for row in facts.beside.wheel if row.package == package and row.place is None]
    if version and not any(row.version == version for row in wheels):
        known = ", ".join(dict.fromkeys(row.version for row in wheels)) or "none"
        raise BadInput(f"the tables have no wheel {package} {version} of PyPI; there are {known}")
    for row in [row for row in wheels if row.version == version] if version else wheels[:1]:
        platform = "linux_x86_64" if "linux_x86_64" in row.pythons else next(iter(row.pythons))
        python = next((one for one in reversed(row.pythons[platform]) if one != "any"), "3.12")
        what = f"{row.name or package}=={row.version}"
        tag = {"windows": "win_amd64"}.get(platform, platform)
        progress.stage("wheel", what)
        try:
            wheel = find_wheels(what, places, python=python, platform=tag)[0]
            headers = open_wheel(wheel, places, progress=progress).zip.headers("METADATA")
            yield drift.torch_pin(row, [value for field, value in headers if field == "Requires-Dist"])
            if row.targets or row.abi:
                report = inspect(what, cpu=False, python=python, platform=tag, progress=progress)
                deciding = [one for one in report.gpu.libraries if fnmatchcase(one.file, row.code_in or "*")]
                if row.targets:
                    found = {name for one in deciding for name in (*one.sass, *one.ptx)}
                    yield drift.code(row, platform, found)
                if row.abi or report.links.cxx_abi:
                    yield drift.abi(row, report.links.cxx_abi)
        except BadInput as error:
            yield Compared(what=what, outcome="skipped", note=error.message)


def _stable(wheels: Sequence[IndexWheel]) -> list[str]:
    """Versions, newest first, without pre-releases and local builds."""
    seen = dict.fromkeys(str(w.version) for w in wheels if not w.version.is_prerelease and not w.version.local)
    return list(seen)


def _platform(tag: str) -> Platform | None:
    if "linux" in tag:
        return "linux_x86_64" if tag.endswith("x86_64") else "linux_aarch64" if tag.endswith("aarch64") else None
    if tag == "win_amd64":
        return "windows"
    if tag.startswith("macosx"):
        return "macos_arm64" if tag.endswith("arm64") else "macos_x86_64"
    return None


def _pythons(facts: Facts, wheels: Sequence[IndexWheel]) -> Iterator[Compared]:
    from rekindle.facts import drift

    for (version, platform), versions in sorted(_pythons_found(wheels).items()):
        row = drift.pythons(facts, version, platform, versions)
        if row is not None:
            yield row


def _pythons_found(wheels: Sequence[IndexWheel]) -> dict[tuple[str, Platform], set[str]]:
    """The Pythons each version has wheels for, by platform; ``any`` for a wheel of every Python."""
    found: dict[tuple[str, Platform], set[str]] = {}
    for wheel in wheels:
        for tag in wheel.tags:
            platform = _platform(tag.platform)
            match = re.fullmatch(r"cp(\d)(\d+)|py3", tag.interpreter)
            if platform is None or match is None or wheel.version.local:
                continue
            plain = f"{match[1]}.{match[2]}" if match[1] else "any"
            python = plain + ("t" if re.fullmatch(r"cp3\d+t", tag.abi) else "")
            found.setdefault((str(wheel.version), platform), set()).add(python)
    return found


def _wheel_rows(facts: Facts, version: str, places: Places, progress: Progress) -> Iterator[Compared]:
    from rekindle.errors import BadInput
    from rekindle.facts import drift
    from rekindle.inspect.published import find_wheels, open_wheel
    from rekindle.model.facts import Compared

    row = facts.release(version)
    if row is None:
        raise BadInput(f"no torch {version} is in the tables", remedy="rekindle facts show torch lists them")
    for platform, flavour in row.pypi.items():
        if not flavour.startswith("cu"):
            continue
        python = next((p for p in reversed(row.pythons[platform]) if not p.endswith("t")), "3.11")
        tag = "linux_x86_64" if platform == "linux_x86_64" else "linux_aarch64"
        try:
            wheel = find_wheels(f"torch=={version}", places, python=python, platform=tag)[0]
            zipped = open_wheel(wheel, places, progress=progress).zip
            text = bytearray()
            zipped.inflate("torch/lib/libtorch_python.so", text.extend)
            headers = dict(zipped.headers("METADATA"))
        except BadInput as error:
            yield Compared(what=f"torch {version} {platform}", outcome="skipped", note=error.message)
            continue
        lists = {match.decode() for match in _ARCH_LIST.findall(bytes(text))}
        longest = max(lists, key=len, default="")
        if longest:
            yield drift.architectures(facts, version, platform, longest.split())
        else:
            yield Compared(what=f"torch {version} {platform}", outcome="skipped", note="the library stores no list")
        found = drift.metadata(facts, version, headers.get("Requires-Python"))
        if found is not None:
            yield found


def _ptxas(
    facts: Facts, toolkit: str, compilers: dict[str, list[IndexWheel]], places: Places, progress: Progress
) -> Compared:
    """Take ptxas out of the published compiler wheel by ranges and ask it."""
    import platform as machine
    import tempfile
    from pathlib import Path

    from rekindle.errors import BadInput
    from rekindle.facts import drift
    from rekindle.host.live import LiveHost
    from rekindle.inspect.published import open_wheel
    from rekindle.model.facts import Compared
    from rekindle.model.version import minor

    what = f"CUDA {toolkit} targets (ptxas --help)"
    suffix = f"_{machine.machine()}"
    fitting = [
        wheel
        for found in compilers.values()
        for wheel in found
        if minor(str(wheel.version)) == minor(toolkit) and any(tag.platform.endswith(suffix) for tag in wheel.tags)
    ]
    if not fitting:
        return Compared(
            what=what, outcome="skipped", note=f"no published compiler for this machine ({machine.machine()})"
        )
    try:
        zipped = open_wheel(fitting[0], places, progress=progress).zip
        name = next((member for member in zipped.members if member.endswith("/bin/ptxas")), None)
        with tempfile.TemporaryDirectory() as folder:
            if name is None:
                return Compared(what=what, outcome="skipped", note="the wheel has no ptxas")
            program = Path(folder) / "ptxas"
            with program.open("wb") as file:
                zipped.inflate(name, file.write)
            program.chmod(0o700)
            done = LiveHost().run([str(program), "--help"], timeout=60)
    except BadInput as error:
        return Compared(what=what, outcome="skipped", note=error.message)
    names = _PTXAS_SM.findall(done.out)
    if not names:
        return Compared(what=what, outcome="skipped", note="ptxas did not run here")
    return drift.targets(facts, toolkit, names)
