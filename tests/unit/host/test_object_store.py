"""Where a store is, by what key, and what to do about its no: what is known before anything is sent."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from rekindle.errors import BadInput
from rekindle.host.object_store import Credentials, ObjectStore, _next_step, read_credentials, read_place

VARIABLES = ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_SESSION_TOKEN")


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)


def test_a_place_is_a_bucket_a_prefix_and_an_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    place = read_place("s3://wheels/some/where/", None)
    assert (place.bucket, place.prefix, place.region) == ("wheels", "some/where", "us-east-1")
    assert place.endpoint == "https://s3.us-east-1.amazonaws.com" and str(place) == "s3://wheels/some/where"
    assert str(read_place("s3://wheels", "http://127.0.0.1:9000/")) == "s3://wheels"
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://all.invalid")
    assert read_place("s3://w", None).endpoint == "https://all.invalid"
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", "https://s3.invalid")
    monkeypatch.setenv("AWS_REGION", "eu-north-1")
    place = read_place("s3://w", None)
    assert (place.endpoint, place.region) == ("https://s3.invalid", "eu-north-1"), "the narrower variable counts"
    assert read_place("s3://w", "https://given.invalid/").endpoint == "https://given.invalid"


@pytest.mark.parametrize("target", ["http://wheels/x", "s3://", "s3:///x", "s3://w/x?y", "s3://w/x#y", "wheels"])
def test_what_names_no_bucket_is_refused(target: str) -> None:
    with pytest.raises(BadInput, match="names no bucket"):
        read_place(target, None)


@pytest.mark.parametrize("endpoint", ["ftp://store.invalid", "store.invalid", "https://"])
def test_an_endpoint_is_spoken_to_by_http_and_has_a_host(endpoint: str) -> None:
    with pytest.raises(BadInput, match="no address of a store"):
        read_place("s3://wheels", endpoint)


def test_the_key_comes_from_the_environment_and_is_never_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "name")
    with pytest.raises(BadInput, match="key is not known"):
        read_credentials()
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    monkeypatch.setenv("AWS_SESSION_TOKEN", "passing")
    found = read_credentials()
    assert found == Credentials(key="name", secret="hush-hush", token="passing")
    assert "hush" not in repr(found) and "passing" not in repr(found)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "")
    assert read_credentials().token is None


@pytest.mark.parametrize(("status", "words"), [(401, "rights"), (403, "rights"), (404, "bucket"), (500, "goes on")])
def test_a_refusal_comes_with_the_next_step(status: int, words: str) -> None:
    assert words in _next_step(status)


class Client:
    """The few requests of botocore's client that are made; ``parts`` are what an upload cut short left."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.pages: list[dict[str, Any]] = [{}]
        self.parts: list[dict[str, Any]] | Exception = []
        self.error: Exception | None = None

    def __getattr__(self, name: str) -> Any:
        def ask(**words: Any) -> dict[str, Any]:
            if hasattr(words.get("Body"), "read"):
                words["Body"] = words["Body"].read()
            self.asked.append((name, words))
            if self.error:
                raise self.error
            if name == "list_parts":
                if isinstance(self.parts, Exception):
                    raise self.parts
                return self.parts.pop(0)
            answers: dict[str, dict[str, Any]] = {
                "head_object": {"Metadata": {"sha256": "abc"}}, "create_multipart_upload": {"UploadId": "u1"}
            }  # fmt: skip
            return self.pages.pop(0) if name == "list_objects_v2" else answers.get(name, {"ETag": '"tag"'})

        return ask

    def names(self) -> list[str]:
        return [name for name, _ in self.asked]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Client:
    made = Client()
    monkeypatch.setattr("rekindle.host.object_store._open_client", lambda place, credentials: made)
    return made


def _store(target: str = "s3://wheels/pre", **more: int) -> ObjectStore:
    return ObjectStore(read_place(target, "https://s.invalid"), Credentials(key="k", secret="s"), **more)


def test_a_list_is_read_to_its_end_and_names_are_below_the_prefix(client: Client) -> None:
    client.pages = [
        {"Contents": [{"Key": "pre/a", "ETag": '"1"', "Size": 3}], "NextContinuationToken": "next"},
        {"Contents": [{"Key": "pre/b"}]},
    ]
    assert _store().objects() == {"a": ("1", 3), "b": ("", 0)}
    assert [words.get("ContinuationToken") for _, words in client.asked] == [None, "next"]
    assert {words["Prefix"] for _, words in client.asked} == {"pre/"}
    client.pages = [{"Contents": [{"Key": "a"}]}]
    assert list(_store("s3://wheels").objects()) == ["a"] and client.asked[-1][1]["Prefix"] == ""
    client.pages = [{"NextContinuationToken": "same"}, {}]
    with pytest.raises(BadInput, match="goes on and names nothing new"):
        _store().objects()


def test_a_small_file_goes_in_one_piece_with_its_digest(client: Client, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    headers = {"content-type": "text/html", "cache-control": "no-cache"}
    assert _store(part_bytes=5).put("f", tmp_path / "f", "abc", headers) == "tag"
    [(name, words)] = client.asked
    assert name == "put_object" and (words["Key"], words["Body"]) == ("pre/f", b"12345")
    assert words["Metadata"] == {"sha256": "abc"} and words["ContentType"] == "text/html"
    assert _store().part_bytes == 32 * 1024 * 1024


def test_a_large_file_goes_in_parts_and_goes_on_where_it_stopped(client: Client, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"1234567890")
    begun: list[str] = []
    assert _store(part_bytes=4).put("f", tmp_path / "f", "abc", {}, began=begun.append) == "tag"
    assert begun == ["u1"] and client.names() == [
        "create_multipart_upload", *["upload_part"] * 3, "complete_multipart_upload"
    ]  # fmt: skip
    assert [(words["PartNumber"], words["Body"]) for _, words in client.asked[1:4]] == [
        (1, b"1234"), (2, b"5678"), (3, b"90")
    ]  # fmt: skip
    sent = client.asked[-1][1]["MultipartUpload"]["Parts"]
    assert sent[1] == {"PartNumber": 2, "ETag": f'"{hashlib.md5(b"5678").hexdigest()}"'}
    client.asked.clear()
    client.parts = [
        {"Parts": [{"PartNumber": 1, "ETag": sent[0]["ETag"]}], "IsTruncated": True, "NextPartNumberMarker": 1},
        {"Parts": [{"PartNumber": 2, "ETag": '"other"'}, {"PartNumber": 3, "ETag": sent[2]["ETag"]}]},
    ]
    _store(part_bytes=4).put("f", tmp_path / "f", "abc", {}, begun="u0", began=begun.append)
    assert client.names() == ["list_parts", "list_parts", "upload_part", "complete_multipart_upload"]
    assert [words["PartNumberMarker"] for _, words in client.asked[:2]] == [0, 1]
    assert client.asked[2][1]["PartNumber"] == 2 and client.asked[2][1]["UploadId"] == "u0" and begun == ["u1"]


def _refusal(code: str, status: int) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}, "x")


@pytest.mark.parametrize("gone", [_refusal("NoSuchUpload", 404), _refusal("NotImplemented", 501)])
def test_an_upload_that_the_store_forgot_begins_again(client: Client, tmp_path: Path, gone: Exception) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    client.parts = gone
    _store(part_bytes=4).put("f", tmp_path / "f", "abc", {}, begun="u0")
    assert client.names()[:3] == ["list_parts", "create_multipart_upload", "upload_part"]


def test_a_list_of_parts_that_does_not_go_on_is_refused(client: Client, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"12345")
    client.parts = [{"IsTruncated": True, "NextPartNumberMarker": 0}]
    with pytest.raises(BadInput, match="names no later part"):
        _store(part_bytes=4).put("f", tmp_path / "f", "abc", {}, begun="u0")


def test_what_is_not_there_is_no_fault(client: Client) -> None:
    assert _store().digest("f") == "abc"
    client.error = _refusal("NoSuchKey", 404)
    assert _store().digest("f") is None
    _store().remove("f")
    client.error = _refusal("AccessDenied", 403)
    with pytest.raises(BadInput, match="refused f: AccessDenied: no") as refused:
        _store().remove("f")
    assert "rights" in (refused.value.remedy or "")


def test_a_store_that_does_not_answer_or_is_none_is_told(client: Client) -> None:
    client.error = OSError("no route")
    with pytest.raises(BadInput, match=r"at https://s\.invalid does not answer: no route"):
        _store().digest("f")
    client.error = ValueError("no XML")
    with pytest.raises(BadInput, match="with what no store says: no XML"):
        _store().digest("f")
    client.error = None
    _store().close()
    assert client.names()[-1] == "close"


def test_the_client_signs_bodies_and_names_the_bucket_in_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    told: dict[str, Any] = {}
    monkeypatch.setattr("botocore.session.Session.create_client", lambda self, kind, **words: told.update(words))
    _store()
    config = told["config"]
    assert config.s3 == {"addressing_style": "path", "payload_signing_enabled": True}
    assert config.retries["total_max_attempts"] == 4 and config.read_timeout == config.connect_timeout == 60.0
    assert (told["aws_access_key_id"], told["endpoint_url"]) == ("k", "https://s.invalid")
