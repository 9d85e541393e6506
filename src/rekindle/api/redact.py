"""Text that may be posted: without names, addresses and secrets. The one way, whoever writes it."""

from __future__ import annotations


def redacted(text: str) -> str:
    """The text without who and where, tokens and passwords.

    >>> redacted("Authorization: Bearer abcdefgh12345678")
    'Authorization: redacted'
    """
    from rekindle.host.redact import redactor_here

    return redactor_here().text(text)
