"""What an image's tag stands for now, asked of its registry (the OCI distribution API, without an account)."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from typing import NamedTuple

from rekindle.errors import BadInput, StageFailed

SECONDS = 20.0
MAX_TOKEN_BYTES = 1 << 20
_DOCKER = "registry-1.docker.io"
_KINDS = (
    "application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json",
)  # fmt: skip
_NAME = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")
_TAG = re.compile(r"\w[\w.-]{0,127}")


class Reference(NamedTuple):
    host: str
    name: str
    tag: str

    @property
    def address(self) -> str:
        """As docker does it: plain http only on this very machine."""
        scheme = "http" if self.host.split(":")[0] in ("localhost", "127.0.0.1") else "https"
        return f"{scheme}://{self.host}/v2/{self.name}/manifests/{self.tag}"


def read_reference(image: str) -> Reference:
    """``nvidia/cuda:12.4.1-devel`` is Docker Hub's; a first part with a dot or a port is a registry of its own."""
    first, slash, rest = image.partition("/")
    host, path = (first, rest) if slash and ("." in first or ":" in first or first == "localhost") else (_DOCKER, image)
    name, _, tag = path.partition(":")
    if host == _DOCKER and "/" not in name:
        name = f"library/{name}"
    tag = tag or "latest"
    if not (
        _NAME.fullmatch(name) and _TAG.fullmatch(tag) and re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9.-]*(?::\d+)?", host)
    ):
        raise BadInput(
            f"{ascii(image)[:120]} is no image by tag", remedy="for example nvidia/cuda:12.4.1-devel-ubuntu22.04"
        )
    return Reference(host, name, tag)


def ask_digest(image: str) -> str:
    """The SHA-256 of what the tag stands for, as 64 digits; raises StageFailed where nobody can say."""
    reference = read_reference(image)
    try:
        try:
            answer = _head(reference, None)
        except urllib.error.HTTPError as error:
            if error.code != 401:
                raise
            answer = _head(reference, _token(error.headers.get("WWW-Authenticate", ""), reference))
    except urllib.error.HTTPError as error:
        known = {404: "has no such image or tag", 401: "wants an account", 429: "has been asked too often"}
        raise StageFailed(f"{reference.host} {known.get(error.code, f'answers {error.code}')}: {image}") from error
    except (OSError, HTTPException, ValueError) as error:
        raise StageFailed(f"{reference.host} cannot be asked: {error}") from error
    found = re.fullmatch(r"sha256:([0-9a-f]{64})", answer)
    if found is None:
        raise StageFailed(f"{reference.host} names no digest for {image}")
    return found[1]


def _head(reference: Reference, token: str | None) -> str:
    headers = {"Accept": ", ".join(_KINDS), **({"Authorization": f"Bearer {token}"} if token else {})}
    request = urllib.request.Request(reference.address, method="HEAD", headers=headers)
    with urllib.request.urlopen(request, timeout=SECONDS) as answer:
        return str(answer.headers.get("Docker-Content-Digest", ""))


def _token(challenge: str, reference: Reference) -> str:
    """Registries hand one out to anybody, at the place their refusal names."""
    fields = dict(re.findall(r'(\w+)="([^"]*)"', challenge))
    realm = fields.get("realm", "")
    if not realm.startswith(reference.address.partition("//")[0] + "//"):
        raise ValueError("it wants a proof of identity that cannot be asked for")
    query = {
        "scope": f"repository:{reference.name}:pull",
        **({"service": fields["service"]} if "service" in fields else {}),
    }
    with urllib.request.urlopen(f"{realm}?{urllib.parse.urlencode(query)}", timeout=SECONDS) as answer:
        given = json.loads(answer.read(MAX_TOKEN_BYTES))
    token = given.get("token") or given.get("access_token") if isinstance(given, dict) else None
    if not isinstance(token, str) or not token.isprintable():
        raise ValueError("it gives no token")
    return token
