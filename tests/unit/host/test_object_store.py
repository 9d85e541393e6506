"""Where a store is, by what key, and what to do about its no: what is known before anything is sent."""

from __future__ import annotations

import pytest

from rekindle.errors import BadInput
from rekindle.host.object_store import Credentials, _next_step, read_credentials, read_place

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
