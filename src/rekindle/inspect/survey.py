"""The whole reading of one target: every native file once, two at a time, then the sums. Inflating, hashing and file
writes release the interpreter lock, so two threads inflate a wheel faster than one thread merely inflating it."""

import hmac
import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from threading import Thread
from typing import Any, Literal

from msgspec import UNSET

from rekindle.errors import BadInput, has_package
from rekindle.formats.linked import is_native
from rekindle.inspect.cpu import join_cpu
from rekindle.inspect.declared import Declared, find_arch_list, read_declared
from rekindle.inspect.gpu import find_data_files, survey_images
from rekindle.inspect.libraries import Library, join_links, link_findings, read_library
from rekindle.inspect.origin import describe_library, kernels_of, mark_vendors, reference_set
from rekindle.inspect.reader import Source, WheelSource
from rekindle.model.document import shared_fields
from rekindle.model.progress import Progress
from rekindle.model.wheel import WheelFinding, WheelGpu, WheelReport

WORKERS = 2
MOST_NAMED = 5
# Where torch keeps the answer of torch.cuda.get_arch_list().
_ARCH_LIST_HOLDER = re.compile(r"(?:^|/)(?:lib)?torch_python\.(?:so|dll)$")


def inspect_source(source: Source, *, quick: bool = False, cpu: bool = True, progress: Progress) -> WheelReport:
    """Read a target: all of it, or with ``quick`` what costs little; ``cpu`` audits the code."""
    declared = read_declared(source)
    natives = sorted((name for name in source.files if is_native(name)), key=lambda name: -source.files[name])
    if source.kind == "library":
        natives = list(source.files)
    findings: list[WheelFinding] = []
    read: list[Library | WheelFinding | None] = []
    if cpu and not quick and not has_package("numpy"):
        cpu = False
        text = "the CPU code was not read: that needs NumPy, which is not installed (pip install numpy)"
        findings.append(WheelFinding(code="cpu-not-read", text=text))
    if quick:
        _find_declared_list(source, declared, natives)
    else:
        read = _read_all(source, natives, declared, progress, cpu=cpu)
        findings += [result for result in read if isinstance(result, WheelFinding)]
        if wheel := _on_disk(source):
            progress.stage("checking", "RECORD")
            findings += check_record(wheel)
    libraries = sorted((result for result in read if isinstance(result, Library)), key=lambda library: library.file)
    surveys = [library.gpu for library in libraries if library.gpu.has_code]
    surveys += [] if quick else survey_images(source)
    mark_vendors(surveys)
    reference = reference_set(surveys, declared.targets)
    machines = sorted({library.machine for library in libraries})
    platform = declared.claims.get("platform")
    links = join_links(libraries, declared.requires, platform)
    own_kernels = kernels_of(surveys, reference, {"own"})
    is_torch = declared.name == "torch" or any("libtorch" in survey.file for survey in surveys)
    return WheelReport(
        **shared_fields(declared, WheelReport),
        bytes=source.size,
        target=source.label,
        kind=source.kind,
        quick=quick,
        gpu=WheelGpu(
            declared=tuple(target.name for target in declared.targets),
            own_kernels=own_kernels,
            torch_kernels=own_kernels if is_torch else UNSET,
            static_libraries=kernels_of(surveys, reference, {"static"}),
            libraries=tuple(describe_library(survey, reference) for survey in surveys),
            data_files=find_data_files(source.files),
        ),
        cpu=join_cpu([library.cpu for library in libraries if library.cpu], machines),
        links=links,
        findings=(*findings, *link_findings(links, platform)),
        read_bytes=source.fetched() if isinstance(source, WheelSource) and source.fetched else None,
    )


def _on_disk(source: Source) -> WheelSource | None:
    """A wheel of which every byte may be read; what comes by ranges is not fetched only to be summed."""
    return source if isinstance(source, WheelSource) and source.fetched is None else None


def _find_declared_list(source: Source, declared: Declared, natives: Sequence[str]) -> None:
    holder = next((name for name in natives if _ARCH_LIST_HOLDER.search(name)), None)
    if holder is not None and (declared.cuda or declared.rocm):
        if isinstance(source, WheelSource) and has_package("numpy") and (stored := source.deflated(holder)):
            from rekindle.inspect.seek_list import find_list

            if targets := find_list(*stored):
                declared.targets = targets
                return
        with source.mapped(holder) as data:
            declared.targets = find_arch_list(data)


def _read_all(
    source: Source, natives: Sequence[str], declared: Declared, progress: Progress, *, cpu: bool
) -> list[Library | WheelFinding | None]:
    # RECORD has a digest for every file; those that nobody reads are summed beside the libraries.
    wheel = _on_disk(source)
    others = sorted(source.files.keys() - set(natives)) if wheel else []
    total = sum(source.files[name] for name in natives)
    progress.stage("reading", f"{len(natives)} native files, {total / 1e6:.0f} MB")
    done = 0

    def read(name: str) -> Library | WheelFinding | None:
        try:
            with source.mapped(name) as data:
                if _ARCH_LIST_HOLDER.search(name):
                    declared.targets = find_arch_list(data)
                return read_library(data, name, cpu=cpu, step=partial(_tell_step, progress, name))
        except BadInput as error:
            if source.kind == "library":
                raise
            return WheelFinding(code="unreadable-library", text=error.message, severity="error")

    results = []
    beside = partial(wheel.add_digests, others) if wheel else None
    for name, result in zip(natives, _read_in_order(read, natives, beside), strict=True):
        done += source.files[name]
        progress.step(done, total or None, name)
        results.append(result)
    if source.kind == "library" and not any(results):
        raise BadInput(f"{source.label} is neither a wheel nor a native library")
    return results


def _read_in_order(
    read: Callable[[str], Library | WheelFinding | None], names: Sequence[str], beside: Callable[[], None] | None
) -> Iterator[Library | WheelFinding | None]:
    """What each file gives, in order, while ``beside`` runs too. For one file threads cost more than they bring. The
    threads are daemons: an interrupt ends the reading at once, not after the libraries that are being read."""
    if len(names) < 2 and beside is None:
        yield from map(read, names)
        return
    from concurrent.futures import Future

    jobs: list[Callable[[], Any]] = [partial(read, name) for name in names] + ([beside] if beside else [])
    results: list[Future[Any]] = [Future() for _ in jobs]
    numbers = iter(range(len(jobs)))

    def work() -> None:
        for number in numbers:
            try:
                results[number].set_result(jobs[number]())
            except BaseException as error:  # noqa: BLE001 (handed on to who waits for it)
                results[number].set_exception(error)

    for _ in range(WORKERS):
        Thread(target=work, daemon=True).start()
    try:
        yield from (result.result() for result in results[: len(names)])
        for result in results[len(names) :]:
            result.result()
    finally:
        for _ in numbers:
            pass  # nothing more is begun


def _tell_step(progress: Progress, name: str, done: int, total: int) -> None:
    if total > (8 << 20):
        progress.step(done, total, f"auditing {name}")


def check_record(source: WheelSource) -> list[WheelFinding]:
    """RECORD against fact: what was not inflated yet is; the first few files of each kind of fault are named."""
    if (record := source.zip.record) is None:
        text = "the wheel has no RECORD, so nothing can be checked"
        return [WheelFinding(code="no-record", text=text, severity="error")]
    source.add_digests(name for name in source.files if name not in source.digests)
    wrong, unlisted, unverified = [], [], []
    for name in (name for name in source.files if name not in source.zip.unlisted):
        row = record.get(name)
        if row is None:
            unlisted.append(name)
        elif row.algorithm != "sha256" or row.digest is None:
            unverified.append(name)
        elif not hmac.compare_digest(source.digests[name], row.digest.hex()):
            wrong.append(name)
    missing = [name for name in record if name not in source.files]
    faults: tuple[tuple[str, Literal["error", "warning", "note"], list[str], str], ...] = (
        ("wrong", "error", wrong, "differ from RECORD"),
        ("missing", "error", missing, "are in RECORD but not in the wheel"),
        ("unlisted", "warning", unlisted, "are not in RECORD"),
        ("unverified", "note", unverified, "have no SHA-256 in RECORD"),
    )
    out = []
    for kind, severity, names, what in faults:
        if names:
            shown = ", ".join(names[:MOST_NAMED]) + (" …" if len(names) > MOST_NAMED else "")
            text = f"{len(names)} files {what}: {shown}"
            out.append(WheelFinding(code=f"record-{kind}", severity=severity, text=text))
    return out
