"""Signing keys of the user's own: Ed25519, a private file only its owner may read, a public file to give away.
``NAME.key`` is PKCS #8 and ``NAME.pub`` SubjectPublicKeyInfo, both PEM, as openssl reads and writes them. Every
``.pub`` in the folder is trusted: one's own keys are, and those that were put there with ``key trust``."""

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rekindle.errors import BadInput, need_package, reading, tell_os_errors
from rekindle.host.files import read_head, write_atomically

MAX_KEY_BYTES = 16 << 10
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class PublicKey:
    """``id`` is made from the key itself, so it names the key and nothing else."""

    name: str
    id: str
    path: Path
    _key: Any


@dataclass(frozen=True, kw_only=True)
class PrivateKey(PublicKey):
    """A key that signs, too."""

    sign: Callable[[bytes], bytes]


def key_folder() -> Path:
    """Where keys lie: REKINDLE_KEYS, or the user's own folder."""
    import platformdirs

    folder = os.environ.get("REKINDLE_KEYS")
    return Path(folder) if folder else Path(platformdirs.user_config_dir("rekindle", appauthor=False)) / "keys"


def new_key(name: str, folder: Path | None = None) -> PublicKey:
    """Make a pair; an existing one is never written over."""
    need_package("cryptography", "a signature")
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    place = folder or key_folder()
    private, public = place / f"{_check_name(name)}.key", place / f"{name}.pub"
    if private.exists() or public.exists():
        remedy = "choose another name: what it signed still needs it"
        raise BadInput(f"there is a key {name!r} in {place} already", remedy=remedy)
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(forms.Encoding.PEM, forms.PrivateFormat.PKCS8, forms.NoEncryption())
    open_text = key.public_key().public_bytes(forms.Encoding.PEM, forms.PublicFormat.SubjectPublicKeyInfo)
    with tell_os_errors(f"cannot write the key to {place}"):
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Private from its first byte on, and never half there.
        handle = os.open(private, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(secret)
            file.flush()
            os.fsync(file.fileno())
        write_atomically(public, open_text)
    return read_public(public)


def trust(path: Path, name: str | None = None, folder: Path | None = None) -> PublicKey:
    """Put somebody's public key among those that are believed."""
    read = read_public(path)
    place = (folder or key_folder()) / f"{_check_name(name or path.stem)}.pub"
    if place.exists() and read_public(place).id != read.id:
        raise BadInput(f"another key is trusted under the name {place.stem!r}", remedy="give a name: --name NAME")
    write_atomically(place, path.read_bytes())
    return read_public(place)


def trusted_keys(folder: Path | None = None) -> tuple[PublicKey, ...]:
    """Every public key in the folder, by name."""
    place = folder or key_folder()
    return tuple(read_public(path) for path in sorted(place.glob("*.pub"))) if place.is_dir() else ()


def believed_keys(files: Iterable[Path] = ()) -> tuple[PublicKey, ...]:
    """The keys in these files, or else every one that is trusted here."""
    return tuple(map(read_public, files)) or trusted_keys()


def read_public(path: Path) -> PublicKey:
    """The key in a ``.pub`` file, which may be a stranger's."""
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    key = _parse_key(path, forms.load_pem_public_key, "is no public key", "a .pub file made by: rekindle key new")
    if not isinstance(key, Ed25519PublicKey):
        raise BadInput(f"{path} is no Ed25519 key", remedy="a .pub file made by: rekindle key new")
    return PublicKey(name=path.stem, id=_identity(key), path=path, _key=key)


def read_private(name: str, folder: Path | None = None) -> PrivateKey:
    """A key by its name, or by the path of its file."""
    from cryptography.hazmat.primitives import serialization as forms
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    path = Path(name) if name.endswith(".key") else (folder or key_folder()) / f"{_check_name(name)}.key"
    if not path.exists():
        raise BadInput(f"there is no signing key {name!r} ({path})", remedy=f"rekindle key new --name {path.stem}")
    read = functools.partial(forms.load_pem_private_key, password=None)
    key = _parse_key(path, read, "is no private key that can be read", "a .key file of: rekindle key new")
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInput(f"{path} is no Ed25519 key", remedy="rekindle key new makes one")
    public = key.public_key()
    return PrivateKey(name=path.stem, id=_identity(public), path=path, _key=public, sign=key.sign)


def _parse_key(path: Path, read: Callable[[bytes], object], words: str, remedy: str) -> object:
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        with reading(path):
            return read(read_head(path, MAX_KEY_BYTES))
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise BadInput(f"{path} {words}", remedy=remedy) from error


def checker(keys: Iterable[PublicKey]) -> Callable[[str, bytes, bytes], str | None]:
    """Which of these keys made a signature; the id in the envelope only says which to try first."""
    tried = tuple(keys)

    def check(key_id: str, signature: bytes, message: bytes) -> str | None:
        for key in sorted(tried, key=lambda believed: believed.id != key_id):
            # Here: without a key to try nothing needs the package.
            from cryptography.exceptions import InvalidSignature

            with contextlib.suppress(InvalidSignature):
                key._key.verify(signature, message)
                return key.name
        return None

    return check


def _identity(key: Any) -> str:
    from cryptography.hazmat.primitives import serialization as forms

    raw = key.public_bytes(forms.Encoding.Raw, forms.PublicFormat.Raw)
    return "ed25519:" + hashlib.sha256(raw).hexdigest()[:32]


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise BadInput(f"{name!r} is no name for a key", remedy="letters, digits, dots, dashes; 64 at the most")
    return name
