"""RECORD against fact: every file listed, every digest right."""

from __future__ import annotations

from rekindle.inspect.reader import WheelSource
from rekindle.model.wheel import Finding

MOST_NAMED = 5


def check_record(source: WheelSource) -> list[Finding]:
    """Inflates what was not inflated yet; names the first few files of each kind of fault."""
    import hmac

    record = source.zip.record
    if record is None:
        return [Finding(code="no-record", text="the wheel has no RECORD, so nothing can be checked", severity="error")]
    source.add_digests(name for name in source.files if name not in source.digests)
    info = source.zip.dist_info or ""
    free = {f"{info}/RECORD", f"{info}/RECORD.jws", f"{info}/RECORD.p7s"}
    wrong, unlisted, unverified = [], [], []
    for name in source.files:
        if name in free:
            continue
        row = record.get(name)
        if row is None:
            unlisted.append(name)
        elif row.algorithm != "sha256" or row.digest is None:
            unverified.append(name)
        elif not hmac.compare_digest(source.digests[name], row.digest.hex()):
            wrong.append(name)
    missing = [name for name in record if name not in source.files]
    faults = (
        ("record-wrong", "error", "differ from RECORD", wrong),
        ("record-missing", "error", "are in RECORD but not in the wheel", missing),
        ("record-unlisted", "warning", "are not in RECORD", unlisted),
        ("record-unverified", "note", "have no SHA-256 in RECORD", unverified),
    )
    out = []
    for code, severity, text, names in faults:
        if names:
            shown = ", ".join(names[:MOST_NAMED]) + (" …" if len(names) > MOST_NAMED else "")
            out.append(Finding(code=code, text=f"{len(names)} files {text}: {shown}", severity=severity))  # type: ignore[arg-type]
    return out
