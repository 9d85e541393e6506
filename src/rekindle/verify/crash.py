"""A crash in words: the signal, the instruction and its set, the function around it; and operators that may crash on
this CPU: what is asked of the agent, and what its answers mean."""

import contextlib
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rekindle.compat.processor import SILENT, Suspicion, missing
from rekindle.errors import has_package
from rekindle.formats.elf import open_elf
from rekindle.formats.view import Malformed
from rekindle.host.files import write_atomically
from rekindle.host.protocol import Host
from rekindle.model.document import encode
from rekindle.model.verify import Crash, VerifyCheck, VerifyReport
from rekindle.model.wheel import CodeEvidence, KeptTrials, OperatorTrial, Outcome

# A kernel's full name, with all its template arguments, can fill a screen; the report keeps it whole.
MOST_NAME = 140
_COPY = re.compile(r"\.(AVX2?|AVX512|SVE\d*|VSX|ZVECTOR)\.\w+$")
# What the call said it would do next, as the agent tells a crash.
_STEP = re.compile(r" in step ([^:]{1,60})")


def remedy_for(crash: Crash) -> str | None:
    """What to do about an instruction the CPU refuses; None for other ends, which the check knows more about."""
    if crash.signal != "SIGILL":
        return None
    if crash.unit and (copy := _COPY.search(crash.unit)):
        return (
            f"torch's own copy for {copy[1]} ran on a CPU without it: unset ATEN_CPU_CAPABILITY if it is set; "
            "if not, build from source for this CPU: rekindle plan --build"
        )
    return "this code uses instructions the CPU lacks: rekindle inspect WHEEL --for this, rekindle plan --build"


def describe_crash(host: Host, raw: dict[str, Any], machine: str) -> Crash:
    """What the trap in the target wrote down, completed with names read from the library's file."""
    library, offset, code = raw.get("library"), raw.get("offset"), raw.get("code")
    signal = str(raw.get("name", "unknown signal"))
    crash = Crash(signal=signal, instruction=code or None, library=library, offset=offset)
    if has_package("numpy"):
        if library and isinstance(offset, int) and (found := find_symbol(Path(library), offset)):
            crash = replace(crash, function=demangle(host, found[0]), unit=found[1])
        if crash.signal == "SIGILL" and code:
            crash = replace(crash, isa=_refused_set(bytes.fromhex(code), machine))
    return crash


def _refused_set(code: bytes, machine: str) -> str | None:
    """The instruction set of what the CPU refused, by the tables that ``inspect`` reads libraries with."""
    if machine in ("x86_64", "AMD64"):
        from rekindle.formats.x86 import instruction_set

        name = instruction_set(code)
        return None if name in SILENT else name
    if machine not in ("aarch64", "arm64") or len(code) < 4:
        return None
    import numpy as np

    from rekindle.formats.arm64_scan import CLASSES, classify

    name = CLASSES[int(classify(np.frombuffer(code[:4], "<u4"))[0])]
    return None if name in ("base", "exclusive") else name


def demangle(host: Host, name: str) -> str:
    """A C++ name as people write it, where the machine has the tool for it."""
    for tool in ("c++filt", "llvm-cxxfilt", "x86_64-linux-gnu-c++filt") if name.startswith("_Z") else ():
        if host.which(tool) and (done := host.run([tool, name])).ok and done.out.strip():
            return done.out.strip()
    return name


def crash_place(crash: Crash) -> str:
    """The place, for one line of text; empty where nothing is known."""
    parts = []
    if name := crash.function:
        parts.append(f"in {name if len(name) <= MOST_NAME else name[: MOST_NAME - 1] + '…'}")
    if crash.unit:
        parts.append(f"compiled from {crash.unit}")
    if crash.library and crash.offset is not None:
        parts.append(f"at {Path(crash.library).name}+{crash.offset:#x}")
    if crash.signal == "SIGILL" and crash.instruction:
        kind = f"{crash.isa} instruction" if crash.isa else "instruction"
        parts.append(f"{kind} {crash.instruction[:16]}…")
    return ", ".join(parts)


def find_symbol(path: Path, offset: int) -> tuple[str, str | None] | None:
    """The function that holds the byte at ``offset`` of the file, and the source file it was compiled from if it is a
    local one, as the linker wrote it down; None where no table tells."""
    from rekindle.formats.functions import find_functions

    with contextlib.suppress(Malformed, OSError, ValueError), open_elf(path) as elf:
        if (address := elf.address_of(offset)) is not None:
            functions = find_functions(elf)
            number = functions.at(address)
            if number is not None and functions.named(number):
                return functions.name(number), functions.file(number) or None
    return None


def outcomes(suspects: Sequence[Suspicion], tried: Mapping[str, VerifyCheck]) -> tuple[OperatorTrial, ...]:
    """Each suspicion with what came of it; one the agent never came to was not tried."""
    trials = [suspect.trial() for suspect in suspects]
    for number, suspect in enumerate(suspects):
        if suspect.call is not None:
            outcome, detail = _outcome(tried.get(suspect.call.id))
            where = _STEP.search(detail)
            name = f"{suspect.call.operator} on {where[1]}" if where else suspect.call.operator
            trials[number] = replace(trials[number], operator=name, outcome=outcome, detail=detail)
    return tuple(trials)


def _outcome(check: VerifyCheck | None) -> tuple[Outcome, str]:
    if check is None:
        return "not-tried", "the run ended before its turn"
    if check.status != "failed":
        return ("runs", "") if check.status == "passed" else ("not-tried", check.detail)
    if check.crash is not None or check.detail.startswith("the interpreter"):
        return "crashes", check.detail
    return ("no-answer" if check.detail.startswith("no answer") else "refuses"), check.detail


def place_of(cache: Path, evidence: Iterable[CodeEvidence], features: Iterable[str]) -> Path | None:
    """Where the trials of one build on one kind of CPU are kept; None where nothing of it is suspected. Two builds
    differ in addresses, two kinds of CPU in what they lack of the instruction sets in question."""
    have = frozenset(features)
    lines = sorted(
        f"{code.file} {code.function} {code.address} {' '.join(lacking)}"
        for code in evidence
        if (lacking := [isa for isa in missing(code.isa, have) if isa not in SILENT])
    )
    if not lines:
        return None
    return cache / "trials" / (hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32] + ".json")


def keep_trials(report: VerifyReport, place: Path) -> None:
    """A cache that cannot be written costs the agreement on a later day and nothing else."""
    illegal = [check for check in report.checks if check.crash is not None and check.crash.signal == "SIGILL"]
    record = KeptTrials(
        subject=report.subject,
        date=datetime.now(UTC).date().isoformat(),
        verdict=report.verdict,
        crash=f"{illegal[0].id} {illegal[0].detail}" if illegal else None,
        trials=report.operators,
    )
    with contextlib.suppress(OSError):
        write_atomically(place, encode(record))
