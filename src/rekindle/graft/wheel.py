"""A wheel and a graft file for it into the grafted wheel: no compiler, no GPU, and the same for whoever does it.

The new one has another local version (``2.12.1+cu130.sm120``), so that installers and people tell them apart; its
RECORD is renewed, ``rekindle-graft.json`` in its ``.dist-info`` says what was added, and it appears when it is
complete. Of closed libraries it asks for another version, or switches off when CUDA starts what nothing serves.
"""

import contextlib
import functools
import hashlib
import mmap
import re
import shutil
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from packaging.utils import parse_wheel_filename
from packaging.version import Version

from rekindle.errors import BadInput, tell_os_errors
from rekindle.formats.elf import Elf, is_elf
from rekindle.formats.elf_string import replace_text
from rekindle.formats.rewrite import Rewriter, extract, folder_of, tell_zip_errors
from rekindle.formats.view import Malformed
from rekindle.formats.wheel import WheelZip, check_wheel
from rekindle.graft.hip import HipLibrary
from rekindle.graft.library import GpuLibrary
from rekindle.host.files import sha256_of
from rekindle.host.live import LiveHost
from rekindle.model.arch import parse_gpu_arch, parse_sm
from rekindle.model.document import encode
from rekindle.model.graft import GraftFile, LibraryBeside, NewEntry
from rekindle.model.progress import Progress
from rekindle.model.spoken import spoken_bytes

INSIDE = "rekindle-graft.json"
_PACKAGE_VERSION = re.compile(rb"^__version__\s*=\s*['\"]([^'\"\s]+)['\"]", re.MULTILINE)
_START = "torch/__init__.py"
_CUDA = re.compile(rb"^cuda\b[^=\n]*=\s*['\"](\d+\.\d+)['\"]", re.MULTILINE)
_CUDA_LOCAL = re.compile(rb"^__version__\s*=\s*['\"][^'\"\s]*\+cu(\d{2})(\d)['\"]", re.MULTILINE)
# What a torch says it was compiled for (torch.cuda.get_arch_list()) is one text in this library.
LIST_LIBRARY = "torch/lib/libtorch_python.so"
# Of two names at least: single ones occur in messages.
_LIST = re.compile(rb"sm_\d{2,3}[af]?(?: (?:sm|compute)_\d{2,3}[af]?)+\0")
# What torch can do without: the statement that switches it off.
SWITCHES = {"cudnn": "backends.cudnn.enabled = False"}
_HOOK = Path(__file__).with_name("switch_off.py.txt").read_text(encoding="utf-8")


class Applied(NamedTuple):
    """The grafted wheel: its place, its digest, and that of its RECORD, which no compressor can change."""

    path: Path
    sha256: str
    record_sha256: str
    notes: tuple[str, ...] = ()


def grafted_version(wheel: WheelZip, name: str, archs: Sequence[str]) -> str:
    """``2.12.1+cu130.sm120``: the wheel's version with the new architectures in its local part. What torch itself says
    of its variant (``+cu130``) is taken where the wheel's own name leaves it out."""
    _, version, *_ = parse_wheel_filename(name)
    local = version.local
    if local is None and (match := _PACKAGE_VERSION.search(_version_file(wheel, name.split("-")[0]))):
        with contextlib.suppress(ValueError):
            inner = Version(match[1].decode("ascii", "replace"))
            local = inner.local if inner.public == version.public else None
    added = [str(parse_gpu_arch(arch)).replace("_", "") for arch in archs]
    return f"{version.public}+{'.'.join([*([local] if local else []), *added])}"


def wheel_cuda(wheel: WheelZip, package: str = "torch") -> str | None:
    """The CUDA that a wheel was made with, as it says itself: in a line of its own (torch), or in its version."""
    text = _version_file(wheel, package)
    match = _CUDA.search(text) or _CUDA_LOCAL.search(text)
    return b".".join(match.groups()).decode() if match else None


def _version_file(wheel: WheelZip, package: str) -> bytes:
    return wheel.find(f"{package}/version.py") or b""


def grafted_name(name: str, version: str) -> str:
    """The wheel's file name with another version."""
    head, _, *rest = name.split("-")
    return "-".join([head, version, *rest])


def apply_graft(wheel: Path, graft: GraftFile, entries: dict[str, bytes], out: Path, progress: Progress) -> Applied:
    """Write the grafted wheel into the folder ``out``. The wheel must be the very one the graft belongs to."""
    if not wheel.is_file():
        raise BadInput(f"there is no wheel {wheel}")
    progress.stage("check", wheel.name)
    if (digest := sha256_of(wheel)) != graft.wheel_sha256:
        raise BadInput(
            f"this graft belongs to {graft.wheel} with SHA-256 {graft.wheel_sha256[:12]}…, and {wheel.name} has"
            f" {digest[:12]}…",
            remedy="give the official wheel, unchanged",
        )
    remedy = "nothing was written; make room or give a writable directory with --out"
    with tell_zip_errors(wheel), tell_os_errors(f"cannot write the grafted wheel into {out}", remedy=remedy):
        return _write_wheel(wheel, graft, entries, out, progress)


def _write_wheel(wheel: Path, graft: GraftFile, entries: dict[str, bytes], out: Path, progress: Progress) -> Applied:
    checked = check_wheel(wheel)
    version = grafted_version(checked, graft.wheel, graft.made.archs)
    if version != graft.version:
        raise BadInput(f"the graft file gives version {graft.version[:80]!r} where {version} is due")
    if strange := {row.library for row in graft.entries} - checked.members.keys():
        raise BadInput(f"the graft is for {min(strange)[:200]!r}, which {wheel.name} does not hold")
    by_library: dict[str, list[NewEntry]] = {}
    for row in graft.entries:
        by_library.setdefault(row.library, []).append(row)
    final = out / grafted_name(graft.wheel, version)
    if final.resolve() == wheel.resolve():
        raise BadInput(f"{final} is the wheel itself", remedy="give another directory with --out")
    _refuse_small_disk(checked, wheel, by_library, out)
    with _scratch_folder(out / f".{final.name}.making") as shop:
        part = shop / "wheel"
        with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(part, "w", zipfile.ZIP_DEFLATED) as target:
            old = str(checked.dist_info)
            writer = Rewriter(source, target, folder_of(old, version), record=f"{old}/RECORD")
            exchange = functools.partial(_exchange_requirements, graft.made.requires)
            infos = [info for info in source.infolist() if not info.is_dir()]
            notes: list[str] = []
            progress.stage("write", final.name)
            added = start_hook(graft.made.off, graft.made.archs)
            for number, info in enumerate(infos):
                progress.step(number, len(infos), info.filename)
                if info.filename in by_library:
                    _graft_member(writer, info, by_library[info.filename], entries, shop)
                elif info.filename == LIST_LIBRARY:
                    notes += _correct_list(writer, info, graft.made.archs, shop)
                elif added and info.filename == _START:
                    writer.add(info.filename, [source.read(info).rstrip(b"\n") + b"\n" + added])
                elif info.filename.startswith(f"{old}/"):
                    writer.take_over(info, version, leave=(INSIDE,), change=exchange)
                else:
                    writer.copy(info)
            writer.add(f"{writer.folder}/{INSIDE}", [_inner_record(graft)])
            record = writer.finish()
        sha256 = sha256_of(part)
        part.replace(final)
    return Applied(final, sha256, hashlib.sha256(record).hexdigest(), tuple(notes))


def _inner_record(graft: GraftFile) -> bytes:
    """What the wheel says of itself: all but what is only known when it is finished."""
    told = ("library", "container", "arch", "sha256")
    entries = [{name: getattr(row, name) for name in told} for row in graft.entries]
    origin = {"schema": 1, "wheel": graft.wheel, "wheel_sha256": graft.wheel_sha256, "made": graft.made}
    return encode(origin | {"entries": entries, "left_out": graft.left_out, "libraries": graft.libraries})


def _graft_member(
    writer: Rewriter, info: zipfile.ZipInfo, rows: Sequence[NewEntry], entries: dict[str, bytes], shop: Path
) -> None:
    before, after = shop / "library", shop / "grafted"
    extract(writer.source, info.filename, before)
    reader = HipLibrary if rows[0].arch.startswith("gfx") else GpuLibrary
    with reader(before, info.filename) as library:
        have = {(unit.number, name) for unit in library.units for name in unit.targets}
        additions: dict[int, list[bytes]] = {}
        for row in rows:
            if (row.container, row.arch) in have:
                raise Malformed(f"{info.filename}: container {row.container} has code for {row.arch} already")
            additions.setdefault(row.container, []).append(entries[row.member])
        library.write_with(additions, after)
    before.unlink()
    writer.replace(info, after)
    after.unlink()


def _correct_list(writer: Rewriter, info: zipfile.ZipInfo, archs: Sequence[str], shop: Path) -> list[str]:
    """torch's own list of architectures with the new ones in it; a note where it stays as it is."""
    copy = shop / "library"
    extract(writer.source, info.filename, copy)
    if why := correct_list(copy, archs):
        writer.copy(info)
    else:
        writer.replace(info, copy)
    copy.unlink()
    return [f"torch.cuda.get_arch_list() does not name {', '.join(archs)}: {why}"] if why else []


def _exchange_requirements(requires: Mapping[str, str], metadata: bytes) -> bytes:
    """METADATA that asks for other versions of some packages; everything else of their lines stays."""
    for name, version in requires.items():
        if not re.fullmatch(r"\d+(\.\d+)*(\.\*)?", version):
            raise BadInput(f"{version[:80]!r} is no version of {name[:80]!r}")
        is_name = re.fullmatch(r"[\w.-]+", name, re.ASCII)  # a stranger's graft file says it
        package = "[-_.]+".join(re.split("[-_.]+", name)) if is_name else "(?!)"
        line = re.compile(rf"^(Requires-Dist:\s*(?i:{package})\s*\(?==)[^\s;,)]+".encode(), re.MULTILINE)
        before, metadata = metadata, line.sub(rb"\g<1>" + version.encode(), metadata)
        if metadata == before:
            raise BadInput(f"the wheel requires no single version of {name[:80]!r}, so none can be exchanged")
    return metadata


def _refuse_small_disk(checked: WheelZip, wheel: Path, libraries: dict[str, list[NewEntry]], out: Path) -> None:
    added = {name: sum(row.bytes for row in rows) for name, rows in libraries.items()}
    passing = max(2 * checked.members[name].size + size for name, size in added.items())
    need = wheel.stat().st_size + sum(added.values()) + passing
    out.mkdir(parents=True, exist_ok=True)
    disk = LiveHost().disk(str(out))
    if disk is not None and disk.free < need:
        text = f"the grafted wheel needs up to {spoken_bytes(need)} at {out}, and {spoken_bytes(disk.free)} are free"
        raise BadInput(text, remedy="nothing was written; make room there, or write to another disk with --out DIR")


@contextlib.contextmanager
def _scratch_folder(folder: Path) -> Iterator[Path]:
    """A folder for what is not finished. Its name is always the same: what a kill left there goes at the next call."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def add_archs(old: str, archs: Sequence[str]) -> str:
    """The list with more architectures, in its order: machine code by number, PTX last."""
    names = old.split(" ")
    code = [name for name in names if name.startswith("sm_")]
    for arch in archs:
        if arch not in code:
            later = [index for index, name in enumerate(code) if parse_sm(name) > parse_sm(arch)]
            code.insert(later[0] if later else len(code), arch)
    return " ".join([*code, *(name for name in names if not name.startswith("sm_"))])


def correct_list(path: Path, archs: Sequence[str]) -> str | None:
    """Change the library in place; None where that is done (or nothing is due), else why it was left as it is."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        if not is_elf(data):
            return "its list of architectures is not in an ELF library"
        lists = [(match.start(), match[0][:-1]) for match in _LIST.finditer(data)]
        texts = [text for _, text in lists]
        start, longest = max(lists, key=lambda row: len(row[1]), default=(0, b""))
        if texts.count(longest) != 1:
            return "its list of architectures was not found"
        new = add_archs(longest.decode(), archs).encode()
        if new == longest:
            return None
        edits = replace_text(Elf(data, LIST_LIBRARY), start, longest, new)
        if edits is None:
            return "its list of architectures could not be exchanged with certainty"
        for edit in edits:
            data[edit.offset : edit.offset + len(edit.content)] = edit.content
        data.flush()
    return None


def exchanged_packages(libraries: Sequence[LibraryBeside]) -> dict[str, str]:
    """Package -> the version that the grafted wheel asks for instead: the latest that any card needs."""
    wanted: dict[str, str] = {}
    for row in libraries:
        if row.package and row.exchanged:
            both = (row.exchanged, wanted.get(row.package, row.exchanged))
            wanted[row.package] = max(both, key=lambda text: Version(text.removesuffix(".*")))
    return wanted


def switched_off(libraries: Sequence[LibraryBeside]) -> dict[str, str]:
    """What is switched off when CUDA starts (a key of :data:`SWITCHES`) -> why."""
    return {row.switch: row.why for row in libraries if row.off and row.switch}


def start_hook(off: Mapping[str, str], archs: Sequence[str]) -> bytes:
    """What is added to torch/__init__.py of the grafted wheel: run once, when CUDA starts, where such a card is."""
    if strange := off.keys() - SWITCHES.keys():
        raise BadInput(f"nothing in torch switches {min(strange)[:80]!r} off")
    if not off:
        return b""
    cards = ascii([(sm.major, sm.minor) for sm in map(parse_sm, archs)])
    # ascii(): a graft file comes from anywhere, and its words must stay words.
    return "".join(
        _HOOK.format(name=name, cards=cards, statement=SWITCHES[name], reason=ascii(reason))
        for name, reason in sorted(off.items())
    ).encode()
