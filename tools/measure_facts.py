"""The facts tables measured again, from wheels and compilers that can be had: index pages, torch wheels, ptxas.

``rekindle facts check`` runs this in a source tree, where the tables are edited; an installation does not carry it.
"""

from __future__ import annotations

import platform as machine
import re
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path

import facts_drift as drift
from image_registry import ask_digest, read_reference
from rekindle.compat.companions import find_package, near_packages
from rekindle.errors import BadInput, StageFailed
from rekindle.facts import Facts, load_facts
from rekindle.formats.simple_index import IndexWheel, sdists_of, wheels_of
from rekindle.host.live import LiveHost
from rekindle.inspect.declared import find_arch_list
from rekindle.inspect.published import Places, find_wheels, list_files, open_wheel, pip_places
from rekindle.inspect.survey import inspect_source
from rekindle.inspect.targets import open_target
from rekindle.model.facts import Compared, FactsCheck, Platform
from rekindle.model.progress import Progress
from rekindle.model.version import minor
from rekindle.model.wheel import WheelReport

_PTXAS_SM = re.compile(r"'(sm_\d+[af]?)'")
_NVCC = ("nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-nvcc-cu11")
_CUDNN = ("nvidia-cudnn-cu13", "nvidia-cudnn-cu12", "nvidia-cudnn-cu11")


def measure_facts(
    *, torch: Sequence[str], cuda: Sequence[str], companions: Sequence[str], images: Sequence[str], listener: Progress
) -> FactsCheck:
    """What the tables say against what is measured; see :func:`rekindle.api.facts_check`."""
    facts, places = load_facts(), pip_places()
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
    listener.stage("index", f"{len(facts.packages.package)} companions")
    # Many small pages: side by side, so that one slow answer is not waited for as often as there are companions.
    with ThreadPoolExecutor(8) as pool:
        for package, files in zip(
            facts.packages.package,
            pool.map(lambda name: _files_of(name, places), facts.packages.package),
            strict=True,
        ):
            rows.append(drift.newest(facts, package, _stable(files)))
    for name in companions:
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
    listener.stage("registry", read_reference(image).host)
    try:
        return drift.image(facts, image, ask_digest(image))
    except StageFailed as error:
        return Compared(what=f"image {image}", outcome="skipped", note=error.message)


def _wheels(project: str, places: Places) -> list[IndexWheel]:
    """Every wheel of a project on every index that answers."""
    return wheels_of(list_files(project, places)[0], project)


def _files_of(project: str, places: Places) -> list[IndexWheel]:
    """Wheels and sdists alike: a companion may have only the latter. Tags are those of wheels."""
    files = list_files(project, places)[0]
    return [*wheels_of(files, project), *sdists_of(files, project)]


def _beside_rows(facts: Facts, name: str, places: Places, progress: Progress) -> Iterator[Compared]:
    """A companion's newest wheel on PyPI (or ``name==version``), read: its torch, the code inside, its C++ ABI."""
    plain, _, version = name.partition("==")
    package = find_package(plain, facts)
    if package is None:
        near = near_packages(plain, facts)
        raise BadInput(
            f"nothing is known here about {plain}",
            remedy=f"did you mean {near[0]}?" if near else "rekindle facts show beside lists them",
        )
    wheels = [row for row in facts.packages.wheel if row.package == package and row.place is None]
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
                report = _read_published(what, python, tag, progress)
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
        if listed := find_arch_list(text):
            yield drift.architectures(facts, version, platform, [target.name for target in listed])
        else:
            yield Compared(what=f"torch {version} {platform}", outcome="skipped", note="the library stores no list")
        found = drift.metadata(facts, version, headers.get("Requires-Python"))
        if found is not None:
            yield found


def _ptxas(
    facts: Facts, toolkit: str, compilers: dict[str, list[IndexWheel]], places: Places, progress: Progress
) -> Compared:
    """Take ptxas out of the published compiler wheel by ranges and ask it."""
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


def _read_published(what: str, python: str, platform: str, progress: Progress) -> WheelReport:
    with open_target(what, progress=progress, python=python, platform=platform) as source:
        return inspect_source(source, quick=False, cpu=False, progress=progress)
