"""Two wheels side by side: what one has that the other has not."""

from collections.abc import Callable, Iterable, Sequence

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from rekindle.model.wheel import Difference, WheelDiff, WheelReport


def compare(before: WheelReport, after: WheelReport) -> WheelDiff:
    """Only what differs, axis by axis."""
    rows: list[Difference] = []

    def scalar(what: str, get: Callable[[WheelReport], object]) -> None:
        old, new = get(before), get(after)
        if old != new:
            was, now = (None if value is None else str(value) for value in (old, new))
            rows.append(Difference(what=what, before=was, after=now))

    def changed(what: str, old: Sequence[str], new: Sequence[str]) -> None:
        gone, come = tuple(item for item in old if item not in new), tuple(item for item in new if item not in old)
        if gone or come:
            rows.append(Difference(what=what, gone=gone, come=come))

    def listed(what: str, get: Callable[[WheelReport], Iterable[str]]) -> None:
        changed(what, list(get(before)), list(get(after)))

    # First what decides where it runs, then what it asks for, then the rest.
    listed("own kernels", lambda r: (*r.gpu.kernels.sass, *r.gpu.kernels.ptx, *r.gpu.kernels.gfx))
    listed("some own kernels", lambda r: r.gpu.kernels.partial)
    listed("declared architectures", lambda r: r.gpu.declared)
    scalar("CUDA", lambda r: r.cuda)
    scalar("ROCm", lambda r: r.rocm)
    scalar("CPU needed", lambda r: r.cpu.runs_from)
    listed("CPU, unguarded", lambda r: (f"{e.function} [{' '.join(e.isa)}]" for e in r.cpu.evidence))
    scalar("glibc", lambda r: r.links.glibc)
    scalar("GLIBCXX", lambda r: r.links.glibcxx)
    scalar("C++ ABI", lambda r: r.links.cxx_abi)
    scalar("Python", lambda r: r.requires_python)
    listed("requirements", lambda r: map(_normalise, r.requires))
    listed("libraries from elsewhere", lambda r: r.links.external)
    listed("libraries brought along", lambda r: r.links.bundled)
    listed("static libraries", lambda r: (*r.gpu.static_libraries.sass, *r.gpu.static_libraries.ptx))
    listed("libraries with GPU code", lambda r: (library.file for library in r.gpu.libraries))
    files = {library.file: library for library in before.gpu.libraries}
    for new in after.gpu.libraries:
        if old := files.get(new.file):
            name = new.file.rpartition("/")[2]
            changed(f"{name} architectures", [*old.sass, *old.ptx, *old.gfx], [*new.sass, *new.ptx, *new.gfx])
    data_of = [{data.library: data.gfx for data in report.gpu.data_files} for report in (before, after)]
    for name in sorted(data_of[0] | data_of[1]):
        changed(f"{name} files", data_of[0].get(name, ()), data_of[1].get(name, ()))
    listed("tags", lambda r: r.tags)
    scalar("version", lambda r: r.version)
    scalar("size", lambda r: f"{r.bytes / 1e6:.1f} MB")
    return WheelDiff(before=before.target or "", after=after.target or "", differences=tuple(rows))


def _normalise(requirement: str) -> str:
    """One spelling for what means the same: ``Typing_Extensions (>=4)`` and ``typing-extensions>=4``."""
    try:
        read = Requirement(requirement)
    except InvalidRequirement:
        return requirement
    read.name = canonicalize_name(read.name)
    return str(read)
