"""Which wheels of a wheelhouse run on a described machine, judged by what is in them, not by their names."""

import contextlib
import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from rekindle.compat.answer import Coverage
from rekindle.compat.backends import find_flavour
from rekindle.compat.images import GpuCode, covers
from rekindle.compat.libc import Libc, libc_runs, tag_libc
from rekindle.compat.toolkit import cudnn_covers
from rekindle.errors import BadInput
from rekindle.facts import load_facts
from rekindle.model.arch import GpuArch
from rekindle.model.facts import Flavour
from rekindle.model.plan import Reason
from rekindle.model.wheel import Verdict
from rekindle.model.wheelhouse import SearchOptions, WheelRow


@dataclass(frozen=True, kw_only=True)
class WantedWheel:
    """A machine and a wish; what is None is not asked for."""

    gpus: tuple[GpuArch, ...] = ()
    system: str | None = None
    machine: str | None = None
    python: str | None = None
    glibc: str | None = None
    project: str | None = None
    versions: SpecifierSet | None = None

    def describe(self) -> dict[str, str]:
        """What is asked for, by the options' names."""
        shown = {"gpus": "gpu", "system": "os", "machine": "arch", "versions": "version"}
        values = vars(self) | {"gpus": ", ".join(map(str, self.gpus))}
        return {shown.get(name, name): str(value) for name, value in values.items() if value}


def search(rows: Iterable[WheelRow], wanted: WantedWheel) -> tuple[list[tuple[WheelRow, Verdict]], list[Reason]]:
    """(what runs or may run, newest first; why the others do not)."""
    name = ", ".join(wanted.describe().values()) or "any machine"
    asked = (row for row in rows if not wanted.project or row.project == wanted.project)
    judged = [(row, verdict_for(row, wanted, name)) for row in asked]
    hits = [(row, verdict) for row, verdict in judged if verdict.runs is not False]
    hits.sort(key=lambda hit: (hit[1].runs is None, _newest_first(hit[0].version), hit[0].file))
    refused = [(row.file, verdict.because[0]) for row, verdict in judged if verdict.runs is False]
    return hits, [Reason(code=why.code, text=f"{file}: {why.text}") for file, why in refused]


def verdict_for(row: WheelRow, wanted: WantedWheel, name: str) -> Verdict:
    """Does the wheel run on the machine, which is called ``name`` in the answer?"""
    if obstacle := _find_obstacle(row, wanted):
        return Verdict(machine=name, runs=False, because=(obstacle,))
    reasons: list[Reason] = []
    runs: bool | None = True
    for gpu in wanted.gpus:
        answer, reason = _judge_gpu(row, gpu, wanted)
        reasons.append(reason)
        if answer is False:
            return Verdict(machine=name, runs=False, because=(reason,))
        runs = runs and answer
    if proven := sum(1 for proof in row.proofs if proof.good):
        reasons.append(Reason(code="verified", text=f"verified {proven} time{'s' * (proven > 1)}"))
    if not reasons:
        reasons.append(Reason(code="tags-fit", text="its tags fit"))
    return Verdict(machine=name, runs=runs, because=tuple(reasons))


def _find_obstacle(row: WheelRow, wanted: WantedWheel) -> Reason | None:
    """What keeps a wheel from a machine whatever its cards."""
    if row.yanked is not None:
        return Reason(code="yanked", text=f"withdrawn{': ' + row.yanked if row.yanked else ''}")
    if wanted.versions is not None and not wanted.versions.contains(row.version, prereleases=True):
        return Reason(code="other-version", text=f"is {row.version}, asked for {wanted.versions}")
    if wanted.system and not {"any", wanted.system} & set(row.systems):
        return Reason(code="other-system", text=f"is for {', '.join(row.systems)}, not {wanted.system}")
    if wanted.machine and not {"any", wanted.machine, "universal2"} & set(row.machines):
        return Reason(code="other-arch", text=f"is for {', '.join(row.machines)} processors, not {wanted.machine}")
    if wanted.python is not None:
        needs = SpecifierSet(row.requires_python or "")
        if not needs.contains(wanted.python.removesuffix("t")):
            return Reason(code="other-python", text=f"needs Python {row.requires_python}, not {wanted.python}")
        if not any(_takes_python(tag, wanted.python) for tag in row.pythons):
            return Reason(code="other-python", text=f"is for Python {', '.join(row.pythons)}, not {wanted.python}")
    need = Libc("glibc", row.glibc) if row.glibc else tag_libc([row.file.removesuffix(".whl")], load_facts())
    answer = libc_runs(need, Libc("glibc", wanted.glibc) if wanted.glibc else None)
    if answer.kind != "no":
        return None
    return Reason(code=answer.code, text=answer.text.replace("the machine has", "there is"), source=answer.source)


def _takes_python(tag: str, python: str) -> bool:
    """``py3``, ``py310`` and ``cp38-abi3`` are for that Python and all later ones, any other tag for one alone."""
    if not (least := re.fullmatch(r"py3(\d*)|cp3(\d+)-abi3", tag)):
        return tag == python
    if least[2] and python.endswith("t"):
        return False
    return Version(f"3.{least[1] or least[2] or 0}") <= Version(python.removesuffix("t"))


def _official_wheel(row: WheelRow) -> Flavour | None:
    """The official wheel that this is, if it is one."""
    return find_flavour(row.version, load_facts(), cuda=row.cuda, rocm=row.rocm) if row.project == "torch" else None


def coverage(row: WheelRow, archs: tuple[str, ...], gpu: GpuArch, wanted: WantedWheel) -> Coverage:
    """Does code of this wheel with these targets run on the card?"""
    published = _official_wheel(row)
    code = GpuCode(archs, cuda=row.cuda, rocm=row.rocm, publisher=published.publisher if published else None)
    system = wanted.system or next((name for name in row.systems if name != "any"), None)
    return covers(code, gpu, system, load_facts())


def _judge_gpu(row: WheelRow, gpu: GpuArch, wanted: WantedWheel) -> tuple[bool | None, Reason]:
    if "any" in row.systems and not row.inspected:
        return True, Reason(code="pure-python", text="has no native code")
    if not row.inspected:
        return None, Reason(code="not-inspected", text="was added without an inspection: GPU code unknown")
    archs = (*row.sass, *row.ptx, *row.gfx)
    if not archs and not row.libraries:
        return False, Reason(code="no-gpu-code", text="has no GPU code (a CPU build)")
    if not archs:
        return _judge_libraries(row, gpu, wanted)
    covered = coverage(row, archs, gpu, wanted)
    if covered.kind == "none":
        have = ", ".join((*row.sass, *(f"PTX {p}" for p in row.ptx), *row.gfx))
        own = f"has no code for {gpu} in its own kernels (has {have})"
        text = covered.text if covered.code == "gpu-math-library" else own
        return False, Reason(code="no-kernel-image", text=text, source=covered.source)
    if covered.kind in ("unknown", "override"):
        runs = True if covered.kind == "override" else None
        return runs, Reason(code=covered.code, text=covered.text, source=covered.source)
    published = _official_wheel(row)
    missing = cudnn_covers(published.cudnn if published else None, row.cuda, gpu, load_facts())
    if missing.kind == "partly":
        return True, Reason(code=missing.code, text=missing.text, source=missing.source)
    text = f"its own kernels have code that runs on {gpu}{_name_gaps(row, gpu, wanted)}"
    return True, Reason(code="kernels-run", text=text)


def _judge_libraries(row: WheelRow, gpu: GpuArch, wanted: WantedWheel) -> tuple[bool | None, Reason]:
    """Where own kernels cannot be told apart (a trimmed wheel), the containers of torch_cuda are counted."""
    main = [lib for lib in row.libraries if "torch_cuda." in lib.file.rsplit("/", 1)[-1]] or list(row.libraries)
    sets = [entry for lib in main for entry in lib.sets]
    total = sum(entry.count for entry in sets)
    fitting = sum(entry.count for entry in sets if coverage(row, entry.archs, gpu, wanted).kind != "none")
    if total and fitting == 0:
        return False, Reason(code="no-kernel-image", text=f"none of its {total} kernel containers has code for {gpu}")
    if total and fitting * 2 > total:
        text = f"{fitting} of its {total} kernel containers have code that runs on {gpu}"
        return True, Reason(code="most-containers-run", text=text + _name_gaps(row, gpu, wanted))
    return None, Reason(code="kernels-unknown", text="has GPU code, but none that could be told to be its own")


def _name_gaps(row: WheelRow, gpu: GpuArch, wanted: WantedWheel) -> str:
    """Libraries of which no container runs there: a union over the wheel would hide them."""
    missing = [
        lib.file.rsplit("/", 1)[-1]
        for lib in row.libraries
        if coverage(row, (*lib.sass, *lib.ptx, *lib.gfx), gpu, wanted).kind == "none"
    ]
    return f"; but not in {', '.join(sorted(missing)[:4])}" if missing else ""


def _newest_first(version: str) -> tuple[float, ...]:
    release: tuple[int, ...] = ()
    with contextlib.suppress(ValueError):  # no version, or a number of more digits than Python reads
        release = Version(version).release
    return (*(-part for part in release), math.inf)


def wanted_from(asked: SearchOptions, gpus: Sequence[GpuArch]) -> WantedWheel:
    """A search as the user words it, for the cards that were meant; what cannot be understood is said so."""
    if asked.python is not None and not re.fullmatch(r"3\.\d{1,2}t?", asked.python):
        raise BadInput(f"{asked.python!r} is no Python version", remedy="write it as 3.11")
    if asked.glibc is not None and not re.fullmatch(r"\d+(\.\d+)*", asked.glibc):
        raise BadInput(f"{asked.glibc!r} is no glibc version", remedy="write it as 2.28")
    read = {
        "gpus": tuple(gpus),
        "project": canonicalize_name(asked.project) if asked.project else None,
        "versions": _specifier(asked.versions) if asked.versions else None,
    }
    return WantedWheel(**msgspec.structs.asdict(asked) | read)


def _specifier(text: str) -> SpecifierSet:
    """``2.6`` means any 2.6.x, ``2.6.0`` means that one with any local part; operators as pip reads them."""
    if re.fullmatch(r"\d+\.\d+", text):
        return SpecifierSet(f"=={text}.*")
    try:
        return SpecifierSet(text if re.match(r"[<>=!~]", text) else f"=={text}")
    except InvalidSpecifier:
        raise BadInput(f"{text!r} is no version", remedy="write 2.6.0 or >=2.0,<2.4") from None
