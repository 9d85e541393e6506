"""The cache of parsed tables: the same values, never stale, never in the way."""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest

from rekindle.facts import tables
from rekindle.facts.tables import HERE, parse_toml


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("table", sorted(path.stem for path in HERE.glob("*.toml")))
def test_first_and_second_reading_agree_with_tomllib(cache: Path, table: str) -> None:
    raw = (HERE / f"{table}.toml").read_bytes()
    truth = tomllib.loads(raw.decode())
    assert parse_toml(raw, table) == truth
    assert list(cache.rglob("*.msgpack"))
    assert parse_toml(raw, table) == truth


def test_a_change_is_seen_and_the_old_one_goes(cache: Path) -> None:
    assert parse_toml(b"a = 1", "x") == {"a": 1}
    assert parse_toml(b"a = 2", "x") == {"a": 2}
    assert len(list(cache.rglob("*.msgpack"))) == 1


@pytest.mark.parametrize("damage", [b"", b"\xc1", b"\x93\x01\x02\x03", b"\x81"])
def test_a_damaged_cache_is_read_past(cache: Path, damage: bytes) -> None:
    parse_toml(b"a = 1", "x")
    (kept,) = cache.rglob("*.msgpack")
    kept.write_bytes(damage)
    assert parse_toml(b"a = 1", "x") == {"a": 1}


def test_no_place_for_a_cache_is_no_reason_to_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "file"))
    assert parse_toml(b"a = 1", "x") == {"a": 1}


@pytest.mark.parametrize(
    ("system", "env", "folder"),
    [
        ("posix", {"XDG_CACHE_HOME": "{}/a/b"}, "a/b/rekindle/facts"),
        ("posix", {}, ".cache/rekindle/facts"),
        ("nt", {"LOCALAPPDATA": "{}/a/b"}, "a/b/rekindle/Cache/facts"),
        ("nt", {}, "AppData/Local/rekindle/Cache/facts"),
    ],
)
def test_the_cache_lies_where_the_system_keeps_caches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, system: str, env: dict[str, str], folder: str
) -> None:
    given = {name: value.format(tmp_path) for name, value in env.items()}
    monkeypatch.setattr(tables, "os", SimpleNamespace(name=system, environ=given, getpid=os.getpid))
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    parse_toml(b"a = 1", "x")
    (kept,) = tmp_path.rglob("*.msgpack")
    assert kept.parent == tmp_path / folder
