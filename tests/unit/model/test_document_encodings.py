"""Documents as Windows tools save them."""

from __future__ import annotations

import pytest

from rekindle.errors import BadInput
from rekindle.model.document import decode, encode
from rekindle.model.plan import Plan
from rekindle.model.verify import VerifyReport

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


def test_a_file_name_that_is_no_text_is_written_by_its_bytes() -> None:
    odd = "/d/caf\udce9"
    report = VerifyReport(subject=odd, environment={odd: "1"}, claims=(odd,))
    read, shown = decode(encode(report), VerifyReport), "/d/caf\\udce9"
    assert (read.subject, read.environment, read.claims) == (shown, {shown: "1"}, (shown,))
