"""A farm's folder: its configuration in sccache's own form, with secrets that only their owner can read.

``scheduler.conf`` holds the secrets: the key that signs workers' tokens and the token of those who build. Whatever is
missing beside it after a kill is written again from it by the next ``up``; secrets that are there are never replaced.
"""

import base64
import hashlib
import hmac
import json
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import msgspec

from rekindle.errors import BadInput
from rekindle.host.files import write_atomically
from rekindle.model.document import read_bounded
from rekindle.model.farm import Farm, FarmFolder, FarmInvitation
from rekindle.model.toml import render_table

_MAX_BYTES = 1 << 20
_LINE = "rkfarm1."


@dataclass(frozen=True, kw_only=True)
class FarmSecrets:
    """``server_key`` signs the token of each worker; ``client_token`` is shown by whoever builds."""

    server_key: str
    client_token: str


class InvitationText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the line of an invitation says: a farm, and the token of one worker (``address``) or of a builder."""

    scheduler: str
    token: str
    machine: str
    address: str | None = None
    cache: str | None = None


def read_settings(path: Path) -> dict[str, Any]:
    """What a file of sccache's configuration says; nothing where there is none."""
    if not path.is_file():
        return {}
    try:
        return tomllib.loads(read_bounded(path, _MAX_BYTES, "configuration").decode("utf-8"))
    except ValueError as error:
        remedy = "correct it, or begin anew: rekindle farm down --forget"
        raise BadInput(f"{path} is damaged: {error}", remedy=remedy) from error


def load_secrets(folder: FarmFolder) -> FarmSecrets | None:
    """The farm's secrets; None where it has none yet."""
    if not folder.scheduler.is_file():
        return None
    table = read_settings(folder.scheduler)
    try:
        return FarmSecrets(server_key=table["server_auth"]["secret_key"], client_token=table["client_auth"]["token"])
    except (KeyError, TypeError) as error:
        damaged = f"{folder.scheduler} lacks the farm's secrets ({error})"
        raise BadInput(damaged, remedy="begin anew: rekindle farm down --forget, then rekindle farm up") from error


def new_secrets() -> FarmSecrets:
    """256 bits each, from the system's own source."""
    return FarmSecrets(server_key=_base64(secrets.token_bytes(32)), client_token=_base64(secrets.token_bytes(32)))


def scheduler_files(folder: FarmFolder, farm: Farm, listen: str, hidden: FarmSecrets | None = None) -> dict[Path, str]:
    """What the folder of a scheduler holds, the secrets first: all else can be made from them again. ``hidden``: the
    folder's own, else new ones."""
    hidden = hidden or load_secrets(folder) or new_secrets()
    settings = {
        "public_addr": listen,
        "client_auth": {"type": "token", "token": hidden.client_token},
        "server_auth": {"type": "jwt_hs256", "secret_key": hidden.server_key},
    }
    client = client_text(farm, hidden.client_token)
    return {folder.scheduler: render_table(settings), folder.client: client, folder.table: farm_text(farm)}


def farm_text(farm: Farm) -> str:
    return render_table(msgspec.to_builtins(farm))


def client_text(farm: Farm, token: str) -> str:
    """sccache's configuration for whoever builds with the farm."""
    dist = {"scheduler_url": farm.scheduler, "auth": {"type": "token", "token": token}}
    cache = cache_settings(farm.cache) if farm.cache else None
    return render_table({"cache": cache, "dist": dist})


def server_text(text: InvitationText, *, scratch: Path, bubblewrap: str, cache_bytes: int) -> str:
    """sccache's configuration for the invited worker."""
    settings = {
        "public_addr": text.address,
        "scheduler_url": text.scheduler,
        "cache_dir": str(scratch / "toolchains"),
        "toolchain_cache_size": cache_bytes,
        "builder": {"type": "overlay", "build_dir": str(scratch / "build"), "bwrap_path": bubblewrap},
        "scheduler_auth": {"type": "jwt_token", "token": text.token},
    }
    return render_table(settings)


def cache_settings(text: str) -> dict[str, Any]:
    """``dir:PATH``, ``redis://HOST`` or ``s3://BUCKET/PREFIX?region=…&endpoint=…`` as sccache's ``[cache]``."""
    split = urlsplit(text)
    if split.scheme == "dir" and (path := unquote(text.removeprefix("dir:"))):
        return {"disk": {"dir": str(Path(path).absolute())}}
    if split.scheme in ("redis", "rediss") and split.hostname:
        endpoint = f"{split.scheme}://{split.netloc.rpartition('@')[2]}"
        who = {"username": split.username or None, "password": unquote(split.password)} if split.password else {}
        return {"redis": {"endpoint": endpoint, "key_prefix": split.path.strip("/"), **who}}
    if split.scheme == "s3" and split.hostname:
        options = {name: values[-1] for name, values in parse_qs(split.query).items()}
        if unknown := sorted(set(options) - {"region", "endpoint", "use_ssl"}):
            raise BadInput(f"s3:// knows no {unknown[0]!r}", remedy="region, endpoint, use_ssl")
        ssl = {"use_ssl": options.pop("use_ssl") == "true"} if "use_ssl" in options else {}
        place = {"bucket": split.netloc, "key_prefix": split.path.strip("/"), "no_credentials": False}
        return {"s3": {**place, **options, **ssl}}
    remedy = "dir:/shared/cache, redis://HOST:6379 or s3://BUCKET/PREFIX"
    raise BadInput(f"{text!r} is no place for a cache", remedy=remedy)


def write_files(files: Mapping[Path, str]) -> tuple[str, ...]:
    """Each file whole, private, and only where it differs; the names of those that were written."""
    changed = [path for path, text in files.items() if not path.is_file() or path.read_bytes() != text.encode()]
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, files[path], private=True)
    return tuple(path.name for path in changed)


def worker_token(server_key: str, address: str) -> str:
    """A worker's token, good for its address alone: a JSON Web Token as sccache-dist makes it (HS256)."""
    head = _base64(b'{"typ":"JWT","alg":"HS256"}')
    body = _base64(json.dumps({"exp": 0, "server_id": address}, separators=(",", ":")).encode())
    signed = hmac.new(_unbase64(server_key), f"{head}.{body}".encode(), hashlib.sha256).digest()
    return f"{head}.{body}.{_base64(signed)}"


def write_invitation(text: InvitationText) -> FarmInvitation:
    """One word to paste; it ends in a sum, so that half of it is not taken for the whole."""
    body = msgspec.json.encode(text)
    line = _LINE + _base64(body + hashlib.sha256(body).digest()[:6])
    return FarmInvitation(kind="worker" if text.address else "client", address=text.address, line=line)


def read_invitation(line: str) -> InvitationText:
    """What was pasted; BadInput where it is no invitation, or not all of it."""
    remedy = "paste the whole line that 'rekindle farm up --invite ADDRESS' printed"
    word = line.strip()
    if not word.startswith(_LINE):
        raise BadInput("this is no invitation to a farm", remedy=remedy)
    try:
        raw = _unbase64(word.removeprefix(_LINE))
        if hashlib.sha256(raw[:-6]).digest()[:6] != raw[-6:]:
            raise ValueError("its end is missing")
        return msgspec.json.decode(raw[:-6], type=InvitationText)
    except (ValueError, msgspec.MsgspecError) as error:
        raise BadInput("the invitation was not pasted whole", remedy=remedy) from error


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _unbase64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
