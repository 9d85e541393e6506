"""A wheelhouse sent to an S3-like store over a real socket: order, cuts, parts, damage, and what the store refuses."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rekindle import api
from rekindle.errors import BadInput, MissingTool
from rekindle.host import object_store
from rekindle.host.object_store import Credentials, ObjectStore, StorePlace, read_place
from tiny_s3 import BUCKET, KEY, SECRET, TinyStore, tiny_store
from tiny_wheels import make_wheel

pytest.importorskip("botocore", reason="the extra s3 is not installed")
TARGET = f"s3://{BUCKET}/some/where"


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[TinyStore]:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_SESSION_TOKEN", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    with tiny_store() as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", KEY)
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)
        monkeypatch.setattr("botocore.endpoint.time.sleep", lambda seconds: None)
        yield server


@pytest.fixture
def house(tmp_path: Path) -> Path:
    root = tmp_path / "mein häuschen"
    wheels = [
        make_wheel(tmp_path / "in", "torch", version, tag="cp310-cp310-linux_x86_64") for version in ("2.0+x", "2.1")
    ]
    api.index_add(str(root), [str(wheel) for wheel in wheels])
    api.index_build(str(root))
    return root


def named(store: TinyStore) -> set[str]:
    """Every object that some page in the store leads to."""
    from posixpath import join, normpath
    from urllib.parse import unquote

    found = set()
    for name, (raw, _) in store.objects.items():
        if name.endswith(".html"):
            for link in re.findall(r'href="([^"#]+)', raw.decode()):
                place = join(name.rpartition("/")[0], unquote(link))
                found.add(normpath(place) + ("/" if link.endswith("/") else ""))
    return found


def test_everything_arrives_wheels_before_pages(house: Path, store: TinyStore) -> None:
    done = api.index_sync(str(house), TARGET)
    lead = "some/where/"
    assert all(name.startswith(lead) for name in store.objects)
    for name in ("catalogue.json", "simple/torch/index.json", "wheel/torch/index.html"):
        assert store.objects[lead + name][0] == (house / name).read_bytes()
    assert store.objects[lead + "simple/torch/"] == store.objects[lead + "simple/torch/index.html"]
    sent = [name.removeprefix(lead) for method, name in store.log if method == "PUT"]
    last_wheel = max(number for number, name in enumerate(sent) if name.startswith("wheels/"))
    first_page = min(number for number, name in enumerate(sent) if not name.startswith("wheels/"))
    assert last_wheel < first_page and sent[-1] == "catalogue.json"
    assert not named(store) - set(store.objects), "a page names what is not there"
    kinds = {name: headers for name, (_, headers) in store.objects.items()}
    assert kinds[lead + "simple/torch/"]["content-type"].startswith("text/html")
    assert kinds[lead + "simple/torch/index.html"]["cache-control"] == "no-cache"
    (wheel,) = [name for name in kinds if name.endswith("2.1-cp310-cp310-linux_x86_64.whl")]
    assert "immutable" in kinds[wheel]["cache-control"] and len(kinds[wheel]["x-amz-meta-sha256"]) == 64
    before = len(store.log)
    again = api.index_sync(str(house), TARGET)
    assert again.sent == 0 and again.kept == done.sent
    assert {method for method, _ in store.log[before:]} == {"GET"}, "a second run only asks for the list"


def test_a_wheel_more_sends_what_changed_and_stale_pages_go(house: Path, store: TinyStore, tmp_path: Path) -> None:
    api.index_sync(str(house), TARGET)
    before = len(store.log)
    api.index_add(str(house), [str(make_wheel(tmp_path / "in", "other", "1.0"))])
    api.index_build(str(house))
    api.index_sync(str(house), TARGET)
    sent = {name for method, name in store.log[before:] if method == "PUT"}
    assert not any("torch" in name for name in sent)
    (record,) = house.glob("records/other/*.json")
    record.unlink()
    api.index_build(str(house))
    gone = api.index_sync(str(house), TARGET).removed
    assert "simple/other/index.html" in gone and "simple/other/" in gone
    assert any(name.endswith("other-1.0-py3-none-any.whl") for name in store.objects), "wheels stay"


def test_cut_at_any_request_no_page_names_what_is_missing_and_the_next_run_goes_on(
    house: Path, store: TinyStore
) -> None:
    api.index_sync(str(house), TARGET)
    whole, total = dict(store.objects), store.number
    for cut in range(2, total + 1, 3):
        store.objects.clear()
        store.number, store.drop_at = 0, cut
        for memory in house.glob(".site/sync-*.json"):
            memory.unlink()
        with pytest.raises(BadInput, match="does not answer"):
            api.index_sync(str(house), TARGET)
        there = set(store.objects)
        missing = {name for name in named(store) - there if name.endswith((".whl", ".metadata", ".json"))}
        assert not missing, f"cut at request {cut}"
        store.drop_at, store.log = None, []
        api.index_sync(str(house), TARGET)
        assert store.objects == whole
        assert not there & {name for method, name in store.log if method == "PUT"}, "what was there is not sent again"


def test_killed_in_the_middle_another_process_goes_on(house: Path, store: TinyStore) -> None:
    argv = [sys.executable, "-m", "rekindle", "index", "sync", TARGET, "--root", str(house), "-q"]
    import time

    process = subprocess.Popen(argv)
    while not any(method == "PUT" for method, _ in store.log) and process.poll() is None:
        time.sleep(0.002)
    process.kill()
    process.wait()
    there = set(store.objects)
    assert not {name for name in named(store) - there if name.endswith((".whl", ".metadata", ".json"))}
    assert subprocess.run(argv, timeout=60).returncode == 0
    assert "some/where/catalogue.json" in store.objects


def test_large_wheels_go_in_parts_and_a_cut_one_sends_only_the_rest(tmp_path: Path, store: TinyStore) -> None:
    path = tmp_path / "large.whl"
    path.write_bytes(bytes(range(256)) * 40)
    place = read_place(TARGET, None)
    client = ObjectStore(place, Credentials(key=KEY, secret=SECRET), part_bytes=4096)
    begun: list[str] = []
    store.drop_at = 4  # the upload is opened, two parts are in, the third is lost
    with pytest.raises(BadInput, match="does not answer"):
        client.put("large.whl", path, "ab" * 32, {}, began=begun.append)
    assert store.objects == {} and len(store.uploads[begun[0]][2]) == 2
    store.drop_at, store.log = None, []
    client.put("large.whl", path, "ab" * 32, {}, begun=begun[0])
    raw, headers = store.objects["some/where/large.whl"]
    assert raw == path.read_bytes() and headers["x-amz-meta-sha256"] == "ab" * 32
    assert [method for method, _ in store.log] == ["GET", "PUT", "POST"], "only the third part is sent"
    client.put("large.whl", path, "ab" * 32, {}, begun="forgotten by the store")
    assert store.objects["some/where/large.whl"][0] == path.read_bytes()
    client.close()


def test_a_store_that_is_busy_for_a_moment_is_asked_again(house: Path, store: TinyStore) -> None:
    store.busy = object_store.TRIES - 1
    assert api.index_sync(str(house), TARGET).sent > 0
    store.busy = object_store.TRIES
    with pytest.raises(BadInput, match="SlowDown"):
        api.index_sync(str(house), TARGET)


def test_a_damaged_wheel_stops_before_any_page(house: Path, store: TinyStore) -> None:
    wheel = next(house.glob("wheels/torch/*2.1*.whl"))
    wheel.write_bytes(wheel.read_bytes()[:-1] + b"?")
    with pytest.raises(BadInput, match="not what its record says"):
        api.index_sync(str(house), TARGET)
    assert not [name for name in store.objects if "2.1" in name or name.endswith(".html")]


def test_what_changed_in_the_store_is_put_right(house: Path, store: TinyStore) -> None:
    api.index_sync(str(house), TARGET)
    (wheel,) = [name for name in store.objects if name.endswith("2.1-cp310-cp310-linux_x86_64.whl")]
    good = store.objects[wheel]
    store.objects[wheel] = (good[0][:-1] + b"?", good[1])
    assert api.index_sync(str(house), TARGET).sent == 1
    assert store.objects[wheel] == good


def test_refusals_say_why_and_what_next(house: Path, store: TinyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadInput, match="no such bucket"):
        api.index_sync(str(house), "s3://nowhere/x")
    with pytest.raises(BadInput, match="names no bucket"):
        api.index_sync(str(house), "s3:///x")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-but-private")
    with pytest.raises(BadInput, match="SignatureDoesNotMatch") as told:
        api.index_sync(str(house), TARGET)
    assert "wrong-but-private" not in str(told.value) and "clock" in (told.value.remedy or "")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    with pytest.raises(BadInput, match="key is not known"):
        api.index_sync(str(house), TARGET)
    assert store.objects == {}
    with pytest.raises(BadInput, match="no address"):
        api.index_sync(str(house), TARGET, endpoint="ftp://x")


def test_a_store_that_refuses_says_so_before_the_house_is_read(house: Path, store: TinyStore) -> None:
    (house / "catalogue.json").unlink()
    with pytest.raises(BadInput, match="no such bucket"):
        api.index_sync(str(house), "s3://nowhere/x")


def test_places() -> None:
    assert read_place("s3://b/a/b/", "https://h:9000/") == StorePlace(
        endpoint="https://h:9000", bucket="b", prefix="a/b"
    )
    assert str(read_place("s3://b", "http://h")) == "s3://b"


def test_a_secret_is_never_shown() -> None:
    assert "hidden" not in repr(Credentials(key="K", secret="hidden", token="also hidden"))


def test_without_the_library_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "botocore", None)
    with pytest.raises(MissingTool, match="needs the package botocore") as told:
        ObjectStore(read_place(TARGET, "http://127.0.0.1:1"), Credentials(key="K", secret="S"))
    assert "rekindle-torch[s3]" in (told.value.remedy or "")
