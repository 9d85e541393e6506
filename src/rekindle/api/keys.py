"""``key``: a signing key of the user's own, whose keys are believed, and signing a statement."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from rekindle.errors import BadInput
from rekindle.formats.dsse import IN_TOTO, MAX_ENVELOPE_BYTES, seal
from rekindle.host.files import write_for_user
from rekindle.model.claims import SigningKey, SigningKeys

if TYPE_CHECKING:
    from rekindle.model.build import BuildResults


def key_new(name: str = "rekindle", *, folder: Path | None = None) -> SigningKeys:
    """Make a pair of keys. The private one never leaves its file."""
    from rekindle.host.keys import new_key

    made = new_key(name, folder)
    return _answer(
        folder, note=f"give {made.path} to those who install your wheels: rekindle key trust {made.path.name}"
    )


def key_trust(path: Path, *, name: str | None = None, folder: Path | None = None) -> SigningKeys:
    """Believe what this public key signs."""
    from rekindle.host.keys import trust

    made = trust(path, name, folder)
    return _answer(folder, note=f"what {made.name} ({made.id}) signs is believed from now on")


def key_list(*, folder: Path | None = None) -> SigningKeys:
    """The keys of this machine and those it believes."""
    return _answer(folder)


def key_sign(path: Path, key: str = "rekindle", *, folder: Path | None = None) -> SigningKeys:
    """Put an in-toto statement into a signed envelope beside it; of a wheel, the statement that lies beside it."""
    statement = path
    if path.suffix == ".whl":
        statement = path.with_name(f"{path.name}.intoto.json")
        if not statement.is_file():
            raise BadInput(
                f"there is no statement beside {path} ({statement.name})", remedy="rekindle build writes one"
            )
    signed = sign_statement(statement, key, folder=folder)
    return _answer(folder, signed=str(signed))


def sign_statement(path: Path, key: str, *, folder: Path | None = None) -> Path:
    """``NAME.intoto.json`` becomes ``NAME.intoto.dsse.json``, as DSSE wants it."""
    from rekindle.host.keys import read_private

    try:
        with path.open("rb") as file:
            raw = file.read(MAX_ENVELOPE_BYTES)
        if "subject" not in json.loads(raw):
            raise ValueError("it names no subject")
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}", remedy="the .intoto.json beside a wheel") from error
    except (ValueError, TypeError, RecursionError) as error:
        raise BadInput(f"{path} is no in-toto statement: {error}", remedy="the .intoto.json beside a wheel") from error
    private = read_private(key, folder)
    target = path.with_name(path.name.removesuffix(".json") + ".dsse.json")
    write_for_user(target, seal(IN_TOTO, raw, private.id, private.sign))
    return target


def sign_results(results: BuildResults, key: str) -> BuildResults:
    """Sign the provenance of every wheel of a build."""
    for result in results.results:
        if result.provenance:
            sign_statement(Path(result.provenance), key)
    return results


def _answer(folder: Path | None, *, note: str = "", signed: str | None = None) -> SigningKeys:
    from rekindle.host.keys import key_folder, trusted_keys

    place = folder or key_folder()
    keys = tuple(
        SigningKey(name=key.name, id=key.id, public=str(key.path), private=key.path.with_suffix(".key").exists())
        for key in trusted_keys(folder)
    )
    return SigningKeys(folder=str(place), keys=keys, note=note, signed=signed)
