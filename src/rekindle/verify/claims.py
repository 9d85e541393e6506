"""What a wheel claims against what its bytes hold: version, architectures, CPU, glibc, libraries, statement, bill. Each
comparison is a pure function of what was read: the inspection of the bytes, the wheel's own small files, and the
in-toto statement that came with it. What nobody claims is ``absent``, never a pass."""

import contextlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from packaging.utils import canonicalize_name
from packaging.version import Version

from rekindle.compat.libc import tag_libc
from rekindle.facts import load_facts
from rekindle.formats.statement import Statement, sub_table
from rekindle.model.claims import ClaimCheck
from rekindle.model.verify import Verdict
from rekindle.model.version import at_least, minor
from rekindle.model.wheel import WheelReport

# What graft adds to a version: an architecture per part.
_ADDED = re.compile(r"sm\d{2,3}[af]?|gfx[0-9a-f]{3,4}")
_ASSIGNED = re.compile(r"^(__version__|cuda|hip)\s*(?::[^=\n]+)?=\s*['\"]([^'\"\n]*)['\"]", re.MULTILINE)

# What a statement must be to say how a wheel was made; others may be signed as well (test results, summaries).
STATEMENT_TYPES = ("https://in-toto.io/Statement/v1", "https://in-toto.io/Statement/v0.1")
PROVENANCE_TYPES = ("https://slsa.dev/provenance/v1", "https://slsa.dev/provenance/v0.2")


@dataclass(frozen=True, kw_only=True)
class Material:
    """What was read of one wheel. ``statement`` is the in-toto statement, ``bills`` the CycloneDX files inside."""

    file: str
    sha256: str
    report: WheelReport
    metadata_version: str | None = None
    version_py: str = ""
    bills: Mapping[str, bytes] = field(default_factory=dict)
    statement: Mapping[str, Any] | None = None


def compare(material: Material) -> list[ClaimCheck]:
    """Every claim that can be held against the bytes."""
    claims = (_record, _version, _toolkit, _architectures, _isa, _glibc, _statement, _bill, _libraries)
    return [check(material) for check in claims]


def judge_claims(checks: Sequence[ClaimCheck]) -> Verdict:
    """Failed: something claimed is not so. Proven: signed by a trusted key, and nothing claimed is otherwise."""
    if any(check.status == "failed" for check in checks):
        return "failed"
    status = {check.id: check.status for check in checks}
    needed = ("signature", "statement", "record", "version")
    return "proven" if all(status.get(id) == "passed" for id in needed) else "not-proven"


def _result(id: str, good: bool, claimed: str, actual: str, detail: str = "") -> ClaimCheck:
    return ClaimCheck(id=id, status="passed" if good else "failed", claimed=claimed, found=actual, detail=detail)


def _unclaimed(id: str, why: str, actual: str | None = None) -> ClaimCheck:
    return ClaimCheck(id=id, status="skipped", skip="absent", found=actual, detail=why)


def _record(material: Material) -> ClaimCheck:
    findings = [finding for finding in material.report.findings if finding.code != "record-unverified"]
    bad = [finding.text for finding in findings if finding.code.startswith(("record-", "no-record"))]
    return _result("record", not bad, "every file as RECORD lists it", "; ".join(bad) or "the same")


def _version(material: Material) -> ClaimCheck:
    """The file's name, METADATA and what the package will call itself must name one version."""
    named = material.file.split("-")[1] if material.file.count("-") >= 4 else ""
    versions = {"the file name": named.replace("_", "+", 1) if "_" in named else named}
    if material.metadata_version:
        versions["METADATA"] = material.metadata_version
    inside = dict(_ASSIGNED.findall(material.version_py)).get("__version__")
    same = len({_canonical(value) for value in versions.values()}) == 1
    if inside is not None:
        versions["version.py"] = inside
        # PyPI's wheels leave the local part out of their name, but never name another release.
        whole = _canonical(inside) == _canonical(versions["the file name"])
        short = "+" not in versions["the file name"] and _canonical(inside, local=False) == _canonical(named)
        same = same and (whole or short or _is_graft_of(versions["the file name"], inside, material))
    shown = ", ".join(f"{where} {value}" for where, value in versions.items())
    return _result("version", same, versions["the file name"], shown)


def _is_graft_of(named: str, inside: str, material: Material) -> bool:
    """Does the name only add architectures (``+cu130.sm120``) to what the package calls itself, and are they in it?"""
    version, _, local = named.partition("+")
    parts = local.split(".")
    added = [part for part in parts if _ADDED.fullmatch(part)]
    others = ".".join(part for part in parts if part not in added)
    code = {arch for library in material.report.gpu.libraries for arch in (*library.sass, *library.gfx)}
    present = all(part.replace("sm", "sm_") in code for part in added)
    return bool(added) and present and _canonical(f"{version}+{others}" if others else version) == _canonical(inside)


def _canonical(value: str, *, local: bool = True) -> str:
    try:
        version = Version(value)
    except ValueError:  # no version, or a number of thousands of digits, which Python does not read
        return value
    return str(version) if local else version.public


def _toolkit(material: Material) -> ClaimCheck:
    """The local part (cu126, rocm6.4, cpu) against the toolkit the bytes were made with."""
    inside = dict(_ASSIGNED.findall(material.version_py))
    name = (inside.get("__version__") or material.metadata_version or "").partition("+")[2]
    cuda, hip = inside.get("cuda"), inside.get("hip")
    kernels = material.report.gpu.kernels
    code = "CUDA code" if kernels.sass or kernels.ptx else "ROCm code" if kernels.gfx else "no GPU code"
    actual = f"{f'CUDA {cuda}' if cuda else f'ROCm {hip}' if hip else 'no GPU'} in version.py, {code} in its libraries"
    # A label of one's own may stand before it: rekindle.cu130.sm75.
    if match := re.search(r"(?:^|\.)cu(\d{2,3})(?!\d)", name):
        release = f"{match[1][:-1]}.{match[1][-1]}"
        good = (cuda or "").startswith(release) and (code == "CUDA code" or material.report.quick)
        return _result("toolkit", good, f"CUDA {release}", actual)
    if match := re.search(r"(?:^|\.)rocm(\d+\.\d+)", name):
        return _result("toolkit", (hip or "").startswith(match[1]) and code == "ROCm code", f"ROCm {match[1]}", actual)
    if "cpu" in name.split("."):
        return _result("toolkit", not cuda and not hip and code == "no GPU code", "no GPU", actual)
    if cuda and code != "CUDA code":
        return _result("toolkit", False, f"CUDA {cuda}", actual)
    return _unclaimed("toolkit", "the version names no toolkit", actual)


def _architectures(material: Material) -> ClaimCheck:
    gpu = material.report.gpu
    archs = [*gpu.kernels.sass, *gpu.kernels.ptx, *gpu.kernels.gfx]
    shown = " ".join(archs) or "none"
    if not gpu.declared:
        return _unclaimed("architectures", "the wheel declares none", shown)
    claimed = {arch.split(":")[0] for arch in gpu.declared}
    lacking = sorted(claimed - {arch.split(":")[0] for arch in archs})
    detail = f"no code for {' '.join(lacking)}" if lacking else ""
    return _result("architectures", not lacking, " ".join(gpu.declared), shown, detail)


def _isa(material: Material) -> ClaimCheck:
    """Only a statement claims a CPU: the flags it was compiled with."""
    settings = sub_table(material.statement or {}, "predicate", "buildDefinition", "internalParameters", "environment")
    flags = " ".join(str(value) for name, value in settings.items() if name in ("CFLAGS", "CXXFLAGS"))
    actual = material.report.cpu.runs_from
    march = re.findall(r"-march=([\w-]+)", flags)
    if not march:
        return _unclaimed("isa", "no statement names the CPU it was compiled for", actual)
    if actual is None:
        return ClaimCheck(id="isa", status="skipped", skip="untried", claimed=march[-1], detail="the code was not read")
    # Has the CPU that is claimed all that the bytes need? Both in archspec's names.
    table = load_facts().cpu.microarchitecture
    promised, needed = (table.get(name.replace("-", "_")) for name in (march[-1], actual))
    covers = promised is not None and needed is not None and set(needed.features) <= set(promised.features)
    good = march[-1] == actual or march[-1].replace("-", "_") in material.report.cpu.oldest or covers
    return _result("isa", good, march[-1], actual)


def _glibc(material: Material) -> ClaimCheck:
    actual = material.report.links.glibc
    # Several tags may be in one name: each is a promise, so the oldest counts.
    promised = tag_libc(material.report.tags, load_facts())
    if promised is None or promised.kind != "glibc" or promised.version is None:
        return _unclaimed("glibc", "its tags promise no glibc", actual)
    if actual is None:
        return ClaimCheck(id="glibc", status="skipped", skip="untried", detail="no library was read")
    holds = at_least(promised.version, minor(actual))
    return _result("glibc", holds, f"{promised.version} or older", actual)


def _statement(material: Material) -> ClaimCheck:
    """The statement is one of in-toto's, about this very file, tells how it was made, and tells of no failure."""
    statement = material.statement
    if statement is None:
        return _unclaimed("statement", "no provenance lies beside the wheel")
    named = Statement(statement).subjects
    claimed = named.get(material.file)
    words = claimed or f"other files ({', '.join(name[:200] for name in list(named)[:10]) or 'none'})"
    if claimed != material.sha256:
        return _result("statement", False, words, material.sha256)
    results = [statement.get("result"), sub_table(statement, "predicate").get("result")]
    if bad := [str(result)[:80] for result in results if result not in (None, "PASSED")]:
        return _result("statement", False, words, material.sha256, f"it tells of a failure: result {bad[0]}")
    kind, predicate = statement.get("_type"), statement.get("predicateType")
    if kind not in STATEMENT_TYPES:
        return _result("statement", False, words, material.sha256, f"it is no in-toto statement (_type {kind!s:.80})")
    if predicate not in PROVENANCE_TYPES:
        text = f"it is signed, but tells something else than how the wheel was made (predicateType {predicate!s:.80})"
        return ClaimCheck(id="statement", status="skipped", skip="untried", claimed=words, detail=text)
    return _result("statement", True, words, material.sha256)


def _bill(material: Material) -> ClaimCheck:
    """Each bill of materials can be read, and names this product in this version."""
    if not material.bills:
        return _unclaimed("bill", "the wheel holds no bill of materials")
    wrong, names = [], []
    product = str(canonicalize_name(material.report.name or ""))
    for name, raw in sorted(material.bills.items()):
        try:
            component = json.loads(raw)["metadata"]["component"]
            subject, version = str(canonicalize_name(component["name"])), component.get("version")
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            wrong.append(f"{PurePosixPath(name).name} cannot be read")
            continue
        names.append(f"{subject} {version or ''}".strip())
        stem = str(canonicalize_name(PurePosixPath(subject).name.split("-")[0]))
        if subject != product and stem != product:
            wrong.append(f"{PurePosixPath(name).name} is about {subject}")
        elif version is not None and _canonical(str(version)) != _canonical(material.metadata_version or ""):
            wrong.append(f"{PurePosixPath(name).name} is about version {version}")
    shown = "; ".join(wrong) or ", ".join(names)
    return _result("bill", not wrong, f"{product} {material.metadata_version or ''}".strip(), shown)


def _libraries(material: Material) -> ClaimCheck:
    """Libraries that were put into the wheel (``*.libs``) must stand in a bill, and those of a bill in the wheel."""
    bundled = {PurePosixPath(name).name for name in material.report.links.bundled if ".libs/" in name}
    listed: set[str] = set()
    for raw in material.bills.values():
        with contextlib.suppress(ValueError, AttributeError, TypeError, RecursionError):
            for row in (row for part in json.loads(raw).get("components", []) for row in part.get("properties", [])):
                if row.get("name") == "rekindle:in-wheel":
                    listed.add(PurePosixPath(str(row.get("value"))).name)
    if not listed and not bundled:
        return _unclaimed("libraries", "none were put in")
    if not material.bills:
        return _unclaimed("libraries", "no bill of materials lists what was put in", " ".join(sorted(bundled)))
    present = {PurePosixPath(library.file).name for library in material.report.links.libraries} | bundled
    lacking, extra = sorted(listed - present), sorted(bundled - listed)
    words = [f"not in the wheel: {', '.join(lacking)}"] if lacking else []
    words += [f"in no bill: {', '.join(extra)}"] if extra else []
    return _result("libraries", not words, f"{len(listed)} listed", f"{len(bundled)} put in", "; ".join(words))
