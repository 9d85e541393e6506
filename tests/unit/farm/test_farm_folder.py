"""A farm's folder: sccache's own forms, secrets that stay, tokens as sccache-dist makes them, lines pasted whole."""

from __future__ import annotations

import os
import stat
import tomllib
from pathlib import Path

import pytest

from rekindle.errors import BadInput
from rekindle.farm import folder as farms
from rekindle.farm.folder import FarmSecrets, InvitationText
from rekindle.host import files
from rekindle.model.farm import Farm, FarmFolder, FarmWorker
from rekindle.toolkits.sccache import farm_at, load_farm

KEY = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8"
HIDDEN = FarmSecrets(server_key=KEY, client_token="the-client-token")
FARM = Farm(scheduler="http://192.168.1.10:10600", workers=(FarmWorker(name="a", address="192.168.1.11:10501"),))
# As 'sccache-dist auth generate-jwt-hs256-server-token' of 0.16.0 writes them for this key.
TOKENS = {
    "192.168.1.11:10501": "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9"
    ".eyJleHAiOjAsInNlcnZlcl9pZCI6IjE5Mi4xNjguMS4xMToxMDUwMSJ9"
    ".ZPB-Do6D-rGZvkZqoW6NiCDe81tLUcRMdNMLhcWmv18",
    "[fd00::1]:10501": "eyJ0eXAiOiJKV1QiLCJhbGciOiJIUzI1NiJ9.eyJleHAiOjAsInNlcnZlcl9pZCI6IltmZDAwOjoxXToxMDUwMSJ9"
    ".qJNPk8zM5HJQ9ybtP-kVsXIV7MCV2wDMAEfmaZWWS74",
}


@pytest.mark.parametrize("address", TOKENS)
def test_a_workers_token_is_sccaches_own(address: str) -> None:
    assert farms.worker_token(KEY, address) == TOKENS[address]


def test_the_files_are_what_sccache_reads(tmp_path: Path) -> None:
    place = FarmFolder(tmp_path / "farm")
    farms.write_files(farms.scheduler_files(place, FARM, "192.168.1.10:10600", HIDDEN))
    assert tomllib.loads(place.scheduler.read_text()) == {
        "public_addr": "192.168.1.10:10600",
        "client_auth": {"type": "token", "token": "the-client-token"},
        "server_auth": {"type": "jwt_hs256", "secret_key": KEY},
    }
    assert tomllib.loads(place.client.read_text()) == {
        "dist": {"scheduler_url": FARM.scheduler, "auth": {"type": "token", "token": "the-client-token"}}
    }
    assert load_farm(place) == FARM
    assert farms.load_secrets(place) == HIDDEN


def test_a_workers_file_is_what_sccache_reads(tmp_path: Path) -> None:
    invited = InvitationText(scheduler="http://s:1", address="127.0.0.1:2", token="tok", machine="x86_64")
    text = farms.server_text(invited, scratch=tmp_path, bubblewrap="/bin/bwrap", cache_bytes=9)
    assert tomllib.loads(text) == {
        "public_addr": "127.0.0.1:2",
        "scheduler_url": "http://s:1",
        "cache_dir": str(tmp_path / "toolchains"),
        "toolchain_cache_size": 9,
        "builder": {"type": "overlay", "build_dir": str(tmp_path / "build"), "bwrap_path": "/bin/bwrap"},
        "scheduler_auth": {"type": "jwt_token", "token": "tok"},
    }


@pytest.mark.skipif(os.name == "nt", reason="modes of POSIX")
def test_only_the_owner_reads_them(tmp_path: Path) -> None:
    place = FarmFolder(tmp_path / "farm")
    before = os.umask(0)
    try:
        farms.write_files(farms.scheduler_files(place, FARM, "127.0.0.1:1", HIDDEN))
    finally:
        os.umask(before)
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.root.iterdir()} == {0o600}
    assert stat.S_IMODE(place.root.stat().st_mode) == 0o700


def test_what_is_the_same_is_not_written_again(tmp_path: Path) -> None:
    wanted = farms.scheduler_files(FarmFolder(tmp_path), FARM, "127.0.0.1:1", HIDDEN)
    assert set(farms.write_files(wanted)) == {"scheduler.conf", "client.conf", "farm.toml"}
    assert farms.write_files(wanted) == ()
    (tmp_path / "client.conf").unlink()
    assert farms.write_files(wanted) == ("client.conf",)


@pytest.mark.parametrize("survivors", range(4))
def test_a_kill_between_two_files_loses_no_secret(
    tmp_path: Path, survivors: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full, or we are killed, after each number of files: what is there is whole, the next run mends it."""
    place = FarmFolder(tmp_path / "farm")
    wanted = farms.scheduler_files(place, FARM, "127.0.0.1:1", HIDDEN)
    done: list[Path] = []
    real = files.rename_patiently

    def fail_later(temporary: Path, path: Path) -> None:
        if len(done) == survivors:
            raise OSError(28, "No space left on device")
        done.append(path)
        real(temporary, path)

    monkeypatch.setattr(files, "rename_patiently", fail_later)
    if survivors < len(wanted):
        with pytest.raises(OSError, match="No space"):
            farms.write_files(wanted)
    else:
        farms.write_files(wanted)
    monkeypatch.undo()
    left = sorted(path.name for path in place.root.iterdir())
    assert left == sorted(path.name for path in done), "half of a file was left"
    hidden = farms.load_secrets(place)
    assert hidden == (HIDDEN if survivors else None)
    again = farms.scheduler_files(place, FARM, "127.0.0.1:1", hidden or farms.new_secrets())
    farms.write_files(again)
    assert load_farm(place) == FARM
    assert tomllib.loads(place.client.read_text())["dist"]["auth"]["token"] == again[place.client].split('"')[-2]


def test_new_secrets_are_long_and_never_the_same() -> None:
    first, second = farms.new_secrets(), farms.new_secrets()
    assert first.server_key != second.server_key and first.client_token != second.client_token
    assert first.server_key != first.client_token
    assert {len(farms._unbase64(word)) for word in (first.server_key, first.client_token)} == {32}


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("dir:/shared/cache", {"disk": {"dir": "/shared/cache"}}),
        ("redis://10.0.0.2:6379", {"redis": {"endpoint": "redis://10.0.0.2:6379", "key_prefix": ""}}),
        (
            "rediss://me:p%40ss@cache.lan/torch",
            {
                "redis": {
                    "endpoint": "rediss://cache.lan",
                    "key_prefix": "torch",
                    "username": "me",
                    "password": "p@ss",
                }
            },
        ),
        (
            "s3://wheels/torch?region=eu-west-1&endpoint=minio.lan:9000&use_ssl=false",
            {
                "s3": {
                    "bucket": "wheels",
                    "key_prefix": "torch",
                    "no_credentials": False,
                    "region": "eu-west-1",
                    "endpoint": "minio.lan:9000",
                    "use_ssl": False,
                }
            },
        ),
    ],
)
def test_caches_as_sccache_spells_them(text: str, settings: dict[str, object]) -> None:
    if os.name == "nt" and text.startswith("dir:"):
        pytest.skip("a path of POSIX")
    assert farms.cache_settings(text) == settings
    farm = Farm(scheduler="http://h:1", cache=text)
    assert tomllib.loads(farms.client_text(farm, "t"))["cache"] == settings


@pytest.mark.parametrize("text", ["", "dir:", "redis://", "s3://", "ftp://x", "s3://b/p?colour=red"])
def test_no_such_cache(text: str) -> None:
    with pytest.raises(BadInput):
        farms.cache_settings(text)


def test_an_invitation_comes_back_whole() -> None:
    text = InvitationText(scheduler="http://h:1", token="t", machine="x86_64", address="1.2.3.4:5", cache="dir:/c")
    written = farms.write_invitation(text)
    assert (written.kind, written.address) == ("worker", "1.2.3.4:5")
    assert " " not in written.line
    assert farms.read_invitation(f"  {written.line}\n") == text
    builder = InvitationText(scheduler="http://h:1", token="t", machine="x86_64")
    assert farms.write_invitation(builder).kind == "client"


def test_half_an_invitation_is_refused() -> None:
    line = farms.write_invitation(InvitationText(scheduler="http://h:1", token="t", machine="m")).line
    for cut in range(len(line)):
        with pytest.raises(BadInput, match=r"whole|no invitation"):
            farms.read_invitation(line[:cut])
    for at in range(8, len(line)):
        other = "A" if line[at] != "A" else "B"
        with pytest.raises(BadInput):
            farms.read_invitation(line[:at] + other + line[at + 1 :])


@pytest.mark.parametrize("damage", ["", "public_addr = 3", "= =", '[server_auth]\nsecret_key = "x"'])
def test_damaged_secrets_are_said_and_not_replaced(tmp_path: Path, damage: str) -> None:
    place = FarmFolder(tmp_path)
    place.scheduler.write_text(damage)
    with pytest.raises(BadInput) as caught:
        farms.load_secrets(place)
    assert "forget" in (caught.value.remedy or "")
    assert place.scheduler.read_text() == damage


def test_the_folder_that_is_meant(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REKINDLE_FARM", str(tmp_path / "named"))
    assert farm_at(None).root == tmp_path / "named"
    assert farm_at(tmp_path / "given").root == tmp_path / "given"
    monkeypatch.delenv("REKINDLE_FARM")
    assert farm_at(None).root.name == "farm"


def test_no_farm_there(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no farm"):
        load_farm(FarmFolder(tmp_path))
    (tmp_path / "farm.toml").write_text("scheduler = 3\n")
    with pytest.raises(BadInput, match="is no farm"):
        load_farm(FarmFolder(tmp_path))


def test_a_farm_s_folder_may_be_deep(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "c"
    assert farms.write_files({place / "one": "1", place / "two": "2"}) == ("one", "two")
    assert (place / "one").read_text() == "1" and farms.write_files({place / "one": "1"}) == ()


def test_settings_that_are_not_there_or_too_large(tmp_path: Path) -> None:
    assert farms.read_settings(tmp_path / "none") == {} == farms.read_settings(tmp_path)
    file = tmp_path / "x.conf"
    file.write_bytes(b"a = 1\n".ljust(1 << 20))
    assert farms.read_settings(file) == {"a": 1}
    file.write_bytes(b"a = 1\n".ljust((1 << 20) + 1))
    with pytest.raises(BadInput):
        farms.read_settings(file)
    for damage in (b"\xff", b"a = = 1"):
        file.write_bytes(damage)
        with pytest.raises(BadInput, match="is damaged") as caught:
            farms.read_settings(file)
        assert "rekindle farm down --forget" in (caught.value.remedy or "")


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("redis://me@h/a/b/", {"redis": {"endpoint": "redis://h", "key_prefix": "a/b"}}),
        ("redis://:p@h", {"redis": {"endpoint": "redis://h", "key_prefix": "", "username": None, "password": "p"}}),
        ("s3://b", {"s3": {"bucket": "b", "key_prefix": "", "no_credentials": False}}),
        (
            "s3://b/?use_ssl=true&region=x&region=y",
            {"s3": {"bucket": "b", "key_prefix": "", "no_credentials": False, "use_ssl": True, "region": "y"}},
        ),
    ],
)
def test_less_usual_caches(text: str, settings: dict[str, object]) -> None:
    assert farms.cache_settings(text) == settings


def test_a_cache_s_folder_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert farms.cache_settings("dir:a%20b") == {"disk": {"dir": str(tmp_path / "a b")}}
    with pytest.raises(BadInput, match="s3:// knows no 'colour'") as refused:
        farms.cache_settings("s3://b?zoom=1&colour=2")
    assert refused.value.remedy == "region, endpoint, use_ssl"


def test_own_secrets_come_before_new_ones(tmp_path: Path) -> None:
    place = FarmFolder(tmp_path)
    first = farms.scheduler_files(place, FARM, "127.0.0.1:1")
    assert farms.scheduler_files(place, FARM, "127.0.0.1:1") != first, "none are there yet"
    farms.write_files(first)
    assert farms.scheduler_files(place, FARM, "127.0.0.1:1") == first
    assert farms.scheduler_files(place, FARM, "127.0.0.1:1", HIDDEN) != first
