"""The store: all or nothing, whoever else writes and wherever it is cut short."""

from __future__ import annotations

import errno
import multiprocessing
import os
from pathlib import Path

import msgspec
import pytest

from rekindle import api
from rekindle.errors import BadInput, StageFailed
from rekindle.host import files
from rekindle.host.files import sha256_of
from rekindle.index.pages.site import build_site
from rekindle.index.wheelhouse import store
from rekindle.index.wheelhouse.store import Wheelhouse
from rekindle.model.document import encode
from rekindle.model.progress import Silent
from rekindle.model.verify import VerifyReport
from tiny_wheels import make_wheel


def _add(root: Path, *wheels: Path) -> list[str]:
    return [wheel.state for wheel in api.index_add(str(root), [str(w) for w in wheels]).wheels]


def test_add_keeps_wheel_metadata_and_record(tmp_path: Path) -> None:
    root = tmp_path / "häuser und mehr"
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    assert _add(root, wheel) == ["added"]
    stored = root / "wheels" / "tiny" / wheel.name
    assert stored.read_bytes() == wheel.read_bytes()
    assert b"Name: tiny" in stored.with_name(wheel.name + ".metadata").read_bytes()
    entry = Wheelhouse(root).entry(wheel.name)
    assert entry.tags == ("py3-none-any",) and entry.requires_python == ">=3.8"
    assert not list((root / ".incoming").iterdir())


def test_adding_again_is_no_change_and_other_bytes_are_refused(tmp_path: Path) -> None:
    root = tmp_path / "house"
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    assert _add(root, wheel) == ["added"]
    assert _add(root, wheel) == ["already"]
    other = make_wheel(tmp_path / "other", "tiny", "1.0", files={"tiny/__init__.py": b"other"})
    with pytest.raises(StageFailed, match="already has another"):
        _add(root, other)
    assert (root / "wheels" / "tiny" / wheel.name).read_bytes() == wheel.read_bytes()


def test_evidence_can_be_added_later(tmp_path: Path) -> None:
    root = tmp_path / "house"
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    _add(root, wheel)
    proof = tmp_path / "proof.json"
    about = VerifyReport(passed=3, environment={"cpu": "ivybridge"}, wheel_sha256=sha256_of(wheel))
    for wrong, words in ((None, "names no wheel"), ("0" * 64, "another file")):
        proof.write_bytes(encode(msgspec.structs.replace(about, wheel_sha256=wrong)))
        with pytest.raises(BadInput, match=words):
            api.index_add(str(root), [str(wheel)], proofs=[str(proof)])
    proof.write_bytes(encode(about))
    for state in ("updated", "already"):
        answer = api.index_add(str(root), [str(wheel)], proofs=[str(proof)])
        assert answer.wheels[0].state == state
    assert [p.passed for p in Wheelhouse(root).entry(wheel.name).proofs] == [3]


def test_a_build_json_about_other_bytes_is_refused(tmp_path: Path) -> None:
    from rekindle.model.build import BuildResult
    from rekindle.model.plan import Plan

    wheel = make_wheel(tmp_path, "tiny", "1.0")
    built = BuildResult(
        project="torch", wheel=wheel.name, wheel_sha256="0" * 64, plan=Plan(answer="build"), plan_digest="d"
    )
    (tmp_path / "build.json").write_bytes(encode(built))
    with pytest.raises(BadInput, match="is not the file that"):
        _add(tmp_path / "house", wheel)
    assert not (tmp_path / "house" / "records").exists()


def _adder(root: str, wheel: str) -> None:
    api.index_add(root, [wheel])
    api.index_build(root)


def test_many_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    root = tmp_path / "house"
    wheels = [make_wheel(tmp_path / "in", "tiny", f"1.{number}") for number in range(6)]
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_adder, args=(str(root), str(wheel))) for wheel in wheels]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0] * 6
    assert api.index_build(str(root)).wheels == 6
    page = (root / "simple" / "tiny" / "index.html").read_text()
    assert all(wheel.name in page for wheel in wheels)


class _Killed(BaseException):
    """Stands for a power cut: nothing after it runs but what the interpreter must."""


def test_cut_short_at_every_write_the_wheel_is_in_or_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    real = files.write_atomically
    for cut in range(4):
        root = tmp_path / f"house{cut}"
        calls = 0

        def dying(path: Path, content: bytes | str, *, cut: int = cut) -> None:
            nonlocal calls
            if calls == cut:
                raise _Killed
            calls += 1
            real(path, content)

        monkeypatch.setattr(store, "write_atomically", dying)
        try:
            _add(root, wheel)
        except _Killed:
            assert api.index_build(str(root)).wheels == 0 if (root / "records").exists() else True
        monkeypatch.setattr(store, "write_atomically", real)
        assert _add(root, wheel)[0] in ("added", "already")
        assert build_site(Wheelhouse(root), progress=Silent()).wheels == 1


def test_a_full_disk_is_told_and_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "house"
    first, second = make_wheel(tmp_path, "tiny", "1.0"), make_wheel(tmp_path, "tiny", "2.0")
    _add(root, first)
    before = sorted(path for path in root.rglob("*") if path.is_file())

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("rekindle.index.wheelhouse.store.os.fsync", full)
    with pytest.raises(BadInput, match="No space left"):
        _add(root, second)
    assert sorted(path for path in root.rglob("*") if path.is_file()) == before


def test_a_root_that_is_a_file_or_missing_wheel(tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(BadInput, match="cannot write"):
        _add(blocked, wheel)
    with pytest.raises(BadInput, match="cannot read"):
        _add(tmp_path / "house", tmp_path / "gone-1.0-py3-none-any.whl")


def test_yank_and_unyank(tmp_path: Path) -> None:
    root = tmp_path / "house"
    wheel = make_wheel(tmp_path, "tiny", "1.0")
    _add(root, wheel)
    api.index_yank(str(root), wheel.name, 'bad <"kernel">')
    api.index_build(str(root))
    page = (root / "simple" / "tiny" / "index.html").read_text()
    assert 'data-yanked="bad &lt;&quot;kernel&quot;&gt;"' in page and '<"kernel">' not in page
    api.index_yank(str(root), wheel.name, None)
    api.index_build(str(root))
    assert "data-yanked" not in (root / "simple" / "tiny" / "index.html").read_text()
    with pytest.raises(BadInput):
        api.index_yank(str(root), "../../etc/passwd", "")
