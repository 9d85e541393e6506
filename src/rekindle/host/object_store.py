"""An S3-like object store, by botocore (the extra ``s3``): the few requests a wheelhouse needs. An object appears whole
or not at all; large ones are sent in parts that a later run finds again. What fails for a moment is tried again by
botocore; what stays wrong is a :class:`~rekindle.errors.BadInput` with the store's own words."""

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from rekindle.errors import BadInput, need_package

PART_BYTES = 32 << 20
TRIES = 4
TIMEOUT_SECONDS = 60.0
_ARGUMENTS = {"content-type": "ContentType", "cache-control": "CacheControl"}


@dataclass(frozen=True, kw_only=True)
class StorePlace:
    """Where: ``s3://BUCKET/PREFIX`` at an endpoint."""

    endpoint: str
    bucket: str
    prefix: str = ""
    region: str = "us-east-1"

    def __str__(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}".rstrip("/")


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """Never printed: the secret stays out of ``repr``."""

    key: str
    secret: str = field(repr=False)
    token: str | None = field(default=None, repr=False)


def read_place(target: str, endpoint: str | None) -> StorePlace:
    """From ``s3://BUCKET/PREFIX`` and the variables that all such tools read."""
    parts = urlsplit(target)
    if parts.scheme != "s3" or not parts.netloc or parts.query or parts.fragment:
        raise BadInput(f"{target!r} names no bucket", remedy="its form is s3://BUCKET/PREFIX")
    env = os.environ
    region = env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1"
    address = endpoint or env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL")
    address = (address or f"https://s3.{region}.amazonaws.com").rstrip("/")
    if urlsplit(address).scheme not in ("http", "https") or not urlsplit(address).hostname:
        raise BadInput(f"{address!r} is no address of a store", remedy="--endpoint https://HOST[:PORT]")
    return StorePlace(endpoint=address, bucket=parts.netloc, prefix=parts.path.strip("/"), region=region)


def read_credentials() -> Credentials:
    """From the environment only: a secret on the command line is seen by everybody on the machine."""
    key, secret = os.environ.get("AWS_ACCESS_KEY_ID"), os.environ.get("AWS_SECRET_ACCESS_KEY")
    if not key or not secret:
        remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in the environment, never in the command"
        raise BadInput("the store's key is not known", remedy=remedy)
    return Credentials(key=key, secret=secret, token=os.environ.get("AWS_SESSION_TOKEN") or None)


class ObjectStore:
    """One client, its connections kept open; names are below the place's prefix."""

    def __init__(self, place: StorePlace, credentials: Credentials, *, part_bytes: int = PART_BYTES) -> None:
        self.place = place
        self.part_bytes = part_bytes
        self._client = _open_client(place, credentials)

    def objects(self) -> dict[str, tuple[str, int]]:
        """Everything below the prefix: name -> (ETag, bytes)."""
        lead = f"{self.place.prefix}/" if self.place.prefix else ""
        listed: dict[str, tuple[str, int]] = {}
        query = {"Bucket": self.place.bucket, "Prefix": lead}
        while True:
            with self._our_errors("the list"):
                answer = self._client.list_objects_v2(**query)
                before = len(listed)
                for row in answer.get("Contents", ()):
                    listed[row["Key"].removeprefix(lead)] = (row.get("ETag", "").strip('"'), int(row.get("Size", 0)))
                if not answer.get("NextContinuationToken"):
                    return listed
                if len(listed) == before:
                    raise ValueError("it goes on and names nothing new")
                query["ContinuationToken"] = answer["NextContinuationToken"]

    def digest(self, name: str) -> str | None:
        """The SHA-256 that was written beside an object when it was sent."""
        with self._our_errors(name, unless=("404", "NoSuchKey")):
            sha256: str | None = self._client.head_object(**self._object(name)).get("Metadata", {}).get("sha256")
            return sha256
        return None

    def put(
        self,
        name: str,
        path: Path,
        sha256: str,
        headers: Mapping[str, str],
        *,
        begun: str | None = None,
        began: Callable[[str], None] = lambda upload: None,
    ) -> str:
        """Send one file; its ETag. ``sha256`` is what the file was found to have. A large one goes in parts: ``began``
        is told the upload's id, and given again as ``begun`` only the parts that are not there yet are sent."""
        about = {_ARGUMENTS[header]: value for header, value in headers.items()} | {"Metadata": {"sha256": sha256}}
        with self._our_errors(name), path.open("rb") as file:
            if path.stat().st_size <= self.part_bytes:
                answer = self._client.put_object(**self._object(name), **about, Body=file)
                return str(answer.get("ETag", "")).strip('"')
            sent = self._parts(name, begun) if begun else None
            if begun is None or sent is None:
                begun = str(self._client.create_multipart_upload(**self._object(name), **about)["UploadId"])
                began(begun)
            upload = {**self._object(name), "UploadId": begun}
            parts: list[dict[str, object]] = []
            while piece := file.read(self.part_bytes):
                number, md5 = len(parts) + 1, hashlib.md5(piece, usedforsecurity=False).hexdigest()
                if (sent or {}).get(number) != md5:
                    self._client.upload_part(**upload, PartNumber=number, Body=piece)
                parts.append({"PartNumber": number, "ETag": f'"{md5}"'})
            answer = self._client.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
            return str(answer.get("ETag", "")).strip('"')

    def remove(self, name: str) -> None:
        """One object; one that is not there is no fault."""
        with self._our_errors(name, unless=("404", "NoSuchKey")):
            self._client.delete_object(**self._object(name))

    def close(self) -> None:
        self._client.close()

    def _parts(self, name: str, upload: str) -> dict[int, str] | None:
        """What is there of an upload that was cut short; None where the store cannot say: all of it is sent again."""
        parts: dict[int, str] = {}
        marker = 0
        with self._our_errors(name, unless=("404", "405", "501", "NoSuchUpload", "NotImplemented", "MethodNotAllowed")):
            while True:
                answer = self._client.list_parts(**self._object(name), UploadId=upload, PartNumberMarker=marker)
                parts |= {int(row["PartNumber"]): row["ETag"].strip('"') for row in answer.get("Parts", ())}
                if not answer.get("IsTruncated"):
                    return parts
                if int(answer["NextPartNumberMarker"]) <= marker:
                    raise ValueError("it goes on and names no later part")
                marker = int(answer["NextPartNumberMarker"])
        return None

    def _object(self, name: str) -> dict[str, Any]:
        return {"Bucket": self.place.bucket, "Key": f"{self.place.prefix}/{name}" if self.place.prefix else name}

    @contextlib.contextmanager
    def _our_errors(self, name: str, *, unless: tuple[str, ...] = ()) -> Iterator[None]:
        """Botocore's errors in our words; ``unless`` are answers that are none."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except ClientError as error:
            code, message = (str(error.response.get("Error", {}).get(key, ""))[:300] for key in ("Code", "Message"))
            status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
            if code in unless or str(status) in unless:
                return
            words = f"{code}: {message}".strip(": ")
            raise BadInput(f"{self.place} refused {name}: {words}", remedy=_next_step(status)) from None
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            text = f"{self.place} answers {name} with what no store says: {str(error)[:300]}"
            raise BadInput(text, remedy="is --endpoint the address of an S3-like store?") from error
        except (BotoCoreError, OSError) as error:
            text = f"{self.place} at {self.place.endpoint} does not answer: {str(error)[:300]}"
            remedy = "is the store running, and --endpoint right? The same command goes on where this one stopped"
            raise BadInput(text, remedy=remedy) from error


def _open_client(place: StorePlace, credentials: Credentials) -> Any:
    need_package("botocore", "sending to an S3-like store")
    from botocore.config import Config
    from botocore.session import Session

    config = Config(
        # The bucket in the path, and the body's digest signed: every store understands both.
        s3={"addressing_style": "path", "payload_signing_enabled": True},
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        retries={"total_max_attempts": TRIES, "mode": "standard"},
        connect_timeout=TIMEOUT_SECONDS,
        read_timeout=TIMEOUT_SECONDS,
    )
    return Session().create_client(
        "s3",
        region_name=place.region,
        endpoint_url=place.endpoint,
        aws_access_key_id=credentials.key,
        aws_secret_access_key=credentials.secret,
        aws_session_token=credentials.token,
        config=config,
    )


def _next_step(status: int) -> str:
    if status in (401, 403):
        return "check AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION, the key's rights and this machine's clock"
    if status == 404:
        return "make the bucket first; nothing was changed"
    return "what was sent before is there; the same command goes on"
