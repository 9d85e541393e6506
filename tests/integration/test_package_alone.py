"""The package as it would be published: built, checked, installed into an empty environment, small, useful there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

import tiny_wheels

pytestmark = [pytest.mark.integration, pytest.mark.network]
ROOT = Path(__file__).resolve().parents[2]
MOST_BYTES = 25 << 20


def run(*argv: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(word) for word in argv], capture_output=True, text=True, cwd=cwd, timeout=600)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    done = run(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT)
    assert not done.returncode, done.stderr
    return out


def environment(folder: Path, package: Path) -> Path:
    assert not run(sys.executable, "-m", "venv", folder).returncode
    python = folder / "bin" / "python"
    done = run(python, "-m", "pip", "install", "--quiet", package)
    assert not done.returncode, done.stderr
    return python


@pytest.fixture(scope="module")
def base(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("base") / "with space", next(built.glob("*.whl")))


def test_twine_finds_nothing_wrong(built: Path) -> None:
    uv = shutil.which("uv") or str(Path(sys.executable).with_name("uv"))
    done = run(uv, "tool", "run", "twine", "check", "--strict", *built.iterdir())
    assert not done.returncode, done.stdout + done.stderr


def test_it_stays_small(base: Path) -> None:
    packages = next((base.parent.parent / "lib").glob("python3*/site-packages"))
    own = [path for path in packages.iterdir() if not path.name.startswith(("pip", "setuptools", "pkg_resources"))]
    files = [file for path in own for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    assert sum(file.stat().st_size for file in files) < MOST_BYTES


def test_what_the_base_does(base: Path, tmp_path: Path) -> None:
    """plan, doctor, explain (of a long log too), inspect and the installers' call need none of the extras."""
    log = tmp_path / "build.log"
    log.write_text("[1/2] Building\n" * 9000 + "nvcc fatal   : Unsupported gpu architecture 'compute_35'\n")
    wheel = tiny_wheels.make_wheel(tmp_path, "tiny", "1.0", files={"tiny/__init__.py": b""})
    rekindle = (base, "-m", "rekindle")
    planned = run(*rekindle, "plan", "--gpu", "GTX 1080", "--os", "linux", "--json")
    assert json.loads(planned.stdout)["answer"] == "install"
    assert json.loads(run(*rekindle, "doctor", "--json").stdout)["os"]
    assert "compute_35" in run(*rekindle, "explain", log).stdout
    assert run(*rekindle, "inspect", wheel).returncode == 0
    chosen = run(base, "-c", "from rekindle import api; print(api.choose_torch())", cwd=tmp_path)
    assert chosen.returncode == 0, chosen.stderr


def test_what_needs_more_says_what_to_install(base: Path, tmp_path: Path) -> None:
    done = run(base, "-m", "rekindle", "key", "new", "--name", "mine")
    assert done.returncode == 2
    assert "-m pip install cryptography" in done.stderr
    library = Path(str(msgspec._core.__file__))
    wheel = tiny_wheels.make_wheel(tmp_path, "tiny", "1.0", files={f"tiny/{library.name}": library.read_bytes()})
    own = run(base, "-m", "rekindle", "inspect", wheel)
    assert own.returncode == 0, own.stderr
    assert "CPU code was not read" in own.stdout


def test_the_source_archive_installs_too(built: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "sdist", next(built.glob("*.tar.gz")))
    assert run(python, "-m", "rekindle", "version").returncode == 0
