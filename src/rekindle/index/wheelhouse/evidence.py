"""What lies beside a wheel and speaks about it: ``build.json``, inspection and verification reports."""

from __future__ import annotations

from pathlib import Path

from packaging.utils import canonicalize_name

from rekindle.errors import BadInput
from rekindle.formats.dsse import IN_TOTO, MAX_ENVELOPE_BYTES, signed_by
from rekindle.formats.statement import read_statement
from rekindle.host.files import read_head
from rekindle.index.wheelhouse.listing import Check, provenance_object
from rekindle.index.wheelhouse.names import WheelName
from rekindle.model.build import BuildResult
from rekindle.model.document import load, shared_fields
from rekindle.model.verify import VerifyReport
from rekindle.model.wheel import WheelReport
from rekindle.model.wheelhouse import Origin


def find_origin(wheel: Path, sha256: str) -> Origin | None:
    """From ``build.json`` beside the wheel, if it speaks about exactly this file."""
    path = wheel.with_name("build.json")
    if not path.is_file():
        return None
    built = load(path, BuildResult)
    if Path(built.wheel).name != wheel.name:
        return None
    if built.wheel_sha256 != sha256:
        raise BadInput(
            f"{wheel.name} is not the file that {path} describes (sha256 {sha256[:12]}… against "
            f"{built.wheel_sha256[:12]}…)",
            remedy="it was changed after the build: build it again, or remove build.json if you trust the change",
        )
    known = shared_fields(built.plan, Origin) | shared_fields(built, Origin)
    return Origin(**known | {"patches": tuple(patch.id for patch in built.patches)})


def find_provenance(wheel: Path, sha256: str, check: Check) -> tuple[bytes | None, str | None]:
    """The signed statement beside the wheel in the shape of PEP 740, if it speaks about exactly this file and a
    believed key signed it; or why it is not taken: the house would vouch for it."""
    path = wheel.with_name(f"{wheel.name}.intoto.dsse.json")
    if not path.is_file():
        return None, None
    raw = read_head(path, MAX_ENVELOPE_BYTES + 1)
    found = read_statement(raw, path.name)
    if sha256 not in found.subjects.values():
        raise BadInput(
            f"{path.name} is about another file than {wheel.name} (sha256 {sha256[:12]}…)",
            remedy="it was changed after the build: build and sign it again",
        )
    envelope = found.envelope
    if envelope is None or envelope.payload_type != IN_TOTO or signed_by(envelope, check) is None:
        words = "no key that is believed here signed its statement, so it is not served with it (rekindle key trust)"
        return None, words
    return provenance_object(raw, path.name), None


def check_report(report: WheelReport, name: WheelName, size: int) -> None:
    """A report that was given is believed only where it does not contradict the file beside it."""
    told = {
        "the project": (report.name and canonicalize_name(report.name), name.project),
        "the version": (report.version, str(name.version)),
        "the size": (report.bytes or None, size),
    }
    for what, (said, found) in told.items():
        if said is not None and said != found:
            raise BadInput(
                f"the report is about another file than {name.file}: {what} is {said} in it, and {found} here",
                remedy="leave --report out: the wheel is then inspected itself",
            )


def broken_claims(report: WheelReport | None) -> tuple[str, ...]:
    """What the package says of itself and its bytes do not hold."""
    if report is None or report.quick:
        return ()
    kernels = report.gpu.torch_kernels
    held = {*kernels.sass, *kernels.gfx, *(name.replace("compute_", "sm_") for name in kernels.ptx)}
    claimed = [name for name in report.gpu.declared if name.replace("compute_", "sm_") not in held]
    if not held or not claimed:
        return ()
    return (
        f"its own list names {', '.join(claimed)}, but no code for {'it' if len(claimed) == 1 else 'them'} is in it",
    )


def check_about(sha256: str, file: str, proofs: tuple[VerifyReport, ...]) -> None:
    """A proof is about one file, by its digest; what speaks of another, or of none, proves nothing about this one."""
    for proof in proofs:
        if proof.wheel_sha256 is None:
            raise BadInput(
                f"the proof of {proof.subject or 'an installed package'} names no wheel, so it says nothing of {file}",
                remedy=f"rekindle verify --wheel {file} --save proof.json makes one that does",
            )
        if proof.wheel_sha256 != sha256:
            raise BadInput(
                f"the proof is about another file (sha256 {proof.wheel_sha256[:12]}…) than {file} ({sha256[:12]}…)",
                remedy=f"rekindle verify --wheel {file} --save proof.json",
            )
