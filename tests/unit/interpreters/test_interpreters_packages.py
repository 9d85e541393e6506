"""What an interpreter holds, asked of a real environment; and that nothing of it is imported or run."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

import needs
from bare_host import BareHost
from rekindle.errors import BadInput
from rekindle.host.live import LiveHost
from rekindle.host.protocol import Completed
from rekindle.interpreters.environment import python_of
from rekindle.interpreters.packages import Contents, ask_contents, look_into
from tiny_wheels import make_wheel


@pytest.fixture
def python(tmp_path: Path) -> str:
    """An environment with a torch of which any part that ran would leave a mark."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    mark = f"open({str(tmp_path / 'ran')!r}, 'w')\n"
    files = {
        "torch/__init__.py": mark.encode(),
        "torch/version.py": f"{mark}__version__ = '2.6.0+cu124'\ncuda: str = '12.4'\nhip = None\n".encode(),
    }
    wheel = make_wheel(tmp_path, "torch", "2.6.0", files=files, metadata="Requires-Dist: filelock>=3\n")
    exe = str(python_of(tmp_path / "env"))
    pip = [sys.executable, "-m", "pip", "--python", exe, "install", "-q", "--no-index", "--no-deps"]
    subprocess.run([*pip, str(wheel)], check=True)
    return exe


@needs.venv()
def test_packages_with_their_notes(python: str, tmp_path: Path) -> None:
    held = ask_contents(LiveHost(), python)
    assert held.versions == {"torch": "2.6.0"}
    (torch,) = held.packages
    assert torch.asked and torch.installer == "pip" and torch.when > 0 and torch.requires == ("filelock>=3",)
    assert (torch.url or "").startswith("file://") and len(torch.record) == 64
    assert Path(torch.folder, "torch/version.py").is_file()
    assert held.torch == {"__version__": "2.6.0+cu124", "cuda": "12.4", "hip": None}
    assert not (tmp_path / "ran").exists()


@needs.venv()
def test_a_changed_file_is_another_state_where_files_were_asked_for(python: str, tmp_path: Path) -> None:
    before, quick = look_into(LiveHost(), python), ask_contents(LiveHost(), python)
    assert before.fingerprint == look_into(LiveHost(), python).fingerprint
    next((tmp_path / "env").rglob("torch/__init__.py")).write_text("x = 1\n")
    assert look_into(LiveHost(), python).fingerprint != before.fingerprint
    assert ask_contents(LiveHost(), python) == quick


def test_what_is_no_python_holds_nothing_and_says_so() -> None:
    assert look_into(LiveHost(), "/nowhere/python") == Contents()
    with pytest.raises(BadInput, match="/nowhere/python does not tell what it holds"):
        ask_contents(LiveHost(), "/nowhere/python")


def test_only_what_is_its_own_unless_asked_otherwise() -> None:
    asked: list[Sequence[str]] = []

    class Host(BareHost):
        def run(self, argv: Sequence[str], *, timeout: float = 5.0, env: object = None) -> Completed:
            asked.append(argv)
            return Completed(argv=tuple(argv), code=0, out='{"packages": []}')

    ask_contents(Host(), "py")
    ask_contents(Host(), "py", isolated=False, files=True)
    assert asked[0][:3] == ["py", "-I", "-c"] and asked[0][-1] != "files"
    assert asked[1][:2] == ["py", "-c"] and asked[1][-1] == "files"
