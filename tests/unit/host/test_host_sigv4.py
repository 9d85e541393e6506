"""The signatures that Amazon's documentation works out by hand, and the secret that is never shown."""

from __future__ import annotations

import hashlib

import pytest

from rekindle.host.object_store import Credentials, signed

# The documentation's own, public example key.
EXAMPLE = Credentials(key="AKIAIOSFODNN7EXAMPLE", secret="wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
HOST = {"host": "examplebucket.s3.amazonaws.com"}
NOTHING = hashlib.sha256(b"").hexdigest()
WELCOME = hashlib.sha256(b"Welcome to Amazon S3.").hexdigest()


@pytest.mark.parametrize(
    ("method", "path", "query", "headers", "digest", "signature"),
    [
        (
            "GET", "/test.txt", {}, {"range": "bytes=0-9"}, NOTHING,
            "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41",
        ),
        (
            "PUT", "/test$file.text", {},
            {"date": "Fri, 24 May 2013 00:00:00 GMT", "x-amz-storage-class": "REDUCED_REDUNDANCY"}, WELCOME,
            "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd",
        ),
        (
            "GET", "/", {"lifecycle": ""}, {}, NOTHING,
            "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543",
        ),
        (
            "GET", "/", {"max-keys": "2", "prefix": "J"}, {}, NOTHING,
            "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7",
        ),
    ],
)  # fmt: skip
def test_the_published_examples(
    method: str, path: str, query: dict[str, str], headers: dict[str, str], digest: str, signature: str
) -> None:
    made = signed(
        method, path, query, {**HOST, **headers}, payload_sha256=digest, moment="20130524T000000Z",
        region="us-east-1", credentials=EXAMPLE,
    )  # fmt: skip
    assert made["authorization"].endswith(f"Signature={signature}")


def test_a_session_token_is_signed_and_a_secret_is_never_shown() -> None:
    own = Credentials(key="K", secret="hidden", token="also hidden")
    made = signed(
        "GET", "/", {}, HOST, payload_sha256=NOTHING, moment="20130524T000000Z", region="eu-central-1", credentials=own
    )
    assert "x-amz-security-token" in made["authorization"] and made["x-amz-security-token"] == "also hidden"
    assert "hidden" not in repr(own)
