"""What pip says when it refuses, and what the user is told: an index that was never reached lacks nothing."""

from __future__ import annotations

import pytest

from rekindle import api
from rekindle.errors import CommandFailed, StageFailed
from rekindle.interpreters.installer import Installer
from rekindle.journey.resolve import _refusal
from rekindle.model.plan import Request

ASKED = [Request(name="torch", version="2.7.1", index="https://example.invalid/simple", why="planned")]
NONE = (
    "ERROR: Could not find a version that satisfies the requirement torch===2.7.1 (from versions: none)\n"
    "ERROR: No matching distribution found for torch===2.7.1\n"
)
RETRY = "WARNING: Retrying (Retry(total=0, connect=None)) after connection broken by "


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            RETRY + "'NameResolutionError(\"HTTPSConnection(host='example.invalid', port=443): Failed to resolve "
            "'example.invalid' ([Errno -2] Name or service not known)\")': /simple/torch/\n" + NONE,
            "host name",
        ),
        (
            RETRY + "'ProxyError('Cannot connect to proxy.', OSError('Tunnel connection failed: 407 Proxy "
            "Authentication Required'))': /simple/torch/\n" + NONE,
            "proxy",
        ),
        (
            "Could not fetch URL https://example.invalid/simple/torch/: There was a problem confirming the ssl "
            "certificate: HTTPSConnectionPool(host='example.invalid', port=443): (Caused by SSLError("
            "SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed'))) - skipping\n"
            + NONE,
            "certificate",
        ),
    ],
    ids=["name", "proxy", "certificate"],
)
def test_an_index_that_was_not_reached_is_not_said_to_lack_a_version(said: str, told: str) -> None:
    error = _refusal(ASKED, said, "python", Installer())
    assert isinstance(error, CommandFailed)
    assert told in (error.remedy or "").lower() and "has no torch" not in error.message


def test_an_index_that_answers_and_lacks_the_version_is_said_to() -> None:
    error = _refusal(ASKED, NONE.replace("none", "2.6.0, 2.8.0"), "python", Installer())
    assert not isinstance(error, CommandFailed) and isinstance(error, StageFailed)
    assert "has no torch 2.7.1; it has 2.6.0, 2.8.0" in error.message


def test_the_text_to_post_tells_no_names() -> None:
    found = api.explain("RuntimeError: /home/zaphod/x.bin is odd, token=hf_abcdefghijklmnopqrstuvwxyz0123456789")
    assert found.unexplained is not None and "is odd" in found.unexplained.post
    assert "zaphod" not in found.unexplained.post and "hf_abc" not in found.unexplained.post
