"""The fat wheel: brings libraries in, sets their search paths, renews RECORD, tells what it did. It lies beside its
final name until it is complete; libraries pass through temporary files, one at a time: memory is bounded."""

import itertools
import posixpath
import re
import shutil
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from rekindle.bundle import rules
from rekindle.bundle.collect import BroughtLibrary, Collection, collect, fold, read_native
from rekindle.bundle.dlls import Placement, place_dlls
from rekindle.bundle.trim import trim
from rekindle.errors import BadInput, StageFailed, tell_os_errors
from rekindle.formats.linked import Linked
from rekindle.formats.pe_rewrite import rename_imports
from rekindle.formats.rewrite import Rewriter, extract, file_chunks, tell_zip_errors
from rekindle.formats.wheel import check_wheel
from rekindle.host.files import sha256_of, sweep_left_behind
from rekindle.host.live import LiveHost
from rekindle.model.arch import Sm
from rekindle.model.build import Brought, BundleReport, PartSize, Trimmed
from rekindle.model.progress import Progress
from rekindle.model.spoken import spoken_bytes

_ORIGIN = ("$ORIGIN", "${ORIGIN}")
_HIP_NOTE = "AMD device code is left whole: bundles are found by offsets that only their maker may change"


def reaches(member: str, rpath: tuple[str, ...], where: str) -> bool:
    """Is ``where`` searched for ``member`` before any directory outside the wheel?"""
    own = itertools.takewhile(lambda entry: entry.startswith(_ORIGIN), rpath)
    return any(_resolve_entry(member, entry) == where for entry in own)


def new_path(member: str, rpath: tuple[str, ...], where: str) -> str:
    """The way to ``where`` first, then what was there inside the wheel; directories of the build machine go."""
    way = posixpath.relpath(where, posixpath.dirname(member) or ".")
    first = "$ORIGIN" if way == "." else f"$ORIGIN/{way}"
    others = [entry for entry in rpath if entry.startswith(_ORIGIN) and _resolve_entry(member, entry) != where]
    return ":".join(dict.fromkeys((first, *others)))


def _resolve_entry(member: str, entry: str) -> str:
    below = entry.removeprefix("${ORIGIN}").removeprefix("$ORIGIN").lstrip("/")
    return posixpath.normpath(posixpath.join(posixpath.dirname(member) or ".", below))


_NATIVE = re.compile(r"(\.so(\.\d+)*|\.pyd|\.dll)$", re.IGNORECASE)
_NAME = re.compile(r"(?P<head>[^-]+-[^-]+)(-(?P<build>\d[^-]*))?(?P<tags>-[^-]+-[^-]+-[^-]+)\.whl")


@dataclass(frozen=True, kw_only=True)
class BundleOrder:
    """``set_path`` changes a library's search path (patchelf); ``archs`` empty keeps all device code."""

    wheel: Path
    out: Path
    places: Sequence[Path]
    rules: rules.Rules
    set_path: Callable[[Path, str], None]
    archs: tuple[Sm, ...] = ()
    exclude: tuple[str, ...] = ()
    allow_missing: bool = False
    dry_run: bool = False


def make_fat(order: BundleOrder, progress: Progress) -> BundleReport:
    """Make the fat wheel, or with ``dry_run`` only tell what it would be."""
    doing = f"cannot bundle {order.wheel.name} into {order.out}"
    remedy = "nothing was written; make room or give a writable directory with --out"
    with tell_zip_errors(order.wheel), tell_os_errors(doing, remedy=remedy):
        check_wheel(order.wheel)
        with zipfile.ZipFile(order.wheel) as source:
            return _Bundling(order, source, progress).run()


class _Bundling:
    def __init__(self, order: BundleOrder, source: zipfile.ZipFile, progress: Progress) -> None:
        self.order, self.source, self.progress = order, source, progress
        name = _NAME.fullmatch(order.wheel.name)
        folders = {m.split("/")[0] for m in source.namelist() if m.split("/")[0].endswith(".dist-info")}
        if not name or len(folders) != 1:
            raise BadInput(f"{order.wheel.name} is no wheel", remedy="its name or its .dist-info is not as it must be")
        self.folder = folders.pop()
        self.tag = (name["build"] or "1") + "fat"
        self.target_name = f"{name['head']}-{self.tag}{name['tags']}.whl"
        self.trimmed: list[Trimmed] = []
        self.patched: list[str] = []

    def run(self) -> BundleReport:
        order = self.order
        order.out.mkdir(parents=True, exist_ok=True)
        sweep_left_behind(order.out, ".bundle-*")
        with tempfile.TemporaryDirectory(prefix=".bundle-", dir=order.out, ignore_cleanup_errors=True) as shop:
            self.shop = Path(shop)
            wheel_libs = self._read_libraries()
            self.progress.stage("find", "what the wheel lacks")
            requires = rules.required_packages(self.source.read(f"{self.folder}/METADATA"))
            collection = collect(wheel_libs, order.rules, order.places, exclude=order.exclude, requires=requires)
            if collection.missing and not order.allow_missing:
                first, count = next(iter(collection.missing.values())), len(collection.missing)
                text = f"{count} libraries are nowhere to be found, first {first.name} (needed by {first.needed_by})"
                remedy = "name their directory with --library-path DIR, or leave them out with --allow-missing"
                raise StageFailed(text, remedy=remedy)
            windows = next((lib.system for lib in wheel_libs.values()), "linux") == "windows"
            # name.libs beside the packages; on Linux package/lib if the wheel has one.
            folders = {posixpath.dirname(name) for name, lib in wheel_libs.items() if lib.system == "linux"}
            places = ("torch/lib", *sorted(name for name in folders if posixpath.basename(name) == "lib"))
            self.where = next((place for place in places if place in folders), f"{self.folder.split('-')[0]}.libs")
            names = {key: lib.name for key, lib in collection.brought.items()}
            self.placement = Placement(names=names, folders=dict.fromkeys(names, (self.where,)))
            if windows:
                version = self.folder.removesuffix(".dist-info").rpartition("-")[2]
                salt = ",".join(map(str, order.archs))
                self.placement = place_dlls(
                    wheel_libs, collection, order.rules, self.source, home=self.where, version=version, salt=salt
                )
            hip = any("libamdhip64" in need for lib in wheel_libs.values() for need in lib.wishes)
            report = BundleReport(
                wheel=str(order.wheel),
                system="windows" if windows else "linux",
                bytes_before=order.wheel.stat().st_size,
                left=tuple(collection.left.values()),
                missing=tuple(collection.missing.values()),
                notes=((_HIP_NOTE,) if hip and order.archs else ()) + self.placement.notes,
            )
            if order.dry_run:
                libs = collection.brought.values()
                rows = [row for lib in libs for row in self._brought_rows(lib, lib.path.stat().st_size)]
                return msgspec.structs.replace(report, brought=tuple(rows))
            self._refuse_small_disk(collection)
            return self._write(wheel_libs, collection, report)

    def _refuse_small_disk(self, collection: Collection) -> None:
        """The least it takes: the wheel once more, one library in passing. How well others compress shows later."""
        sizes = [lib.path.stat().st_size for lib in collection.brought.values()]
        sizes += [info.file_size for info in self.source.infolist() if _NATIVE.search(info.filename)]
        need = self.order.wheel.stat().st_size + max(sizes, default=0)
        disk = LiveHost().disk(str(self.order.out))
        if disk is not None and disk.free < need:
            text = f"bundle needs at least {spoken_bytes(need)} at {self.order.out}, and {spoken_bytes(disk.free)}"
            remedy = "nothing was written; make room there, or write to another disk with --out DIR"
            raise BadInput(f"{text} are free there", remedy=remedy)

    def _read_libraries(self) -> dict[str, Linked]:
        members = [name for name in self.source.namelist() if _NATIVE.search(name)]
        natives: dict[str, Linked] = {}
        self.progress.stage("read", f"{len(members)} libraries")
        copy = self.shop / "reading"
        for number, name in enumerate(members):
            self.progress.step(number, len(members), name)
            extract(self.source, name, copy)
            if native := read_native(copy):
                natives[name] = native
        copy.unlink(missing_ok=True)
        return natives

    def _write(self, wheel_libs: dict[str, Linked], collection: Collection, report: BundleReport) -> BundleReport:
        order, placement = self.order, self.placement
        part = self.shop / "wheel"
        names = {lib.name for lib in collection.brought.values()}
        brought: list[tuple[Brought, Path]] = []
        with zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED, allowZip64=True) as target:
            out = Rewriter(self.source, target, self.folder)
            infos = [info for info in self.source.infolist() if not info.is_dir()]
            self.progress.stage("write", self.target_name)
            for number, info in enumerate(infos):
                self.progress.step(number, len(infos) + len(names), info.filename)
                if info.filename in placement.starts:
                    out.add(info.filename, [placement.starts[info.filename]])
                    self.patched.append(info.filename)
                else:
                    self._write_member(out, info, wheel_libs.get(info.filename), names)
            for number, lib in enumerate(collection.brought.values(), start=len(infos)):
                self.progress.step(number, len(infos) + len(names), lib.name)
                brought += self._add_library(out, lib)
                for folder, data in lib.data:
                    for path in sorted(p for p in data.rglob("*") if p.is_file()):
                        inside = posixpath.normpath(f"{self.where}/{folder}/{path.relative_to(data).as_posix()}")
                        out.add(inside, file_chunks(path))
            if placement.order:
                out.add(placement.order[0], [placement.order[1]])
            self._write_metadata(out, brought)
            out.finish()
            biggest = sorted(target.infolist(), key=lambda info: info.compress_size, reverse=True)[:10]
        final = order.out / self.target_name
        if final.resolve() == order.wheel.resolve():
            raise BadInput(f"{final} is the wheel itself", remedy="give another directory with --out")
        digest = sha256_of(part)
        part.replace(final)
        return msgspec.structs.replace(
            report,
            out=str(final),
            sha256=digest,
            bytes_after=final.stat().st_size,
            brought=tuple(item for item, _ in brought),
            trimmed=tuple(self.trimmed),
            patched=tuple(self.patched),
            biggest=tuple(PartSize(file=info.filename, bytes=info.compress_size) for info in biggest),
        )

    def _add_library(self, out: Rewriter, lib: BroughtLibrary) -> list[tuple[Brought, Path]]:
        placement, copy = self.placement, self.shop / "library"
        shutil.copyfile(lib.path, copy)
        native = read_native(copy)
        if native and native.system == "linux" and "$ORIGIN" not in native.rpath:
            self.order.set_path(copy, "$ORIGIN")
        folders = placement.folders[fold(lib.name)]
        self._trim(copy, f"{folders[0]}/{placement.names[fold(lib.name)]}".lstrip("/"))
        if native and native.system == "windows":
            rename_imports(copy, placement.renamed(native))
        rows = self._brought_rows(lib, copy.stat().st_size)
        for row in rows:
            out.add(row.file, file_chunks(copy), mode=0o755)
        return [(row, lib.path) for row in rows]

    def _brought_rows(self, lib: BroughtLibrary, size: int) -> list[Brought]:
        """One for each place that the library gets."""
        key, licence = fold(lib.name), self.order.rules.licence_of(lib.name)
        files = [posixpath.join(folder, self.placement.names[key]) for folder in self.placement.folders[key]]
        name = licence.name if licence else None
        return [Brought(file=file, origin=str(lib.path), bytes=size, why=lib.why, licence=name) for file in files]

    def _write_member(self, out: Rewriter, info: zipfile.ZipInfo, native: Linked | None, names: set[str]) -> None:
        if info.filename in (f"{self.folder}/RECORD", f"{self.folder}/METADATA", f"{self.folder}/WHEEL"):
            return
        # Only a library that asks for something brought along, and would not find it, gets another path.
        asks = native is not None and native.system == "linux" and bool(names & set(native.wishes))
        patch = native is not None and asks and not reaches(info.filename, native.rpath, self.where)
        renamed = self.placement.renamed(native) if native and native.system == "windows" else {}
        changed, copy = patch or bool(renamed), self.shop / "library"
        if native and (changed or self.order.archs):
            extract(self.source, info.filename, copy)
            changed |= bool(self._trim(copy, info.filename))
        if not native or not changed:
            out.copy(info)
            return
        if patch:
            self.order.set_path(copy, new_path(info.filename, native.rpath, self.where))
        elif renamed:
            rename_imports(copy, renamed)
        if patch or renamed:
            self.patched.append(info.filename)
        out.replace(info, copy)

    def _trim(self, copy: Path, name: str) -> int:
        """How many bytes of device code were taken out."""
        row = trim(copy, self.order.archs, name) if self.order.archs else Trimmed(file=name)
        if row.bytes or row.kept_whole:
            self.trimmed.append(row)
        return row.bytes

    def _write_metadata(self, out: Rewriter, brought: list[tuple[Brought, Path]]) -> None:
        metadata = self.source.read(f"{self.folder}/METADATA").decode("utf-8", "surrogateescape")
        text = rules.without_vendor_packages(metadata, [Path(item.file).name for item, _ in brought])
        out.add(f"{self.folder}/METADATA", [text.encode("utf-8", "surrogateescape")])
        wheel = self.source.read(f"{self.folder}/WHEEL").decode("utf-8").splitlines()
        # The tag must agree with the file's name.
        lines = [line for line in wheel if line.strip() and not line.startswith("Build:")]
        out.add(f"{self.folder}/WHEEL", ["\n".join([*lines, f"Build: {self.tag}", ""]).encode()])
        if brought:
            bill = rules.bill_of_materials(self.target_name, brought, self.order.rules)
            out.add(f"{self.folder}/sboms/rekindle-bundle.cdx.json", [bill])
            for name, path in rules.licence_files([path for _, path in brought]).items():
                out.add(f"{self.folder}/licenses/bundled/{name}", file_chunks(path))
