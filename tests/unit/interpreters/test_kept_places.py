"""An environment that was changed becomes what it was, byte for byte, whenever a kill came."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from rekindle.errors import NotReady
from rekindle.interpreters import kept_places
from rekindle.interpreters.kept_places import KeptPlaces


def state_of(folder: Path) -> dict[str, tuple[int, bytes | str]]:
    """Every file with its mode and bytes, every link with its goal, every folder."""
    found: dict[str, tuple[int, bytes | str]] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if path.is_symlink():
            found[name] = (0, os.readlink(path))
        else:
            found[name] = (path.stat().st_mode, path.read_bytes() if path.is_file() else "folder")
    return found


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """An application: an environment, and files outside it."""
    app = tmp_path / "my app"
    (app / "venv/lib/torch").mkdir(parents=True)
    (app / "venv/bin").mkdir()
    (app / "venv/bin/python").symlink_to("/usr/bin/python3")
    (app / "venv/lib64").symlink_to("lib")
    (app / "venv/lib/torch/__init__.py").write_text("old", encoding="utf-8")
    (app / "webui-user.sh").write_text("#!/bin/sh\n", encoding="utf-8")
    (app / "webui-user.sh").chmod(0o755)
    (app / "nodes/old").mkdir(parents=True)
    (app / "empty").mkdir()
    return app


def change(app: Path, kept: KeptPlaces) -> None:
    moves = ((str(app / "nodes/old"), str(app / "nodes/old.disabled")),)
    texts: dict[Path, str | bytes] = {
        app / "webui-user.sh": "#!/bin/sh\nexport A=1\n",
        app / "user/lists/of pip": "torch\n",
        app / "empty/list": "torch\n",
        app / "venv/pip.conf": "[global]\n",
    }
    kept.change_files(texts, moves)
    shutil.rmtree(app / "venv/lib/torch")
    (app / "venv/lib/torch").mkdir()
    (app / "venv/lib/torch/__init__.py").write_text("new", encoding="utf-8")


def adopt(app: Path) -> KeptPlaces:
    kept = KeptPlaces([app / "venv"])
    kept.keep()
    change(app, kept)
    kept.settle({}, KeptPlaces(kept.places, "-again"))
    return kept


def test_everything_returns(app: Path) -> None:
    before = state_of(app)
    kept = adopt(app)
    assert (app / "webui-user.sh").stat().st_mode & 0o777 == 0o755
    assert KeptPlaces([app / "venv"]).recover() is False, "an adoption that ended stays"
    assert state_of(app) != before
    KeptPlaces(kept.places).restore()
    assert state_of(app) == before
    assert kept.record is None and kept.recover() is False
    kept.restore()
    assert state_of(app) == before


class Killed(BaseException):
    """As a kill: nothing of ours catches it."""


def kill_at(moment: int, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Let the process die before its so-many-th step on the disk; how many steps there were."""
    steps = 0

    def count(function: Callable[..., object]) -> Callable[..., object]:
        def step(*words: object, **more: object) -> object:
            nonlocal steps
            steps += 1
            if steps == moment:
                raise Killed
            return function(*words, **more)

        return step

    for name in ("rename_patiently", "write_atomically", "_link"):
        monkeypatch.setattr(kept_places, name, count(getattr(kept_places, name)))
    return lambda: steps


@pytest.mark.parametrize("moment", range(1, 12))
def test_a_kill_at_any_moment_of_the_change_leaves_what_was_before(
    app: Path, moment: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state_of(app)
    with monkeypatch.context() as patched:
        steps = kill_at(moment, patched)
        with contextlib.suppress(Killed):
            adopt(app)
        cut_short = steps() == moment
    again = KeptPlaces([app / "venv"])
    again.recover() if cut_short else again.restore()
    assert state_of(app) == before


@pytest.mark.parametrize("moment", range(1, 8))
def test_an_undo_that_was_cut_short_goes_on(app: Path, moment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    before = state_of(app)
    kept = adopt(app)
    with monkeypatch.context() as patched:
        kill_at(moment, patched)
        with contextlib.suppress(Killed):
            kept.restore()
    KeptPlaces([app / "venv"]).restore()
    assert state_of(app) == before


def test_a_place_that_cannot_hold_the_copy_is_refused_and_left_alone(
    app: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = state_of(app)

    def full(*_words: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(kept_places, "_link", full)
    with pytest.raises(NotReady, match="No space left"):
        KeptPlaces([app / "venv"]).keep()
    assert state_of(app) == before
