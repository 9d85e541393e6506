"""Documents as Windows tools save them."""

from __future__ import annotations

import pytest

from rekindle.errors import BadInput
from rekindle.model.document import decode
from rekindle.model.plan import Plan

TEXT = '{"answer": "none", "asked": ["größer"]}'


@pytest.mark.parametrize(
    "raw", [TEXT.encode("utf-16"), b"\xfe\xff" + TEXT.encode("utf-16-be"), TEXT.encode("utf-8-sig")]
)
def test_a_byte_order_mark_is_understood(raw: bytes) -> None:
    assert decode(raw, Plan).asked == ("größer",)


@pytest.mark.parametrize("raw", [b"\xff\xfe\x00", b"\xff\xfe\x00\xd8", b"\xef\xbb\xbf"])
def test_a_mark_before_nonsense_is_bad_input(raw: bytes) -> None:
    with pytest.raises(BadInput):
        decode(raw, Plan)
