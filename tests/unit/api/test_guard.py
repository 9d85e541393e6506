"""A real pip replaces a torch in a real environment; the guard must notice it and name who did it."""

import subprocess
import sys
from pathlib import Path

import pytest

import needs
from rekindle import api
from rekindle.cli.main import main
from rekindle.compat.replaced import find_replaced, same_build
from rekindle.errors import BadInput
from rekindle.model.guard import PackageRecord
from tiny_wheels import make_wheel


def record(name: str, version: str, **more: object) -> PackageRecord:
    return PackageRecord(name=name, version=version, installer="pip", **more)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """An environment with torch 2.6.0+cpu, and a folder of wheels of which one wants another torch."""
    root = tmp_path_factory.mktemp("guard place")
    wheels = root / "wheels"
    make_wheel(wheels, "torch", "2.6.0+cpu")
    make_wheel(wheels, "torch", "2.9.1")
    make_wheel(wheels, "pickyformers", "0.0.33", metadata="Requires-Dist: torch==2.9.1\n")
    make_wheel(wheels, "easyformers", "1.0", metadata="Requires-Dist: torch>=2.0\n")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(root / "env")], check=True)
    python = str(root / "env" / ("Scripts" if sys.platform == "win32" else "bin") / "python")
    return python, wheels


def install(python: str, wheels: Path, *words: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "pip", "--python", python, "install", "--no-index", "-f", str(wheels), *words]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@needs.venv()
def test_pip_replaces_torch_and_the_guard_names_who(
    environment: tuple[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    python, wheels = environment
    assert install(python, wheels, "torch==2.6.0+cpu", "easyformers").returncode == 0
    assert api.guard(python=python).kept is None
    recorded = api.guard(python=python, record=True)
    assert recorded.expected == {"torch": "2.6.0+cpu"}
    assert api.guard(python=python).good

    # The lock holds: with the constraints pip refuses what would replace it.
    refused = install(python, wheels, "-c", str(recorded.kept), "pickyformers")
    assert refused.returncode != 0
    assert api.guard(python=python).good

    # Without it pip replaces it, and says nothing that anybody reads.
    assert install(python, wheels, "pickyformers").returncode == 0
    report = api.guard(python=python)
    (one,) = report.replaced
    assert (one.was, one.now) == ("2.6.0+cpu", "2.9.1")
    assert [(who.name, who.certain) for who in one.culprits] == [("pickyformers", True)]
    assert "takes only torch==2.9.1" in one.why
    assert "torch==2.6.0+cpu" in one.restore[0]
    assert "https://download.pytorch.org/whl/cpu" in one.restore[0]
    assert main(["guard", "--python", python]) == 1
    assert "pickyformers 0.0.33" in capsys.readouterr().out

    # What it says restores it, but for the index, which is a folder here.
    restored = install(python, wheels, "--force-reinstall", "--no-deps", "torch==2.6.0+cpu")
    assert restored.returncode == 0
    assert api.guard(python=python).good


@needs.venv()
def test_edited_files_and_another_build_of_the_same_version_are_noticed(
    environment: tuple[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python, wheels = environment
    for kind in ("cu126", "cpu"):
        make_wheel(tmp_path / kind, "torch", "2.10.0", files={"torch/__init__.py": f"kind = {kind!r}\n".encode()})
    assert install(python, wheels, "--no-deps", str(next((tmp_path / "cu126").glob("*.whl")))).returncode == 0
    assert api.guard(python=python, record=True).good
    assert api.guard(python=python).good

    again = str(next((tmp_path / "cu126").glob("*.whl")))
    assert install(python, wheels, "--no-deps", "--force-reinstall", "--no-compile", again).returncode == 0
    assert api.guard(python=python).good, "the same wheel again is what was meant"

    other = str(next((tmp_path / "cpu").glob("*.whl")))
    assert install(python, wheels, "--no-deps", "--force-reinstall", other).returncode == 0
    (one,) = api.guard(python=python).replaced
    assert one.was == one.now == "2.10.0" and "another build" in one.why and "by pip" in one.why

    bare = tmp_path / "pins.txt"
    bare.write_text("torch==2.10.0\n", encoding="utf-8")
    assert api.guard(python=python, keep=bare).good, "a plain pin says nothing about builds"
    edited = next(Path(python).parents[1].rglob("torch/__init__.py"))
    edited.write_text("kind = 'mine'\n", encoding="utf-8")
    (one,) = api.guard(python=python, keep=bare).replaced
    assert "torch/__init__.py" in one.why
    assert main(["guard", "--python", python]) == 1
    assert "torch 2.10.0 → other files" in capsys.readouterr().out
    assert api.guard(python=python, record=True).good
    assert api.guard(python=python).good, "what was recorded is what was meant, edited or not"
    edited.unlink()
    assert not api.guard(python=python).good


def test_one_that_merely_came_along_is_not_called_certain() -> None:
    records = [record("torch", "2.9.1", when=100.0), record("loose", "1", when=101.0, asked=True, requires=("torch",))]
    (one,) = find_replaced({"torch": "2.6.0"}, records)
    assert [who.certain for who in one.culprits] == [False]
    assert "same run" in one.why


def test_one_from_another_day_is_not_blamed() -> None:
    records = [record("torch", "2.9.1", when=1e6), record("loose", "1", when=1.0, asked=True, requires=("torch",))]
    (one,) = find_replaced({"torch": "2.6.0"}, records)
    assert one.culprits == ()


def test_an_extra_nobody_asked_for_is_not_blamed() -> None:
    picky = record("picky", "1", when=2.0, asked=True, requires=("torch==2.9.1; extra == 'all'",))
    (one,) = find_replaced({"torch": "2.6.0"}, [record("torch", "2.9.1", when=1.0), picky])
    assert one.culprits == ()


def test_asked_for_by_name_and_gone() -> None:
    (one,) = find_replaced({"torch": "2.6.0"}, [record("torch", "2.9.1", asked=True)])
    assert "asked for by name" in one.why
    (gone,) = find_replaced({"torch": "2.6.0"}, [])
    assert gone.now is None


@pytest.mark.parametrize(
    ("was", "now", "same"),
    [
        ("2.6.0+cu124", "2.6.0+cu124", True),
        ("2.6.0+cu124", "2.6.0", False),
        ("2.6.0", "2.6.0+cu124", True),
        ("2.6.0", "2.6.1", False),
        ("odd", "odd", True),
    ],
)
def test_same_build(was: str, now: str, same: bool) -> None:
    assert same_build(was, now) is same


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="there is no"):
        api.guard(python=sys.executable, keep=tmp_path / "none.txt")
    empty = tmp_path / "empty.txt"
    empty.write_text("# nothing\n", encoding="utf-8")
    with pytest.raises(BadInput, match="names no version"):
        api.guard(python=sys.executable, keep=empty)
    empty.write_text("#" * (1 << 20) + "\ntorch==2.6.0\n", encoding="utf-8")
    with pytest.raises(BadInput, match="names no version"):
        api.guard(python=sys.executable, keep=empty)
    with pytest.raises(BadInput, match="does not tell"):
        api.guard(python=str(tmp_path / "no-python"))
