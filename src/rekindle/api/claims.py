"""``verify --claims``: the signature, and whether what a wheel claims equals what its bytes hold. And ``key``: a
signing key of the user's own, whose keys are believed, and signing a statement."""

import functools
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from rekindle.api.inspect_wheel import inspect
from rekindle.errors import BadInput
from rekindle.formats.statement import IN_TOTO, MAX_ENVELOPE_BYTES, read_statement, seal, signed_by
from rekindle.host.files import sha256_of, write_for_user
from rekindle.host.keys import believed_keys, checker, key_folder, new_key, read_private, trust, trusted_keys
from rekindle.model.build import BuildResults
from rekindle.model.claims import ClaimCheck, ClaimsReport, SigningKey, SigningKeys
from rekindle.model.document import read_bounded
from rekindle.model.progress import Progress
from rekindle.verify.claims import Material, compare, judge_claims

MAX_SMALL_FILE = 8 << 20
MAX_BILLS = 64


def verify_claims(
    wheel: Path,
    *,
    keys: Sequence[Path] = (),
    statement: Path | None = None,
    cpu: bool = True,
    progress: Progress | None = None,
) -> ClaimsReport:
    """Check a wheel against its statement, its metadata and its bill of materials; nothing of it is run.

    ``keys`` are public keys to believe (default: those of ``key list``); ``statement`` is the envelope or the
    statement (default: the one beside the wheel); ``cpu`` False leaves the long look at its machine code out.
    """
    if not wheel.is_file():
        raise BadInput(f"there is no file {wheel}", remedy="give the path of a .whl file")
    sha256 = sha256_of(wheel)
    signature, signer, content = _signature(wheel, statement, keys)
    version_py, bills = _small_files(wheel)
    report = inspect(str(wheel), cpu=cpu, progress=progress)
    material = Material(
        file=wheel.name,
        sha256=sha256,
        report=report,
        metadata_version=report.version,
        version_py=version_py.decode("utf-8", "replace"),
        bills=bills,
        statement=content,
    )
    checks = (signature, *compare(material))
    verdict = judge_claims(checks)
    return ClaimsReport(
        wheel=str(wheel),
        sha256=sha256,
        verdict=verdict,
        signed_by=signer,
        checks=checks,
        # A home computer builds, signs and could be lying to itself: level 1, whatever the key.
        slsa_build_level=1 if verdict == "proven" else 0,
        next=_next_steps(signature, checks),
    )


def _signature(
    wheel: Path, statement: Path | None, keys: Sequence[Path]
) -> tuple[ClaimCheck, str | None, Mapping[str, Any] | None]:
    """The signature's check, who signed, and the statement (only what a known key signed counts as one)."""
    # ``.provenance`` is what a wheelhouse serves.
    beside = [wheel.with_name(wheel.name + end) for end in (".intoto.dsse.json", ".provenance", ".intoto.json")]
    path = statement or next((path for path in beside if path.is_file()), None)
    untried = functools.partial(ClaimCheck, id="signature", status="skipped", skip="untried")
    if path is None:
        return untried(detail="no statement lies beside the wheel"), None, None
    if not path.is_file():
        raise BadInput(f"there is no file {path}", remedy="the .intoto.dsse.json beside the wheel")
    content, envelope = None, None
    try:
        content, envelope = read_statement(read_bounded(path, MAX_ENVELOPE_BYTES, "statement"), path.name)
    except BadInput:
        if path != beside[-1]:
            raise
    if envelope is None:
        if path != beside[-1]:
            raise BadInput(f"{path.name} is no signed envelope (DSSE)")
        return untried(detail="nobody signed it"), None, content
    if envelope.payload_type != IN_TOTO:
        raise BadInput(f"{path.name} is signed, but it is {envelope.payload_type!r}, not a statement about a wheel")
    believed = believed_keys(keys)
    name = signed_by(envelope, checker(believed))
    claimed = ", ".join(key_id for key_id, _ in envelope.signatures)
    if name is not None:
        return ClaimCheck(id="signature", status="passed", claimed=claimed, found=f"signed by {name}"), name, content
    if not believed:
        return untried(claimed=claimed, detail="no key is known to check it with"), None, content
    ids = ", ".join(f"{key.name} {key.id}" for key in believed)
    text = "none of the keys that are believed made this signature, or the statement was changed after signing"
    return ClaimCheck(id="signature", status="failed", claimed=claimed, found=ids, detail=text), None, None


def _small_files(wheel: Path) -> tuple[bytes, dict[str, bytes]]:
    """version.py of the package and the bills of materials, read with bounds."""
    version, bills = b"", dict[str, bytes]()
    try:
        with zipfile.ZipFile(wheel) as archive:
            for info in archive.infolist():
                parts = info.filename.split("/")
                if info.file_size > MAX_SMALL_FILE:
                    continue
                if len(parts) == 2 and parts[1] == "version.py":
                    version = archive.read(info)
                if parts[0].endswith(".dist-info") and parts[1:2] == ["sboms"] and len(bills) < MAX_BILLS:
                    bills[info.filename] = archive.read(info)
    except (zipfile.BadZipFile, OSError, RuntimeError, NotImplementedError, EOFError, ValueError) as error:
        raise BadInput(f"{wheel.name} is no readable wheel: {error}", remedy="download or build it again") from error
    return version, bills


def _next_steps(signature: ClaimCheck, checks: Sequence[ClaimCheck]) -> tuple[str, ...]:
    if any(check.status == "failed" for check in checks):
        return ("do not install it: what it says about itself is not so. Ask its maker, or build it yourself",)
    if signature.status == "passed":
        return ()
    if "no key" in signature.detail:
        return ("get the maker's public key from a place you trust: rekindle key trust FILE.pub",)
    return ("nobody answers for it: its maker can sign with rekindle build --sign, or rekindle key sign",)


def key_new(name: str = "rekindle", *, folder: Path | None = None) -> SigningKeys:
    """Make a pair of keys. The private one never leaves its file."""
    public = new_key(name, folder).path
    note = f"give {public} to those who install your wheels: rekindle key trust {public.name}"
    return replace(key_list(folder=folder), note=note)


def key_trust(path: Path, *, name: str | None = None, folder: Path | None = None) -> SigningKeys:
    """Believe what this public key signs."""
    key = trust(path, name, folder)
    return replace(key_list(folder=folder), note=f"what {key.name} ({key.id}) signs is believed from now on")


def key_list(*, folder: Path | None = None) -> SigningKeys:
    """The keys of this machine and those it believes."""
    keys = tuple(
        SigningKey(name=key.name, id=key.id, public=str(key.path), private=key.path.with_suffix(".key").exists())
        for key in trusted_keys(folder)
    )
    return SigningKeys(folder=str(folder or key_folder()), keys=keys)


def key_sign(path: Path, key: str = "rekindle", *, folder: Path | None = None) -> SigningKeys:
    """Put an in-toto statement into a signed envelope beside it; of a wheel, the statement that lies beside it."""
    statement = path.with_name(f"{path.name}.intoto.json") if path.suffix == ".whl" else path
    if statement != path and not statement.is_file():
        raise BadInput(f"there is no statement beside {path} ({statement.name})", remedy="rekindle build writes one")
    return replace(key_list(folder=folder), signed=str(sign_statement(statement, key, folder=folder)))


def sign_statement(path: Path, key: str, *, folder: Path | None = None) -> Path:
    """``NAME.intoto.json`` becomes ``NAME.intoto.dsse.json``, as DSSE wants it."""
    remedy = "the .intoto.json beside a wheel"
    raw = read_bounded(path, MAX_ENVELOPE_BYTES, "statement", remedy=remedy)
    try:
        said = json.loads(raw)
        if not isinstance(said, dict) or "subject" not in said:
            raise ValueError("it names no subject")
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path} is no in-toto statement: {error}", remedy=remedy) from error
    private = read_private(key, folder)
    target = path.with_name(path.name.removesuffix(".json") + ".dsse.json")
    write_for_user(target, seal(IN_TOTO, raw, private.id, private.sign))
    return target


def sign_results(results: BuildResults, key: str) -> BuildResults:
    """Sign the provenance of every wheel of a build."""
    for statement in filter(None, (result.provenance for result in results.results)):
        sign_statement(Path(statement), key)
    return results
