"""Object stores that answer as they like: one line that names the store, in bounded time and memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from canary import in_process, within
from strange_servers import ANSWERS, Answer, same, strange_server, whole

from rekindle import api
from rekindle.errors import BadInput
from rekindle.host import object_store
from rekindle.host.object_store import Credentials, ObjectStore, StorePlace
from tiny_wheels import make_wheel

pytest.importorskip("botocore", reason="the extra s3 is not installed")

_LIST = b'<?xml version="1.0"?><ListBucketResult>%s</ListBucketResult>'


def _xml(body: bytes) -> bytes:
    return whole(body, "application/xml")


def _turning(first: bytes) -> Answer:
    """A list whose every page promises another one."""

    def answer(path: str, heads: str) -> Iterator[bytes]:
        token = b"<IsTruncated>true</IsTruncated><NextContinuationToken>x</NextContinuationToken>"
        yield _xml(_LIST % (first + token))

    return answer


STORE: dict[str, Answer] = {
    **{kind: ANSWERS[kind] for kind in list(ANSWERS)[: list(ANSWERS).index("dripping")]},
    "no-xml": same(_xml(b"hello")),
    "html": same(whole(b"<html><body>Sign in</body></html>")),
    "another-document": same(_xml(b"<Error><Code>x</Code></Error>")),
    "entities": same(_xml(b'<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">' + b"".join(
        b'<!ENTITY a%d "%s">' % (number, (b"&a%d;" % (number - 1) if number else b"&a;") * 10) for number in range(12)
    ) + b"]><ListBucketResult><Name>&a11;</Name></ListBucketResult>")),
    "external-entity": same(_xml(b'<!DOCTYPE x [<!ENTITY a SYSTEM "file:///etc/passwd">]>'
                                 + _LIST[21:] % b"<Contents><Key>&a;</Key></Contents>")),
    "deep": same(_xml(b"<a>" * 200_000)),
    "sizes-of-letters": same(_xml(_LIST % b"<Contents><Key>x</Key><Size>many</Size></Contents>")),
    "sizes-below-zero": same(_xml(_LIST % b"<Contents><Key>x</Key><Size>-5</Size></Contents>")),
    "sizes-of-5000-digits": same(_xml(_LIST % (b"<Contents><Size>" + b"9" * 5000 + b"</Size></Contents>"))),
    "no-keys": same(_xml(_LIST % b"<Contents><Size>5</Size></Contents>" * 2)),
    "always-another-page": _turning(b"<Contents><Key>x</Key><Size>5</Size></Contents>"),
    "names-out": same(_xml(_LIST % b"<Contents><Key>../../x</Key><Size>5</Size></Contents>")),
    "busy-for-ever": same(whole(b"", status="503 Slow Down")),
}  # fmt: skip


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("store") / "house"
    api.index_add(str(root), [str(make_wheel(root.parent, "torch", "2.0+x", tag="cp310-cp310-linux_x86_64"))])
    api.index_build(str(root))
    return root


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "KEY")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "S3CR3T")
    monkeypatch.setattr(object_store, "TRIES", 1)
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)


@pytest.mark.parametrize("kind", STORE)
def test_sending_to_it_is_one_line(kind: str, house: Path) -> None:
    with strange_server(STORE[kind]) as url, within(30):
        code, said = in_process("index", "sync", "s3://bucket/x", "--root", str(house), "--endpoint", url, "-q")
    assert code in (0, 1, 2, 3), said
    assert "bug in rekindle" not in said and "root:" not in said and "S3CR3T" not in said


def test_parts_that_never_end_are_not_believed(tmp_path: Path) -> None:
    """An upload that is to be continued: the store says that there is always one more part."""
    more = b"<IsTruncated>true</IsTruncated><NextPartNumberMarker>1</NextPartNumberMarker>"
    body = b"<ListPartsResult><Part><PartNumber>1</PartNumber></Part>%s</ListPartsResult>" % more
    (tmp_path / "wheel").write_bytes(b"x" * 64)
    with strange_server(same(_xml(body))) as url, within(30):
        place = StorePlace(endpoint=url, bucket="b", prefix="", region="us-east-1")
        store = ObjectStore(place, Credentials(key="k", secret="s", token=None), part_bytes=16)
        with pytest.raises(BadInput, match="what no store says"):
            store.put("wheel", tmp_path / "wheel", "0" * 64, {}, begun="upload")
